"""Camera against IMU: time offset, extrinsics, axes and scale of the path, with uncertainties.

All windows of a recording are tested together, as `maci2 init` does before a verdict of `ok`.
"""

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.consistency import Evidence, MeasuredConstants
from maci2.consistency.significance import FAR
from maci2.errors import DatasetError, OptionError
from maci2.estimator import CalibrationResult
from maci2.findings import Finding, Level
from maci2.geometry import se3_inv, se3_log
from maci2.geometry.se3 import nearest_rotation, so3_log_stack
from maci2.imu import raw_model
from maci2.imu.rotation_rates import (
    MIN_CORRELATION,
    RateMatch,
    RotationSource,
    columns,
    misfit,
)
from maci2.pipeline.options import parse_vision
from maci2.pipeline.vision_sources import open_vision
from maci2.sensors import CameraTrajectory, ImuNoise, ImuSamples, Recording
from maci2.tools.diagnostics import checks
from maci2.tools.diagnostics.axes import BETTER, RATIO_DEG, accelerometer_axes
from maci2.tools.diagnostics.estimator_trial import motion_at, windows_of
from maci2.types import Array
from maci2.vision import CameraFrame

SERIOUS_OFFSET_S = 0.01
SIGMAS = 5.0
"""Number of standard deviations that a difference must exceed as well."""

MAX_ROTATION_DEG = 1.0
MAX_POSITION = 0.03
"""Accepted difference of extrinsics, which is also the accuracy expected of `calibrate`."""

SERIOUS_ROTATION_DEG = 5.0
SERIOUS_POSITION = 0.1


def offset_findings(
    source: RotationSource, offset_s: float, std_s: float, stated_s: float = 0.0
) -> list[Finding]:
    """Finding about a clock's offset to the IMU's; of a camera, beyond the `stated` one."""
    # Zero has no sign.
    offset = f"{round(1e3 * offset_s, 2) + 0.0:+.2f} ± {1e3 * std_s:.2f} ms"
    whose, name, other = "time offset to the IMU", "Wrong clock: the truth's time offset", "."
    if source.kind == "vision":
        whose = name = "camera-IMU time offset"
        other = f", or put timeshift_cam_imu: {stated_s + offset_s:.6f} into the camchain."
    if abs(offset_s) <= max(checks.CLOCK_OFFSET.limit, SIGMAS * std_s):
        return [Finding("ok", source.name, f"{whose} {offset}", found=offset)]
    level: Level = "error" if abs(offset_s) > SERIOUS_OFFSET_S else "warn"
    remedy = f"Add {1e3 * offset_s:.2f} ms to its timestamps{other}"
    texts = {"name": name, "offset": offset, "remedy": remedy}
    return [checks.CLOCK_OFFSET.finding(source.name, level, **texts)]


def drift_findings(source: RotationSource, match: RateMatch) -> list[Finding]:
    """Finding about two clocks that run at different speeds."""
    if abs(match.drift_s) <= max(checks.CLOCK_DRIFT.limit, SIGMAS * match.std_drift_s):
        return []
    drift_ms, std_ms = 1e3 * match.drift_s, 1e3 * match.std_drift_s
    return [checks.CLOCK_DRIFT.finding(source.name, drift_ms=drift_ms, std_ms=std_ms)]


def disagreement(
    source: RotationSource, match: RateMatch, inverted: RateMatch | None
) -> list[Finding]:
    """Finding about a source that rotates differently from the gyroscope."""
    alike = match.correlation
    if inverted and 1.0 - inverted.correlation < BETTER * (1.0 - alike):
        correlations = {"correlation": alike, "inverted": inverted.correlation}
        return [checks.INVERTED_POSES.finding(source.name, **correlations)]
    if alike > MIN_CORRELATION:
        return []
    return [checks.OTHER_ROTATION.finding(source.name, correlation=alike)]


def mirror_findings(match: RateMatch) -> list[Finding]:
    """Finding about unit and handedness of the gyroscope, which no extrinsics explain."""
    if RATIO_DEG[0] < match.ratio < RATIO_DEG[1]:
        return [
            checks.DEGREES.finding("imu", found=f"rates {match.ratio:.1f} times those of vision")
        ]
    rates, gyro = match.rates_s, match.gyro
    mirrored = misfit(rates, gyro, -nearest_rotation(-_spread(rates, gyro)))
    if mirrored >= BETTER * misfit(rates, gyro, nearest_rotation(_spread(rates, gyro))):
        return []
    return [checks.MIRRORED_IMU.finding("imu", flipped=columns(np.diag([1.0, 1.0, -1.0])))]


def _spread(rates: Array, gyro: Array) -> Array:
    return (rates - rates.mean(axis=0)).T @ (gyro - gyro.mean(axis=0))


def extrinsics_findings(
    source: RotationSource, match: RateMatch, result: CalibrationResult | None, T_inverted: Array
) -> list[Finding]:
    """Compare the stated T_b_c with the one that motion shows; `T_inverted` is the stated one if
    the file holds T_c_b."""
    if result is None or result.state is None or result.posterior is None:
        return _rotation_alone(source, match)
    found, cov = result.state.T_b_c, result.posterior.T_b_c
    rotation_deg, position = _apart(found, source.T_b_s)
    off = _off(found, source.T_b_s, cov)
    if not off:
        text = (
            f"extrinsics agree with the motion to {rotation_deg:.2f} deg and "
            f"{1e3 * position:.0f} mm"
        )
        return [Finding("ok", source.name, text)]
    apart = f"{rotation_deg:.1f} deg and {1e3 * position:.0f} mm between given and found"
    if not _off(found, T_inverted, cov):
        return [checks.INVERTED_EXTRINSICS.finding("calibration", apart=apart)]
    serious = rotation_deg > SERIOUS_ROTATION_DEG or position > SERIOUS_POSITION
    part = "" if off == "both" else f"{off} of the "
    where = dict(zip("xyz", found[:3, 3], strict=True))
    level: Level = "error" if serious else "warn"
    return [checks.WRONG_EXTRINSICS.finding("calibration", level, part=part, apart=apart, **where)]


def _apart(found: Array, given: Array) -> tuple[float, float]:
    """Angle [deg] and distance [m]."""
    R = found[:3, :3] @ given[:3, :3].T
    angle = float(np.rad2deg(np.linalg.norm(so3_log_stack(R[None])[0])))
    return angle, float(np.linalg.norm(found[:3, 3] - given[:3, 3]))


def _off(found: Array, given: Array, cov: Array) -> str:
    """Names of the parts that differ by more than is accepted: rotation, position, both or none."""
    xi = se3_log(np.ascontiguousarray(given @ se3_inv(found)))
    rotation_deg, position = _apart(found, given)
    std = [_along(cov[part, part], xi[part]) for part in (slice(0, 3), slice(3, 6))]
    turned = rotation_deg > max(MAX_ROTATION_DEG, SIGMAS * float(np.rad2deg(std[1])))
    moved = position > max(MAX_POSITION, SIGMAS * std[0])
    return "both" if turned and moved else "rotation" if turned else "position" if moved else ""


def _along(cov: Array, direction: Array) -> float:
    unit = direction / max(float(np.linalg.norm(direction)), 1e-12)
    return float(np.sqrt(unit @ cov @ unit))


def _rotation_alone(source: RotationSource, match: RateMatch) -> list[Finding]:
    """Compare rotations alone, if there is no joint estimate."""
    expected = match.rates_s @ source.T_b_s[:3, :3].T
    free = misfit(expected, match.gyro, nearest_rotation(_spread(expected, match.gyro)))
    if free >= BETTER * misfit(expected, match.gyro, np.eye(3)):
        return []
    R = nearest_rotation(_spread(expected, match.gyro))
    angle_deg = float(np.rad2deg(np.linalg.norm(so3_log_stack(R[None])[0])))
    return [checks.WRONG_ROTATION.finding("calibration", angle_deg=angle_deg)]


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
    hint = (
        f": they look like {unit}."
        if unit
        else "; or use stereo, and check the baseline and its unit."
    )
    level: Level = "error" if abs(scale - 1.0) > checks.WRONG_SCALE.limit else "warn"
    factor = f"{scale:.{max(3, 2 - int(np.floor(np.log10(abs(scale)))))}f}"
    std *= min(1.0, scale)
    return [
        checks.WRONG_SCALE.finding(source.name, level, factor=factor, std=std, far=far, hint=hint)
    ]


def open_camera_path(
    recording: Recording, vision: str, frame: str
) -> tuple[CameraTrajectory, CameraFrame] | None:
    """Path of a camera on the recording's clock, and its frame, as `--vision` names it: images, a
    trajectory or measurements; None for ''."""
    if not vision:
        return None
    source = open_vision(recording, parse_vision(vision, frame, None))
    path = source.camera_path()
    if path is None:
        truth = source.choice.from_truth
        why = "ground truth is looked at anyway" if truth else "tracks are no path"
        raise OptionError(
            f"--vision is '{vision}'; {why}: give images, trajectory:FILE or measurements:FILE."
        )
    return path, source.frame
