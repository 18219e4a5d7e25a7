"""Solution of a window with the stated constants of the rig as unknowns.

Extrinsics, the scale of vision and the time offset become unknowns of the joint problem, beside
gravity and biases, and the solution that believed them is where it begins: a few steps more.
"""

from typing import NamedTuple

from maci2.estimator.config import SolverConfig
from maci2.estimator.factors import Spans
from maci2.estimator.initialize import CLOCK_STD_S, solve_with_free_constants
from maci2.estimator.results import Posterior, VIState
from maci2.imu import ImuMeasurements
from maci2.types import Array
from maci2.vision import RelativePoses


class MeasuredScale(NamedTuple):
    """Ratio of true to measured translation, from accelerations."""

    scale: float
    std: float


class FreedOffset(NamedTuple):
    """Posterior of t_imu minus the time of the keyframes [s]; its prior is narrow."""

    offset_s: float
    std_s: float

    def measured(self) -> tuple[float, float] | None:
        """Offset and variance [s^2] from the measurements alone; None if undetermined."""
        shown = 1.0 - (self.std_s / CLOCK_STD_S) ** 2
        return (self.offset_s / shown, self.std_s**2 / shown) if shown > 0.0 else None


class FreedConstants(NamedTuple):
    """Solution of a window with free constants."""

    state: VIState
    """State with the estimated extrinsics."""

    posterior: Posterior
    """Covariance of gravity and velocities with unknown constants."""

    scale: MeasuredScale
    offset: FreedOffset
    dof: int
    inflation: float
    """Factor on the stated covariances that explains the residuals; 1 if the stated ones do."""

    T_stated: Array
    """Extrinsics as stated."""

    std_scale: float
    """Stated standard deviation of the scale of vision."""

    solves: int
    """Runs of the optimizer."""


def free_constants(
    imu: ImuMeasurements,
    vision: RelativePoses,
    state: VIState,
    config: SolverConfig,
    spans: Spans | None = None,
) -> FreedConstants | None:
    """Solve a window again with free constants; None if it has too little information.

    A scale with a stated spread keeps it. `spans` are its integrated samples, if at hand.
    """
    freed, posterior, report = solve_with_free_constants(imu, vision, state, config, spans)
    if posterior is None or not report.converged:
        return None
    return FreedConstants(
        freed,
        posterior,
        MeasuredScale(report.scale or 1.0, report.std_scale or 0.0),
        FreedOffset(report.time_offset_s or 0.0, report.std_time_offset_s or 0.0),
        report.dof,
        report.inflation,
        state.T_b_c,
        vision.std_scale,
        report.solves,
    )
