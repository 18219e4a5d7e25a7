"""ORB-SLAM3 with its bundle adjustments, Stereo-NEC and VINS-Fusion, stage by stage."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares
from track_cases import exact_tracks, noisy_tracks

from maci2.metrics.init_errors import angle_deg, pose_errors
from maci2_lab.baselines.alignment import raw_motion
from maci2_lab.baselines.bundle_adjustment import (
    POSITION,
    SIZE,
    from_vi_state,
    longest,
    reprojection,
    with_points,
)
from maci2_lab.baselines.orbslam3 import (
    adjust_positions,
    inertial_only,
    map_poses,
    orbslam3,
    orbslam3_full,
    rotated_by_gyroscope,
    stereo_nec,
)
from maci2_lab.baselines.vins_fusion import (
    STD_ACC,
    motion_with_noise,
    poses_by_pnp,
    start_at_rest,
    vins_fusion,
)

G = 9.81


@pytest.mark.parametrize("method", [orbslam3_full, stereo_nec])
def test_exact_input_gives_the_truth(method):
    segment, window = exact_tracks("handheld", seed=2)
    state = method(segment).state
    assert angle_deg(state.gravity_c0, window.truth.gravity_c0) < 1e-3
    np.testing.assert_allclose(state.velocity_b, window.truth.velocity_b, atol=1e-4)
    np.testing.assert_allclose(state.Ts_c0_b, window.truth.Ts_c0_b, atol=1e-4)


def test_the_map_is_better_than_its_relative_poses():
    errors = np.array(
        [
            [
                np.linalg.norm(pose_errors(replace_poses(window, Ts), window.truth.Ts_c0_b)[:, :3])
                for Ts in (segment.Ts_c0_b(), map_poses(segment))
            ]
            for segment, window in (noisy_tracks(seed, "drone") for seed in range(4))
        ]
    )
    assert errors[:, 1].mean() < 0.8 * errors[:, 0].mean()


def replace_poses(window, Ts_c0_b):
    return replace(window.truth, Ts_c0_b=Ts_c0_b)


def test_inertial_only_is_the_pose_level_method_on_the_same_poses():
    segment, _ = noisy_tracks(1, "handheld")
    ours = inertial_only(segment, segment.Ts_c0_b(), np.zeros(3))
    theirs = orbslam3(segment).state
    np.testing.assert_allclose(ours.gravity_c0, theirs.gravity_c0, atol=1e-9)
    np.testing.assert_allclose(ours.velocity_b, theirs.velocity_b, atol=1e-9)


def test_positions_are_where_another_solver_finds_them():
    segment, window = noisy_tracks(2, "handheld", pixel_std=0.5)
    chosen = longest(segment.tracks, 60, 2)
    seen, x = with_points(segment, from_vi_state(window.truth), chosen, stereo=True)
    std = 1.0 / segment.tracks.focal_px
    steps = np.zeros((len(x.p_w_b), SIZE))
    steps[1:, POSITION] = 0.02
    mismatched = np.random.default_rng(0).random(seen.seen.shape) < 0.05
    off = replace(seen, xy=seen.xy + 30.0 * std * mismatched[..., None])
    found = adjust_positions(off, x.moved(steps, 0.0 * x.points_w), std)
    np.testing.assert_array_equal(found.p_w_b[0], x.p_w_b[0])
    # The gate drops all mismatches and, at half its noise, nothing else: what is left is least
    # squares of the others, since the last round has no robust loss.
    seen = replace(seen, seen=seen.seen & ~mismatched)
    for k in (1, 6):

        def residuals(step, k=k):
            moved = np.zeros((len(x.p_w_b), SIZE))
            moved[k, POSITION] = step
            return reprojection(seen, x.moved(moved, 0.0 * x.points_w))[0][:, :, k].ravel() / std

        other = least_squares(residuals, np.zeros(3), xtol=1e-14)
        np.testing.assert_allclose(found.p_w_b[k], x.p_w_b[k] + other.x, atol=1e-6)


def test_rotations_and_velocities_are_propagated_by_the_samples():
    segment, window = exact_tracks("handheld", seed=1)
    x = from_vi_state(window.truth)
    damaged = replace(x, v_w=np.vstack([x.v_w[:1], 0.0 * x.v_w[1:]]))
    turned = rotated_by_gyroscope(segment, damaged)
    np.testing.assert_allclose(turned.Rs_w_b, x.Rs_w_b, atol=1e-8)
    np.testing.assert_allclose(turned.v_w, x.v_w, atol=1e-7)


def test_pnp_finds_exact_poses():
    segment, window = exact_tracks("handheld", seed=1)
    Ts_c0_c = window.truth.Ts_c0_b @ segment.T_b_c
    np.testing.assert_allclose(poses_by_pnp(segment), Ts_c0_c, atol=1e-4)


def test_vins_fusion_starts_level_by_the_accelerometer_and_at_rest():
    segment, window = exact_tracks("drone", seed=1)
    x = start_at_rest(segment, window.truth.Ts_c0_b, np.zeros(3))
    np.testing.assert_array_equal(x.v_w[0], 0.0)
    inside = segment.raw.stamps_ns <= segment.stamps_ns[0] + 100_000_000
    inside &= segment.raw.stamps_ns >= segment.stamps_ns[0]
    up = x.Rs_w_b[0] @ segment.raw.acc[inside].mean(axis=0)
    assert angle_deg(up, np.array([0.0, 0.0, 1.0])) < 1e-6
    relative = np.linalg.inv(window.truth.Ts_c0_b[0]) @ window.truth.Ts_c0_b[4]
    np.testing.assert_allclose(x.Rs_w_b[0].T @ x.Rs_w_b[4], relative[:3, :3], atol=1e-9)


def test_vins_fusion_weighs_by_its_own_noise():
    segment, _ = noisy_tracks(1)
    ratio = motion_with_noise(segment, np.zeros(3)).cov[0, 3, 3] / raw_motion(segment).cov[0, 3, 3]
    np.testing.assert_allclose(ratio, STD_ACC**2 / segment.raw.var_acc[0, 0], rtol=0.05)


def test_vins_fusion_finds_the_truth_of_exact_tracks_and_never_rejects():
    segment, window = exact_tracks("handheld", seed=2)
    answer = vins_fusion(segment)
    assert answer.accepted
    assert angle_deg(answer.state.gravity_c0, window.truth.gravity_c0) < 0.3
    np.testing.assert_allclose(answer.state.velocity_b, window.truth.velocity_b, atol=0.05)
    still = replace(segment.raw, acc=np.tile([0.0, 0.0, G], (len(segment.raw.acc), 1)))
    assert vins_fusion(replace(segment, raw=still)).accepted
