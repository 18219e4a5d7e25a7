"""Delay of the camera's positions against its orientations.

A camera sees both at once. A laser tracker beside an IMU, a filtered trajectory, or an
accelerometer that is stamped later than its gyroscope does not, and a delay between the two looks
like a lever arm of centimetres.
"""

from typing import NamedTuple

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.consistency import FAR, Check
from maci2.errors import MeasurementError
from maci2.estimator.initialize import with_loss
from maci2.estimator.problem import Loss
from maci2.estimator.residuals import Response
from maci2.estimator.solver import Solution, covariance, solve
from maci2.imu import ImuMeasurements
from maci2.types import Array


class PositionDelay(NamedTuple):
    """How much later than their orientations positions were taken [s]."""

    delay_s: float
    std_s: float


def position_delay(imu: ImuMeasurements, solution: Solution) -> PositionDelay | None:
    """Delay that fits best around a calibration that is solved, everything else free; None where
    the motion does not determine it.

    A Newton step from no delay: chi-square of the optimum is a parabola in it. Squares, for robust
    losses would take the delay for outliers.
    """
    if not solution.converged:
        return None
    if solution.problem.camera[0].loss.kind != "none":
        squares = with_loss(solution.problem, Loss())
        solution = solve(squares, solution.states, solution.shared)
    try:
        response = Response(solution, covariance(solution))
    except MeasurementError:
        return None
    motions = solution.measurements.motions
    moved = _moved_by_a_second(imu, solution)[motions.state]
    by_delay = motions.white[:, :, :3] @ moved[:, :, None]
    gradient, gradient_shared = response.gradients(by_delay)
    followed, followed_shared = response.solved(gradient, gradient_shared)
    curvature = float(
        np.sum(by_delay**2)
        - np.sum(gradient * followed)
        - np.sum(gradient_shared * followed_shared)
    )
    if not curvature > 0.0:
        return None
    slope = float(np.sum(by_delay[:, :, 0] * response.r))
    return PositionDelay(-slope / curvature, curvature**-0.5)


def _moved_by_a_second(imu: ImuMeasurements, solution: Solution) -> Array:
    """(n - 1, 3) change of each relative translation by a delay of a second: that of the camera's
    velocity, in the camera where the motion begins."""
    states, T_b_c = solution.states, solution.shared.T_b_c
    stamps_ns, R_w_b = solution.problem.stamps_ns, states.Ts_w_b[:, :3, :3]
    rates = [np.interp(stamps_ns, imu.stamps_ns, axis) for axis in imu.gyro.T]
    omega_b = np.stack(rates, axis=1) - states.bias_gyro
    v_w = states.v_w + np.einsum("kij,kj->ki", R_w_b, np.cross(omega_b, T_b_c[:3, 3]))
    R_w_c = R_w_b @ T_b_c[:3, :3]
    return np.asarray(np.einsum("kji,kj->ki", R_w_c[:-1], np.diff(v_w, axis=0)))


def one_instant(delay: PositionDelay | None) -> Check:
    """Positions and orientations that are not of one instant, in words."""
    if delay is None or abs(delay.delay_s) <= FAR * np.hypot(delay.std_s, CALIBRATED.acc_clock_s):
        return Check("ok")
    side = "late" if delay.delay_s > 0.0 else "early"
    return Check(
        "weak",
        f"the camera's positions are {1e3 * abs(delay.delay_s):.1f} +- {1e3 * delay.std_s:.1f} ms "
        f"{side} against its orientations, which looks like a lever arm: audit a ground truth that "
        "they are made of (`--truth audited`), or check the accelerometer's timestamps against the "
        "gyroscope's",
    )
