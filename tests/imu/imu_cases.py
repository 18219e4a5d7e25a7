"""Made-up samples, and the paper's recursion multiplied out sample by sample (App. C)."""

import numpy as np

from helpers import integration_steps
from maci2.geometry import skew, so3_exp, so3_jr, so3_log
from maci2.geometry.gaussian import symmetrize
from maci2.imu import ALPHA, BETA, GAMMA, BiasPrior, ImuMeasurements

RULES = ["euler", "midpoint"]
PERIOD_NS = 5_000_000
DT = 0.005

MOTIONS = {  # angular rate [rad/s], specific force [m/s^2]
    "slow": ([0.02, -0.01, 0.03], [0.1, -0.2, 9.8]),
    "fast rotation": ([3.0, -3.2, 2.4], [2.0, 5.0, 8.0]),
    "zero": ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
}


def samples(motion="fast rotation", count=201, seed=3, cov_0=None):
    """Samples that wobble about a mean rate and force, each with variances of its own."""
    rng = np.random.default_rng(seed)
    rate, force = (np.array(mean) for mean in MOTIONS[motion])
    wobble = np.sin(np.arange(count)[:, None] * DT * rng.uniform(2.0, 9.0, 6))
    return ImuMeasurements(
        stamps_ns=np.arange(count, dtype=np.int64) * PERIOD_NS + 10**18,
        gyro=rate * (1.0 + 0.3 * wobble[:, :3]),
        acc=force * (1.0 + 0.3 * wobble[:, 3:]),
        var_gyro=rng.uniform(1e-6, 9e-6, (count, 3)),
        var_acc=rng.uniform(1e-4, 9e-4, (count, 3)),
        cov_0=np.zeros((9, 9)) if cov_0 is None else cov_0,
        bias_prior=BiasPrior(),
    )


def ends(imu):
    return imu.stamps_ns[[0, -1]]


def euler_step(R_bi_bk, omega, force, jr_at):
    """A, B_gyro, B_acc of the paper's appendix C; J_r is taken at `jr_at`."""
    A = np.eye(9)
    A[GAMMA, GAMMA] = so3_exp(omega * DT).T
    A[BETA, GAMMA] = -R_bi_bk @ skew(force) * DT
    A[ALPHA, GAMMA] = 0.5 * DT * A[BETA, GAMMA]
    A[ALPHA, BETA] = DT * np.eye(3)
    B_gyro = np.zeros((9, 3))
    B_gyro[GAMMA] = so3_jr(jr_at) * DT
    return A, B_gyro, acc_noise(R_bi_bk)


def midpoint_step(R_bi_bk, omega, force):
    """The same with the force read half way: it feels half of this step's gyro noise."""
    half = 0.5 * DT * omega
    R_bi_half = R_bi_bk @ so3_exp(half)
    force_D_half = -R_bi_half @ skew(force) * DT
    A = np.eye(9)
    A[GAMMA, GAMMA] = so3_exp(omega * DT).T
    A[BETA, GAMMA] = force_D_half @ so3_exp(half).T
    A[ALPHA, GAMMA] = 0.5 * DT * A[BETA, GAMMA]
    A[ALPHA, BETA] = DT * np.eye(3)
    B_gyro = np.zeros((9, 3))
    B_gyro[GAMMA] = so3_jr(omega * DT) * DT
    B_gyro[BETA] = force_D_half @ so3_jr(half) * 0.5 * DT
    B_gyro[ALPHA] = 0.5 * DT * B_gyro[BETA]
    return A, B_gyro, acc_noise(R_bi_half)


def acc_noise(R_bi_at):
    B_acc = np.zeros((9, 3))
    B_acc[BETA] = R_bi_at * DT
    B_acc[ALPHA] = 0.5 * DT * B_acc[BETA]
    return B_acc


def recursion(imu, rule, as_printed=False):
    """Covariance (9, 9) and bias derivatives (9, 3), (9, 3), multiplied out sample by sample."""
    steps = integration_steps(imu, *ends(imu), rule)
    cov, D_bg, D_ba = imu.cov_0.copy(), np.zeros((9, 3)), np.zeros((9, 3))
    R_bi_bk = np.eye(3)
    for k, (omega, force) in enumerate(zip(steps.gyro, steps.acc, strict=True)):
        var_gyro, var_acc = imu.var_gyro[k], imu.var_acc[k]
        if rule == "midpoint":
            var_gyro = 0.5 * (var_gyro + imu.var_gyro[k + 1])
            var_acc = 0.5 * (var_acc + imu.var_acc[k + 1])
            A, B_gyro, B_acc = midpoint_step(R_bi_bk, omega, force)
        else:
            jr_at = so3_log(R_bi_bk) if as_printed else omega * DT
            A, B_gyro, B_acc = euler_step(R_bi_bk, omega, force, jr_at)
        cov = symmetrize(
            A @ cov @ A.T
            + B_gyro @ np.diag(var_gyro) @ B_gyro.T
            + B_acc @ np.diag(var_acc) @ B_acc.T
        )
        D_bg, D_ba = A @ D_bg - B_gyro, A @ D_ba - B_acc
        R_bi_bk = R_bi_bk @ so3_exp(omega * DT)
    return cov, D_bg, D_ba


def some_covariance(seed):
    factor = np.random.default_rng(seed).standard_normal((9, 12))
    return 1e-4 * factor @ factor.T


def assert_close_to(actual, expected, relative=1e-12):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=relative * np.abs(expected).max())
