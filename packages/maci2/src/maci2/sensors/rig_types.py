"""A rig: its cameras, noise and intrinsics of its IMU, and their relative poses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, get_args

import numpy as np

from maci2 import validation
from maci2.errors import CalibrationError, Maci2Error
from maci2.field_docs import document_fields
from maci2.types import Array

LARGEST_IMAGE_PX = 32767
"""Largest image width and height; image processing uses 16-bit pixel coordinates."""

CameraModel = Literal["pinhole", "omni", "ds", "eucm"]

DistortionModel = Literal["radtan", "equidistant", "fov", "none"]


def check_arrays(
    item: object,
    shapes: Mapping[str, validation.Shape],
    prefix: str,
    error: type[Maci2Error] = CalibrationError,
    finite: bool = True,
) -> None:
    """Convert and check array fields of a frozen dataclass; `prefix` begins their names in
    errors."""
    for name, shape in shapes.items():
        values = validation.as_array(getattr(item, name), shape, f"{prefix}{name}", error, finite)
        object.__setattr__(item, name, values)


@dataclass(frozen=True)
class ImuNoise:
    """IMU noise as in a data sheet: densities, not variances of single samples."""

    density_gyro: float
    """White noise of the gyroscope [rad/s/sqrt(Hz)]."""

    density_acc: float
    """White noise of the accelerometer [m/s^2/sqrt(Hz)]."""

    walk_gyro: float
    """Random walk of the gyroscope bias [rad/s^2/sqrt(Hz)]."""

    walk_acc: float
    """Random walk of the accelerometer bias [m/s^3/sqrt(Hz)]."""

    rate_hz: float
    """Nominal sampling rate [Hz]."""

    exact: bool = False
    """True if samples have exactly this noise, as in a simulation; a real sensor has more."""

    def __post_init__(self) -> None:
        validation.require_type(self.exact, bool, "ImuNoise.exact", "True or False")
        for name in ("density_gyro", "density_acc", "walk_gyro", "walk_acc", "rate_hz"):
            # A walk of zero is a bias that stays; noise of zero would be infinite information.
            value, above_zero = getattr(self, name), not name.startswith("walk")
            number = validation.as_number(
                value, f"ImuNoise.{name}", 0.0, error=CalibrationError, exclusive=above_zero
            )
            object.__setattr__(self, name, number)


_IDENTITY, _ZERO = partial(np.eye, 3), partial(np.zeros, 3)


@dataclass(frozen=True)
class ImuIntrinsics:
    """Deterministic errors of IMU readings, from a calibration; by default there are none.

    With the body's angular rate w and specific force a:
    gyro = M_gyro R_gyro_b w + g_sensitivity a + offset_gyro, acc = M_acc R_acc_b a + offset_acc.
    """

    M_gyro: Array = field(default_factory=_IDENTITY)
    """(3, 3) scale and misalignment of the gyroscope's axes; Kalibr's and OpenVINS' Tw."""

    R_gyro_b: Array = field(default_factory=_IDENTITY)
    """(3, 3) rotation that takes body coordinates to the gyroscope's; Kalibr's C_gyro_i."""

    M_acc: Array = field(default_factory=_IDENTITY)
    """(3, 3) scale and misalignment of the accelerometer's axes; OpenVINS' Ta."""

    R_acc_b: Array = field(default_factory=_IDENTITY)
    """(3, 3) rotation that takes body coordinates to the accelerometer's; identity for Kalibr."""

    g_sensitivity: Array = field(default_factory=partial(np.zeros, (3, 3)))
    """(3, 3) angular rate read per specific force in the body frame [rad/s / (m/s^2)]; OpenVINS'
    Tg, Kalibr's A C_gyro_i."""

    offset_gyro: Array = field(default_factory=_ZERO)
    """(3,) reading at zero angular rate [rad/s]."""

    offset_acc: Array = field(default_factory=_ZERO)
    """(3,) reading at zero specific force [m/s^2]."""

    def __post_init__(self) -> None:
        matrices = ("M_gyro", "R_gyro_b", "M_acc", "R_acc_b", "g_sensitivity")
        offsets = ("offset_gyro", "offset_acc")
        shapes = dict.fromkeys(matrices, (3, 3)) | dict.fromkeys(offsets, (3,))
        check_arrays(self, shapes, "ImuIntrinsics.")


@dataclass(frozen=True)
class Camera:
    """One camera of a rig: projection, lens distortion and pose."""

    T_b_c: Array
    """(4, 4) pose of the camera in the body (IMU) frame: p_b = T_b_c p_c. Kalibr's T_cam_imu is
    its inverse, EuRoC's T_BS is the same."""

    intrinsics: Array
    """(4,) fx, fy, cx, cy [px]."""

    distortion: Array
    """k1, k2, p1, p2, optionally with k3 or k3, k4, k5, k6 (radtan, in OpenCV's order); k1, k2, k3,
    k4 (equidistant); w [rad] (fov); four zeros (none)."""

    distortion_model: DistortionModel
    """radtan: radial-tangential; equidistant: Kannala-Brandt fisheye; fov: Devernay-Faugeras."""

    resolution: tuple[int, int]
    """Width, height [px]."""

    rate_hz: float
    """Nominal frame rate [Hz]."""

    topic: str = ""
    """ROS topic of its images, if the calibration states it."""

    camera_model: CameraModel = "pinhole"
    """pinhole; omni: unified model (MEI); ds: double sphere; eucm: extended unified model."""

    model_parameters: Array = field(default_factory=lambda: np.zeros(0))
    """() for a pinhole, (1,) xi for omni, (2,) xi, alpha for ds, (2,) alpha, beta for eucm."""

    def __post_init__(self) -> None:
        T_b_c = validation.as_transform(self.T_b_c, "Camera.T_b_c", CalibrationError)
        object.__setattr__(self, "T_b_c", T_b_c)
        for name, choices in (("camera_model", CameraModel), ("distortion_model", DistortionModel)):
            value = getattr(self, name)
            validation.require_choice(value, get_args(choices), f"Camera.{name}", CalibrationError)
        parameters = {"pinhole": 0, "omni": 1, "ds": 2, "eucm": 2}[self.camera_model]
        shapes = {"intrinsics": (4,), "distortion": (None,), "model_parameters": (parameters,)}
        check_arrays(self, shapes, "Camera.")
        if not (self.intrinsics[:2] > 0.0).all():
            raise CalibrationError(
                f"Camera.intrinsics has the focal lengths {self.intrinsics[:2].tolist()} px, "
                "needed above 0."
            )
        size = validation.as_array(self.resolution, (2,), "Camera.resolution", CalibrationError)
        if not ((size >= 1) & (size <= LARGEST_IMAGE_PX) & (size == np.rint(size))).all():
            raise CalibrationError(
                f"Camera.resolution is {tuple(self.resolution)}, needed width and height in whole "
                f"pixels, at most {LARGEST_IMAGE_PX}."
            )
        object.__setattr__(self, "resolution", (int(size[0]), int(size[1])))


@dataclass(frozen=True)
class Rig:
    """Cameras and IMU of one device; the first camera is the left one."""

    cameras: tuple[Camera, ...]
    """Cameras, the left one first."""

    imu: ImuNoise
    """Data sheet of the IMU."""

    source: str = "rig"
    """File, for messages."""

    exact: bool = False
    """True for an exact calibration, as in a simulation; that of a real device is measured."""

    extrinsics_known: bool = True
    """False if only the relative poses of the cameras are known, not the extrinsics to the IMU;
    every T_b_c is then the pose in the first camera."""

    time_offset_s: float = 0.0
    """Time offset of all cameras [s]: t_imu = t_camera + time_offset_s, as in Kalibr."""

    noise_known: bool = True
    """False if the calibration lacks IMU noise; `imu` then has placeholder values that must not be
    used for estimation."""

    imu_intrinsics: ImuIntrinsics | None = None
    """Errors of the raw IMU readings that are still in the samples; None in the rig of an opened
    recording, whose samples are corrected."""

    def __post_init__(self) -> None:
        validation.require_type(self.cameras, (tuple, list), "Rig.cameras", "the left camera first")
        object.__setattr__(self, "cameras", tuple(self.cameras))
        for camera in self.cameras:
            validation.require_type(camera, Camera, "Rig.cameras", "one for each camera")
        validation.require_type(self.imu, ImuNoise, "Rig.imu", "the IMU's data sheet")
        validation.as_number(self.time_offset_s, "Rig.time_offset_s", error=CalibrationError)
        for name in ("exact", "extrinsics_known", "noise_known"):
            validation.require_type(getattr(self, name), bool, f"Rig.{name}", "True or False")
        if self.imu_intrinsics is not None:
            validation.require_type(
                self.imu_intrinsics, ImuIntrinsics, "Rig.imu_intrinsics", "or None"
            )


document_fields(__name__)
