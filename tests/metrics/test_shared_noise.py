"""What an audited truth adds to an estimate that has used the same IMU."""

import numpy as np
import pytest

from maci2.consistency import initialize
from maci2.estimator import SolverConfig
from maci2.geometry import so3_exp, so3_log
from maci2.imu import datasheet_model, preintegrate
from maci2.metrics.init_errors import SCORES, initialization_errors, truth_noise
from maci2.sensors import truth_at
from maci2.tools.ground_truth.audit import audit_ground_truth
from maci2.types import GRAVITY_W, NS
from maci2.vision import pose_noise, poses_from_truth
from maci2_lab.evaluation.audited_integration import (
    composed_noise,
    motion_derivatives,
    shared_noise,
)
from maci2_lab.evaluation.imu_gains import imu_gains
from tools.ground_truth.faulty_truths import (
    PUBLISHED,
    TruthFaults,
    exact_truth,
    loud,
    recording_with,
)

CONFIG = SolverConfig()
GAP_S = 0.06


@pytest.fixture(scope="module")
def exact():
    recording = recording_with(TruthFaults(), 3, duration_s=5.0)
    return recording, exact_truth(recording)


def test_noise_of_steps_adds_up_to_that_of_the_whole(exact):
    recording, truth = exact
    sheet = datasheet_model(recording.imu, recording.rig.imu)
    bias = truth.bias_gyro[0], truth.bias_acc[0]
    stamps_ns = recording.imu.stamps_ns[200:262:20]
    steps = preintegrate(sheet, stamps_ns, *bias)
    whole = preintegrate(sheet, stamps_ns[[0, -1]], *bias).cov[0]
    chain, ends = truth_at(truth, stamps_ns, GAP_S), np.array([0, len(stamps_ns) - 1])
    found = composed_noise(chain, steps.cov, ends[:1], ends[1:])[0]
    scale = np.sqrt(np.diag(whole))
    np.testing.assert_allclose(
        found / np.outer(scale, scale), whole / np.outer(scale, scale), atol=0.01
    )


def measured(R_a, v_a, p_a, R_b, v_b, p_b, dt):
    return (
        R_a.T @ R_b,
        R_a.T @ (v_b - v_a - dt * GRAVITY_W),
        R_a.T @ (p_b - p_a - dt * v_a - 0.5 * dt**2 * GRAVITY_W),
    )


def test_derivatives_of_motion_are_those_of_differences(exact):
    truth = truth_at(exact[1], exact[0].imu.stamps_ns[[100, 156]], GAP_S)
    D = motion_derivatives(truth, np.array([0]), np.array([1]))[0]
    dt = (truth.stamps_ns[1] - truth.stamps_ns[0]) / NS
    ends = [(T[:3, :3], v, T[:3, 3]) for T, v in zip(truth.Ts_w_b, truth.v_w, strict=True)]
    at = measured(*ends[0], *ends[1], dt)
    step = 1e-6
    for column in [*range(9), *range(15, 24)]:
        e = np.zeros(30)
        e[column] = step
        moved = [
            (R @ so3_exp(e[a : a + 3]), v + e[a + 3 : a + 6], p + e[a + 6 : a + 9])
            for a, (R, v, p) in zip((0, 15), ends, strict=True)
        ]
        gamma, beta, alpha = measured(*moved[0], *moved[1], dt)
        change = np.r_[so3_log(at[0].T @ gamma), beta - at[1], alpha - at[2]] / step
        np.testing.assert_allclose(D[:, column], change, atol=1e-4)


def scored(recording, seed):
    """(windows, 3, 4) NEES of a consistent estimator against the exact truth, against the audit
    with independent errors, and without what both share."""
    exact, audited = exact_truth(recording), audit_ground_truth(recording).truth
    imu = datasheet_model(recording.imu, recording.rig.imu)
    T_b_c, images_ns = recording.rig.cameras[0].T_b_c, recording.camera_stamps_ns[0]
    rows = []
    for first in range(40, len(images_ns) - 100, 50):
        stamps_ns = images_ns[np.linspace(first, first + 50, 10).round().astype(int)]
        vision = poses_from_truth(exact, stamps_ns, T_b_c, pose_noise(0.05, 0.005), (seed, first))
        used = imu.between(*stamps_ns[[0, -1]])
        result = initialize(used, vision, T_b_c, CONFIG)
        gains = imu_gains(used, vision, result, CONFIG)
        seen = truth_at(audited, stamps_ns, GAP_S)
        rows.append(
            [
                [
                    initialization_errors(
                        result.state,
                        truth,
                        T_b_c,
                        result.state.gyro_bias,
                        truth.bias_gyro.mean(axis=0),
                        result.posterior,
                        noise,
                    ).nees[score]
                    for score in SCORES
                ]
                for truth, noise in (
                    (truth_at(exact, stamps_ns, GAP_S), None),
                    (seen, truth_noise(seen, T_b_c)),
                    (seen, shared_noise(audited, stamps_ns, T_b_c, gains, imu, GAP_S)),
                )
            ]
        )
    return np.array(rows)


def mean_scores(seeds):
    found = [scored(loud(recording_with(PUBLISHED, s, duration_s=60.0)), s) for s in seeds]
    return np.concatenate(found).mean(axis=0)


@pytest.mark.slow
def test_errors_that_truth_and_estimate_share_do_not_count():
    """Taken as independent they make a consistent estimator look too modest."""
    exact, independent, shared = (
        dict(zip(SCORES, row, strict=True)) for row in mean_scores(range(500, 504))
    )
    assert independent["velocity"] < 0.8 * exact["velocity"]
    for score in SCORES:
        # 88 windows scatter by a tenth, both alike.
        assert shared[score] == pytest.approx(exact[score], rel=0.15), (exact, independent, shared)


@pytest.mark.soak
def test_a_consistent_estimator_has_nees_of_one_against_an_audited_truth():
    _, _, shared = mean_scores(range(600, 630))
    assert ((shared > 0.9) & (shared < 1.1)).all(), dict(zip(SCORES, shared, strict=True))
