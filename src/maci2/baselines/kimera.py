"""Kimera-VIO's online gravity alignment (Rosinol et al., ICRA 2020).

VINS-Mono's linear alignment without scale, on body poses and with unit weights. Two habits of the
released code are kept: the gyroscope bias is taken off the preintegrated motion to first order,
and the refinement on the sphere improves velocities only: gravity returned, and checked, is that of
the first, free solution. The refinement keeps its first tangent basis.
"""

import numpy as np

from maci2.baselines.alignment import (
    corrected,
    fit_gyro_bias,
    logs,
    motion_rows,
    raw_motion,
    rotation_errors,
    solve_rows,
    tangent_basis,
    with_norm,
)
from maci2.baselines.segment import Answer, Segment
from maci2.types import Array

MAX_ROTATION_RESIDUAL = 5e-2
"""Largest norm of the sum of the rotation residuals after removal of the bias [rad]."""

MAX_NORM_ERROR = 0.1
"""Largest error of the norm of gravity as a free vector [m/s^2]."""

REFINEMENTS = 4


def kimera(segment: Segment) -> Answer:
    """Answer, accepted by the rotation residuals and the norm of gravity."""
    Ts_c0_b = segment.Ts_c0_b()
    Rs_c0_b = Ts_c0_b[:, :3, :3]
    pre = raw_motion(segment)
    gyro_bias = fit_gyro_bias(pre, logs(rotation_errors(pre.gamma, Rs_c0_b)))
    gamma, beta, alpha = corrected(pre, gyro_bias, np.zeros(3))
    residual = float(np.linalg.norm(logs(rotation_errors(gamma, Rs_c0_b)).sum(axis=0)))

    steps_c0 = np.diff(Ts_c0_b[:, :3, 3], axis=0)
    rows, right = motion_rows(pre.dt, beta, alpha, Rs_c0_b, steps_c0)
    gravity_c0 = solve_rows(rows, right)[-3:]
    velocity_b = _refined_velocities(rows, right, with_norm(gravity_c0, segment.gravity_norm))
    norm_error = abs(float(np.linalg.norm(gravity_c0)) - segment.gravity_norm)
    reason = _rejection(residual, norm_error)
    state = segment.state(gravity_c0, velocity_b, gyro_bias, np.zeros(3), Ts_c0_b)
    return Answer(not reason, reason, state)


def _refined_velocities(rows: Array, right: Array, gravity_c0: Array) -> Array:
    norm = float(np.linalg.norm(gravity_c0))
    across = tangent_basis(gravity_c0)
    J = np.column_stack([rows[:, :-3], rows[:, -3:] @ across])
    x = np.empty(J.shape[1])
    for _ in range(REFINEMENTS):
        x = solve_rows(J, right - rows[:, -3:] @ gravity_c0)
        gravity_c0 = with_norm(gravity_c0 + across @ x[-2:], norm)
    return x[:-2].reshape(-1, 3)


def _rejection(residual: float, norm_error: float) -> str:
    if residual > MAX_ROTATION_RESIDUAL:
        return (
            f"rotations of vision and gyroscope differ by {residual:.3f} rad in sum, allowed "
            f"{MAX_ROTATION_RESIDUAL:g}"
        )
    if norm_error > MAX_NORM_ERROR:
        return f"gravity's norm is off by {norm_error:.2f} m/s^2, allowed {MAX_NORM_ERROR:g}"
    return ""
