"""Scale, misalignment and clock of a device, from audited recordings, where others confirm them.

Fitted to the integration errors of the training recordings, each with biases of its own, and kept
for a sensor where they make the errors of every tuning recording smaller: flights that hardly tilt
cannot tell a scale from a bias, and what is fitted to them then is theirs alone.

An audited truth was made with the wrong samples and follows them in part, so what is found at first
is too small. Ground truths are therefore audited anew with the samples that it gives, and what is
left is fitted to those audits (`refined_device`).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from maci2.geometry.gaussian import square_root_information
from maci2.imu import BETA, GAMMA, ImuMeasurements, datasheet_model
from maci2.imu.learned_model import DeviceConstants
from maci2.types import Array
from maci2_lab.evaluation.audited_integration import STRIDE_S, audited_windows
from maci2_lab.training.imu.data import Track, audited_variances

log = logging.getLogger(__name__)

HORIZON_S = 2.5
"""Over shorter times an audited truth follows the samples, right or wrong."""

PRIOR_STD = np.r_[np.full(18, 5e-3), 5e-3]
"""Standard deviations of both matrices and of the accelerometer's time [s]."""

SENSORS = {"gyroscope": (slice(0, 9), GAMMA), "accelerometer": (slice(9, 19), BETA)}
"""A sensor's numbers, and the errors that judge them."""

LARGEST_SHARE_LEFT = 0.95
"""Constants that take less than this off a tuning recording's rms error are not kept."""

AUDITS = 2
"""Audits with corrected samples; each leaves about a third of what was wrong before it."""

STEP = 1e-3
ROUNDS = 6


@dataclass(frozen=True)
class Linear:
    """Errors of one recording's m windows, and what they depend on."""

    e: Array
    """(m, 9)."""

    by_device: Array
    """(m, 9, 19) derivative by the constants."""

    by_bias: Array
    """(m, 9, 6) by the recording's biases."""

    whiten: Array
    """(m, 9, 9) square root of the errors' information."""


def fitted_device(train: list[Track], tune: list[Track]) -> DeviceConstants | None:
    """Constants of the device, from all recordings; None where no sensor's hold on `tune`."""
    seen, held_out = [linearized(track) for track in train], [linearized(track) for track in tune]
    found = fit(seen)
    kept = np.zeros(len(found), dtype=bool)
    for sensor, (part, errors) in SENSORS.items():
        alone = np.where(np.isin(np.arange(len(found)), np.r_[part]), found, 0.0)
        shares = [_rms_left(one, alone, errors) for one in held_out]
        kept[part] = bool(shares) and max(shares) <= LARGEST_SHARE_LEFT
        log.info("%s: its constants leave %s of the error over %g s on held-out recordings; %s",
                 sensor, ", ".join(f"{share:.0%}" for share in shares), HORIZON_S,
                 "kept" if kept[part].all() else "not kept")  # fmt: skip
    if not kept.any():
        return None
    return DeviceConstants.of(np.where(kept, fit(seen + held_out), 0.0))


def refined_device(
    device: DeviceConstants, audited_with: Callable[[DeviceConstants], list[Track]]
) -> DeviceConstants:
    """Constants of the sensors that `device` has, fitted to audits with corrected samples.

    `audited_with` gives all recordings, corrected and audited anew.
    """
    numbers = device.numbers
    for _ in range(AUDITS):
        left = fit([linearized(track) for track in audited_with(DeviceConstants.of(numbers))])
        log.info("constants move by up to %.1e with corrected samples", np.abs(left).max())
        numbers = numbers + np.where(device.numbers != 0.0, left, 0.0)
    return DeviceConstants.of(numbers)


def linearized(track: Track) -> Linear:
    """Errors of the samples as they are, the recording's mean bias aside."""
    bias = track.own_bias.mean
    imu = datasheet_model(track.imu, track.noise)
    variances = audited_variances(track).mean(axis=0)
    imu = replace(
        imu,
        gyro=imu.gyro - bias[:3],
        acc=imu.acc - bias[3:],
        var_gyro=np.broadcast_to(variances[:3], imu.gyro.shape),
        var_acc=np.broadcast_to(variances[3:], imu.acc.shape),
    )
    windows = audited_windows(track.audited, HORIZON_S)
    errors = windows.errors(imu)
    columns = [(windows.errors(wrong).e - errors.e) / STEP for wrong in _with_faults(imu)]
    cov = windows.shown(errors) + windows.cov_truth
    whiten = square_root_information(cov)
    return Linear(errors.e, np.stack(columns, axis=2), errors.e_D_bias, whiten)


def _with_faults(imu: ImuMeasurements) -> list[ImuMeasurements]:
    """The samples with each of the 19 constants off by `STEP`."""
    found = []
    for sensor in ("gyro", "acc"):
        values = getattr(imu, sensor)
        for i in range(3):
            for j in range(3):
                wrong = values.copy()
                wrong[:, i] += STEP * values[:, j]
                found.append(replace(imu, **{sensor: wrong}))
    seconds = 1e-9 * (imu.stamps_ns - imu.stamps_ns[0])
    slope = np.gradient(imu.acc, seconds, axis=0)
    return [*found, replace(imu, acc=imu.acc + STEP * slope)]


def fit(recordings: list[Linear]) -> Array:
    """(19,) most likely constants; robust (Cauchy), with biases of each recording's own."""
    k = len(PRIOR_STD)
    normal, right = np.diag(PRIOR_STD**-2.0), np.zeros(k)
    for one in recordings:
        rows = one.whiten @ np.concatenate([one.by_device, one.by_bias], axis=2)
        H, r = _robust_sums(rows, np.einsum("mij,mj->mi", one.whiten, one.e), PRIOR_STD**-2.0)
        # The recording's biases are eliminated.
        to_bias = H[:k, k:] @ np.linalg.inv(H[k:, k:])
        normal, right = normal + H[:k, :k] - to_bias @ H[k:, :k], right + r[:k] - to_bias @ r[k:]
    return np.asarray(np.linalg.solve(normal, right))


def _robust_sums(rows: Array, e: Array, info: Array) -> tuple[Array, Array]:
    """Normal equations of one recording, weighted by what its own best fit leaves."""
    x = np.zeros(rows.shape[2])
    prior = np.diag(np.r_[info, np.zeros(len(x) - len(info))])
    for _ in range(ROUNDS):
        weight = _weights(((e - rows @ x) ** 2).sum(axis=1), e.shape[1])
        H = np.einsum("m,mij,mik->jk", weight, rows, rows)
        r = np.einsum("m,mij,mi->j", weight, rows, e)
        x = np.linalg.solve(H + prior, r)
    return H, r


def _weights(squares: Array, dof: int) -> Array:
    """(m,) of windows by their squared residuals: by the scatter that they have, less for
    outliers, and less because windows overlap."""
    typical = float(np.median(squares))
    return np.asarray(dof / typical / (1.0 + squares / typical) * STRIDE_S / HORIZON_S)


def _rms_left(one: Linear, device: Array, part: slice) -> float:
    """Share of a recording's rms error that is left with the constants, biases fitted anew."""
    return _rms(one, one.e - one.by_device @ device, part) / _rms(one, one.e, part)


def _rms(one: Linear, e: Array, part: slice) -> float:
    rows, white = one.whiten @ one.by_bias, np.einsum("mij,mj->mi", one.whiten, e)
    x = np.linalg.solve(*_robust_sums(rows, white, np.zeros(0)))
    left = (e - one.by_bias @ x)[:, part]
    return float(np.sqrt((left**2).sum(axis=1).mean()))
