"""Closed-form preintegration in torch against the recursion, the numba kernels and pypose."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from maci2.imu import ImuMeasurements, preintegrate
from maci2.imu.measurements import BiasPrior
from maci2_lab.training.imu.integration import (
    Integrated,
    RotationProducts,
    integrate,
    skew,
    so3_exp,
    so3_jl,
    so3_log,
    steps_from_samples,
)

DT = 0.005


def random_samples(batch=3, n=41, seed=1, rate=1.5):
    """Times, gyro, acc, var_gyro, var_acc of a lively motion."""
    generator = torch.Generator().manual_seed(seed)

    def draw(scale):
        return scale * torch.randn(batch, n, 3, generator=generator, dtype=torch.float64)

    times = DT * torch.arange(n, dtype=torch.float64).repeat(batch, 1)
    up = torch.tensor([0.0, 0.0, 9.81], dtype=torch.float64)
    return times, draw(rate), draw(3.0) + up, 1e-4 * draw(1.0).exp(), 1e-2 * draw(1.0).exp()


def random_cov_0(seed=2):
    generator = torch.Generator().manual_seed(seed)
    lower = torch.randn(9, 9, generator=generator, dtype=torch.float64)
    return 1e-5 * lower @ lower.T


def recursion(times, gyro, acc, var_gyro, var_acc, cov_0):
    """The paper's App. C, sample by sample, for one window; Euler."""
    R, beta, alpha, cov = np.eye(3), np.zeros(3), np.zeros(3), cov_0.copy()
    for k in range(len(times) - 1):
        dt = times[k + 1] - times[k]
        turn = so3_exp(torch.tensor(gyro[k] * dt)).numpy()
        a_hat = skew(torch.tensor(acc[k])).numpy()
        A = np.eye(9)
        A[:3, :3] = turn.T
        A[3:6, :3] = -R @ a_hat * dt
        A[6:, :3] = 0.5 * dt * A[3:6, :3]
        A[6:, 3:6] = dt * np.eye(3)
        B_gyro, B_acc = np.zeros((9, 3)), np.zeros((9, 3))
        B_gyro[:3] = so3_jl(torch.tensor(-gyro[k] * dt)).numpy() * dt
        B_acc[3:6], B_acc[6:] = R * dt, 0.5 * R * dt**2
        cov = A @ cov @ A.T + B_gyro * var_gyro[k] @ B_gyro.T + B_acc * var_acc[k] @ B_acc.T
        alpha = alpha + beta * dt + 0.5 * R @ acc[k] * dt**2
        beta = beta + R @ acc[k] * dt
        R = R @ turn
    return R, beta, alpha, cov


def test_covariance_at_every_sample_equals_the_recursion():
    samples, cov_0 = random_samples(), random_cov_0()
    found = integrate(steps_from_samples(*samples, rule="euler"), None, cov_0, "euler")
    for k in (1, 2, 17, 40):
        for b in range(3):
            window = [x[b, : k + 1].numpy() for x in samples]
            R, beta, alpha, cov = recursion(*window, cov_0.numpy())
            np.testing.assert_allclose(found.gamma[b, k - 1], R, atol=1e-12)
            np.testing.assert_allclose(found.beta[b, k - 1], beta, atol=1e-12)
            np.testing.assert_allclose(found.alpha[b, k - 1], alpha, atol=1e-12)
            np.testing.assert_allclose(found.cov[b, k - 1], cov, atol=1e-12 * np.abs(cov).max())


@pytest.mark.parametrize("rule", ["midpoint", "euler"])
def test_integration_equals_the_numba_kernels(rule):
    samples, cov_0 = random_samples(batch=2), random_cov_0()
    found = integrate(steps_from_samples(*samples, rule=rule), [10, 40], cov_0, rule)
    for b in range(2):
        times, gyro, acc, var_gyro, var_acc = (x[b].numpy() for x in samples)
        stamps_ns = np.round(times * 1e9).astype(np.int64)
        imu = ImuMeasurements(stamps_ns, gyro, acc, var_gyro, var_acc, cov_0.numpy(), BiasPrior())
        for k, end in enumerate((10, 40)):
            one = preintegrate(imu, stamps_ns[[0, end]], rule=rule)
            np.testing.assert_allclose(found.gamma[b, k], one.gamma[0], atol=1e-12)
            np.testing.assert_allclose(found.beta[b, k], one.beta[0], atol=1e-11)
            np.testing.assert_allclose(found.alpha[b, k], one.alpha[0], atol=1e-11)
            scale = np.abs(one.cov[0]).max()
            np.testing.assert_allclose(found.cov[b, k], one.cov[0], atol=1e-12 * scale)
            bias = -np.concatenate([one.D_bg[0], one.D_ba[0]], axis=1)
            np.testing.assert_allclose(found.errors_D_bias[b, k], bias, atol=1e-10)


def test_chosen_samples_are_those_of_every_sample():
    steps = steps_from_samples(*random_samples())
    every, chosen = integrate(steps), integrate(steps, [3, 20, 33])
    for name in vars(every):
        torch.testing.assert_close(
            getattr(every, name)[:, [2, 19, 32]], getattr(chosen, name), atol=1e-13, rtol=1e-12
        )


def test_bias_derivative_agrees_with_differences():
    times, gyro, acc, *variances = random_samples(batch=1)

    def error(bias):
        steps = steps_from_samples(times, gyro + bias[:3], acc + bias[3:], *variances)
        found, plain = (
            integrate(steps, [40]),
            integrate(steps_from_samples(times, gyro, acc, *variances), [40]),
        )
        rotation = so3_log(plain.gamma.mT @ found.gamma)
        return torch.cat([rotation, found.beta - plain.beta, found.alpha - plain.alpha], -1)[0, 0]

    step = 1e-5 * torch.eye(6, dtype=torch.float64)
    numeric = torch.stack([(error(d) - error(-d)) / 2e-5 for d in step], -1)
    analytic = integrate(steps_from_samples(times, gyro, acc, *variances), [40]).errors_D_bias
    torch.testing.assert_close(analytic[0, 0], numeric, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-9, 0.3, 2.0])
def test_rotation_products_have_the_right_gradient(scale):
    generator = torch.Generator().manual_seed(5)
    phi = scale * torch.randn(2, 20, 3, generator=generator, dtype=torch.float64)
    assert torch.autograd.gradcheck(RotationProducts.apply, phi.requires_grad_())


def test_gradients_reach_samples_variances_and_start_covariance():
    times, *rest = random_samples(batch=1, n=6)
    leaves = [x.requires_grad_() for x in (*rest, 1e3 * random_cov_0())]

    def outcome(gyro, acc, var_gyro, var_acc, cov_0):
        steps = steps_from_samples(times, gyro, acc, var_gyro, var_acc)
        found = integrate(steps, [2, 5], cov_0)
        return found.gamma, found.beta, found.alpha, found.cov

    assert torch.autograd.gradcheck(outcome, leaves, atol=1e-7)


@pytest.mark.slow
def test_covariance_passes_the_nees_test():
    draws = 4000
    times, gyro, acc, var_gyro, var_acc = random_samples(batch=1, n=101, seed=4)
    generator = torch.Generator().manual_seed(6)

    def noisy(values, variance):
        noise = torch.randn(draws, *values.shape[1:], generator=generator, dtype=torch.float64)
        return values + noise * variance.sqrt()

    # Small noise: the covariance is a first-order statement.
    var_gyro, var_acc = 1e-2 * var_gyro, 1e-2 * var_acc
    exact = integrate(
        steps_from_samples(times, gyro, acc, var_gyro, var_acc, "euler"), [100], None, "euler"
    )
    many = [times.expand(draws, -1), noisy(gyro, var_gyro), noisy(acc, var_acc)]
    many += [v.expand(draws, -1, -1) for v in (var_gyro, var_acc)]
    found = integrate(steps_from_samples(*many, "euler"), [100], None, "euler")
    e = error_between(found, exact)
    scores = (e * torch.linalg.solve(exact.cov[0], e.mT).mT).sum(-1)
    # 99.9 % band of the mean of 4000 chi-square variables with 9 degrees of freedom.
    assert abs(float(scores.mean()) - 9.0) < 3.3 * np.sqrt(2 * 9 / draws)


def error_between(found: Integrated, exact: Integrated):
    rotation = so3_log(exact.gamma.mT @ found.gamma)
    return torch.cat([rotation, found.beta - exact.beta, found.alpha - exact.alpha], -1)[:, 0]


def test_ours_is_right_where_pypose_is_not():
    """pypose multiplies the A matrices in reversed order; with a start covariance it shows."""
    pypose = pytest.importorskip("pypose")
    times, gyro, acc, var_gyro, var_acc = random_samples(batch=1, n=201, rate=1.0)
    cov_0 = torch.diag(
        torch.tensor([1e-2, 1e-6, 1e-6, 1e-4, 1e-8, 1e-8, 1e-6, 1e-8, 1e-8])
    ).double()
    start = {
        "pos": torch.zeros(1, 1, 3).double(),
        "rot": pypose.identity_SO3(1, 1, dtype=torch.float64),
        "vel": torch.zeros(1, 1, 3).double(),
        "cov": cov_0[None],
    }
    theirs = pypose.module.IMUPreintegrator(prop_cov=True, reset=True).double()(
        dt=torch.full((1, 200, 1), DT).double(),
        gyro=gyro[:, :-1],
        acc=acc[:, :-1],
        # Its noise inputs are densities: B has 1 / dt inside.
        gyro_cov=var_gyro[:, :-1] * DT,
        acc_cov=var_acc[:, :-1] * DT,
        init_state=start,
    )["cov"][0]
    ours = integrate(
        steps_from_samples(times, gyro, acc, var_gyro, var_acc, "euler"), [200], cov_0, "euler"
    ).cov[0, 0]
    *_, truth = recursion(
        *(x[0].numpy() for x in (times, gyro, acc, var_gyro, var_acc)), cov_0.numpy()
    )
    velocity = slice(3, 6)

    def off(cov):
        return np.linalg.norm(cov[velocity, velocity] - truth[velocity, velocity]) / np.linalg.norm(
            truth[velocity, velocity]
        )

    assert off(ours.numpy()) < 1e-12
    assert off(theirs.detach().numpy()) > 0.05
