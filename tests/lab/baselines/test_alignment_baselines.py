"""VINS, Kimera and linear alignment against their equations, solved in another way."""

import re
from dataclasses import replace

import gtsam
import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation
from segment_cases import (
    G,
    brute_alignment,
    exact_segment,
    motion_residuals,
    noisy_segment,
    poses,
    preintegrated,
    rotation_vectors,
    scaled_translation,
    with_acc,
)

from maci2.geometry import se3_exp, so3_exp
from maci2.metrics.init_errors import angle_deg
from maci2_lab.baselines import INITIALIZERS, Segment
from maci2_lab.baselines.alignment import (
    corrected,
    logs,
    rotation_errors,
    rotation_errors_D_bias,
    tangent_basis,
)
from maci2_lab.baselines.closed_forms import const_bias, kimera, linear, static
from maci2_lab.baselines.vins import vins, vins_fixed

SEEDS = range(3)


def scale_of(segment, state):
    p = poses(segment)[1]
    travelled = np.diff(state.Ts_c0_b @ segment.T_b_c, axis=0)[:, :3, 3]
    return float((travelled * np.diff(p, axis=0)).sum() / (np.diff(p, axis=0) ** 2).sum())


@pytest.mark.parametrize("seed", SEEDS)
def test_vins_gyro_bias_is_least_squares_of_twice_the_quaternions_vectors(seed):
    segment = noisy_segment(seed)
    pre = preintegrated(segment)
    quat_xyzw = Rotation.from_rotvec(rotation_vectors(segment, pre)).as_quat(canonical=True)
    found = np.linalg.lstsq(
        pre.D_bg[:, :3].reshape(-1, 3), 2.0 * quat_xyzw[:, :3].ravel(), rcond=None
    )[0]
    np.testing.assert_allclose(vins(segment).state.gyro_bias, found, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_fixed_vins_is_the_minimum_of_its_cost_on_the_sphere(seed):
    segment = noisy_segment(seed)
    state = vins_fixed(segment).state
    pre = preintegrated(segment, state.gyro_bias)
    gravity, velocity, scale = brute_alignment(segment, pre, state.gravity_c0, with_scale=True)
    np.testing.assert_allclose(state.gravity_c0, gravity, atol=1e-6)
    np.testing.assert_allclose(state.velocity_b, velocity, atol=1e-6)
    assert scale_of(segment, state) == pytest.approx(scale, abs=1e-6)


def free_solution(segment, pre):
    """Gravity, velocities and scale without the norm, by a general solver."""
    n = len(segment.stamps_ns)

    def residuals(x):
        return motion_residuals(segment, pre, x[:3], x[3:-1].reshape(n, 3), x[-1]).ravel()

    # Linear in x: columns are differences to the residuals at zero.
    zero = residuals(np.zeros(3 * n + 4))
    J = np.stack([residuals(e) - zero for e in np.eye(3 * n + 4)], axis=1)
    return J, zero, np.linalg.lstsq(J, -zero, rcond=None)[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_released_vins_weighs_each_linearization_a_thousand_times_the_next(seed):
    """The same fault stated as one weighted problem: in refinement k, linearizations 1 .. k with
    weights 1000^k .. 1000."""
    segment = noisy_segment(seed)
    state = vins(segment).state
    J, zero, x = free_solution(segment, preintegrated(segment, state.gyro_bias))
    gravity, rows, right = G * x[:3] / np.linalg.norm(x[:3]), [], []
    for k in range(4):
        # VINS has gravity point up; its basis belongs to that.
        across = tangent_basis(-gravity)
        rows.append(np.column_stack([-J[:, :3] @ across, J[:, 3:]]))
        right.append(-zero - J[:, :3] @ gravity)
        weights = [1000.0 ** (0.5 * (k - i)) for i in range(k + 1)]
        stacked = np.concatenate([w * row for w, row in zip(weights, rows, strict=True)])
        y = np.linalg.lstsq(
            stacked,
            np.concatenate([w * one for w, one in zip(weights, right, strict=True)]),
            rcond=None,
        )[0]
        moved = -gravity + across @ y[:2]
        gravity = -G * moved / np.linalg.norm(moved)
    np.testing.assert_allclose(state.gravity_c0, gravity, atol=1e-6)
    np.testing.assert_allclose(state.velocity_b.ravel(), y[2:-1], atol=1e-6)
    assert scale_of(segment, state) == pytest.approx(y[-1], abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_released_vins_takes_its_first_step_about_four_times(seed):
    segment = noisy_segment(seed)
    released, fixed = vins(segment).state, vins_fixed(segment).state
    _, _, x = free_solution(segment, preintegrated(segment, fixed.gyro_bias))
    ratio = angle_deg(released.gravity_c0, x[:3]) / angle_deg(fixed.gravity_c0, x[:3])
    assert 3.0 < ratio < 5.0


@pytest.mark.parametrize("name", ["vins", "vins-fixed"])
def test_vins_finds_the_scale_of_a_camera_that_is_not_metric(name):
    segment, window = exact_segment(bias_gyro=(0.01, -0.02, 0.01))
    answer = INITIALIZERS[name](scaled_translation(segment, 0.5))
    assert answer.accepted
    np.testing.assert_allclose(answer.state.gravity_c0, window.truth.gravity_c0, atol=1e-3)
    np.testing.assert_allclose(answer.state.Ts_c0_b, window.truth.Ts_c0_b, atol=1e-3)


def test_vins_rejects_a_negative_scale_and_a_wrong_norm_of_gravity():
    segment, _ = exact_segment()
    mirrored = vins(scaled_translation(segment, -1.0))
    assert not mirrored.accepted
    assert "the scale comes out as -1.0" in mirrored.reason
    strong = vins(with_acc(segment, 1.2 * segment.raw.acc))
    assert not strong.accepted
    assert re.search(r"gravity's norm is off by 1\.9\d m/s\^2, allowed 1", strong.reason)
    assert vins(with_acc(segment, 1.08 * segment.raw.acc)).accepted


def test_vins_warns_of_little_excitation_but_goes_on():
    lively, _ = exact_segment("handheld")
    assert vins(lively).reason == ""
    calm, _ = exact_segment("static")
    answer = vins(calm)
    assert answer.accepted
    assert answer.reason.startswith("warning only: mean accelerations vary by 0.")


def kimera_by_gtsam(segment: Segment):
    """Gyroscope bias, free gravity and all velocities from GTSAM's linear factors."""
    pre = preintegrated(segment)
    graph, unit = gtsam.GaussianFactorGraph(), gtsam.noiseModel.Unit.Create(3)
    for D, error in zip(pre.D_bg[:, :3], rotation_vectors(segment, pre), strict=True):
        graph.add(gtsam.JacobianFactor(0, D, error, unit))
    bias = graph.optimize().at(0)
    beta = pre.beta + pre.D_bg[:, 3:6] @ bias
    alpha = pre.alpha + pre.D_bg[:, 6:9] @ bias
    Rs, p_c, lever = poses(segment)
    graph, g_key, p = gtsam.GaussianFactorGraph(), 1000, p_c - lever
    for k, dt in enumerate(pre.dt):
        R = Rs[k].T
        position = R @ (p[k + 1] - p[k]) - alpha[k]
        graph.add(gtsam.JacobianFactor(k, dt * np.eye(3), g_key, 0.5 * dt**2 * R, position, unit))
        graph.add(
            gtsam.JacobianFactor(k, -np.eye(3), k + 1, R @ Rs[k + 1], g_key, -dt * R, beta[k], unit)
        )
    return bias, graph.optimize().at(g_key)


@pytest.mark.parametrize("seed", SEEDS)
def test_kimeras_bias_and_gravity_are_those_of_gtsams_factors(seed):
    segment = noisy_segment(seed)
    state = kimera(segment).state
    bias, gravity = kimera_by_gtsam(segment)
    np.testing.assert_allclose(state.gyro_bias, bias, atol=1e-10)
    np.testing.assert_allclose(state.gravity_c0, gravity, atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_kimeras_velocities_are_those_of_the_minimum_on_the_sphere(seed):
    segment = noisy_segment(seed)
    state = kimera(segment).state
    pre = preintegrated(segment)
    gamma, beta, alpha = corrected(pre, state.gyro_bias, np.zeros(3))
    pre = replace(pre, gamma=gamma, beta=beta, alpha=alpha)
    _, velocity, _ = brute_alignment(segment, pre, state.gravity_c0, with_scale=False)
    # Its tangent plane stays where it was, a fraction of a degree from the minimum.
    np.testing.assert_allclose(state.velocity_b, velocity, atol=1e-5)


def test_kimera_rejects_a_wrong_norm_of_gravity_and_rotations_that_do_not_fit():
    segment, _ = exact_segment()
    assert kimera(segment).accepted
    assert kimera(with_acc(segment, 1.008 * segment.raw.acc)).accepted
    strong = kimera(with_acc(segment, 1.02 * segment.raw.acc))
    assert not strong.accepted
    assert re.search(r"gravity's norm is off by 0\.2\d m/s\^2, allowed 0\.1", strong.reason)
    Ts = segment.vision.Ts_ck_ck1.copy()
    Ts[4] = Ts[4] @ se3_exp(np.array([0.0, 0.0, 0.0, 1.5, -1.0, 1.0]))
    turned = kimera(replace(segment, vision=replace(segment.vision, Ts_ck_ck1=Ts)))
    assert not turned.accepted
    assert "rotations of vision and gyroscope differ by" in turned.reason


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("acc_bias", [(0.0, 0.0, 0.0), (-0.02, 0.1, 0.06)])
def test_linear_alignment_is_the_minimum_of_its_cost_on_the_sphere(seed, acc_bias):
    segment = noisy_segment(seed)
    state = (const_bias(acc_bias) if any(acc_bias) else linear)(segment).state
    pre = preintegrated(segment, state.gyro_bias, np.array(acc_bias))
    gravity, velocity, _ = brute_alignment(segment, pre, state.gravity_c0, with_scale=False)
    np.testing.assert_allclose(state.gravity_c0, gravity, atol=1e-6)
    np.testing.assert_allclose(state.velocity_b, velocity, atol=1e-6)
    np.testing.assert_array_equal(state.acc_bias, acc_bias)


def test_a_constant_bias_that_is_right_makes_linear_alignment_exact():
    bias = (-0.05, 0.1, 0.08)
    segment, window = exact_segment(bias_acc=bias)
    truth = window.truth
    known = const_bias(bias)(segment).state
    np.testing.assert_allclose(known.gravity_c0, truth.gravity_c0, atol=1e-8)
    np.testing.assert_allclose(known.velocity_b, truth.velocity_b, atol=1e-8)
    assert angle_deg(linear(segment).state.gravity_c0, truth.gravity_c0) > 0.1


def test_static_start_is_right_at_rest_and_wrong_in_motion():
    # At rest the simulated hand trembles: 4 mm/s and 0.02 m/s^2.
    still, window = exact_segment("static")
    state = static(still).state
    assert angle_deg(state.gravity_c0, window.truth.gravity_c0) < 0.1
    np.testing.assert_allclose(state.velocity_b, window.truth.velocity_b, atol=5e-3)
    moving, window = exact_segment("drone")
    answer = static(moving)
    assert answer.accepted
    assert angle_deg(answer.state.gravity_c0, window.truth.gravity_c0) > 2.0
    assert not answer.state.velocity_b.any()
    assert not answer.state.gyro_bias.any()


def test_static_gravity_worked_out_by_hand():
    segment, _ = exact_segment()
    segment = replace(segment, T_b_c=np.eye(4))
    acc = np.tile([0.0, 3.0, 4.0], (len(segment.raw.acc), 1))
    # What comes after the second keyframe is not looked at.
    acc[segment.raw.stamps_ns > segment.stamps_ns[1]] = [100.0, 0.0, 0.0]
    up = with_acc(segment, acc)
    np.testing.assert_allclose(static(up).state.gravity_c0, [0.0, -0.6 * G, -0.8 * G])


def test_rotation_errors_derive_by_the_bias_as_finite_differences_say():
    segment = noisy_segment(1)
    pre = preintegrated(segment)
    Rs, _, _ = poses(segment)
    bias, D = np.array([0.3, -0.2, 0.4]), pre.D_bg[:, :3]

    def errors(db):
        return logs(rotation_errors(corrected(pre, bias + db, np.zeros(3))[0], Rs))

    found = rotation_errors_D_bias(errors(np.zeros(3)), D, bias)
    for axis, e in enumerate(1e-6 * np.eye(3)):
        np.testing.assert_allclose(found[..., axis], (errors(e) - errors(-e)) / 2e-6, atol=1e-8)


def test_first_order_bias_is_what_integrating_again_gives_for_a_small_one():
    segment = noisy_segment(2)
    bg, ba = np.array([1e-4, -2e-4, 1e-4]), np.array([0.01, 0.02, -0.01])
    gamma, beta, alpha = corrected(preintegrated(segment), bg, ba)
    again = preintegrated(segment, bg, ba)
    np.testing.assert_allclose(gamma, again.gamma, atol=1e-8)
    np.testing.assert_allclose(beta, again.beta, atol=1e-6)
    np.testing.assert_allclose(alpha, again.alpha, atol=1e-6)


@pytest.mark.parametrize("gravity", [[0.0, 0.0, G], [0.0, 0.0, -G], [1.0, -2.0, 9.0]])
def test_a_tangent_basis_is_orthonormal_and_across(gravity):
    gravity = np.array(gravity)
    B = np.column_stack([tangent_basis(gravity), gravity / np.linalg.norm(gravity)])
    np.testing.assert_allclose(B.T @ B, np.eye(3), atol=1e-12)


def test_linear_alignment_turns_with_the_camera():
    """Another camera frame on the same body gives the same gravity, seen from there."""
    segment = noisy_segment(0)
    R_c_d = so3_exp(np.array([0.4, -0.3, 0.2]))
    T_c_d = np.eye(4)
    T_c_d[:3, :3] = R_c_d
    Ts = T_c_d.T @ segment.vision.Ts_ck_ck1 @ T_c_d
    turned = replace(
        segment, T_b_c=segment.T_b_c @ T_c_d, vision=replace(segment.vision, Ts_ck_ck1=Ts)
    )
    for name in ("linear", "vins-fixed", "orbslam3", "analytic", "kimera", "static"):
        here, there = INITIALIZERS[name](segment).state, INITIALIZERS[name](turned).state
        np.testing.assert_allclose(R_c_d @ there.gravity_c0, here.gravity_c0, atol=1e-5)
        np.testing.assert_allclose(there.velocity_b, here.velocity_b, atol=1e-5)


def test_the_brute_force_oracle_can_tell_a_wrong_answer():
    segment = noisy_segment(0)
    state = linear(segment).state
    pre = preintegrated(segment, state.gyro_bias)
    best = np.sum(motion_residuals(segment, pre, state.gravity_c0, state.velocity_b) ** 2)
    for e in 1e-3 * np.eye(3):
        worse = motion_residuals(segment, pre, state.gravity_c0, state.velocity_b + e)
        assert np.sum(worse**2) > best


def test_the_gyro_bias_of_linear_alignment_is_unweighted_least_squares():
    segment = noisy_segment(0)
    pre = preintegrated(segment)
    errors = rotation_vectors(segment, pre)
    found = least_squares(lambda b: (pre.D_bg[:, :3] @ b - errors).ravel(), np.zeros(3)).x
    np.testing.assert_allclose(linear(segment).state.gyro_bias, found, atol=1e-7)
