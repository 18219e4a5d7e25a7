"""Bags give what was put into them: by header timestamps, whatever the format."""

from dataclasses import replace

import numpy as np
import pytest
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode

from bag_files import FORMATS, ODOMETRY, POSE, TRANSFORM, bag_name, recording_items, write_items
from helpers import resized
from maci2.datasets import open_recording
from maci2.datasets.bag_recording import Series, merge_imu, read_bag
from maci2.datasets.bags import Bag, Topics, parse_topics
from maci2.datasets.frames import stereo_frames
from maci2.errors import CalibrationError, DatasetError, OptionError
from maci2.rigs import write_camchain, write_imu_yaml
from maci2.simulation import SimulationConfig, simulate

SIZE = (48, 32)


def rendered(camera, stamp_ns):
    """An image that tells its camera and timestamp."""
    return np.full(SIZE[::-1], (stamp_ns // 1_000_000 + 100 * camera) % 251, dtype=np.uint8)


@pytest.fixture(scope="module")
def recording():
    made = simulate(SimulationConfig(duration_s=2.0, seed=4))
    cameras = tuple(resized(camera, SIZE) for camera in made.rig.cameras)
    return replace(made, rig=replace(made.rig, cameras=cameras))


@pytest.fixture(scope="module", params=FORMATS)
def bag(request, recording, tmp_path_factory):
    kind = request.param
    path = tmp_path_factory.mktemp(kind) / bag_name("walk", kind)
    return write_items(
        path, kind, lambda bag: recording_items(bag, recording, rendered, truth="/vicon")
    )


def test_a_bag_gives_back_imu_stamps_and_poses_to_the_last_bit(bag, recording):
    read = read_bag(bag, recording.rig, Topics(truth="/vicon"))
    assert read.name == "walk"
    np.testing.assert_array_equal(read.imu.stamps_ns, recording.imu.stamps_ns)
    np.testing.assert_array_equal(read.imu.gyro, recording.imu.gyro)
    np.testing.assert_array_equal(read.imu.acc, recording.imu.acc)
    for camera in (0, 1):
        stamps_ns = recording.camera_stamps_ns[camera]
        np.testing.assert_array_equal(read.camera_stamps_ns[camera], stamps_ns)
    truth, expected = read.truths["/vicon"], recording.truth()
    np.testing.assert_array_equal(truth.stamps_ns, expected.stamps_ns)
    np.testing.assert_array_equal(truth.Ts_w_b[:, :3, 3], expected.Ts_w_b[:, :3, 3])
    np.testing.assert_allclose(truth.Ts_w_b, expected.Ts_w_b, atol=1e-14)
    assert np.isnan(truth.v_w).all()


def test_the_recording_says_what_was_taken_for_what_and_by_which_stamps(bag, recording):
    read = read_bag(bag, recording.rig)
    assert read.notes[0] == (
        "imu is /imu0 (sensor_msgs/msg/Imu, 401 messages); timestamps from the headers, received "
        "0.003 s later"
    )
    assert [note.split()[2] for note in read.notes] == [
        "/imu0", "/cam0/image_raw", "/cam1/image_raw",
    ]  # fmt: skip
    assert read.truths == {}
    assert read.warnings == ()


def test_stereo_pairs_come_in_order_and_at_random_with_their_own_images(bag, recording):
    frames = stereo_frames(read_bag(bag, recording.rig))
    stamps_ns = recording.camera_stamps_ns[0]
    np.testing.assert_array_equal([pair.stamp_ns for pair in frames], stamps_ns)
    for index in (17, 3, 39, 0):
        pair = frames.pair(index)
        np.testing.assert_array_equal(pair.left, rendered(0, pair.stamp_ns))
        np.testing.assert_array_equal(pair.right, rendered(1, pair.stamp_ns))
        assert frames.index_of(pair.stamp_ns) == index
    with pytest.raises(DatasetError, match=f"no stereo pair at {stamps_ns[5] + 1} ns"):
        frames.index_of(int(stamps_ns[5]) + 1)
    frames.close()
    np.testing.assert_array_equal(frames.left(1), rendered(0, int(stamps_ns[1])))
    frames.close()


def test_going_forward_reads_the_bag_once_and_going_back_looks_up(bag, recording, monkeypatch):
    looked_up = []
    messages = Bag.messages

    def counted(self, names, *when):
        looked_up.append(names)
        return messages(self, names, *when)

    frames = stereo_frames(read_bag(bag, recording.rig))
    monkeypatch.setattr(Bag, "messages", counted)
    for index in range(len(frames)):
        # As odometry does: every left image, some right ones.
        frames.pair(index) if index % 5 == 0 else frames.left(index)
    assert len(looked_up) == 2
    for index in (4, 4, 30):
        pair = frames.pair(index)
        np.testing.assert_array_equal(pair.left, rendered(0, pair.stamp_ns))
        np.testing.assert_array_equal(pair.right, rendered(1, pair.stamp_ns))
    assert len(looked_up) == 8
    frames.close()


def test_the_reader_is_chosen_by_looking_and_needs_a_rig(bag, recording, tmp_path):
    with pytest.raises(CalibrationError, match="a bag contains no calibration; name it with --rig"):
        open_recording(bag)
    write_camchain(tmp_path / "camchain-imucam.yaml", recording.rig)
    write_imu_yaml(tmp_path / "imu.yaml", recording.rig.imu)
    read = open_recording(bag, tmp_path / "camchain-imucam.yaml")
    np.testing.assert_array_equal(read.imu.acc, recording.imu.acc)
    assert read.rig.cameras[0].rate_hz == pytest.approx(20.0)
    if bag.is_dir():
        file = next(file for file in bag.iterdir() if file.suffix in (".db3", ".mcap"))
        np.testing.assert_array_equal(open_recording(file, tmp_path).imu.acc, recording.imu.acc)


@pytest.mark.parametrize("kind", [POSE, TRANSFORM, ODOMETRY])
def test_truth_may_be_any_stamped_pose_and_odometry_brings_velocity(kind, recording, tmp_path):
    path = tmp_path / "walk.bag"
    write_items(path, "ros1", lambda bag: recording_items(bag, recording, None, "/odom", kind))
    truth = read_bag(path, recording.rig, Topics(truth="/odom")).truths["/odom"]
    np.testing.assert_allclose(truth.Ts_w_b, recording.truth().Ts_w_b, atol=1e-14)
    if kind == ODOMETRY:
        # Written in the body frame, as the message demands.
        np.testing.assert_allclose(truth.v_w, recording.truth().v_w, atol=1e-14)
    else:
        assert np.isnan(truth.v_w).all()


@pytest.mark.parametrize("kind", FORMATS)
def test_gyroscope_and_accelerometer_on_their_own_topics_are_joined(kind, recording, tmp_path):
    imu = recording.imu

    def apart(bag):
        for at in range(len(imu)):
            yield bag.imu("/camera/gyro/sample", imu.stamps_ns[at], gyro=imu.gyro[at])
            if at % 4 == 0:
                # Between two gyroscope samples, and known to be linear in time.
                acc = (0.001 * at, 2.0, 9.81 - 0.002 * at)
                stamp_ns = imu.stamps_ns[at] + 2_500_000
                yield bag.imu("/camera/accel/sample", stamp_ns, acc=acc)

    path = write_items(tmp_path / bag_name("apart", kind), kind, apart)
    read = read_bag(path, recording.rig)
    assert read.notes[0].startswith("gyro is /camera/gyro/sample")
    assert read.notes[1].startswith("acc is /camera/accel/sample")
    # The first accelerometer sample comes half a period after the first gyroscope sample.
    np.testing.assert_array_equal(read.imu.stamps_ns, imu.stamps_ns[1:])
    np.testing.assert_array_equal(read.imu.gyro, imu.gyro[1:])
    at = np.arange(1, len(imu)) - 0.5
    expected = np.stack([0.001 * at, np.full(len(at), 2.0), 9.81 - 0.002 * at], axis=1)
    np.testing.assert_allclose(read.imu.acc, expected, atol=1e-13)
    assert read.warnings == (
        "/camera/gyro/sample: 1 samples have no accelerometer sample on both sides",
    )


def test_a_gap_of_the_accelerometer_stays_a_gap():
    step = 5_000_000
    gyro_ns = np.arange(100, dtype=np.int64) * step
    acc_ns = np.delete(gyro_ns, np.arange(40, 60))
    series = [Series(ns, ns, np.zeros((len(ns), 3)), 0) for ns in (gyro_ns, acc_ns)]
    merged = merge_imu(*series, source="bag")
    np.testing.assert_array_equal(merged.stamps_ns, acc_ns)


def test_a_sample_on_an_accelerometer_stamp_takes_its_reading_unchanged():
    ns = np.arange(20, dtype=np.int64) * 5_000_000
    values = np.random.default_rng(1).normal(size=(20, 3))
    merged = merge_imu(Series(ns, ns, values, 0), Series(ns, ns, 2.0 * values, 0), "bag")
    np.testing.assert_array_equal(merged.acc, 2.0 * values)


ZSTD = CompressionFormat.ZSTD


@pytest.mark.parametrize(
    ("kind", "compression"),
    [
        ("ros1", (Writer1.CompressionFormat.LZ4,)),
        ("ros1", (Writer1.CompressionFormat.BZ2,)),
        ("mcap", (CompressionMode.STORAGE, ZSTD)),
        ("mcap", (CompressionMode.MESSAGE, ZSTD)),
        ("sqlite3", (CompressionMode.FILE, ZSTD)),
        ("sqlite3", (CompressionMode.MESSAGE, ZSTD)),
    ],
    ids=str,
)
def test_compressed_bags_are_read_alike(kind, compression, recording, tmp_path):
    path = tmp_path / bag_name("packed", kind)
    write_items(path, kind, lambda bag: recording_items(bag, recording, rendered), compression)
    read = read_bag(path, recording.rig)
    np.testing.assert_array_equal(read.imu.acc, recording.imu.acc)
    frames = stereo_frames(read)
    np.testing.assert_array_equal(frames.pair(9).right, rendered(1, int(frames.stamps_ns[9])))
    frames.close()


def test_of_several_topics_the_one_asked_for_is_read(recording, tmp_path):
    def two(bag):
        for item in recording_items(bag, recording):
            yield item
            yield bag.imu("/imu1", item.stamp_ns, (1, 2, 3), (4, 5, 6))

    path = write_items(tmp_path / "two.bag", "ros1", two)
    with pytest.raises(DatasetError, match="2 topics of type sensor_msgs/msg/Imu, 2 of them"):
        read_bag(path, recording.rig)
    read = read_bag(path, recording.rig, parse_topics("imu=/imu1"))
    np.testing.assert_array_equal(read.imu.acc[7], [4, 5, 6])


def test_cameras_are_told_apart_by_the_calibrations_topics_then_by_their_names(recording, tmp_path):
    def named(left, right, *others):
        def make(bag):
            yield from recording_items(bag, recording)
            for at, topic in enumerate((right, left, *others)):
                for stamp_ns in recording.camera_stamps_ns[0]:
                    yield bag.image(topic, stamp_ns, rendered(at, int(stamp_ns)))

        return make

    def images(name, rig):
        return read_bag(tmp_path / name, rig).bag.topics

    write_items(tmp_path / "a.bag", "ros1", named("/left/image_rect", "/right/image_rect"))
    assert images("a.bag", recording.rig) == ("/left/image_rect", "/right/image_rect")
    realsense = ("/camera/infra1/image", "/camera/infra2/image", "/camera/depth/image")
    write_items(tmp_path / "b.bag", "ros1", named(*realsense))
    assert images("b.bag", recording.rig) == realsense[:2]
    write_items(tmp_path / "c.bag", "ros1", named("/front", "/other", "/third"))
    with pytest.raises(DatasetError, match=r"3 image topics whose names do not distinguish left"):
        images("c.bag", recording.rig)
    cameras = [
        replace(camera, topic=topic)
        for camera, topic in zip(recording.rig.cameras, ("/third", "/front"), strict=True)
    ]
    rig = replace(recording.rig, cameras=tuple(cameras))
    assert images("c.bag", rig) == ("/third", "/front")


def test_a_folder_of_bags_that_follow_one_another_is_one_recording(recording, tmp_path):
    folder = tmp_path / "split"
    folder.mkdir()
    middle_ns = int(recording.imu.stamps_ns[200])

    def part(keep):
        return lambda bag: filter(keep, recording_items(bag, recording, rendered))

    write_items(folder / "split_00.bag", "ros1", part(lambda item: item.stamp_ns < middle_ns))
    write_items(folder / "split_01.bag", "ros1", part(lambda item: item.stamp_ns >= middle_ns))
    read = read_bag(folder, recording.rig)
    assert read.name == "split"
    np.testing.assert_array_equal(read.imu.stamps_ns, recording.imu.stamps_ns)
    frames = stereo_frames(read)
    stamp_ns = int(recording.camera_stamps_ns[0][-1])
    np.testing.assert_array_equal(frames.pair(len(frames) - 1).right, rendered(1, stamp_ns))
    frames.close()


def test_images_without_a_partner_are_counted_and_left_out(recording, tmp_path):
    lost_ns = {int(recording.camera_stamps_ns[1][at]) for at in (0, 7, 8)}

    def make(bag):
        for item in recording_items(bag, recording, rendered):
            if not (item.topic == "/cam1/image_raw" and item.stamp_ns in lost_ns):
                yield item

    frames = stereo_frames(
        read_bag(write_items(tmp_path / "lost.bag", "ros1", make), recording.rig)
    )
    kept = [ns for ns in recording.camera_stamps_ns[0] if int(ns) not in lost_ns]
    np.testing.assert_array_equal(frames.stamps_ns, kept)
    assert frames.unpaired == 3
    np.testing.assert_array_equal(frames.pair(6).right, rendered(1, int(kept[6])))
    frames.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("imu", "--topics has 'imu', needed ROLE=/topic"),
        ("lidar=/points", "roles are imu, gyro, acc, left, right, truth"),
        ("imu=/a,imu=/b", "names imu twice"),
        ("gyro=/a", "gyro=/topic and acc=/topic"),
        ("imu=/a,gyro=/b,acc=/c", "gyro=/topic and acc=/topic"),
        ("right=/a", "names right without left"),
    ],
)
def test_topics_that_make_no_sense_are_refused(text, words):
    with pytest.raises(OptionError, match=words):
        parse_topics(text)


def test_topics_are_refused_for_a_folder(small_files):
    with pytest.raises(OptionError, match="is a folder without topics"):
        open_recording(small_files / "euroc_mini", topics="imu=/imu0")
