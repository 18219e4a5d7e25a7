"""The lag between a capture's clock and the IMU's, any number of seconds, from curves that no
rotation changes."""

import numpy as np
import scipy

from maci2.ground_truth.capture import Capture
from maci2.imu.rotation_rates import MIN_RATE, impossible_rates
from maci2.lie.stacks import so3_log_stack
from maci2.sensors import ImuSamples
from maci2.types import GRAVITY_NORM, NS, Array

GRID_HZ = 50.0

SMOOTH_S = 0.4
"""Window of the polynomials that differentiate positions and smooth forces."""

RELATED = 0.5
"""Correlation below which no lag is better than none."""


def coarse_lag(capture: Capture, imu: ImuSamples) -> tuple[float, float]:
    """Seconds to add to the capture's timestamps, from curves that no rotation changes, at any lag.

    Norms of angular rates where the capture rotates, else of specific forces. The lag nearest
    to zero wins where several fit nearly as well.
    """
    at_s = (capture.stamps_ns - capture.stamps_ns[0]) / NS
    theirs = np.zeros(1) if capture.Rs_w_m is None else _rate_norms(at_s, capture.Rs_w_m, imu)
    if theirs.std() < MIN_RATE:
        theirs = np.linalg.norm(_accelerations(at_s, capture.p_w_m), axis=1)
        ours = np.linalg.norm(_on_grid(imu, imu.acc), axis=1)
    else:
        ours = np.linalg.norm(_on_grid(imu, imu.gyro - resting_rate(imu)), axis=1)
    between_s = (int(imu.stamps_ns[0]) - int(capture.stamps_ns[0])) / NS
    lags, scores = _correlations(ours, theirs)
    lags_s = lags / GRID_HZ + between_s
    best = float(scores.max())
    if best < RELATED:
        return 0.0, best
    good = np.flatnonzero(scores > 0.97 * best)
    nearest = good[np.argmin(np.abs(lags_s[good]))]
    # Within the fine search the clocks are taken as one.
    close = np.flatnonzero((np.abs(lags_s) < 0.5) & (scores > 0.9 * best))
    if len(close):
        return 0.0, float(scores[close].max())
    return float(lags_s[nearest]), float(scores[nearest])


def _correlations(ours: Array, theirs: Array) -> tuple[Array, Array]:
    """Lags [samples] and correlation coefficients at each; overlap of half the shorter curve."""
    ours, theirs = ours - np.median(ours), theirs - np.median(theirs)
    ones, their_ones = np.ones(len(ours)), np.ones(len(theirs))
    cross = scipy.signal.fftconvolve(ours, theirs[::-1])
    energy = scipy.signal.fftconvolve(ours**2, their_ones[::-1]) * scipy.signal.fftconvolve(
        ones, theirs[::-1] ** 2
    )
    overlap = scipy.signal.fftconvolve(ones, their_ones[::-1])
    enough = overlap > 0.5 * min(len(ours), len(theirs)) - 1
    scores: Array = np.where(enough, cross / np.sqrt(np.maximum(energy, 1e-12)), 0.0)
    lags: Array = np.arange(len(cross), dtype=np.float64) - (len(theirs) - 1.0)
    return lags, scores


def _grid(at_s: Array) -> Array:
    return np.arange(at_s[0], at_s[-1], 1.0 / GRID_HZ)


def _window() -> int:
    return round(SMOOTH_S * GRID_HZ) | 1


def _on_grid(imu: ImuSamples, values: Array) -> Array:
    """Samples at the grid's instants, smoothed as the capture's derivatives are."""
    at_s = (imu.stamps_ns - imu.stamps_ns[0]) / NS
    total = np.vstack([np.zeros(3), np.cumsum(0.5 * (values[1:] + values[:-1]), axis=0)])
    period = float(np.median(np.diff(at_s)))
    grid = _grid(at_s)
    upper = np.stack([np.interp(grid + 0.5 / GRID_HZ, at_s, axis) for axis in total.T], axis=1)
    lower = np.stack([np.interp(grid - 0.5 / GRID_HZ, at_s, axis) for axis in total.T], axis=1)
    means = (upper - lower) * period * GRID_HZ
    return np.asarray(scipy.signal.savgol_filter(means, _window(), 2, axis=0))


def _accelerations(at_s: Array, p: Array) -> Array:
    """(n, 3) specific force in a level world, from positions."""
    grid = _grid(at_s)
    positions = np.stack([np.interp(grid, at_s, axis) for axis in p.T], axis=1)
    acc = scipy.signal.savgol_filter(positions, _window(), 2, deriv=2, delta=1.0 / GRID_HZ, axis=0)
    return np.asarray(acc + np.array([0.0, 0.0, GRAVITY_NORM]))


def _rate_norms(at_s: Array, Rs: Array, imu: ImuSamples) -> Array:
    grid = _grid(at_s)
    rows = np.clip(np.searchsorted(at_s, grid), 0, len(at_s) - 1)
    later = np.clip(np.searchsorted(at_s, grid + 0.1), 0, len(at_s) - 1)
    turn = so3_log_stack(np.swapaxes(Rs[rows], 1, 2) @ Rs[later])
    dt = np.maximum(at_s[later] - at_s[rows], 1e-3)
    rate = np.where((dt > 0.05) & (dt < 0.3), np.linalg.norm(turn, axis=1) / dt, 0.0)
    rate[impossible_rates(rate, imu)] = 0.0
    # The rate is that of the middle of a tenth of a second.
    return np.asarray(
        np.roll(scipy.signal.savgol_filter(rate, _window(), 2), round(0.05 * GRID_HZ))
    )


def resting_rate(imu: ImuSamples) -> Array:
    """(3,) reading of the gyroscope in its quietest second [rad/s]."""
    length = max(min(round(imu.rate_hz), len(imu) // 4), 1)
    count = len(imu) // length
    blocks = imu.gyro[: count * length].reshape(count, length, 3)
    quietest = int(np.argmin(blocks.var(axis=1).sum(axis=1)))
    return np.asarray(blocks[quietest].mean(axis=0))
