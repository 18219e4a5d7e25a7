"""VINS-Mono's visual-inertial alignment (Qin et al., T-RO 2018), on the common poses.

Its own structure from motion is left out. Scale stays an unknown, as in the released code: it
comes out near 1 where vision is metric, and its error goes into gravity and velocity.

The released code clears the normal matrix once, before the four steps of gravity's refinement, and
multiplies it by 1000 in each: the first linearization outweighs the others and its step is taken
about four times. `vins` does the same, `vins-fixed` clears it in each step.
"""

import numpy as np

from maci2.baselines.alignment import (
    SCALE_UNIT,
    fit_gyro_bias,
    quaternion_vectors,
    raw_motion,
    rotation_errors,
    scaled_motion_rows,
    solve_rows,
    tangent_basis,
    with_norm,
)
from maci2.baselines.segment import Answer, Segment
from maci2.baselines.stages import stage
from maci2.imu import Preintegrated
from maci2.lie import se3_inv
from maci2.types import Array

MIN_EXCITATION = 0.25
"""Standard deviation of the mean accelerations [m/s^2] below which VINS warns, but continues."""

MAX_NORM_ERROR = 1.0
"""Largest error of gravity's norm before it is refined [m/s^2]."""

REFINEMENTS = 4
AMPLIFICATION = 1000.0
"""Factor on the normal matrix in each refinement."""


def vins(segment: Segment) -> Answer:
    """VINS-Fusion's alignment as released, with its error."""
    return align(segment, segment.Ts_c0_c(), clear_each_time=False)


def vins_fixed(segment: Segment) -> Answer:
    """VINS-Fusion's alignment as described in its paper."""
    return align(segment, segment.Ts_c0_c(), clear_each_time=True)


@stage("closed form")
def align(segment: Segment, Ts_c0_c: Array, clear_each_time: bool) -> Answer:
    """Alignment on given camera poses of any scale."""
    Ts_c0_b = Ts_c0_c @ se3_inv(np.ascontiguousarray(segment.T_b_c))
    Rs_c0_b = Ts_c0_b[:, :3, :3]
    pre = raw_motion(segment)
    warning = _excitation_warning(pre)
    gyro_bias = fit_gyro_bias(pre, quaternion_vectors(rotation_errors(pre.gamma, Rs_c0_b)))
    pre = raw_motion(segment, gyro_bias)

    rows, right = scaled_motion_rows(pre, Rs_c0_b, Ts_c0_c[:, :3, 3], segment.T_b_c[:3, 3])
    x = solve_rows(rows, right)
    norm_error = abs(float(np.linalg.norm(x[-4:-1])) - segment.gravity_norm)
    reason = _rejection(norm_error, x[-1] / SCALE_UNIT)
    gravity_c0 = with_norm(x[-4:-1], segment.gravity_norm)
    if not reason:
        x, gravity_c0 = _refine(rows, right, gravity_c0, clear_each_time)
        reason = _rejection(0.0, x[-1] / SCALE_UNIT)

    scale = x[-1] / SCALE_UNIT
    Ts = Ts_c0_b.copy()
    Ts[:, :3, 3] = scale * Ts_c0_c[:, :3, 3] - Rs_c0_b @ segment.T_b_c[:3, 3]
    velocity_b = x[: 3 * len(Ts)].reshape(-1, 3)
    state = segment.state(gravity_c0, velocity_b, gyro_bias, np.zeros(3), Ts)
    return Answer(not reason, reason or warning, state)


def _refine(
    rows: Array, right: Array, gravity_c0: Array, clear_each_time: bool
) -> tuple[Array, Array]:
    """Refinement of [v, w1, w2, 100 s] with gravity moved in its tangent plane four times."""
    norm = float(np.linalg.norm(gravity_c0))
    size = rows.shape[1] - 1
    H, b = np.zeros((size, size)), np.zeros(size)
    x = np.empty(size)
    for _ in range(REFINEMENTS):
        if clear_each_time:
            H, b = np.zeros((size, size)), np.zeros(size)
        across = tangent_basis(gravity_c0)
        J = np.column_stack([rows[:, :-4], rows[:, -4:-1] @ across, rows[:, -1]])
        H = AMPLIFICATION * (H + J.T @ J)
        b = AMPLIFICATION * (b + J.T @ (right - rows[:, -4:-1] @ gravity_c0))
        x = np.linalg.solve(H, b)
        gravity_c0 = with_norm(gravity_c0 + across @ x[-3:-1], norm)
    return x, gravity_c0


def _rejection(norm_error: float, scale: float) -> str:
    if norm_error > MAX_NORM_ERROR:
        return (
            f"gravity's norm is off by {norm_error:.2f} m/s^2, allowed {MAX_NORM_ERROR:g}: vision "
            "and IMU do not fit"
        )
    if scale < 0.0:
        return f"the scale comes out as {scale:.3f}, needed above 0"
    return ""


def _excitation_warning(pre: Preintegrated) -> str:
    mean_acc = pre.beta / pre.dt[:, None]
    spread = float(np.sqrt(np.mean(np.sum((mean_acc - mean_acc.mean(axis=0)) ** 2, axis=1))))
    if spread >= MIN_EXCITATION:
        return ""
    return (
        f"warning only: mean accelerations vary by {spread:.2f} m/s^2, wanted {MIN_EXCITATION:g}; "
        "little excitation"
    )
