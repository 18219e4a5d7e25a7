"""Files of each tool as small as they can be, against numbers worked out by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from rig_files import (
    BASALT,
    CAM1_CAM0,
    CAMERA,
    CAMERA_INFO,
    IMU,
    LENS,
    MEI,
    MSCKF,
    PINHOLE,
    RECTIFIED,
    T_B_C,
    TBC,
    VINS_LENS,
    ZED,
    oak,
)  # fmt: skip

from maci2.errors import CalibrationError
from maci2.rigs import Given, read_any_rig, require_noise
from maci2.rigs.convert import kind_of


@pytest.fixture
def write(tmp_path):
    def write(text, name="rig.yaml", header="%YAML:1.0\n"):
        (tmp_path / name).write_text(header + text)
        return tmp_path / name

    return write


def refusal(path, given=None):
    with pytest.raises(CalibrationError) as raised:
        read_any_rig(path, given or Given())
    return str(raised.value)


def has_the_camera(camera):
    assert camera.intrinsics.tolist() == [400.0, 410.0, 320.0, 240.0]
    assert camera.distortion.tolist() == [0.1, 0.01, 0.001, 0.002]
    assert camera.resolution == (640, 480)


def test_orb_slam2_has_one_camera_without_a_place(write):
    path = write(CAMERA)
    rig = read_any_rig(path)
    assert kind_of(path).name == "ORB-SLAM2 settings"
    (camera,) = rig.cameras
    has_the_camera(camera)
    assert camera.rate_hz == 20.0
    assert not rig.extrinsics_known
    assert not rig.noise_known


def test_orb_slam2_stereo_builds_the_right_camera_from_bf(write):
    left, right = read_any_rig(write(CAMERA + "Camera.bf: 40.0\n")).cameras
    np.testing.assert_allclose(right.T_b_c[:3, 3], [0.1, 0.0, 0.0])
    np.testing.assert_array_equal(right.T_b_c[:3, :3], np.eye(3))
    np.testing.assert_array_equal(right.intrinsics, left.intrinsics)


def test_a_depth_camera_has_no_second_image(write):
    text = CAMERA + "Camera.bf: 40.0\nDepthMapFactor: 1000.0\n"
    assert len(read_any_rig(write(text)).cameras) == 1


def test_orb_slam3_before_version_one_has_tbc_and_noise(write):
    path = write("Camera.type: PinHole\n" + CAMERA + TBC + IMU)
    rig = read_any_rig(path)
    assert kind_of(path).name == "ORB-SLAM3 (before version 1.0) settings"
    np.testing.assert_array_equal(rig.cameras[0].T_b_c, T_B_C)
    assert (rig.imu.density_gyro, rig.imu.density_acc) == (1e-4, 2e-3)
    assert (rig.imu.walk_gyro, rig.imu.walk_acc, rig.imu.rate_hz) == (1e-5, 3e-3, 200.0)


def test_orb_slam3_without_a_rate_asks_for_it(write):
    path = write("Camera.type: PinHole\n" + CAMERA + TBC + IMU.replace("IMU.Frequency: 200", ""))
    with pytest.raises(CalibrationError, match=r"ORB-SLAM3.*give --imu-rate HZ"):
        require_noise(read_any_rig(path), "this test")
    assert read_any_rig(path, Given(rate_hz=100.0)).imu.rate_hz == 100.0


def test_orb_slam3_rectified_builds_the_right_camera_from_its_baseline(write):
    path = write(RECTIFIED)
    left, right = read_any_rig(path).cameras
    assert kind_of(path).name == "ORB-SLAM3 Rectified settings"
    assert left.distortion_model == "none"
    # 0.05 m along the camera's x axis, which is the body's y.
    np.testing.assert_allclose(right.T_b_c[:3, 3], [0.5, 0.30, 1.0])


def test_a_right_camera_with_rows_that_are_not_counted_is_read(write):
    right = CAMERA.split("Camera.width")[0].replace("Camera.", "Camera2.")
    tlr = "Tlr: !!opencv-matrix\n   rows: 3\n   cols: 4\n   dt: f\n   "
    tlr += "data:[1,0,0,0.1, 0,1,0,0, 0,0,1,0"
    for numbers in ("]", ", 0,0,0,1]"):
        _, second = read_any_rig(write(CAMERA + right + tlr + numbers + "\n")).cameras
        np.testing.assert_allclose(second.T_b_c[:3, 3], [0.1, 0.0, 0.0])


def test_vins_mono_has_camera_place_and_time_offset_and_needs_the_rate(write):
    place = """
imu_topic: /imu
image_topic: /left
extrinsicRotation: !!opencv-matrix
   rows: 3
   cols: 3
   dt: d
   data: [0, -1, 0, 1, 0, 0, 0, 0, 1]
extrinsicTranslation: !!opencv-matrix
   rows: 3
   cols: 1
   dt: d
   data: [0.5, 0.25, 1.0]
acc_n: 0.2
gyr_n: 0.02
acc_w: 0.002
gyr_w: 0.0002
td: 0.01
"""
    path = write(VINS_LENS + PINHOLE + place)
    rig = read_any_rig(path, Given(rate_hz=100.0))
    assert kind_of(path).name == "VINS-Mono settings"
    has_the_camera(rig.cameras[0])
    assert rig.cameras[0].topic == "/left"
    np.testing.assert_array_equal(rig.cameras[0].T_b_c, T_B_C)
    assert rig.time_offset_s == 0.01
    assert (rig.imu.density_acc, rig.imu.density_gyro) == pytest.approx((0.02, 0.002))
    assert (rig.imu.walk_acc, rig.imu.walk_gyro) == pytest.approx((0.0002, 0.00002))
    assert not read_any_rig(path).noise_known
    # 2: the place is to be found from nothing, and what the file has means nothing.
    path = write(VINS_LENS + PINHOLE + place + "estimate_extrinsic: 2\n")
    assert not read_any_rig(path).extrinsics_known


def test_a_camera_file_of_vins_is_one_camera_of_the_unified_model(write):
    path = write(VINS_LENS + MEI)
    rig = read_any_rig(path)
    (camera,) = rig.cameras
    assert (camera.camera_model, camera.model_parameters.tolist()) == ("omni", [1.25])
    assert camera.intrinsics.tolist() == [800.0, 810.0, 320.0, 240.0]
    assert not rig.extrinsics_known


def test_a_vins_fusion_file_names_the_camera_file_that_is_absent(write):
    path = write("num_of_cam: 1\ncam0_calib: left.yaml\nimu: 1\n")
    message = refusal(path)
    assert "VINS-Fusion" in message.splitlines()[0]
    assert "left.yaml: file not found; it should hold cam0_calib" in message


def test_msckf_vio_has_flat_matrices_and_a_body_of_its_own(write):
    path = write(MSCKF, header="")
    assert kind_of(path).name == "MSCKF-VIO camera chain"
    rig = read_any_rig(path)
    has_the_camera(rig.cameras[0])
    np.testing.assert_allclose(rig.cameras[0].T_b_c, T_B_C, atol=1e-15)


@pytest.mark.parametrize("at_the_top", [True, False])
def test_4seasons_places_the_second_camera_by_t_cam1_cam0(write, at_the_top):
    text = f"cam0:{LENS}cam1:{LENS}{CAM1_CAM0 if at_the_top else '  ' + CAM1_CAM0}"
    path = write(text, header="")
    assert kind_of(path).name == "4Seasons camera chain"
    rig = read_any_rig(path)
    assert not rig.extrinsics_known
    np.testing.assert_allclose(rig.cameras[1].T_b_c[:3, 3], [0.3, 0.0, 0.0])


def test_basalt_has_a_double_sphere_noise_and_corrections(write):
    path = write(json.dumps(BASALT), "calib.json", header="")
    rig = read_any_rig(path)
    (camera,) = rig.cameras
    assert camera.camera_model == "ds"
    assert camera.model_parameters.tolist() == [-0.17, 0.59]
    np.testing.assert_allclose(camera.T_b_c, T_B_C, atol=1e-15)
    assert (rig.imu.density_acc, rig.imu.walk_gyro, rig.imu.rate_hz) == (0.016, 0.0001, 200.0)
    assert rig.time_offset_s == 0.005
    intrinsics = rig.imu_intrinsics
    assert intrinsics is not None
    # calibrated = (I + S) raw - b, so the reading at zero is (I + S)^-1 b.
    S = np.array([[0.01, 0, 0], [0.02, 0.04, 0], [0.03, 0.05, 0.06]])
    np.testing.assert_allclose(np.linalg.inv(intrinsics.M_acc), np.eye(3) + S, atol=1e-14)
    np.testing.assert_allclose((np.eye(3) + S) @ intrinsics.offset_acc, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(intrinsics.M_gyro, np.diag([1 / 1.1, 1, 1]))


def test_an_oak_has_left_right_and_colour_in_centimetres(write):
    rig = read_any_rig(write(oak(), "oak.json", header=""))
    left, right, colour = rig.cameras
    assert rig.extrinsics_known
    # The IMU's points go to the left camera by R p + t.
    T_c_b = np.array([[0, 1, 0, 0.01], [-1, 0, 0, 0.02], [0, 0, 1, 0.03], [0, 0, 0, 1]])
    np.testing.assert_allclose(np.linalg.inv(left.T_b_c), T_c_b, atol=1e-15)
    beside = np.linalg.inv(left.T_b_c) @ right.T_b_c
    np.testing.assert_allclose(beside[:3, 3], [0.075, 0.0, 0.0], atol=1e-15)
    beside = np.linalg.inv(left.T_b_c) @ colour.T_b_c
    np.testing.assert_allclose(beside[:3, 3], [0.0375, 0.0, 0.0], atol=1e-15)
    assert left.distortion.tolist() == [0.1, 0.2, 0.001, 0.002, 0.3, 0.4, 0.5, 0.6]


def test_an_oak_whose_memory_is_all_zeros_has_cameras_alone(write):
    rig = read_any_rig(write(oak(imu_socket=-1), "oak.json", header=""))
    assert not rig.extrinsics_known
    np.testing.assert_array_equal(rig.cameras[0].T_b_c, np.eye(4))
    message = refusal(write(oak(thin_prism=0.01), "oak.json", header=""))
    assert "OAK" in message
    assert "thin-prism" in message


def test_a_zed_has_its_pair_in_millimetres(write):
    rig = read_any_rig(write(ZED, "SN123.conf", header=""))
    left, right = rig.cameras
    assert left.intrinsics.tolist() == [700.0, 701.0, 640.0, 360.0]
    assert right.distortion.tolist() == [-0.18, 0.03, 0.0, 0.0]
    assert left.resolution == (1280, 720)
    np.testing.assert_allclose(right.T_b_c[:3, 3], [0.12, 0.0006, -0.0003])
    assert "ZED factory calibration" in refusal(
        write(ZED.replace("fx=700", "fx=abc"), "SN123.conf", header="")
    )


@pytest.mark.parametrize("angle", ["1e308", "-1e308", "1e160"])
def test_a_rotation_that_overflows_is_refused_before_arithmetic(write, angle):
    text = ZED.replace("CV_HD=0.0", f"CV_HD={angle}").replace("CV_HD=0.01", f"CV_HD={angle}")
    assert angle in text
    assert "STEREO holds or gives numbers that are not finite" in refusal(
        write(text, "SN123.conf", header="")
    )


def test_a_wide_zed_has_a_fisheye(write):
    text = ZED.replace("k2=0.02\n", "k2=0.02\nk3=0.03\nk4=0.04\n")
    left, right = read_any_rig(write(text, "SN123.conf", header="")).cameras
    assert (left.distortion_model, right.distortion_model) == ("equidistant", "radtan")
    assert left.distortion.tolist() == [-0.17, 0.02, 0.03, 0.04]


@pytest.mark.parametrize(
    "text",
    [
        CAMERA_INFO,
        "height: 480\nwidth: 640\ndistortion_model: plumb_bob\nD: [0.1, 0.01, 0.001, 0.002, 0.0]\n"
        "K: [400.0, 0.0, 320.0, 0.0, 410.0, 240.0, 0.0, 0.0, 1.0]\n",
        "height: 480\nwidth: 640\ndistortion_model: plumb_bob\nd: [0.1, 0.01, 0.001, 0.002, 0.0]\n"
        "k: [400.0, 0.0, 320.0, 0.0, 410.0, 240.0, 0.0, 0.0, 1.0]\n",
    ],
)
def test_a_ros_camera_info_is_one_camera(write, text):
    rig = read_any_rig(write(text, header=""))
    has_the_camera(rig.cameras[0])
    assert not rig.extrinsics_known


RESULTS = """Calibration results
===================
T_ci:  (imu0 to cam0):
[[1 0 0 0]]
"""


@pytest.mark.parametrize(
    ("text", "tool", "missing"),
    [
        (RESULTS, "Kalibr results text", "the image size is missing"),
        ("imu0:\n  accelerometer_noise_density: 0.1\n", "Kalibr IMU file", "cameras are missing"),
        ("imu0:\n  Tw: []\n", "OpenVINS IMU chain", "cameras are missing"),
        ("/vio:\n  ros__parameters:\n    a: 1\n", "ROS 2 parameters of /vio", "calibration"),
        ("target_type: aprilgrid\n", "Kalibr target", "calibration board"),
        ("sensor_type: camera\nT_BS: 1\n", "EuRoC sensor.yaml", "recording's folder"),
        ('{"imus": []}', "RealSense IMU calibration", "cameras are missing"),
        ('{"controls-autoexposure-auto": 1}', "RealSense settings", "no calibration"),
        ("acc_n: 0.1\nimu_topic: /imu\n", "VINS settings", "the cameras are missing"),
        ("relative_config_imu: a.yaml\n", "OpenVINS estimator_config", "file not found"),
        ("some: thing\n", "unknown tool", "known are Kalibr, OpenVINS"),
    ],
)
def test_what_holds_no_camera_is_named_with_what_to_give_instead(write, text, tool, missing):
    message = refusal(write(text, header=""))
    assert tool in message.splitlines()[0]
    assert missing in message


def test_tools_are_found_in_their_folders(tmp_path):
    for name in ("estimator_config.yaml", "stereo_imu_config.yaml"):
        (tmp_path / name).write_text("a: 1\n")
    assert "holds estimator_config.yaml, stereo_imu_config.yaml; name the one" in refusal(tmp_path)
    empty = Path(tmp_path / "empty")
    empty.mkdir()
    assert "found none, needed one of camchain-imucam.yaml" in refusal(empty)
