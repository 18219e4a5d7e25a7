"""Fits that follow the training of the network: the share of its corrections that is kept, its
variances, the error of the tracked vertical, and the noise of published ground truths."""

from dataclasses import astuple, replace

import numpy as np
import torch
from scipy.optimize import minimize, minimize_scalar

from maci2.estimator.problem import ROTATION
from maci2.geometry.gaussian import nees
from maci2.imu import BETA, GAMMA, BiasPrior, ImuMeasurements, datasheet_model
from maci2.imu.learned_model import BLOCK, CONTEXT, ImuModel
from maci2.sensors import ImuSamples
from maci2.types import Array
from maci2_lab.evaluation.audited_integration import audited_windows
from maci2_lab.evaluation.integration_errors import LabelNoise, WindowErrors, integration_errors
from maci2_lab.training.imu.data import Track
from maci2_lab.training.imu.network import ImuNetwork

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
HORIZON_S = 2.5
"""Over shorter times an audited truth follows the samples, corrected or not."""


def shrink_corrections(
    model: ImuNetwork, train: list[Track], tune: list[Track]
) -> tuple[float, float]:
    """Scale the correction head in place; the shares kept of gyroscope and accelerometer.

    How much of what the network corrects beyond a constant holds on recordings it has not seen.

    Corrections learned on a handful of recordings are partly theirs alone. What the network adds to
    its mean over the training recordings is scaled by a share between 0 (a constant) and 1, for
    gyroscope and accelerometer apart. The share kept is the one that does best on the held-out
    recording it serves worst: a correction that helps one recording and harms another is not the
    sensor's.
    """
    model.eval()
    mean = np.mean([correct(model, track.imu).mean(0) for track in train], axis=0)
    corrections = [correct(model, track.imu) for track in tune]
    errors = np.array([_errors(tune, corrections, mean, share) for share in SHARES])
    # Against the constant, in the recording where the share does worst.
    worst = (errors / errors[0]).max(1)
    gyro, acc = (SHARES[k] for k in worst.argmin(0))
    shares = np.repeat([gyro, acc], 3)
    last = model.correction_head[-1]
    assert isinstance(last, torch.nn.Linear)
    with torch.no_grad():
        kept = torch.tensor(shares, dtype=torch.float32)
        last.weight.mul_(kept[:, None])
        last.bias.mul_(kept)
        model.constant.add_((1.0 - kept) * (torch.tensor(mean).float() - model.constant))
    return gyro, acc


def correct(model: ImuNetwork, imu: ImuSamples) -> Array:
    """(n, 6) corrections of a whole recording, as at run time."""
    stream = np.concatenate([imu.gyro, imu.acc], axis=1)
    blocks = -(-len(stream) // BLOCK)
    seen = np.arange(-CONTEXT, (blocks - 1) * BLOCK + CONTEXT + 1)
    samples = torch.tensor(stream[np.clip(seen, 0, len(stream) - 1)], dtype=torch.float32)
    with torch.no_grad():
        correction = model(samples[None], *model.start_states(1))[0][0].numpy()
    return np.asarray(np.repeat(correction, BLOCK, axis=0)[: len(stream)], dtype=np.float64)


def _errors(tracks: list[Track], corrections: list[Array], mean: Array, share: float) -> Array:
    """(recordings, 2) rms rotation and velocity error."""
    found = []
    for track, correction in zip(tracks, corrections, strict=True):
        kept = mean + share * (correction - mean)
        raw = datasheet_model(track.imu, track.noise)
        measured = replace(raw, gyro=raw.gyro + kept[:, :3], acc=raw.acc + kept[:, 3:])
        e = audited_windows(track.audited, HORIZON_S).errors(measured).e
        found.append([np.sqrt((e[:, part] ** 2).sum(1).mean()) for part in (GAMMA, BETA)])
    return np.array(found)


HORIZONS_S = (1.0, 2.5)
"""Over shorter times little of the samples' noise shows: an audited truth follows them."""

LARGEST_LOG_FACTOR = 3.0
NOTHING = 1e-30


def variance_factor(model: ImuModel, tracks: list[Track]) -> float:
    """Factor under which errors over audited windows are most likely, each recording's own bias
    known but for its wander.

    One factor on the accelerometer's variances, for the network that is written.

    A likelihood over batches of windows is not at its best when training stops, and its last stage
    has seen a few recordings only. With the network done it is one number, and all recordings
    together say what it is.
    """
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
    left = track.bias_left(measured)
    std = np.sqrt(left.wander)
    own_bias = BiasPrior(left.mean[:3], std[:3], left.mean[3:], std[3:])
    windows = audited_windows(track.audited, horizon_s)
    # Covariances are linear in the variances of the samples.
    silent = np.full_like(measured.var_acc, NOTHING)
    errors = windows.errors(replace(measured, var_acc=silent)).without_bias(left.mean)
    alone = windows.errors(replace(measured, var_gyro=silent))
    return errors.e, windows.shown(alone), windows.cov(errors, own_bias)


SETTLED_S = 20.0
"""Time after which the tracker's covariance is that of its noise and no longer of its start."""

INTERVAL_S = 1.0
"""Time between instants that are compared."""


def vertical_spread(tracks: list[Track]) -> float | None:
    """Standard deviation of the tilt to expect of another recording [rad], one axis, once the
    tracker has settled; None where too few recordings tell.

    Error of the tracked vertical that lasts, from audited ground truths.

    The tracker's accelerometer has white noise; a real one in flight is off by tens of mm/s^2 for
    seconds, and by how much differs from recording to recording: on EuRoC the tilt of a settled
    tracker is off by 0.12 to 0.23 deg, where it states 0.12 to 0.14. What an estimator adds to the
    stated covariance is the whole error of the recordings seen, widened as Student's distribution
    is. Nothing is subtracted for what the tracker states: such a difference is smaller than the
    spread between recordings, and left to itself makes the one recording that is worse a surprise.
    """
    seen = [tilt_errors(track) for track in tracks if track.vertical is not None]
    squares = [np.mean(errors**2) for errors, _ in seen if len(errors)]
    dof = 2.0 * len(squares)
    if dof < 3.0:
        return None
    return float(np.sqrt(np.mean(squares) * dof / (dof - 2.0)))


def tilt_errors(track: Track) -> tuple[Array, Array]:
    """(n, 2) error of the settled vertical where the biases are known [rad], in its level world,
    and (n, 2, 2) what tracker and audited ground truth state of it."""
    audited, vertical = track.audited, track.vertical
    assert vertical is not None
    assert audited.chain.covariance is not None
    sample = audited.states.samples
    every = max(round(INTERVAL_S * track.imu.rate_hz / float(np.median(np.diff(sample)))), 1)
    settled = sample > SETTLED_S * track.imu.rate_hz
    at = np.flatnonzero(settled & (vertical.block[sample] >= 0))[::every]
    sample = sample[at]
    block, R_h_b = vertical.block[sample], vertical.Rs_w_b[sample]
    phi_b = np.cross(-audited.states.Rs_w_b[at, 2], -R_h_b[:, 2])
    bias = np.hstack([audited.chain.bias_gyro, audited.chain.bias_acc])[at]
    away = vertical.bias[block] - bias
    across = R_h_b[:, :2]
    errors = np.einsum("nij,nj->ni", across, phi_b)
    errors += np.einsum("nij,nj->ni", vertical.tilt_D_bias[block], away)
    cov_b = audited.chain.covariance.states[audited.places[at], ROTATION, ROTATION]
    return errors, vertical.cov_tilt[block] + across @ cov_b @ np.swapaxes(across, 1, 2)


LABEL_HORIZONS_S = (0.1, 0.25, 0.5, 1.0, 2.5)
STRIDE_S = 0.5

SMALLEST = LabelNoise(1e-5, 1e-4, 1e-5, 1e-6, 1e-5, 1e-4, 1e-2, 1e-2)
"""Lower bounds: smaller noise cannot be distinguished from none."""

LARGEST = LabelNoise(0.1, 1.0, 0.1, 0.1, 0.1, 0.1, 1.0, 1.0)

START = LabelNoise(1e-4, 1e-3, 1e-4, 1e-4, 5e-4, 1e-3, 0.5, 0.5)


def fit_label_noise(imu: ImuMeasurements, track: Track, prior: BiasPrior) -> LabelNoise:
    """Label noise that makes the recording's integration errors most likely.

    Noise of a published truth, for reports that compare a model with it.

    Training goes by audited truths, whose covariances are known. What a published one adds to
    errors of integration is fitted to them for the finished model: eight numbers of a recording.

    `imu` is the track as the model measures it, `prior` the bias that it expects to be left.
    """
    windows = [_LabelWindows(imu, track, horizon_s, prior) for horizon_s in LABEL_HORIZONS_S]

    def cost(logarithms: Array) -> float:
        labels = LabelNoise(*np.exp(logarithms))
        return float(np.mean([one.negative_log_likelihood(labels) for one in windows]))

    bounds = list(zip(np.log(astuple(SMALLEST)), np.log(astuple(LARGEST)), strict=True))
    found = minimize(cost, np.log(astuple(START)), method="L-BFGS-B", bounds=bounds)
    return LabelNoise(*np.exp(found.x).tolist())


class _LabelWindows:
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
