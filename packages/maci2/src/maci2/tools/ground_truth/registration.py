"""Clock and axes of a capture against the IMU's, to begin with, from rates and forces.

Angular rates as the capture saw them are compared with the gyroscope's; for positions alone, the
second derivative of position with the accelerometer. Also found here: poses given as their inverse,
quaternions in another order, positions in another unit, clocks off by seconds, and rows that were
written after the tracker had lost the body.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy
from scipy.spatial.transform import Rotation

from maci2.errors import DatasetError
from maci2.geometry import so3_log
from maci2.geometry.se3 import nearest_rotation, so3_log_stack, stack_poses
from maci2.imu.rotation_rates import (
    MIN_RATE,
    RateMatch,
    RotationSource,
    impossible_rates,
    match_rates,
)
from maci2.sensors import ImuSamples
from maci2.tools.ground_truth.capture import TRAJECTORY, Capture
from maci2.types import GRAVITY_NORM, NS, Array

GRID_HZ = 50.0

WINDOW = round(0.4 * GRID_HZ) | 1
"""Points of the grid, over 0.4 s, in polynomials that differentiate positions and smooth forces."""

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
    correlate = partial(scipy.signal.correlate, method="fft")
    ones, their_ones = np.ones(len(ours)), np.ones(len(theirs))
    energy = correlate(ours**2, their_ones) * correlate(ones, theirs**2)
    enough = correlate(ones, their_ones) > 0.5 * min(len(ours), len(theirs)) - 1
    cross = correlate(ours, theirs)
    scores: Array = np.where(enough, cross / np.sqrt(np.maximum(energy, 1e-12)), 0.0)
    return scipy.signal.correlation_lags(len(ours), len(theirs)).astype(np.float64), scores


def _grid(at_s: Array) -> Array:
    return np.arange(at_s[0], at_s[-1], 1.0 / GRID_HZ)


def _on_grid(imu: ImuSamples, values: Array) -> Array:
    """Samples at the grid's instants, smoothed as the capture's derivatives are."""
    at_s = (imu.stamps_ns - imu.stamps_ns[0]) / NS
    total = np.vstack([np.zeros(3), np.cumsum(0.5 * (values[1:] + values[:-1]), axis=0)])
    period = float(np.median(np.diff(at_s)))
    lower, upper = (
        np.stack([np.interp(_grid(at_s) + half, at_s, axis) for axis in total.T], axis=1)
        for half in (-0.5 / GRID_HZ, 0.5 / GRID_HZ)
    )
    means = (upper - lower) * period * GRID_HZ
    return np.asarray(scipy.signal.savgol_filter(means, WINDOW, 2, axis=0))


def _accelerations(at_s: Array, p: Array) -> Array:
    """(n, 3) specific force in a level world, from positions."""
    grid = _grid(at_s)
    positions = np.stack([np.interp(grid, at_s, axis) for axis in p.T], axis=1)
    acc = scipy.signal.savgol_filter(positions, WINDOW, 2, deriv=2, delta=1.0 / GRID_HZ, axis=0)
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
    return np.asarray(np.roll(scipy.signal.savgol_filter(rate, WINDOW, 2), round(0.05 * GRID_HZ)))


def resting_rate(imu: ImuSamples) -> Array:
    """(3,) reading of the gyroscope in its quietest second [rad/s]."""
    length = max(min(round(imu.rate_hz), len(imu) // 4), 1)
    count = len(imu) // length
    blocks = imu.gyro[: count * length].reshape(count, length, 3)
    quietest = int(np.argmin(blocks.var(axis=1).sum(axis=1)))
    return np.asarray(blocks[quietest].mean(axis=0))


MIN_COMMON_S = 8.0
"""Least common time of capture and IMU, at any offset of their clocks."""

ALIKE = 0.8
"""Correlation above which two curves show one motion."""

RESTLESS = 4.0
"""Variation of a gyroscope that is certainly rotated, in multiples of `MIN_RATE`."""

STATED = 0.01
"""Weight of a marker's stated rotation: enough where rates say nothing, half a degree where they
do, which the audit's chain takes off."""


CLEARLY_BETTER = 0.1
"""Gain in correlation above which another reading of the quaternions is meant."""

IN_PLACE = np.deg2rad(10.0)
"""Angle between a marker's mounting as stated and as found, below which it is the stated one."""

UNITS = {"millimetres": 1e-3, "centimetres": 1e-2, "feet": 0.3048, "inches": 0.0254}
"""Metres in each."""


@dataclass(frozen=True)
class Registration:
    """A first idea of the constants between capture and IMU."""

    offset_s: float
    """Seconds to add to the capture's timestamps."""

    R_b_m: Array
    """(3, 3) rotation of the marker on the body."""

    bias_gyro: Array
    """(3,) [rad/s]"""

    correlation: float
    """Correlation of rates (or accelerations) after the best rotation and offset."""


def register(capture: Capture, imu: ImuSamples) -> Registration:
    """Offset, axes and gyroscope bias to begin with; raises where capture and IMU do not fit."""
    lengths_s = [(stamps[-1] - stamps[0]) / NS for stamps in (capture.stamps_ns, imu.stamps_ns)]
    if len(capture) < 10 or min(lengths_s) < MIN_COMMON_S:
        raise DatasetError(
            f"{capture.source}: {len(capture)} rows over {lengths_s[0]:.1f} s, IMU samples over "
            f"{lengths_s[1]:.1f} s; an audit needs at least {MIN_COMMON_S:.0f} s of both."
        )
    lag_s, alike = coarse_lag(capture, imu)
    if capture.Rs_w_m is None:
        if alike < ALIKE:
            _require_metres(capture, imu)
            raise _no_likeness(capture, alike)
        return Registration(lag_s, np.eye(3), resting_rate(imu), alike)
    fit = _fit_rates(capture, imu, lag_s)
    if fit is None or fit.match.excitation < MIN_RATE:
        rate = 0.0 if fit is None else float(np.linalg.norm(fit.match.gyro.std(axis=0)))
        if rate > RESTLESS * MIN_RATE:
            raise DatasetError(
                f"{capture.source}: its orientations do not change, while the gyroscope's rate "
                f"varies by {rate:.2f} rad/s: the capture stood still, or its orientations were "
                "not written. Check that both are of one recording."
            )
        # Nothing rotates: forces alone show an offset, where they vary at all.
        lag_s = lag_s if alike > ALIKE else 0.0
        return Registration(lag_s, capture.T_b_m[:3, :3], resting_rate(imu), 0.0)
    if lag_s != 0.0:
        # Norms of rates mislead where the gyroscope never rests, so that its bias is unknown.
        unshifted = _fit_rates(capture, imu, 0.0)
        if unshifted is not None and unshifted.correlation > max(ALIKE, fit.correlation):
            fit = unshifted
    _require_readable(capture, imu, fit.correlation)
    bias = np.median(fit.match.gyro - fit.match.rates_s @ fit.R_b_m.T, axis=0)
    return Registration(fit.lag_s + fit.match.offset_s, fit.R_b_m, bias, fit.correlation)


class _RateFit(NamedTuple):
    lag_s: float
    """Added to the capture's timestamps before the rates were matched."""

    match: RateMatch
    R_b_m: Array
    correlation: float
    """After the rotation; constant biases drop out."""


def _fit_rates(capture: Capture, imu: ImuSamples, lag_s: float) -> _RateFit | None:
    """Rates of a capture with orientations matched near a lag, and the best rotation between them.

    About an axis that no rotation shows, the stated one holds.
    """
    assert capture.Rs_w_m is not None
    stamps_ns = capture.stamps_ns + round(lag_s * NS)
    Ts_w_m = stack_poses(capture.Rs_w_m, capture.p_w_m)
    match = match_rates(RotationSource(capture.name, "truth", stamps_ns, Ts_w_m, np.eye(4)), imu)
    if match is None:
        return None
    gyro, rates = (values - values.mean(axis=0) for values in (match.gyro, match.rates_s))
    M = gyro.T @ rates
    R = nearest_rotation(M + STATED * np.linalg.norm(M) * capture.T_b_m[:3, :3])
    norms = float(np.linalg.norm(gyro) * np.linalg.norm(rates))
    return _RateFit(lag_s, match, R, float(np.sum(R * M)) / max(norms, 1e-12))


def _require_metres(capture: Capture, imu: ImuSamples) -> None:
    """Raise with the unit in which positions alone do move like the IMU."""
    for unit, metres in UNITS.items():
        _, alike = coarse_lag(replace(capture, p_w_m=metres * capture.p_w_m), imu)
        if alike > ALIKE:
            raise DatasetError(
                f"{capture.source}: its accelerations fit the IMU's (correlation {alike:.2f}) only "
                f"if its positions are in {unit}. Convert them to metres."
            )


def _require_readable(capture: Capture, imu: ImuSamples, likeness: float) -> None:
    """Raise with the reading of the quaternions that fits, where the given one does not."""
    if likeness > 0.95 or capture.Rs_w_m is None:
        return
    # The file may have its quaternions in the order that it should not have, one place off: the
    # numbers of a trajectory were x y z w, those of all other files w x y z.
    trajectory = capture.name.startswith(TRAJECTORY)
    order = "w, x, y, z" if trajectory else "x, y, z, w"
    numbers = Rotation.from_matrix(capture.Rs_w_m).as_quat(scalar_first=not trajectory)
    other_order = Rotation.from_quat(numbers, scalar_first=trajectory).as_matrix()
    inverted = np.swapaxes(capture.Rs_w_m, 1, 2)
    readings = {
        f"the quaternions are in the order {order}": other_order,
        "the poses are inverted (world in body)": inverted,
        f"the quaternions are in the order {order} and inverted": np.swapaxes(other_order, 1, 2),
    }
    fits = {}
    for text, Rs_w_m in readings.items():
        read = replace(capture, Rs_w_m=Rs_w_m)
        fit = _fit_rates(read, imu, coarse_lag(read, imu)[0])
        if fit is not None:
            fits[text] = fit
    best = max((fit.correlation for fit in fits.values()), default=0.0)
    if best > max(ALIKE, likeness + CLEARLY_BETTER):
        # Numbers one place off are an inverse between fixed rotations: several readings may fit.
        # The one that leaves the marker where it should be is meant; where none does, any may be.
        near = {
            text: float(np.linalg.norm(so3_log(capture.T_b_m[:3, :3].T @ fit.R_b_m)))
            for text, fit in fits.items()
            if fit.correlation > best - 0.02
        }
        nearest = min(near, key=lambda text: near[text])
        meant = nearest if near[nearest] < IN_PLACE else ", or ".join(near)
        raise DatasetError(
            f"{capture.source}: rotations as read do not fit the gyroscope (correlation "
            f"{likeness:.2f}), but they do (correlation {best:.2f}) if {meant}. "
            "Convert the file and audit it again."
        )
    if likeness < ALIKE:
        raise _no_likeness(capture, likeness)


def _no_likeness(capture: Capture, likeness: float) -> DatasetError:
    return DatasetError(
        f"{capture.source}: no clock offset and no rotation makes it move like the IMU "
        f"(correlation {likeness:.2f}, needed {ALIKE}). Check that both are of one recording, and "
        "that its noise is smaller than the motion."
    )


def unit_of_positions(scale: float) -> str:
    """The unit in which positions were given, from metres per unit found; empty for metres and
    where no unit explains it."""
    for unit, metres in UNITS.items():
        if abs(np.log(scale / metres)) < 0.25:
            return unit
    return ""


SHORTEST_S = 0.1
"""A pose repeated for less is a slow tracker, read out fast."""


def without_lost_rows(capture: Capture, found: Registration, imu: ImuSamples) -> Capture:
    """The capture without them; they are named in `lost_ns`."""
    if capture.Rs_w_m is None:
        return capture
    poses = np.hstack([capture.p_w_m, capture.Rs_w_m.reshape(-1, 9)])
    changes = np.r_[True, (poses[1:] != poses[:-1]).any(axis=1)]
    firsts = np.flatnonzero(changes)
    lasts = np.r_[firsts[1:], len(poses)] - 1
    lost = np.zeros(len(poses), dtype=bool)
    speed = np.linalg.norm(imu.gyro - found.bias_gyro, axis=1)
    on_imu_ns = capture.stamps_ns + round(found.offset_s * NS)
    for first, last in zip(firsts, lasts, strict=True):
        if on_imu_ns[last] - on_imu_ns[first] >= SHORTEST_S * NS:
            during = speed[slice(*np.searchsorted(imu.stamps_ns, on_imu_ns[[first, last]]))]
            lost[first : last + 1] = len(during) > 0 and np.median(during) > MIN_RATE
    if not lost.any():
        return capture
    claims = capture.claims
    if claims is not None:
        claims = claims.part(~np.isin(claims.stamps_ns, capture.stamps_ns[lost]))
    return replace(capture.part(~lost), claims=claims, lost_ns=capture.stamps_ns[lost])


def lost_rows_in_words(capture: Capture) -> str:
    """Number of lost rows and the time of the first; empty without any."""
    if not len(capture.lost_ns):
        return ""
    at_s = (capture.lost_ns[0] - capture.stamps_ns[0]) / NS
    return (
        f"{len(capture.lost_ns)} rows repeat one pose while the body rotates (tracking lost?), "
        f"from {at_s:.1f} s on"
    )
