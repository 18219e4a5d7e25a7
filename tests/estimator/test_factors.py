"""Derivatives of every factor, by central differences along all unknowns."""

from dataclasses import replace

import numpy as np
import pytest

from capture_cases import captured_case
from helpers import REGIMES, exact_window, numerical_jacobian, random_poses, twist
from maci2.estimator.factors import (
    CAMERA_TAIL,
    CARRIED,
    camera_factor,
    imu_factor,
    prior_coordinates,
    vertical_factor,
)
from maci2.estimator.first_camera import first_camera_guess
from maci2.estimator.measurements import assemble, assemble_markers, integrate_spans
from maci2.estimator.normal_equations import places
from maci2.estimator.problem import (
    MOTION,
    SHARED,
    STATE,
    UNKNOWN_STATE,
    CameraMotions,
    Free,
    States,
    retract,
    shared_parameters,
)
from maci2.estimator.solver import (
    OWN_CAMERA,
    OWN_IMU,
    OWN_ORIENTATION,
    OWN_POSITION,
    camera_rows,
    marker_rows,
)
from maci2.geometry import se3_adj, se3_exp, se3_inv, se3_jl_inv, se3_jr_inv, so3_exp, so3_jl_inv
from maci2.imu import VerticalPrior

EVERYTHING = Free(*[True] * 11, gyro_scale=True)
K = 2
"""First state of the factors."""


@pytest.fixture(scope="module")
def case():
    return captured_case(seed=3, duration_s=1.2)


def scattered(case, regime):
    """States and parameters anywhere: residuals of every size."""
    rng = np.random.default_rng(5)
    n = len(case.states.v_w)
    states = States(
        np.array([se3_exp(twist(rng, *REGIMES[regime])) for _ in range(n)]),
        rng.standard_normal((n, 3)),
        np.tile(case.states.bias_gyro[0] + 0.01 * rng.standard_normal(3), (n, 1)),
        np.tile(case.states.bias_acc[0] + 0.1 * rng.standard_normal(3), (n, 1)),
    )
    shared = shared_parameters(
        se3_exp(twist(rng, *REGIMES[regime]))[:3, :3],
        se3_exp(twist(rng, *REGIMES[regime])),
        se3_exp(twist(rng, *REGIMES[regime])),
        9.7, 0.3, 0.012, 0.02, -0.015,
    )  # fmt: skip
    shared.scalars[5:7] = 1e-3, -2e-3
    shared.scalars[7:10] = 0.01, -0.02, 0.005
    return states, shared


def assert_derivatives(rows_of, states, shared, s, count, own):
    """Rows (d, columns) of a factor of `count` states equal central differences."""
    columns = EVERYTHING.columns(s == MOTION)
    unknowns = count * s + int(columns.max()) + 1

    def residual(delta):
        dx = np.zeros((len(states.v_w), s))
        dx[K : K + count] = delta[: count * s].reshape(count, s)
        return rows_of(*retract(states, shared, columns, dx, delta[count * s :]))[:, count * s]

    rows = rows_of(states, shared)
    analytic = np.zeros((len(rows), unknowns))
    analytic[:, : count * s] = rows[:, : count * s]
    for column, unknown in places(columns, own, True).T:
        analytic[:, count * s + unknown] += rows[:, count * s + column]
    numeric = numerical_jacobian(residual, unknowns)
    scale = max(1.0, np.abs(numeric).max())
    np.testing.assert_allclose(analytic, numeric, atol=1e-7 * scale)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("s", [MOTION, STATE])
def test_derivatives_of_imu_motion(case, regime, s):
    states, shared = scattered(case, regime)
    problem = replace(case.problem, free=EVERYTHING)
    spans = assemble(problem, case.states, case.shared).spans

    def rows_of(x, y):
        J = np.zeros((s, 2 * s + 13))
        imu_factor(spans, K, x, y, s, J)
        return J

    assert_derivatives(rows_of, states, shared, s, 2, OWN_IMU)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("s", [MOTION, STATE])
@pytest.mark.parametrize("span", [1, 3])
@pytest.mark.parametrize("with_clock", [True, False])
def test_derivatives_of_a_cameras_motion(case, regime, s, span, with_clock):
    states, shared = scattered(case, regime)
    (stack,) = case.problem.camera
    motions = CameraMotions(
        np.array([K]), stack.Ts_ck_ck1[None, K : K + span], 1e-4 * np.eye(6 * span)[None]
    )
    problem = replace(case.problem, camera=(motions,))
    measurements = assemble(problem, case.states, case.shared)
    if not with_clock:
        # Where all states are at the camera's instants, its clock is no unknown.
        measurements = measurements._replace(instant=type(measurements.instant)(
            *(values[:0] for values in measurements.instant[:-1]), np.zeros(3)
        ))  # fmt: skip
    own = OWN_CAMERA if with_clock else OWN_CAMERA[:-1]

    def rows_of(x, y):
        J = np.zeros((6 * span, (span + 1) * s + CAMERA_TAIL))
        camera_rows(measurements, 0, x, y, s, J)
        return J

    assert_derivatives(rows_of, states, shared, s, span + 1, own)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("s", [MOTION, STATE])
@pytest.mark.parametrize("kind", ["positions", "orientations"])
def test_derivatives_of_marker_measurements_with_their_clocks(case, regime, s, kind):
    states, shared = scattered(case, regime)
    timed = getattr(assemble_markers(case.problem, case.states, case.shared), kind)
    i = int(np.searchsorted(timed.at_state, K))
    own = OWN_POSITION if kind == "positions" else OWN_ORIENTATION

    def rows_of(x, y):
        J, carried, T = np.zeros((3, s + 18)), np.zeros((6, CARRIED)), np.zeros((4, 4))
        marker_rows(timed, i, x, y, s, T, carried, J)
        return J

    assert int(timed.at_state[i]) == K
    assert_derivatives(rows_of, states, shared, s, 1, own)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("s", [MOTION, STATE])
def test_derivatives_of_the_tracked_vertical(case, regime, s):
    states, shared = scattered(case, regime)
    rng = np.random.default_rng(1)
    down = rng.standard_normal(3)
    prior = VerticalPrior(
        down / np.linalg.norm(down), rng.standard_normal((2, 9)), 0.1 * rng.standard_normal(6)
    )

    def rows_of(x, y):
        J = np.zeros((3, s + 10))
        vertical_factor(prior, x.part(slice(K, None)), y, s, J)
        return J

    assert_derivatives(rows_of, states, shared, s, 1, OWN_IMU[:0])


@pytest.mark.parametrize("regime", REGIMES)
def test_derivatives_of_a_priors_coordinates(case, regime):
    states, shared = scattered(case, regime)
    columns = EVERYTHING.columns()
    mean = shared_parameters(case.shared.R_w_g, case.shared.T_b_c, case.shared.T_b_m)
    size = STATE + SHARED
    J, delta = np.zeros((size, size)), np.zeros(size)

    def coordinates(step):
        dx = np.zeros((len(states.v_w), STATE))
        dx[0] = step[:STATE]
        x, y = retract(states, shared, columns, dx, step[STATE:])
        prior_coordinates(x, 0, y, states, 1, mean, delta, J)
        return delta.copy()

    coordinates(np.zeros(size))
    analytic = J.copy()
    np.testing.assert_allclose(analytic, numerical_jacobian(coordinates, size), atol=1e-7)


def test_coordinates_about_the_mean_are_zero(case):
    states, shared = scattered(case, "generic")
    delta, J = np.ones(39), np.empty((39, 39))
    prior_coordinates(states, 1, shared, states, 1, shared, delta, J)
    np.testing.assert_allclose(delta, 0.0, atol=1e-12)
    assert UNKNOWN_STATE.Ts_w_b.shape == (1, 4, 4)


def test_all_residuals_vanish_at_the_truth_of_noiseless_measurements():
    case = captured_case(seed=4, duration_s=2.0, noise=0.0)
    measurements = assemble(case.problem, case.states, case.shared)
    markers = assemble_markers(case.problem, case.states, case.shared)
    J, carried, T = np.zeros((15, 30 + CAMERA_TAIL)), np.zeros((6, CARRIED)), np.zeros((4, 4))
    for k in range(len(case.states.v_w) - 1):
        camera_rows(measurements, k, case.states, case.shared, STATE, J)
        # The rate is held for the 2 ms of the clock.
        assert np.abs(J[:6, 30]).max() < 1e-4
    for timed in markers:
        for i in range(len(timed.at_state)):
            marker_rows(timed, i, case.states, case.shared, STATE, T, carried, J)
            # White noise of the samples between a state and a measurement is left.
            assert np.abs(J[:3, 15]).max() < 5e-4


def camera_residual(T_ck_ck1, T_w_bk, T_w_bk1, T_b_c):
    """Residual and derivatives of one relative pose between two states."""
    J = np.zeros((6, 18 + CAMERA_TAIL))
    shared = shared_parameters(T_b_c=T_b_c)
    camera_factor(
        T_ck_ck1, np.array([T_w_bk, T_w_bk1]), np.zeros((0, 6, CARRIED)), shared, 9, 0, 18, J
    )
    return J[:, 18], J


@pytest.mark.parametrize("regime", REGIMES)
def test_the_camera_residual_is_the_left_error_of_the_measurement_and_zero_without_one(regime):
    T_w_bk, T_w_bk1, T_b_c = random_poses(3, regime, seed=8)
    T_ck_ck1 = se3_inv(T_w_bk @ T_b_c) @ T_w_bk1 @ T_b_c
    r, J = camera_residual(T_ck_ck1, T_w_bk, T_w_bk1, T_b_c)
    np.testing.assert_allclose(r, 0.0, atol=1e-13)
    # Neither velocity nor biases nor gravity.
    assert not J[:, [3, 4, 5, 12, 13, 14, *range(19, 28)]].any()
    xi = twist(np.random.default_rng(9), *REGIMES[regime])
    r, _ = camera_residual(se3_exp(xi) @ T_ck_ck1, T_w_bk, T_w_bk1, T_b_c)
    np.testing.assert_allclose(r, xi, atol=1e-12)


def test_the_extrinsic_derivative_as_printed_with_c_inverted_is_wrong():
    T_w_bk, T_w_bk1, T_b_c = random_poses(3, "generic", seed=7)
    error = se3_exp(twist(np.random.default_rng(7), *REGIMES["generic"]))
    T_ck_ck1 = error @ se3_inv(T_w_bk @ T_b_c) @ T_w_bk1 @ T_b_c
    r, J = camera_residual(T_ck_ck1, T_w_bk, T_w_bk1, T_b_c)

    def moved(xi):
        return camera_residual(T_ck_ck1, T_w_bk, T_w_bk1, se3_exp(xi) @ T_b_c)[0]

    numeric = numerical_jacobian(moved, 6)
    S_k = T_ck_ck1 @ se3_inv(T_b_c)
    # The appendix sets C = T_c_b, so Ad(C^-1) is Ad(T_b_c): paper_notes, note 13.
    printed = se3_jr_inv(r) @ se3_adj(T_b_c) - se3_jl_inv(r) @ se3_adj(S_k)
    assert np.abs(printed - numeric).max() > 0.1
    np.testing.assert_allclose(J[:, 28:34], numeric, atol=1e-9)


@pytest.mark.parametrize("rule", ["euler", "midpoint"])
def test_imu_residuals_are_zero_at_the_truth(rule):
    window = exact_window("handheld", rule, seed=5)
    x, n = window.truth, len(window.truth.stamps_ns)
    biases = np.tile(np.r_[x.gyro_bias, x.acc_bias], (n - 1, 1))
    spans = integrate_spans(window.imu, x.stamps_ns[:-1], x.stamps_ns[1:], biases, rule)
    states, shared = first_camera_guess(
        x.Ts_c0_b, x.velocity_b, x.gravity_c0, x.gyro_bias, x.acc_bias, x.T_b_c
    )
    for k in range(n - 1):
        J = np.zeros((9, 18 + 13))
        imu_factor(spans, k, states, shared, 9, J)
        np.testing.assert_allclose(J[:, 18], 0.0, atol=1e-12)


def some_covariance(dim, seed):
    root = np.random.default_rng(seed).standard_normal((dim, dim + 3))
    return root @ root.T


@pytest.mark.parametrize("regime", REGIMES)
def test_transporting_the_visual_covariance_does_not_change_the_cost(regime):
    r, cov = twist(np.random.default_rng(3), *REGIMES[regime]), some_covariance(6, seed=1)
    transport = se3_jl_inv(r)
    transported = transport @ cov @ transport.T
    assert r @ np.linalg.solve(transported, r) == pytest.approx(
        r @ np.linalg.solve(cov, r), rel=1e-10
    )


@pytest.mark.parametrize("regime", REGIMES)
def test_transporting_the_full_imu_covariance_does_not_change_the_cost(regime):
    rng, cov = np.random.default_rng(4), some_covariance(9, seed=2)
    r = np.r_[twist(rng, *REGIMES[regime])[3:], rng.standard_normal(6)]
    D = np.eye(9)
    D[:3, :3] = so3_jl_inv(r[:3])
    cost = r @ np.linalg.solve(D @ cov @ D.T, r)
    assert cost == pytest.approx(r @ np.linalg.solve(cov, r), rel=1e-10)


def test_errors_of_preintegration_move_the_residual_by_the_transport(case):
    states, shared = scattered(case, "generic")
    spans = assemble(case.problem, states, case.shared).spans

    def moved(error):
        other = spans._replace(
            gamma=spans.gamma @ so3_exp(error[:3]),
            beta=spans.beta + error[3:6],
            alpha=spans.alpha + error[6:],
        )
        J = np.zeros((9, 18 + 13))
        imu_factor(other, K, states, shared, 9, J)
        return J[:, 18].copy()

    D = -np.eye(9)
    D[:3, :3] = -so3_jl_inv(moved(np.zeros(9))[:3])
    np.testing.assert_allclose(numerical_jacobian(moved, 9), D, atol=1e-8)
