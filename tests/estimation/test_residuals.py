"""Residuals of the joint problem: zero at the truth, every derivative by central differences."""

import numpy as np
import pytest

from helpers import REGIMES, exact_window, numerical_jacobian, random_poses, twist
from maci2.estimation.residuals import (
    BA,
    BG,
    COLUMNS,
    V_K,
    V_K1,
    XI_BC,
    XI_K,
    XI_K1,
    G,
    by_offset,
    by_scale,
    imu_residual,
    later,
    lengthened,
    motion_D_offset,
    visual_residual,
)
from maci2.imu import preintegrate, rates_at_keyframes
from maci2.lie import (
    se3_adj,
    se3_exp,
    se3_inv,
    se3_jl_inv,
    se3_jr_inv,
    so3_exp,
    so3_jr_inv,
    so3_log,
)


def visual(T_ck_ck1, T_c0_bk, T_c0_bk1, T_b_c):
    r, J = np.empty(6), np.zeros((6, COLUMNS))
    visual_residual(T_ck_ck1, T_c0_bk, T_c0_bk1, T_b_c, r, J)
    return r, J


def visual_case(regime, seed=7):
    """Measured motion, two bodies, extrinsics; the residual has the regime's rotation."""
    T_c0_bk, T_c0_bk1, T_b_c = random_poses(3, regime, seed)
    error = se3_exp(twist(np.random.default_rng(seed), *REGIMES[regime]))
    T_ck_ck1 = error @ se3_inv(T_c0_bk @ T_b_c) @ T_c0_bk1 @ T_b_c
    return T_ck_ck1, T_c0_bk, T_c0_bk1, T_b_c


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize(("block", "argument"), [(XI_K, 1), (XI_K1, 2), (XI_BC, 3)])
def test_visual_residual_derivatives_equal_central_differences(regime, block, argument):
    case = visual_case(regime)

    def r(xi):
        moved = list(case)
        moved[argument] = se3_exp(xi) @ case[argument]
        return visual(*moved)[0]

    np.testing.assert_allclose(visual(*case)[1][:, block], numerical_jacobian(r, 6), atol=1e-7)


@pytest.mark.parametrize("regime", REGIMES)
def test_visual_residual_does_not_depend_on_velocity_gravity_or_bias(regime):
    _, J = visual(*visual_case(regime))
    for block in (V_K, V_K1, G, BG, BA):
        assert not J[:, block].any()


@pytest.mark.parametrize("regime", REGIMES)
def test_visual_residual_is_the_left_error_of_the_measurement_and_zero_without_one(regime):
    T_c0_bk, T_c0_bk1, T_b_c = random_poses(3, regime, seed=8)
    T_ck_ck1 = se3_inv(T_c0_bk @ T_b_c) @ T_c0_bk1 @ T_b_c
    np.testing.assert_allclose(visual(T_ck_ck1, T_c0_bk, T_c0_bk1, T_b_c)[0], 0.0, atol=1e-14)
    xi = twist(np.random.default_rng(9), *REGIMES[regime])
    r, _ = visual(se3_exp(xi) @ T_ck_ck1, T_c0_bk, T_c0_bk1, T_b_c)
    np.testing.assert_allclose(r, xi, atol=1e-13)


def test_the_extrinsic_derivative_as_printed_with_c_inverted_is_wrong():
    T_ck_ck1, T_c0_bk, T_c0_bk1, T_b_c = case = visual_case("generic")
    r, J = visual(*case)

    def moved(xi):
        return visual(T_ck_ck1, T_c0_bk, T_c0_bk1, se3_exp(xi) @ T_b_c)[0]

    numeric = numerical_jacobian(moved, 6)
    S_k = T_ck_ck1 @ se3_inv(T_b_c)
    # The appendix sets C = T_c_b, so Ad(C^-1) is Ad(T_b_c): paper_notes, note 13.
    printed = se3_jr_inv(r) @ se3_adj(T_b_c) - se3_jl_inv(r) @ se3_adj(S_k)
    assert np.abs(printed - numeric).max() > 0.1
    np.testing.assert_allclose(J[:, XI_BC], numeric, atol=1e-9)


class ImuCase:
    """A preintegrated motion, and a state some way from it."""

    def __init__(self, regime, seed=3):
        rng = np.random.default_rng(seed)
        metres, angle = REGIMES[regime]
        self.dt = 0.31
        self.D_bg, self.D_ba = rng.standard_normal((9, 3)), rng.standard_normal((9, 3))
        self.D_ba[:3] = 0.0
        # Rotations of the two bodies and of the residual have the regime's angle.
        self.T_c0_bk, self.T_c0_bk1 = random_poses(2, regime, seed)
        error = so3_exp(twist(rng, metres, angle)[3:])
        self.gamma = self.T_c0_bk[:3, :3].T @ self.T_c0_bk1[:3, :3] @ error
        self.beta, self.alpha = rng.standard_normal((2, 3))
        self.v_bk, self.v_bk1 = rng.standard_normal((2, 3))
        self.g_c0 = np.array([1.0, -9.0, 3.0])
        small = 0.05 if angle > 0.1 else angle
        self.delta_bg, self.delta_ba = small * rng.standard_normal((2, 3))

    def residual(self, name="", change=None):
        """r and J; with `change` added to the unknowns of that name."""
        state = {
            "first pose": self.T_c0_bk, "first velocity": self.v_bk,
            "second pose": self.T_c0_bk1, "second velocity": self.v_bk1, "gravity": self.g_c0,
            "gyroscope bias": self.delta_bg, "accelerometer bias": self.delta_ba,
        }  # fmt: skip
        if "pose" in name:
            state[name] = se3_exp(change) @ state[name]
        elif name:
            state[name] = state[name] + change
        r, J = np.empty(9), np.zeros((9, COLUMNS))
        imu_residual(
            self.dt, self.gamma, self.beta, self.alpha, self.D_bg, self.D_ba, *state.values(), r, J
        )
        return r, J


IMU_BLOCKS = {
    "first pose": XI_K,
    "first velocity": V_K,
    "second pose": XI_K1,
    "second velocity": V_K1,
    "gravity": G,
    "gyroscope bias": BG,
    "accelerometer bias": BA,
}


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("name", IMU_BLOCKS)
def test_imu_residual_derivatives_equal_central_differences(regime, name):
    case, block = ImuCase(regime), IMU_BLOCKS[name]
    numeric = numerical_jacobian(
        lambda change: case.residual(name, change)[0], block.stop - block.start
    )
    np.testing.assert_allclose(case.residual()[1][:, block], numeric, atol=1e-7)


@pytest.mark.parametrize("regime", REGIMES)
def test_imu_residual_does_not_depend_on_the_extrinsics(regime):
    assert not ImuCase(regime).residual()[1][:, XI_BC].any()


def test_blocks_cover_every_column_once():
    blocks = [*IMU_BLOCKS.values(), XI_BC]
    columns = sorted(i for block in blocks for i in range(block.start, block.stop))
    assert columns == list(range(COLUMNS))


@pytest.mark.parametrize("rule", ["euler", "midpoint"])
def test_imu_residual_is_zero_at_the_truth(rule):
    window = exact_window("handheld", rule, seed=5)
    x = window.truth
    pre = preintegrate(window.imu, x.stamps_ns, x.gyro_bias, x.acc_bias, rule)
    for k in range(len(pre.dt)):
        r, J = np.empty(9), np.zeros((9, COLUMNS))
        imu_residual(
            pre.dt[k], pre.gamma[k], pre.beta[k], pre.alpha[k], pre.D_bg[k], pre.D_ba[k],
            x.Ts_c0_b[k], x.velocity_b[k], x.Ts_c0_b[k + 1], x.velocity_b[k + 1], x.gravity_c0,
            np.zeros(3), np.zeros(3), r, J,
        )  # fmt: skip
        np.testing.assert_allclose(r, 0.0, atol=1e-12)


def some_covariance(dim, seed):
    factor = np.random.default_rng(seed).standard_normal((dim, dim + 3))
    return factor @ factor.T


@pytest.mark.parametrize("regime", REGIMES)
def test_transporting_the_visual_covariance_does_not_change_the_cost(regime):
    r, _ = visual(*visual_case(regime))
    cov = some_covariance(6, seed=1)
    transport = se3_jl_inv(r)
    transported = transport @ cov @ transport.T
    assert r @ np.linalg.solve(transported, r) == pytest.approx(
        r @ np.linalg.solve(cov, r), rel=1e-10
    )


@pytest.mark.parametrize("regime", REGIMES)
def test_transporting_the_full_imu_covariance_does_not_change_the_cost(regime):
    r, _ = ImuCase(regime).residual()
    cov = some_covariance(9, seed=2)
    D = -np.eye(9)
    D[:3, :3] = so3_jr_inv(r[:3])
    signs = np.diag([1.0] * 3 + [-1.0] * 6)
    cost = r @ np.linalg.solve(D @ cov @ D.T, r)
    assert cost == pytest.approx(r @ np.linalg.solve(signs @ cov @ signs, r), rel=1e-10)


def test_the_cross_terms_of_the_imu_covariance_change_their_sign():
    r, _ = ImuCase("generic").residual()
    cov = some_covariance(9, seed=2)
    signs = np.diag([1.0] * 3 + [-1.0] * 6)
    cost = r @ np.linalg.solve(signs @ cov @ signs, r)
    # Taken over as they are, they would weigh the wrong way: paper_notes, note 15.
    assert abs(r @ np.linalg.solve(cov, r) / cost - 1.0) > 0.05


def test_errors_of_preintegration_move_the_residual_by_the_transport():
    case = ImuCase("generic")

    def moved(error):
        other = ImuCase("generic")
        other.gamma = case.gamma @ so3_exp(error[:3])
        other.beta, other.alpha = case.beta + error[3:6], case.alpha + error[6:]
        # The bias correction stands to the right of gamma; without it the two do not commute.
        other.delta_bg = np.zeros(3)
        return other.residual()[0]

    D = -np.eye(9)
    D[:3, :3] = so3_jr_inv(moved(np.zeros(9))[:3])
    np.testing.assert_allclose(numerical_jacobian(moved, 9), D, atol=1e-9)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("inverse_scale", [1.0, 0.8])
def test_the_derivative_by_one_over_the_scale_equals_central_differences(regime, inverse_scale):
    T_ck_ck1, *state = visual_case(regime)

    def residual(change):
        inverse = inverse_scale + float(change[0])
        T = lengthened(T_ck_ck1, inverse)
        r, J = visual(T, *state)
        columns = np.concatenate([J[:, XI_K], np.zeros((6, 1))], axis=1)
        by_scale(T, inverse, r, 6, columns)
        return r, columns

    r, columns = residual(np.zeros(1))
    numeric = numerical_jacobian(lambda change: residual(change)[0], 1)
    np.testing.assert_allclose(columns[:, 6:], numeric, atol=1e-7)
    plain, J = visual(lengthened(T_ck_ck1, inverse_scale), *state)
    np.testing.assert_allclose(r, np.r_[inverse_scale * plain[:3], plain[3:]], atol=1e-14)
    np.testing.assert_allclose(columns[:3, :6], inverse_scale * J[:3, XI_K], atol=1e-14)
    np.testing.assert_allclose(columns[3:, :6], J[3:, XI_K], atol=1e-14)


@pytest.mark.parametrize("regime", REGIMES)
def test_the_derivative_by_the_time_offset_equals_central_differences(regime):
    case = ImuCase(regime)
    case.delta_bg = np.zeros(3)
    D_offset = np.random.default_rng(4).standard_normal(9)

    def residual(change):
        other = ImuCase(regime)
        moved = later(case.gamma, case.beta, case.alpha, D_offset, 0.01 + float(change[0]))
        other.gamma, other.beta, other.alpha = moved
        other.delta_bg = np.zeros(3)
        return other.residual()

    r, J = residual(np.zeros(1))
    by_offset(D_offset, r, 0, J)
    numeric = numerical_jacobian(lambda change: residual(change)[0], 1)
    np.testing.assert_allclose(J[:, :1], numeric, atol=1e-7)


@pytest.mark.parametrize("kind", ["handheld", "drone"])
def test_preintegrated_motion_moves_with_the_clock_as_its_derivative_says(kind):
    window = exact_window(kind, "midpoint", seed=5)
    x, shift_ns = window.truth, 1_000_000
    inner = x.stamps_ns[1:-1]
    biases = x.gyro_bias, x.acc_bias, "midpoint"
    pre = preintegrate(window.imu, inner, *biases)
    earlier, after = (
        preintegrate(window.imu, inner + moved_ns, *biases) for moved_ns in (-shift_ns, shift_ns)
    )
    rates = rates_at_keyframes(window.imu, pre)
    for k in range(len(pre.dt)):
        D_offset = motion_D_offset(
            pre.dt[k], pre.gamma[k], pre.beta[k], pre.alpha[k], rates[k], rates[k + 1]
        )
        turned = so3_log(earlier.gamma[k].T @ after.gamma[k])
        numeric = np.r_[turned, after.beta[k] - earlier.beta[k], after.alpha[k] - earlier.alpha[k]]
        # Samples are 5 ms apart and straight lines between them.
        np.testing.assert_allclose(D_offset, numeric / 0.002, atol=2e-2 * np.abs(D_offset).max())
