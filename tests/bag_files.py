"""Small bags for tests: ROS 1, ROS 2 (sqlite3) and MCAP, written by rosbags."""

from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_typestore
from scipy.spatial.transform import Rotation

from maci2.sensors import GroundTruth, Recording
from maci2.types import NS

FORMATS = ("ros1", "sqlite3", "mcap")
DELAY_NS = 3_000_000
"""Receive time minus header timestamp: a reader that takes receive times fails every comparison."""

IMU = "sensor_msgs/msg/Imu"
IMAGE = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
POSE = "geometry_msgs/msg/PoseStamped"
TRANSFORM = "geometry_msgs/msg/TransformStamped"
ODOMETRY = "nav_msgs/msg/Odometry"


@dataclass(frozen=True)
class Item:
    """A message to be written."""

    topic: str
    stamp_ns: int
    content: Any
    received_ns: int | None = None

    @property
    def at_ns(self) -> int:
        return self.stamp_ns + DELAY_NS if self.received_ns is None else self.received_ns


class BagFile:
    """Writes messages of one format and knows how to make them."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
        self.ros1 = kind == "ros1"
        self.store = get_typestore(Stores.ROS1_NOETIC if self.ros1 else Stores.ROS2_HUMBLE)
        if self.ros1:
            self.writer: Any = Writer1(path)
        else:
            plugin = StoragePlugin.MCAP if kind == "mcap" else StoragePlugin.SQLITE3
            self.writer = Writer2(path, version=9, storage_plugin=plugin)
        self.connections: dict[str, Any] = {}

    def write(self, item: Item) -> None:
        name = item.content.__msgtype__
        if item.topic not in self.connections:
            self.connections[item.topic] = self.writer.add_connection(
                item.topic, name, typestore=self.store
            )
        serialize = self.store.serialize_ros1 if self.ros1 else self.store.serialize_cdr
        self.writer.write(self.connections[item.topic], item.at_ns, serialize(item.content, name))

    def header(self, stamp_ns: int) -> Any:
        time = self.store.types["builtin_interfaces/msg/Time"]
        stamp = time(sec=stamp_ns // NS, nanosec=stamp_ns % NS)
        extra = {"seq": 0} if self.ros1 else {}
        return self.store.types["std_msgs/msg/Header"](stamp=stamp, frame_id="body", **extra)

    def vector(self, values: Iterable[float]) -> Any:
        x, y, z = (float(value) for value in values)
        return self.store.types["geometry_msgs/msg/Vector3"](x=x, y=y, z=z)

    def imu(self, topic, stamp_ns, gyro=(0, 0, 0), acc=(0, 0, 0), **when) -> Item:
        quaternion = self.store.types["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=0.0, w=1.0)
        content = self.store.types[IMU](
            header=self.header(int(stamp_ns)),
            orientation=quaternion,
            orientation_covariance=np.array([-1.0] + 8 * [0.0]),
            angular_velocity=self.vector(gyro),
            angular_velocity_covariance=np.zeros(9),
            linear_acceleration=self.vector(acc),
            linear_acceleration_covariance=np.zeros(9),
        )
        return Item(topic, int(stamp_ns), content, **when)

    def image(self, topic, stamp_ns, pixels, encoding="mono8", padding=0, bigendian=0) -> Item:
        """`padding` bytes follow each row."""
        height, width = pixels.shape[:2]
        rows = np.ascontiguousarray(pixels).view(np.uint8).reshape(height, -1)
        rows = np.pad(rows, ((0, 0), (0, padding)))
        content = self.store.types[IMAGE](
            header=self.header(int(stamp_ns)),
            height=height,
            width=width,
            encoding=encoding,
            is_bigendian=bigendian,
            step=rows.shape[1],
            data=rows.reshape(-1),
        )
        return Item(topic, int(stamp_ns), content)

    def compressed(self, topic, stamp_ns, data: bytes, form="jpeg") -> Item:
        content = self.store.types[COMPRESSED](
            header=self.header(int(stamp_ns)), format=form, data=np.frombuffer(data, np.uint8)
        )
        return Item(topic, int(stamp_ns), content)

    def pose(self, topic, stamp_ns, p, quat_wxyz, kind=POSE, v_b=(0, 0, 0)) -> Item:
        types, header = self.store.types, self.header(int(stamp_ns))
        w, x, y, z = (float(value) for value in quat_wxyz)
        turn = types["geometry_msgs/msg/Quaternion"](x=x, y=y, z=z, w=w)
        if kind == TRANSFORM:
            transform = types["geometry_msgs/msg/Transform"](
                translation=self.vector(p), rotation=turn
            )
            content = types[TRANSFORM](header=header, child_frame_id="imu", transform=transform)
            return Item(topic, int(stamp_ns), content)
        px, py, pz = (float(value) for value in p)
        point = types["geometry_msgs/msg/Point"](x=px, y=py, z=pz)
        pose = types["geometry_msgs/msg/Pose"](position=point, orientation=turn)
        if kind == POSE:
            return Item(topic, int(stamp_ns), types[POSE](header=header, pose=pose))
        twist = types["geometry_msgs/msg/Twist"](
            linear=self.vector(v_b), angular=self.vector((0, 0, 0))
        )
        content = types[ODOMETRY](
            header=header,
            child_frame_id="imu",
            pose=types["geometry_msgs/msg/PoseWithCovariance"](pose=pose, covariance=np.zeros(36)),
            twist=types["geometry_msgs/msg/TwistWithCovariance"](
                twist=twist, covariance=np.zeros(36)
            ),
        )
        return Item(topic, int(stamp_ns), content)


@contextmanager
def writing(path: Path, kind: str, compression: tuple[Any, ...] = ()):
    """A bag to write into; it is complete when the block ends."""
    bag = BagFile(path, kind)
    if compression:
        bag.writer.set_compression(*compression)
    with bag.writer:
        yield bag


def write_items(path: Path, kind: str, make, compression: tuple[Any, ...] = ()) -> Path:
    """A bag of the items that `make(bag)` yields, in the order of receive time."""
    with writing(path, kind, compression) as bag:
        for item in sorted(make(bag), key=lambda item: item.at_ns):
            bag.write(item)
    return path


def bag_name(name: str, kind: str) -> str:
    """A ROS 1 bag is a file, a ROS 2 bag a folder."""
    return f"{name}.bag" if kind == "ros1" else name


def recording_items(bag: BagFile, recording: Recording, pixels=None, truth="", kind=POSE):
    """Everything of a recording: IMU on /imu0, images on /cam0/image_raw and /cam1/image_raw.

    `pixels(camera, stamp_ns)` draws an image; without it there are none.
    """
    imu = recording.imu
    for stamp_ns, gyro, acc in zip(imu.stamps_ns, imu.gyro, imu.acc, strict=True):
        yield bag.imu("/imu0", stamp_ns, gyro, acc)
    if pixels is not None:
        for camera, stamps_ns in enumerate(recording.camera_stamps_ns):
            for stamp_ns in stamps_ns:
                image = pixels(camera, int(stamp_ns))
                yield bag.image(f"/cam{camera}/image_raw", stamp_ns, image)
    if truth:
        yield from truth_items(bag, recording.truth(), truth, kind)


def truth_items(bag: BagFile, truth: GroundTruth, topic: str, kind=POSE):
    quats = Rotation.from_matrix(truth.Ts_w_b[:, :3, :3]).as_quat()[:, [3, 0, 1, 2]]
    v_b = np.einsum("kji,kj->ki", truth.Ts_w_b[:, :3, :3], truth.v_w)
    for at, stamp_ns in enumerate(truth.stamps_ns):
        yield bag.pose(topic, stamp_ns, truth.Ts_w_b[at, :3, 3], quats[at], kind, v_b[at])
