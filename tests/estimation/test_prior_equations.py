"""The vertical that earlier samples tell: residual, derivatives, what it does to a window."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import chi_square_band, nees_per_dof, numerical_jacobian, simulated_window
from maci2.consistency import initialize
from maci2.estimation import SolverConfig
from maci2.estimation.imu_gains import imu_gains
from maci2.estimation.prior_equations import add_priors, vertical_residual
from maci2.estimation.problem import Unknowns, Variables, gravity_basis
from maci2.estimation.solve import joint_priors
from maci2.imu import TrackedVertical, VerticalPrior
from maci2.lie import se3_exp, so3_exp

STD_TILT = np.radians(0.3)


def rotation(seed):
    return so3_exp(np.random.default_rng(seed).standard_normal(3))


def case(tilt, seed=2):
    """A prior whose vertical is `tilt` (3,) [rad] off, and variables."""
    rng = np.random.default_rng(seed)
    T_b_c = se3_exp(rng.standard_normal(6))
    g_c0 = 9.81 * rotation(seed)[:, 0]
    down_b = so3_exp(np.asarray(tilt)) @ T_b_c[:3, :3] @ g_c0 / 9.81
    bg, ba = 0.01 * rng.standard_normal(3), 0.1 * rng.standard_normal(3)
    prior = VerticalPrior(down_b, rng.standard_normal((2, 9)) / STD_TILT, np.r_[bg, ba])
    Ts, v = np.eye(4)[None], np.zeros((1, 3))
    return prior, Variables(Ts, v, g_c0, bg + 1e-3, ba - 2e-3, T_b_c)


def moved(x, delta, sphere):
    """The variables after a step [gravity, bg, ba, extrinsics]."""
    g_c0 = x.g_c0 + gravity_basis(x.g_c0, sphere) @ delta[:3]
    if sphere:
        g_c0 *= 9.81 / np.linalg.norm(g_c0)
    T_b_c = se3_exp(np.ascontiguousarray(delta[9:15])) @ x.T_b_c
    return x._replace(g_c0=g_c0, bg=x.bg + delta[3:6], ba=x.ba + delta[6:9], T_b_c=T_b_c)


@pytest.mark.parametrize("sphere", [True, False])
@pytest.mark.parametrize("tilt", [np.zeros(3), [1e-7, 0, 0], [0.02, -0.01, 0.03]])
def test_vertical_residual_derivatives_equal_central_differences(sphere, tilt):
    prior, x = case(tilt)
    # Per radian of tilt; derivatives are exact to first order in the tilt.
    prior = prior._replace(white=prior.white * STD_TILT)
    unknowns = Unknowns(sphere, True, True, True, False)
    analytic = vertical_residual(prior, x, unknowns)[1]

    def r(delta):
        return vertical_residual(prior, moved(x, delta, sphere), unknowns)[0]

    numeric = numerical_jacobian(r, dim=15)
    if sphere:
        numeric[:, 2] = 0.0  # the third direction is the length, which is known
    np.testing.assert_allclose(analytic, numeric, atol=1e-7)


def test_the_vertical_is_met_at_the_truth():
    prior, x = case(np.zeros(3))
    x = x._replace(bg=prior.bias[:3], ba=prior.bias[3:])
    r, _ = vertical_residual(prior, x, Unknowns(True, True, True, False, False))
    np.testing.assert_allclose(r, 0.0, atol=1e-9)


def test_the_right_hand_side_is_the_gradient_of_the_cost():
    prior, x = case(np.radians([0.0, 0.5, 0.0]))
    unknowns = Unknowns(True, True, True, True, False)
    nothing = joint_priors(simulated_window(seed=1).imu, 0, SolverConfig())
    zero = np.zeros(3)
    priors = nothing._replace(info_bg=zero, info_ba=zero, vertical=prior)
    x = x._replace(inverse_scale=1.0, offset_s=0.0)

    def cost(delta):
        at = moved(x, delta, True)
        return np.array([add_priors(priors, unknowns, at, np.zeros((17, 17)), np.zeros(17))])

    rhs = np.zeros(17)
    add_priors(priors, unknowns, x, np.zeros((17, 17)), rhs)
    own = cost_of_extrinsics(priors, unknowns, x)
    numeric = numerical_jacobian(cost, dim=15)[0]
    expected = -0.5 * numeric
    expected[2] = rhs[2] = 0.0
    # The prior of the lever arm, which is in both, does not count in the cost.
    found = rhs[:15] - own
    expected[9:12] = 0.0
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(rhs).max())


def cost_of_extrinsics(priors, unknowns, x):
    """(15,) right-hand side without the vertical."""
    rhs = np.zeros(17)
    without = priors.vertical._replace(white=np.zeros((2, 9)))
    add_priors(priors._replace(vertical=without), unknowns, x, np.zeros((17, 17)), rhs)
    return rhs[:15]


def with_vertical(window, tilt_w, std=STD_TILT):
    """The window's samples with a vertical at their first keyframe that is `tilt_w` (2,) off."""
    start = np.searchsorted(window.imu.stamps_ns, window.vision.stamps_ns[0], side="right") - 1
    n = len(window.imu.stamps_ns)
    g_b0 = window.truth.T_b_c[:3, :3] @ window.truth.gravity_c0
    up = -g_b0 / np.linalg.norm(g_b0)
    aside = np.cross(up, np.eye(3)[np.argmin(np.abs(up))])
    aside /= np.linalg.norm(aside)
    R_w_b = np.stack([aside, np.cross(up, aside), up])
    R_w_b = so3_exp(np.array([*tilt_w, 0.0])) @ R_w_b
    dt = (window.vision.stamps_ns[0] - window.imu.stamps_ns[start]) / 1e9
    Rs = np.tile(R_w_b @ so3_exp(-window.imu.gyro[start] * dt), (n, 1, 1))
    vertical = TrackedVertical(
        Rs,
        np.zeros(n, np.int64),
        np.zeros((1, 6)),
        np.zeros((1, 2, 6)),
        std**2 * np.eye(2)[None],
        0.0,
    )
    return replace(window.imu, vertical=vertical)


@pytest.mark.slow
def test_gravity_with_a_vertical_is_consistent_and_better():
    scores, errors = [], []
    for seed in range(60):
        window = simulated_window("drone", seed)
        tilt_w = STD_TILT * np.random.default_rng(1000 + seed).standard_normal(2)
        imu, pair = with_vertical(window, tilt_w), []
        for used in (True, False):
            config = SolverConfig(tracked_vertical=used)
            result = initialize(imu, window.vision, window.truth.T_b_c, config)
            pair.append(np.linalg.norm(result.state.gravity_c0 - window.truth.gravity_c0))
            if used:
                scores.append(nees_per_dof(result, window.truth))
        errors.append(pair)
    low, high = chi_square_band(2, 60)
    assert low < 2.0 * np.mean([score["gravity"] for score in scores]) < high
    with_it, without = np.mean(np.square(errors), axis=0)
    assert with_it < 0.8 * without


def test_a_vertical_that_contradicts_the_window_is_not_used():
    window = simulated_window("drone", 5)
    args = window.vision, window.truth.T_b_c
    alone = initialize(window.imu, *args)
    wrong = initialize(with_vertical(window, np.radians([4.0, 0.0])), *args)
    assert alone.verdict.status == "ok"
    assert wrong.verdict.status == "weak"
    assert "contradicts the vertical that the IMU's samples before" in wrong.verdict.reasons[0]
    np.testing.assert_allclose(wrong.state.gravity_c0, alone.state.gravity_c0, atol=1e-9)
    assert wrong.report.inflation == alone.report.inflation == 1.0
    sound = initialize(with_vertical(window, np.zeros(2)), *args)
    assert (sound.verdict.status, sound.report.vertical_rejected) == ("ok", False)


def test_the_distance_of_a_vertical_is_that_from_the_window_alone():
    window = simulated_window("drone", 6)
    args = window.vision, window.truth.T_b_c, SolverConfig(robust=False)
    alone = initialize(window.imu, *args)
    g = alone.state.gravity_c0
    tilt = np.radians([1.0, 0.0])
    imu = with_vertical(window, tilt)
    down_b = imu.vertical_at(int(window.vision.stamps_ns[0])).down_b
    away = np.cross(window.truth.T_b_c[:3, :3] @ g / 9.81, down_b)
    R_b_c = window.truth.T_b_c[:3, :3]
    g_b = R_b_c @ g / 9.81
    cov_down = R_b_c @ alone.posterior.gravity_c0 @ R_b_c.T / 9.81**2
    turn = np.cross(np.eye(3), g_b)
    cov = turn @ cov_down @ turn.T + STD_TILT**2 * (np.eye(3) - np.outer(g_b, g_b))
    expected = away @ np.linalg.pinv(cov, rcond=1e-6) @ away
    found = initialize(imu, *args).report.vertical_chi2
    assert found == pytest.approx(expected, rel=0.02)


def test_gains_count_the_vertical():
    window = simulated_window("drone", 7)
    config = SolverConfig(robust=False)
    gains = []
    for imu in (window.imu, with_vertical(window, np.zeros(2), np.radians(0.05))):
        result = initialize(imu, window.vision, window.truth.T_b_c, config)
        gains.append(imu_gains(imu, window.vision, result, config).gravity_c0)
    # What is known otherwise follows the window's samples less.
    assert np.linalg.norm(gains[1]) < 0.5 * np.linalg.norm(gains[0])
