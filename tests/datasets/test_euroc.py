"""EuRoC layout: numbers of a ten-line recording, and what is said of damaged ones."""

import numpy as np
import pytest

from maci2.datasets import open_recording, read_euroc
from maci2.errors import CalibrationError, DatasetError, Maci2Error

FIRST_NS = 1403636579758555392


def test_imu_samples_are_the_numbers_of_the_file(small_files):
    imu = read_euroc(small_files / "euroc_mini").imu
    assert len(imu) == 10
    assert imu.stamps_ns.dtype == np.int64
    assert imu.stamps_ns[0] == FIRST_NS
    # One nanosecond beyond the grid: lost if timestamps went through float.
    assert imu.stamps_ns[-1] == FIRST_NS + 45_000_001
    np.testing.assert_array_equal(imu.gyro[3], [0.13, -0.2, 0.3])
    np.testing.assert_array_equal(imu.acc[3], [0.2, 0.25, 9.81])


def test_calibration_is_the_numbers_of_the_sensor_files(small_files):
    rig = read_euroc(small_files / "euroc_mini").rig
    left, right = rig.cameras
    expected = [[0, -1, 0, 0.1], [1, 0, 0, 0.2], [0, 0, 1, 0.3], [0, 0, 0, 1]]
    np.testing.assert_allclose(left.T_b_c, expected, atol=1e-15)
    np.testing.assert_array_equal(left.intrinsics, [458.5, 457.5, 367.25, 248.75])
    np.testing.assert_array_equal(left.distortion, [-0.28, 0.07, 0.0002, 1.75e-5])
    assert (left.distortion_model, left.resolution, left.rate_hz) == ("radtan", (752, 480), 20.0)
    assert right.T_b_c[0, 3] == 0.2
    assert rig.imu.density_gyro == 1.6968e-4
    assert rig.imu.density_acc == 2.0e-3
    assert rig.imu.walk_gyro == 1.9393e-5
    assert rig.imu.walk_acc == 3.0e-3
    assert rig.imu.rate_hz == 200.0


def test_every_truth_is_read_and_the_usual_one_comes_first(small_files):
    recording = read_euroc(small_files / "euroc_mini")
    assert list(recording.truths) == ["state_groundtruth_estimate0", "state_groundtruth_other"]
    truth = recording.truth()
    assert truth is recording.truths["state_groundtruth_estimate0"]
    yaw_90 = [[0, -1, 0, 1.5], [1, 0, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]
    np.testing.assert_allclose(truth.Ts_w_b[1], yaw_90, atol=1e-15)
    np.testing.assert_allclose(truth.Ts_w_b[2, :3, :3], np.diag([1, -1, -1]), atol=1e-15)
    np.testing.assert_array_equal(truth.v_w[2], [0.1, 0.2, 0.5])
    np.testing.assert_array_equal(truth.bias_gyro[0], [-0.003, 0.021, 0.078])
    assert np.isnan(truth.bias_acc).all()


def test_a_truth_without_velocity_columns_has_nan_velocity(small_files):
    truth = read_euroc(small_files / "euroc_mini").truths["state_groundtruth_other"]
    assert np.isnan(truth.v_w).all()
    assert np.isnan(truth.bias_gyro).all()
    np.testing.assert_array_equal(truth.Ts_w_b[1, :3, 3], [1.0, 2.0, 3.5])


def test_camera_stamps_survive_windows_line_ends(small_files):
    left, right = read_euroc(small_files / "euroc_mini").camera_stamps_ns
    np.testing.assert_array_equal(left, FIRST_NS + 5_000_000 + 50_000_000 * np.arange(4))
    np.testing.assert_array_equal(left, right)


def test_the_sequence_folder_and_its_mav0_give_the_same_recording(small_files):
    outer = read_euroc(small_files / "euroc_mini")
    inner = read_euroc(small_files / "euroc_mini" / "mav0")
    assert outer.name == inner.name == "euroc_mini"
    np.testing.assert_array_equal(outer.imu.acc, inner.imu.acc)


def damage(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def message_of(folder, error=DatasetError):
    with pytest.raises(error) as raised:
        open_recording(folder)
    return str(raised.value)


def test_a_missing_imu_file_is_named(small_copy):
    folder = small_copy("euroc_mini")
    (folder / "mav0/imu0/data.csv").unlink()
    message = message_of(folder)
    assert "imu0/data.csv" in message
    assert "not found" in message


def test_a_missing_column_is_named_beside_those_found(small_copy):
    folder = small_copy("euroc_mini")
    damage(folder / "mav0/imu0/data.csv", "a_RS_S_z", "temperature")
    message = message_of(folder)
    assert "imu0/data.csv, line 1" in message
    assert "no column 'a_rs_s_z'" in message
    assert "temperature" in message


@pytest.mark.parametrize(
    ("new_ns", "words"),
    [(FIRST_NS + 10_000_000, "duplicate of"), (FIRST_NS + 9_000_000, "earlier than")],
)
def test_stamps_that_do_not_increase_are_shown_with_their_line(small_copy, new_ns, words):
    folder = small_copy("euroc_mini")
    damage(folder / "mav0/imu0/data.csv", str(FIRST_NS + 15_000_000), str(new_ns))
    message = message_of(folder)
    assert "imu0/data.csv, line 5" in message
    assert f"timestamp {new_ns} ns is" in message
    assert words in message
    assert f"{FIRST_NS + 10_000_000} ns on the line before" in message


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_nan_and_infinity_are_shown_with_line_and_column(small_copy, value):
    folder = small_copy("euroc_mini")
    damage(folder / "mav0/imu0/data.csv", "0.12,-0.2", f"0.12,{value}")
    message = message_of(folder)
    assert "imu0/data.csv, line 4" in message
    assert f"w_rs_s_y is {value}" in message
    assert "1 of 10 rows" in message


def test_a_field_that_is_no_number_is_shown_with_its_line(small_copy):
    folder = small_copy("euroc_mini")
    damage(folder / "mav0/imu0/data.csv", "0.12,-0.2", "0.12,oops")
    message = message_of(folder)
    assert "line 4" in message
    assert "'oops', needed a number" in message


def test_a_line_cut_short_is_shown(small_copy):
    folder = small_copy("euroc_mini")
    path = folder / "mav0/imu0/data.csv"
    path.write_text(path.read_text().rstrip()[: -len(",9.81")])
    message = message_of(folder)
    assert "line 11" in message
    assert "a_rs_s_z holds nothing" in message


@pytest.mark.parametrize("rows", [0, 4])
def test_an_empty_or_short_recording_is_counted(small_copy, rows):
    folder = small_copy("euroc_mini")
    path = folder / "mav0/imu0/data.csv"
    path.write_text("\n".join(path.read_text().splitlines()[: rows + 1]) + "\n")
    message = message_of(folder)
    assert str(path) in message
    assert "needed at least 10" in message
    assert ("no samples" if rows == 0 else "found 4 samples") in message


def test_a_file_of_zero_bytes_is_an_empty_recording(small_copy):
    folder = small_copy("euroc_mini")
    (folder / "mav0/imu0/data.csv").write_text("")
    assert "no samples" in message_of(folder)


def test_a_file_without_headings_is_read_in_the_usual_order(small_copy):
    folder = small_copy("euroc_mini")
    path = folder / "mav0/imu0/data.csv"
    path.write_text("\n".join(path.read_text().splitlines()[1:]) + "\n")
    imu = open_recording(folder).imu
    np.testing.assert_array_equal(imu.acc[3], [0.2, 0.25, 9.81])


def test_a_missing_yaml_key_is_named(small_copy):
    folder = small_copy("euroc_mini")
    damage(folder / "mav0/cam0/sensor.yaml", "rate_hz: 20", "")
    message = message_of(folder, CalibrationError)
    assert "cam0/sensor.yaml: key 'rate_hz' is missing" in message


def test_an_extra_yaml_key_is_named_beside_the_accepted_ones(small_copy):
    folder = small_copy("euroc_mini")
    damage(folder / "mav0/cam0/sensor.yaml", "rate_hz: 20", "rate_hz: 20\nshutter: rolling")
    message = message_of(folder, CalibrationError)
    assert "unknown key 'shutter'" in message
    assert "distortion_coefficients" in message


def test_an_imu_away_from_the_body_frame_is_refused(small_copy):
    folder = small_copy("euroc_mini")
    damage(folder / "mav0/imu0/sensor.yaml", "[1.0, 0.0, 0.0, 0.0,", "[1.0, 0.0, 0.0, 0.05,")
    message = message_of(folder, CalibrationError)
    assert "imu0/sensor.yaml" in message
    assert "T_BS differs from the identity by 0.05" in message


def test_a_quaternion_that_is_not_of_unit_length_is_shown_with_its_line(small_copy):
    folder = small_copy("euroc_mini")
    path = folder / "mav0/state_groundtruth_estimate0/data.csv"
    damage(path, "0.707107,0.0,0.0,0.707107", "0.707107,0.0,0.0,0.5")
    message = message_of(folder)
    assert "state_groundtruth_estimate0/data.csv, line 3" in message
    assert "norm is 0.8660, needed 1" in message


def test_an_empty_folder_a_missing_path_and_an_unknown_layout_are_told_apart(tmp_path):
    empty, other = tmp_path / "empty", tmp_path / "other"
    empty.mkdir()
    other.mkdir()
    (other / "notes.txt").write_text("nothing here")
    assert "folder is empty" in message_of(empty)
    assert "no such file or folder" in message_of(tmp_path / "absent")
    message = message_of(other)
    assert "mav0/imu0/data.csv" in message
    assert "found notes.txt" in message
    assert "a file of an unknown kind" in message_of(other / "notes.txt", Maci2Error)


@pytest.mark.dataset
def test_every_real_recording_opens_with_its_known_counts(data_root):
    recording = open_recording(data_root / "euroc" / "V1_01_easy")
    assert len(recording.imu) == 29120
    assert recording.imu.rate_hz == pytest.approx(200.0, abs=0.01)
    assert list(recording.truths) == ["state_groundtruth_estimate0", "state_groundtruth_openvins"]
    for path in sorted((data_root / "euroc").iterdir()):
        opened = open_recording(path)
        assert opened.name == path.name
        assert len(opened.rig.cameras) == 2
