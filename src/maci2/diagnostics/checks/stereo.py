"""Stereo pairs: matching timestamps and a plausible baseline."""

import math

import numpy as np

from maci2.findings import Finding, fault
from maci2.lie import se3_inv
from maci2.sensors.stereo import HasImages
from maci2.sensors.validation import RIG_RANGES, rig_faults
from maci2.types import NS, Array, Stamps

TOLERANCE_S = 0.001
"""Largest difference of timestamps within a stereo pair [s]."""

MIN_PAIRED_PCT = 98.0

MIN_COMMON = 0.8
"""Fraction of the frames that must show the same offset for it to be constant."""


def stereo_matched_pct(stamps_ns: tuple[Stamps, ...]) -> float:
    """Fraction of left timestamps with a right one."""
    if len(stamps_ns) < 2 or min(len(stamps_ns[0]), len(stamps_ns[1])) == 0:
        return math.nan
    apart_s = _right_after_left_s(stamps_ns[0], stamps_ns[1])
    return float(100.0 * np.mean(np.abs(apart_s) <= TOLERANCE_S))


def stereo_findings(recording: HasImages, matched_pct: float) -> list[Finding]:
    return _pair_findings(recording.camera_stamps_ns, matched_pct) + _rig_findings(recording)


def _pair_findings(stamps_ns: tuple[Stamps, ...], matched_pct: float) -> list[Finding]:
    if not math.isfinite(matched_pct):
        return []
    apart_s = _right_after_left_s(stamps_ns[0], stamps_ns[1])
    typical_s = float(np.median(apart_s))
    common = float(np.mean(np.abs(apart_s - typical_s) <= TOLERANCE_S))
    if abs(typical_s) > TOLERANCE_S and common > MIN_COMMON:
        later = "later" if typical_s > 0.0 else "earlier"
        return [
            fault(
                "warn",
                "stereo",
                f"right timestamps are {later} than left ones",
                f"{1e3 * typical_s:+.2f} ms in {100.0 * common:.0f} % of the frames",
                f"within {1e3 * TOLERANCE_S:.0f} ms",
                "Trigger both cameras together; if they are, give both images of a pair one "
                "timestamp.",
            )
        ]
    if matched_pct < MIN_PAIRED_PCT:
        return [
            fault(
                "warn",
                "stereo",
                "frames without a partner",
                f"{matched_pct:.1f} % of the left frames have a right frame within "
                f"{1e3 * TOLERANCE_S:.0f} ms",
                f"{MIN_PAIRED_PCT:.0f} %",
                "Check that both cameras are triggered together and that none drops frames.",
            )
        ]
    text = (
        f"{matched_pct:.1f} % of the left frames have a right frame within "
        f"{1e3 * TOLERANCE_S:.0f} ms"
    )
    return [Finding("ok", "stereo", text)]


def _right_after_left_s(left: Stamps, right: Stamps) -> Array:
    """Time from each left timestamp to the nearest right one [s]."""
    after = np.clip(np.searchsorted(right, left), 0, len(right) - 1)
    before = np.maximum(after - 1, 0)
    nearer_before = np.abs(right[before] - left) < np.abs(right[after] - left)
    return (right[np.where(nearer_before, before, after)] - left) / NS


def _rig_findings(recording: HasImages) -> list[Finding]:
    """Findings about the number of cameras, their baseline and which one is the left."""
    rig, stamped = recording.rig, len(recording.camera_stamps_ns)
    findings = []
    if rig.cameras and stamped > len(rig.cameras):
        text = (
            f"{stamped} cameras have timestamps but {len(rig.cameras)} are calibrated; each needs "
            "a calibration. Add the missing calibration or remove the camera."
        )
        findings.append(Finding("error", "calibration", text, "cameras without calibration"))
    for number, camera in enumerate(rig.cameras):
        x, y, z = camera.T_b_c[:3, 3]
        where = (
            f"({x:.3f}, {y:.3f}, {z:.3f}) m from {'the IMU' if rig.extrinsics_known else 'cam0'}"
        )
        text = (
            f"cam{number}: {camera.distortion_model}, {camera.resolution[0]}x"
            f"{camera.resolution[1]}, at {where}"
        )
        findings.append(Finding("ok", "calibration", text))
    if not rig.extrinsics_known:
        text = "the camera-IMU extrinsics are unknown"
        remedy = "Run `maci2 calibrate` to estimate them."
        findings.append(Finding("ok", "calibration", f"{text}. {remedy}", remedy=remedy))
    if rig.time_offset_s != 0.0:
        text = f"camera timestamps are shifted by the stated {1e3 * rig.time_offset_s:+.3f} ms"
        findings.append(Finding("ok", "calibration", text))
    findings += [
        fault("warn", "calibration", f"{one.name} is unusual", one.found, one.needed, one.remedy)
        for one in rig_faults(rig)
        # The baseline, and how fast the IMU is read, have checks of their own.
        if one.name not in (RIG_RANGES["baseline"].name, RIG_RANGES["imu_rate"].name)
    ]
    if len(rig.cameras) > 1:
        findings.append(_baseline(rig.cameras[0].T_b_c, rig.cameras[1].T_b_c))
    return findings


def _baseline(T_b_c0: Array, T_b_c1: Array) -> Finding:
    p_c0_c1 = (se3_inv(T_b_c0) @ T_b_c1)[:3, 3]
    length = float(np.linalg.norm(p_c0_c1))
    low, high = RIG_RANGES["baseline"].usual
    if not low < length < high:
        return fault(
            "error",
            "calibration",
            "the stereo baseline cannot be",
            f"{length:.4g} m",
            f"{low} to {high:.0f} m",
            "Check the unit of the extrinsics (metres) and that they are T_b_c of both cameras.",
        )
    if p_c0_c1[0] < -0.5 * length:
        return fault(
            "warn",
            "calibration",
            "left and right camera are swapped",
            f"cam1 lies {-p_c0_c1[0]:.3f} m to the left of cam0",
            "to its right",
            "Exchange cam0 and cam1, images and calibration alike, or check whether the extrinsics "
            "are inverted.",
        )
    return Finding("ok", "calibration", f"baseline {length:.4f} m")
