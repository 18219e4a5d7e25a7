"""ROS 1 and ROS 2 bags as recordings.

Bags are read as a stream: what is kept of an image is its timestamp. Timestamps are those of the
headers, never the times of receipt, and numbers are collected at 8 bytes each.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from maci2.datasets.bags import Bag, Message, Topics, bag_paths, find_topics, header_stamp_ns
from maci2.datasets.images import grey_image, message_fault
from maci2.datasets.tables import (
    MAX_ABSOLUTE,
    MIN_IMU_SAMPLES,
    require_unit_quaternions,
)
from maci2.errors import CalibrationError, DatasetError, ImageError
from maci2.geometry.se3 import rotations_from_quat_wxyz, stack_poses
from maci2.sensors.corrections import on_imu_clock
from maci2.sensors.rig_types import Rig
from maci2.sensors.types import BagImages, GroundTruth, ImageRecording, ImuSamples, Recording
from maci2.sensors.validation import GAP_PERIODS, gaps, require_count, require_short_enough
from maci2.types import NS, Array, Stamps

CLOCK_JUMP_S = 60.0
"""Largest difference between header and receive time intervals; buffering explains less."""


@dataclass(frozen=True)
class Series:
    """Values of one topic, checked: timestamps increase strictly, numbers are finite."""

    stamps_ns: Stamps
    """(n,) header timestamps [ns]."""

    received_ns: Stamps
    """(n,) receive times [ns]."""

    values: Array
    """(n, k) values."""

    repeated: int
    """Number of messages rejected because they repeat the timestamp before."""


class SeriesBuilder:
    """Collector of the messages of one topic, each with `width` numbers."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._stamps = array("q")
        self._received = array("q")
        self._values = array("d")

    def __len__(self) -> int:
        return len(self._stamps)

    def add(self, message: Message, *numbers: float) -> None:
        """Keep a message's header timestamp and its numbers, as many as those of the others."""
        self._stamps.append(header_stamp_ns(message.content))
        self._received.append(message.received_ns)
        self._values.extend(numbers)

    def series(self) -> Series:
        """Series collected so far, at least one message; raises at the first fault: timestamps that
        are not set, go back or jump, numbers that are not finite."""
        stamps_ns = np.array(self._stamps, dtype=np.int64)
        received_ns = np.array(self._received, dtype=np.int64)
        values = np.array(self._values, dtype=np.float64).reshape(len(stamps_ns), -1)
        unset = int((stamps_ns == 0).sum())
        if unset:
            raise DatasetError(
                f"{self.source}: the header timestamps of {unset} of {len(stamps_ns)} messages "
                "are 0, needed the time of measurement; receive times are no replacement. Let the "
                "driver timestamp its messages and record again."
            )
        steps = np.diff(stamps_ns)
        if (steps < 0).any():
            at = int(np.argmax(steps < 0))
            raise DatasetError(
                f"{self.source}, message {at + 2}: header timestamp {stamps_ns[at + 1]} ns is "
                f"earlier than {stamps_ns[at]} ns of the message before, by {_length(-steps[at])} "
                f"({int((steps < 0).sum())} such places); timestamps must increase. If the clock "
                "was set while recording, cut the bag there; else sort the messages by header "
                "timestamp."
            )
        apart = np.abs(steps - np.diff(received_ns)) > CLOCK_JUMP_S * NS
        if apart.any():
            at = int(np.argmax(apart))
            raise DatasetError(
                f"{self.source}, message {at + 2}: the header timestamp jumps by "
                f"{_length(steps[at])} after {stamps_ns[at]} ns, while the messages were received "
                f"{_length(received_ns[at + 1] - received_ns[at])} apart: the clock was set while "
                f"recording. Steps may differ by {CLOCK_JUMP_S:.0f} s; cut the bag there."
            )
        require_short_enough(stamps_ns, self.source)
        # A comparison with NaN is false.
        bad = ~(np.abs(values) <= MAX_ABSOLUTE).all(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            raise DatasetError(
                f"{self.source}, message {row + 1}, timestamp {stamps_ns[row]} ns: holds "
                f"{values[row].tolist()} ({int(bad.sum())} of {len(values)} messages hold NaN, "
                f"infinity or more than {MAX_ABSOLUTE:g}); every number must be finite. Remove "
                "these messages or record again."
            )
        new = np.diff(stamps_ns, prepend=stamps_ns[:1] - 1) > 0
        return Series(stamps_ns[new], received_ns[new], values[new], int((~new).sum()))


def _length(step_ns: int) -> str:
    """Duration in a suitable unit."""
    seconds = float(step_ns) / NS
    return f"{seconds / 3600.0:.2f} h" if abs(seconds) >= 3600.0 else f"{seconds:.6g} s"


ANY_TOPICS = Topics()
"""Default: topics are found by message type."""


@dataclass(frozen=True)
class Scanned:
    """Contents of one pass over a bag."""

    topics: Topics
    series: dict[str, Series]
    """Series of each topic, by role."""

    rejected: dict[str, list[str]]
    """Faults of unusable images, by role of the camera."""

    def images(self, path: Path, rig: Rig) -> ImageRecording:
        """Images of both cameras, the left one first."""
        cameras = [self.series[role] for role in ("left", "right") if role in self.series]
        stamps_ns = tuple(series.stamps_ns for series in cameras)
        received_ns = tuple(series.received_ns for series in cameras)
        return ImageRecording(
            name=path.stem if path.is_file() else path.resolve().name,
            path=path,
            rig=rig,
            camera_stamps_ns=stamps_ns,
            bag=BagImages(bag_paths(path), self.topics.images, received_ns),
        )


def read_bag(path: Path, rig: Rig, topics: Topics = ANY_TOPICS) -> Recording:
    """Open a bag: a .bag, .mcap or .db3 file, a ROS 2 bag's folder, or a folder of consecutive .bag
    files. A bag has no calibration, so `rig` is required."""
    with Bag(bag_paths(path)) as bag:
        scanned = scan(bag, topics, rig)
        notes = _notes(bag, scanned)
    imu, warnings = _imu_samples(scanned, str(path))
    truth = scanned.series.get("truth")
    recording = scanned.images(path, rig).with_imu(
        imu,
        truths={} if truth is None else {scanned.topics.truth: _truth(truth, scanned, path)},
        notes=notes,
        warnings=(*warnings, *_skipped(scanned)),
    )
    _require_one_clock(imu, on_imu_clock(recording).camera_stamps_ns, str(path))
    return recording


def read_bag_images(path: Path, rig: Rig, topics: Topics = ANY_TOPICS) -> ImageRecording:
    """Open the images of a bag."""
    with Bag(bag_paths(path)) as bag:
        return scan(bag, topics, rig, with_imu=False).images(path, rig)


def scan(bag: Bag, asked: Topics, rig: Rig, with_imu: bool = True) -> Scanned:
    """Read all messages of the chosen topics in one pass."""
    calibrated = tuple(camera.topic for camera in rig.cameras)
    topics = find_topics(bag, asked, calibrated, with_imu)
    roles = {name: role for role, name in topics.roles().items()}
    builders = {role: SeriesBuilder(f"{bag.source}, {name}") for name, role in roles.items()}
    sizes = dict(zip(("left", "right"), (c.resolution for c in rig.cameras), strict=False))
    rejected: dict[str, list[str]] = {role: [] for role in ("left", "right") if role in builders}
    for message in bag.messages(list(roles)):
        role = roles[message.topic]
        builder = builders[role]
        if role not in rejected:
            builder.add(message, *_NUMBERS[role](message.content))
            continue
        fault = _image_fault(message, sizes.get(role), first=len(builder) == 0)
        if fault:
            number = len(builder) + len(rejected[role]) + 1
            rejected[role].append(f"{builder.source}, message {number}: {fault}")
        else:
            builder.add(message)
    for role, builder in builders.items():
        faults, topic = rejected.get(role, []), bag.topics[topics.roles()[role]]
        found = len(builder) + len(faults)
        if found < topic.count:  # a parser may skip damaged messages
            raise DatasetError(
                f"{bag.source}: {topic} has {found} readable messages, {topic.count - found} fewer "
                "than the bag states: it is damaged. Copy it again."
            )
        if len(faults) > len(builder):
            wrong_size = all("the calibration is for" in fault for fault in faults)
            error = CalibrationError if wrong_size else DatasetError
            raise error(f"{faults[0]} ({len(faults)} of {found} images.)")
        least = MIN_IMU_SAMPLES if role in ("imu", "gyro", "acc") else 1
        require_count(len(builder), least, builder.source)
    series = {role: builder.series() for role, builder in builders.items()}
    return Scanned(topics, series, rejected)


def _image_fault(message: Message, size: tuple[int, int] | None, first: bool) -> str:
    """Fault of an image; the first one is also decoded to check its encoding."""
    fault = message_fault(message.content, size)
    if first and not fault:
        try:
            grey_image(message.content, f"timestamp {header_stamp_ns(message.content)} ns")
        except ImageError as error:
            return str(error)
    return fault


def _xyz(vector: Any) -> tuple[float, ...]:
    return vector.x, vector.y, vector.z


def _pose(content: Any) -> tuple[float, ...]:
    """Position, quaternion (w x y z) and velocity in the body frame; zero if not stated."""
    if hasattr(content, "transform"):
        position, turn = content.transform.translation, content.transform.rotation
    else:
        pose = getattr(content.pose, "pose", content.pose)
        position, turn = pose.position, pose.orientation
    velocity = _xyz(content.twist.twist.linear) if hasattr(content, "twist") else (0.0, 0.0, 0.0)
    return (*_xyz(position), turn.w, *_xyz(turn), *velocity)


_NUMBERS: dict[str, Callable[[Any], tuple[float, ...]]] = {
    "imu": lambda content: (*_xyz(content.angular_velocity), *_xyz(content.linear_acceleration)),
    "gyro": lambda content: _xyz(content.angular_velocity),
    "acc": lambda content: _xyz(content.linear_acceleration),
    "truth": _pose,
}
"""Numbers that are kept of a message, by role of its topic."""


def _imu_samples(scanned: Scanned, source: str) -> tuple[ImuSamples, list[str]]:
    """Samples, and notes on what was rejected."""
    if scanned.topics.imu:
        imu = scanned.series["imu"]
        place = f"{source}, {scanned.topics.imu}"
        # Whole arrays, as a folder gives them: kernels are compiled anew for parts of one.
        rates, forces = imu.values[:, :3].copy(), imu.values[:, 3:].copy()
        return ImuSamples(imu.stamps_ns, rates, forces, place), []
    gyro, acc = scanned.series["gyro"], scanned.series["acc"]
    place = f"{source}, {scanned.topics.gyro} and {scanned.topics.acc}"
    samples = merge_imu(gyro, acc, place)
    lost = len(gyro.stamps_ns) - len(samples)
    said = f"{scanned.topics.gyro}: {lost} samples have no accelerometer sample on both sides"
    return samples, [said] if lost else []


def merge_imu(gyro: Series, acc: Series, source: str) -> ImuSamples:
    """Gyroscope samples with the accelerometer interpolated to their timestamps.

    Samples outside the accelerometer's time or inside one of its gaps are rejected, so that a gap
    stays one.
    """
    after = np.searchsorted(acc.stamps_ns, gyro.stamps_ns, side="left")
    inside = (gyro.stamps_ns >= acc.stamps_ns[0]) & (gyro.stamps_ns <= acc.stamps_ns[-1])
    for at in gaps(acc.stamps_ns):
        start_ns, end_ns = acc.stamps_ns[at], acc.stamps_ns[at + 1]
        inside &= ~((gyro.stamps_ns > start_ns) & (gyro.stamps_ns < end_ns))
    stamps_ns, after = gyro.stamps_ns[inside], after[inside]
    require_count(len(stamps_ns), MIN_IMU_SAMPLES, f"{source}, where both are there")
    before = np.maximum(after - 1, 0)
    step = np.maximum(acc.stamps_ns[after] - acc.stamps_ns[before], 1)
    # Integers to the last: seconds since 1970 in float64 resolve 240 ns only.
    share = ((stamps_ns - acc.stamps_ns[before]) / step)[:, None]
    forces = (1.0 - share) * acc.values[before] + share * acc.values[after]
    exact = acc.stamps_ns[after] == stamps_ns
    forces[exact] = acc.values[after[exact]]
    return ImuSamples(stamps_ns, gyro.values[inside], forces, source)


def _truth(truth: Series, scanned: Scanned, path: Path) -> GroundTruth:
    source = f"{path}, {scanned.topics.truth}"
    require_count(len(truth.stamps_ns), 2, source)
    norms = np.linalg.norm(truth.values[:, 3:7], axis=1)
    require_unit_quaternions(
        norms, lambda row: f"{source}, timestamp {truth.stamps_ns[row]} ns", "Record them again."
    )
    R_w_b = rotations_from_quat_wxyz(truth.values[:, 3:7])
    poses = GroundTruth.of_poses(truth.stamps_ns, stack_poses(R_w_b, truth.values[:, :3]), source)
    # Odometry states velocity in its child frame, the body.
    v_b = truth.values[:, 7:10]
    return replace(poses, v_w=np.einsum("kij,kj->ki", R_w_b, v_b)) if v_b.any() else poses


def _require_one_clock(imu: ImuSamples, cameras_ns: tuple[Stamps, ...], source: str) -> None:
    """Raise if a camera and the IMU do not overlap in time."""
    for number, stamps_ns in enumerate(cameras_ns):
        start_ns = max(int(stamps_ns[0]), int(imu.stamps_ns[0]))
        end_ns = min(int(stamps_ns[-1]), int(imu.stamps_ns[-1]))
        if start_ns > end_ns:
            apart_s = (start_ns - end_ns) / NS
            raise DatasetError(
                f"{source}: header timestamps of camera {number} cover "
                f"{stamps_ns[0]}..{stamps_ns[-1]} ns, those of the IMU "
                f"{imu.stamps_ns[0]}..{imu.stamps_ns[-1]} ns: apart by {apart_s:.3f} s "
                f"({apart_s / 3600.0:.2f} h). Both must be on one clock."
            )


def _notes(bag: Bag, scanned: Scanned) -> tuple[str, ...]:
    """Note that lists the topic of each role."""
    found = []
    for role, name in scanned.topics.roles().items():
        series = scanned.series[role]
        delay_s = float(np.median(series.received_ns - series.stamps_ns)) / NS
        found.append(
            f"{role} is {bag.topics[name]}; timestamps from the headers, received {delay_s:.3f} s "
            "later"
        )
    if scanned.topics.gyro:
        found.append(
            "the accelerometer is interpolated to the gyroscope's timestamps, across steps of at "
            f"most {GAP_PERIODS:.0f} periods"
        )
    return tuple(found)


def _skipped(scanned: Scanned) -> list[str]:
    """Messages that were not used, with reasons."""
    repeated = [
        f"{role}: {series.repeated} messages repeat the timestamp before and are rejected"
        for role, series in scanned.series.items()
        if series.repeated
    ]
    return repeated + [
        f"{role}: {len(faults)} images cannot be used and are rejected; the first is {faults[0]}"
        for role, faults in scanned.rejected.items()
        if faults
    ]
