"""DRT-PNEC's weights and its second solve, against their definition."""

import numpy as np
from scipy.optimize import least_squares
from track_cases import exact_tracks, noisy_tracks

from helpers import numerical_jacobian
from maci2.geometry import skew
from maci2.metrics.init_errors import angle_deg
from maci2_lab.baselines.alignment import integrated, raw_motion
from maci2_lab.baselines.drt import (
    bearing_covariances,
    drt_loose,
    drt_pnec,
    epipolar_bias,
    epipolar_weights,
    loose_translation,
    refine,
)


def test_covariance_of_a_bearing_is_carried_from_its_coordinates():
    tracks = noisy_tracks(1)[0].tracks
    xy = tracks.xy[0, 0]

    def bearing(step):
        ray = np.append(xy + step, 1.0)
        return ray / np.linalg.norm(ray)

    J = numerical_jacobian(bearing, 2)
    np.testing.assert_allclose(
        bearing_covariances(tracks)[0, 0], J @ tracks.covs[0, 0] @ J.T, rtol=1e-6, atol=1e-14
    )


def test_weights_are_the_printed_formula():
    segment, _ = noisy_tracks(2)
    tracks, pre, R_b_c = segment.tracks, raw_motion(segment), segment.T_b_c[:3, :3]
    weights, covs = epipolar_weights(segment), bearing_covariances(tracks)
    for k in (0, 5):
        R, t = R_b_c.T @ pre.gamma[k] @ R_b_c, R_b_c.T @ pre.alpha[k]
        for point in np.flatnonzero(tracks.seen[:, k] & tracks.seen[:, k + 1])[:5]:
            F = skew(np.ascontiguousarray(tracks.bearings[point, k]))
            variance = t @ F @ R @ covs[point, k + 1] @ R.T @ F.T @ t
            np.testing.assert_allclose(weights[k, point], 1e-8 / variance, rtol=1e-9)
        unseen = ~(tracks.seen[:, k] & tracks.seen[:, k + 1])
        assert (weights[k, unseen] == 0.0).all()


def test_second_solve_keeps_the_truth_and_finds_it_from_a_tilted_start():
    segment, window = exact_tracks("handheld", seed=1)
    truth = window.truth
    Rs, p = truth.Ts_c0_b[:, :3, :3], (truth.Ts_c0_b @ segment.T_b_c)[:, :3, 3]
    tilted = truth.gravity_c0 + np.array([0.1, -0.1, 0.05])
    scale, gravity = refine(segment, raw_motion(segment), Rs, p / 3.0, tilted)
    np.testing.assert_allclose(scale, 3.0, rtol=1e-3)
    assert angle_deg(gravity, truth.gravity_c0) < 0.02


def test_second_solve_is_least_squares_with_eliminated_velocities():
    segment, _ = noisy_tracks(3)
    pre = raw_motion(segment, epipolar_bias(segment).bias)
    Rs, p = loose_translation(segment, integrated(pre))
    start = drt_loose(segment).state.gravity_c0
    scale, gravity = refine(segment, pre, Rs, p, start)
    lever = -Rs @ segment.T_b_c[:3, 3]
    across = np.linalg.svd(start[None])[2][1:]

    def residuals(x):
        """Velocities at the middle keyframe from both sides, times both steps' lengths."""
        g, out = start + across.T @ x[1:], []
        body = x[0] * p + lever
        for k in range(len(pre.dt) - 1):
            d0, d1 = pre.dt[k], pre.dt[k + 1]
            v0 = (body[k + 1] - body[k] - Rs[k] @ pre.alpha[k]) / d0 - 0.5 * d0 * g
            v1 = (body[k + 2] - body[k + 1] - Rs[k + 1] @ pre.alpha[k + 1]) / d1 - 0.5 * d1 * g
            out.append(d0 * d1 * (v1 - v0 - d0 * g - Rs[k] @ pre.beta[k]))
        return np.concatenate(out)

    found = least_squares(residuals, [1.0, 0.0, 0.0], xtol=1e-15, ftol=1e-15, gtol=1e-15).x
    np.testing.assert_allclose(scale, found[0], rtol=1e-6)
    linear = start + across.T @ found[1:]
    # Exp of the two angles keeps the norm; the linear step is their tangent.
    tangent = np.linalg.norm(found[1:]) / 9.81
    assert np.deg2rad(angle_deg(gravity, linear)) < tangent**3 + 1e-9


def test_exact_input_gives_the_truth():
    segment, window = exact_tracks("handheld", seed=2)
    answer = drt_pnec(segment)
    assert angle_deg(answer.state.gravity_c0, window.truth.gravity_c0) < 1e-3
    np.testing.assert_allclose(answer.state.velocity_b, window.truth.velocity_b, atol=2e-4)
