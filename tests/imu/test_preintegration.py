"""Preintegration against the paper's recursion, dead reckoning and sampled noise."""

from dataclasses import replace

import numpy as np
import pytest
from imu_cases import (
    DT,
    MOTIONS,
    RULES,
    assert_close_to,
    ends,
    recursion,
    samples,
    some_covariance,
)

from helpers import (
    chi_square_band,
    dead_reckon,
    exact_window,
    integration_steps,
    numerical_jacobian,
)
from maci2.geometry import skew, so3_exp, so3_log
from maci2.geometry.gaussian import nees
from maci2.imu import ALPHA, BETA, GAMMA, integrate_between, preintegrate
from maci2.imu.preintegration import preintegrate_arrays
from maci2.imu.preintegration_kernels import preintegrate_segments


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("motion", MOTIONS)
@pytest.mark.parametrize("start", ["from nothing", "from Sigma_0"])
def test_covariance_and_bias_derivatives_equal_the_recursion_of_the_paper(rule, motion, start):
    imu = samples(motion, cov_0=some_covariance(4) if start == "from Sigma_0" else None)
    pre = preintegrate(imu, ends(imu), rule=rule)
    cov, D_bg, D_ba = recursion(imu, rule)
    assert_close_to(pre.cov[0], cov)
    assert_close_to(pre.D_bg[0], D_bg)
    assert_close_to(pre.D_ba[0], D_ba)
    assert not pre.D_ba[0, GAMMA].any()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("motion", MOTIONS)
@pytest.mark.parametrize("keyframes", ["on samples", "between samples"])
def test_it_equals_dead_reckoning_sample_by_sample(rule, motion, keyframes):
    imu = samples(motion)
    between_ns = 1_234_567 if keyframes == "between samples" else 0
    stamps_ns = imu.stamps_ns[[3, 60, 61, 190]] + between_ns
    bias_gyro, bias_acc = np.array([0.03, -0.02, 0.01]), np.array([0.1, 0.2, -0.3])
    pre = preintegrate(imu, stamps_ns, bias_gyro, bias_acc, rule)
    unbiased = replace(imu, gyro=imu.gyro - bias_gyro, acc=imu.acc - bias_acc)
    for k in range(3):
        steps = integration_steps(unbiased, *stamps_ns[k : k + 2], rule)
        # Without gravity, from rest at the origin: what the preintegrated motion means.
        T, v = dead_reckon(steps, np.eye(4), np.zeros(3), np.zeros(3), rule)
        np.testing.assert_allclose(pre.gamma[k], T[:3, :3], rtol=0, atol=1e-13)
        np.testing.assert_allclose(pre.beta[k], v, rtol=0, atol=1e-12)
        np.testing.assert_allclose(pre.alpha[k], T[:3, 3], rtol=0, atol=1e-12)
        assert pre.dt[k] == pytest.approx((stamps_ns[k + 1] - stamps_ns[k]) / 1e9, abs=1e-15)


@pytest.mark.parametrize("rule", RULES)
def test_gravity_and_start_velocity_stay_outside(rule):
    window = exact_window("handheld", rule, seed=4)
    truth = window.truth
    pre = preintegrate(window.imu, truth.stamps_ns, truth.gyro_bias, truth.acc_bias, rule)
    R, p, g = truth.Ts_c0_b[:, :3, :3], truth.Ts_c0_b[:, :3, 3], truth.gravity_c0
    v = np.einsum("kij,kj->ki", R, truth.velocity_b)
    for k, dt in enumerate(pre.dt):
        np.testing.assert_allclose(R[k + 1], R[k] @ pre.gamma[k], atol=1e-12)
        np.testing.assert_allclose(v[k + 1], v[k] + g * dt + R[k] @ pre.beta[k], atol=1e-12)
        position = p[k] + v[k] * dt + 0.5 * g * dt**2 + R[k] @ pre.alpha[k]
        np.testing.assert_allclose(p[k + 1], position, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("motion", MOTIONS)
def test_bias_derivatives_equal_finite_differences(rule, motion):
    imu = samples(motion)
    stamps_ns = imu.stamps_ns[[2, 70, 150]] + 2_000_001
    bias_gyro, bias_acc = np.array([0.01, 0.02, -0.03]), np.array([-0.1, 0.2, 0.1])
    pre = preintegrate(imu, stamps_ns, bias_gyro, bias_acc, rule)

    def moved(change):
        other = preintegrate(imu, stamps_ns, bias_gyro + change[:3], bias_acc + change[3:], rule)
        turned = [so3_log(pre.gamma[k].T @ other.gamma[k]) for k in range(2)]
        return np.concatenate([turned, other.beta, other.alpha], axis=1)

    numeric = numerical_jacobian(moved, dim=6, step=1e-4)
    np.testing.assert_allclose(pre.D_bg, numeric[:, :, :3], atol=1e-7)
    np.testing.assert_allclose(pre.D_ba, numeric[:, :, 3:], atol=1e-7)


@pytest.mark.parametrize("rule", RULES)
def test_a_small_bias_update_equals_integrating_anew(rule):
    imu = samples()
    change = np.array([1e-4, -2e-4, 1e-4])
    old, new = (
        preintegrate(imu, ends(imu), rule=rule),
        preintegrate(imu, ends(imu), change, 10 * change, rule),
    )
    corrected = old.gamma[0] @ so3_exp(old.D_bg[0, GAMMA] @ change)
    np.testing.assert_allclose(corrected, new.gamma[0], atol=1e-7)
    for block, before, after in ((BETA, old.beta, new.beta), (ALPHA, old.alpha, new.alpha)):
        moved = before[0] + old.D_bg[0, block] @ change + old.D_ba[0, block] @ (10 * change)
        np.testing.assert_allclose(moved, after[0], atol=1e-6)


def test_mid_point_reads_linear_motion_exactly_between_samples():
    # Rate and force grow linearly about one axis: the mid-point rule integrates both exactly.
    t = np.arange(41)[:, None] * DT
    imu = replace(samples(count=41), gyro=t * [0.0, 0.0, 2.0], acc=(1.0 + t) * [0.0, 0.0, 3.0])
    stamps_ns = imu.stamps_ns[0] + np.array([7_100_000, 171_900_000])
    pre = preintegrate(imu, stamps_ns, rule="midpoint")
    start, end = 0.0071, 0.1719
    np.testing.assert_allclose(so3_log(pre.gamma[0]), [0, 0, end**2 - start**2], atol=1e-14)
    velocity = 3.0 * ((end - start) + 0.5 * (end**2 - start**2))
    np.testing.assert_allclose(pre.beta[0], [0, 0, velocity], atol=1e-13)


def test_euler_holds_each_sample_until_the_next():
    imu = replace(samples(count=3), gyro=np.zeros((3, 3)), acc=np.diag([1.0, 2.0, 4.0]))
    pre = preintegrate(imu, ends(imu), rule="euler")
    # The last sample closes the interval; it is not integrated.
    np.testing.assert_allclose(pre.beta[0], [1.0 * DT, 2.0 * DT, 0.0], atol=1e-17)
    np.testing.assert_allclose(pre.alpha[0], [1.5 * DT**2, 1.0 * DT**2, 0.0], atol=1e-19)


@pytest.mark.parametrize("rule", RULES)
def test_neighbouring_segments_join_to_the_long_one(rule):
    imu = samples()
    # The middle keyframe is a sample, so that both cut the same steps.
    stamps_ns = imu.stamps_ns[[0, 77, 200]]
    parts, whole = preintegrate(imu, stamps_ns, rule=rule), preintegrate(imu, ends(imu), rule=rule)
    np.testing.assert_allclose(parts.gamma[0] @ parts.gamma[1], whole.gamma[0], atol=1e-13)
    beta = parts.beta[0] + parts.gamma[0] @ parts.beta[1]
    np.testing.assert_allclose(beta, whole.beta[0], atol=1e-12)
    alpha = parts.alpha[0] + parts.beta[0] * parts.dt[1] + parts.gamma[0] @ parts.alpha[1]
    np.testing.assert_allclose(alpha, whole.alpha[0], atol=1e-12)


def test_sigma_0_is_carried_along_from_the_start():
    cov_0 = some_covariance(9)
    imu = samples(cov_0=cov_0)
    without = preintegrate(replace(imu, cov_0=np.zeros((9, 9))), ends(imu)).cov[0]
    pre = preintegrate(imu, ends(imu))
    gamma, beta, alpha, dt = pre.gamma[0], pre.beta[0], pre.alpha[0], pre.dt[0]
    # A rotation error at the start turns everything after it; it is seen through gamma at the end.
    carry = np.eye(9)
    carry[GAMMA, GAMMA] = gamma.T
    carry[BETA, GAMMA], carry[ALPHA, GAMMA] = -skew(beta), -skew(alpha)
    carry[ALPHA, BETA] = dt * np.eye(3)
    assert_close_to(pre.cov[0] - without, carry @ cov_0 @ carry.T, 1e-10)


def test_every_segment_starts_at_sigma_0_anew():
    imu = samples(cov_0=some_covariance(9))
    both = preintegrate(imu, imu.stamps_ns[[0, 100, 200]])
    second = preintegrate(imu, imu.stamps_ns[[100, 200]])
    assert_close_to(both.cov[1], second.cov[0])


def sampled_errors(imu, rule, count, seed):
    """(count, 9) [gamma, beta, alpha] errors of preintegration under noise as declared."""
    rng = np.random.default_rng(seed)
    clean = preintegrate(imu, ends(imu), rule=rule)
    errors = np.empty((count, 9))
    for i in range(count):
        noisy = replace(
            imu,
            gyro=imu.gyro + np.sqrt(imu.var_gyro) * rng.standard_normal(imu.gyro.shape),
            acc=imu.acc + np.sqrt(imu.var_acc) * rng.standard_normal(imu.acc.shape),
        )
        pre = preintegrate(noisy, ends(imu), rule=rule)
        errors[i, GAMMA] = so3_log(clean.gamma[0].T @ pre.gamma[0])
        errors[i, BETA] = pre.beta[0] - clean.beta[0]
        errors[i, ALPHA] = pre.alpha[0] - clean.alpha[0]
    return errors


def mean_nees(errors, cov):
    return float(nees(errors, np.broadcast_to(cov, (len(errors), 9, 9))).mean())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("motion", MOTIONS)
def test_sampled_noise_has_the_stated_covariance(rule, motion):
    imu = samples(motion)
    errors = sampled_errors(imu, rule, 2000, seed=11)
    low, high = chi_square_band(9, 2000)
    assert low < mean_nees(errors, preintegrate(imu, ends(imu), rule=rule).cov[0]) < high


def test_the_jacobian_at_the_accumulated_rotation_as_printed_is_overconfident():
    # One axis fast, noise different on each: J_r at the accumulated rotation mixes the axes.
    imu = replace(samples(), var_gyro=np.tile([1e-6, 4e-5, 1e-6], (201, 1)))
    errors = sampled_errors(imu, "euler", 2000, seed=12)
    low, high = chi_square_band(9, 2000)
    ours, _, _ = recursion(imu, "euler")
    printed, _, _ = recursion(imu, "euler", as_printed=True)
    assert low < mean_nees(errors, ours) < high
    assert mean_nees(errors, printed) > high


def test_a_noisy_stretch_counts_only_where_it_is():
    imu = samples()
    var_acc = imu.var_acc.copy()
    var_acc[50:80] *= 400.0
    shaken = replace(imu, var_acc=var_acc)
    errors = sampled_errors(shaken, "midpoint", 2000, seed=13)
    low, high = chi_square_band(9, 2000)
    cov = preintegrate(shaken, ends(imu)).cov[0]
    assert low < mean_nees(errors, cov) < high
    # One variance for all, of the same mean, does not describe the same errors.
    level = replace(imu, var_acc=np.broadcast_to(var_acc.mean(axis=0), var_acc.shape).copy())
    assert not low < mean_nees(errors, preintegrate(level, ends(imu)).cov[0]) < high
    # Segments before and after it are as sure as before.
    stamps_ns = imu.stamps_ns[[0, 49, 81, 200]]
    calm, stormy = preintegrate(imu, stamps_ns).cov, preintegrate(shaken, stamps_ns).cov
    np.testing.assert_array_equal(stormy[[0, 2]], calm[[0, 2]])
    assert (np.linalg.eigvalsh(stormy[1] - calm[1])[-6:] > 0.0).all()


@pytest.mark.parametrize("rule", RULES)
def test_cutting_a_step_keeps_the_density_of_its_noise(rule):
    # White noise over a cut step has the same density: variances of velocity add up in time.
    imu = replace(
        samples("zero"), var_gyro=np.full((201, 3), 1e-6), var_acc=np.full((201, 3), 1e-4)
    )
    stamps_ns = imu.stamps_ns[0] + np.array([1_000_000, 8_000_000, 500_700_000])
    pre = preintegrate(imu, stamps_ns, rule=rule)
    for k in range(2):
        np.testing.assert_allclose(
            pre.cov[k, BETA, BETA], 1e-4 * DT * pre.dt[k] * np.eye(3), atol=1e-15
        )
        np.testing.assert_allclose(
            pre.cov[k, GAMMA, GAMMA], 1e-6 * DT * pre.dt[k] * np.eye(3), atol=1e-17
        )


def by_kernel(imu, *segments):
    samples = imu.stamps_ns, imu.gyro, imu.acc, imu.var_gyro, imu.var_acc, imu.cov_0
    return preintegrate_segments(*samples, *segments, False)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("motion", MOTIONS)
def test_all_segments_at_once_with_numpy_equal_the_compiled_kernel(rule, motion):
    imu = samples(motion, cov_0=some_covariance(4))
    # Segments of one step, of many, within one sampling period, and up to the last sample.
    stamps_ns = np.append(imu.stamps_ns[[3, 4, 60, 61, 190]] + 1_234_567, imu.stamps_ns[-1])
    stamps_ns = np.insert(stamps_ns, 1, stamps_ns[0] + 1_000_000)
    biases = np.linspace(-0.2, 0.3, 6 * (len(stamps_ns) - 1)).reshape(-1, 6)
    segments = stamps_ns[:-1], stamps_ns[1:], biases, rule == "midpoint"
    of_arrays, of_kernel = preintegrate_arrays(imu, *segments), by_kernel(imu, *segments)
    for values, expected in zip(of_arrays, of_kernel, strict=True):
        assert_close_to(values, expected)


def test_no_segments_at_once_with_numpy_give_empty_arrays_as_the_compiled_kernel_does():
    imu, no_ns = samples("zero"), np.zeros(0, np.int64)
    segments = no_ns, no_ns, np.zeros((0, 6)), True
    of_arrays, of_kernel = preintegrate_arrays(imu, *segments), by_kernel(imu, *segments)
    assert [values.shape for values in of_arrays] == [values.shape for values in of_kernel]


@pytest.mark.parametrize("rule", RULES)
def test_rotations_alone_are_those_of_the_whole_integration(rule):
    imu = samples(cov_0=some_covariance(5))
    stamps_ns = imu.stamps_ns[[0, 60, 61, 190]] + 1_234_567
    bias = np.array([0.1, -0.2, 0.05])
    pre = preintegrate(imu, stamps_ns, bias, rule=rule)
    alone = integrate_between(imu, stamps_ns, bias, np.zeros(3), rule, rotations_only=True)
    np.testing.assert_array_equal(alone.gamma, pre.gamma)
    np.testing.assert_allclose(alone.D_bg[:, GAMMA], pre.D_bg[:, GAMMA], rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(alone.cov[:, GAMMA, GAMMA], pre.cov[:, GAMMA, GAMMA], rtol=1e-12)
