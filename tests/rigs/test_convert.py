"""Files of other tools: parsed by readers of their own, and read back to the same numbers."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from maci2.datasets import open_recording
from maci2.errors import CalibrationError
from maci2.geometry import se3_exp, se3_inv
from maci2.rigs import TOOLS, Given, read_any_rig, require_noise, write_rig
from maci2.sensors import ImuNoise, Rig
from maci2.simulation import SimulationConfig, simulate

LENSES = ("pinhole", "fisheye")


@pytest.fixture(scope="module", params=LENSES)
def rig(request) -> Rig:
    """Numbers with all their digits, and noises so small that they are printed with exponents."""
    made = simulate(SimulationConfig(duration_s=1.0, lens=request.param)).rig
    rng = np.random.default_rng(2)
    cameras = tuple(
        replace(
            camera,
            T_b_c=camera.T_b_c @ se3_exp(0.02 * rng.standard_normal(6)),
            intrinsics=camera.intrinsics + rng.standard_normal(4),
            distortion=camera.distortion + 1e-6 * rng.standard_normal(4),
            topic=f"/stereo/{side}/image",
        )
        for camera, side in zip(made.cameras, ("left", "right"), strict=True)
    )
    noise = ImuNoise(1.23456789e-5, 0.0023456789, 1e-6 / 3, 2e-5 / 7, 199.36)
    return Rig(cameras, noise, "made for this test")


@pytest.mark.parametrize("tool", TOOLS)
def test_what_was_written_reads_back_the_same(tool, rig, tmp_path):
    for path in write_rig(tmp_path, rig, tool):
        assert path.parent == tmp_path
    again = read_any_rig(tmp_path)
    assert again.imu == rig.imu
    for number, (camera, given) in enumerate(zip(again.cameras, rig.cameras, strict=True)):
        np.testing.assert_array_equal(camera.intrinsics, given.intrinsics)
        np.testing.assert_array_equal(camera.distortion, given.distortion)
        assert camera.distortion_model == given.distortion_model
        assert camera.resolution == given.resolution
        # Kalibr states the inverse, and ORB-SLAM3 the right camera against the left one: two
        # products of matrices round in the last bit.
        exact = tool in ("openvins", "vins-fusion") or (tool == "orbslam3" and number == 0)
        np.testing.assert_allclose(camera.T_b_c, given.T_b_c, rtol=0, atol=0 if exact else 1e-15)
        assert camera.topic == (given.topic if tool != "orbslam3" else "")


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tool_is_recognized_by_its_file_alone(tool, rig, tmp_path):
    first = write_rig(tmp_path, rig, tool)[0]
    moved = first.rename(first.with_name("renamed.yaml"))
    np.testing.assert_allclose(read_any_rig(moved).cameras[1].T_b_c, rig.cameras[1].T_b_c)


def plain_yaml(path: Path) -> dict:
    """A reader of its own: OpenCV's first line and tag are dropped, the rest is plain YAML."""
    text = path.read_text().replace("%YAML:1.0\n", "", 1).replace("!!opencv-matrix", "")
    return yaml.safe_load(text)


def square(matrix: dict) -> np.ndarray:
    assert (matrix["rows"], matrix["cols"]) == (4, 4)
    return np.array(matrix["data"]).reshape(4, 4)


def comments(path: Path) -> str:
    lines = [line[2:] for line in path.read_text().splitlines() if line.startswith("# ")]
    return " ".join(lines)


def test_kalibr_files_carry_t_cam_imu(rig, tmp_path):
    write_rig(tmp_path, rig, "kalibr")
    chain = plain_yaml(tmp_path / "camchain-imucam.yaml")
    for key, camera in zip(("cam0", "cam1"), rig.cameras, strict=True):
        np.testing.assert_array_equal(chain[key]["T_cam_imu"], se3_inv(camera.T_b_c))
        assert chain[key]["intrinsics"] == camera.intrinsics.tolist()
        assert chain[key]["rostopic"] == camera.topic
    # Kalibr: T_cn_cnm1 takes points of the camera before to this one.
    T_c1_c0 = se3_inv(rig.cameras[1].T_b_c) @ rig.cameras[0].T_b_c
    np.testing.assert_allclose(chain["cam1"]["T_cn_cnm1"], T_c1_c0, atol=1e-15)
    assert "p_c = T_cam_imu p_b" in comments(tmp_path / "camchain-imucam.yaml")
    imu = plain_yaml(tmp_path / "imu.yaml")["imu0"]
    assert imu["gyroscope_noise_density"] == rig.imu.density_gyro
    assert imu["update_rate"] == rig.imu.rate_hz


def test_openvins_files_carry_t_imu_cam_and_the_biases_to_start_from(rig, tmp_path):
    bias_gyro, bias_acc = np.array([1e-5, -0.02, 1 / 3]), np.array([0.1, -1e-6, 2 / 7])
    write_rig(tmp_path, rig, "openvins", bias_gyro, bias_acc)
    config = plain_yaml(tmp_path / "estimator_config.yaml")
    assert config["init_dyn_bias_g"] == bias_gyro.tolist()
    assert config["init_dyn_bias_a"] == bias_acc.tolist()
    assert (config["use_stereo"], config["max_cameras"]) == (True, 2)
    chain = plain_yaml(tmp_path / config["relative_config_imucam"])
    for key, camera in zip(("cam0", "cam1"), rig.cameras, strict=True):
        np.testing.assert_array_equal(chain[key]["T_imu_cam"], camera.T_b_c)
        assert chain[key]["distortion_coeffs"] == camera.distortion.tolist()
        assert chain[key]["resolution"] == list(camera.resolution)
    assert "p_imu = T_imu_cam p_cam" in comments(tmp_path / config["relative_config_imucam"])
    imu = plain_yaml(tmp_path / config["relative_config_imu"])["imu0"]
    assert imu["accelerometer_noise_density"] == rig.imu.density_acc
    assert imu["Tw"] == np.eye(3).tolist()


def test_openvins_files_are_read_by_opencv_as_openvins_does(rig, tmp_path):
    write_rig(tmp_path, rig, "openvins")
    storage = cv2.FileStorage(str(tmp_path / "kalibr_imucam_chain.yaml"), cv2.FILE_STORAGE_READ)
    rows = storage.getNode("cam1").getNode("T_imu_cam")
    read = [[rows.at(i).at(j).real() for j in range(4)] for i in range(4)]
    np.testing.assert_array_equal(read, rig.cameras[1].T_b_c)
    storage.release()
    storage = cv2.FileStorage(str(tmp_path / "kalibr_imu_chain.yaml"), cv2.FILE_STORAGE_READ)
    imu = storage.getNode("imu0")
    assert imu.getNode("gyroscope_random_walk").real() == rig.imu.walk_gyro
    assert [imu.getNode("Ta").at(i).at(i).real() for i in range(3)] == [1.0, 1.0, 1.0]
    storage.release()
    storage = cv2.FileStorage(str(tmp_path / "estimator_config.yaml"), cv2.FILE_STORAGE_READ)
    assert storage.getNode("relative_config_imu").string() == "kalibr_imu_chain.yaml"
    assert storage.getNode("init_dyn_bias_g").size() == 3
    storage.release()


def test_vins_fusion_files_carry_body_t_cam_and_noise_of_samples(rig, tmp_path):
    write_rig(tmp_path, rig, "vins-fusion")
    path = tmp_path / "stereo_imu_config.yaml"
    config = plain_yaml(path)
    assert (config["imu"], config["num_of_cam"]) == (1, 2)
    for number, camera in enumerate(rig.cameras):
        np.testing.assert_array_equal(square(config[f"body_T_cam{number}"]), camera.T_b_c)
        lens = plain_yaml(tmp_path / config[f"cam{number}_calib"])
        projection = lens["projection_parameters"]
        if camera.distortion_model == "equidistant":
            assert lens["model_type"] == "KANNALA_BRANDT"
            assert [projection[key] for key in ("mu", "mv", "u0", "v0")] == list(camera.intrinsics)
            assert [projection[key] for key in ("k2", "k3", "k4", "k5")] == list(camera.distortion)
        else:
            assert lens["model_type"] == "PINHOLE"
            assert list(projection.values()) == camera.intrinsics.tolist()
            assert list(lens["distortion_parameters"].values()) == camera.distortion.tolist()
    # A sample's variance is density^2 * rate.
    assert config["acc_n"] ** 2 == pytest.approx(rig.imu.density_acc**2 * 199.36)
    assert config["gyr_n"] ** 2 == pytest.approx(rig.imu.density_gyro**2 * 199.36)
    # Over one second the bias walks by rate steps of acc_w / rate.
    assert 199.36 * (config["acc_w"] / 199.36) ** 2 == pytest.approx(rig.imu.walk_acc**2)
    assert "p_body = body_T_cam0 p_cam" in comments(path)


def test_orbslam3_file_carries_t_b_c1_and_t_c1_c2(rig, tmp_path):
    (path,) = write_rig(tmp_path, rig, "orbslam3")
    config = plain_yaml(path)
    left, right = rig.cameras
    np.testing.assert_array_equal(square(config["IMU.T_b_c1"]), left.T_b_c)
    np.testing.assert_allclose(
        square(config["IMU.T_b_c1"]) @ square(config["Stereo.T_c1_c2"]), right.T_b_c, atol=1e-15
    )
    fisheye = left.distortion_model == "equidistant"
    assert config["Camera.type"] == ("KannalaBrandt8" if fisheye else "PinHole")
    lens = ("k1", "k2", "k3", "k4") if fisheye else ("k1", "k2", "p1", "p2")
    for number, camera in enumerate(rig.cameras, start=1):
        assert [config[f"Camera{number}.{key}"] for key in ("fx", "fy", "cx", "cy")] == list(
            camera.intrinsics
        )
        assert [config[f"Camera{number}.{key}"] for key in lens] == list(camera.distortion)
    assert config["IMU.NoiseAcc"] == rig.imu.density_acc
    assert config["IMU.GyroWalk"] == rig.imu.walk_gyro
    assert "p_b = IMU.T_b_c1 p_c1" in comments(path)


@pytest.mark.parametrize(
    ("tool", "key"), [("vins-fusion", "body_T_cam1"), ("orbslam3", "IMU.T_b_c1")]
)
def test_matrices_are_read_by_opencv_as_the_tools_do(tool, key, rig, tmp_path):
    path = write_rig(tmp_path, rig, tool)[0]
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_READ)
    matrix = storage.getNode(key).mat()
    if tool == "orbslam3":
        # It takes elements as floats, text as text, and whole frames.
        assert matrix.dtype == np.float32
        np.testing.assert_allclose(matrix, rig.cameras[0].T_b_c, atol=1e-7)
        assert storage.getNode("File.version").isString()
        assert storage.getNode("File.version").string() == "1.0"
        assert storage.getNode("Camera.fps").isInt()
        for name in ("Camera1.k2", "IMU.Frequency", "IMU.GyroWalk", "Stereo.ThDepth"):
            assert storage.getNode(name).isReal(), name
    else:
        assert matrix.dtype == np.float64
        np.testing.assert_array_equal(matrix, rig.cameras[1].T_b_c)
    storage.release()


def test_a_frame_rate_that_kalibr_does_not_state_is_assumed_in_words(rig, tmp_path):
    cameras = tuple(replace(camera, rate_hz=np.nan) for camera in rig.cameras)
    (path,) = write_rig(tmp_path, replace(rig, cameras=cameras), "orbslam3")
    assert "does not state a frame rate; 20 is assumed" in comments(path)
    assert plain_yaml(path)["Camera.fps"] == 20


@pytest.mark.parametrize("tool", TOOLS)
def test_every_file_serves_as_the_rig_of_a_recording(tool, small_files, tmp_path):
    own = open_recording(small_files / "euroc_mini").rig
    write_rig(tmp_path, own, tool)
    rig = open_recording(small_files / "euroc_mini", tmp_path).rig
    for camera, given in zip(rig.cameras, own.cameras, strict=True):
        np.testing.assert_allclose(camera.T_b_c, given.T_b_c, rtol=0, atol=1e-15)


def test_a_foreign_vins_fusion_file_has_cameras_and_needs_the_imu_rate_for_noise(rig, tmp_path):
    path = write_rig(tmp_path, rig, "vins-fusion")[0]
    lines = [line for line in path.read_text().splitlines() if not line.startswith("imu_rate")]
    path.write_text("\n".join(lines))
    alone = read_any_rig(path)
    assert not alone.noise_known
    with pytest.raises(CalibrationError, match=r"does not state the IMU noise.*--imu-rate HZ"):
        require_noise(alone, "initialization")
    given = read_any_rig(path, Given(rate_hz=199.36))
    assert given.noise_known
    assert given.imu.density_acc == pytest.approx(rig.imu.density_acc, rel=1e-12)
    kept = [line for line in lines if "_density" not in line and "_random_walk" not in line]
    path.write_text("\n".join([*kept, "imu_rate: 199.36"]))
    assert read_any_rig(path).imu.density_acc == pytest.approx(rig.imu.density_acc, rel=1e-15)


@pytest.mark.parametrize(
    ("tool", "number", "keys", "words"),
    [
        ("kalibr", 0, ("cam0", "timeshift_cam_imu"), "t_imu = t_cam + timeshift_cam_imu"),
        ("openvins", 1, ("cam0", "timeshift_cam_imu"), "t_imu = t_cam + timeshift_cam_imu"),
        ("vins-fusion", 0, ("td",), "image clock + td = IMU clock"),
        ("orbslam3", 0, ("maci2.time_offset",), "t_imu = t_camera + maci2.time_offset"),
    ],
)
def test_a_time_offset_stands_in_every_file_with_its_sign(tool, number, keys, words, rig, tmp_path):
    path = write_rig(tmp_path, replace(rig, time_offset_s=-0.0123456789), tool)[number]
    value = plain_yaml(path)
    for key in keys:
        value = value[key]
    assert value == -0.0123456789
    assert words in path.read_text()
    assert read_any_rig(tmp_path).time_offset_s == -0.0123456789


@pytest.mark.parametrize(("tool", "number"), [("kalibr", 0), ("openvins", 1)])
def test_cameras_with_different_time_offsets_are_refused(tool, number, rig, tmp_path):
    path = write_rig(tmp_path, rig, tool)[number]
    edited(path, "timeshift_cam_imu: 0.0\n", "timeshift_cam_imu: 0.004\n")
    assert "time offsets of the cameras differ by 4.000 ms, needed at most 1" in refusal(tmp_path)


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != "kalibr"])
def test_a_rig_without_extrinsics_has_no_file_but_kalibrs(tool, rig, tmp_path):
    unknown = replace(rig, extrinsics_known=False)
    with pytest.raises(CalibrationError, match="Run `maci2 calibrate` with this file"):
        write_rig(tmp_path, unknown, tool)
    write_rig(tmp_path, unknown, "kalibr")
    assert not read_any_rig(tmp_path).extrinsics_known


def edited(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


def refusal(path) -> str:
    with pytest.raises(CalibrationError) as raised:
        read_any_rig(path)
    return str(raised.value)


def test_noise_edited_in_one_place_only_is_not_guessed_about(rig, tmp_path):
    path = write_rig(tmp_path, rig, "vins-fusion")[0]
    line = next(line for line in path.read_text().splitlines() if line.startswith("acc_n:"))
    assert "acc_n is 0.5, but the density below it" in refusal(edited(path, line, "acc_n: 0.5"))


@pytest.mark.parametrize(
    ("tool", "old", "new", "words"),
    [
        ("vins-fusion", ", 0.0, 0.0, 0.0, 1.0]", "]", "body_T_cam0"),
        ("vins-fusion", "num_of_cam: 2", "num_of_cam: 3", "num_of_cam is 3, needed 1 or 2"),
        ("vins-fusion", "body_T_cam1", "body_T_cam2", "body_T_cam1 or cam1_calib is missing"),
        ("orbslam3", "Camera1.fy", "Camera1.f", "key 'Camera1.fy' is missing, needed a number"),
        ("orbslam3", "IMU.NoiseAcc", "IMU.Noise", "key 'IMU.NoiseAcc' is missing"),
        ("orbslam3", "Camera.type: ", "Camera.type: Fisheye #", "'Fisheye', needed PinHole"),
    ],
)
def test_what_is_missing_or_not_understood_is_named(tool, old, new, words, rig, tmp_path):
    assert words in refusal(edited(write_rig(tmp_path, rig, tool)[0], old, new))


def test_a_third_radial_coefficient_is_read_and_written(rig, tmp_path):
    lens = np.array([0.1, -0.2, 1e-3, 2e-3, 0.3])
    cameras = tuple(replace(c, distortion_model="radtan", distortion=lens) for c in rig.cameras)
    (path,) = write_rig(tmp_path, replace(rig, cameras=cameras), "orbslam3")
    assert plain_yaml(path)["Camera2.k3"] == 0.3
    np.testing.assert_array_equal(read_any_rig(path).cameras[1].distortion, lens)
    for tool in ("kalibr", "openvins"):
        with pytest.raises(CalibrationError, match="hold k1, k2, p1, p2 alone"):
            write_rig(tmp_path / tool, replace(rig, cameras=cameras), tool)
        assert not (tmp_path / tool).exists()


def test_a_rotation_that_is_none_is_refused(rig, tmp_path):
    (path,) = write_rig(tmp_path, rig, "orbslam3")
    first = repr(float(rig.cameras[0].T_b_c[0, 0]))
    assert "IMU.T_b_c1 is not orthonormal" in refusal(edited(path, f"[{first}", "[0.9"))


@pytest.mark.parametrize("tool", TOOLS)
def test_one_camera_is_written_to_every_tool_and_read_back(tool, rig, tmp_path):
    alone = replace(rig, cameras=rig.cameras[:1])
    write_rig(tmp_path, alone, tool)
    (camera,) = read_any_rig(tmp_path).cameras
    np.testing.assert_allclose(camera.T_b_c, rig.cameras[0].T_b_c, rtol=0, atol=1e-15)


@pytest.mark.parametrize("tool", TOOLS)
def test_four_cameras_are_kept_or_refused(tool, rig, tmp_path):
    four = replace(rig, cameras=rig.cameras + rig.cameras[::-1])
    if tool in ("kalibr", "openvins"):
        write_rig(tmp_path, four, tool)
        again = read_any_rig(tmp_path).cameras
        for camera, given in zip(again, four.cameras, strict=True):
            np.testing.assert_allclose(camera.T_b_c, given.T_b_c, rtol=0, atol=1e-14)
        return
    with pytest.raises(CalibrationError, match="has 4 cameras"):
        write_rig(tmp_path, four, tool)
    assert list(tmp_path.iterdir()) == []
