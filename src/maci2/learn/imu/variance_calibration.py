"""One factor on the accelerometer's variances, for the network that is written.

A likelihood over batches of windows is not at its best when training stops, and its last stage has
seen a few recordings only. With the network done it is one number, and all recordings together say
what it is.
"""

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from maci2.evaluation.audited_integration import audited_windows
from maci2.gaussian import nees
from maci2.imu import BiasPrior
from maci2.imu.learned_model import ImuModel
from maci2.learn.imu.training_windows import Track
from maci2.types import Array

HORIZONS_S = (1.0, 2.5)
"""Over shorter times little of the samples' noise shows: an audited truth follows them."""

LARGEST_LOG_FACTOR = 3.0
NOTHING = 1e-30


def variance_factor(model: ImuModel, tracks: list[Track]) -> float:
    """Factor under which errors over audited windows are most likely, each recording's own bias
    known but for its wander."""
    windows = [
        _errors_and_covs(model, track, horizon_s) for track in tracks for horizon_s in HORIZONS_S
    ]

    def cost(log_factor: float) -> float:
        each = []
        for e, own, rest in windows:
            cov = np.exp(log_factor) * own + rest
            each.append(np.mean(nees(e, cov) + np.linalg.slogdet(cov)[1]))
        return float(np.mean(each))

    bounds = (-LARGEST_LOG_FACTOR, LARGEST_LOG_FACTOR)
    found = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    return float(np.exp(found.x))


def _errors_and_covs(model: ImuModel, track: Track, horizon_s: float) -> tuple[Array, Array, Array]:
    """Errors, their covariance by the accelerometer's samples, and by all else."""
    measured = model.measure(track.imu)
    assert measured.removed_gyro is not None
    assert measured.removed_acc is not None
    left = track.bias(np.hstack([measured.removed_gyro, measured.removed_acc]))
    std = np.sqrt(left.wander)
    own_bias = BiasPrior(left.mean[:3], std[:3], left.mean[3:], std[3:])
    windows = audited_windows(track.audited, horizon_s)
    # Covariances are linear in the variances of the samples.
    silent = np.full_like(measured.var_acc, NOTHING)
    errors = windows.errors(replace(measured, var_acc=silent)).without_bias(left.mean)
    alone = windows.errors(replace(measured, var_gyro=silent))
    return errors.e, windows.shown(alone), windows.cov(errors, own_bias)
