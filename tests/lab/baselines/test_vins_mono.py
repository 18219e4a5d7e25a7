"""VINS-Mono's structure from motion against the true poses, and what follows it."""

from dataclasses import replace

import numpy as np
import pytest
from track_cases import exact_tracks, noisy_tracks

from maci2.metrics.init_errors import angle_deg
from maci2_lab.baselines.vins import align, reconstruct, vins, vins_mono, vins_mono_fixed


@pytest.mark.parametrize("seed", range(2))
def test_poses_of_exact_tracks_are_true_up_to_scale(seed):
    segment, window = exact_tracks("drone", seed=seed)
    found, reason = reconstruct(segment.tracks)
    assert found is not None, reason
    true = window.truth.Ts_c0_b @ segment.T_b_c
    p, q = found[:, :3, 3], true[:, :3, 3]
    scale = (p * q).sum() / (p * p).sum()
    assert scale > 0.0
    np.testing.assert_allclose(scale * p, q, atol=1e-3)
    np.testing.assert_allclose(found[:, :3, :3], true[:, :3, :3], atol=1e-3)


def test_noise_of_a_pixel_leaves_directions_of_some_degrees():
    segment, window = noisy_tracks(1, "drone", pixel_std=0.5)
    found, _ = reconstruct(segment.tracks)
    true = (window.truth.Ts_c0_b @ segment.T_b_c)[:, :3, 3]
    assert angle_deg(found[-1, :3, 3], true[-1]) < 5.0


@pytest.mark.parametrize("method", [vins_mono, vins_mono_fixed])
def test_exact_input_gives_the_truth(method):
    segment, window = exact_tracks("drone", seed=1)
    answer = method(segment)
    assert answer.accepted, answer.reason
    assert angle_deg(answer.state.gravity_c0, window.truth.gravity_c0) < 0.05
    np.testing.assert_allclose(answer.state.velocity_b, window.truth.velocity_b, atol=0.01)


def test_alignment_is_the_one_of_the_pose_level_method():
    segment, _ = noisy_tracks(2, "drone")
    ours = align(segment, segment.Ts_c0_c(), clear_each_time=False).state
    np.testing.assert_array_equal(ours.gravity_c0, vins(segment).state.gravity_c0)
    # Poses of another scale give the same answer.
    Ts = segment.Ts_c0_c()
    Ts[:, :3, 3] *= 0.2
    scaled = align(segment, Ts, clear_each_time=False).state
    np.testing.assert_allclose(scaled.gravity_c0, ours.gravity_c0, atol=1e-6)
    np.testing.assert_allclose(scaled.velocity_b, ours.velocity_b, atol=1e-6)


def test_no_parallax_and_too_few_points_are_rejected():
    segment, _ = exact_tracks("static", seed=1)
    assert "no keyframe has enough parallax" in vins_mono(segment).reason
    segment, _ = exact_tracks("drone", seed=1)
    tracks = segment.tracks
    seen = tracks.seen.copy()
    seen[8:, 4] = False
    thin = replace(tracks, seen=seen, seen_right=tracks.seen_right & seen)
    answer = vins_mono(replace(segment, find_tracks=lambda: thin))
    assert answer.reason.startswith("keyframe 4 sees fewer than 10 known points")
    assert not answer.accepted
