"""Excitation: which windows and axes move enough for each state; never a fault."""

import numpy as np

from maci2.diagnostics.checks.estimator_trial import WINDOW_S, WindowCounts
from maci2.estimation import CalibrationResult
from maci2.findings import Finding
from maci2.sensors import ImuSamples
from maci2.types import NS, Array

NEEDED_DEG = 5.0
"""Rotation in a window from which on extrinsics become observable [deg]."""

STD_ROTATION_DEG = 0.5
STD_POSITION = 0.015
"""Half of the accepted error of extrinsics: 1 deg and 3 cm."""


def turned_deg(imu: ImuSamples, bias_gyro: Array) -> Array:
    """(windows, 3) rotation of each window about each axis, peak to peak [deg]."""
    steps = (imu.gyro[:-1] - bias_gyro) * (np.diff(imu.stamps_ns) / NS)[:, None]
    angles = np.cumsum(steps, axis=0)
    length = max(round(WINDOW_S * imu.rate_hz), 1)
    count = len(angles) // length
    return np.rad2deg(np.ptp(angles[: count * length].reshape(count, length, 3), axis=1))


def rotation_finding(imu: ImuSamples, bias_gyro: Array) -> Finding:
    """Finding about rotation, from the gyroscope alone."""
    turned = turned_deg(imu, bias_gyro)
    if len(turned) == 0:
        return Finding("ok", "excitation", f"shorter than one window of {WINDOW_S} s")
    most, enough = turned.max(axis=0), (turned >= NEEDED_DEG).sum(axis=0)
    parts = [
        f"about {axis} {np.median(turned[:, i]):.0f} deg (at most {most[i]:.0f}), enough in "
        f"{enough[i]} of {len(turned)}"
        for i, axis in enumerate("xyz")
    ]
    low = [axis for axis, deg in zip("xyz", most, strict=True) if deg < NEEDED_DEG]
    text = (
        f"rotation in windows of {WINDOW_S} s: {'; '.join(parts)}; about {NEEDED_DEG:.0f} deg are "
        "needed"
    )
    remedy = (
        f"To calibrate extrinsics, rotate the device about {' and '.join(low)}: at most "
        f"{most['xyz'.index(low[0])]:.1f} deg of about {NEEDED_DEG:.0f} so far."
        if low
        else ""
    )
    return Finding("ok", "excitation", text, remedy=remedy)


def window_finding(counts: WindowCounts, source: str) -> list[Finding]:
    """Finding about the number of windows that the estimator accepts."""
    if counts.tried == 0:
        return []
    text = (
        f"initialization with camera motion from {source}: {counts.ok} of {counts.tried} windows "
        f"ok, {counts.weak} weak, {counts.tried - counts.ok - counts.weak} failed"
    )
    if counts.reason:
        text += f"; mostly {counts.reason} is not known well enough"
    remedy = (
        ""
        if counts.ok
        else "To initialize, move more: change speed and rotate about several axes within 2.5 s."
    )
    return [Finding("ok", "excitation", text, remedy=remedy)]


def extrinsics_finding(result: CalibrationResult | None, source: str) -> list[Finding]:
    """Finding about the accuracy of extrinsics from the best half minute, for each axis."""
    if result is None:
        return []
    if result.posterior is None:
        reasons = "; ".join(result.verdict.reasons[:2])
        text = f"extrinsics are not observable in this motion ({source}): {reasons}"
        remedy = "To calibrate extrinsics, rotate the device about all axes."
        return [Finding("ok", "excitation", text, remedy=remedy)]
    std = np.sqrt(np.diag(result.posterior.T_b_c))
    rotation_deg, position = np.rad2deg(std[3:6]), std[0:3]
    unseen = [
        f"{what} {axis} (known to {value:.3g} {unit}, needed {limit:g})"
        for what, values, limit, unit in (
            ("rotation about", rotation_deg, STD_ROTATION_DEG, "deg"),
            ("position along", 1e3 * position, 1e3 * STD_POSITION, "mm"),
        )
        for axis, value in zip("xyz", values, strict=True)
        if value > limit
    ]
    text = (
        f"extrinsics from the best half minute ({source}): rotation about x, y, z to "
        f"{_listed(rotation_deg)} deg, position along x, y, z to {_listed(1e3 * position)} mm"
    )
    if not unseen:
        return [Finding("ok", "excitation", text)]
    text += f"; too little: {', '.join(unseen)}"
    weak = [i for i in range(3) if position[i] > STD_POSITION or rotation_deg[i] > STD_ROTATION_DEG]
    about = sorted({"xyz"[j] for i in weak for j in range(3) if j != i})
    remedy = (
        f"To calibrate extrinsics, rotate the device more about {' and '.join(about)}, for the "
        f"{unseen[0]}."
    )
    return [Finding("ok", "excitation", text, remedy=remedy)]


def _listed(values: Array) -> str:
    return ", ".join(f"{value:.2g}" for value in values)
