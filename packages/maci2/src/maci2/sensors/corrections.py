"""Corrections of a recording by its calibration: the camera's clock, and deterministic IMU errors
(scale, misalignment, g-sensitivity, offsets)."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np

from maci2.errors import CalibrationError
from maci2.sensors.rig_types import ImuIntrinsics
from maci2.sensors.types import ImuSamples, Recording
from maci2.types import NS, Array

Clock = Literal["imu", "camera"]
"""The clock that the camera timestamps of a recording are on."""

MAX_DIFFERENCE_S = 1e-3
"""Largest difference between the stated offsets of synchronized cameras [s]."""


def on_imu_clock(recording: Recording) -> Recording:
    """Recording with camera timestamps shifted to the IMU's clock: t_imu = t_camera + offset."""
    shift_ns = round(recording.rig.time_offset_s * NS)
    if recording.camera_shift_ns != 0 or shift_ns == 0:
        return recording
    stamps_ns = tuple(stamps + shift_ns for stamps in recording.camera_stamps_ns)
    return replace(recording, camera_stamps_ns=stamps_ns, camera_shift_ns=shift_ns)


def common_time_offset(stated_s: Iterable[float | None], source: str) -> float:
    """Common offset of all cameras, zero if none is stated; raises if they differ too much."""
    offsets_s = [offset_s for offset_s in stated_s if offset_s is not None]
    if not offsets_s:
        return 0.0
    apart_s = max(offsets_s) - min(offsets_s)
    if apart_s > MAX_DIFFERENCE_S:
        raise CalibrationError(
            f"{source}: time offsets of the cameras differ by {1e3 * apart_s:.3f} ms, needed at "
            f"most {1e3 * MAX_DIFFERENCE_S:g}: images of a stereo pair must be of one moment."
        )
    return offsets_s[0]


IDENTICAL = 1e-12
"""Difference from ideal axes below which it is rounding of the file, not an error of the sensor."""


def ideal_intrinsics() -> ImuIntrinsics:
    """Intrinsics of an IMU without deterministic errors."""
    return ImuIntrinsics()


def is_ideal(intrinsics: ImuIntrinsics) -> bool:
    """True if the intrinsics are the identity."""
    ideal = ImuIntrinsics()
    return all(
        np.abs(getattr(intrinsics, name) - getattr(ideal, name)).max() <= IDENTICAL
        for name in ImuIntrinsics.__dataclass_fields__
    )


def apply_intrinsics(samples: ImuSamples, intrinsics: ImuIntrinsics) -> ImuSamples:
    """Samples in the body frame from raw readings: the inverse of the intrinsics' two equations.

    The accelerometer comes first, since g-sensitivity needs the specific force.
    """
    gyro, acc = corrected_readings(samples.gyro, samples.acc, intrinsics)
    return replace(samples, gyro=gyro, acc=acc)


def corrected_readings(gyro: Array, acc: Array, intrinsics: ImuIntrinsics) -> tuple[Array, Array]:
    """Angular rate and specific force in the body frame, of one reading (3,) or many (n, 3)."""
    acc_b = (acc - intrinsics.offset_acc) @ _inverse(intrinsics.M_acc, intrinsics.R_acc_b).T
    rate = gyro - intrinsics.offset_gyro - acc_b @ intrinsics.g_sensitivity.T
    return rate @ _inverse(intrinsics.M_gyro, intrinsics.R_gyro_b).T, acc_b


def with_intrinsics_applied(recording: Recording) -> Recording:
    """A recording with samples corrected by the IMU intrinsics of its rig."""
    intrinsics = recording.rig.imu_intrinsics
    if intrinsics is None:
        return recording
    note = f"IMU readings are corrected by the IMU intrinsics of {recording.rig.source}"
    return replace(
        recording,
        rig=replace(recording.rig, imu_intrinsics=None),
        imu=apply_intrinsics(recording.imu, intrinsics),
        notes=(*recording.notes, note),
    )


def lower_triangular(M: Array, R: Array) -> tuple[Array, Array]:
    """M R as the product of a lower triangle with positive diagonal and a rotation; M and R
    unchanged if M is already such a triangle."""
    if not np.triu(M, 1).any():
        return M, R
    Q, upper = np.linalg.qr((M @ R).T)
    signs = np.sign(np.diag(upper))
    return (upper * signs[:, None]).T, (Q * signs).T


def _inverse(M: Array, R: Array) -> Array:
    return np.asarray(R.T @ np.linalg.inv(M))
