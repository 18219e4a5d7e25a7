"""Noise of an IMU in words and rows, for the terminal and the report."""

import numpy as np

from maci2.calibration.noise_estimate import NoiseLevel
from maci2.pipeline.imu_noise_run import MeasuredImu

ROUGH = 2.0
"""Roughness over white noise from which vibration is named."""

SENSORS = (("gyroscope", "rad/s"), ("accelerometer", "m/s^2"))


def noise_rows(measured: MeasuredImu) -> list[tuple[str, ...]]:
    """One row for each density and walk."""
    estimate, stated = measured.estimate, measured.stated
    rows: list[tuple[str, ...]] = []
    levels = (estimate.density_gyro, estimate.density_acc)
    densities = (stated.density_gyro, stated.density_acc)
    for sensor, (name, unit) in enumerate(SENSORS):
        for axis in range(3):
            at = 3 * sensor + axis
            still = "-" if measured.allan is None else f"{measured.allan.density[at]:.2e}"
            rough, said = f"{measured.high_frequency[at]:.2e}", f"{densities[sensor]:.2e}"
            level = levels[sensor][axis]
            rows.append((f"{name} {'xyz'[axis]} [{unit}]", *_level(level), still, rough, said))
    for walk, level, density in (
        ("gyroscope walk [rad/s^2]", estimate.walk_gyro, stated.walk_gyro),
        ("accelerometer walk [m/s^3]", estimate.walk_acc, stated.walk_acc),
    ):
        rows.append((walk, *_level(level), "-", "-", f"{density:.2e}"))
    return rows


def _level(level: NoiseLevel) -> tuple[str, str]:
    return f"{level.value:.2e}", f"{level.std:.1e}" if level.seen else "not seen"


def noise_remarks(measured: MeasuredImu) -> list[str]:
    """Remarks for the user: vibration, axes that differ, values not observed, data sheets."""
    estimate, remarks = measured.estimate, []
    levels = (estimate.density_gyro, estimate.density_acc)
    pooled = estimate.pooled(measured.stated.rate_hz)
    found = (pooled.density_gyro, pooled.density_acc)
    said = (measured.stated.density_gyro, measured.stated.density_acc)
    for sensor, (name, _) in enumerate(SENSORS):
        white = np.array([level.value for level in levels[sensor]])
        ratio = float(np.max(measured.high_frequency[3 * sensor : 3 * sensor + 3] / white))
        if ratio > ROUGH:
            remarks.append(
                f"{name}: samples are {ratio:.1f} times as rough as what integrates: vibration or "
                "aliasing near half the sampling rate; sample faster or filter before sampling"
            )
        if estimate.axes_differ()[sensor]:
            remarks.append(f"{name}: axes differ; tools with one number get the root mean square")
        if any(level.seen for level in levels[sensor]):
            remarks.append(
                f"{name}: white noise is {found[sensor] / said[sensor]:.2g} times the data sheet's"
            )
        else:
            remarks.append(
                f"{name}: white noise is hidden by the reference; the data sheet's stands"
            )
    for name, level in (("gyroscope", estimate.walk_gyro), ("accelerometer", estimate.walk_acc)):
        if not level.seen:
            remarks.append(f"{name}: random walk not seen in {measured.seconds:.0f} s; give more")
    if not estimate.converged:
        remarks.append("the likelihood's maximum was not reached: take these numbers as rough")
    return remarks
