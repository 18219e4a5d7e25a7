"""Bags that cannot be used say why: which file, which topic, which message, and what to do."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bag_files import FORMATS, bag_name, recording_items, write_items
from helpers import resized
from maci2.datasets import open_recording
from maci2.datasets.bag_recording import read_bag
from maci2.datasets.bags import BoundedPath, Topics, parse_topics
from maci2.datasets.frames import stereo_frames
from maci2.errors import CalibrationError, DatasetError, Maci2Error
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS

HOUR_NS = 3600 * NS


def grey(camera, stamp_ns):
    return np.full((32, 48), 7, dtype=np.uint8)


@pytest.fixture(scope="module")
def recording():
    made = simulate(SimulationConfig(duration_s=1.0, seed=4))
    cameras = tuple(resized(camera, (48, 32)) for camera in made.rig.cameras)
    return replace(made, rig=replace(made.rig, cameras=cameras))


def written(tmp_path, make, kind="ros1") -> Path:
    return write_items(tmp_path / bag_name("bad", kind), kind, make)


def message_of(path, rig, topics=""):
    with pytest.raises(Maci2Error) as raised:
        read_bag(path, rig, parse_topics(topics) if topics else Topics())
    assert str(path) in str(raised.value)
    return str(raised.value)


def data_file(path: Path) -> Path:
    return path if path.is_file() else next(f for f in path.iterdir() if f.suffix != ".yaml")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.7, 0.99])
def test_a_truncated_bag_is_named_with_a_way_to_repair_it(kind, share, recording, tmp_path):
    path = written(tmp_path, lambda bag: recording_items(bag, recording, grey), kind)
    file = data_file(path)
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    message = message_of(path, recording.rig)
    assert "cannot be read as a bag, it is damaged or cut short" in message
    assert "Copy it again" in message
    tools = {"ros1": "rosbag reindex", "mcap": "mcap recover", "sqlite3": "sqlite3 FILE .recover"}
    assert f"or repair it with `{tools[kind]}`." in message


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_bytes_give_an_error_or_the_same_samples_never_fewer(kind, recording, tmp_path):
    path = written(tmp_path, lambda bag: recording_items(bag, recording), kind)
    file = data_file(path)
    content = file.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for start in rng.integers(0, len(content) - 400, 20):
        damaged = bytearray(content)
        damaged[start : start + 400] = rng.bytes(400)
        file.write_bytes(damaged)
        try:
            read = read_bag(path, recording.rig)
        except Maci2Error:
            refused += 1
        else:
            np.testing.assert_array_equal(read.imu.gyro, recording.imu.gyro)
            np.testing.assert_array_equal(read.imu.stamps_ns, recording.imu.stamps_ns)
    # 400 bytes hit part of a message wherever they fall, except in free space and in definitions.
    assert refused > 10


def test_a_file_that_is_no_bag_is_refused(recording, tmp_path):
    path = tmp_path / "notes.bag"
    path.write_text("these are notes\n" * 100)
    assert "File magic is invalid" in message_of(path, recording.rig)
    with pytest.raises(DatasetError, match=r"a file of an unknown kind; needed .*\.mcap"):
        open_recording(Path(path.rename(tmp_path / "notes.txt")))


def test_a_ros2_bag_without_its_data_file_is_refused(recording, tmp_path):
    path = written(tmp_path, lambda bag: recording_items(bag, recording), "mcap")
    data_file(path).unlink()
    assert "files are missing" in message_of(path, recording.rig)


def test_a_bag_that_is_gone_or_replaced_before_its_images_are_read_is_named(recording, tmp_path):
    path = written(tmp_path, lambda bag: recording_items(bag, recording, grey))
    frames = stereo_frames(read_bag(path, recording.rig))
    path.unlink()
    with pytest.raises(DatasetError, match=r"bad.bag: cannot be read as a bag"):
        frames.pair(0)
    written(tmp_path, lambda bag: recording_items(bag, recording))
    with pytest.raises(DatasetError, match="the image no longer exists; the bag has changed"):
        frames.pair(0)
    frames.close()


def test_a_missing_topic_lists_what_exists(recording, tmp_path):
    path = written(tmp_path, lambda bag: recording_items(bag, recording, grey))
    message = message_of(path, recording.rig, "imu=/imu")
    assert "no topic /imu for imu; it holds" in message
    assert "/imu0 (sensor_msgs/msg/Imu, 201 messages)" in message
    assert "/cam1/image_raw (sensor_msgs/msg/Image, 20 messages)" in message


def test_a_topic_of_the_wrong_type_is_refused_with_the_right_one(recording, tmp_path):
    path = written(tmp_path, lambda bag: recording_items(bag, recording, grey, truth="/pose"))
    message = message_of(path, recording.rig, "imu=/cam0/image_raw")
    assert "topic /cam0/image_raw is of type sensor_msgs/msg/Image, needed" in message
    assert "sensor_msgs/msg/Imu for imu" in message
    assert "for left" in message_of(path, recording.rig, "left=/pose,right=/cam1/image_raw")
    assert "Odometry for truth" in message_of(path, recording.rig, "truth=/imu0")


def test_a_bag_without_imu_lists_what_exists(recording, tmp_path):
    path = written(
        tmp_path, lambda bag: (bag.image("/cam0", ns, grey(0, 0)) for ns in (NS, 2 * NS))
    )
    message = message_of(path, recording.rig)
    assert "no topic of type sensor_msgs/msg/Imu" in message
    assert "/cam0 (sensor_msgs/msg/Image, 2 messages)" in message


def test_an_unknown_encoding_is_refused_with_the_known_ones(recording, tmp_path):
    def make(bag):
        yield from recording_items(bag, recording)
        for ns in recording.camera_stamps_ns[0]:
            yield bag.image("/cam0", ns, np.zeros((32, 48), np.float32), "32FC1")

    message = message_of(written(tmp_path, make), recording.rig)
    assert "/cam0, message 1: encoding '32FC1' is not known; known are mono8" in message
    assert "bayer_rggb8" in message


def test_images_of_another_size_than_the_calibration_are_refused_with_both_sizes(
    recording, tmp_path
):
    path = written(tmp_path, lambda bag: recording_items(bag, recording, grey))
    cameras = (recording.rig.cameras[0], replace(recording.rig.cameras[1], resolution=(96, 64)))
    with pytest.raises(CalibrationError) as raised:
        read_bag(path, replace(recording.rig, cameras=cameras))
    assert "/cam1/image_raw" in str(raised.value)
    assert "the image is 48x32, the calibration is for 96x64" in str(raised.value)


def shifted(recording, topic, first, shift_ns):
    """Items with the header timestamps of one topic moved from message `first` on; receive times
    stay."""

    def make(bag):
        count = 0
        for item in recording_items(bag, recording, grey):
            if item.topic != topic:
                yield item
                continue
            count += 1
            if count >= first:
                stamp = bag.header(item.stamp_ns + shift_ns)
                item = replace(item, content=replace(item.content, header=stamp))
            yield item

    return make


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("topic", ["/imu0", "/cam0/image_raw"])
def test_stamps_that_go_backwards_are_named(kind, topic, recording, tmp_path):
    make = shifted(recording, topic, first=11, shift_ns=-200_000_000)
    message = message_of(written(tmp_path, make, kind), recording.rig)
    assert f"{topic}, message 11: header timestamp" in message
    assert "is earlier than" in message
    assert "(1 such places)" in message


def test_a_clock_set_back_by_hours_is_named_in_hours(recording, tmp_path):
    make = shifted(recording, "/imu0", first=11, shift_ns=-2 * HOUR_NS)
    assert "by 2.00 h" in message_of(written(tmp_path, make), recording.rig)


@pytest.mark.parametrize("topic", ["/imu0", "/cam1/image_raw"])
def test_a_clock_set_forward_by_hours_is_named_in_hours(topic, recording, tmp_path):
    make = shifted(recording, topic, first=11, shift_ns=3 * HOUR_NS)
    message = message_of(written(tmp_path, make), recording.rig)
    assert f"{topic}, message 11: the header timestamp jumps by 3.00 h" in message
    assert "the clock was set while recording" in message


def test_a_pause_of_the_recording_is_no_clock_jump(recording, tmp_path):
    def make(bag):
        for item in recording_items(bag, recording):
            late = item.stamp_ns > recording.imu.stamps_ns[100]
            stamp_ns = item.stamp_ns + late * HOUR_NS
            yield replace(
                item,
                stamp_ns=stamp_ns,
                content=replace(item.content, header=bag.header(stamp_ns)),
            )

    read = read_bag(written(tmp_path, make), recording.rig)
    assert np.diff(read.imu.stamps_ns).max() > HOUR_NS


def test_cameras_on_another_clock_than_the_imu_are_refused(recording, tmp_path):
    make = shifted(recording, "/imu0", first=1, shift_ns=5 * HOUR_NS)
    message = message_of(written(tmp_path, make), recording.rig)
    assert "header timestamps of camera 0 cover" in message
    assert "(5.00 h). Both must be on one clock" in message


def test_headers_without_stamps_are_refused(recording, tmp_path):
    def make(bag):
        for item in recording_items(bag, recording):
            yield replace(item, content=replace(item.content, header=bag.header(0)))

    message = message_of(written(tmp_path, make), recording.rig)
    assert "the header timestamps of 201 of 201 messages are 0" in message


def test_nan_is_named_by_message(recording, tmp_path):
    def make(bag):
        items = list(recording_items(bag, recording))
        at_ns = items[40].stamp_ns
        items[40] = bag.imu("/imu0", at_ns, (np.nan, 0, 0), (0, 0, 9.81))
        return items

    message = message_of(written(tmp_path, make), recording.rig)
    assert "/imu0, message 41, timestamp" in message
    assert "1 of 201 messages hold NaN" in message


def test_a_repeated_message_is_left_out_and_said(recording, tmp_path):
    def make(bag):
        items = list(recording_items(bag, recording))
        return [*items, items[5], items[9]]

    read = read_bag(written(tmp_path, make), recording.rig)
    np.testing.assert_array_equal(read.imu.stamps_ns, recording.imu.stamps_ns)
    assert read.warnings == ("imu: 2 messages repeat the timestamp before and are rejected",)


def test_a_quaternion_that_is_none_is_refused(recording, tmp_path):
    def make(bag):
        yield from recording_items(bag, recording)
        for at, ns in enumerate(recording.imu.stamps_ns):
            yield bag.pose("/pose", ns, (0, 0, 0), (0 if at == 3 else 1, 0, 0, 0))

    message = message_of(written(tmp_path, make), recording.rig, "truth=/pose")
    assert f"timestamp {recording.imu.stamps_ns[3]} ns: quaternion norm is 0.0000" in message


def test_too_few_samples_are_counted(recording, tmp_path):
    path = written(tmp_path, lambda bag: [bag.imu("/imu0", NS + k, (1, 1, 1)) for k in range(4)])
    assert "found 4 samples, needed at least 10" in message_of(path, recording.rig)


def test_a_file_of_a_bag_never_gives_more_than_it_holds(tmp_path):
    (tmp_path / "a.bag").write_bytes(b"0123456789")
    path = BoundedPath(tmp_path) / "a.bag"
    with path.open("rb") as file:
        assert file.read(4) == b"0123"
        # Without the bound this asks for a terabyte.
        assert file.read(1 << 40) == b"456789"
        assert file.read(None) == b""
    assert path.read_text() == "0123456789"
