"""The compiled sums of `maci2.learn.imu.kernels` as a function that torch differentiates."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from maci2.learn.imu.kernels import backward, forward


class MidpointSums(torch.autograd.Function):
    """dt, gyro, acc and variances of steps -> gamma, beta, alpha, covariance and bias sums."""

    @staticmethod
    def forward(ctx: Any, at: list[int], *steps: Tensor) -> tuple[Tensor, ...]:
        arrays = [np.ascontiguousarray(one.detach().double().numpy()) for one in steps]
        ends = np.array(at)
        dt, gyro, acc, var_gyro, var_acc = arrays
        *found, Rs, betas, alphas = forward(dt, gyro, acc, var_gyro, var_acc, ends)
        ctx.kept = (arrays, ends, Rs, betas, alphas, found[0])
        return tuple(torch.from_numpy(one) for one in found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        arrays, ends, Rs, betas, alphas, gamma = ctx.kept
        dt, gyro, acc, var_gyro, var_acc = arrays
        g_bar, b_bar, a_bar, cov_bar, bias_bar = (np.ascontiguousarray(g.numpy()) for g in grads)
        found = backward(
            dt, gyro, acc, var_gyro, var_acc, ends, g_bar, b_bar, a_bar, cov_bar, bias_bar,
            Rs, betas, alphas, gamma,
        )  # fmt: skip
        return (None, None, *(torch.from_numpy(one) for one in found))
