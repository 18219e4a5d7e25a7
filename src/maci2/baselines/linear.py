"""Linear stereo alignment, without accelerometer bias or with a known one.

Gyroscope bias from rotations, then velocities and gravity of known norm from linear rows with equal
weights: the plainest method that uses what a stereo camera gives. With the constant bias it is what
knowledge of the sensor is worth without a network: the mark that a learned IMU model has to beat.
"""

import numpy as np

from maci2.baselines.alignment import (
    fit_gyro_bias,
    logs,
    motion_rows,
    raw_motion,
    rotation_errors,
)
from maci2.baselines.segment import Answer, Initializer, Segment
from maci2.baselines.sphere import solve_on_sphere
from maci2.types import Array

EUROC_ACC_BIAS = (-0.0207, 0.1169, 0.0642)
"""Accelerometer bias of EuRoC's ADIS16448 [m/s^2]: mean over MH_01, MH_05, V2_01 and V2_03, the
paper's training sequences, of the mean that each one's ground truth states."""


def linear(segment: Segment) -> Answer:
    """Accelerometer bias taken as zero; accepts everything."""
    return align_linearly(segment, np.zeros(3))


def const_bias(acc_bias: tuple[float, float, float]) -> Initializer:
    """Linear alignment with a constant, known accelerometer bias."""

    def with_const_bias(segment: Segment) -> Answer:
        return align_linearly(segment, np.array(acc_bias))

    return with_const_bias


def align_linearly(segment: Segment, acc_bias: Array) -> Answer:
    """Velocities and gravity in one solve."""
    Ts_c0_b = segment.Ts_c0_b()
    Rs_c0_b = Ts_c0_b[:, :3, :3]
    pre = raw_motion(segment)
    gyro_bias = fit_gyro_bias(pre, logs(rotation_errors(pre.gamma, Rs_c0_b)))
    pre = raw_motion(segment, gyro_bias, acc_bias)
    steps_c0 = np.diff(Ts_c0_b[:, :3, 3], axis=0)
    rows, right = motion_rows(pre.dt, pre.beta, pre.alpha, Rs_c0_b, steps_c0)
    x = solve_on_sphere(rows.T @ rows, rows.T @ right, slice(-3, None), segment.gravity_norm)
    state = segment.state(x[-3:], x[:-3].reshape(-1, 3), gyro_bias, acc_bias, Ts_c0_b)
    return Answer(True, "", state)
