"""Contents of a recording: samples, timestamps, calibration and ground truth with its covariance.

Nothing is estimated here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from maci2 import validation
from maci2.errors import DatasetError
from maci2.field_docs import document_fields
from maci2.sensors.rig_types import Rig, check_arrays
from maci2.types import NS, Array, Mask, Stamps

STATE = 15


@dataclass(frozen=True)
class TruthCovariance:
    """Joint covariance of a chain of ground-truth states that share a few constants.

    Order of a state [phi, v, p, bg, ba]: R_w_b Exp(phi), the others plain differences, v and p in
    the truth's world. Given the constants, a state depends on its neighbours only.
    """

    stamps_ns: Stamps
    """(n,) timestamps at which covariances are stored, increasing [ns]."""

    states: Array
    """(n, 15, 15) of each state."""

    neighbours: Array
    """(n - 1, 15, 15) of state k (rows) with state k + 1 (columns)."""

    with_constants: Array
    """(n, 15, b) of each state with the constants."""

    constants: Array
    """(b, b) of the constants."""

    imu_noise: Array | None = None
    """(n - 1, 9, 9) of the IMU measurement between consecutive states that the ground truth was
    made with, order [gamma, beta, alpha]; None if it was made without."""

    def at(self, query_ns: Stamps) -> Array:
        """(m, 15, 15) of the states at other timestamps, linear between the stored ones."""
        since_ns = self.stamps_ns[0]
        elapsed = (np.asarray(query_ns) - since_ns).astype(float)
        place = np.interp(elapsed, self.stamps_ns - since_ns, np.arange(len(self.stamps_ns)))
        before = np.minimum(place.astype(np.int64), len(self.stamps_ns) - 2)
        u = (place - before)[:, None, None]
        return np.asarray((1.0 - u) * self.states[before] + u * self.states[before + 1])

    def nearest(self, query_ns: Stamps) -> Stamps:
        """(m,) indices of the stored states nearest to timestamps."""
        query_ns = np.asarray(query_ns)
        after = np.clip(np.searchsorted(self.stamps_ns, query_ns), 1, len(self.stamps_ns) - 1)
        closer = query_ns - self.stamps_ns[after - 1] < self.stamps_ns[after] - query_ns
        return np.asarray(after - closer)

    @cached_property
    def _given_constants(self) -> tuple[Array, Array]:
        """Part of each state that the constants explain, and transitions between states."""
        explained = np.linalg.solve(self.constants, np.swapaxes(self.with_constants, 1, 2))
        rest = self.states - self.with_constants @ explained
        between = self.neighbours - self.with_constants[:-1] @ explained[1:]
        return np.asarray(explained), np.asarray(np.linalg.solve(rest[:-1], between))

    def between(self, i: Stamps, j: Stamps) -> Array:
        """(m, 15, 15) covariance of stored states i (rows) with later or equal ones j (columns)."""
        explained, steps = self._given_constants
        carried = self.states[i] - self.with_constants[i] @ explained[i]
        for step in range(int(np.max(j - i, initial=0))):
            going = np.flatnonzero(i + step < j)
            carried[going] = carried[going] @ steps[i[going] + step]
        return np.asarray(carried + self.with_constants[i] @ explained[j])

    def pairs(self, first: Stamps, later: Stamps) -> Array:
        """(m, 30, 30) joint covariances of pairs of stored states, by index."""
        joint = np.empty((len(first), 2 * STATE, 2 * STATE))
        joint[:, :STATE, :STATE] = self.states[first]
        joint[:, STATE:, STATE:] = self.states[later]
        joint[:, :STATE, STATE:] = self.between(first, later)
        joint[:, STATE:, :STATE] = np.swapaxes(joint[:, :STATE, STATE:], 1, 2)
        return joint

    def joint(self, places: Stamps) -> Array:
        """(15 m, 15 m) joint covariance of stored states, by increasing index."""
        m = len(places)
        a, b = np.triu_indices(m)
        cov = np.empty((m, m, STATE, STATE))
        cov[a, b] = self.between(places[a], places[b])
        cov[b, a] = np.swapaxes(cov[a, b], 1, 2)
        return cov.swapaxes(1, 2).reshape(m * STATE, m * STATE)


@dataclass(frozen=True)
class ImuSamples:
    """IMU samples: angular rate and specific force in the body frame b."""

    stamps_ns: Stamps
    """(n,) timestamps [ns], strictly increasing."""

    gyro: Array
    """(n, 3) angular rate [rad/s]."""

    acc: Array
    """(n, 3) specific force [m/s^2]: while stationary it points up and has norm 9.81."""

    source: str = "IMU samples"
    """File or device, for messages."""

    def __post_init__(self) -> None:
        check_stamps(self)
        shape = (len(self.stamps_ns), 3)
        check_arrays(self, {"gyro": shape, "acc": shape}, f"{self.source}: ", DatasetError)

    def __len__(self) -> int:
        return len(self.stamps_ns)

    @property
    def rate_hz(self) -> float:
        """Median sampling rate [Hz]."""
        if len(self) < 2:
            raise DatasetError(f"{self.source}: found {len(self)} sample, needed 2 for a rate.")
        return NS / float(np.median(np.diff(self.stamps_ns)))

    def between(self, start_ns: int, end_ns: int) -> "ImuSamples":
        """Samples needed to integrate over [start_ns, end_ns]: those inside and one beyond each
        end, for interpolation."""
        if start_ns < self.stamps_ns[0] or end_ns > self.stamps_ns[-1]:
            raise DatasetError(
                f"{self.source}: the IMU covers {self.stamps_ns[0]}..{self.stamps_ns[-1]} ns but "
                f"{start_ns}..{end_ns} ns is needed; choose a window inside the IMU recording."
            )
        first = int(np.searchsorted(self.stamps_ns, start_ns, side="right")) - 1
        last = int(np.searchsorted(self.stamps_ns, end_ns, side="left")) + 1
        rows = slice(first, last)
        return replace(
            self, stamps_ns=self.stamps_ns[rows], gyro=self.gyro[rows], acc=self.acc[rows]
        )


@dataclass(frozen=True)
class GroundTruth:
    """Reference trajectory of the body, from a system more accurate than the one under test."""

    stamps_ns: Stamps
    """(n,) timestamps [ns], strictly increasing."""

    Ts_w_b: Array
    """(n, 4, 4) poses of the body in a world whose z axis points up."""

    v_w: Array
    """(n, 3) velocity in the world [m/s]; NaN where the ground truth has none."""

    bias_gyro: Array
    """(n, 3) gyroscope bias [rad/s]; NaN where the ground truth has none."""

    bias_acc: Array
    """(n, 3) accelerometer bias [m/s^2]; NaN where the ground truth has none."""

    source: str = "ground truth"
    """File, for messages."""

    covariance: TruthCovariance | None = None
    """Covariance of audited ground truth; None if unknown."""

    def __post_init__(self) -> None:
        check_poses(self, "Ts_w_b")
        shapes = dict.fromkeys(("v_w", "bias_gyro", "bias_acc"), (len(self.stamps_ns), 3))
        check_arrays(self, shapes, f"{self.source}: ", DatasetError, finite=False)
        if self.covariance is not None:
            what = f"{self.source}: covariance"
            validation.require_type(
                self.covariance, TruthCovariance, what, "None, or that of an audit"
            )

    @classmethod
    def of_poses(cls, stamps_ns: Stamps, Ts_w_b: Array, source: str) -> "GroundTruth":
        """Ground truth without velocity and biases."""
        unknown = np.full((len(stamps_ns), 3), np.nan)
        return cls(stamps_ns, Ts_w_b, unknown, unknown.copy(), unknown.copy(), source)

    def part(self, kept: Mask) -> "GroundTruth":
        """Rows selected by a mask (n,)."""
        names = ("stamps_ns", "Ts_w_b", "v_w", "bias_gyro", "bias_acc")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    def __len__(self) -> int:
        return len(self.stamps_ns)


@dataclass(frozen=True)
class CameraTrajectory:
    """Trajectory of a camera, estimated by some visual odometry."""

    stamps_ns: Stamps
    """(n,) timestamps [ns], strictly increasing."""

    Ts_w_c: Array
    """(n, 4, 4) poses of the camera in the world frame of that odometry."""

    source: str
    """File, for messages."""

    dropped: int = 0
    """Number of lines skipped because they hold NaN, where the odometry was lost."""

    def __post_init__(self) -> None:
        check_poses(self, "Ts_w_c")

    def __len__(self) -> int:
        return len(self.stamps_ns)


@dataclass(frozen=True)
class BagImages:
    """Location of the images in a bag; they are read on demand."""

    paths: tuple[Path, ...]
    """The bag's files, or its folder."""

    topics: tuple[str, ...]
    """One per camera, the left one first."""

    received_ns: tuple[Stamps, ...]
    """One array per camera: the time at which each image was written to the bag. Messages are found
    by this time; it is never used as a timestamp."""


@dataclass(frozen=True)
class ImageRecording:
    """Images of a recording on disk and the calibration of its cameras: the input of visual
    odometry."""

    name: str
    """Name of its folder or file."""

    path: Path
    """Folder or file that was opened."""

    rig: Rig
    """Calibration of cameras and IMU; a frame rate that it does not state is taken from the
    timestamps."""

    camera_stamps_ns: tuple[Stamps, ...]
    """Timestamps of the images [ns], one array per camera; empty without a camera."""

    camera_shift_ns: int = 0
    """Nanoseconds that were added to the camera's timestamps to convert them to the IMU's clock;
    file names of images and files made from them have timestamps without it."""

    bag: BagImages | None = None
    """Location of the images in a bag; None for a folder."""

    image_names: tuple[dict[int, str], ...] = ()
    """File names of images that are not named by their timestamp: one dictionary per camera, by the
    timestamp in the camera's list."""

    image_folders: tuple[Path, ...] = ()
    """Folder of the images of each camera, if not camN/data."""

    def __post_init__(self) -> None:
        cameras = list(self.rig.cameras)
        for number, stamps_ns in enumerate(self.camera_stamps_ns[: len(cameras)]):
            if np.isnan(cameras[number].rate_hz) and len(stamps_ns) > 1:
                rate_hz = NS / float(np.median(np.diff(stamps_ns)))
                cameras[number] = replace(cameras[number], rate_hz=rate_hz)
                object.__setattr__(self, "rig", replace(self.rig, cameras=tuple(cameras)))

    def with_imu(self, imu: ImuSamples, **more: Any) -> "Recording":
        """Recording of these images and IMU samples; `more` are further fields of a `Recording`."""
        return Recording(imu=imu, **(vars(self) | more))


@dataclass(frozen=True)
class Recording(ImageRecording):
    """An opened recording: samples and calibration in memory, images on disk."""

    imu: ImuSamples = field(kw_only=True)
    """All samples of the IMU."""

    truths: dict[str, GroundTruth] = field(default_factory=dict)
    """Every ground truth found, by the name of its folder, file or topic."""

    notes: tuple[str, ...] = ()
    """Notes on how the files were interpreted."""

    warnings: tuple[str, ...] = ()
    """Notes on what was skipped while reading, with reasons."""

    def truth(self, names: Sequence[str] = ()) -> GroundTruth | None:
        """First of `names` that this recording has, else its first ground truth, or None."""
        for name in names:
            if name in self.truths:
                return self.truths[name]
        return next(iter(self.truths.values()), None)


def check_stamps(item: ImuSamples | GroundTruth | CameraTrajectory) -> None:
    """Convert and check the timestamps in place."""
    name, shortest_ns = f"{item.source}: stamps_ns", validation.SHORTEST_IMU_PERIOD_NS
    stamps_ns = validation.as_stamps(item.stamps_ns, name, shortest_ns, error=DatasetError)
    object.__setattr__(item, "stamps_ns", stamps_ns)


def check_poses(poses: GroundTruth | CameraTrajectory, name: str) -> None:
    """Convert and check the timestamps and transforms of a trajectory in place."""
    check_stamps(poses)
    Ts, what = getattr(poses, name), f"{poses.source}: {name}"
    Ts = validation.as_transforms(Ts, len(poses.stamps_ns), what, DatasetError)
    object.__setattr__(poses, name, Ts)


document_fields(__name__)
