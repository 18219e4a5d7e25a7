"""Derivatives of every factor, by central differences along all unknowns."""

from dataclasses import replace

import numpy as np
import pytest

from capture_cases import captured_case
from helpers import REGIMES, exact_window, numerical_jacobian, random_poses, twist
from maci2.estimator.factors import (
    CAMERA,
    CAMERA_TAIL,
    CLOCK,
    IMU,
    IMU_TAIL,
    MARKER_TAIL,
    ORIENTATIONS,
    OWN,
    POSITIONS,
    PRIOR_TAIL,
    PRIORS,
    camera_factor,
    factor,
    imu_factor,
    places,
    prior_factor,
    vertical_factor,
)
from maci2.estimator.measurements import (
    NO_MOTIONS,
    NO_SPANS,
    assemble,
    assemble_markers,
    integrate_spans,
    stack_priors,
)
from maci2.estimator.problem import (
    GYRO_SCALE,
    MOTION,
    ORIENTATION_CLOCK,
    POSITION_CLOCK,
    SHARED,
    STATE,
    UNKNOWN_STATE,
    CameraMotions,
    Free,
    GaussianPrior,
    States,
    Unknowns,
    retract,
    shared_parameters,
)
from maci2.estimator.results import first_camera_guess
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
    shared.scalars[[POSITION_CLOCK.stop - 1, ORIENTATION_CLOCK.stop - 1]] = 1e-3, -2e-3
    shared.scalars[GYRO_SCALE] = 0.01, -0.02, 0.005
    return states, shared


def at(states, shared, s):
    """A point where everything is free."""
    return Unknowns(states, shared, EVERYTHING.columns(s == MOTION), s, False)


def assert_derivatives(rows, unknowns, count, kind, is_carried=True):
    """Rows (d, columns) of a factor of `count` states equal central differences."""
    states, _, columns, s, _ = unknowns
    size = count * s + int(columns.max()) + 1

    def residual(delta):
        dx = np.zeros((len(states.v_w), s))
        dx[K : K + count] = delta[: count * s].reshape(count, s)
        return rows(retract(unknowns, dx, delta[count * s :]))[:, count * s]

    J = rows(unknowns)
    analytic = np.zeros((len(J), size))
    analytic[:, : count * s] = J[:, : count * s]
    for column, unknown in places(columns, kind, is_carried).T:
        analytic[:, count * s + unknown] += J[:, count * s + column]
    numeric = numerical_jacobian(residual, size)
    scale = max(1.0, np.abs(numeric).max())
    np.testing.assert_allclose(analytic, numeric, atol=1e-7 * scale)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("s", [MOTION, STATE])
def test_derivatives_of_imu_motion(case, regime, s):
    unknowns = at(*scattered(case, regime), s)
    problem = replace(case.problem, free=EVERYTHING)
    measurements = assemble(problem, case.states, case.shared)

    def rows(x):
        J = np.zeros((s, 2 * s + IMU_TAIL))
        factor(measurements, None, IMU, K, x, J)
        return J

    assert_derivatives(rows, unknowns, 2, IMU)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("s", [MOTION, STATE])
@pytest.mark.parametrize("span", [1, 3])
@pytest.mark.parametrize("with_clock", [True, False])
def test_derivatives_of_a_cameras_motion(case, regime, s, span, with_clock):
    unknowns = at(*scattered(case, regime), s)
    (stack,) = case.problem.camera
    motions = CameraMotions(
        np.array([K]), stack.Ts_ck_ck1[None, K : K + span], 1e-4 * np.eye(6 * span)[None]
    )
    problem = replace(case.problem, camera=(motions,))
    measurements = assemble(problem, case.states, case.shared)
    if not with_clock:
        # Where all states are at the camera's instants, its clock is no unknown.
        measurements = measurements._replace(instant=NO_SPANS)

    def rows(x):
        J = np.zeros((6 * span, (span + 1) * s + CAMERA_TAIL))
        factor(measurements, None, CAMERA, 0, x, J)
        return J

    assert_derivatives(rows, unknowns, span + 1, CAMERA, with_clock)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("s", [MOTION, STATE])
@pytest.mark.parametrize("kind", [POSITIONS, ORIENTATIONS])
def test_derivatives_of_marker_measurements_with_their_clocks(case, regime, s, kind):
    unknowns = at(*scattered(case, regime), s)
    measurements = assemble(case.problem, case.states, case.shared)
    markers = assemble_markers(case.problem, case.states, case.shared)
    timed = markers[kind - POSITIONS]
    i = int(np.searchsorted(timed.at_state, K))

    def rows(x):
        J = np.zeros((3, s + MARKER_TAIL))
        factor(measurements, markers, kind, i, x, J)
        return J

    assert int(timed.at_state[i]) == K
    assert_derivatives(rows, unknowns, 1, kind)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("s", [MOTION, STATE])
def test_derivatives_of_the_tracked_vertical(case, regime, s):
    unknowns = at(*scattered(case, regime), s)
    rng = np.random.default_rng(1)
    down = rng.standard_normal(3)
    prior = VerticalPrior(
        down / np.linalg.norm(down), rng.standard_normal((2, 9)), 0.1 * rng.standard_normal(6)
    )

    def rows(x):
        J = np.zeros((3, s + IMU_TAIL))
        vertical_factor(prior, x._replace(states=x.states.part(slice(K, None))), J)
        return J

    assert_derivatives(rows, unknowns, 1, IMU)


def prior_of(state, shared):
    """A prior of state K about given values, stacked."""
    return stack_priors((GaussianPrior(K, state, shared, np.eye(STATE + SHARED)),))


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("s", [MOTION, STATE])
def test_derivatives_of_a_priors_coordinates(case, regime, s):
    unknowns = at(*scattered(case, regime), s)
    mean = shared_parameters(case.shared.R_w_g, case.shared.T_b_c, case.shared.T_b_m)
    prior = prior_of(unknowns.states.part(slice(1, 2)), mean)

    def rows(x):
        J = np.zeros((STATE + SHARED, s + PRIOR_TAIL))
        prior_factor(prior, 0, x, J)
        return J

    assert_derivatives(rows, unknowns, 1, PRIORS)


def test_coordinates_about_the_mean_are_zero(case):
    states, shared = scattered(case, "generic")
    J = np.ones((STATE + SHARED, STATE + PRIOR_TAIL))
    prior = prior_of(states.part(slice(K, K + 1)), shared)
    prior_factor(prior, 0, at(states, shared, STATE), J)
    np.testing.assert_allclose(J[:, STATE], 0.0, atol=1e-12)
    assert UNKNOWN_STATE.Ts_w_b.shape == (1, 4, 4)


def test_all_residuals_vanish_at_the_truth_of_noiseless_measurements():
    case = captured_case(seed=4, duration_s=2.0, noise=0.0)
    measurements = assemble(case.problem, case.states, case.shared)
    markers = assemble_markers(case.problem, case.states, case.shared)
    truth, J = at(case.states, case.shared, STATE), np.zeros((15, 30 + CAMERA_TAIL))
    for k in range(len(case.states.v_w) - 1):
        factor(measurements, markers, CAMERA, k, truth, J)
        # The rate is held for the 2 ms of the clock.
        assert np.abs(J[:6, 30]).max() < 1e-4
    for kind, timed in zip((POSITIONS, ORIENTATIONS), markers, strict=True):
        for i in range(len(timed.at_state)):
            factor(measurements, markers, kind, i, truth, J)
            # White noise of the samples between a state and a measurement is left.
            assert np.abs(J[:3, 15]).max() < 5e-4


def camera_residual(T_ck_ck1, T_w_bk, T_w_bk1, T_b_c):
    """Residual and derivatives of one relative pose between two states."""
    J, nothing = np.zeros((6, 18 + CAMERA_TAIL)), np.zeros((2, 3))
    states = States(np.array([T_w_bk, T_w_bk1]), nothing, nothing, nothing)
    motions = NO_MOTIONS._replace(
        state=np.array([0]), span=np.array([1]), Ts_ck_ck1=T_ck_ck1[None, None]
    )
    unknowns = at(states, shared_parameters(T_b_c=T_b_c), 9)
    camera_factor(motions, NO_SPANS, 0, unknowns, J)
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
    np.testing.assert_allclose(J[:, 18 + OWN : 18 + CLOCK], numeric, atol=1e-9)


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
        J = np.zeros((9, 18 + IMU_TAIL))
        imu_factor(spans, k, at(states, shared, 9), J)
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
        J = np.zeros((9, 18 + IMU_TAIL))
        imu_factor(other, K, at(states, shared, 9), J)
        return J[:, 18].copy()

    D = -np.eye(9)
    D[:3, :3] = -so3_jl_inv(moved(np.zeros(9))[:3])
    np.testing.assert_allclose(numerical_jacobian(moved, 9), D, atol=1e-8)
