"""Write a recording as a ROS 1 bag, as a driver would have recorded it; no ROS needed.

    python examples/make_bag.py FOLDER FILE.bag

Topics are /imu0, /cam0/image_raw and /cam1/image_raw. A bag carries no calibration: `maci2 convert
FOLDER DIR --to kalibr` writes it as files.
"""

import sys
from pathlib import Path

import numpy as np
from rosbags.rosbag1 import Writer
from rosbags.typesys import Stores, get_typestore

from maci2 import open_recording
from maci2.types import NS
from maci2.datasets.frames import stereo_frames

STORE = get_typestore(Stores.ROS1_NOETIC)
TYPES = STORE.types
IMU, IMAGE = "sensor_msgs/msg/Imu", "sensor_msgs/msg/Image"
IMAGE_TOPICS = ("/cam0/image_raw", "/cam1/image_raw")


def header(stamp_ns):
    stamp = TYPES["builtin_interfaces/msg/Time"](sec=stamp_ns // NS, nanosec=stamp_ns % NS)
    return TYPES["std_msgs/msg/Header"](seq=0, stamp=stamp, frame_id="")


def imu_message(stamp_ns, gyro, acc):
    vector, unknown = TYPES["geometry_msgs/msg/Vector3"], np.zeros(9)
    return TYPES[IMU](
        header=header(stamp_ns),
        orientation=TYPES["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=0.0, w=1.0),
        orientation_covariance=np.array([-1.0] + 8 * [0.0]),  # -1: there is no orientation
        angular_velocity=vector(*(float(value) for value in gyro)),
        angular_velocity_covariance=unknown,
        linear_acceleration=vector(*(float(value) for value in acc)),
        linear_acceleration_covariance=unknown,
    )


def image_message(stamp_ns, image):
    height, width = image.shape
    return TYPES[IMAGE](
        header=header(stamp_ns),
        height=height,
        width=width,
        encoding="mono8",
        is_bigendian=0,
        step=width,
        data=np.ascontiguousarray(image).reshape(-1),
    )


def messages(recording):
    """(stamp, topic, message), in the order of stamps."""
    frames, imu = stereo_frames(recording), recording.imu
    events = [(int(stamp), "imu", i) for i, stamp in enumerate(imu.stamps_ns)]
    events += [(int(stamp), "stereo", i) for i, stamp in enumerate(frames.stamps_ns)]
    for stamp_ns, kind, index in sorted(events):
        if kind == "imu":
            yield stamp_ns, "/imu0", imu_message(stamp_ns, imu.gyro[index], imu.acc[index])
            continue
        pair = frames.pair(index)
        for topic, image in zip(IMAGE_TOPICS, (pair.left, pair.right), strict=True):
            yield stamp_ns, topic, image_message(stamp_ns, image)


def main(folder: Path, bag: Path) -> None:
    with Writer(bag) as writer:
        topics = {
            topic: writer.add_connection(topic, kind, typestore=STORE)
            for topic, kind in {"/imu0": IMU, **dict.fromkeys(IMAGE_TOPICS, IMAGE)}.items()
        }
        for stamp_ns, topic, message in messages(open_recording(folder)):
            data = STORE.serialize_ros1(message, message.__msgtype__)
            writer.write(topics[topic], stamp_ns, data)
    print(f"wrote {bag}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
