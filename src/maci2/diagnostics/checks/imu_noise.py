"""IMU noise compared with the data sheet, and implausibly large biases."""

from dataclasses import dataclass

import numpy as np

from maci2.findings import Finding, fault
from maci2.sensors import ImuNoise, ImuSamples
from maci2.types import Array

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


@dataclass(frozen=True)
class Quiet:
    """Quietest second of a sensor."""

    noise: float
    """Standard deviation of a sample, from second differences, which remove motion."""

    spread: float
    """Standard deviation of the readings themselves, motion included."""

    mean: Array


def quietest(values: Array, rate_hz: float) -> Quiet:
    """Find the second whose noisiest axis has the least noise."""
    length = min(max(round(rate_hz), 8), len(values))
    count = len(values) // length
    seconds = values[: count * length].reshape(count, length, 3)
    # White noise of variance s^2 has second differences of variance 6 s^2.
    noise = np.sqrt(np.mean(np.diff(seconds, 2, axis=1) ** 2, axis=1) / 6.0).max(axis=1)
    spread = seconds.std(axis=1).max(axis=1)
    at = int(np.argmin(spread))
    return Quiet(float(noise.min()), float(spread[at]), seconds[at].mean(axis=0))


def noise_findings(samples: ImuSamples, stated: ImuNoise) -> list[Finding]:
    """Findings about noise, and about biases if the device stood still."""
    findings = []
    quiet = [quietest(getattr(samples, field), samples.rate_hz) for _, field, _ in SENSORS]
    densities = (stated.density_gyro, stated.density_acc)
    for (sensor, _, unit), second, density in zip(SENSORS, quiet, densities, strict=True):
        found = second.noise / np.sqrt(samples.rate_hz)
        ratio = found / density
        if not NOISE_RATIO[0] < ratio < NOISE_RATIO[1]:
            findings.append(
                fault(
                    "warn",
                    "imu",
                    f"the {sensor}'s noise density is not what the calibration states",
                    f"{found:.2e} {unit}/sqrt(Hz) in the quietest second, {ratio:.2g} times the "
                    f"stated {density:.2e}",
                    f"{NOISE_RATIO[0]:g} to {NOISE_RATIO[1]:g} times",
                    "Correct the noise densities (per sqrt(Hz), in rad/s and m/s^2, no variances).",
                )
            )
    # Rest: in one second nothing changes but noise, three times its size allowed.
    if not findings and all(second.spread < 3.0 * second.noise for second in quiet):
        findings += bias_findings(quiet[0].mean, np.zeros(3), "at rest")
    return findings


def bias_findings(bias_gyro: Array, bias_acc: Array, where: str) -> list[Finding]:
    """Findings about implausibly large biases."""
    findings = []
    for sensor, bias, limit, unit in (
        ("gyroscope", bias_gyro, MAX_BIAS_GYRO, "rad/s"),
        ("accelerometer", bias_acc, MAX_BIAS_ACC, "m/s^2"),
    ):
        axis = int(np.argmax(np.abs(bias)))
        if abs(bias[axis]) > limit:
            findings.append(
                fault(
                    "warn",
                    "imu",
                    f"large {sensor} bias on {'xyz'[axis]}",
                    f"{bias[axis]:+.3f} {unit} {where}",
                    f"within {limit} {unit}",
                    f"Calibrate the {sensor} (let it warm up, then measure at rest) and subtract "
                    "the bias.",
                )
            )
    return findings
