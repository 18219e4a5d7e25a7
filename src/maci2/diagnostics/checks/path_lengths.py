"""Agreement of the camera's path with the accelerometer in axes, signs and scale.

All windows of a recording are tested together, as `maci2 init` does before a verdict of `ok`.
"""

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.consistency import FAR, Evidence, MeasuredConstants
from maci2.diagnostics.checks.axes import accelerometer_axes
from maci2.diagnostics.checks.estimator_trial import motion_at, windows_of
from maci2.errors import DatasetError
from maci2.findings import Finding, Level, fault
from maci2.imu import raw_model
from maci2.imu.rotation_rates import RotationSource
from maci2.sensors import ImuNoise, ImuSamples

MAX_SCALE = 0.1
"""Accepted scale error of a trajectory; stereo odometry stays within 6 %."""

UNITS = {"millimetres": 1e-3, "centimetres": 1e-2, "kilometres": 1e3}
"""Length in metres of units in which a path may be written."""


def path_constants(
    source: RotationSource, imu: ImuSamples, noise: ImuNoise, offset_s: float
) -> MeasuredConstants | None:
    """Test of scale and axes on the whole path; None if no window can be compared."""
    measured, evidence = raw_model(imu, noise), Evidence(source.T_b_s)
    for stamps_ns in windows_of(source, imu, offset_s):
        try:
            evidence.add(measured, [motion_at(source, stamps_ns, offset_s)])
        except DatasetError:
            continue
    return evidence.constants()


def axes_findings(constants: MeasuredConstants | None) -> list[Finding]:
    """Finding about an accelerometer whose axes or signs differ from the stated ones."""
    if constants is None or constants.axes_right >= 0.5:
        return []
    return [accelerometer_axes(constants.axes, "the camera's path")]


def scale_findings(source: RotationSource, constants: MeasuredConstants | None) -> list[Finding]:
    """Finding about the scale of the camera's path relative to the accelerometer."""
    if constants is None or constants.translation is None or constants.axes_right < 0.5:
        return []
    scale = constants.translation.scale
    # One over the scale is what was measured: of both distances the shorter one counts.
    std = float(np.sqrt(constants.translation.cov[0, 0])) / min(1.0, abs(scale))
    far = FAR * float(np.hypot(std, CALIBRATED.acc_scale))
    if abs(scale - 1.0) <= far or scale <= 0.0:
        return []
    unit = next((name for name, size in UNITS.items() if abs(scale / size - 1.0) < 0.2), "")
    level: Level = "error" if abs(scale - 1.0) > MAX_SCALE else "warn"
    digits = max(3, 2 - int(np.floor(np.log10(abs(scale)))))
    factor = f"{scale:.{digits}f}"
    remedy = f"Multiply the positions by {factor}" + (
        f": they look like {unit}."
        if unit
        else "; or use stereo, and check the baseline and its unit."
    )
    return [
        fault(
            level,
            source.name,
            "the camera's path is not in metres",
            f"distances that must be multiplied by {factor} ± {std * min(1.0, scale):.2g} to fit "
            "the accelerometer",
            f"1 within {far:.2g}",
            remedy,
        )
    ]
