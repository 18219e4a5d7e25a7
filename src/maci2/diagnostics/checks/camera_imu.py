"""Camera against IMU: time offset and extrinsics, each with its uncertainty."""

import numpy as np

from maci2.diagnostics.checks.axes import BETTER, RATIO_DEG
from maci2.estimation import CalibrationResult
from maci2.findings import Finding, Level, fault
from maci2.imu.rotation_rates import (
    MIN_CORRELATION,
    RateMatch,
    RotationSource,
    columns,
    misfit,
)
from maci2.lie import se3_inv, se3_log
from maci2.lie.stacks import nearest_rotation, so3_log_stack
from maci2.sensors.validation import IN_DEGREES
from maci2.types import Array

MAX_OFFSET_S = 0.003
"""Largest accepted offset [s]: 0.17 deg at 1 rad/s, the noise of a good odometry."""

SERIOUS_OFFSET_S = 0.01
MAX_DRIFT_S = 0.005
"""Largest accepted change of the offset over a recording [s]."""

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
    text = f"{round(1e3 * offset_s, 2) + 0.0:+.2f} ± {1e3 * std_s:.2f} ms"
    is_truth = source.kind == "truth"
    if abs(offset_s) <= max(MAX_OFFSET_S, SIGMAS * std_s):
        whose = "time offset to the IMU" if is_truth else "camera-IMU time offset"
        return [Finding("ok", source.name, f"{whose} {text}", found=text)]
    level: Level = "error" if abs(offset_s) > SERIOUS_OFFSET_S else "warn"
    name = "Wrong clock: the truth's time offset" if is_truth else "camera-IMU time offset"
    remedy = f"Add {1e3 * offset_s:.2f} ms to its timestamps" + (
        "."
        if is_truth
        else f", or put timeshift_cam_imu: {stated_s + offset_s:.6f} into the camchain."
    )
    needed = f"within {1e3 * MAX_OFFSET_S:.0f} ms"
    return [fault(level, source.name, name, text, needed, remedy)]


def drift_findings(source: RotationSource, match: RateMatch) -> list[Finding]:
    """Finding about two clocks that run at different speeds."""
    if abs(match.drift_s) <= max(MAX_DRIFT_S, SIGMAS * match.std_drift_s):
        return []
    return [
        fault(
            "warn",
            source.name,
            "clocks run apart",
            f"the offset to the IMU changes by {1e3 * match.drift_s:+.1f} ± "
            f"{1e3 * match.std_drift_s:.1f} ms from beginning to end",
            f"within {1e3 * MAX_DRIFT_S:.0f} ms",
            "Stamp both by one clock, or correct the timestamps by a straight line.",
        )
    ]


def disagreement(
    source: RotationSource, match: RateMatch, inverted: RateMatch | None
) -> Finding | None:
    """Finding about a source that rotates differently from the gyroscope, or None."""
    found = f"a correlation of {match.correlation:.2f} of the rates within 1 s of offset"
    needed = f"{MIN_CORRELATION} or more"
    if inverted and 1.0 - inverted.correlation < BETTER * (1.0 - match.correlation):
        found += f", {inverted.correlation:.2f} with inverse poses"
        remedy = "Invert them: needed are poses of the sensor in the world."
        return fault(
            "error", source.name, "the poses are inverted (world in body)", found, needed, remedy
        )
    if match.correlation > MIN_CORRELATION:
        return None
    name = "it does not rotate as the gyroscope does"
    remedy = (
        "Wrong clock, wrong recording, or one that lost track: check that both belong together."
    )
    return fault("error", source.name, name, found, needed, remedy)


def mirror_findings(match: RateMatch) -> list[Finding]:
    """Finding about unit and handedness of the gyroscope, which no extrinsics explain."""
    if RATIO_DEG[0] < match.ratio < RATIO_DEG[1]:
        found = f"rates {match.ratio:.1f} times those of vision"
        remedy = "Multiply the gyroscope columns by pi/180 = 0.017453."
        return [fault("error", "imu", IN_DEGREES, found, "rad/s", remedy)]
    rates, gyro = match.rates_s, match.gyro
    mirrored = misfit(rates, gyro, -nearest_rotation(-_spread(rates, gyro)))
    if mirrored >= BETTER * misfit(rates, gyro, nearest_rotation(_spread(rates, gyro))):
        return []
    return [
        fault(
            "error",
            "imu",
            "the IMU's axes are left-handed (mirrored)",
            "gyroscope rates that match vision's only when mirrored",
            "right-handed axes",
            f"Flip one axis of the gyroscope, such as {columns(np.diag([1.0, 1.0, -1.0]))}; if the "
            "accelerometer's is mirrored too, flip the same there.",
        )
    ]


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
    off = _off(found, source.T_b_s, cov)
    if not off:
        rotation_deg, position = _apart(found, source.T_b_s)
        text = (
            f"extrinsics agree with the motion to {rotation_deg:.2f} deg and "
            f"{1e3 * position:.0f} mm"
        )
        return [Finding("ok", source.name, text)]
    rotation_deg, position = _apart(found, source.T_b_s)
    numbers = f"{rotation_deg:.1f} deg and {1e3 * position:.0f} mm between given and found"
    needed = f"below {MAX_ROTATION_DEG:.0f} deg and {1e3 * MAX_POSITION:.0f} mm"
    if not _off(found, T_inverted, cov):
        name = "the extrinsics T_b_c look inverted"
        remedy = "Invert the transform: T_b_c takes points of the camera to the IMU (p_b = T p_c)."
        return [fault("error", "calibration", name, numbers, needed, remedy)]
    serious = rotation_deg > SERIOUS_ROTATION_DEG or position > SERIOUS_POSITION
    parts = {"rotation": "rotation of the", "position": "position of the", "both": ""}
    x, y, z = found[:3, 3]
    return [
        fault(
            "error" if serious else "warn",
            "calibration",
            f"the {parts[off]} camera-IMU extrinsics is wrong".replace("  ", " "),
            numbers,
            needed,
            "Calibrate again (`maci2 calibrate`); this motion says p_b_c = "
            f"({x:.3f}, {y:.3f}, {z:.3f}) m.",
        )
    ]


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
    return [
        fault(
            "error",
            "calibration",
            "the rotation of the camera-IMU extrinsics is wrong",
            f"{angle_deg:.1f} deg between given and found",
            f"below {MAX_ROTATION_DEG:.0f} deg",
            "Calibrate again (`maci2 calibrate`), or invert T_b_c if it is T_c_b.",
        )
    ]
