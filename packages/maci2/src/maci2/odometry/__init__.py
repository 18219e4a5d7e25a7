"""Visual-inertial odometry: from the first window on, states with covariance at every image."""

from maci2.estimator.smoother import FixedLagSmoother, SmootherConfig
from maci2.odometry.track import track
from maci2.odometry.tracked import Health, Origin, Track, TrackedState

__all__ = [
    "FixedLagSmoother",
    "Health",
    "Origin",
    "SmootherConfig",
    "Track",
    "TrackedState",
    "track",
]
