"""FF-VIO-Init's back end on stereo depth: its linear system, its refinement, its gates."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import least_squares
from segment_cases import angles_of, on_sphere
from track_cases import exact_tracks, noisy_tracks

from helpers import numerical_jacobian
from maci2.metrics.init_errors import angle_deg
from maci2_lab.baselines.alignment import integrated, raw_motion
from maci2_lab.baselines.bundle_adjustment import from_vi_state
from maci2_lab.baselines.ff_back_end import (
    CELLS,
    REGIONS,
    ff_back_end,
    linear_rows,
    ransac,
    regions,
    reprojection_rows,
    solve,
    stereo_point_map,
)
from maci2_lab.baselines.openvins import NO_GUESS, BiasGuess

G = 9.81
INITIALIZE = partial(ff_back_end, guess=NO_GUESS)


def test_a_map_has_one_point_a_cell_where_its_own_keyframe_sees_it():
    segment, window = exact_tracks("handheld", seed=3)
    Ts_c0_c = window.truth.Ts_c0_b @ segment.T_b_c
    points = stereo_point_map(segment.tracks, Ts_c0_c)
    for k in range(len(Ts_c0_c)):
        mine = points.keyframe == k
        assert 0 < mine.sum() <= CELLS**2
        seen = (points.X_c0[mine] - Ts_c0_c[k, :3, 3]) @ Ts_c0_c[k, :3, :3]
        np.testing.assert_allclose(seen[:, :2] / seen[:, 2:], points.xy[mine], atol=1e-9)


def test_linear_part_is_where_another_solver_finds_it():
    """Every row is written down once more, point by point."""
    segment, _ = noisy_tracks(1)
    T_b_c, motion = segment.T_b_c, integrated(raw_motion(segment))
    points = stereo_point_map(segment.tracks, segment.Ts_c0_c())
    points = points.take(np.arange(len(points)) % 5 == 0)
    rows, right = linear_rows(points, motion, T_b_c)
    weights, everything = np.sqrt(points.confidence), np.ones(len(points), dtype=bool)
    found = solve(rows, right, weights, everything, G)

    def residuals(x):
        out = []
        for m, k in enumerate(points.keyframe):
            t = motion.t[k]
            body = x[1:4] * t + 0.5 * on_sphere(x[4:6]) * t**2 + motion.alpha[k]
            X_b0 = T_b_c[:3, :3] @ (x[0] * points.X_c0[m]) + T_b_c[:3, 3]
            c = T_b_c[:3, :3].T @ (motion.Rs_b0_b[k].T @ (X_b0 - body) - T_b_c[:3, 3])
            out += list(weights[m] * (c[:2] - points.xy[m] * c[2]) / points.depth[m])
        return np.array(out)

    start = np.concatenate([[found.scale + 0.05], found.v0_b0, angles_of(found.gravity_b0) + 0.02])
    other = least_squares(residuals, start, x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-15)
    assert found.scale == pytest.approx(other.x[0], abs=1e-6)
    np.testing.assert_allclose(found.v0_b0, other.x[1:4], atol=1e-5)
    np.testing.assert_allclose(found.gravity_b0, on_sphere(other.x[4:6]), atol=1e-5)


def test_derivatives_of_the_refinement():
    segment, window = exact_tracks("handheld", seed=3)
    points = stereo_point_map(segment.tracks, segment.Ts_c0_c())
    points = points.take(np.arange(len(points)) % 40 == 7)
    x, theta = from_vi_state(window.truth), np.linspace(0.3, 0.8, REGIONS**2)
    where, T_b_c = regions(points), segment.T_b_c
    size = 15 * len(x.p_w_b)

    def residuals(d):
        moved = x.moved(d[:size].reshape(-1, 15), np.empty((0, 3)))
        return reprojection_rows(points, where, T_b_c, moved, theta + d[size:])[0].ravel()

    _, J = reprojection_rows(points, where, T_b_c, x, theta)
    numeric = numerical_jacobian(residuals, dim=size + REGIONS**2)
    np.testing.assert_allclose(J.reshape(-1, size + REGIONS**2), numeric, atol=1e-7)


def test_exact_input_gives_the_truth_with_a_scale_of_one():
    segment, window = exact_tracks("handheld", seed=3)
    answer = INITIALIZE(segment)
    assert answer.accepted, answer.reason
    assert angle_deg(answer.state.gravity_c0, window.truth.gravity_c0) < 0.01
    np.testing.assert_allclose(answer.state.velocity_b, window.truth.velocity_b, atol=1e-3)
    motion = integrated(raw_motion(segment))
    points = stereo_point_map(segment.tracks, segment.Ts_c0_c())
    assert ransac(points, motion, segment.T_b_c, G).scale == pytest.approx(1.0, abs=1e-3)


def test_the_scale_of_the_maps_does_not_matter():
    """A network's maps have any scale; here they are made three times as large."""
    segment, _ = exact_tracks("handheld", seed=3)
    motion = integrated(raw_motion(segment))
    points = stereo_point_map(segment.tracks, segment.Ts_c0_c())
    large = replace(points, X_c0=3.0 * points.X_c0)
    once, thrice = (ransac(one, motion, segment.T_b_c, G) for one in (points, large))
    assert thrice.scale == pytest.approx(once.scale / 3.0, rel=1e-6)
    np.testing.assert_allclose(thrice.v0_b0, once.v0_b0, atol=1e-6)


def test_points_that_are_wrong_are_outvoted():
    """Ten points a keyframe are drawn: what is wrong must be rare for a draw to be without it."""
    segment, window = exact_tracks("handheld", seed=3)
    points = stereo_point_map(segment.tracks, segment.Ts_c0_c())
    rng = np.random.default_rng(0)
    wrong = rng.random(len(points)) < 0.06
    X_c0 = points.X_c0 + np.where(wrong[:, None], rng.normal(size=(len(points), 3)), 0.0)
    damaged = replace(points, X_c0=X_c0)
    motion = integrated(raw_motion(segment))
    rows, right = linear_rows(damaged, motion, segment.T_b_c)
    weights, everything = np.sqrt(points.confidence), np.ones(len(points), dtype=bool)
    R_c_b = segment.T_b_c[:3, :3].T
    plain, voted = (
        angle_deg(R_c_b @ found.gravity_b0, window.truth.gravity_c0)
        for found in (
            solve(rows, right, weights, everything, G),
            ransac(damaged, motion, segment.T_b_c, G),
        )
    )
    assert voted < 0.2
    assert voted < 0.2 * plain


def test_the_guess_takes_the_biases_off():
    gyro, acc = (0.03, -0.02, 0.04), (0.05, -0.08, 0.02)
    segment, window = exact_tracks("handheld", seed=3, bias_gyro=gyro, bias_acc=acc)
    told = ff_back_end(segment, BiasGuess(gyro, acc))
    assert angle_deg(told.state.gravity_c0, window.truth.gravity_c0) < 0.01


def test_a_camera_that_does_not_move_is_rejected():
    segment, _ = exact_tracks("static", seed=1)
    answer = INITIALIZE(segment)
    assert not answer.accepted
    assert "px, needed 20" in answer.reason


def test_without_depth_there_is_no_answer():
    segment, _ = exact_tracks("handheld", seed=3)
    tracks = segment.tracks
    mono = replace(
        tracks,
        seen_right=np.zeros_like(tracks.seen_right),
        xy_right=np.full_like(tracks.xy_right, np.nan),
    )
    answer = INITIALIZE(replace(segment, find_tracks=lambda: mono))
    assert answer.reason == "0 points with depth, needed 50"
    assert answer.state is None
