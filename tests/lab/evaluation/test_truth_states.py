"""Truth at IMU timestamps: jumps, gaps, motion capture; and integration errors against it."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.errors import DatasetError
from maci2.geometry import so3_exp
from maci2.geometry.gaussian import nees
from maci2.imu import BiasPrior, datasheet_model
from maci2.sensors import GroundTruth
from maci2.simulation import SimulationConfig, simulate
from maci2.tools.ground_truth.clock import JUMP_M
from maci2.types import NS
from maci2_lab.evaluation.integration_errors import NO_LABEL_NOISE, LabelNoise, integration_errors
from maci2_lab.evaluation.truth_states import truth_states

CLEAN = SimulationConfig(
    kind="drone", duration_s=12.0, seed=3, white_noise=False, bias_walk=False, camera_offset_ns=0,
    bias_gyro_std=0.0, bias_acc_std=0.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def clean():
    return simulate(CLEAN)


def states_of(recording, truth=None):
    return truth_states(recording.imu, truth or recording.truth(), recording.name)


def with_jump(truth: GroundTruth, at: int, metres: float) -> GroundTruth:
    poses = truth.Ts_w_b.copy()
    poses[at:, 0, 3] += metres
    return replace(truth, Ts_w_b=poses)


def thinned(truth: GroundTruth, keep) -> GroundTruth:
    return GroundTruth(
        truth.stamps_ns[keep],
        truth.Ts_w_b[keep],
        truth.v_w[keep],
        truth.bias_gyro[keep],
        truth.bias_acc[keep],
    )


def test_a_sound_truth_is_one_run(clean):
    states = states_of(clean)
    assert states.jumps == states.gaps == 0
    assert (states.run == 0).all()
    assert len(states) == len(clean.truth())


def test_a_jump_ends_a_run_and_windows_across_it_are_left_out_and_counted(clean):
    truth = with_jump(clean.truth(), 1000, 2.0 * JUMP_M)
    states = states_of(clean, truth)
    assert states.jumps == 1
    assert states.run[999] == 0
    assert states.run[1000] == 1
    measured = datasheet_model(clean.imu, clean.rig.imu)
    windows = integration_errors(measured, states, 0.5, 0.1)
    assert windows.left_out == 5
    assert not ((windows.first < 1000) & (windows.last >= 1000)).any()


def test_a_step_below_the_rule_is_no_jump(clean):
    assert states_of(clean, with_jump(clean.truth(), 1000, 0.5 * JUMP_M)).jumps == 0


def test_a_gap_of_the_truth_ends_a_run(clean):
    keep = np.ones(len(clean.truth()), dtype=bool)
    keep[500:600] = False
    states = states_of(clean, thinned(clean.truth(), keep))
    assert states.gaps == 1
    assert states.run.max() == 1


def test_truth_at_20_hz_is_taken_at_its_own_stamps(clean):
    states = states_of(clean, thinned(clean.truth(), np.arange(0, len(clean.truth()), 10)))
    assert (np.diff(states.samples) == 10).all()
    windows = integration_errors(datasheet_model(clean.imu, clean.rig.imu), states, 0.25, 0.1)
    np.testing.assert_allclose(windows.dt, 0.25, atol=1e-6)
    # Noiseless samples: what is left is the midpoint rule's error.
    assert np.abs(windows.e).max() < 2e-3


def test_windows_across_a_gap_of_the_samples_are_left_out_and_counted(clean):
    imu, every = clean.imu, slice(None, None, 10)
    kept = np.r_[0:1004, 1016 : len(imu)]
    gone = replace(imu, stamps_ns=imu.stamps_ns[kept], gyro=imu.gyro[kept], acc=imu.acc[kept])
    states = truth_states(gone, thinned(clean.truth(), every), clean.name)
    found = integration_errors(datasheet_model(gone, clean.rig.imu), states, 0.25, 0.05)
    assert found.left_out >= 5
    assert np.abs(found.e).max() < 1e-3


def test_motion_capture_gets_velocity_from_a_spline_and_gaps_are_left_out():
    recording = simulate(replace(CLEAN, kind="handheld", duration_s=20.0))
    truth = recording.truth()
    # 120 Hz, off the IMU's timestamps, without velocity, with one gap of a second.
    stamps_ns = np.arange(truth.stamps_ns[0], truth.stamps_ns[-1], NS // 120)
    stamps_ns = stamps_ns[(stamps_ns < stamps_ns[0] + 8 * NS) | (stamps_ns > stamps_ns[0] + 9 * NS)]
    from maci2.sensors import truth_at

    mocap = truth_at(truth, stamps_ns, 0.1)
    mocap = replace(mocap, v_w=np.full_like(mocap.v_w, np.nan))
    states = truth_states(recording.imu, mocap, "mocap")
    assert states.gaps == 1
    rows = np.searchsorted(truth.stamps_ns, recording.imu.stamps_ns[states.samples])
    assert np.sqrt(((states.v_w - truth.v_w[rows]) ** 2).sum(1).mean()) < 0.03
    assert np.abs(states.p_w - truth.Ts_w_b[rows, :3, 3]).max() < 5e-3
    seconds = (recording.imu.stamps_ns[states.samples] - recording.imu.stamps_ns[0]) / NS
    assert not ((seconds > 7.95) & (seconds < 9.05)).any()
    windows = integration_errors(
        datasheet_model(recording.imu, recording.rig.imu), states, 0.5, 0.1
    )
    assert windows.left_out > 0


def test_a_recording_without_truth_is_refused(clean):
    with pytest.raises(DatasetError, match="holds no ground truth"):
        truth_states(clean.imu, None, "clip")


def test_truth_on_another_clock_is_refused(clean):
    late = replace(clean.truth(), stamps_ns=clean.truth().stamps_ns + 2_500_000)
    with pytest.raises(DatasetError, match="check the clocks"):
        states_of(clean, late)


def test_a_known_bias_is_taken_off_to_first_order(clean):
    states = states_of(clean)
    bias = np.array([2e-3, -1e-3, 3e-3, 0.05, -0.03, 0.02])
    plain = datasheet_model(clean.imu, clean.rig.imu)
    biased = replace(plain, gyro=plain.gyro + bias[:3], acc=plain.acc + bias[3:])
    exact = integration_errors(plain, states, 0.5, 0.5).e
    corrected = integration_errors(biased, states, 0.5, 0.5).without_bias(bias).e
    np.testing.assert_allclose(corrected, exact, atol=2e-5)


@pytest.mark.slow
def test_bias_and_label_noise_explain_the_errors_they_cause(clean):
    """Noiseless samples, sampled biases and truth noise: the mean NEES must be nine."""
    rng = np.random.default_rng(11)
    labels = LabelNoise(1e-3, 5e-3, 2e-3, 5e-4, 0.0, 2e-3, 1.0)
    prior = BiasPrior(np.zeros(3), np.full(3, 2e-3), np.zeros(3), np.full(3, 0.03))
    plain = datasheet_model(clean.imu, clean.rig.imu)
    plain = replace(plain, var_gyro=1e-12 * plain.var_gyro, var_acc=1e-12 * plain.var_acc)
    states = states_of(clean)
    exact = integration_errors(plain, states, 0.5, 0.5).e
    rows = np.searchsorted(clean.truth().stamps_ns, plain.stamps_ns[states.samples])
    acc_w = np.gradient(clean.truth().v_w, (plain.stamps_ns - plain.stamps_ns[0]) / NS, axis=0)
    scores = []
    for _ in range(60):
        n = len(states)
        late = labels.std_time * rng.standard_normal((n, 1))
        turn = labels.std_rotation * rng.standard_normal((n, 3)) + late * clean.imu.gyro[rows]
        # A truth that is not level is turned in its world, the same at both ends of a window.
        tilt = so3_exp(labels.std_tilt * rng.standard_normal(3))
        noisy = replace(
            states,
            Rs_w_b=tilt @ states.Rs_w_b @ np.array([so3_exp(one) for one in turn]),
            v_w=states.v_w + labels.std_velocity * rng.standard_normal((n, 3)) + late * acc_w[rows],
            p_w=states.p_w + labels.std_position * rng.standard_normal((n, 3)) + late * states.v_w,
        )
        bias = np.concatenate([prior.std_gyro, prior.std_acc]) * rng.standard_normal(6)
        biased = replace(plain, gyro=plain.gyro + bias[:3], acc=plain.acc + bias[3:])
        windows = integration_errors(biased, noisy, 0.5, 0.5)
        scores.append(nees(windows.e - exact, windows.cov(prior, labels)).mean())
    # Windows of one draw share their bias, so the mean scatters more than independent ones.
    assert abs(np.mean(scores) - 9.0) < 4.0 * np.std(scores) / np.sqrt(len(scores))
    assert abs(np.mean(scores) - 9.0) < 0.6


def test_a_truth_integrated_from_the_gyroscope_hides_its_noise(clean):
    """Samples with noise, and a truth whose rotations were integrated from these very samples."""
    rng = np.random.default_rng(2)
    plain = datasheet_model(clean.imu, clean.rig.imu)
    std = 3e-3
    noisy = replace(
        plain,
        gyro=plain.gyro + std * rng.standard_normal(plain.gyro.shape),
        var_gyro=np.full_like(plain.var_gyro, std**2),
    )
    states = states_of(clean)
    period_ns = np.diff(noisy.stamps_ns)
    R, Rs = states.Rs_w_b[0], [states.Rs_w_b[0]]
    first, last = int(states.samples[0]), int(states.samples[-1])
    for k in range(first, last):
        R = R @ so3_exp(0.5 * (noisy.gyro[k] + noisy.gyro[k + 1]) * period_ns[k] / NS)
        Rs.append(R)
    blind = replace(states, Rs_w_b=np.array(Rs)[states.samples - first])
    hides = replace(NO_LABEL_NOISE, gyro_shown=0.0)
    of_truth = integration_errors(NO_LABEL_NOISE.shown(noisy), states, 0.5, 0.1)
    of_itself = integration_errors(hides.shown(noisy), blind, 0.5, 0.1)
    shown = (of_truth.e[:, :3] ** 2).mean() / of_truth.cov_imu[:, range(3), range(3)].mean()
    assert 0.5 < shown < 2.0
    assert (of_itself.e[:, :3] ** 2).mean() < 1e-6 * (of_truth.e[:, :3] ** 2).mean()
    assert of_itself.cov_imu[:, range(3), range(3)].max() < 1e-20
    np.testing.assert_array_equal(hides.shown(noisy).var_acc, noisy.var_acc)


def test_the_spread_of_a_tracked_bias_is_taken_at_the_start_of_each_window(clean):
    plain = datasheet_model(clean.imu, clean.rig.imu)
    std = np.linspace(2e-3, 1e-4, len(clean.imu))[:, None] * np.ones(3)
    prior = BiasPrior(np.zeros(3), np.full(3, 1.0), np.zeros(3), np.full(3, 0.03))
    windows = integration_errors(replace(plain, std_gyro_bias=std), states_of(clean), 0.5, 0.5)
    added = windows.cov(prior)[:, 0, 0] - windows.cov()[:, 0, 0]
    at = states_of(clean).samples[windows.first]
    np.testing.assert_allclose(added, (0.5 * std[at, 0]) ** 2, rtol=0.05)
