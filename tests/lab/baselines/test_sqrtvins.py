"""sqrt-VINS' closed form against its equations, and the MAP that follows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares
from segment_cases import angles_of, on_sphere
from track_cases import exact_tracks, noisy_tracks

from maci2.metrics.init_errors import angle_deg
from maci2_lab.baselines.alignment import integrated, raw_motion
from maci2_lab.baselines.openvins import NO_GUESS, BiasGuess
from maci2_lab.baselines.sqrtvins import (
    all_views,
    closed_form,
    estimate_gyro_bias,
    sqrtvins,
    translation_complements,
)


def camera_places(segment, motion, v0, gravity, k, offset):
    body = motion.poses(v0, gravity)[k]
    return body[:3, 3] + body[:3, :3] @ (segment.T_b_c[:3, 3] + offset * segment.T_b_c[:3, 0])


def places_of_pairs(segment, views, motion, v0, gravity):
    """(m, 3) from the first camera of every pair to the second."""
    return np.array(
        [
            camera_places(segment, motion, v0, gravity, j, views.offsets[1][m])
            - camera_places(segment, motion, v0, gravity, i, views.offsets[0][m])
            for m, (i, j) in enumerate(zip(views.first, views.second, strict=True))
        ]
    )


@pytest.mark.parametrize("stereo", [False, True])
def test_directions_are_across_the_true_translation(stereo):
    segment, window = exact_tracks("handheld", seed=1)
    views, motion = all_views(segment, stereo), integrated(raw_motion(segment))
    R_b_c = segment.T_b_c[:3, :3]
    v0 = R_b_c @ window.truth.Ts_c0_b[0, :3, :3] @ window.truth.velocity_b[0]
    moved = places_of_pairs(segment, views, motion, v0, R_b_c @ window.truth.gravity_c0)
    across = translation_complements(segment, views, motion)
    np.testing.assert_allclose(np.einsum("mij,mj->mi", across, moved), 0.0, atol=1e-6)
    np.testing.assert_allclose(across @ np.swapaxes(across, 1, 2) - np.eye(2), 0.0, atol=1e-9)
    count = len(segment.stamps_ns) * (len(segment.stamps_ns) - 1) // 2
    assert len(views.both) <= count * (4 if stereo else 1)


@pytest.mark.parametrize("stereo", [False, True])
def test_closed_form_is_where_another_solver_finds_it(stereo):
    segment, _ = noisy_tracks(2, "handheld", pixel_std=0.5)
    views, motion = all_views(segment, stereo), integrated(raw_motion(segment))
    v0, gravity = closed_form(segment, views, motion)
    across = translation_complements(segment, views, motion)

    def residuals(x):
        moved = places_of_pairs(segment, views, motion, x[:3], on_sphere(x[3:]))
        return np.einsum("mij,mj->mi", across, moved).ravel()

    start = np.concatenate([v0 + 0.1, angles_of(gravity) + 0.05])
    found = least_squares(residuals, start, xtol=1e-15, ftol=1e-15, gtol=1e-15).x
    np.testing.assert_allclose(v0, found[:3], atol=1e-6)
    np.testing.assert_allclose(gravity, on_sphere(found[3:]), atol=1e-6)


@pytest.mark.parametrize("stereo", [False, True])
def test_exact_input_gives_the_truth(stereo):
    gyro = (0.03, -0.02, 0.04)
    segment, window = exact_tracks("handheld", seed=2, bias_gyro=gyro)
    bias = estimate_gyro_bias(segment, all_views(segment, stereo), np.zeros(3))
    # To first order in the bias over the whole window; the MAP does the rest.
    np.testing.assert_allclose(bias, gyro, atol=3e-3)
    answer = sqrtvins(segment, stereo, NO_GUESS)
    assert answer.accepted, answer.reason
    assert answer.posterior is not None
    assert angle_deg(answer.state.gravity_c0, window.truth.gravity_c0) < 0.1
    np.testing.assert_allclose(answer.state.gyro_bias, gyro, atol=5e-4)
    np.testing.assert_allclose(answer.state.velocity_b, window.truth.velocity_b, atol=0.02)


def test_the_guess_of_the_accelerometer_bias_is_taken():
    acc = (0.05, -0.08, 0.02)
    segment, window = exact_tracks("handheld", seed=2, bias_acc=acc)
    views = all_views(segment, True)
    guessed = integrated(raw_motion(segment, acc_bias=np.array(acc)))
    _, gravity_b0 = closed_form(segment, views, guessed)
    assert angle_deg(segment.T_b_c[:3, :3].T @ gravity_b0, window.truth.gravity_c0) < 0.01
    told = sqrtvins(segment, True, BiasGuess(acc=acc)).state
    untold = sqrtvins(segment, True, NO_GUESS).state
    errors = [angle_deg(state.gravity_c0, window.truth.gravity_c0) for state in (told, untold)]
    assert errors[0] < 0.01 < errors[1]


def test_too_few_points_are_rejected_with_a_state():
    segment, _ = exact_tracks("handheld", seed=2)
    tracks = segment.tracks
    few = (np.arange(len(tracks)) < 15)[:, None]
    thin = replace(tracks, seen=tracks.seen & few, seen_right=tracks.seen_right & few)
    answer = sqrtvins(replace(segment, find_tracks=lambda: thin), False, NO_GUESS)
    assert not answer.accepted
    assert "could be triangulated, needed 20" in answer.reason
    assert answer.state is not None
