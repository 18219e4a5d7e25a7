"""Do the camera's positions belong to the instants of its orientations?

A camera sees both at once. A laser tracker beside an IMU, a filtered trajectory, or an
accelerometer that is stamped later than its gyroscope does not, and a delay between the two looks
like a lever arm of centimetres.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maci2.calibration.calibration_problem import MountingPrior
from maci2.calibration.calibration_solve import Solved, solve_with_clock
from maci2.calibration_prior import CALIBRATED
from maci2.consistency import FAR, Check
from maci2.estimation import SolverConfig
from maci2.imu import ImuMeasurements
from maci2.types import Array
from maci2.vision import RelativePoses

STEP_S = 0.01
"""Delays to either side at which chi-square is evaluated [s]: near enough for a parabola."""


class PositionDelay(NamedTuple):
    """How much later than their orientations positions were taken [s]."""

    delay_s: float
    std_s: float


def position_delay(
    imu: ImuMeasurements,
    vision: RelativePoses,
    solved: Solved,
    mounting: MountingPrior,
    config: SolverConfig,
) -> PositionDelay | None:
    """Delay that fits best around a calibration that is solved, everything else free; None where
    the motion does not tell it."""
    # Squares: robust losses would take the delay for outliers.
    choices = replace(solved.choices, robust=False)
    moved = _moved_by_a_second(imu, solved)

    def chi_square(delay_s: float) -> float:
        Ts_ck_ck1 = vision.Ts_ck_ck1.copy()
        Ts_ck_ck1[:, :3, 3] += delay_s * moved
        on_time = replace(vision, Ts_ck_ck1=Ts_ck_ck1)
        again = solve_with_clock(imu, on_time, solved.guess, choices, mounting, config)
        return again.solution.cost if again.solution.converged else np.nan

    before, at, after = (chi_square(delay_s) for delay_s in (-STEP_S, 0.0, STEP_S))
    curvature = (before + after - 2.0 * at) / STEP_S**2
    if not curvature > 0.0:
        return None
    slope = (after - before) / (2.0 * STEP_S)
    return PositionDelay(-slope / curvature, float(np.sqrt(2.0 / curvature)))


def _moved_by_a_second(imu: ImuMeasurements, solved: Solved) -> Array:
    """(n - 1, 3) what a delay of a second takes from each relative translation: the change of the
    camera's velocity, in the camera where the step begins."""
    states, T_b_c = solved.solution.states, solved.solution.border.T_b_c
    stamps_ns, R_w_b = solved.guess.stamps_ns, states.Ts_w_b[:, :3, :3]
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
