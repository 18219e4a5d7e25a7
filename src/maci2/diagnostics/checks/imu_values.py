"""Implausible readings: exchanged columns, wrong units, stuck, repeated or clipped values."""

from dataclasses import replace

import numpy as np

from maci2.diagnostics.checks.imu_noise import SENSORS, noise_findings
from maci2.findings import Finding, Level, fault
from maci2.imu.repeated_values import MIN_STUCK_S, changed, runs_of_equal, stuck_axis
from maci2.imu.saturated_values import saturation
from maci2.sensors import ImuNoise, ImuSamples
from maci2.sensors.validation import (
    DISAGREE,
    GRAVITY_TOLERANCE,
    IN_DEGREES,
    ImuFault,
    imu_faults,
)
from maci2.types import GRAVITY_NORM, Array, Mask

MIN_REPEATED_PCT = 2.0
"""Percentage of samples equal to the one before in all six channels from which on it is reported;
noise alone makes this rarer than one in a million."""

FALSE_ALARM = 1e-4
"""Probability that an axis is called clipped although it never reached the end of its range."""

CLIPPED_ERROR_PCT = 1.0


def imu_value_findings(samples: ImuSamples, noise: ImuNoise | None) -> list[Finding]:
    """Findings, causes first; consistency of the axes is checked elsewhere.

    `noise` is that of the calibration, None where it states none.
    """
    faults = [found for found in imu_faults(samples) if found.name != "gaps"]
    serious = [found for found in faults if found.serious]
    if serious and _is_swapped(samples):
        return [_swapped(samples)]
    findings = [_from_plausibility(f) for f in faults if not _is_disagreement(f, samples)]
    findings += _clipped(samples) or _stuck(samples)
    findings += _repeated(samples)
    if not serious and noise is not None:
        findings += noise_findings(samples, noise)
    return findings


def disagreement_finding(samples: ImuSamples) -> list[Finding]:
    """Finding about a contradiction of the sensors that no change of axes explains."""
    faults = imu_faults(samples)
    return [_from_plausibility(f) for f in faults if _is_disagreement(f, samples)]


def _is_disagreement(found: ImuFault, samples: ImuSamples) -> bool:
    """Whether forces have the norm of gravity but disagree when rotated back: wrong rates."""
    if found.name == DISAGREE:
        return True
    length = float(np.median(np.linalg.norm(samples.acc, axis=1)))
    return (
        found.serious
        and found.name != IN_DEGREES
        and abs(length - GRAVITY_NORM) < GRAVITY_TOLERANCE
    )


def _from_plausibility(found: ImuFault) -> Finding:
    serious = found.serious or found.name.endswith("stuck")
    text = f"{found.name}: {found.text}"
    remedy = "Multiply the gyroscope columns by pi/180." if found.name == IN_DEGREES else ""
    return Finding("error" if serious else "warn", "imu", text, found.name, remedy=remedy)


def _is_swapped(samples: ImuSamples) -> bool:
    """Whether readings are plausible only with gyroscope and accelerometer exchanged."""
    force = float(np.median(np.linalg.norm(samples.acc, axis=1)))
    if abs(force - GRAVITY_NORM) < GRAVITY_TOLERANCE:
        return False
    exchanged = replace(samples, gyro=samples.acc, acc=samples.gyro)
    return not any(found.serious for found in imu_faults(exchanged))


def _swapped(samples: ImuSamples) -> Finding:
    rate, force = (float(np.median(np.linalg.norm(v, axis=1))) for v in (samples.gyro, samples.acc))
    return fault(
        "error",
        "imu",
        "gyroscope and accelerometer columns are swapped",
        f"a rate of {rate:.2f} rad/s and a force of {force:.2f} m/s^2",
        "a force of 9.81 m/s^2",
        "Exchange the two groups of columns: gyroscope first, then accelerometer.",
    )


def _stuck(samples: ImuSamples) -> list[Finding]:
    """Finding about an axis that is stuck for a while."""
    findings = []
    for sensor, field, unit in SENSORS:
        values: Array = getattr(samples, field)
        stuck = stuck_axis(values, samples.rate_hz)
        if stuck is not None and stuck.length < len(samples):
            findings.append(
                fault(
                    "error",
                    "imu",
                    f"{sensor} {'xyz'[stuck.axis]} is stuck",
                    f"{values[stuck.start, stuck.axis]:g} {unit} for "
                    f"{stuck.length / samples.rate_hz:.2f} s from timestamp "
                    f"{samples.stamps_ns[stuck.start]} ns on",
                    f"noise in every sample (another axis repeats {stuck.others} times at most)",
                    "Check the sensor and its driver; leave out that time.",
                )
            )
    return findings


def _repeated(samples: ImuSamples) -> list[Finding]:
    """Finding about samples that repeat the one before."""
    both = np.hstack([samples.gyro, samples.acc])
    copies: Mask = np.logical_not(changed(both).any(axis=1))
    share_pct = 100.0 * float(copies.mean())
    if share_pct < MIN_REPEATED_PCT:
        return []
    _, lengths = runs_of_equal(np.logical_not(copies))
    level: Level = "error" if lengths.max() > MIN_STUCK_S * samples.rate_hz else "warn"
    return [
        fault(
            level,
            "imu",
            "samples are repeated",
            f"{share_pct:.1f} % are copies of the sample before, up to {lengths.max() - 1} in a "
            "row",
            "a new reading in every sample",
            "Read the IMU no faster than it measures, and leave out copies: the true rate is about "
            f"{samples.rate_hz * (1.0 - share_pct / 100.0):.0f} Hz.",
        )
    ]


def _clipped(samples: ImuSamples) -> list[Finding]:
    findings = []
    for sensor, field, unit in SENSORS:
        for axis in range(3):
            values = getattr(samples, field)[:, axis]
            met = saturation(values, FALSE_ALARM)
            # One long run is a stuck axis; a clipped one comes back to its limit.
            if met is None or (met.samples == met.longest > MIN_STUCK_S * samples.rate_hz):
                continue
            share_pct = 100.0 * met.samples / len(values)
            findings.append(
                fault(
                    "error" if share_pct > CLIPPED_ERROR_PCT else "warn",
                    "imu",
                    f"{sensor} {'xyz'[axis]} is clipped (saturated)",
                    f"{met.samples} samples ({share_pct:.2f} %) at {met.value:.4g} {unit}, up to "
                    f"{met.longest} in a row",
                    "readings inside the range",
                    "Raise the sensor's range setting or move more gently.",
                )
            )
    return findings
