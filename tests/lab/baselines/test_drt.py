"""DRT against its equations, and against what its own program gave on the same recording."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares, minimize
from scipy.spatial.transform import Rotation
from segment_cases import angles_of, on_sphere
from track_cases import exact_tracks, moving_points, noisy_tracks

from helpers import numerical_jacobian
from maci2.imu import GAMMA
from maci2.metrics.init_errors import angle_deg
from maci2_lab.baselines.alignment import integrated, raw_motion
from maci2_lab.baselines.drt import (
    LOSS_SCALE,
    depth_signs,
    drt_loose,
    drt_tight,
    epipolar_bias,
    solve_tight,
    translation_rows,
)
from maci2_lab.baselines.epipolar import (
    cauchy,
    cost_and_gradient,
    fit_bias,
    neighbouring_pairs,
    plain,
    square,
)

LOSSES = {"square": square, "plain": plain, "cauchy": cauchy(LOSS_SCALE)}


def pairs_of(segment):
    return neighbouring_pairs(segment.tracks, raw_motion(segment), segment.T_b_c[:3, :3])


def brute_eigenvalues(segment, bias):
    """Smallest eigenvalue of each pair, point by point and with scipy's rotations."""
    pre, tracks, R_b_c = raw_motion(segment), segment.tracks, segment.T_b_c[:3, :3]
    values = []
    for k in range(len(pre.dt)):
        turn = Rotation.from_rotvec(pre.D_bg[k, GAMMA] @ bias).as_matrix()
        R = R_b_c.T @ pre.gamma[k] @ turn @ R_b_c
        M = np.zeros((3, 3))
        for point in np.flatnonzero(tracks.seen[:, k] & tracks.seen[:, k + 1]):
            n = np.cross(tracks.bearings[point, k], R @ tracks.bearings[point, k + 1])
            M += np.outer(n, n)
        values.append(np.linalg.eigvalsh(M)[0])
    return np.array(values)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_of_the_eigenvalues(loss):
    pairs = pairs_of(noisy_tracks(1)[0])
    bias = np.array([0.01, -0.02, 0.03])
    _, gradient, _ = cost_and_gradient(pairs, bias, LOSSES[loss])

    def cost(step):
        return np.array([cost_and_gradient(pairs, bias + step, LOSSES[loss])[0]])

    numeric = numerical_jacobian(cost, dim=3)[0]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-6 * np.abs(numeric).max())


def test_eigenvalues_are_those_of_the_definition():
    segment, _ = noisy_tracks(2)
    bias = np.array([0.02, 0.01, -0.01])
    _, _, values = cost_and_gradient(pairs_of(segment), bias, plain)
    np.testing.assert_allclose(values, brute_eigenvalues(segment, bias), rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("loss", LOSSES)
def test_bias_is_where_another_search_finds_it(loss):
    pairs = pairs_of(noisy_tracks(3)[0])
    found = fit_bias(pairs, LOSSES[loss])

    def cost(bias):
        return 1e6 * cost_and_gradient(pairs, bias, LOSSES[loss])[0]

    simplex = found.bias + 1e-3 * np.vstack([np.zeros(3), np.eye(3)])
    options = {"initial_simplex": simplex, "xatol": 1e-7, "fatol": 1e-12, "maxiter": 150}
    other = minimize(cost, found.bias, method="Nelder-Mead", options=options)
    assert found.converged
    assert cost(found.bias) <= other.fun * (1.0 + 1e-6)
    np.testing.assert_allclose(found.bias, other.x, atol=1e-4)


def test_true_positions_are_in_the_null_space():
    segment, window = exact_tracks(seed=1)
    Rs, p = moving_points(segment, window)
    rows = translation_rows(segment.tracks, Rs)
    left = np.einsum("mikj,kj->mi", rows, p)
    assert np.abs(left).max() < 1e-7 * np.abs(rows).max()
    # Scale and origin are free, nothing else is.
    free = rows[:, :, 1:].reshape(len(rows) * 3, -1)
    values = np.linalg.eigvalsh(free.T @ free)
    assert values[0] < 1e-10 * values[-1] < 1e-3 * values[1]
    assert (depth_signs(segment.tracks, Rs, p) > 0.0).all()
    assert (depth_signs(segment.tracks, Rs, -p) < 0.0).all()


def test_rows_are_the_printed_equation():
    segment, window = noisy_tracks(4)
    Rs, _ = moving_points(segment, window)
    tracks, rows = segment.tracks, translation_rows(segment.tracks, Rs)
    point = int(np.flatnonzero(tracks.seen.sum(axis=1) >= 3)[0])
    views, f = np.flatnonzero(tracks.seen[point]), tracks.bearings[point]
    angle = {
        (a, b): np.linalg.norm(np.cross(f[b], Rs[b].T @ Rs[a] @ f[a]))
        for a in views
        for b in views
        if a < b
    }
    left, right = max(angle, key=angle.get)
    i = next(k for k in views if k not in (left, right))
    R_rl_f, R_il_f = (Rs[k].T @ Rs[left] @ f[left] for k in (right, i))
    a = np.cross(R_rl_f, f[right]) @ _skew(f[right]) @ Rs[right].T
    B = np.outer(_skew(f[i]) @ R_il_f, a)
    C = angle[left, right] ** 2 * _skew(f[i]) @ Rs[i].T
    np.testing.assert_allclose(rows[0, :, right], B, atol=1e-12)
    np.testing.assert_allclose(rows[0, :, i], C, atol=1e-12)
    np.testing.assert_allclose(rows[0, :, left], -(B + C), atol=1e-12)


def _skew(v):
    return np.cross(np.eye(3), v)


@pytest.mark.parametrize("method", [drt_tight, drt_loose])
@pytest.mark.parametrize("kind", ["drone", "handheld"])
def test_exact_input_gives_the_truth(method, kind):
    segment, window = exact_tracks(kind, seed=2)
    answer = method(segment)
    truth = window.truth
    assert angle_deg(answer.state.gravity_c0, truth.gravity_c0) < 1e-3
    np.testing.assert_allclose(answer.state.velocity_b, truth.velocity_b, atol=2e-4)
    np.testing.assert_allclose(answer.state.gyro_bias, 0.0, atol=1e-6)
    np.testing.assert_allclose(answer.state.Ts_c0_b, truth.Ts_c0_b, atol=2e-4)


def test_a_gyroscope_bias_is_found_to_first_order():
    segment, _ = exact_tracks("handheld", seed=1, bias_gyro=(0.01, -0.02, 0.015))
    np.testing.assert_allclose(epipolar_bias(segment).bias, (0.01, -0.02, 0.015), atol=2e-4)


def test_tight_solution_is_where_another_solver_finds_it():
    segment, _ = noisy_tracks(5)
    motion = integrated(raw_motion(segment, epipolar_bias(segment).bias))
    v0, gravity = solve_tight(segment, motion)
    rows = translation_rows(segment.tracks, motion.Rs_b0_b @ segment.T_b_c[:3, :3])
    lever = motion.Rs_b0_b @ segment.T_b_c[:3, 3]

    def residuals(x):
        positions = motion.poses(x[:3], on_sphere(x[3:]))[:, :3, 3] + lever
        return np.einsum("mikj,kj->mi", rows, positions).ravel()

    start = np.concatenate([np.zeros(3), angles_of(gravity) + 0.1])
    found = least_squares(residuals, start, xtol=1e-15, ftol=1e-15, gtol=1e-15).x
    np.testing.assert_allclose(v0, found[:3], atol=1e-6)
    np.testing.assert_allclose(gravity, on_sphere(found[3:]), atol=1e-6)


def test_no_excitation_is_rejected_with_a_state():
    segment, _ = exact_tracks("drone", seed=2)
    force = np.tile([0.0, 0.0, 9.81], (len(segment.raw.acc), 1))
    answer = drt_tight(replace(segment, raw=replace(segment.raw, acc=force)))
    assert not answer.accepted
    assert "too little excitation" in answer.reason
    assert answer.state is not None


def test_poses_alone_are_not_enough():
    segment, _ = exact_tracks()
    with pytest.raises(Exception, match="needs feature tracks"):
        drt_tight(replace(segment, find_tracks=lambda: None))
