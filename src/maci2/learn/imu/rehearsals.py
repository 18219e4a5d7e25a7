"""The kernels of training run once on little data."""

import torch

from maci2.learn.imu.kernels import MidpointSums


def train_once() -> None:
    """Integrate a few steps forwards and backwards."""
    steps = [torch.full((1, 4), 0.005, dtype=torch.float64)]
    steps += [torch.full((1, 4, 3), value, dtype=torch.float64) for value in (0.1, 9.8, 1e-4, 1e-2)]
    for step in steps:
        step.requires_grad_()
    sums = MidpointSums.apply([2, 4], *steps)
    torch.stack([one.sum() for one in sums]).sum().backward()
