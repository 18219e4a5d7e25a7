"""ORB-SLAM3's inertial-only optimization against its cost, its derivatives and its gates."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation
from segment_cases import (
    G,
    angles_of,
    exact_segment,
    noisy_segment,
    on_sphere,
    poses,
    preintegrated,
    scaled_translation,
    with_acc,
)

from helpers import numerical_jacobian, unit_vector
from maci2.geometry import so3_exp
from maci2_lab.baselines.orbslam3 import (
    DOWN,
    Unknowns,
    acceleration_change,
    informations,
    linearized,
    optimize,
    orbslam3,
    start,
)


def stated_residuals(segment, pre, roots, x):
    """The cost's terms as ORB-SLAM3's paper states them, whitened, priors included."""
    n = len(segment.stamps_ns)
    Rs, p_c, lever = poses(segment)
    p, gravity = p_c - lever, on_sphere(x[:2])
    bg, ba, v = x[2:5], x[5:8], x[8:].reshape(n, 3)
    out = [np.sqrt(1e2) * bg, np.sqrt(1e5) * ba]
    for k, dt in enumerate(pre.dt):
        turn = Rotation.from_rotvec(pre.D_bg[k, :3] @ bg).as_matrix()
        e_R = Rotation.from_matrix((pre.gamma[k] @ turn).T @ Rs[k].T @ Rs[k + 1]).as_rotvec()
        dv = pre.beta[k] + pre.D_bg[k, 3:6] @ bg + pre.D_ba[k, 3:6] @ ba
        dp = pre.alpha[k] + pre.D_bg[k, 6:9] @ bg + pre.D_ba[k, 6:9] @ ba
        e_v = Rs[k].T @ (v[k + 1] - v[k] - gravity * dt) - dv
        e_p = Rs[k].T @ (p[k + 1] - p[k] - v[k] * dt - 0.5 * gravity * dt**2) - dp
        out.append(roots[k] @ np.concatenate([e_R, e_v, e_p]))
    return np.concatenate(out)


@pytest.mark.parametrize("seed", range(3))
def test_the_answer_is_the_minimum_of_the_stated_cost(seed):
    segment = noisy_segment(seed)
    state = orbslam3(segment).state
    pre = preintegrated(segment)
    roots = np.linalg.cholesky(np.linalg.inv(pre.cov)).transpose(0, 2, 1)
    found = least_squares(
        lambda x: stated_residuals(segment, pre, roots, x),
        np.concatenate([angles_of(state.gravity_c0) + 0.02, np.zeros(6 + 3 * len(pre.dt) + 3)]),
        jac="3-point",
        x_scale="jac",
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
        max_nfev=100,
    ).x
    Rs, _, _ = poses(segment)
    v_c0 = np.einsum("kij,kj->ki", Rs, state.velocity_b)
    np.testing.assert_allclose(state.gravity_c0, on_sphere(found[:2]), atol=1e-5)
    np.testing.assert_allclose(state.gyro_bias, found[2:5], atol=1e-7)
    np.testing.assert_allclose(state.acc_bias, found[5:8], atol=1e-6)
    np.testing.assert_allclose(v_c0.ravel(), found[8:], atol=1e-6)


def test_derivatives_are_those_of_finite_differences():
    segment = noisy_segment(1)
    pre, Ts_c0_b = preintegrated(segment), segment.Ts_c0_b()
    rng = np.random.default_rng(0)
    x = Unknowns(
        rng.normal(size=(len(Ts_c0_b), 3)),
        0.3 * rng.normal(size=3),
        rng.normal(size=3),
        so3_exp(2.0 * unit_vector(rng)),
    )
    _, J = linearized(pre, Ts_c0_b, x, G)
    numeric = numerical_jacobian(
        lambda step: linearized(pre, Ts_c0_b, x.moved(step), G)[0], J.shape[2]
    )
    np.testing.assert_allclose(J, numeric, atol=1e-7)


def test_the_start_points_down_and_moves_with_finite_differences():
    segment, window = exact_segment("handheld")
    Ts_c0_b = segment.Ts_c0_b()
    pre = preintegrated(segment)
    first = start(pre, Ts_c0_b)
    summed = sum(R @ beta for R, beta in zip(Ts_c0_b[:-1, :3, :3], pre.beta, strict=True))
    np.testing.assert_allclose(first.R_c0_g @ DOWN, -summed / np.linalg.norm(summed), atol=1e-12)
    moved = Ts_c0_b[1:, :3, 3] - Ts_c0_b[:-1, :3, 3]
    np.testing.assert_allclose(first.v_c0[:-1], moved / 0.25, atol=1e-9)
    np.testing.assert_array_equal(first.v_c0[-1], first.v_c0[-2])
    assert first.R_c0_g @ DOWN @ window.truth.gravity_c0 > 0.8 * G


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_start_is_a_rotation_also_where_gravity_is_along_its_axis(sign):
    segment, _ = exact_segment()
    pre = preintegrated(segment)
    Ts = np.tile(np.eye(4), (len(pre.dt) + 1, 1, 1))
    pre = replace(pre, beta=np.tile([0.0, 0.0, sign], (len(pre.dt), 1)))
    R = start(pre, Ts).R_c0_g
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(R @ DOWN, [0.0, 0.0, -sign], atol=1e-12)


def test_the_optimum_does_not_depend_on_the_start():
    segment = noisy_segment(0)
    pre, Ts_c0_b = preintegrated(segment), segment.Ts_c0_b()
    near = start(pre, Ts_c0_b)
    far = near.moved(np.concatenate([np.ones(near.v_c0.size), np.full(6, 0.1), [0.8, -0.6]]))
    a, b = (optimize(pre, Ts_c0_b, x, G) for x in (near, far))
    np.testing.assert_allclose(a.R_c0_g @ DOWN, b.R_c0_g @ DOWN, atol=1e-8)
    np.testing.assert_allclose(a.v_c0, b.v_c0, atol=1e-7)


def test_the_prior_pins_the_accelerometer_bias_but_along_gravity_where_the_norm_shows_it():
    segment = noisy_segment(0, bias_acc=(0.1, 0.1, -0.1), bias_acc_std=0.0)
    state = orbslam3(segment).state
    down_b = poses(segment)[0][0].T @ state.gravity_c0 / G
    along = state.acc_bias @ down_b
    assert np.linalg.norm(state.acc_bias - along * down_b) < 0.03
    assert abs(along) > 0.05


def test_information_that_is_next_to_nothing_is_dropped():
    info = informations(np.diag([1.0] * 8 + [1e13])[None])[0]
    np.testing.assert_allclose(info, np.diag([1.0] * 8 + [0.0]), atol=1e-15)


def test_a_window_in_motion_passes_all_gates():
    answer = orbslam3(noisy_segment(0, "handheld"))
    assert answer.accepted
    assert answer.reason == ""


def test_each_gate_says_what_it_lacks():
    assert orbslam3(noisy_segment(0, steps=8)).reason == "9 keyframes, needed 10"
    short = orbslam3(noisy_segment(0, steps=9, step_s=0.1))
    assert short.reason == "0.90 s of keyframes, needed 1"
    still, _ = exact_segment("static")
    calm = orbslam3(still)
    assert calm.reason.startswith("not enough acceleration: it changes by 0.0")
    lively, _ = exact_segment("handheld")
    there = orbslam3(scaled_translation(lively, 1e-3))
    assert there.reason.startswith("not enough motion: 0.00")
    for answer in (short, calm, there):
        assert not answer.accepted
        assert answer.state is not None


def test_the_change_of_acceleration_worked_out_by_hand():
    segment, _ = exact_segment("static")
    acc = np.tile([0.0, 0.0, 9.81], (len(segment.raw.acc), 1))
    acc[len(acc) // 2 :, 0] = 0.4
    still = replace(segment, raw=replace(segment.raw, gyro=np.zeros_like(acc)))
    # Half the window without, half with 0.4 m/s^2; the images next to the step see at most that.
    change = acceleration_change(with_acc(still, acc))
    assert 0.2 <= change <= 0.4 + 1e-9
