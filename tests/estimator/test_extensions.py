"""What has to fit into the one problem without another assembly: an intrinsic parameter of the IMU,
and motions of the camera over more than two keyframes."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares

from helpers import chi_square_band, simulated_window
from maci2.estimator import SolverConfig
from maci2.estimator.initialize import window_problem
from maci2.estimator.measurements import assemble, walking_covariance
from maci2.estimator.problem import (
    GYRO_SCALE,
    CameraMotions,
    Free,
    Problem,
    States,
    retract,
    shared_parameters,
    shared_prior,
    state_prior,
)
from maci2.estimator.results import first_camera_guess
from maci2.estimator.solver import SolverOptions, covariance, solve
from maci2.geometry import se3_exp, se3_inv, se3_log, so3_exp, so3_log
from maci2.geometry.gaussian import nees

SCALE_ERROR = np.array([0.01, -0.02, 0.015])
EXACTLY = SolverOptions(decrement=1e-20)


def guess_of(truth):
    return first_camera_guess(
        truth.Ts_c0_b, truth.velocity_b, truth.gravity_c0, truth.gyro_bias, truth.acc_bias,
        truth.T_b_c,
    )  # fmt: skip


def with_scale_errors(seed):
    """A window whose gyroscope reads too little or too much, and its problem with that free."""
    window = simulated_window("handheld", seed, steps=16)
    imu = replace(window.imu, gyro=window.imu.gyro / (1.0 + SCALE_ERROR))
    problem = window_problem(imu, window.vision, SolverConfig())
    std = np.full(24, np.inf)
    std[GYRO_SCALE] = 0.05
    return window, replace(
        problem,
        free=replace(problem.free, gyro_scale=True),
        priors=(*problem.priors, shared_prior(shared_parameters(), std)),
    )


def test_a_gyroscopes_scale_is_estimated_with_a_consistent_covariance():
    squares = []
    for seed in range(12):
        window, problem = with_scale_errors(seed)
        solution = solve(problem, *guess_of(window.truth))
        assert solution.converged
        error = solution.shared.scalars[GYRO_SCALE] - SCALE_ERROR
        cov = covariance(solution).shared[GYRO_SCALE, GYRO_SCALE]
        assert np.sqrt(np.diag(cov)).max() < 0.01
        squares.append(nees(error, cov))
    low, high = chi_square_band(3, 12)
    assert low < np.mean(squares) < high


def test_a_scale_that_is_taken_as_known_contradicts_the_camera():
    window, problem = with_scale_errors(3)
    free = solve(problem, *guess_of(window.truth))
    held = solve(
        replace(problem, free=replace(problem.free, gyro_scale=False)), *guess_of(window.truth)
    )
    assert held.cost > 2.0 * free.cost
    assert abs(free.cost / free.dof - 1.0) < 5.0 * np.sqrt(2.0 / free.dof)


def joint_motions(window, first, span, seed):
    """Relative poses of neighbouring steps as motions of `span` of them, with errors that are
    correlated, drawn from their joint covariance."""
    rng = np.random.default_rng(seed)
    Ts_c0_c = window.truth.Ts_c0_b @ window.truth.T_b_c
    Ts, covs = [], []
    for k in first:
        std = np.tile(np.repeat([0.003, 0.001], 3), span)
        mixing = np.eye(6 * span) + 0.5 * rng.standard_normal((6 * span, 6 * span)) / span
        root = std[:, None] * mixing
        errors = (root @ rng.standard_normal(6 * span)).reshape(span, 6)
        true = [se3_inv(Ts_c0_c[k + j]) @ Ts_c0_c[k + j + 1] for j in range(span)]
        Ts.append([se3_exp(e) @ T for e, T in zip(errors, true, strict=True)])
        covs.append(root @ root.T)
    return CameraMotions(np.array(first), np.array(Ts), np.array(covs))


class Oracle:
    """The same problem in plain numpy, for a general least-squares solver."""

    def __init__(self, problem, states, shared):
        self.problem, self.states, self.shared = problem, states, shared
        self.s, self.n = problem.state_size, len(problem.stamps_ns)
        self.spans = assemble(problem, states, shared).spans
        cov = self.spans.cov
        if self.s == 15:
            cov = walking_covariance(self.spans, *problem.walks)
        self.white = [np.linalg.inv(np.linalg.cholesky(one)) for one in cov]
        self.start = problem.unknowns(states, shared)
        self.free = np.ones(self.n * self.s + int(self.start.columns.max()) + 1, dtype=bool)
        self.free[[0, 1, 2, 6, 7, 8]] = False  # the first pose is fixed

    def unknowns(self, x):
        full = np.zeros(len(self.free))
        full[self.free] = x
        dx = full[: self.n * self.s].reshape(self.n, self.s)
        return retract(self.start, dx, full[self.n * self.s :])[:2]

    def residuals(self, x):
        states, shared = self.unknowns(x)
        out = [*self._imu(states, shared), *self._camera(states, shared)]
        for prior in self.problem.priors:
            root = np.sqrt(np.diag(prior.info)[9:15])
            biases = np.r_[states.bias_gyro[0], states.bias_acc[0]]
            mean = np.r_[prior.state.bias_gyro[0], prior.state.bias_acc[0]]
            out.append(root * (biases - mean))
        return np.concatenate(out)

    def _imu(self, states, shared):
        spans, g_w = self.spans, shared.gravity_w
        for k, white in enumerate(self.white):
            dt, R = spans.dt[k], states.Ts_w_b[k, :3, :3]
            bias = np.r_[states.bias_gyro[k], states.bias_acc[k]]
            moved = spans.by_bias[k] @ (bias - spans.bias[k])
            gamma = spans.gamma[k] @ so3_exp(moved[:3])
            dv = states.v_w[k + 1] - states.v_w[k] - dt * g_w
            p = states.Ts_w_b[k : k + 2, :3, 3]
            dp = p[1] - p[0] - dt * states.v_w[k] - 0.5 * dt**2 * g_w
            r = [
                so3_log(np.ascontiguousarray(gamma.T @ R.T @ states.Ts_w_b[k + 1, :3, :3])),
                R.T @ dv - spans.beta[k] - moved[3:6],
                R.T @ dp - spans.alpha[k] - moved[6:9],
            ]
            if self.s == 15:
                r += [np.diff(states.bias_gyro, axis=0)[k], np.diff(states.bias_acc, axis=0)[k]]
            yield white @ np.concatenate(r)

    def _camera(self, states, shared):
        Ts_w_c = states.Ts_w_b @ shared.T_b_c
        for stack in self.problem.camera:
            Ts = stack.Ts_ck_ck1.reshape(len(stack.index), stack.span, 4, 4)
            for k, measured, cov in zip(stack.index, Ts, stack.covs, strict=True):
                r = [
                    se3_log(np.ascontiguousarray(T @ se3_inv(Ts_w_c[k + j + 1]) @ Ts_w_c[k + j]))
                    for j, T in enumerate(measured)
                ]
                yield np.linalg.solve(np.linalg.cholesky(cov), np.concatenate(r))


def problem_of(window, camera, long):
    """A window with shared biases, or states with biases of their own."""
    if not long:
        problem = window_problem(window.imu, window.vision, SolverConfig(robust=False))
        return replace(problem, camera=camera)
    states, shared = guess_of(window.truth)
    std = np.r_[np.full(9, np.inf), np.full(3, 0.05), np.full(3, 0.1)]
    return Problem(
        window.imu,
        window.vision.stamps_ns,
        1e-4,
        1e-3,
        Free(gravity=True),
        camera,
        priors=(state_prior(0, States(*(part[:1] for part in states)), shared, std),),
        first_pose_fixed=True,
    )


@pytest.mark.parametrize(("long", "steps"), [(False, 9), (True, 15)])
def test_motions_over_four_keyframes_agree_with_a_general_solver(long, steps):
    window = simulated_window("handheld", 4, steps=steps)
    stacks = (
        joint_motions(window, list(range(0, steps - 2, 2)), 3, seed=1),
        joint_motions(window, [0, 1, steps - 1], 1, seed=2),
    )
    problem, guess = problem_of(window, stacks, long), guess_of(window.truth)
    solution = solve(problem, *guess, EXACTLY)
    posterior = covariance(solution)
    assert solution.converged
    # Linearized where the solver has integrated last.
    oracle = Oracle(problem, solution.states, solution.shared)
    oracle.spans = solution.measurements.spans
    start = 1e-3 * np.random.default_rng(0).standard_normal(int(oracle.free.sum()))
    found = least_squares(oracle.residuals, start, xtol=1e-15, ftol=1e-15, gtol=1e-12)
    assert solution.cost == pytest.approx(2.0 * found.cost, rel=1e-7)
    full = np.zeros((len(oracle.free), len(oracle.free)))
    full[np.ix_(oracle.free, oracle.free)] = np.linalg.inv(found.jac.T @ found.jac)
    std = np.sqrt(np.diag(full))[oracle.free]
    assert np.abs(found.x / std).max() < 1e-3
    s, n = oracle.s, oracle.n
    for k in (1, n // 2, n - 1):
        at = slice(k * s, k * s + s)
        unit = np.sqrt(np.diag(full)[at])
        scale = np.outer(unit, unit)
        np.testing.assert_allclose(posterior.states[k] / scale, full[at, at] / scale, atol=1e-4)
    shared = slice(n * s, None)
    np.testing.assert_allclose(posterior.free, full[shared, shared], rtol=1e-3, atol=1e-12)


def test_correlated_motions_are_not_those_of_their_diagonal_blocks():
    window = simulated_window("handheld", 4)
    stack = joint_motions(window, [0, 3, 6], 3, seed=1)
    single = CameraMotions(
        np.arange(9),
        stack.Ts_ck_ck1.reshape(9, 4, 4),
        np.array([cov[i : i + 6, i : i + 6] for cov in stack.covs for i in (0, 6, 12)]),
    )
    joint, apart = (
        covariance(solve(problem_of(window, (one,), False), *guess_of(window.truth)))
        for one in (stack, single)
    )
    ratio = np.sqrt(np.trace(joint.states[-1]) / np.trace(apart.states[-1]))
    assert abs(ratio - 1.0) > 0.02
