"""Ways in which people write the same calibration, each with the numbers it must give."""

import json

import cv2
import numpy as np
import pytest
from rig_files import oak

from maci2.errors import CalibrationError
from maci2.rigs import Given, read_any_rig
from maci2.sensors.camera_model import project

CHAIN = """\
cam0:
  T_cam_imu:
  - [1.0, 0.0, 0.0, 0.1]
  - [0.0, 1.0, 0.0, 0.2]
  - [0.0, 0.0, 1.0, 0.3]
  - [0.0, 0.0, 0.0, 1.0]
  camera_model: pinhole
  distortion_coeffs: [0.1, 0.01, 0.001, 0.002]
  distortion_model: radtan
  intrinsics: [385.5, 386.5, 323.0, 236.0]
  resolution: [640, 480]
  rostopic: /cam0
"""
IMU = (
    "accelerometer_noise_density: 0.01\naccelerometer_random_walk: 0.001\n"
    "gyroscope_noise_density: 0.001\ngyroscope_random_walk: 0.0001\nupdate_rate: 200.0\n"
)


def read(tmp_path, text, name="file.yaml", given=None):
    path = tmp_path / name
    path.write_text(text)
    return read_any_rig(path) if given is None else read_any_rig(path, given)


@pytest.mark.parametrize(
    ("habit", "text"),
    [
        ("transform without its last row", CHAIN.replace("  - [0.0, 0.0, 0.0, 1.0]\n", "")),
        ("computed last row", CHAIN.replace("0.0, 1.0]\n  camera", "0.0, 0.9999999999]\n  camera")),
        ("Python 2 tuple", CHAIN.replace("[640, 480]", "!!python/tuple [640, 480]")),
        ("Python 2 text", CHAIN.replace("/cam0\n", "!!python/unicode '/cam0'\n")),
        ("no topic", CHAIN.replace("/cam0\n", "null\n")),
        ("both models in one word", CHAIN.replace("pinhole", "pinhole-radtan")),
    ],
)  # fmt: skip
def test_a_chain_is_the_same_chain(tmp_path, habit, text):
    camera = read(tmp_path, text).cameras[0]
    np.testing.assert_allclose(camera.T_b_c[:3, 3], (-0.1, -0.2, -0.3))
    np.testing.assert_array_equal(camera.T_b_c[3], (0, 0, 0, 1))
    assert camera.resolution == (640, 480)
    assert camera.distortion.tolist() == [0.1, 0.01, 0.001, 0.002]
    assert camera.topic in ("/cam0", "")


def test_a_python_object_is_refused_and_never_made(tmp_path):
    text = CHAIN.replace("[640, 480]", "!!python/object/apply:os.system {x: 1}")
    with pytest.raises(CalibrationError, match="a Python object"):
        read(tmp_path, text)


def test_two_names_of_one_model_must_agree(tmp_path):
    text = CHAIN.replace("camera_model: pinhole", "camera_model: pinhole-equi")
    with pytest.raises(CalibrationError, match="correct one of them"):
        read(tmp_path, text)


def test_without_coefficients_there_is_no_distortion(tmp_path):
    text = CHAIN.replace("[0.1, 0.01, 0.001, 0.002]", "null")
    assert read(tmp_path, text).cameras[0].distortion_model == "none"


def test_of_two_imu_files_beside_a_chain_none_is_believed(tmp_path):
    (tmp_path / "imu_a.yaml").write_text(IMU)
    assert read(tmp_path, CHAIN).noise_known
    (tmp_path / "imu_b.yaml").write_text(IMU.replace("0.01", "0.02"))
    rig = read(tmp_path, CHAIN)
    assert len(rig.cameras) == 1
    assert not rig.noise_known


def test_a_file_called_imu_that_holds_no_noise_is_not_taken_for_one(tmp_path):
    (tmp_path / "imu.yaml").write_text("port: /dev/ttyUSB0\nbaud: 115200\n")
    assert not read(tmp_path, CHAIN).noise_known


CAMERA = (
    "%YAML:1.0\n---\nmodel_type: PINHOLE\nimage_width: 640\nimage_height: 480\n"
    "distortion_parameters:\n   k1: 0.1\n   k2: 0.0\n   p1: 0.0\n   p2: 0.0\n"
    "projection_parameters:\n   fx: 385.5\n   fy: 386.5\n   cx: 323.0\n   cy: 236.0\n"
)


@pytest.mark.parametrize(
    "name", ["left.yaml", "/left.yaml", "/home/somebody/ws/left.yaml", "~/config/left.yaml"]
)
def test_vins_fusion_finds_the_camera_file_beside_its_configuration(tmp_path, name):
    (tmp_path / "left.yaml").write_text(CAMERA)
    matrix = "rows: 3\n   cols: 4\n   dt: d\n   data: [1,0,0,0.1, 0,1,0,0.2, 0,0,1,0.3]\n"
    text = (
        f'%YAML:1.0\nimu: 1\nnum_of_cam: 1\ncam0_calib: "{name}"\n'
        f"body_T_cam0: !!opencv-matrix\n   {matrix}"
    )
    camera = read(tmp_path, text, "config.yaml").cameras[0]
    assert camera.intrinsics.tolist() == [385.5, 386.5, 323.0, 236.0]
    np.testing.assert_allclose(camera.T_b_c[:3, 3], (0.1, 0.2, 0.3))


ORB = (
    "%YAML:1.0\nCamera.fx: 400.0\nCamera.fy: 401.0\nCamera.cx: 320.0\nCamera.cy: 240.0\n"
    "Camera.k1: 0.0\nCamera.k2: 0.0\nCamera.p1: 0.0\nCamera.p2: 0.0\n"
    "Camera.width: 640\nCamera.height: 480\n"
)


def test_a_negative_baseline_is_no_single_camera(tmp_path):
    assert len(read(tmp_path, ORB + "Camera.bf: 0.0\n").cameras) == 1
    with pytest.raises(CalibrationError, match=r"ORB-SLAM2 settings: .*'Camera.bf' is -40"):
        read(tmp_path, ORB + "Camera.bf: -40.0\n")


def test_noise_without_a_rate_leaves_the_cameras_readable(tmp_path):
    text = ORB + (
        "IMU.NoiseGyro: 1.0e-3\nIMU.NoiseAcc: 1.0e-2\nIMU.GyroWalk: 1.0e-5\nIMU.AccWalk: 1.0e-4\n"
    )
    assert not read(tmp_path, text).noise_known
    rig = read(tmp_path, text, given=Given(rate_hz=200.0))
    assert rig.noise_known
    assert (rig.imu.density_acc, rig.imu.rate_hz) == (0.01, 200.0)


def basalt(camera_type, **own):
    lens = {"fx": 300.0, "fy": 301.0, "cx": 256.0, "cy": 250.0, **own}
    pose = {"px": 0.1, "py": 0.0, "pz": 0.0, "qx": 0.0, "qy": 0.0, "qz": 0.0, "qw": 1.0}
    stated = {
        "T_imu_cam": [pose],
        "intrinsics": [{"camera_type": camera_type, "intrinsics": lens}],
        "resolution": [[512, 512]],
    }
    return json.dumps({"value0": stated})


def test_basalts_unified_and_fov_models_project_by_their_definitions(tmp_path):
    p_c = np.array([[0.4, -0.3, 1.2]])
    r, z = np.hypot(0.4, 0.3), 1.2
    ucm = read(tmp_path, basalt("ucm", alpha=0.6), "ucm.json").cameras[0]
    depth = 0.6 * np.hypot(r, z) + 0.4 * z
    np.testing.assert_allclose(
        project(ucm, p_c)[0], (300 * 0.4 / depth + 256, 301 * -0.3 / depth + 250)
    )
    fov = read(tmp_path, basalt("fov", w=0.9), "fov.json").cameras[0]
    scale = np.arctan(2.0 * np.tan(0.45) * r / z) / 0.9 / r
    np.testing.assert_allclose(
        project(fov, p_c)[0], (300 * 0.4 * scale + 256, 301 * -0.3 * scale + 250)
    )


@pytest.mark.parametrize(
    ("name", "text", "tool"),
    [
        ("vio.json", '{"value0": {"config.vio_max_kfs": 7}}', "Basalt settings"),
        ("mocap.json", '{"value0": {"T_mocap_world": {}}}', "Basalt file: cameras are missing"),
        ("board.json", '{"board_config": {"name": "OAK-D"}}', "OAK .DepthAI. board description"),
        ("preset.json", '{"device": {}, "parameters": {"aux-param-x": "1"}}', "RealSense settings"),
        ("okvis.yaml", "cameras:\n- a: 1\nimu_parameters:\n  a_max: 1\n", "OKVIS settings"),
        ("img.yaml", "in_left:\n  width: 1\nin_right:\n  width: 1\n", "MYNT EYE parameters"),
        ("a.launch", "<launch/>", "XML file"),
        ("calib.txt", "Pinhole 501 501 421 167 0\n800 400\ncrop\n800 400\n", "DSO camera text"),
        ("ost.txt", "# oST version 5.0\n[image]\ncamera matrix\n1 0 0\n", "ROS camera_calibration"),
        ("calib.txt", "P0: 7e2 0 6e2 0\nP1: 7e2 0 6e2 -3e2\n", "KITTI"),
        ("rvio.yaml", "IMU.sigma_g: 1e-4\nCamera.fx: 458.0\nCamera.Fisheye: 1\n", "R-VIO settings"),
        ("larvio.yaml", "resolution_width: 1280\nT_cam_imu: []\n", "LARVIO settings"),
        ("mynt_imu_param.yaml", "type: IMU\nGyr:\n  a: 1\nAcc:\n  a: 1\n", "imu_utils result"),
        ("svo.yaml", "cameras:\n- camera: {}\nimu_params: {}\n", "SVO, ROVIO or maplab"),
    ],
)  # fmt: skip
def test_files_without_a_rig_are_refused_by_the_name_of_their_tool(tmp_path, name, text, tool):
    with pytest.raises(CalibrationError, match=tool):
        read(tmp_path, text, name)


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("cam0:\n  T_imu_cam: [[\n  camera_model: pinhole\n", "OpenVINS imucam chain"),
        ("cam0:\n  intrinsics: [1, 2\n  rostopic: /a\ncam1:\n", "Kalibr camchain"),
        ("%YAML:1.0\nimu: 1\nnum_of_cam: [\ncam0_calib: a\n", "VINS-Fusion settings"),
        ("%YAML:1.0\nimu_topic: [\nmodel_type: PINHOLE\n", "VINS-Mono settings"),
        ("%YAML:1.0\nFile.version: [\nCamera1.fx: 400\n", "ORB-SLAM3 settings"),
        ('{\n  "value0": {\n    "intrinsics": [,\n', "Basalt calibration"),
    ],
)
def test_a_file_with_a_slip_is_refused_by_the_name_of_its_tool_and_the_line(tmp_path, text, tool):
    with pytest.raises(CalibrationError, match=rf"^{tool}: .*line \d+: not a YAML file"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "line", [r'output_path: "C:\Users\me\x"', "camera_name: @left", "topic: %imu # none"]
)
def test_what_opencv_reads_and_yaml_does_not_is_read(tmp_path, line):
    text = CAMERA.replace("model_type", f"{line}\nmodel_type")
    assert read(tmp_path, text).cameras[0].resolution == (640, 480)
    storage = cv2.FileStorage(str(tmp_path / "file.yaml"), cv2.FILE_STORAGE_READ)
    assert storage.getNode("image_width").real() == 640


@pytest.mark.parametrize("model", ["pinhole-rs", "pinhole-radtan-rs", "pinhole"])
def test_a_rolling_shutter_is_taken_as_a_global_one_and_said(tmp_path, caplog, model):
    text = CHAIN.replace("camera_model: pinhole", f"camera_model: {model}\n  line_delay: 2.5e-05")
    assert read(tmp_path, text).cameras[0].distortion_model == "radtan"
    assert "cam0 has a rolling shutter" in caplog.text


def test_noise_in_the_file_of_the_chain_is_read(tmp_path):
    indented = "".join(f"  {line}\n" for line in IMU.splitlines())
    rig = read(tmp_path, CHAIN + "imu0:\n" + indented)
    assert (rig.imu.density_gyro, rig.imu.rate_hz) == (0.001, 200.0)
    assert not read(tmp_path, CHAIN + "imu0:\n  rostopic: /imu0\n").noise_known


def test_sockets_of_an_oak_may_be_keys(tmp_path):
    listed = json.loads(oak())
    keyed = {**listed, "cameraData": {str(k): v for k, v in listed["cameraData"]}}
    first, second = (
        read(tmp_path, json.dumps(data), f"{name}.json")
        for name, data in (("listed", listed), ("keyed", keyed))
    )
    for camera, same in zip(first.cameras, second.cameras, strict=True):
        np.testing.assert_array_equal(camera.T_b_c, same.T_b_c)
        np.testing.assert_array_equal(camera.intrinsics, same.intrinsics)
