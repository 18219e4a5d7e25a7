"""What an uncertain ground truth adds to the errors of an estimate."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.consistency import initialize
from maci2.geometry import se3_exp, se3_inv, se3_log, so3_exp
from maci2.imu import datasheet_model
from maci2.metrics.init_errors import SCORES, initialization_errors, truth_noise
from maci2.sensors import GroundTruth, TruthCovariance, truth_at
from maci2.tools.ground_truth.audit import audit_ground_truth
from maci2.types import GRAVITY_W, NS
from maci2.vision import pose_noise, poses_from_truth
from tools.ground_truth.faulty_truths import FAULTY, exact_truth, recording_with

KEYFRAMES = 3
SIZES = np.repeat([2e-3, 1e-2, 5e-3, 1e-4, 1e-2], 3)


@pytest.fixture(scope="module")
def uncertain():
    """Three keyframes a second apart whose states share part of their errors."""
    rng = np.random.default_rng(3)
    mix = rng.normal(size=(15 * KEYFRAMES, 15 * KEYFRAMES)) / 6.0
    scale = np.tile(SIZES, KEYFRAMES)
    joint = scale[:, None] * (mix @ mix.T + 0.1 * np.eye(len(mix))) * scale
    # Neighbours decide: the first and the last are tied through the middle one only.
    a, b, c = (slice(15 * k, 15 * k + 15) for k in range(KEYFRAMES))
    joint[a, c] = joint[a, b] @ np.linalg.solve(joint[b, b], joint[b, c])
    joint[c, a] = joint[a, c].T
    stamps_ns = np.arange(KEYFRAMES) * NS
    blocks = np.stack([joint[s, s] for s in (a, b, c)])
    between = np.stack([joint[a, b], joint[b, c]])
    covariance = TruthCovariance(
        stamps_ns, blocks, between, np.zeros((KEYFRAMES, 15, 1)), np.ones((1, 1))
    )
    Ts_w_b = np.stack([se3_exp(rng.normal(size=6)) for _ in range(KEYFRAMES)])
    v_w, zero = rng.normal(size=(KEYFRAMES, 3)), np.zeros((KEYFRAMES, 3))
    truth = GroundTruth(stamps_ns, Ts_w_b, v_w, zero, zero, covariance=covariance)
    return truth, joint, se3_exp(rng.normal(size=6))


def compared(Ts_w_b, v_w, T_b_c):
    """Gravity, body velocities and poses as an estimate states them."""
    T_c0_w = se3_inv(np.ascontiguousarray(Ts_w_b[0] @ T_b_c))
    v_b = np.einsum("kji,kj->ki", Ts_w_b[:, :3, :3], v_w)
    return T_c0_w[:3, :3] @ GRAVITY_W, v_b, T_c0_w @ Ts_w_b


def test_covariances_are_those_of_sampled_truths(uncertain):
    truth, joint, T_b_c = uncertain
    noise = truth_noise(truth, T_b_c)
    gravity, v_b, poses = compared(truth.Ts_w_b, truth.v_w, T_b_c)
    rng = np.random.default_rng(4)
    draws = rng.multivariate_normal(np.zeros(len(joint)), joint, size=4000, method="cholesky")
    errors = {"gravity": [], "velocity": [], "pose": []}
    for draw in draws.reshape(-1, KEYFRAMES, 15):
        Ts_w_b = truth.Ts_w_b.copy()
        for k in range(KEYFRAMES):
            Ts_w_b[k, :3, :3] = Ts_w_b[k, :3, :3] @ so3_exp(np.ascontiguousarray(draw[k, :3]))
        Ts_w_b[:, :3, 3] += draw[:, 6:9]
        other = compared(Ts_w_b, truth.v_w + draw[:, 3:6], T_b_c)
        errors["gravity"].append(other[0] - gravity)
        errors["velocity"].append(other[1][2] - v_b[2])
        errors["pose"].append(se3_log(other[2][2] @ se3_inv(poses[2])))
    stated = {
        "gravity": noise.gravity_c0,
        "velocity": noise.velocity_b[2],
        "pose": noise.Ts_c0_b[2],
    }
    for name, sampled in errors.items():
        found = np.cov(np.array(sampled).T)
        scale = np.sqrt(np.diag(stated[name]))
        difference = (found - stated[name]) / np.outer(scale, scale)
        assert np.abs(difference).max() < 0.1, name
    assert not noise.Ts_c0_b[0].any()


def test_a_truth_without_a_covariance_adds_nothing(uncertain):
    truth, _, T_b_c = uncertain
    bare = GroundTruth(truth.stamps_ns, truth.Ts_w_b, truth.v_w, truth.bias_gyro, truth.bias_acc)
    assert truth_noise(bare, T_b_c) is None


MOCAP = replace(FAULTY, orientation_late_ms=6.0, drift_ms_per_min=0.0, std_mm=1.0, std_deg=0.1)
"""A raw capture: one clock, white noise."""


def scored_twice(recording, seed):
    """NEES of a consistent estimator's windows against the exact and against the audited truth."""
    exact, audited = exact_truth(recording), audit_ground_truth(recording).truth
    imu = datasheet_model(recording.imu, recording.rig.imu)
    T_b_c, images_ns = recording.rig.cameras[0].T_b_c, recording.camera_stamps_ns[0]
    rows = []
    for first in range(40, len(images_ns) - 100, 50):
        stamps_ns = images_ns[np.linspace(first, first + 50, 10).round().astype(int)]
        vision = poses_from_truth(exact, stamps_ns, T_b_c, pose_noise(0.05, 0.003), (seed, first))
        result = initialize(imu.between(*stamps_ns[[0, -1]]), vision, T_b_c)
        at, seen = (truth_at(truth, stamps_ns, 0.1) for truth in (exact, audited))
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
                        truth_noise(truth, T_b_c),
                    ).nees[score]
                    for score in SCORES
                ]
                for truth in (at, seen)
            ]
        )
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["published", "mocap"])
def test_a_consistent_estimator_is_consistent_against_an_audited_truth(source):
    """The truth's faults are mended, its constants do not leak into scores, and IMU samples that
    truth and estimate share do not matter at the truth's precision."""
    scores = []
    for seed in range(500, 504):
        if source == "published":
            recording = recording_with(FAULTY, seed, duration_s=60.0)
        else:
            recording = recording_with(
                MOCAP, seed, name="mocap0", velocities=False, every=4, duration_s=60.0
            )
        scores.append(scored_twice(recording, seed))
    exact, audited = np.concatenate(scores).mean(axis=0)
    found = dict(zip(SCORES, zip(exact, audited, strict=True), strict=True))
    # Chance moves both alike: 88 windows scatter by a tenth.
    assert (np.abs(audited / exact - 1.0) < 0.1).all(), found
    assert ((audited > 0.8) & (audited < 1.2)).all(), found
