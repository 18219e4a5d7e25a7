"""The camera's clock against the IMU's."""

import numpy as np
import pytest

from helpers import chi_square_band, pose_errors, simulated_window
from maci2.calibration import calibrate
from maci2.consistency import initialize
from maci2.errors import MeasurementError
from maci2.estimator import SolverConfig
from maci2.estimator.initial_guess import coarse_time_offset, shifted
from maci2.geometry.gaussian import nees
from maci2.imu import datasheet_model
from maci2.simulation import SimulationConfig, simulate
from maci2.vision import pose_noise, poses_from_truth

WITH_OFFSET = SolverConfig(estimate_time_offset=True)


def recorded(seed, kind="handheld", duration_s=22.0, spacing=6):
    """IMU samples and camera motion of one simulated recording, timestamps exact."""
    recording = simulate(SimulationConfig(kind=kind, duration_s=duration_s, seed=seed))
    T_b_c = recording.rig.cameras[0].T_b_c
    stamps_ns = recording.camera_stamps_ns[0][10:-10:spacing]
    vision = poses_from_truth(recording.truth(), stamps_ns, T_b_c, pose_noise(0.05, 0.003), (seed,))
    return datasheet_model(recording.imu, recording.rig.imu), vision, T_b_c


@pytest.mark.parametrize("offset_s", [-0.02, 0.0, 0.02, 0.063])
def test_an_offset_is_found_to_half_a_millisecond_and_spoils_no_extrinsics(offset_s):
    imu, vision, T_b_c = recorded(seed=3)
    late = shifted(vision, -offset_s)
    result = calibrate(imu, late, WITH_OFFSET)
    assert result.verdict.status == "ok", result.verdict
    assert result.report.time_offset_s == pytest.approx(offset_s, abs=5e-4)
    assert 0.0 < result.report.std_time_offset_s < 5e-4
    error = pose_errors(result.state.T_b_c[None], T_b_c[None])[0]
    assert np.rad2deg(np.linalg.norm(error[3:])) < 0.05
    assert np.linalg.norm(error[:3]) < 0.004


def test_an_offset_that_is_not_asked_for_spoils_the_fit():
    imu, vision, _ = recorded(seed=3)
    blind = calibrate(imu, shifted(vision, -0.02))
    assert blind.report.inflation > 5.0
    assert blind.report.time_offset_s is None


def test_initialization_finds_an_offset_on_request():
    imu, vision, T_b_c = recorded(seed=4, duration_s=6.0, spacing=5)
    result = initialize(imu, shifted(vision, -0.03), T_b_c, WITH_OFFSET)
    away = abs(result.report.time_offset_s - 0.03)
    assert away < 4.0 * result.report.std_time_offset_s < 0.02


def test_rotations_alone_find_the_offset_to_a_step_of_the_grid():
    imu, vision, T_b_c = recorded(seed=5)
    for offset_s in (-0.05, 0.011, 0.08):
        for R_b_c in (None, T_b_c[:3, :3]):
            found = coarse_time_offset(imu, shifted(vision, -offset_s), "midpoint", R_b_c)
            assert found == pytest.approx(offset_s, abs=0.005)


def test_an_offset_that_the_motion_does_not_show_is_near_its_prior_after_few_solves():
    # A device at rest: the solution must not follow the noise of the samples from place to place.
    window = simulated_window("static", 3, steps=12)
    inner = window.vision.part(1, 11)
    result = initialize(window.imu, inner, window.truth.T_b_c, WITH_OFFSET)
    assert result.report.solves <= 3
    assert abs(result.report.time_offset_s) < 2.0 * result.report.std_time_offset_s


def test_samples_too_few_for_a_search_are_named():
    window = simulated_window("handheld", 3)
    short = window.vision.part(0, 4)
    imu = window.imu.between(int(short.stamps_ns[1]), int(short.stamps_ns[1]) + 100_000_000)
    with pytest.raises(MeasurementError, match=r"needed 0\.1 s beyond the keyframes"):
        initialize(imu, short, window.truth.T_b_c, WITH_OFFSET)


@pytest.mark.slow
def test_errors_match_their_covariance_where_the_clocks_differ():
    extrinsics, away = [], []
    rng = np.random.default_rng(8)
    for seed in range(130_000, 130_300):
        window = simulated_window("handheld", seed, steps=24, bias_acc_std=0.1, bias_gyro_std=0.1)
        offset_s = float(rng.uniform(-0.05, 0.05))
        result = calibrate(window.imu, shifted(window.vision, -offset_s), WITH_OFFSET)
        error = pose_errors(result.state.T_b_c[None], window.truth.T_b_c[None])[0]
        extrinsics.append(nees(error, result.posterior.T_b_c) / 6.0)
        away.append((result.report.time_offset_s - offset_s) / result.report.std_time_offset_s)
    low, high = chi_square_band(1, len(away))
    assert low < np.mean(np.square(away)) < high
    assert 0.9 < np.mean(extrinsics) < 1.1
