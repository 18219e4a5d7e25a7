"""ROS 1 and ROS 2 bags as streams of messages, and the topics of their sensors.

`rosbags` parses them; ROS is not needed. A damaged bag can make a parser fail in any way; whatever
it raises becomes one kind of error.
"""

import io
import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maci2.datasets.images import PAIRS
from maci2.errors import DatasetError, Maci2Error, NoImuError, OptionError
from maci2.types import NS

BAG_SUFFIXES = (".bag", ".mcap", ".db3")
METADATA = "metadata.yaml"
"""File that identifies a folder as a ROS 2 bag."""


def bag_paths(path: Path) -> tuple[Path, ...]:
    """Paths to open for `path`: the bag's file or folder, or all ROS 1 files of a folder; empty if
    it is not a bag."""
    if path.is_file():
        return (path,) if path.suffix in BAG_SUFFIXES else ()
    if (path / METADATA).is_file():
        return (path,)
    split = tuple(sorted(path.glob("*.bag")))
    single = tuple(sorted([*path.glob("*.mcap"), *path.glob("*.db3")]))
    return split or (single if len(single) == 1 else ())


class BoundedReader(io.BufferedReader):
    """File that never allocates more bytes than it contains, whatever a damaged header requests.

    Reading n bytes allocates n bytes first: four damaged bytes of a bag would ask for gigabytes.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "rb"))
        self._size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        """Read at most `size` bytes, and never allocate more than the file has."""
        return super().read(size if size is None else min(size, self._size))


class BoundedPath(type(Path())):  # type: ignore[misc]
    """Path whose files are opened as `BoundedReader`."""

    def open(self, mode: str = "r", *args: Any, **options: Any) -> Any:
        """Open as `Path.open` does, bounded when bytes are read."""
        return BoundedReader(self) if mode == "rb" else super().open(mode, *args, **options)


_REPAIRS = {
    ".bag": "`rosbag reindex`", ".mcap": "`mcap recover`", ".db3": "`sqlite3 FILE .recover`",
}  # fmt: skip


class Message(NamedTuple):
    """Message of a bag."""

    topic: str
    received_ns: int
    content: Any


@dataclass(frozen=True)
class Topic:
    """Topic of a bag, with its message type and count."""

    name: str
    kind: str
    """Message type, such as sensor_msgs/msg/Imu, for ROS 1 too."""

    count: int

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, {self.count} messages)"


class Bag(ExitStack):
    """Open bag: one ROS 2 bag, or ROS 1 files that belong together. Close it after use."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore

        super().__init__()
        self.paths = paths
        self.source = str(paths[0] if len(paths) == 1 else paths[0].parent)
        with self._reading():
            # ROS 2 bags before Jazzy do not carry definitions; these message types never changed.
            self._reader = AnyReader(
                [BoundedPath(path) for path in paths],
                default_typestore=get_typestore(Stores.ROS2_HUMBLE),
            )
            self.enter_context(self._reader)
            self.topics = {
                name: Topic(name, info.msgtype or "several types", info.msgcount)
                for name, info in self._reader.topics.items()
            }

    def messages(
        self, names: Collection[str], start_ns: int | None = None, stop_ns: int | None = None
    ) -> Iterator[Message]:
        """Messages of these topics in order of receive time, from start up to stop."""
        connections = [one for one in self._reader.connections if one.topic in names]
        if not connections:
            return
        stream = self._reader.messages(connections, start_ns, stop_ns)
        while True:
            with self._reading():
                found = next(stream, None)
                if found is None:
                    return
                connection, received_ns, data = found
                content = self._reader.deserialize(data, connection.msgtype)
            yield Message(connection.topic, received_ns, content)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except Maci2Error:
            raise
        except Exception as error:
            said = (str(error) or type(error).__name__).rstrip(". ")
            files = [file for path in self.paths for file in (path, *path.glob("*"))]
            tools = {_REPAIRS[file.suffix] for file in files if file.suffix in _REPAIRS}
            repair = f", or repair it with {' or '.join(sorted(tools))}" if tools else ""
            raise DatasetError(
                f"{self.source}: cannot be read as a bag, it is damaged or cut short: {said}. Copy "
                f"it again{repair}."
            ) from error


def header_stamp_ns(content: Any) -> int:
    """Time of measurement as stated by the driver."""
    stamp = content.header.stamp
    return int(stamp.sec) * NS + int(stamp.nanosec)


IMU = "sensor_msgs/msg/Imu"
IMAGES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
POSES = (
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PoseWithCovarianceStamped",
    "geometry_msgs/msg/TransformStamped",
    "nav_msgs/msg/Odometry",
)
KINDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("imu", "gyro", "acc"), (IMU,)),
    **dict.fromkeys(("left", "right"), IMAGES),
    "truth": POSES,
}
"""Message types of each role."""

PEEK = 20
"""Number of messages read to find out what an IMU topic contains."""


@dataclass(frozen=True)
class Topics:
    """Topic of each role; empty where there is none."""

    imu: str = ""
    """Gyroscope and accelerometer together."""

    gyro: str = ""
    acc: str = ""
    """Separate topics of gyroscope and accelerometer."""

    left: str = ""
    right: str = ""
    truth: str = ""
    """Poses of the IMU in a world with z up; never guessed."""

    def roles(self) -> dict[str, str]:
        """Roles with a topic."""
        return {role: topic for role, topic in asdict(self).items() if topic}

    @property
    def images(self) -> tuple[str, ...]:
        """Image topics, left first."""
        return tuple(topic for topic in (self.left, self.right) if topic)


def parse_topics(text: str) -> Topics:
    """Parse `imu=/imu0,left=/cam0/image_raw,right=/cam1/image_raw`."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        role, _, topic = (word.strip() for word in part.partition("="))
        if role not in KINDS or not topic:
            raise OptionError(
                f"--topics has '{part}', needed ROLE=/topic with commas between; roles are "
                f"{', '.join(KINDS)}."
            )
        if role in found:
            raise OptionError(f"--topics names {role} twice; name it once.")
        found[role] = topic
    if bool(found.get("gyro")) != bool(found.get("acc")) or ("imu" in found and "gyro" in found):
        raise OptionError(
            "--topics needs imu=/topic, or gyro=/topic and acc=/topic where they come apart."
        )
    if "right" in found and "left" not in found:
        raise OptionError("--topics names right without left; name both.")
    return Topics(**found)


def find_topics(
    bag: Bag, asked: Topics, calibrated: tuple[str, ...] = (), with_imu: bool = True
) -> Topics:
    """Topics to read: those requested, then those named by the calibration, then those found by
    type.

    `calibrated` are the topics that the calibration gives its cameras. Without IMU, only images.
    """
    if not with_imu:
        asked = Topics(left=asked.left, right=asked.right)
    for role, name in asked.roles().items():
        _require(bag, role, name)
    found = asked
    if with_imu and not (asked.imu or asked.gyro):
        found = _find_imu(bag, found)
    if not asked.left:
        found = _find_images(bag, found, calibrated)
    return found


def listing(bag: Bag) -> str:
    """All topics of the bag, for messages."""
    return ", ".join(str(topic) for topic in bag.topics.values()) or "nothing"


def _require(bag: Bag, role: str, name: str) -> None:
    topic = bag.topics.get(name)
    if topic is None:
        raise DatasetError(f"{bag.source}: no topic {name} for {role}; it holds {listing(bag)}.")
    if topic.kind not in KINDS[role]:
        raise DatasetError(
            f"{bag.source}: topic {name} is of type {topic.kind}, needed "
            f"{' or '.join(KINDS[role])} for {role}; it holds {listing(bag)}."
        )


def _of_kinds(bag: Bag, kinds: tuple[str, ...]) -> list[Topic]:
    return [topic for topic in bag.topics.values() if topic.kind in kinds and topic.count]


def _find_imu(bag: Bag, found: Topics) -> Topics:
    """The only IMU topic, otherwise one topic with the gyroscope and one with the accelerometer."""
    names = [topic.name for topic in _of_kinds(bag, (IMU,))]
    if len(names) == 1:
        return replace(found, imu=names[0])
    if not names:
        raise NoImuError(
            f"{bag.source}: no topic of type {IMU}, so there are no IMU samples; it holds "
            f"{listing(bag)}."
        )
    holds = {name: _imu_content(bag, name) for name in names}
    whole = [name for name in names if holds[name] == (True, True)]
    gyro = [name for name in names if holds[name] == (True, False)]
    acc = [name for name in names if holds[name] == (False, True)]
    if len(whole) == 1:
        return replace(found, imu=whole[0])
    if not whole and not (len(gyro) == 1 and len(acc) == 1):
        # A device at rest may say zeros: RealSense's drivers name the two.
        gyro = [name for name in names if "gyro" in name.lower()]
        acc = [name for name in names if "accel" in name.lower()]
    if not whole and len(gyro) == 1 and len(acc) == 1:
        return replace(found, gyro=gyro[0], acc=acc[0])
    raise DatasetError(
        f"{bag.source}: {len(names)} topics of type {IMU}, {len(whole)} of them with gyroscope and "
        f"accelerometer, needed one; it holds {listing(bag)}. Choose with --topics imu=/topic, or "
        "gyro=/topic,acc=/topic."
    )


def _imu_content(bag: Bag, name: str) -> tuple[bool, bool]:
    """Presence of angular rates and of specific forces in the topic's first messages."""
    heads = [message.content for message in islice(bag.messages([name]), PEEK)]
    gyro = [_is_measured(m.angular_velocity, m.angular_velocity_covariance) for m in heads]
    acc = [_is_measured(m.linear_acceleration, m.linear_acceleration_covariance) for m in heads]
    return any(gyro), any(acc)


def _is_measured(vector: Any, covariance: Any) -> bool:
    """True for a quantity that is measured: ROS marks missing ones by a covariance that begins with
    -1; many drivers leave zeros."""
    values = np.array([vector.x, vector.y, vector.z])
    return bool(covariance[0] != -1.0 and np.isfinite(values).all() and values.any())


def _with_word(names: list[str], word: str) -> list[str]:
    """Image topic of one camera; the raw one is preferred, since calibrations are made for it."""
    found = [name for name in names if word in name.lower()]
    raw = [name for name in found if name.removesuffix("/compressed").endswith("image_raw")]
    return raw if len(raw) == 1 else found


def _find_images(bag: Bag, found: Topics, calibrated: tuple[str, ...]) -> Topics:
    """Topics of no camera, one camera or a stereo pair."""
    names = [topic.name for topic in _of_kinds(bag, IMAGES)]
    if len(calibrated) >= 1 and all(name in names for name in calibrated[:2]) and calibrated[0]:
        return replace(found, left=calibrated[0], right=(*calibrated, "")[1])
    names = [name for name in names if "depth" not in name.lower()]
    # image_transport writes a compressed copy beside the image itself.
    names = [name for name in names if name.removesuffix("/compressed") not in set(names) - {name}]
    if len(names) < 2:
        return replace(found, left=names[0] if names else "")
    for left, right in PAIRS:
        lefts, rights = _with_word(names, left), _with_word(names, right)
        if len(lefts) == len(rights) == 1:
            return replace(found, left=lefts[0], right=rights[0])
    raise DatasetError(
        f"{bag.source}: {len(names)} image topics whose names do not distinguish left from right: "
        f"{', '.join(names)}. Choose with --topics left=/topic,right=/topic."
    )
