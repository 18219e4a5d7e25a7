"""Contents of a recording: samples, timestamps, calibration and ground truth. Nothing estimated."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from maci2 import boundary
from maci2.errors import CalibrationError, DatasetError
from maci2.field_docs import document_fields
from maci2.sensors.truth_covariance import TruthCovariance
from maci2.types import NS, Array, Mask, Stamps

LARGEST_IMAGE_PX = 32767
"""Width or height that image processing takes: its pixel coordinates have 16 bits."""

CameraModel = Literal["pinhole", "omni", "ds", "eucm"]
DistortionModel = Literal["radtan", "equidistant", "fov", "none"]


@dataclass(frozen=True)
class ImuSamples:
    """What an IMU reported: angular rate and specific force, in the body frame b."""

    stamps_ns: Stamps
    """(n,) timestamps [ns], strictly increasing."""

    gyro: Array
    """(n, 3) angular rate [rad/s]."""

    acc: Array
    """(n, 3) specific force [m/s^2]: while stationary it points up and has norm 9.81."""

    source: str = "IMU samples"
    """File or device, for messages."""

    def __post_init__(self) -> None:
        stamps_ns = boundary.as_stamps(
            self.stamps_ns,
            f"{self.source}: stamps_ns",
            boundary.SHORTEST_IMU_PERIOD_NS,
            error=DatasetError,
        )
        object.__setattr__(self, "stamps_ns", stamps_ns)
        for name in ("gyro", "acc"):
            values = boundary.as_array(
                getattr(self, name), (len(stamps_ns), 3), f"{self.source}: {name}", DatasetError
            )
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.stamps_ns)

    @property
    def rate_hz(self) -> float:
        """Median sampling rate [Hz]."""
        if len(self) < 2:
            raise DatasetError(f"{self.source}: found {len(self)} sample, needed 2 for a rate.")
        return NS / float(np.median(np.diff(self.stamps_ns)))

    def between(self, start_ns: int, end_ns: int) -> "ImuSamples":
        """The samples needed to integrate over [start_ns, end_ns]: those inside and one beyond
        each end, for interpolation."""
        if start_ns < self.stamps_ns[0] or end_ns > self.stamps_ns[-1]:
            raise DatasetError(
                f"{self.source}: the IMU covers {self.stamps_ns[0]}..{self.stamps_ns[-1]} ns but "
                f"{start_ns}..{end_ns} ns is needed; choose a window inside the IMU recording."
            )
        first = int(np.searchsorted(self.stamps_ns, start_ns, side="right")) - 1
        last = int(np.searchsorted(self.stamps_ns, end_ns, side="left")) + 1
        return ImuSamples(
            self.stamps_ns[first:last], self.gyro[first:last], self.acc[first:last], self.source
        )


@dataclass(frozen=True)
class GroundTruth:
    """Where the body was, from a system better than the one under test."""

    stamps_ns: Stamps
    """(n,) timestamps [ns], strictly increasing."""

    Ts_w_b: Array
    """(n, 4, 4) poses of the body in a world whose z axis points up."""

    v_w: Array
    """(n, 3) velocity in the world [m/s]; NaN where the truth does not say."""

    bias_gyro: Array
    """(n, 3) [rad/s]; NaN where the truth does not say."""

    bias_acc: Array
    """(n, 3) [m/s^2]; NaN where the truth does not say."""

    source: str = "ground truth"
    """File, for messages."""

    covariance: TruthCovariance | None = None
    """How well it is known, of an audited truth; None where nobody said."""

    def __post_init__(self) -> None:
        _check_poses(self, "Ts_w_b")
        for name in ("v_w", "bias_gyro", "bias_acc"):
            values = boundary.as_array(
                getattr(self, name),
                (len(self.stamps_ns), 3),
                f"{self.source}: {name}",
                DatasetError,
                finite=False,
            )
            object.__setattr__(self, name, values)
        if self.covariance is not None:
            what = f"{self.source}: covariance"
            boundary.require_type(
                self.covariance, TruthCovariance, what, "None, or that of an audit"
            )

    def part(self, kept: Mask) -> "GroundTruth":
        """The rows that a mask (n,) keeps."""
        return GroundTruth(
            self.stamps_ns[kept],
            self.Ts_w_b[kept],
            self.v_w[kept],
            self.bias_gyro[kept],
            self.bias_acc[kept],
            self.source,
            self.covariance,
        )

    def __len__(self) -> int:
        return len(self.stamps_ns)


@dataclass(frozen=True)
class CameraTrajectory:
    """Where a camera was, as some visual odometry saw it."""

    stamps_ns: Stamps
    """(n,) timestamps [ns], strictly increasing."""

    Ts_w_c: Array
    """(n, 4, 4) poses of the camera in that odometry's own world."""

    source: str
    """File, for messages."""

    dropped: int = 0
    """Lines skipped because they hold NaN: the odometry was lost there."""

    def __post_init__(self) -> None:
        _check_poses(self, "Ts_w_c")

    def __len__(self) -> int:
        return len(self.stamps_ns)


@dataclass(frozen=True)
class ImuNoise:
    """A data sheet's noise, as densities (not variances of single samples)."""

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
    """Samples have exactly this noise, as simulated ones; a real sensor has more than its sheet."""

    def __post_init__(self) -> None:
        boundary.require_type(self.exact, bool, "ImuNoise.exact", "True or False")
        for name in ("density_gyro", "density_acc", "walk_gyro", "walk_acc", "rate_hz"):
            # A walk of zero is a bias that stays; noise of zero would be infinite information.
            is_walk = name.startswith("walk")
            number = boundary.as_number(
                getattr(self, name),
                f"ImuNoise.{name}",
                low=0.0,
                error=CalibrationError,
                exclusive=not is_walk,
            )
            object.__setattr__(self, name, number)


@dataclass(frozen=True)
class ImuIntrinsics:
    """Deterministic errors of an IMU's readings, as a calibration measured them.

    With the body's angular rate w and specific force a:
    gyro = M_gyro R_gyro_b w + g_sensitivity a + offset_gyro, acc = M_acc R_acc_b a + offset_acc.
    """

    M_gyro: Array
    """(3, 3) scale and misalignment of the gyroscope's axes; Kalibr's and OpenVINS' Tw."""

    R_gyro_b: Array
    """(3, 3) rotation that takes body coordinates to the gyroscope's; Kalibr's C_gyro_i."""

    M_acc: Array
    """(3, 3) scale and misalignment of the accelerometer's axes; OpenVINS' Ta."""

    R_acc_b: Array
    """(3, 3) rotation that takes body coordinates to the accelerometer's; identity for Kalibr."""

    g_sensitivity: Array
    """(3, 3) angular rate read per specific force in the body frame [rad/s / (m/s^2)]; OpenVINS'
    Tg, Kalibr's A C_gyro_i."""

    offset_gyro: Array
    """(3,) reading at zero angular rate [rad/s]."""

    offset_acc: Array
    """(3,) reading at zero specific force [m/s^2]."""

    def __post_init__(self) -> None:
        for name in ("M_gyro", "R_gyro_b", "M_acc", "R_acc_b", "g_sensitivity"):
            values = boundary.as_array(
                getattr(self, name), (3, 3), f"ImuIntrinsics.{name}", CalibrationError
            )
            object.__setattr__(self, name, values)
        for name in ("offset_gyro", "offset_acc"):
            values = boundary.as_array(
                getattr(self, name), (3,), f"ImuIntrinsics.{name}", CalibrationError
            )
            object.__setattr__(self, name, values)


@dataclass(frozen=True)
class Camera:
    """One camera of a rig: projection, lens distortion, and where it sits."""

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
    """ROS topic of its images, where the calibration says it."""

    camera_model: CameraModel = "pinhole"
    """pinhole; omni: unified model (MEI); ds: double sphere; eucm: extended unified model."""

    model_parameters: Array = field(default_factory=lambda: np.zeros(0))
    """() for a pinhole, (1,) xi for omni, (2,) xi, alpha for ds, (2,) alpha, beta for eucm."""

    def __post_init__(self) -> None:
        T_b_c = boundary.as_transform(self.T_b_c, "Camera.T_b_c", CalibrationError)
        object.__setattr__(self, "T_b_c", T_b_c)
        boundary.require_choice(
            self.camera_model, get_args(CameraModel), "Camera.camera_model", CalibrationError
        )
        boundary.require_choice(
            self.distortion_model,
            get_args(DistortionModel),
            "Camera.distortion_model",
            CalibrationError,
        )
        parameters = {"pinhole": 0, "omni": 1, "ds": 2, "eucm": 2}[self.camera_model]
        shapes = {"intrinsics": (4,), "distortion": (None,), "model_parameters": (parameters,)}
        for name, shape in shapes.items():
            values = boundary.as_array(
                getattr(self, name), shape, f"Camera.{name}", CalibrationError
            )
            object.__setattr__(self, name, values)
        if not (self.intrinsics[:2] > 0.0).all():
            raise CalibrationError(
                f"Camera.intrinsics has the focal lengths {self.intrinsics[:2].tolist()} px, "
                "needed above 0."
            )
        object.__setattr__(self, "resolution", _resolution(self.resolution))


@dataclass(frozen=True)
class Rig:
    """Cameras and IMU of one device; the first camera is the left one."""

    cameras: tuple[Camera, ...]
    """The left camera first, then the right one."""

    imu: ImuNoise
    """Data sheet of the IMU."""

    source: str = "rig"
    """File, for messages."""

    exact: bool = False
    """Calibration without error, as of a simulated device; a real one's is measured."""

    extrinsics_known: bool = True
    """False: of the cameras only their places beside each other are known, not those on the IMU;
    every T_b_c is then the pose in the first camera."""

    time_offset_s: float = 0.0
    """Time offset of all cameras [s]: t_imu = t_camera + time_offset_s, as Kalibr counts it."""

    noise_known: bool = True
    """False: the calibration says nothing of the IMU's noise, and `imu` holds assumed values that
    nothing may be estimated with."""

    imu_intrinsics: ImuIntrinsics | None = None
    """Errors of the IMU's raw readings that are still in the samples; None in the rig of an opened
    recording, whose samples are corrected."""

    def __post_init__(self) -> None:
        boundary.require_type(self.cameras, (tuple, list), "Rig.cameras", "the left camera first")
        object.__setattr__(self, "cameras", tuple(self.cameras))
        for camera in self.cameras:
            boundary.require_type(camera, Camera, "Rig.cameras", "one for each camera")
        boundary.require_type(self.imu, ImuNoise, "Rig.imu", "the IMU's data sheet")
        boundary.as_number(self.time_offset_s, "Rig.time_offset_s", error=CalibrationError)
        for name in ("exact", "extrinsics_known", "noise_known"):
            boundary.require_type(getattr(self, name), bool, f"Rig.{name}", "True or False")
        if self.imu_intrinsics is not None:
            boundary.require_type(
                self.imu_intrinsics, ImuIntrinsics, "Rig.imu_intrinsics", "or None"
            )


@dataclass(frozen=True)
class BagImages:
    """Where the images of a bag are; they are read when asked for."""

    paths: tuple[Path, ...]
    """The bag's files, or its folder."""

    topics: tuple[str, ...]
    """One per camera, the left one first."""

    received_ns: tuple[Stamps, ...]
    """One array per camera: when each image was written to the bag. A bag finds messages by this;
    it is never used as a timestamp."""


@dataclass(frozen=True)
class Recording:
    """A recording opened: samples and calibration in memory, images left on disk."""

    name: str
    """Name of its folder or file."""

    path: Path
    """Folder or file that was opened."""

    imu: ImuSamples
    """All samples of the IMU."""

    rig: Rig
    """Calibration of cameras and IMU."""

    camera_stamps_ns: tuple[Stamps, ...]
    """Timestamps of the images [ns], one array per camera; empty without a camera."""

    camera_shift_ns: int = 0
    """Nanoseconds added to the camera's timestamps to put them onto the IMU's clock; names of
    images and what others computed from them have timestamps that are so much less."""

    truths: dict[str, GroundTruth] = field(default_factory=dict)
    """Every ground truth found, by the name of its folder, file or topic."""

    bag: BagImages | None = None
    """Place of the images in a bag; None for a folder."""

    image_names: tuple[dict[int, str], ...] = ()
    """Names of image files that are not their timestamp, one dictionary per camera of a folder, by
    the timestamp that the camera's list gives them."""

    image_folders: tuple[Path, ...] = ()
    """Folder of each camera's images, where they are not in camN/data."""

    notes: tuple[str, ...] = ()
    """What was found and taken for what."""

    warnings: tuple[str, ...] = ()
    """What was skipped while reading, and why."""

    def truth(self, names: tuple[str, ...] = ()) -> GroundTruth | None:
        """The first of `names` that this recording has, else its default truth, else None."""
        for name in names:
            if name in self.truths:
                return self.truths[name]
        return next(iter(self.truths.values()), None)


def _check_poses(poses: GroundTruth | CameraTrajectory, name: str) -> None:
    """Timestamps and transforms of a trajectory, converted and checked in place."""
    stamps_ns = boundary.as_stamps(
        poses.stamps_ns,
        f"{poses.source}: stamps_ns",
        boundary.SHORTEST_IMU_PERIOD_NS,
        error=DatasetError,
    )
    Ts = boundary.as_transforms(
        getattr(poses, name), len(stamps_ns), f"{poses.source}: {name}", DatasetError
    )
    object.__setattr__(poses, "stamps_ns", stamps_ns)
    object.__setattr__(poses, name, Ts)


def _resolution(resolution: tuple[int, int]) -> tuple[int, int]:
    size = boundary.as_array(resolution, (2,), "Camera.resolution", CalibrationError)
    if not ((size >= 1) & (size <= LARGEST_IMAGE_PX) & (size == np.rint(size))).all():
        raise CalibrationError(
            f"Camera.resolution is {tuple(resolution)}, needed width and height in whole pixels, "
            f"at most {LARGEST_IMAGE_PX}."
        )
    return int(size[0]), int(size[1])


document_fields(__name__)
