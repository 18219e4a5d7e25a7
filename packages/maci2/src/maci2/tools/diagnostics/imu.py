"""Checks of the IMU's readings: implausible values, noise, biases."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from maci2.findings import Finding
from maci2.imu.values import MIN_STUCK_S, changed, runs_of_equal, saturation, stuck_axis
from maci2.sensors import ImuNoise, ImuSamples
from maci2.sensors.validation import DISAGREE, GRAVITY_TOLERANCE, IN_DEGREES, Fault, imu_faults
from maci2.tools.diagnostics import checks
from maci2.types import GRAVITY_NORM, Array

NOISE_RATIO = (0.1, 10.0)
"""Accepted ratio of the noise of the quietest second to the data sheet's. The vibration of a flying
multicopter gives up to 6, data sheets with a margin 0.3; wrong units give 14 (a density taken as
standard deviation at 200 Hz), 57 (degrees) and more."""

SENSORS = (("gyroscope", "gyro", "rad/s", 0.2), ("accelerometer", "acc", "m/s^2", 0.5))
"""Name, field of the samples, unit, and largest plausible bias: for a gyroscope beyond that of
common MEMS sensors, for an accelerometer five sigmas of the estimator's prior."""

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
    wrong_rates = found.serious and found.name != IN_DEGREES and _feels_gravity(samples)
    return found.name == DISAGREE or wrong_rates


def _from_plausibility(found: Fault) -> Finding:
    serious = found.serious or found.name.endswith("stuck")
    text = f"{found.name}: {found.text}"
    remedy = "Multiply the gyroscope columns by pi/180." if found.name == IN_DEGREES else ""
    return Finding("error" if serious else "warn", "imu", text, found.name, remedy=remedy)


def _is_swapped(samples: ImuSamples) -> bool:
    """Readings are plausible only with gyroscope and accelerometer exchanged."""
    exchanged = replace(samples, gyro=samples.acc, acc=samples.gyro)
    return not _feels_gravity(samples) and not any(f.serious for f in imu_faults(exchanged))


def _feels_gravity(samples: ImuSamples) -> bool:
    return abs(_typical_length(samples.acc) - GRAVITY_NORM) < GRAVITY_TOLERANCE


def _typical_length(values: Array) -> float:
    return float(np.median(np.linalg.norm(values, axis=1)))


def _stuck(samples: ImuSamples) -> Iterator[Finding]:
    """Findings about an axis that is stuck for a while."""
    for sensor, field, unit, _ in SENSORS:
        values: Array = getattr(samples, field)
        stuck = stuck_axis(values, samples.rate_hz)
        if stuck is not None and stuck.length < len(samples):
            measured = {
                "axis": "xyz"[stuck.axis],
                "value": values[stuck.start, stuck.axis],
                "length_s": stuck.length / samples.rate_hz,
                "stamp_ns": samples.stamps_ns[stuck.start],
                "others": stuck.others,
            }
            yield checks.STUCK.finding("imu", sensor=sensor, unit=unit, **measured)


def _repeated(samples: ImuSamples) -> Iterator[Finding]:
    """Finding about samples that repeat the one before."""
    is_new = np.asarray(changed(np.hstack([samples.gyro, samples.acc])).any(axis=1))
    share_pct = 100.0 * float(np.mean(~is_new))
    if share_pct >= checks.REPEATED_SAMPLES.limit:
        longest, rate_hz = runs_of_equal(is_new)[1].max(), samples.rate_hz
        measured = {"longest": longest - 1, "rate_hz": rate_hz * (1.0 - share_pct / 100.0)}
        serious = bool(longest > MIN_STUCK_S * rate_hz)
        yield checks.REPEATED_SAMPLES.finding("imu", serious, share_pct=share_pct, **measured)


def _clipped(samples: ImuSamples) -> Iterator[Finding]:
    for sensor, field, unit, _ in SENSORS:
        for axis, values in zip("xyz", getattr(samples, field).T, strict=True):
            met = saturation(values, FALSE_ALARM)
            # One long run is a stuck axis; a clipped one comes back to its limit.
            if met is None or (met.samples == met.longest > MIN_STUCK_S * samples.rate_hz):
                continue
            share_pct = 100.0 * met.samples / len(values)
            serious = share_pct > checks.CLIPPED.limit
            measured = {"sensor": sensor, "axis": axis, "unit": unit, "share_pct": share_pct}
            yield checks.CLIPPED.finding("imu", serious, **measured, **met._asdict())


def _noise(samples: ImuSamples, stated: ImuNoise) -> list[Finding]:
    """Findings about noise, and about biases if the device stood still."""
    findings, at_rest, (low, high) = [], True, NOISE_RATIO
    for sensor, field, unit, _ in SENSORS:
        noise, spread, _ = _quietest(getattr(samples, field), samples.rate_hz)
        # Rest: in one second nothing changes but noise, three times its size allowed.
        at_rest = at_rest and spread < 3.0 * noise
        density, sheet = noise / np.sqrt(samples.rate_hz), getattr(stated, f"density_{field}")
        if not low < density / sheet < high:
            measured = {"density": density, "ratio": density / sheet, "stated": sheet}
            named = {"sensor": sensor, "unit": unit, "low": low, "high": high}
            findings.append(checks.NOISE_DENSITY.finding("imu", **named, **measured))
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
    for (sensor, _, unit, largest), bias in zip(SENSORS, (bias_gyro, bias_acc), strict=True):
        axis = int(np.argmax(np.abs(bias)))
        if abs(bias[axis]) > largest:
            measured = {"axis": "xyz"[axis], "bias": bias[axis], "largest": largest, "where": where}
            findings.append(checks.LARGE_BIAS.finding("imu", sensor=sensor, unit=unit, **measured))
    return findings
