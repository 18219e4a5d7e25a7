"""Conversion between the clocks of camera and IMU by the offset that a calibration states."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from maci2.errors import CalibrationError
from maci2.sensors.types import Recording
from maci2.types import NS

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
