"""Kalibr YAML in and out."""

import numpy as np
import pytest
import yaml

from maci2.datasets import open_recording
from maci2.errors import CalibrationError
from maci2.rigs import (
    read_rig,
    require_noise,
    write_camchain,
    write_imu_yaml,
)
from maci2.rigs.kalibr import read_imu_file


def damaged(folder, name, old, new):
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


def message_of(read, path):
    with pytest.raises(CalibrationError) as raised:
        read(path)
    assert str(path) in str(raised.value)
    return str(raised.value)


def test_t_cam_imu_is_the_inverse_of_t_b_c(small_files):
    camera = read_rig(small_files / "kalibr" / "camchain.yaml").cameras[0]
    # R^T and -R^T t of the matrix in the file, by hand.
    expected = [[0, -1, 0, 0.25], [1, 0, 0, -0.5], [0, 0, 1, 1.0], [0, 0, 0, 1]]
    np.testing.assert_allclose(camera.T_b_c, expected, atol=1e-15)
    np.testing.assert_array_equal(camera.intrinsics, [190.97, 190.96, 254.93, 256.89])
    np.testing.assert_array_equal(camera.distortion, [0.0034, 0.0007, -0.0020, 0.0002])


def test_a_camera_without_t_cam_imu_is_chained_from_the_one_before(small_files):
    right = read_rig(small_files / "kalibr" / "camchain.yaml").cameras[1]
    # T_c1_b = T_c1_c0 T_c0_b: the camera sits 0.125 m along its own x, which is the body's y.
    np.testing.assert_allclose(right.T_b_c[:3, 3], [0.25, -0.375, 1.0], atol=1e-15)


def test_imu_noise_is_read_with_and_without_a_top_key(small_files):
    nested, _ = read_imu_file(small_files / "kalibr" / "imu.yaml")
    flat, _ = read_imu_file(small_files / "tumvi_mini" / "dso" / "imu_config.yaml")
    assert (nested.density_acc, nested.walk_acc) == (0.0028, 0.00086)
    assert (nested.density_gyro, nested.walk_gyro, nested.rate_hz) == (0.00016, 2.2e-5, 200.0)
    assert (flat.density_acc, flat.density_gyro) == (0.0014, 0.00008)


def test_a_written_camchain_reads_back_the_same_numbers(small_files, tmp_path):
    rig = open_recording(small_files / "euroc_mini").rig
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    rig.cameras[0].T_b_c[:3, :3] = rotation * np.sign(np.linalg.det(rotation))
    path = tmp_path / "out" / "camchain-imucam.yaml"
    write_camchain(path, rig)
    write_imu_yaml(path.parent / "imu.yaml", rig.imu)
    again = read_rig(path)
    for camera, read in zip(rig.cameras, again.cameras, strict=True):
        np.testing.assert_allclose(read.T_b_c, camera.T_b_c, atol=1e-14)
        np.testing.assert_array_equal(read.intrinsics, camera.intrinsics)
        np.testing.assert_array_equal(read.distortion, camera.distortion)
        assert read.distortion_model == camera.distortion_model
    assert again.imu == rig.imu
    text = path.read_text()
    assert "# T_cam_imu takes points from the IMU" in text
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, "imu.yaml"]


def test_a_camchain_alone_replaces_cameras_and_keeps_the_own_imu(small_files, tmp_path):
    own = open_recording(small_files / "euroc_mini").rig
    rig = read_rig(small_files / "kalibr" / "camchain.yaml")
    write_camchain(tmp_path / "calibrated.yaml", rig)
    mixed = open_recording(small_files / "euroc_mini", tmp_path / "calibrated.yaml").rig
    assert mixed.imu == own.imu
    assert mixed.cameras[0].distortion_model == "equidistant"
    assert mixed.cameras[0].rate_hz == pytest.approx(20.0)


def test_a_folder_with_two_imu_files_is_not_guessed_about(small_copy):
    folder = small_copy("kalibr")
    (folder / "imu.yaml").rename(folder / "imu_a.yaml")
    (folder / "imu_b.yaml").write_text((folder / "imu_a.yaml").read_text())
    rig = read_rig(folder)
    assert rig.cameras
    with pytest.raises(CalibrationError, match="give --imu-noise FILE"):
        require_noise(rig, "this test")


def test_an_unknown_key_is_named_with_the_accepted_ones(small_copy):
    folder = small_copy("kalibr")
    path = damaged(folder, "camchain.yaml", "cam_overlaps", "cam_overlap")
    message = message_of(read_rig, path)
    assert "unknown key 'cam0.cam_overlap'" in message
    assert "cam_overlaps" in message


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "camera_model: pinhole",
            "camera_model: mirror",
            ("camera_model", "'mirror'", "'pinhole'"),
        ),
        ("model: equidistant", "model: spline", ("distortion_model", "'spline'", "'equidistant'")),
        ("camera_model: pinhole", "camera_model: omni", ("needed 5 for the model 'omni'", "xi")),
    ],
)
def test_an_unknown_model_is_named_with_the_accepted_ones(small_copy, old, new, words):
    path = damaged(small_copy("kalibr"), "camchain.yaml", old, new)
    message = message_of(read_rig, path)
    assert "cam0" in message
    assert all(word in message for word in words)


def test_a_rotation_that_is_not_orthonormal_is_refused_with_its_error(small_copy):
    path = damaged(small_copy("kalibr"), "camchain.yaml", "[0.0, 1.0, 0.0, 0.5]", "[0, 1.01, 0, 0]")
    message = message_of(read_rig, path)
    assert "cam0.T_cam_imu" in message
    # 1.01^2 - 1
    assert "0.0201" in message


def test_rounded_digits_are_projected_to_the_nearest_rotation(small_copy):
    path = damaged(
        small_copy("kalibr"), "camchain.yaml", "[0.0, 1.0, 0.0, 0.5]", "[0, 0.9999, 0, 0.5]"
    )
    R_b_c = read_rig(path).cameras[0].T_b_c[:3, :3]
    np.testing.assert_allclose(R_b_c.T @ R_b_c, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(R_b_c[1, 0], 1.0, atol=1e-14)


def test_a_reflection_is_refused(small_copy):
    path = damaged(
        small_copy("kalibr"), "camchain.yaml", "[0.0, 0.0, 1.0, -1.0]", "[0.0, 0.0, -1.0, -1.0]"
    )
    assert "determinant -1" in message_of(read_rig, path)


def test_a_chain_that_places_the_second_camera_alone_is_refused(small_copy):
    path = small_copy("kalibr") / "camchain.yaml"
    chain = yaml.safe_load(path.read_text().partition("\n")[2])
    chain["cam1"]["T_cam_imu"] = chain["cam0"].pop("T_cam_imu")
    path.write_text(yaml.safe_dump(chain))
    assert "cam0 has no T_cam_imu" in message_of(read_rig, path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("- [1.0, 0.0, 0.0, 0.0]", "- [1.0, 0.0, 0.0, 0.25]", "T_i_b differs from the identity"),
        ("- [ 1.0, 0.0, 0.0 ]", "- [ 1.82, 0.0, 0.0 ]", "Tw differs from the identity by 0.82"),
        ("- [ 0.0, 0.0, 0.0 ]", "- [ 0.0, 1.5, 0.0 ]", "g-sensitivity has an entry of 1.5"),
        ("density: 0.00016", "density: 1.1", "noise density is 1.1 rad/s/sqrt(Hz), possible are"),
        ("update_rate: 200.0", "update_rate: -5", "imu0.update_rate"),
        ("update_rate", "update_rates", "unknown key 'imu0.update_rates'; meant is probably"),
        ("gyroscope_noise_density: 0.00016", "gyroscope_noise_density: x", "imu0.gyroscope"),
    ],
)
def test_imu_entries_that_would_be_lost_or_make_no_sense_are_refused(small_copy, old, new, words):
    path = damaged(small_copy("kalibr"), "imu.yaml", old, new)
    assert words in message_of(read_imu_file, path)


def test_cameras_without_a_place_on_the_imu_keep_their_place_beside_each_other(small_copy):
    """As Kalibr's camera calibration writes it."""
    folder = small_copy("kalibr")
    known = read_rig(folder)
    chain = yaml.safe_load((folder / "camchain.yaml").read_text().partition("\n")[2])
    del chain["cam0"]["T_cam_imu"]
    (folder / "camchain.yaml").write_text(yaml.safe_dump(chain))
    rig = read_rig(folder)
    assert known.extrinsics_known
    assert not rig.extrinsics_known
    np.testing.assert_array_equal(rig.cameras[0].T_b_c, np.eye(4))
    np.testing.assert_array_equal(rig.cameras[1].T_b_c[:3, 3], [0.125, 0.0, 0.0])
    write_camchain(folder / "again.yaml", rig)
    assert "T_cam_imu" not in yaml.safe_load((folder / "again.yaml").read_text())["cam0"]


def test_a_file_that_is_not_yaml_and_a_missing_one_are_named(tmp_path):
    path = tmp_path / "camchain.yaml"
    assert "not found" in message_of(read_rig, path)
    path.write_text("cam0: [1, 2")
    assert "not a YAML file" in message_of(read_rig, path)
    path.write_text("- 1\n")
    assert "needed keys and values" in message_of(read_rig, path)


def test_a_camchain_without_an_imu_file_is_cameras_alone_and_says_what_to_give(small_copy):
    folder = small_copy("kalibr")
    (folder / "imu.yaml").unlink()
    rig = read_rig(folder)
    assert len(rig.cameras) == 2
    assert not rig.noise_known
    with pytest.raises(CalibrationError) as raised:
        require_noise(rig, "initialization")
    assert "needed for initialization. If the file has noise without a rate" in str(raised.value)
    assert "put Kalibr's imu.yaml beside the file" in str(raised.value)


@pytest.mark.parametrize(
    ("camchain", "imu"),
    [
        ("2022-10-08-00-57-54-camchain-imucam.yaml", "2022-10-08-00-57-54-imu.yaml"),
        ("camchain-imucam-homebag.yaml", "imu-homebag.yaml"),
        ("kalibr_imucam_chain.yaml", "kalibr_imu_chain.yaml"),
    ],
)
def test_kalibrs_own_names_are_found_and_the_chain_with_extrinsics_preferred(
    small_copy, camchain, imu
):
    folder = small_copy("kalibr")
    expected = read_rig(folder)
    without = (folder / "camchain.yaml").read_text().replace("T_cam_imu", "T_other")
    (folder / "camchain.yaml").rename(folder / camchain)
    (folder / "imu.yaml").rename(folder / imu)
    if "camchain-imucam" in camchain:
        (folder / camchain.replace("-imucam", "")).write_text(without)
    rig = read_rig(folder)
    assert rig.source.endswith(f"{camchain} (Kalibr camchain-imucam)")
    assert rig.extrinsics_known
    assert rig.imu == expected.imu
