"""Derivatives of an estimate by the errors of the IMU measurements.

Whoever compares an estimate with a ground truth that was made with the same IMU needs it: errors of
the samples that both have used do not show in the difference.
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.consistency.known_state import window_at
from maci2.estimator.factors import IMU
from maci2.estimator.problem import (
    GRAVITY,
    GRAVITY_NORM,
    POSITION,
    ROTATION,
    VELOCITY,
    SolverConfig,
)
from maci2.estimator.residuals import solved_for, whitened_factors
from maci2.estimator.results import InitResult, state_and_posterior
from maci2.estimator.solver import Solution, covariance, factorized
from maci2.geometry.so3 import skew
from maci2.imu import ImuMeasurements
from maci2.types import Array
from maci2.vision import RelativePoses


@dataclass(frozen=True)
class ImuGains:
    """Derivatives of an estimate by the errors of m preintegrated measurements between its n
    keyframes, order [gamma, beta, alpha]."""

    gravity_c0: Array
    """(m, 3, 9)"""

    Ts_c0_b: Array
    """(m, n, 6, 9) left perturbation, order [rho, phi]."""

    velocity_b: Array
    """(m, n, 3, 9)"""

    gyro_bias: Array
    """(m, 3, 9)"""

    cov_imu: Array
    """(m, 9, 9) covariance of those errors, as the estimate weighted them."""


def imu_gains(
    imu: ImuMeasurements, vision: RelativePoses, result: InitResult, config: SolverConfig
) -> ImuGains | None:
    """Gains of a window at its solution; None without a solution, or if keyframes were dropped for
    a clock offset."""
    state, report = result.state, result.report
    if state is None or result.posterior is None or len(state.stamps_ns) != len(vision.stamps_ns):
        return None
    config = replace(
        config,
        tracked_vertical=config.tracked_vertical and not report.vertical_rejected,
        estimate_time_offset=False,
    )
    solution = window_at(imu, vision, state, config, report.inflation, report.scale or 1.0)
    factors = whitened_factors(solution, covariance(solution), IMU)
    m, s, b = len(factors.index), solution.problem.state_size, solution.border
    # An error of a measured motion moves its residual by as much, against its sign.
    pulled = np.swapaxes(factors.G, 1, 2) @ solution.measurements.white
    rhs, rhs_shared = np.zeros((m + 1, s, m, 9)), np.zeros((b, m, 9))
    for k in range(m):
        rhs[k, :, k], rhs[k + 1, :, k] = pulled[k, :s], pulled[k, s : 2 * s]
        rhs_shared[:, k] = pulled[k, 2 * s :]
    moved, moved_shared = solved_for(
        factorized(solution), rhs.reshape(m + 1, s, -1), rhs_shared.reshape(b, -1)
    )
    by_state, by_shared = linear_view(solution)
    gains = (by_state @ moved).reshape(m + 1, 9, m, 9).transpose(2, 0, 1, 3)
    shared = (by_shared @ moved_shared).reshape(6, m, 9).transpose(1, 0, 2)
    return ImuGains(
        shared[:, 0:3],
        gains[:, :, 0:6],
        gains[:, :, 6:9],
        shared[:, 3:6],
        report.inflation * solution.measurements.spans.cov,
    )


def linear_view(solution: Solution) -> tuple[Array, Array]:
    """(n, 9, s) derivative of [T_c0_b (left twist), velocity_b] by each state, and (6, b) of
    [gravity_c0, gyroscope bias] by the shared unknowns, where the extrinsics are known."""
    states, shared, columns = solution.states, solution.shared, solution.columns
    n, s, b = len(states.v_w), solution.problem.state_size, solution.border
    view, _ = state_and_posterior(solution, None, solution.problem.imu, solution.problem.stamps_ns)
    by_state, by_shared = np.zeros((n, 9, s)), np.zeros((6, b))
    R_c0_w = view.Ts_c0_b[0, :3, :3] @ states.Ts_w_b[0, :3, :3].T
    for k in range(n):
        R_c0_b, p_c0_b = view.Ts_c0_b[k, :3, :3], view.Ts_c0_b[k, :3, 3]
        by_state[k, 0:3, ROTATION], by_state[k, 3:6, ROTATION] = skew(p_c0_b) @ R_c0_b, R_c0_b
        by_state[k, 0:3, POSITION] = R_c0_w
        by_state[k, 6:9, ROTATION] = skew(view.velocity_b[k])
        by_state[k, 6:9, VELOCITY] = states.Ts_w_b[k, :3, :3].T
    R_c0_g = R_c0_w @ shared.R_w_g
    norm = shared.scalars[GRAVITY_NORM]
    by_gravity = np.stack([norm * R_c0_g[:, 1], -norm * R_c0_g[:, 0], -R_c0_g[:, 2]], axis=1)
    for place, block, derivative in (
        (6 + np.r_[GRAVITY, GRAVITY_NORM], slice(0, 3), by_gravity),
        (np.arange(3), slice(3, 6), np.eye(3)),
    ):
        used = columns[place] >= 0
        by_shared[block, columns[place][used]] = derivative[:, used]
    return by_state, by_shared
