"""TUM-VI folders: tables as in EuRoC, motion capture as truth, Kalibr calibration."""

import shutil

import numpy as np
import pytest

from maci2.datasets import open_recording, read_tumvi
from maci2.errors import CalibrationError


def test_motion_capture_is_the_truth_without_velocity_and_bias(small_files):
    recording = read_tumvi(small_files / "tumvi_mini")
    assert list(recording.truths) == ["mocap0"]
    truth = recording.truth()
    np.testing.assert_allclose(truth.Ts_w_b[2, :3, :3], np.diag([-1, -1, 1]), atol=1e-15)
    np.testing.assert_array_equal(truth.Ts_w_b[2, :3, 3], [0.5, -0.25, 1.27])
    assert np.isnan(truth.v_w).all()
    assert recording.imu.stamps_ns[1] == 1520530308181901469 + 5_016_000


def test_calibration_comes_from_the_dso_folder(small_files):
    rig = open_recording(small_files / "tumvi_mini").rig
    assert rig.imu.density_acc == 0.0014
    assert rig.imu.walk_gyro == 2.2e-6
    assert rig.cameras[0].distortion_model == "equidistant"
    # Kalibr does not say the frame rate; the timestamps do.
    assert rig.cameras[0].rate_hz == pytest.approx(20.0)


def test_a_sibling_calib_folder_is_used_when_there_is_no_dso(small_copy, tmp_path):
    folder = small_copy("tumvi_mini")
    shutil.move(folder / "dso", tmp_path / "calib")
    assert open_recording(folder).rig.imu.density_acc == 0.0014


def test_without_calibration_the_places_looked_at_are_named(small_copy):
    folder = small_copy("tumvi_mini")
    shutil.rmtree(folder / "dso")
    with pytest.raises(CalibrationError) as raised:
        open_recording(folder)
    assert str(folder / "dso") in str(raised.value)
    assert "calib" in str(raised.value)


def test_a_rig_file_given_by_the_caller_wins(small_copy, small_files):
    folder = small_copy("tumvi_mini")
    shutil.rmtree(folder / "dso")
    recording = open_recording(folder, rig_path=small_files / "kalibr" / "camchain.yaml")
    assert recording.rig.imu.density_acc == 0.0028


@pytest.mark.dataset
def test_real_rooms_open_with_their_calibration(data_root):
    recording = open_recording(data_root / "tumvi" / "dataset-room1_512_16")
    assert len(recording.imu) == 28122
    T_c_b = np.linalg.inv(recording.rig.cameras[0].T_b_c)
    assert T_c_b[0, 3] == pytest.approx(0.04727988224914392, abs=1e-12)
    assert recording.rig.imu.density_gyro == 0.00016
