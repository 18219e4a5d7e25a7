"""Noise of a published truth, for reports that compare a model with it.

Training goes by audited truths, whose covariances are known. What a published one adds to errors of
integration is fitted to them for the finished model: eight numbers of a recording.
"""

from dataclasses import astuple, replace

import numpy as np
from scipy.optimize import minimize

from maci2.evaluation.integration_errors import LabelNoise, WindowErrors, integration_errors
from maci2.imu import BiasPrior, ImuMeasurements
from maci2.learn.imu.training_windows import Track
from maci2.types import Array

HORIZONS_S = (0.1, 0.25, 0.5, 1.0, 2.5)
STRIDE_S = 0.5

SMALLEST = LabelNoise(1e-5, 1e-4, 1e-5, 1e-6, 1e-5, 1e-4, 1e-2, 1e-2)
"""Below these, truths cannot be told from perfect ones."""

LARGEST = LabelNoise(0.1, 1.0, 0.1, 0.1, 0.1, 0.1, 1.0, 1.0)

START = LabelNoise(1e-4, 1e-3, 1e-4, 1e-4, 5e-4, 1e-3, 0.5, 0.5)


def fit_label_noise(imu: ImuMeasurements, track: Track, prior: BiasPrior) -> LabelNoise:
    """Label noise that makes the recording's integration errors most likely.

    `imu` is the track as the model measures it, `prior` the bias that it expects to be left.
    """
    windows = [_Windows(imu, track, horizon_s, prior) for horizon_s in HORIZONS_S]

    def cost(logarithms: Array) -> float:
        labels = LabelNoise(*np.exp(logarithms))
        return float(np.mean([one.negative_log_likelihood(labels) for one in windows]))

    bounds = list(zip(np.log(astuple(SMALLEST)), np.log(astuple(LARGEST)), strict=True))
    found = minimize(cost, np.log(astuple(START)), method="L-BFGS-B", bounds=bounds)
    return LabelNoise(*np.exp(found.x).tolist())


class _Windows:
    """Errors over one horizon; noise of the samples counts as far as the truth shows it."""

    def __init__(
        self, imu: ImuMeasurements, track: Track, horizon_s: float, prior: BiasPrior
    ) -> None:
        self.prior = prior
        self.windows = self._errors(imu, track, horizon_s)
        # Covariances are linear in the variances of the samples.
        blind = replace(imu, var_gyro=np.full_like(imu.var_gyro, 1e-30))
        self.cov_acc = self._errors(blind, track, horizon_s).cov_imu
        self.cov_gyro = self.windows.cov_imu - self.cov_acc

    def _errors(self, imu: ImuMeasurements, track: Track, horizon_s: float) -> WindowErrors:
        found = integration_errors(imu, track.published, horizon_s, STRIDE_S)
        return found.without_bias(np.concatenate([self.prior.mean_gyro, self.prior.mean_acc]))

    def negative_log_likelihood(self, labels: LabelNoise) -> float:
        """Mean over the windows, constants dropped."""
        cov_imu = labels.gyro_shown * self.cov_gyro + labels.acc_shown * self.cov_acc
        shown = replace(self.windows, cov_imu=cov_imu)
        lower = np.linalg.cholesky(shown.cov(self.prior, labels))
        white = np.linalg.solve(lower, self.windows.e[:, :, None])[:, :, 0]
        log_det = 2.0 * np.log(np.einsum("mii->mi", lower)).sum(1)
        return float(0.5 * ((white**2).sum(1) + log_det).mean())
