"""Speed of one training step's integration against pypose's IMUPreintegrator, in one run."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from maci2.errors import OptionError
from maci2_lab.training.imu.integration import integrate, steps_from_samples

WINDOWS = 64
SAMPLES = 200
DT = 0.005


@dataclass(frozen=True)
class TrainingStepBench:
    """Integration with covariance, forward and backward, one thread."""

    ours_ms: float
    pypose_ms: float

    @property
    def ratio(self) -> float:
        """Speed-up: time of the other over ours."""
        return self.pypose_ms / self.ours_ms


def bench_training_step(repeats: int = 7) -> TrainingStepBench:
    """Medians over `repeats`, measured in turn so that load affects both."""
    try:
        import pypose
    except ImportError as error:
        raise OptionError("the comparison needs pypose; pip install pypose.") from error
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        integrator = pypose.module.IMUPreintegrator(prop_cov=True, reset=True).double()
        ours, theirs = [], []
        for k in range(repeats + 1):
            samples = _samples(k)
            ours.append(_seconds(lambda: _ours(samples)))  # noqa: B023
            theirs.append(_seconds(lambda: _theirs(integrator, samples)))  # noqa: B023
    finally:
        torch.set_num_threads(threads)
    # The first of each compiles or warms up.
    return TrainingStepBench(1e3 * median(ours[1:]), 1e3 * median(theirs[1:]))


def _samples(seed: int) -> list[Tensor]:
    """Gyro, acc and variances of all windows."""
    generator = torch.Generator().manual_seed(seed)

    def sampled(scale: float) -> Tensor:
        shape = (WINDOWS, SAMPLES + 1, 3)
        return scale * torch.randn(shape, generator=generator, dtype=torch.float64)

    gyro, acc = sampled(1.0), sampled(1.0) + torch.tensor([0.0, 0.0, 9.81], dtype=torch.float64)
    parts = [gyro, acc, 1e-4 * sampled(0.1).exp(), 1e-2 * sampled(0.1).exp()]
    return [one.requires_grad_() for one in parts]


def _seconds(run: Callable[[], None]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _ours(samples: list[Tensor]) -> None:
    times = DT * torch.arange(SAMPLES + 1, dtype=torch.float64).expand(WINDOWS, -1)
    gyro, acc, var_gyro, var_acc = samples
    steps = steps_from_samples(times, gyro, acc, var_gyro, var_acc)
    found = integrate(steps, [SAMPLES])
    (found.cov.sum() + found.beta.sum() + found.alpha.sum() + found.gamma.sum()).backward()


def _theirs(integrator: torch.nn.Module, samples: list[Tensor]) -> None:
    gyro, acc, var_gyro, var_acc = (one[:, :-1] for one in samples)
    dt = torch.full((WINDOWS, SAMPLES, 1), DT, dtype=torch.float64)
    found = integrator(dt=dt, gyro=gyro, acc=acc, gyro_cov=var_gyro, acc_cov=var_acc)
    total = found["cov"].sum() + found["vel"].sum() + found["pos"].sum()
    (total + found["rot"].tensor().sum()).backward()
