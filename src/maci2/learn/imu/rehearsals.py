"""The kernels of training run once on little data."""

import numpy as np

from maci2.learn.imu.kernels import backward, forward


def train_once() -> None:
    """Integrate a few steps forwards and backwards."""
    steps = [np.full((1, 4), 0.005)]
    steps += [np.full((1, 4, 3), value) for value in (0.1, 9.8, 1e-4, 1e-2)]
    ends = np.array([2, 4])
    *sums, Rs, betas, alphas = forward(*steps, ends)
    backward(*steps, ends, *map(np.ones_like, sums), Rs, betas, alphas, sums[0])
