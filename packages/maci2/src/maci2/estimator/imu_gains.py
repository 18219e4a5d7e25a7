"""Derivatives of an estimate by the errors of the IMU measurements.

Whoever compares an estimate with a ground truth that was made with the same IMU needs it: errors of
the samples that both have used do not show in the difference.
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.estimator.config import SolverConfig
from maci2.estimator.first_camera import linear_view
from maci2.estimator.initialize import window_at
from maci2.estimator.residuals import solved_for, whitened_factors
from maci2.estimator.results import InitResult
from maci2.estimator.solver import IMU, covariance, factorized
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
