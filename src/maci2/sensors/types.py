"""Contents of a recording: samples, timestamps, calibration and ground truth. Nothing estimated."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from maci2 import boundary
from maci2.errors import DatasetError
from maci2.field_docs import document_fields
from maci2.sensors.rig_types import Rig
from maci2.sensors.truth_covariance import TruthCovariance
from maci2.types import NS, Array, Mask, Stamps


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


document_fields(__name__)
