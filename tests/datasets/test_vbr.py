"""VBR sequences: bags that follow one another, vbr_calib.yaml, poses of the LiDAR."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation

from bag_files import recording_items, write_items
from maci2.datasets import open_recording
from maci2.datasets.frames import stereo_frames
from maci2.errors import CalibrationError
from maci2.geometry import se3_exp, se3_inv
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS

TOPICS = {
    "/imu0": "/imu/data",
    "/cam0/image_raw": "/camera_left/image_raw",
    "/cam1/image_raw": "/camera_right/image_raw",
}
SIZE = (16, 12)
INTRINSICS = [10.0, 10.0, 8.0, 6.0]
T_BASE_LIDAR = np.eye(4)
T_BASE_IMU = se3_exp(np.array([0.1, -0.2, 0.05, 0.3, -0.1, 0.2]))


@pytest.fixture(scope="module")
def recording():
    return simulate(SimulationConfig(duration_s=2.0, seed=9))


def red(camera, stamp_ns):
    """A red scene through a sensor whose first pixel is red; the right camera sees nothing."""
    mosaic = np.zeros(SIZE[::-1], np.uint8)
    mosaic[::2, ::2] = 255 * (camera == 0)
    return mosaic


def calibration(recording) -> dict:
    def camera(number):
        given = recording.rig.cameras[number]
        return {
            "T_b": (T_BASE_IMU @ given.T_b_c).tolist(),
            "camera_model": "pinhole",
            "intrinsics": INTRINSICS,
            "distortion_model": "radtan",
            "distortion_coeffs": given.distortion.tolist(),
            "resolution": list(SIZE),
            "rostopic": "said but not needed",
        }

    noise = recording.rig.imu
    imu = {
        "T_b": T_BASE_IMU.tolist(),
        "accelerometer_noise_density": noise.density_acc,
        "accelerometer_random_walk": noise.walk_acc,
        "gyroscope_noise_density": noise.density_gyro,
        "gyroscope_random_walk": noise.walk_gyro,
        "update_rate": 200.0,
    }
    lidar = {"T_b": T_BASE_LIDAR.tolist(), "rows": 64}
    return {"cam_l": camera(0), "cam_r": camera(1), "imu": imu, "lidar": lidar}


def lidar_poses(recording) -> str:
    lines = ["#timestamp tx ty tz qx qy qz qw"]
    truth = recording.truth()
    for stamp_ns, T_w_b in zip(truth.stamps_ns[::20], truth.Ts_w_b[::20], strict=True):
        T_w_lidar = T_w_b @ se3_inv(T_BASE_IMU) @ T_BASE_LIDAR
        quat_xyzw = Rotation.from_matrix(T_w_lidar[:3, :3]).as_quat()
        numbers = " ".join(repr(float(x)) for x in (*T_w_lidar[:3, 3], *quat_xyzw))
        lines.append(f"{stamp_ns // NS}.{stamp_ns % NS:09d} {numbers}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def sequence(recording, tmp_path) -> Path:
    folder = tmp_path / "campus_train0"
    folder.mkdir()
    middle_ns = int(recording.imu.stamps_ns[200])

    def items(bag, first):
        for item in recording_items(bag, recording, red):
            if (item.stamp_ns < middle_ns) == first:
                content, topic = item.content, TOPICS[item.topic]
                if "camera" in topic:
                    item = bag.image(topic, item.stamp_ns, content.data.reshape(SIZE[::-1]))
                    item.content.encoding = "bayer_rggb8"
                yield type(item)(topic, item.stamp_ns, item.content)

    for number in (0, 1):
        path = folder / f"campus_train0_0{number}.bag"
        write_items(path, "ros1", lambda bag, first=number == 0: items(bag, first))
    (folder / "vbr_calib.yaml").write_text(yaml.safe_dump(calibration(recording)))
    (folder / "campus_train0_gt.txt").write_text(lidar_poses(recording))
    return folder


def test_a_sequence_is_read_whole_with_the_imu_as_body(sequence, recording):
    read = open_recording(sequence)
    assert read.name == "campus_train0"
    np.testing.assert_array_equal(read.imu.stamps_ns, recording.imu.stamps_ns)
    np.testing.assert_array_equal(read.imu.acc, recording.imu.acc)
    for given, camera in zip(recording.rig.cameras, read.rig.cameras, strict=True):
        np.testing.assert_allclose(camera.T_b_c, given.T_b_c, atol=1e-14)
        assert camera.resolution == SIZE
        assert camera.rate_hz == pytest.approx(20.0)
    # A simulated IMU is marked exact, which this layout cannot say.
    assert read.rig.imu == replace(recording.rig.imu, exact=False)


def test_poses_of_the_lidar_are_carried_to_the_imu(sequence, recording):
    read = open_recording(sequence)
    truth, expected = read.truth(), recording.truth()
    np.testing.assert_array_equal(truth.stamps_ns, expected.stamps_ns[::20])
    np.testing.assert_allclose(truth.Ts_w_b, expected.Ts_w_b[::20], atol=1e-12)
    assert list(read.truths) == ["lidar_gt"]
    assert "poses of the LiDAR in campus_train0_gt.txt" in read.notes[-1]


def test_a_test_sequence_has_no_truth(sequence):
    (sequence / "campus_train0_gt.txt").unlink()
    assert open_recording(sequence).truths == {}


def test_images_are_demosaicked(sequence):
    frames = stereo_frames(open_recording(sequence))
    pair = frames.pair(30)
    # 0.299 * 255
    np.testing.assert_allclose(pair.left[2:-2, 2:-2], 76, atol=2)
    np.testing.assert_array_equal(pair.right, 0)
    frames.close()


def test_a_calibration_without_the_imu_is_refused(sequence, recording):
    entries = calibration(recording)
    del entries["imu"]
    (sequence / "vbr_calib.yaml").write_text(yaml.safe_dump(entries))
    with pytest.raises(CalibrationError, match=r"vbr_calib.yaml: key 'imu' is missing"):
        open_recording(sequence)
