"""Figures of states and results: velocity, residuals, excitation, biases."""

import numpy as np
from maci2.errors import (MeasurementError)
from maci2.estimation import (Posterior, VIState, SolverConfig)
from maci2.estimator.initialize import (window_at)
from maci2.estimator.residuals import (whitened_factors)
from maci2.estimator.solver import (CAMERA, IMU, covariance)
from maci2.imu import (ImuMeasurements)
from maci2.lie import (se3_inv, se3_log)
from maci2.reports.charts import (Series, bars, chart)
from maci2.reports.html import (figure)
from maci2.types import (NS, Array, Stamps)
from maci2.vision import (RelativePoses)


LEAST_LEFT = 0.02
"""Fraction of a residual's variance below which the estimate merely follows the measurement."""

CONFIG = SolverConfig(tracked_vertical=False)


def normalized_residuals(
    state: VIState, vision: RelativePoses, imu: ImuMeasurements, inflation: float = 1.0
) -> Array:
    """(n - 1,) ratio of the root mean square of all residuals between two keyframes to its
    expectation; NaN if that is zero. `inflation` is the factor on the variances."""
    solution = window_at(imu, vision, state, CONFIG, inflation)
    squares, redundancy, counts = np.zeros((3, len(state.stamps_ns) - 1))
    try:
        posterior = covariance(solution)
    except MeasurementError:
        return np.full(len(squares), np.nan)
    for kind in (IMU, CAMERA):
        factors = whitened_factors(solution, posterior, kind)
        measured = vision.measured[factors.index] | (kind == IMU)
        index = factors.index[measured]
        np.add.at(squares, index, np.sum(factors.r[measured] ** 2, axis=1))
        np.add.at(redundancy, index, factors.redundancy[measured].sum(axis=1))
        np.add.at(counts, index, factors.r.shape[1])
    known = redundancy > LEAST_LEFT * counts
    return np.sqrt(np.where(known, squares / np.where(known, redundancy, 1.0), np.nan))


def visual_sigmas(state: VIState, vision: RelativePoses) -> Array:
    """(n - 1, 2) root mean square of the translation's and the rotation's residual, in the stated
    standard deviations."""
    Ts_c0_c = state.Ts_c0_b @ state.T_b_c
    residuals = np.array(
        [
            se3_log(np.ascontiguousarray(T_ck_ck1 @ se3_inv(T_c0_ck1) @ T_c0_ck))
            for T_ck_ck1, T_c0_ck, T_c0_ck1 in zip(
                vision.Ts_ck_ck1, Ts_c0_c[:-1], Ts_c0_c[1:], strict=True
            )
        ]
    )
    squares = residuals**2 / np.diagonal(vision.covs_T_ck_ck1, axis1=1, axis2=2)
    return np.asarray(np.sqrt(squares.reshape(-1, 2, 3).mean(axis=2)))
