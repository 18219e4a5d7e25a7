"""OpenVINS' initializers against their equations, solved in another way."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import least_squares
from segment_cases import angles_of, on_sphere
from track_cases import exact_tracks, noisy_tracks

from maci2.metrics.init_errors import angle_deg
from maci2_lab.baselines.alignment import integrated, raw_motion
from maci2_lab.baselines.bundle_adjustment import longest, observations
from maci2_lab.baselines.openvins import (
    NO_GUESS,
    BiasGuess,
    openvins_dynamic,
    openvins_static,
    solve_features,
)

G = 9.81
LINEAR = partial(openvins_dynamic, guess=NO_GUESS, iterations=0)


@pytest.mark.parametrize("stereo", [False, True])
def test_linear_part_is_where_another_solver_finds_it(stereo):
    """Points stay unknowns; every row is written down once more, point by point."""
    segment, _ = noisy_tracks(1, steps=4)
    tracks, T_b_c = segment.tracks, segment.T_b_c
    chosen = longest(tracks, 6, 3)
    motion = integrated(raw_motion(segment))
    found = solve_features(observations(tracks, T_b_c, chosen, stereo), motion, G)
    cameras = [(tracks.seen, tracks.xy, 0.0)]
    cameras += [(tracks.seen_right, tracks.xy_right, tracks.baseline)] * stereo

    def residuals(x):
        v0, gravity, points = x[:3], on_sphere(x[3:5]), x[5:].reshape(-1, 3)
        rows = []
        for point, X in zip(np.flatnonzero(chosen), points, strict=True):
            for k, t in enumerate(motion.t):
                body = v0 * t + 0.5 * gravity * t**2 + motion.alpha[k]
                in_left = T_b_c[:3, :3].T @ (motion.Rs_b0_b[k].T @ (X - body) - T_b_c[:3, 3])
                for seen, xy, offset in cameras:
                    if seen[point, k]:
                        c = in_left - np.array([offset, 0.0, 0.0])
                        rows += list(c[:2] - xy[point, k] * c[2])
        return np.array(rows)

    start = np.concatenate(
        [found.v0_b0 + 0.05, angles_of(found.gravity_b0) + 0.02, found.points_b0.ravel() + 0.1]
    )
    other = least_squares(residuals, start, x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-15)
    np.testing.assert_allclose(found.v0_b0, other.x[:3], atol=1e-5)
    np.testing.assert_allclose(found.gravity_b0, on_sphere(other.x[3:5]), atol=1e-5)
    np.testing.assert_allclose(found.points_b0.ravel(), other.x[5:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("iterations", [0, 50])
@pytest.mark.parametrize("stereo", [False, True])
def test_exact_input_gives_the_truth(iterations, stereo):
    segment, window = exact_tracks("handheld", seed=3)
    answer = openvins_dynamic(segment, NO_GUESS, iterations, stereo)
    assert answer.accepted, answer.reason
    assert angle_deg(answer.state.gravity_c0, window.truth.gravity_c0) < 0.01
    np.testing.assert_allclose(answer.state.velocity_b, window.truth.velocity_b, atol=1e-3)


def test_the_guess_takes_the_biases_off():
    gyro, acc = (0.03, -0.02, 0.04), (0.05, -0.08, 0.02)
    segment, window = exact_tracks("handheld", seed=3, bias_gyro=gyro, bias_acc=acc)
    told = openvins_dynamic(segment, BiasGuess(gyro, acc), iterations=0)
    assert angle_deg(told.state.gravity_c0, window.truth.gravity_c0) < 0.01
    untold = LINEAR(segment)
    assert angle_deg(untold.state.gravity_c0, window.truth.gravity_c0) > 1.0


def test_maximum_likelihood_finds_a_small_bias_without_a_guess():
    changes = {"bias_gyro_std": 0.01, "bias_acc_std": 0.0}
    segment, window = noisy_tracks(3, "handheld", pixel_std=0.3, **changes)
    answer = openvins_dynamic(segment, NO_GUESS)
    assert answer.accepted, answer.reason
    np.testing.assert_allclose(answer.state.gyro_bias, window.truth.gyro_bias, atol=1e-3)
    assert angle_deg(answer.state.gravity_c0, window.truth.gravity_c0) < 0.5
    # Variances are inflated: velocity's by 100.
    assert np.sqrt(np.trace(answer.posterior.velocity_b[0])) > 0.02


def test_too_few_features_and_too_little_rotation_are_rejected():
    segment, _ = exact_tracks("handheld", seed=3)
    tracks = segment.tracks
    few = replace(
        tracks,
        seen=tracks.seen & (np.arange(len(tracks)) < 20)[:, None],
        seen_right=tracks.seen_right & (np.arange(len(tracks)) < 20)[:, None],
    )
    assert "features were tracked" in LINEAR(replace(segment, find_tracks=lambda: few)).reason
    still = replace(segment.raw, gyro=np.zeros_like(segment.raw.gyro))
    assert "it rotated by 0.0 deg, needed 10" in LINEAR(replace(segment, raw=still)).reason


def test_static_wants_rest_and_then_a_jerk():
    segment, _ = exact_tracks("static", seed=1)
    answer = openvins_static(segment)
    assert not answer.accepted
    assert "no jerk" in answer.reason
    acc = segment.raw.acc.copy()
    half = len(acc) // 2
    acc[half + 5 :] += np.where(np.arange(len(acc) - half - 5) % 40 < 20, 3.0, -3.0)[:, None]
    jerked = replace(segment, raw=replace(segment.raw, acc=acc))
    answer = openvins_static(jerked)
    assert answer.accepted
    older = segment.raw.stamps_ns < segment.stamps_ns[0] + np.ptp(segment.stamps_ns) // 2
    up = segment.raw.acc[older].mean(axis=0)
    down_b = segment.T_b_c[:3, :3] @ answer.state.gravity_c0
    assert angle_deg(-up, down_b) < 0.05
    np.testing.assert_allclose(np.linalg.norm(answer.state.gravity_c0), G)
    shaken = replace(segment, raw=replace(segment.raw, acc=acc[::-1].copy()))
    assert "it moves" in openvins_static(shaken).reason
