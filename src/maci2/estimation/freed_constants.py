"""What a window says where nothing that was stated of the rig is believed.

Extrinsics, the scale of vision and the time offset become unknowns of the joint problem, beside
gravity and biases, and the solution that believed them is where it begins: a few steps more.
"""

from dataclasses import replace
from typing import NamedTuple

from maci2.estimation.config import SolverConfig
from maci2.estimation.problem import Variables
from maci2.estimation.results import Posterior, VIState
from maci2.estimation.solve import solve
from maci2.imu import ImuMeasurements, Preintegrated, preintegrate
from maci2.types import Array
from maci2.vision import RelativePoses


class MeasuredScale(NamedTuple):
    """True translation over the measured one, as accelerations show it."""

    scale: float
    std: float


class MeasuredOffset(NamedTuple):
    """Timestamp on the IMU's clock less that of the keyframes [s]."""

    offset_s: float
    std_s: float


class FreedConstants(NamedTuple):
    """Solution of a window with the constants that fit best."""

    state: VIState
    """Solution with the extrinsics that fit best."""

    posterior: Posterior
    """Its covariance: of gravity and velocities where nothing that was stated is believed."""

    scale: MeasuredScale
    offset: MeasuredOffset
    dof: int
    inflation: float
    """Factor on the stated covariances that fits the residuals; 1 where they fit as stated."""

    T_stated: Array
    """Extrinsics as stated."""

    std_scale: float
    """Stated spread of vision's scale."""


def free_constants(
    imu: ImuMeasurements,
    vision: RelativePoses,
    state: VIState,
    config: SolverConfig,
    pre: Preintegrated | None = None,
) -> FreedConstants | None:
    """Solve a window anew with its constants free; None where it says too little for that.

    A scale with a stated spread keeps it. `pre` is taken where it is of these keyframes.
    """
    gyro_bias, acc_bias = state.gyro_bias_residual, state.acc_bias_residual
    if vision.stamps_ns is not state.stamps_ns:
        vision = replace(vision, stamps_ns=state.stamps_ns)
    if pre is None or pre.stamps_ns is not state.stamps_ns:
        pre = preintegrate(imu, state.stamps_ns, gyro_bias, acc_bias, config.rule)
    start = Variables(
        state.Ts_c0_b, state.velocity_b, state.gravity_c0, gyro_bias, acc_bias, state.T_b_c
    )
    # Squares: robust losses would take the scale's error for outliers.
    squares = replace(config, robust=False) if config.robust else config
    freed, posterior, report = solve(imu, vision, pre, start, squares, True, constants=True)
    if posterior is None or not report.converged or (report.scale or 0.0) <= 0.0:
        return None
    return FreedConstants(
        freed,
        posterior,
        MeasuredScale(report.scale or 1.0, report.std_scale or 0.0),
        MeasuredOffset(report.time_offset_s or 0.0, report.std_time_offset_s or 0.0),
        report.dof,
        report.inflation,
        state.T_b_c,
        vision.std_scale,
    )
