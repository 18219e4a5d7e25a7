"""Feature tracks of a camera whose motion is known."""

import numpy as np

from helpers import exact_window
from maci2.feature_tracks.simulated_tracks import SimulatedTracker
from maci2.sensors import GroundTruth
from maci2.vision.two_frame import PinholePair


def moving_camera(seed=0, pixel_std=0.5):
    """A handheld camera of ten keyframes and its tracker."""
    truth = exact_window("handheld", "midpoint", seed).truth
    nothing = np.zeros((len(truth.stamps_ns), 3))
    camera = PinholePair(460.0, (375.5, 239.5), 0.11)
    tracker = SimulatedTracker(camera, (752, 480), truth.T_b_c, pixel_std, (1.5, 8.0))
    moved = GroundTruth(truth.stamps_ns, truth.Ts_c0_b, nothing, nothing, nothing, "c0")
    return tracker, moved
