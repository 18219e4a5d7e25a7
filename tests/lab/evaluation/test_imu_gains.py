"""How an estimate moves with errors of the IMU."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import simulated_window
from maci2.consistency import initialize
from maci2.estimator import SolverConfig
from maci2.geometry import se3_inv, se3_log, so3_log
from maci2.imu import preintegrate
from maci2_lab.evaluation.imu_gains import imu_gains

CONFIG = SolverConfig(robust=False)


def measured_apart(imu, other, stamps_ns, state):
    """(m, 9) what other samples measure beyond the first, [gamma, beta, alpha]."""
    bg, ba = state.gyro_bias_residual, state.acc_bias_residual
    a, b = (preintegrate(one, stamps_ns, bg, ba) for one in (imu, other))
    turns = [so3_log(np.ascontiguousarray(R.T @ S)) for R, S in zip(a.gamma, b.gamma, strict=True)]
    return np.hstack([turns, b.beta - a.beta, b.alpha - a.alpha])


# The scale is found by a parabola over scales that are 2 % apart: not to the last digit.
@pytest.mark.parametrize(("std_scale", "tolerance"), [(0.0, 0.02), (0.04, 0.15)])
@pytest.mark.parametrize("kind", ["drone", "handheld"])
def test_the_estimate_moves_as_its_gains_say(kind, std_scale, tolerance):
    window = simulated_window(kind, 11)
    vision, T_b_c = replace(window.vision, std_scale=std_scale), window.truth.T_b_c
    result = initialize(window.imu, vision, T_b_c, CONFIG)
    gains = imu_gains(window.imu, vision, result, CONFIG)
    rng = np.random.default_rng(5)
    shape = window.imu.acc.shape
    # Errors of a size that noise has, so small that nothing bends.
    other = replace(
        window.imu,
        gyro=window.imu.gyro + 1e-4 * rng.standard_normal(shape),
        acc=window.imu.acc + 1e-3 * rng.standard_normal(shape),
    )
    apart = measured_apart(window.imu, other, vision.stamps_ns, result.state)
    moved, state = initialize(other, vision, T_b_c, CONFIG).state, result.state
    poses = [
        se3_log(np.ascontiguousarray(T @ se3_inv(S)))
        for T, S in zip(moved.Ts_c0_b, state.Ts_c0_b, strict=True)
    ]
    expected = {
        "gravity": np.einsum("kia,ka->i", gains.gravity_c0, apart),
        "velocity": np.einsum("knia,ka->ni", gains.velocity_b, apart),
        "poses": np.einsum("knia,ka->ni", gains.Ts_c0_b, apart),
        "bias": np.einsum("kia,ka->i", gains.gyro_bias, apart),
    }
    found = {
        "gravity": moved.gravity_c0 - state.gravity_c0,
        "velocity": moved.velocity_b - state.velocity_b,
        "poses": np.array(poses),
        "bias": moved.gyro_bias - state.gyro_bias,
    }
    for name, change in found.items():
        size = np.abs(change).max()
        assert size > 0.0
        np.testing.assert_allclose(expected[name], change, atol=tolerance * size, err_msg=name)


def test_what_the_imu_adds_is_a_part_of_the_posterior():
    window = simulated_window("drone", 12)
    result = initialize(window.imu, window.vision, window.truth.T_b_c, CONFIG)
    gains = imu_gains(window.imu, window.vision, result, CONFIG)
    for k, stated in enumerate(result.posterior.velocity_b):
        K = gains.velocity_b[:, k]
        share = np.einsum("kia,kab,kjb->ij", K, gains.cov_imu, K)
        assert np.linalg.eigvalsh(stated - share).min() > 0.0
        assert np.trace(share) > 0.005 * np.trace(stated)


def test_a_window_without_an_answer_has_none():
    window = simulated_window("drone", 12)
    result = initialize(window.imu, window.vision, window.truth.T_b_c, CONFIG)
    nothing = replace(result, state=None, posterior=None)
    assert imu_gains(window.imu, window.vision, nothing, CONFIG) is None
