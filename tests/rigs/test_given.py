"""Parts of a calibration that a user gives beside the file."""

import numpy as np
import pytest

from maci2.datasets import open_recording
from maci2.errors import CalibrationError, OptionError
from maci2.rigs import given_by, read_any_rig

T_B_C = [[0.0, -1.0, 0.0, 0.5], [1.0, 0.0, 0.0, 0.25], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]]
ROWS = ",".join(str(value) for row in T_B_C for value in row)


def test_noise_as_numbers_takes_the_rate_of_the_file_or_of_the_option(small_copy):
    folder = small_copy("kalibr")
    (folder / "imu.yaml").unlink()
    numbers = "1e-4,2e-3,1e-5,3e-3"
    with pytest.raises(
        CalibrationError, match=r"Kalibr .* does not state the IMU's rate; give --imu"
    ):
        read_any_rig(folder, given_by(imu_noise=numbers))
    rig = read_any_rig(folder, given_by(400.0, numbers))
    assert rig.noise_known
    assert (rig.imu.density_gyro, rig.imu.density_acc) == (1e-4, 2e-3)
    assert (rig.imu.walk_gyro, rig.imu.walk_acc, rig.imu.rate_hz) == (1e-5, 3e-3, 400.0)


def test_noise_of_a_file_replaces_that_beside_the_cameras(small_copy, small_files, tmp_path):
    text = (small_files / "kalibr" / "imu.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace("0.0028", "0.005"))
    rig = read_any_rig(small_copy("kalibr"), given_by(imu_noise=str(tmp_path / "mine.yaml")))
    assert rig.imu.density_acc == 0.005


def test_a_given_place_moves_all_cameras_with_the_first(small_copy):
    folder = small_copy("kalibr")
    before = read_any_rig(folder).cameras
    rig = read_any_rig(folder, given_by(T_b_c=ROWS))
    np.testing.assert_array_equal(rig.cameras[0].T_b_c, T_B_C)
    np.testing.assert_allclose(
        np.linalg.inv(rig.cameras[0].T_b_c) @ rig.cameras[1].T_b_c,
        np.linalg.inv(before[0].T_b_c) @ before[1].T_b_c,
        atol=1e-15,
    )


@pytest.mark.parametrize(
    ("key", "T"), [("T_b_c", T_B_C), ("T_cam_imu", np.linalg.inv(T_B_C).tolist())]
)
def test_a_place_is_read_from_a_file_in_both_directions(key, T, small_copy, tmp_path):
    (tmp_path / "place.yaml").write_text(f"{key}: {T}\n")
    given = given_by(T_b_c=str(tmp_path / "place.yaml"))
    np.testing.assert_allclose(
        read_any_rig(small_copy("kalibr"), given).cameras[0].T_b_c, T_B_C, atol=1e-15
    )


def test_a_recordings_own_calibration_is_completed_too(small_files):
    own = open_recording(small_files / "euroc_mini").rig
    rig = open_recording(small_files / "euroc_mini", given=given_by(100.0, T_b_c=ROWS)).rig
    assert rig.imu.rate_hz == 100.0
    assert rig.imu.density_acc == own.imu.density_acc
    np.testing.assert_array_equal(rig.cameras[0].T_b_c, T_B_C)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"imu_rate": 0.0}, "--imu-rate is 0, needed more than 0"),
        ({"imu_rate": float("nan")}, "--imu-rate is nan"),
        ({"imu_noise": "1,2,3"}, "--imu-noise is '1,2,3', needed a Kalibr imu.yaml or GYRO,ACC"),
        ({"imu_noise": "1,inf,3,4"}, "needed a Kalibr imu.yaml"),
        ({"imu_noise": "5,1,1,1"}, "--imu-noise: IMU noise density_gyro is 5 rad/s"),
        ({"imu_noise": "absent.yaml"}, "absent.yaml: file not found"),
        ({"T_b_c": "1,2,3"}, "--T-b-c has 3 numbers, needed a file with T_b_c or 16"),
        ({"T_b_c": ",".join(["2"] * 12)}, "T_b_c is not orthonormal"),
        ({"T_b_c": "absent.yaml"}, "absent.yaml: file not found"),
    ],
)
def test_options_without_meaning_are_refused(options, words):
    with pytest.raises((OptionError, CalibrationError)) as raised:
        given_by(**options)
    assert words in str(raised.value)
