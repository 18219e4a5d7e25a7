"""Errors of an IMU undone, against the readings that they make."""

import json
from dataclasses import replace

import numpy as np
import pytest

from helpers import raw_readings
from maci2.datasets import open_recording
from maci2.geometry import so3_exp
from maci2.rigs import read_any_rig, write_camchain, write_imu_yaml, write_rig
from maci2.sensors.corrections import (
    apply_intrinsics,
    corrected_readings,
    ideal_intrinsics,
    is_ideal,
    lower_triangular,
)
from maci2.sensors.rig_types import ImuIntrinsics
from maci2.sensors.types import ImuSamples


def some_intrinsics(seed: int = 0, offsets: bool = False) -> ImuIntrinsics:
    rng = np.random.default_rng(seed)
    lower = np.tril(np.ones((3, 3)))
    return ImuIntrinsics(
        M_gyro=np.eye(3) + 0.02 * lower * rng.standard_normal((3, 3)),
        R_gyro_b=so3_exp(0.05 * rng.standard_normal(3)),
        M_acc=np.eye(3) + 0.02 * lower * rng.standard_normal((3, 3)),
        R_acc_b=np.eye(3),
        g_sensitivity=1e-3 * rng.standard_normal((3, 3)),
        offset_gyro=0.01 * rng.standard_normal(3) * offsets,
        offset_acc=0.1 * rng.standard_normal(3) * offsets,
    )


def some_samples(seed: int = 1) -> ImuSamples:
    rng = np.random.default_rng(seed)
    stamps_ns = 5_000_000 * np.arange(50, dtype=np.int64)
    return ImuSamples(stamps_ns, rng.standard_normal((50, 3)), 9.0 * rng.standard_normal((50, 3)))


def test_a_scale_of_two_percent_is_undone_by_hand():
    ideal = ideal_intrinsics()
    assert is_ideal(ideal)
    intrinsics = replace(ideal, M_gyro=np.diag([1.02, 1.0, 1.0]), M_acc=np.diag([1.0, 0.5, 1.0]))
    assert not is_ideal(intrinsics)
    gyro, acc = corrected_readings(
        np.array([1.02, 2.0, 3.0]), np.array([1.0, 2.0, 3.0]), intrinsics
    )
    np.testing.assert_allclose(gyro, [1.0, 2.0, 3.0], rtol=1e-15)
    np.testing.assert_allclose(acc, [1.0, 4.0, 3.0], rtol=1e-15)


def test_g_sensitivity_takes_away_what_the_force_put_into_the_rate():
    G = np.zeros((3, 3))
    G[0, 2] = 0.01
    intrinsics = replace(ideal_intrinsics(), g_sensitivity=G)
    gyro, _ = corrected_readings(
        np.array([0.0981, 0.0, 0.0]), np.array([0.0, 0.0, 9.81]), intrinsics
    )
    np.testing.assert_allclose(gyro, np.zeros(3), atol=1e-16)


def test_undoing_the_errors_gives_back_what_the_body_felt():
    samples, intrinsics = some_samples(), some_intrinsics(offsets=True)
    again = apply_intrinsics(raw_readings(samples, intrinsics), intrinsics)
    np.testing.assert_allclose(again.gyro, samples.gyro, atol=1e-13)
    np.testing.assert_allclose(again.acc, samples.acc, atol=1e-13)


def test_any_matrix_is_a_lower_triangle_times_a_rotation():
    rng = np.random.default_rng(4)
    M, R = np.eye(3) + 0.1 * rng.standard_normal((3, 3)), so3_exp(rng.standard_normal(3))
    L, Q = lower_triangular(M, R)
    np.testing.assert_allclose(L @ Q, M @ R, atol=1e-14)
    np.testing.assert_allclose(np.triu(L, 1), 0.0, atol=1e-15)
    np.testing.assert_allclose(Q @ Q.T, np.eye(3), atol=1e-14)
    assert np.linalg.det(Q) > 0.0


@pytest.mark.parametrize("tool", ["kalibr", "openvins"])
def test_files_of_tools_that_know_intrinsics_keep_their_effect(tool, small_files, tmp_path):
    rig = open_recording(small_files / "euroc_mini").rig
    intrinsics = some_intrinsics()
    write_rig(tmp_path, replace(rig, imu_intrinsics=intrinsics), tool)
    found = read_any_rig(tmp_path).imu_intrinsics
    assert found is not None
    raw = some_samples()
    expected, read = apply_intrinsics(raw, intrinsics), apply_intrinsics(raw, found)
    np.testing.assert_allclose(read.gyro, expected.gyro, atol=1e-12)
    np.testing.assert_allclose(read.acc, expected.acc, atol=1e-12)


def test_openvins_files_hold_a_rotated_accelerometer_and_kalibrs_refuse_it(small_files, tmp_path):
    rig = open_recording(small_files / "euroc_mini").rig
    intrinsics = replace(some_intrinsics(), R_acc_b=so3_exp(np.array([0.1, 0.0, 0.0])))
    rotated = replace(rig, imu_intrinsics=intrinsics)
    write_rig(tmp_path / "openvins", rotated, "openvins")
    found = read_any_rig(tmp_path / "openvins").imu_intrinsics
    assert found is not None
    np.testing.assert_allclose(found.R_acc_b, intrinsics.R_acc_b, atol=1e-12)
    with pytest.raises(Exception, match="rotated against the body"):
        write_rig(tmp_path / "kalibr", rotated, "kalibr")


@pytest.mark.parametrize("tool", ["vins-fusion", "orbslam3"])
def test_files_without_a_place_for_intrinsics_are_not_written(tool, small_files, tmp_path):
    rig = open_recording(small_files / "euroc_mini").rig
    with pytest.raises(Exception, match="have no place for them"):
        write_rig(tmp_path, replace(rig, imu_intrinsics=some_intrinsics()), tool)
    assert list(tmp_path.iterdir()) == []


def test_a_recording_opened_with_intrinsics_has_corrected_samples(small_files, tmp_path):
    own = open_recording(small_files / "euroc_mini")
    intrinsics = some_intrinsics()
    write_camchain(tmp_path / "camchain-imucam.yaml", own.rig)
    write_imu_yaml(tmp_path / "imu.yaml", own.rig.imu, intrinsics)
    opened = open_recording(small_files / "euroc_mini", tmp_path)
    expected = apply_intrinsics(own.imu, intrinsics)
    np.testing.assert_allclose(opened.imu.gyro, expected.gyro, atol=1e-12)
    np.testing.assert_allclose(opened.imu.acc, expected.acc, atol=1e-12)
    # Nobody corrects them a second time.
    assert opened.rig.imu_intrinsics is None
    assert any("corrected by the IMU intrinsics" in note for note in opened.notes)


@pytest.mark.dataset
def test_raw_readings_of_tum_vi_become_its_calibrated_ones(data_root, tmp_path):
    """calibrated = M raw + c, fitted by others to both versions of room1."""
    fitted = json.loads((data_root / "tumvi/calib/imu_raw_to_calibrated.json").read_text())
    recording = open_recording(data_root / "tumvi" / "dataset-room1_512_16")
    M = {key: np.array(fitted[key]["M"]) for key in ("gyro", "acc")}
    c = {key: np.array(fitted[key]["c"]) for key in ("gyro", "acc")}
    raw = replace(
        recording.imu,
        gyro=(recording.imu.gyro - c["gyro"]) @ np.linalg.inv(M["gyro"]).T,
        acc=(recording.imu.acc - c["acc"]) @ np.linalg.inv(M["acc"]).T,
    )
    intrinsics = replace(
        ideal_intrinsics(), M_gyro=np.linalg.inv(M["gyro"]), M_acc=np.linalg.inv(M["acc"])
    )
    # Files of Kalibr hold no offsets: they are subtracted before.
    write_camchain(tmp_path / "camchain-imucam.yaml", recording.rig)
    write_imu_yaml(tmp_path / "imu.yaml", recording.rig.imu, intrinsics)
    found = read_any_rig(tmp_path).imu_intrinsics
    assert found is not None
    offsets = {key: -np.linalg.inv(M[key]) @ c[key] for key in ("gyro", "acc")}
    found = replace(found, offset_gyro=offsets["gyro"], offset_acc=offsets["acc"])
    clean = apply_intrinsics(raw, found)
    np.testing.assert_allclose(clean.gyro, recording.imu.gyro, atol=1e-10)
    np.testing.assert_allclose(clean.acc, recording.imu.acc, atol=1e-9)
