import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from maci2.errors import OptionError
from maci2.geometry import se3_exp, se3_inv, se3_log
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS
from maci2_lab.benchmarks.gtsam_problem import (
    GtsamProblem,
    gtsam_build,
    gtsam_preintegrate,
    import_gtsam,
    solve_with_gtsam,
)

KEYFRAMES = 10
STD_MOTION = np.array([0.003, 0.002, 0.004, 9e-4, 1.2e-3, 6e-4])
"""[rho, phi], different on every axis so that a wrong order or side shows."""


def window(rate_hz: float, noisy: bool = False) -> tuple[GtsamProblem, np.ndarray, np.ndarray]:
    """A 2.5 s window that starts from a poor guess; with the true velocities and gravity in b0."""
    config = SimulationConfig(
        kind="drone", duration_s=2.5, seed=2, imu_rate_hz=rate_hz, white_noise=noisy,
        bias_walk=False, bias_gyro_std=0.0, bias_acc_std=0.0, camera_offset_ns=0,
    )  # fmt: skip
    recording = simulate(config)
    imu, truth = recording.imu, recording.truth()
    dt = np.diff(imu.stamps_ns) / NS
    ends = np.rint(np.linspace(0, len(dt), KEYFRAMES)).astype(int)
    Ts_b0_b = se3_inv(truth.Ts_w_b[0]) @ truth.Ts_w_b[ends]
    Ts_bk_bk1 = np.linalg.inv(Ts_b0_b[:-1]) @ Ts_b0_b[1:]
    if noisy:
        xis = STD_MOTION * np.random.default_rng(4).standard_normal((KEYFRAMES - 1, 6))
        Ts_bk_bk1 = np.array([se3_exp(xi) @ T for xi, T in zip(xis, Ts_bk_bk1, strict=True)])
    segments = [slice(*pair) for pair in pairwise(ends)]
    R_b0_w = truth.Ts_w_b[0, :3, :3].T
    problem = GtsamProblem(
        dts=[dt[segment] for segment in segments],
        gyro=[imu.gyro[segment] for segment in segments],
        acc=[imu.acc[segment] for segment in segments],
        psd_gyro=np.full(3, config.noise.density_gyro**2),
        psd_acc=np.full(3, config.noise.density_acc**2),
        Ts_bk_bk1=Ts_bk_bk1,
        cov_Ts_bk_bk1=np.tile(np.diag(STD_MOTION**2), (KEYFRAMES - 1, 1, 1)),
        Ts_c0_b=Ts_b0_b,
        v_c0=np.zeros((KEYFRAMES, 3)),
        g_c0=R_b0_w @ np.array([0.3, -0.2, -9.0]),
        bias_gyro=np.zeros(3),
        bias_acc=np.zeros(3),
        std_bias_gyro=np.full(3, 1e-6),
        std_bias_acc=np.full(3, 1e-6),
    )
    return problem, truth.v_w[ends] @ R_b0_w.T, R_b0_w @ np.array([0.0, 0.0, -9.81])


def largest_errors(rate_hz: float) -> np.ndarray:
    problem, v_b0, g_b0 = window(rate_hz)
    result = solve_with_gtsam(problem)
    return np.array([np.abs(result.v_c0 - v_b0).max(), np.abs(result.g_c0 - g_b0).max()])


def test_gtsam_recovers_velocity_and_gravity_up_to_the_error_of_held_samples():
    pytest.importorskip("gtsam")
    coarse, fine = largest_errors(400.0), largest_errors(1600.0)
    assert (fine < 2e-3).all()
    # Holding a sample is a rule of first order.
    np.testing.assert_allclose(coarse / fine, 4.0, rtol=0.05)


def test_the_cost_of_a_measured_motion_is_the_one_of_our_left_covariance():
    gtsam = pytest.importorskip("gtsam")
    problem, _, _ = window(200.0, noisy=True)
    graph, values = gtsam_build(problem, gtsam_preintegrate(problem))
    motions = [
        graph.at(i)
        for i in range(graph.size())
        if isinstance(graph.at(i), gtsam.BetweenFactorPose3)
    ]
    assert len(motions) == KEYFRAMES - 1
    for k, factor in enumerate(motions):
        T_bk_bk1 = se3_inv(problem.Ts_c0_b[k]) @ problem.Ts_c0_b[k + 1]
        r = se3_log(problem.Ts_bk_bk1[k] @ se3_inv(T_bk_bk1))
        ours = np.sum((r / STD_MOTION) ** 2)
        assert 2.0 * factor.error(values) == pytest.approx(ours, rel=1e-9)


def test_a_prior_without_spread_information_leaves_the_bias_free():
    pytest.importorskip("gtsam")
    problem, _, _ = window(200.0)
    bias = np.array([0.02, -0.01, 0.03])
    biased = replace(problem, gyro=[gyro + bias for gyro in problem.gyro])
    free = np.full(3, np.inf)
    without = solve_with_gtsam(replace(problem, std_bias_gyro=free)).bias_gyro
    with_bias = solve_with_gtsam(replace(biased, std_bias_gyro=free)).bias_gyro
    # The bias derivative is of first order, hence 1 %.
    np.testing.assert_allclose(with_bias - without, bias, rtol=0.01)


def test_pythons_binding_is_timed_apart():
    pytest.importorskip("gtsam")
    assert solve_with_gtsam(window(200.0, noisy=True)[0], repeats=3).binding_ms > 0.0


def test_a_missing_gtsam_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "gtsam", None)
    with pytest.raises(OptionError, match=r"pip install 'maci2-lab\[bench\]'"):
        import_gtsam()
