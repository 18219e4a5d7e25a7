"""One factor on the accelerometer's variances, so that errors on the tuning recordings have a NEES
of one.

A likelihood over many windows trades recordings and horizons against each other. What counts at the
end is that predicted errors are as large as those seen, on recordings that the corrections have not
seen.
"""

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from maci2.evaluation.imu_report import HORIZONS_S, STRIDE_S
from maci2.evaluation.integration_errors import LabelNoise, integration_errors
from maci2.gaussian import nees
from maci2.imu import ALPHA, BETA, BiasPrior
from maci2.imu.learned_model import ImuModel
from maci2.imu.model_card import ModelCard
from maci2.learn.imu.training_windows import Track
from maci2.learn.imu.truth_frame import turned
from maci2.types import Array

LARGEST_LOG_FACTOR = 3.0


def variance_factor(model: ImuModel, card: ModelCard, tracks: list[Track]) -> float:
    """Factor that makes the mean NEES of velocity and position one over the report's horizons."""
    prior = card.bias_prior()
    found = [
        one
        for track in tracks
        for horizon_s in HORIZONS_S
        for one in _blocks(model, card, track, horizon_s, prior)
    ]

    def excess(log_factor: float) -> float:
        scores = [nees(e, np.exp(log_factor) * own + rest).mean() / 3.0 for e, own, rest in found]
        return float(np.mean(scores)) - 1.0

    if excess(-LARGEST_LOG_FACTOR) < 0.0:
        return float(np.exp(-LARGEST_LOG_FACTOR))
    if excess(LARGEST_LOG_FACTOR) > 0.0:
        return float(np.exp(LARGEST_LOG_FACTOR))
    return float(np.exp(brentq(excess, -LARGEST_LOG_FACTOR, LARGEST_LOG_FACTOR, xtol=1e-4)))


def _blocks(
    model: ImuModel, card: ModelCard, track: Track, horizon_s: float, prior: BiasPrior
) -> list[tuple[Array, Array, Array]]:
    """Errors of velocity and position, their covariance by the samples, and by all else."""
    measured = replace(model.measure(track.imu), std_gyro_bias=track.std_gyro_bias)
    # As a report will see it: the truth as it is, with the rotation that is expected of its kind.
    states = turned(track.states, -track.turn)
    labels = LabelNoise(**card.label_noise[track.kind].model_dump())
    windows = integration_errors(labels.shown(measured), states, horizon_s, STRIDE_S)
    windows = windows.without_bias(np.concatenate([prior.mean_gyro, prior.mean_acc]))
    own = windows.cov_imu
    rest = windows.cov(prior, labels) - own
    return [(windows.e[:, b], own[:, b, b], rest[:, b, b]) for b in (BETA, ALPHA)]
