"""Stated constants that the measurements contradict, in words.

Each constant has a stated value and the spread that a careful calibration leaves it
(`calibration_prior`). It is contradicted where the posterior lies farther away than both
spreads together explain, at one false-alarm rate for all tests of a verdict.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import fdtri

from maci2.calibration_prior import CALIBRATED
from maci2.gaussian import squared_distance
from maci2.imu import ImuMeasurements
from maci2.lie import so3_log
from maci2.premises.evidence import Premises, window_rate
from maci2.premises.false_alarms import LEVEL, LONG_LEVEL
from maci2.premises.live_channels import dead_channels
from maci2.premises.sample_rate import SampleRate
from maci2.types import Array

MOST_MISSING = 1.0 / 3.0
"""Share of measurements that may be missing or rejected in a result that is `ok`."""


def contradictions(premises: Premises, gravity_norm: float, offset_free: bool) -> list[str]:
    """Reasons not to trust a result that takes these constants as given; none where they hold.

    Causes come before effects: with wrong axes, a scale means nothing.
    """
    reasons = [*premises.dead_channels, *_rate(premises.sample_rate)]
    if premises.dead_channels:
        return reasons
    unusable = _still_camera(premises) or _mirrored(premises)
    if unusable:
        return reasons + unusable
    reasons += _rotation(premises) or _gyro_scale(premises)
    if not offset_free:
        reasons += _time_offset(premises)
    if premises.translation is None:
        return reasons
    return reasons + (_axes(premises) or _lengths(premises, gravity_norm))


def contradicted_axes(premises: Premises) -> list[str]:
    """Reasons why no motion fits the samples at all: axes or signs of a sensor are not the stated
    ones. A channel that is dead is no question of axes."""
    return [] if premises.dead_channels else _mirrored(premises) or _axes(premises)


def contradictions_of_calibration(premises: Premises, offset_free: bool) -> list[str]:
    """Reasons against what a calibration takes as given: axes that are not mirrored, the clock, the
    gyroscope's scale and the sample rate. It asks the extrinsics themselves."""
    reasons = [*premises.dead_channels, *_rate(premises.sample_rate)]
    reasons += _still_camera(premises) or _mirrored(premises)
    if reasons:
        return reasons
    return _gyro_scale(premises) + ([] if offset_free else _time_offset(premises))


def _still_camera(premises: Premises) -> list[str]:
    if not premises.rotation.is_camera_still:
        return []
    return [
        "the camera shows no rotation while the gyroscope does: check that its images are new ones "
        "and show a scene that stands still, and the gyroscope's unit"
    ]


def _mirrored(premises: Premises) -> list[str]:
    if premises.rotation.mirror_ratio <= np.log(1.0 / LEVEL - 1.0):
        return []
    return [
        "the gyroscope's rates fit the camera's only if one of them is mirrored: check signs and "
        "order of the gyroscope's axes, and that the camera's poses are not their inverse"
    ]


def _time_offset(premises: Premises) -> list[str]:
    rotation = premises.rotation
    return time_offset_contradicted(rotation.time_offset_s, rotation.cov[3, 3], premises.dof)


def time_offset_contradicted(offset_s: float, variance: float, dof: int) -> list[str]:
    """Reasons against clocks that are stated to agree, given the offset that was measured."""
    if not _number_far(offset_s, variance, CALIBRATED.camera_clock_s, dof):
        return []
    return [
        f"camera and gyroscope rotate alike only if the camera's clock is moved by "
        f"{1e3 * offset_s:.0f} ms: estimate the time offset"
    ]


def _far(difference: Array, cov: Array, spread: float, dof: int, level: float = LEVEL) -> bool:
    """Whether a difference is more than its covariance and the stated spread explain."""
    distance = squared_distance(difference, np.ascontiguousarray(cov), spread**2)
    return not distance <= _limit(len(difference), dof, level)


def _number_far(
    difference: float, variance: float, spread: float, dof: int, level: float = LEVEL
) -> bool:
    """The same of one number."""
    return difference**2 > (variance + spread**2) * _limit(1, dof, level)


@lru_cache(maxsize=256)
def _limit(d: int, dof: int, level: float = LEVEL) -> float:
    """Largest squared distance in d dimensions that noise explains, its covariance estimated."""
    return float(d * fdtri(d, max(dof, 1), 1.0 - level))


def samples_contradicted(imu: ImuMeasurements) -> list[str]:
    """Reasons against a window's own samples: channels that do not measure, and the stated rate."""
    return [*dead_channels(imu), *_rate(window_rate(imu))]


def _rate(rate: SampleRate | None) -> list[str]:
    if rate is None or rate.missing < MOST_MISSING:
        return []
    return [
        f"the IMU should sample at {rate.stated_hz:.0f} Hz and has {rate.found_hz:.0f} samples a "
        f"second: {100.0 * rate.missing:.0f} % are missing, and vibration that they would have "
        "shown is taken for motion; check the driver, or state the rate that is meant"
    ]


def _rotation(premises: Premises) -> list[str]:
    rotation = premises.rotation
    R_stated = premises.T_b_c[:3, :3]
    difference = so3_log(np.ascontiguousarray(rotation.R_b_c @ R_stated.T))
    cov = rotation.cov[:3, :3]
    significant = rotation.gain > _limit(3, premises.dof)
    if not (significant and _far(difference, cov, CALIBRATED.rotation, premises.dof)):
        return []
    return [_rotated(difference, cov)]


def _rotated(difference: Array, cov: Array) -> str:
    angle = float(np.linalg.norm(difference))
    std = float(np.sqrt(difference @ cov @ difference)) / angle
    return (
        f"camera and gyroscope rotate alike only if the camera is rotated by "
        f"{np.rad2deg(angle):.1f} +- {np.rad2deg(std):.2f} deg from the stated extrinsics: check "
        "extrinsics and the IMU's axes, or calibrate"
    )


def _gyro_scale(premises: Premises) -> list[str]:
    """Rates too long or too short about an axis: each has an amplifier of its own. Where clocks
    disagree, rates differ by that already."""
    rotation = premises.rotation
    variances = np.diag(rotation.cov_inverse_scale)
    off = [
        _number_far(1.0 - inverse, variance, CALIBRATED.gyro_scale, premises.dof, LEVEL / 3.0)
        for inverse, variance in zip(rotation.inverse_scale, variances, strict=True)
    ]
    if _time_offset(premises) or not any(off):
        return []
    found = ", ".join(f"{1.0 / inverse:.3f}" for inverse in rotation.inverse_scale)
    return [
        f"the gyroscope's axes read ({found}) times the camera's rates: check its range setting "
        "and scale factor, or the camera's focal length"
    ]


def _axes(premises: Premises) -> list[str]:
    if premises.axes_right >= 0.5 or np.array_equal(premises.axes, np.eye(3)):
        return []
    names = []
    for row in premises.axes:
        column = int(np.argmax(np.abs(row)))
        names.append(("-" if row[column] < 0.0 else "") + "xyz"[column])
    return [
        "accelerations fit the camera's motion if the accelerometer's axes are taken as "
        f"({', '.join(names)}), not as (x, y, z): probability of the stated axes "
        f"{premises.axes_right:.2g}"
    ]


def _lengths(premises: Premises, gravity_norm: float) -> list[str]:
    """Gravity's norm and delay of the accelerometer, then scale, lever arm and drift."""
    translation = premises.translation
    assert translation is not None
    std_norm = float(np.hypot(CALIBRATED.acc_bias, CALIBRATED.acc_scale * gravity_norm))
    norm_off, norm_var = translation.gravity_norm - gravity_norm, translation.std_gravity_norm**2
    if _number_far(norm_off, norm_var, std_norm, premises.dof):
        return [
            f"gravity comes out as {translation.gravity_norm:.2f} m/s^2, not "
            f"{gravity_norm:.2f}: check units and scale of the accelerometer"
        ]
    late = _late_accelerometer(premises)
    if late:
        return late
    cov = translation.cov
    lengths = MeasuredLengths(translation.scale, float(cov[0, 0]), translation.p_b_c, cov[1:, 1:])
    wrong = scale_and_lever_arm(lengths, premises.T_b_c, premises.std_scale, premises.dof)
    return wrong or _drift(premises)


def _late_accelerometer(premises: Premises) -> list[str]:
    errors = premises.motion_errors
    if errors is None or not _number_far(
        errors.delay_s, errors.var_delay, CALIBRATED.camera_clock_s, premises.dof, LONG_LEVEL
    ):
        return []
    late = "late" if errors.delay_s > 0.0 else "early"
    return [
        f"accelerations fit the camera's motion if the accelerometer is "
        f"{1e3 * abs(errors.delay_s):.0f} +- {1e3 * np.sqrt(errors.var_delay):.0f} ms {late} "
        "against gyroscope and camera: check its filter and timestamps, and that positions and "
        "orientations of the camera are of one time"
    ]


def _drift(premises: Premises) -> list[str]:
    errors = premises.motion_errors
    if errors is None or not _far(
        errors.drift_b, errors.cov_drift_b, CALIBRATED.camera_drift, premises.dof, LONG_LEVEL
    ):
        return []
    found = ", ".join(f"{value:.2f}" for value in premises.T_b_c[:3, :3].T @ errors.drift_b)
    return [
        f"accelerations fit the camera's motion if that drifts by ({found}) m/s along the camera's "
        "axes: check what measures it, and that it sees nothing that moves along"
    ]


class MeasuredLengths(NamedTuple):
    """Scale and lever arm as accelerations show them."""

    scale: float
    var_scale: float
    p_b_c: Array
    cov_p_b_c: Array


def scale_and_lever_arm(
    lengths: MeasuredLengths, T_b_c: Array, std_scale: float, dof: int
) -> list[str]:
    """Reasons against the stated scale, or else against the stated lever arm."""
    spread = math.hypot(CALIBRATED.acc_scale, std_scale)
    scale = lengths.scale
    # One over the scale is what was measured: of both distances the shorter one counts.
    if _number_far(scale - 1.0, lengths.var_scale / min(1.0, scale**2), spread, dof):
        return [
            f"accelerations fit the camera's motion if that is {scale:.3f} +- "
            f"{np.sqrt(lengths.var_scale):.3f} times as long: check the stereo baseline or the "
            "trajectory's scale"
        ]
    lever_off = lengths.p_b_c - T_b_c[:3, 3]
    if not _far(lever_off, lengths.cov_p_b_c, CALIBRATED.lever_m, dof):
        return []
    found = ", ".join(f"{value:.3f}" for value in lengths.p_b_c)
    return [
        f"accelerations fit the camera's motion if the camera sits at ({found}) m on the IMU, "
        f"{100.0 * float(np.linalg.norm(lever_off)):.0f} cm from the stated place"
    ]


def extrinsics_contradicted(
    T_b_c: Array,
    cov_T_b_c: Array,
    lengths: MeasuredLengths,
    T_stated: Array,
    std_scale: float,
    dof: int,
) -> list[str]:
    """Reasons against stated extrinsics and scale, given those that fit one window best.

    `cov_T_b_c` is of the left difference [rho, phi].
    """
    difference = so3_log(np.ascontiguousarray(T_b_c[:3, :3] @ T_stated[:3, :3].T))
    if _far(difference, cov_T_b_c[3:, 3:], CALIBRATED.rotation, dof):
        return [_rotated(difference, cov_T_b_c[3:, 3:])]
    return scale_and_lever_arm(lengths, T_stated, std_scale, dof)
