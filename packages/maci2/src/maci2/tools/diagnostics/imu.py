"""Checks of the IMU alone: implausible readings, noise, biases, axes of both sensors.

Gravity is constant in the world, so forces rotated back with the gyroscope must agree from one
interval to the next.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.findings import Finding, Level
from maci2.geometry.se3 import skew_stack, so3_exp_stack
from maci2.imu.rotation_rates import SIGNED_PERMUTATIONS
from maci2.imu.values import MIN_STUCK_S, changed, runs_of_equal, saturation, stuck_axis
from maci2.sensors import ImuNoise, ImuSamples
from maci2.sensors.validation import DISAGREE, GRAVITY_TOLERANCE, IN_DEGREES, Fault, imu_faults
from maci2.tools.diagnostics import checks
from maci2.types import GRAVITY_NORM, NS, Array, Mask

NOISE_RATIO = (0.1, 10.0)
"""Accepted ratio of the noise of the quietest second to the data sheet's. The vibration of a flying
multicopter gives up to 6, data sheets with a margin 0.3; wrong units give 14 (a density taken as
standard deviation at 200 Hz), 57 (degrees) and more."""

MAX_BIAS_GYRO = 0.2
"""Largest plausible gyroscope bias [rad/s], beyond that of common MEMS sensors."""

MAX_BIAS_ACC = 0.5
"""Largest plausible accelerometer bias [m/s^2]: five sigmas of the estimator's prior."""

SENSORS = (("gyroscope", "gyro", "rad/s"), ("accelerometer", "acc", "m/s^2"))
"""Name, field of the samples, unit."""

FALSE_ALARM = 1e-4
"""Probability that an axis is called clipped although it never reached the end of its range."""


def imu_value_findings(samples: ImuSamples, noise: ImuNoise | None) -> list[Finding]:
    """Findings, causes first; consistency of the axes is checked elsewhere.

    `noise` is that of the calibration, None where it states none.
    """
    faults = [found for found in imu_faults(samples) if found.name != "gaps"]
    serious = any(found.serious for found in faults)
    if serious and _is_swapped(samples):
        rate, force = _typical_length(samples.gyro), _typical_length(samples.acc)
        return [checks.SWAPPED_COLUMNS.finding("imu", rate=rate, force=force)]
    findings = [_from_plausibility(f) for f in faults if not _is_disagreement(f, samples)]
    findings += list(_clipped(samples)) or list(_stuck(samples))
    findings += _repeated(samples)
    if not serious and noise is not None:
        findings += _noise(samples, noise)
    return findings


def disagreement_finding(samples: ImuSamples) -> list[Finding]:
    """Finding about a contradiction of the sensors that no change of axes explains."""
    faults = imu_faults(samples)
    return [_from_plausibility(f) for f in faults if _is_disagreement(f, samples)]


def _is_disagreement(found: Fault, samples: ImuSamples) -> bool:
    """Forces have the norm of gravity but disagree when rotated back: wrong rates."""
    return found.name == DISAGREE or (
        found.serious
        and found.name != IN_DEGREES
        and abs(_typical_length(samples.acc) - GRAVITY_NORM) < GRAVITY_TOLERANCE
    )


def _from_plausibility(found: Fault) -> Finding:
    serious = found.serious or found.name.endswith("stuck")
    text = f"{found.name}: {found.text}"
    remedy = "Multiply the gyroscope columns by pi/180." if found.name == IN_DEGREES else ""
    return Finding("error" if serious else "warn", "imu", text, found.name, remedy=remedy)


def _is_swapped(samples: ImuSamples) -> bool:
    """Readings are plausible only with gyroscope and accelerometer exchanged."""
    if abs(_typical_length(samples.acc) - GRAVITY_NORM) < GRAVITY_TOLERANCE:
        return False
    exchanged = replace(samples, gyro=samples.acc, acc=samples.gyro)
    return not any(found.serious for found in imu_faults(exchanged))


def _typical_length(values: Array) -> float:
    return float(np.median(np.linalg.norm(values, axis=1)))


def _stuck(samples: ImuSamples) -> Iterator[Finding]:
    """Findings about an axis that is stuck for a while."""
    for sensor, field, unit in SENSORS:
        values: Array = getattr(samples, field)
        stuck = stuck_axis(values, samples.rate_hz)
        if stuck is not None and stuck.length < len(samples):
            yield checks.STUCK.finding(
                "imu",
                sensor=sensor,
                axis="xyz"[stuck.axis],
                value=values[stuck.start, stuck.axis],
                unit=unit,
                length_s=stuck.length / samples.rate_hz,
                stamp_ns=samples.stamps_ns[stuck.start],
                others=stuck.others,
            )


def _repeated(samples: ImuSamples) -> Iterator[Finding]:
    """Finding about samples that repeat the one before."""
    is_new: Mask = np.asarray(changed(np.hstack([samples.gyro, samples.acc])).any(axis=1))
    share_pct = 100.0 * float(np.mean(~is_new))
    if share_pct >= checks.REPEATED_SAMPLES.limit:
        longest = runs_of_equal(is_new)[1].max()
        yield checks.REPEATED_SAMPLES.finding(
            "imu",
            "error" if longest > MIN_STUCK_S * samples.rate_hz else "warn",
            share_pct=share_pct,
            longest=longest - 1,
            rate_hz=samples.rate_hz * (1.0 - share_pct / 100.0),
        )


def _clipped(samples: ImuSamples) -> Iterator[Finding]:
    for sensor, field, unit in SENSORS:
        for axis, values in zip("xyz", getattr(samples, field).T, strict=True):
            met = saturation(values, FALSE_ALARM)
            # One long run is a stuck axis; a clipped one comes back to its limit.
            if met is None or (met.samples == met.longest > MIN_STUCK_S * samples.rate_hz):
                continue
            share_pct = 100.0 * met.samples / len(values)
            level: Level = "error" if share_pct > checks.CLIPPED.limit else "warn"
            measured = {"sensor": sensor, "axis": axis, "unit": unit, "share_pct": share_pct}
            yield checks.CLIPPED.finding("imu", level, **measured, **met._asdict())


def _noise(samples: ImuSamples, stated: ImuNoise) -> list[Finding]:
    """Findings about noise, and about biases if the device stood still."""
    findings, at_rest, (low, high) = [], True, NOISE_RATIO
    for sensor, field, unit in SENSORS:
        noise, spread = _quietest(getattr(samples, field), samples.rate_hz)[:2]
        # Rest: in one second nothing changes but noise, three times its size allowed.
        at_rest = at_rest and spread < 3.0 * noise
        density, sheet = noise / np.sqrt(samples.rate_hz), getattr(stated, f"density_{field}")
        if not low < density / sheet < high:
            measured = {"density": density, "ratio": density / sheet, "stated": sheet}
            findings.append(
                checks.NOISE_DENSITY.finding(
                    "imu", sensor=sensor, unit=unit, low=low, high=high, **measured
                )
            )
    if not findings and at_rest:
        bias_gyro = _quietest(samples.gyro, samples.rate_hz)[2]
        findings += bias_findings(bias_gyro, np.zeros(3), "at rest")
    return findings


def _quietest(values: Array, rate_hz: float) -> tuple[float, float, Array]:
    """Noise of a sample in the second whose noisiest axis has the least, from second differences,
    which remove motion; spread of the readings in the quietest second, and their mean."""
    length = min(max(round(rate_hz), 8), len(values))
    count = len(values) // length
    seconds = values[: count * length].reshape(count, length, 3)
    # White noise of variance s^2 has second differences of variance 6 s^2.
    noise = np.sqrt(np.mean(np.diff(seconds, 2, axis=1) ** 2, axis=1) / 6.0).max(axis=1)
    spread = seconds.std(axis=1).max(axis=1)
    at = int(np.argmin(spread))
    return float(noise.min()), float(spread[at]), seconds[at].mean(axis=0)


def bias_findings(bias_gyro: Array, bias_acc: Array, where: str) -> list[Finding]:
    """Findings about implausibly large biases."""
    findings = []
    for (sensor, _, unit), bias, largest in zip(
        SENSORS, (bias_gyro, bias_acc), (MAX_BIAS_GYRO, MAX_BIAS_ACC), strict=True
    ):
        axis = int(np.argmax(np.abs(bias)))
        if abs(bias[axis]) > largest:
            measured = {"axis": "xyz"[axis], "bias": bias[axis], "largest": largest, "where": where}
            findings.append(checks.LARGE_BIAS.finding("imu", sensor=sensor, unit=unit, **measured))
    return findings


WINDOW_S = 5.0
"""Length of a window whose halves are compared [s]: accelerations average out in 2.5 s."""

MAX_WINDOWS = 40
RATE_HZ = 50.0

MAX_MISFIT = 1.5
"""Largest accepted misfit of the mean forces of two halves, median [m/s^2]: a change of speed by 3
m/s from one half to the other. Hand-held devices, multicopters and cars stay below 1.4."""

BETTER = 0.5
"""Other axes are accepted if they leave at most this fraction of the misfit."""

SURE = 0.67
"""The best axes are named if their misfit is below this fraction of the second-best one."""

FAST = 5.0
"""Rates [rad/s] above which readings may be in deg/s; slower ones would mean a stationary device,
which is recognized."""

STILL = 0.3
"""Spread of the forces while stationary [m/s^2], vibration included."""

DEG = np.pi / 180.0


@dataclass(frozen=True)
class GravityAxes:
    """Axes and unit that make the gyroscope agree with the accelerometer."""

    misfit: float
    """Misfit of the forces as recorded, rms [m/s^2]."""

    best_misfit: float
    P: Array
    """Signed permutation: rate about the accelerometer's axes = scale P gyro."""

    scale: float
    """1, or pi / 180 for a gyroscope in deg/s."""

    sure: bool
    """No other axes are nearly as good."""

    @property
    def disagree(self) -> bool:
        return self.misfit > MAX_MISFIT and self.best_misfit < BETTER * self.misfit


def compare_with_gravity(imu: ImuSamples) -> GravityAxes | None:
    """Try all axes if the recorded ones do not agree; None for recordings shorter than 5 s.

    A multicopter's force stays on one axis however it rotates, so this proves little there: only
    large contradictions are looked into.
    """
    halves = _Halves.of(imu)
    if halves is None:
        return None
    [as_is] = halves.misfits(np.eye(3)[None])
    if as_is <= MAX_MISFIT:
        return GravityAxes(as_is, as_is, np.eye(3), 1.0, True)
    if _may_be_degrees(imu):
        [in_degrees] = halves.misfits(DEG * np.eye(3)[None])
        if in_degrees < BETTER * as_is:
            return GravityAxes(as_is, in_degrees, np.eye(3), DEG, True)
    tried = halves.misfits(np.array(SIGNED_PERMUTATIONS))
    order = np.argsort(tried, kind="stable")
    best, second = tried[order[0]], tried[order[1]]
    return GravityAxes(as_is, best, SIGNED_PERMUTATIONS[order[0]], 1.0, best < SURE * second)


def _may_be_degrees(imu: ImuSamples) -> bool:
    rate = float(np.percentile(np.linalg.norm(imu.gyro, axis=1), 99))
    return rate > FAST or float(imu.acc.std(axis=0).max()) < STILL


@dataclass(frozen=True)
class _Halves:
    """Windows of mean readings at a lower rate."""

    gyro: Array
    """(windows, steps, 3)"""

    acc: Array
    dt: float

    @classmethod
    def of(cls, imu: ImuSamples) -> "_Halves | None":
        every = max(round(imu.rate_hz / RATE_HZ), 1)
        count = len(imu) // every
        steps = round(WINDOW_S * imu.rate_hz / every)
        if count < steps or steps < 4:
            return None
        gyro, acc = (
            v[: count * every].reshape(count, every, 3).mean(axis=1) for v in (imu.gyro, imu.acc)
        )
        starts = np.arange(0, count - steps + 1, max(steps // 2, 1))
        lengths_ns = imu.stamps_ns[(starts + steps) * every - 1] - imu.stamps_ns[starts * every]
        starts = starts[lengths_ns < 1.1 * WINDOW_S * NS]
        if len(starts) == 0:
            return None
        starts = starts[np.linspace(0, len(starts) - 1, min(len(starts), MAX_WINDOWS)).astype(int)]
        rows = starts[:, None] + np.arange(steps)
        return cls(gyro[rows], acc[rows], every / imu.rate_hz)

    def misfits(self, Ms: Array) -> list[float]:
        """Difference of both halves after fitting a bias, median [m/s^2], for rates M gyro."""
        rates = np.einsum("mij,wsj->mwsi", Ms, self.gyro)
        std = CALIBRATED.gyro_bias * np.cbrt(np.abs(np.linalg.det(Ms)))[:, None]
        bias = np.zeros((len(Ms), 3))
        for _ in range(2):
            apart, apart_D_bias = self._difference(rates - bias[:, None, None])
            H = np.einsum("mwij,mwik->mjk", apart_D_bias, apart_D_bias)
            H += std[:, :, None] ** -2.0 * np.eye(3)
            gradient = np.einsum("mwij,mwi->mj", apart_D_bias, apart) + bias * std**-2.0
            bias = bias - np.linalg.solve(H, gradient[:, :, None])[:, :, 0]
        apart = self._difference(rates - bias[:, None, None])[0]
        # Median over windows: one hard manoeuvre does not decide.
        return [float(m) for m in np.sqrt(np.median(np.sum(apart**2, axis=2), axis=1))]

    def _difference(self, rates: Array) -> tuple[Array, Array]:
        """(m, windows, 3) difference of the halves' mean forces, and derivatives by the bias."""
        shape, steps = rates.shape[:2], rates.shape[2]
        count = shape[0] * shape[1]
        flat = rates.reshape(count, steps, 3)
        acc = np.broadcast_to(self.acc, (shape[0], *self.acc.shape)).reshape(count, steps, 3)
        R = np.broadcast_to(np.eye(3), (count, 3, 3))
        turn_D_bias = np.zeros((count, 3, 3))
        apart, apart_D_bias = np.zeros((count, 3)), np.zeros((count, 3, 3))
        for step in range(steps):
            sign = (2.0 if 2 * step >= steps else -2.0) / steps
            force = np.einsum("nij,nj->ni", R, acc[:, step])
            apart += sign * force
            # To first order: R rotates by turn_D_bias, expressed at the window's start.
            apart_D_bias -= sign * skew_stack(force) @ turn_D_bias
            turn_D_bias = turn_D_bias - self.dt * R
            R = R @ so3_exp_stack(flat[:, step] * self.dt)
        return apart.reshape(*shape, 3), apart_D_bias.reshape(*shape, 3, 3)
