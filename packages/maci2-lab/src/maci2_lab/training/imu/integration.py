"""Batched preintegration in torch, with the covariance at every sample and gradients through both.

Write the rotation error in the start frame, psi = R_bi_bk dphi. In the coordinates

    psi,   c_v = dv + [beta]x psi,   c_p = dp - t dv + [alpha - beta t]x psi

the noise of all samples simply adds up (docs/research/imu_model.md), so the covariance is a sum of
outer products instead of a recursion of 9x9 matrices, and no loop over samples is left but the
product of rotations. That product differentiates in closed form: rotating sample k by delta rotates
every later one by R_bi_bk J_l delta, so its gradient is one reversed sum.

Rules and order are those of `maci2.imu.preintegration`: midpoint or euler, [gamma, beta, alpha],
gamma perturbed on the right.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from maci2.imu.preintegration import Rule

# Below this squared angle [rad^2] the closed forms cancel; seven terms reach the last bit there.
SERIES_BELOW = 0.25
SERIES_TERMS = 7

# Rotations are multiplied in blocks of this many: two short loops instead of one long one.
BLOCK = 16


@dataclass(frozen=True)
class Steps:
    """Integration steps of B windows, N steps each: what is held constant over each step."""

    dt: Tensor
    """(B, N) [s]."""

    gyro: Tensor
    """(B, N, 3) [rad/s]."""

    acc: Tensor
    """(B, N, 3) specific force [m/s^2]."""

    var_gyro: Tensor
    """(B, N, 3) [(rad/s)^2]."""

    var_acc: Tensor
    """(B, N, 3) [(m/s^2)^2]."""


@dataclass(frozen=True)
class Integrated:
    """Motion from the start of B windows to K later instants."""

    t: Tensor
    """(B, K) time since the start [s]."""

    gamma: Tensor
    """(B, K, 3, 3)."""

    beta: Tensor
    """(B, K, 3)."""

    alpha: Tensor
    """(B, K, 3)."""

    cov: Tensor
    """(B, K, 9, 9) from the samples' noise and the start covariance."""

    errors_D_start: Tensor
    """(B, K, 9, 9) how an error of the start state [dphi, dv, dp], in b_i, shows at the end."""

    errors_D_bias: Tensor
    """(B, K, 9, 6) derivative by a constant bias [gyro, acc] added to the samples."""


def steps_from_samples(
    times: Tensor,
    gyro: Tensor,
    acc: Tensor,
    var_gyro: Tensor,
    var_acc: Tensor,
    rule: Rule = "midpoint",
) -> Steps:
    """Steps between N + 1 samples of each window; `times` is (B, N + 1) in seconds."""

    def held(values: Tensor) -> Tensor:
        return 0.5 * (values[:, 1:] + values[:, :-1]) if rule == "midpoint" else values[:, :-1]

    return Steps(times.diff(dim=1), held(gyro), held(acc), held(var_gyro), held(var_acc))


def integrate(
    steps: Steps,
    at: list[int] | None = None,
    cov_0: Tensor | None = None,
    rule: Rule = "midpoint",
) -> Integrated:
    """Preintegrate from the first sample to the samples `at` (1..N, rising), or to every one."""
    chosen = list(range(1, steps.dt.shape[1] + 1)) if at is None else at
    gamma, beta, alpha, cov_sums, bias_sums = _sums(steps, chosen, rule)
    t = steps.dt.cumsum(1)[:, torch.tensor(chosen, device=steps.dt.device) - 1]
    if cov_0 is not None:
        cov_sums = cov_sums + cov_0
    D = errors_from_sums(gamma, beta, alpha, t)
    return Integrated(t, gamma, beta, alpha, D @ cov_sums @ D.mT, D, D @ bias_sums)


Sums = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""gamma, beta, alpha; covariance (B, K, 9, 9) and bias derivative (B, K, 9, 6) of the sums."""


def _sums(steps: Steps, at: list[int], rule: Rule) -> Sums:
    """Sums over the steps; torch differentiates all but the product of rotations."""
    dt = steps.dt[..., None]
    phi = steps.gyro * dt
    R_bi_bk = RotationProducts.apply(phi)
    R_before = torch.cat([_identity_like(R_bi_bk[:, :1]), R_bi_bk[:, :-1]], dim=1)
    if rule == "midpoint":
        to_middle, jl = so3_exp_and_jl(0.5 * phi)
        half = jl * (0.5 * dt[..., None])
        # One product for both: batches of small matrices cost by their number.
        R_at, psi_at_D_gyro = (R_before @ torch.cat([to_middle, half], -1)).split(3, -1)
        psi_D_gyro = psi_at_D_gyro + R_at @ half
    else:
        R_at = R_before
        # The sample's own acceleration is rotated before its gyro noise is seen.
        psi_at_D_gyro = torch.zeros_like(R_at)
        psi_D_gyro = R_before @ so3_jl(phi) * dt[..., None]

    t = steps.dt.cumsum(1)[..., None]
    d_beta = _apply(R_at, steps.acc) * dt
    beta = d_beta.cumsum(1)
    alpha = (dt * (beta - 0.5 * d_beta)).cumsum(1)
    tau = 0.5 * dt - t
    gyro_rows = _gyro_rows(psi_D_gyro, psi_at_D_gyro, d_beta, beta, alpha - beta * t, tau)
    v_D_acc = (R_at * dt[..., None]).transpose(1, 2)
    acc_rows = torch.cat([v_D_acc, tau[:, None] * v_D_acc], 1)

    cov_gyro, bias_gyro = _sums_until(gyro_rows, steps.var_gyro, at)
    cov_acc, bias_acc = _sums_until(acc_rows, steps.var_acc, at)
    # Accelerometer noise does not rotate anything: its psi rows are zero.
    cov = cov_gyro + pad(cov_acc, (3, 0, 3, 0))
    bias = torch.cat([bias_gyro, pad(bias_acc, (0, 0, 3, 0))], -1)
    index = torch.tensor(at, device=phi.device) - 1
    return R_bi_bk[:, index], beta[:, index], alpha[:, index], cov, bias


def errors_from_sums(gamma: Tensor, beta: Tensor, alpha: Tensor, t: Tensor) -> Tensor:
    """(..., 9, 9) map from [psi, c_v, c_p] to the errors [dphi, dv, dp]."""
    eye = _identity_like(gamma)
    zero = torch.zeros_like(gamma)
    rows = (
        torch.cat([gamma.mT, zero, zero], -1),
        torch.cat([-skew(beta), eye, zero], -1),
        torch.cat([-skew(alpha), t[..., None, None] * eye, eye], -1),
    )
    return torch.cat(rows, -2)


def _gyro_rows(
    psi_D_gyro: Tensor,
    psi_at_D_gyro: Tensor,
    d_beta: Tensor,
    lever_v: Tensor,
    lever_p: Tensor,
    tau: Tensor,
) -> Tensor:
    """(B, 9, N, 3): what the gyro noise of each step adds to [psi, c_v, c_p].

    `psi_at` is the rotation at which the step's acceleration is summed, `psi` that after the step.
    """
    turns = torch.stack([psi_D_gyro, psi_at_D_gyro]).movedim((3, 4), (0, 1)).contiguous()
    whole, part = turns.unbind(2)
    v, p, d = torch.stack([lever_v, lever_p, d_beta]).movedim(3, 1).contiguous().unbind(0)
    seen = _cross_planes(d, part)
    rows = [whole, _cross_planes(v, whole) - seen, _cross_planes(p, whole) - tau[..., 0] * seen]
    return torch.cat(rows).permute(2, 0, 3, 1)


def _cross_planes(v: Tensor, m: Tensor) -> Tensor:
    """[v]x m for planes: v (3, B, N), m (3, 3, B, N)."""
    x, y, z = v[:, None].unbind(0)
    first, second, third = m.unbind(0)
    return torch.stack([y * third - z * second, z * first - x * third, x * second - y * first])


def _sums_until(rows: Tensor, variances: Tensor, at: list[int]) -> tuple[Tensor, Tensor]:
    """Covariance and bias sums over the steps before each of the samples `at`.

    `rows` (B, d, N, 3) says what one step's noise adds to d coordinates.
    """
    scaled = rows * variances[:, None]
    if at == list(range(1, variances.shape[1] + 1)):
        each = scaled.transpose(1, 2) @ rows.permute(0, 2, 3, 1)
        return each.cumsum(1), rows.transpose(1, 2).cumsum(1)
    # Between two chosen samples one product of a (d, 3n) matrix does all n steps at once.
    lengths = [last - first for first, last in zip([0, *at[:-1]], at, strict=True)]
    lengths.append(variances.shape[1] - at[-1])
    parts = zip(rows.split(lengths, 2), scaled.split(lengths, 2), strict=True)
    cov_parts, bias_parts = [], []
    for plain, weighted in list(parts)[:-1]:
        cov_parts.append(weighted.flatten(2) @ plain.flatten(2).mT)
        bias_parts.append(plain.sum(2))
    return torch.stack(cov_parts, 1).cumsum(1), torch.stack(bias_parts, 1).cumsum(1)


class RotationProducts(torch.autograd.Function):
    """(B, N, 3) rotation vectors -> (B, N, 3, 3) products Exp(phi_0) ... Exp(phi_k)."""

    @staticmethod
    def forward(ctx: Any, phi: Tensor) -> Tensor:
        R = _products(so3_exp(phi))
        ctx.save_for_backward(phi, R)
        return R

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        phi, R = ctx.saved_tensors
        # dL = <grad, [psi]x R>: the axial part of grad R^T is the gradient by psi.
        by_psi = torch.linalg.cross(R, grads[0], dim=-2).sum(-1)
        later = by_psi.flip(1).cumsum(1).flip(1)
        R_before = torch.cat([_identity_like(R[:, :1]), R[:, :-1]], dim=1)
        return _apply(so3_jl(phi).mT, _apply(R_before.mT, later))


def _products(turns: Tensor) -> Tensor:
    """Running products of (B, N, 3, 3) rotations."""
    batch, n = turns.shape[:2]
    blocks = -(-n // BLOCK)
    padding = _identity_like(turns[:, :1]).expand(batch, blocks * BLOCK - n, 3, 3)
    R = torch.cat([turns, padding], dim=1).view(batch, blocks, BLOCK, 3, 3)
    within = [R[:, :, 0]]
    for i in range(1, BLOCK):
        within.append(within[-1] @ R[:, :, i])
    ends = [_identity_like(turns[:, 0])]
    for j in range(blocks - 1):
        ends.append(ends[-1] @ within[-1][:, j])
    whole = torch.stack(ends, 1)[:, :, None] @ torch.stack(within, 2)
    return whole.view(batch, blocks * BLOCK, 3, 3)[:, :n]


def so3_exp(phi: Tensor) -> Tensor:
    """Rotations by vectors (..., 3)."""
    t2 = phi.square().sum(-1)
    return _polynomial(phi, _sin_over(t2), _one_minus_cos_over(t2))


def so3_jl(phi: Tensor) -> Tensor:
    """Left Jacobians of SO(3)."""
    t2 = phi.square().sum(-1)
    return _polynomial(phi, _one_minus_cos_over(t2), _t_minus_sin_over(t2))


def so3_exp_and_jl(phi: Tensor) -> tuple[Tensor, Tensor]:
    """Rotations by vectors (..., 3), and their left Jacobians."""
    t2 = phi.square().sum(-1)
    shared = _one_minus_cos_over(t2)
    return _polynomial(phi, _sin_over(t2), shared), _polynomial(phi, shared, _t_minus_sin_over(t2))


def so3_log(R: Tensor) -> Tensor:
    """Rotation vectors of rotations below 3 rad: errors, not poses."""
    axis = 0.5 * _axial(R)
    cos = 0.5 * (R.diagonal(dim1=-2, dim2=-1).sum(-1) - 1.0)
    s2 = axis.square().sum(-1)
    small = s2 < 1e-10
    s = torch.where(small, torch.ones_like(s2), s2).sqrt()
    scale = torch.where(small & (cos > 0), 1.0 + s2 / 6.0, torch.atan2(s, cos) / s)
    return axis * scale[..., None]


def so3_jr_inv(phi: Tensor) -> Tensor:
    """Inverse right Jacobians, to fourth order: for errors below 0.3 rad."""
    t2 = phi.square().sum(-1)
    return _polynomial(phi, torch.full_like(t2, 0.5), 1.0 / 12.0 + t2 / 720.0)


def skew(v: Tensor) -> Tensor:
    """(..., 3) -> (..., 3, 3)."""
    x, y, z = v.unbind(-1)
    o = torch.zeros_like(x)
    return torch.stack([o, -z, y, z, o, -x, -y, x, o], -1).unflatten(-1, (3, 3))


def _axial(m: Tensor) -> Tensor:
    """The vector w with <m, [v]x> = w . v: twice the antisymmetric part."""
    return torch.stack(
        [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]], -1
    )


def _series(first: int, t2: Tensor) -> Tensor:
    """sum_m (-1)^m t^2m / (first + 2m)!"""
    coefficient = 1.0
    for i in range(2, first + 1):
        coefficient /= i
    coefficients = [coefficient]
    for m in range(1, SERIES_TERMS):
        coefficient /= -(first + 2 * m - 1) * (first + 2 * m)
        coefficients.append(coefficient)
    total = torch.full_like(t2, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * t2 + c
    return total


def _coefficient(first: int, closed_form: Callable[[Tensor], Tensor], t2: Tensor) -> Tensor:
    """The series where it converges, the closed form elsewhere; gradients are safe in both."""
    small = t2 < SERIES_BELOW
    if bool(small.all()):
        return _series(first, t2)
    t = torch.where(small, torch.ones_like(t2), t2).sqrt()
    series = _series(first, torch.where(small, t2, torch.zeros_like(t2)))
    return torch.where(small, series, closed_form(t))


def _sin_over(t2: Tensor) -> Tensor:
    return _coefficient(1, lambda t: t.sin() / t, t2)


def _one_minus_cos_over(t2: Tensor) -> Tensor:
    return _coefficient(2, lambda t: (1.0 - t.cos()) / t.square(), t2)


def _t_minus_sin_over(t2: Tensor) -> Tensor:
    return _coefficient(3, lambda t: (t - t.sin()) / t.pow(3), t2)


def _polynomial(phi: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """I + first [phi]x + second [phi]x^2, with [phi]x^2 = phi phi^T - |phi|^2 I."""
    x, y, z = phi.unbind(-1)
    sx, sy, sz = second * x, second * y, second * z
    fx, fy, fz = first * x, first * y, first * z
    xx, yy, zz = sx * x, sy * y, sz * z
    xy, xz, yz = sx * y, sx * z, sy * z
    planes = [1 - yy - zz, xy - fz, xz + fy, xy + fz, 1 - xx - zz, yz - fx, xz - fy, yz + fx]
    return torch.stack([*planes, 1 - xx - yy], -1).unflatten(-1, (3, 3))


def _identity_like(R: Tensor) -> Tensor:
    return torch.eye(3, dtype=R.dtype, device=R.device).expand(R.shape)


def _apply(R: Tensor, v: Tensor) -> Tensor:
    return (R @ v[..., None])[..., 0]
