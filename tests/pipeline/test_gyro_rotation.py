"""The gyroscope's prediction for vision, against sampled biases and extrinsics."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.calibration_prior import UNVERIFIED
from maci2.geometry import se3_inv, so3_exp, so3_log
from maci2.geometry.gaussian import nees
from maci2.imu import datasheet_model
from maci2.pipeline.vision_sources import GyroRotation, rotation_predictor
from maci2.sensors import on_imu_clock, truth_at
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS
from maci2.vision import rectified_extrinsics


@pytest.fixture(scope="module")
def recording():
    return simulate(SimulationConfig(duration_s=3.0, seed=3))


def camera_rotation(recording, stamps_ns):
    Ts_w_c = truth_at(recording.truth(), stamps_ns, 0.1).Ts_w_b @ rectified_extrinsics(
        recording.rig
    )
    return (se3_inv(Ts_w_c[0]) @ Ts_w_c[1])[:3, :3]


def test_the_prediction_is_the_true_rotation_within_its_covariance(recording):
    stamps_ns = recording.camera_stamps_ns[0][[10, 14]]
    predicted = rotation_predictor(recording)(*stamps_ns.tolist())
    assert predicted.agrees(camera_rotation(recording, stamps_ns), 1e-10 * np.eye(3))


def test_the_covariance_covers_unknown_biases_and_extrinsics(recording):
    """Sampled turn-on biases, scales and rotations of the camera in the body."""
    rng = np.random.default_rng(0)
    imu = datasheet_model(recording.imu, recording.rig.imu)
    T_b_c = rectified_extrinsics(recording.rig)
    start_ns, end_ns = recording.camera_stamps_ns[0][[10, 20]].tolist()
    R_ck_ck1 = GyroRotation(imu, T_b_c)(start_ns, end_ns).R_ck_ck1
    errors, covs = [], []
    for _ in range(400):
        gyro = imu.gyro * (1.0 + UNVERIFIED.gyro_scale * rng.standard_normal(3))
        biased = replace(imu, gyro=gyro + UNVERIFIED.gyro_bias * rng.standard_normal(3))
        tilted = T_b_c.copy()
        tilted[:3, :3] = T_b_c[:3, :3] @ so3_exp(UNVERIFIED.rotation * rng.standard_normal(3))
        predicted = GyroRotation(biased, tilted)(start_ns, end_ns)
        errors.append(so3_log(np.ascontiguousarray(R_ck_ck1 @ predicted.R_ck_ck1.T)))
        covs.append(predicted.cov)
    # 400 draws of chi-square with 3 dof: 99.9 % of their means lie within 0.4 of 3.
    assert nees(np.array(errors), np.array(covs)).mean() == pytest.approx(3.0, abs=0.4)


def test_a_stated_time_offset_is_applied_whatever_clock_the_images_are_on(recording):
    rig = replace(recording.rig, time_offset_s=0.05)
    early = tuple(stamps - 50_000_000 for stamps in recording.camera_stamps_ns)
    on_camera = replace(recording, rig=rig, camera_stamps_ns=early)
    on_imu = on_imu_clock(on_camera)
    first, second = (
        rotation_predictor(one)(*one.camera_stamps_ns[0][[10, 14]].tolist())
        for one in (on_camera, on_imu)
    )
    np.testing.assert_array_equal(first.R_ck_ck1, second.R_ck_ck1)


def test_nothing_is_predicted_without_samples_or_extrinsics(recording):
    stamps_ns = recording.camera_stamps_ns[0]
    assert rotation_predictor(recording)(int(stamps_ns[0]), int(stamps_ns[0]) + 100 * NS) is None
    unknown = replace(recording, rig=replace(recording.rig, extrinsics_known=False))
    assert rotation_predictor(unknown)(*stamps_ns[[10, 14]].tolist()) is None


def test_the_derivatives_by_shared_errors_are_those_of_finite_differences(recording):
    """Bias, scale, rotation of the extrinsics and clock, one standard deviation over ten each."""
    imu = datasheet_model(recording.imu, recording.rig.imu)
    T_b_c = rectified_extrinsics(recording.rig)
    start_ns, end_ns = recording.camera_stamps_ns[0][[10, 14]].tolist()
    predicted = GyroRotation(imu, T_b_c)(start_ns, end_ns)

    def away(imu=imu, T_b_c=T_b_c, shift_ns=0):
        R_ck_ck1 = GyroRotation(imu, T_b_c, shift_ns)(start_ns, end_ns).R_ck_ck1
        return 10.0 * so3_log(np.ascontiguousarray(R_ck_ck1 @ predicted.R_ck_ck1.T))

    columns = []
    std_bias = 0.1 * UNVERIFIED.gyro_bias * np.eye(3)
    columns += [away(replace(imu, gyro=imu.gyro - one)) for one in std_bias]
    scales = 0.1 * UNVERIFIED.gyro_scale * np.eye(3)
    columns += [away(replace(imu, gyro=imu.gyro * (1.0 - one))) for one in scales]
    for one in 0.1 * UNVERIFIED.rotation * np.eye(3):
        tilted = T_b_c.copy()
        tilted[:3, :3] = T_b_c[:3, :3] @ so3_exp(-one)
        columns.append(away(T_b_c=tilted))
    columns.append(away(shift_ns=round(0.1 * UNVERIFIED.camera_clock_s * NS)))
    by_shared = np.column_stack(columns)
    # Second order of a tenth of a standard deviation.
    np.testing.assert_allclose(predicted.by_shared[:, :9], by_shared[:, :9], atol=2e-5)
    # The rate at a timestamp is a mean over 20 ms inside the interval.
    np.testing.assert_allclose(predicted.by_shared[:, 9], by_shared[:, 9], rtol=0.1, atol=1e-4)
