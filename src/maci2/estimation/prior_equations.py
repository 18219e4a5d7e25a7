"""Priors of the shared unknowns as normal equations."""

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.compile import kernel
from maci2.estimation.problem import Priors, Unknowns, Variables, gravity_basis
from maci2.imu import VerticalPrior
from maci2.types import Array

LEVER_STD = UNKNOWN.lever_m
"""Prior of an unknown place of the camera in the body, one axis [m]."""


@kernel
def add_priors(
    priors: Priors, unknowns: Unknowns, x: Variables, D: Array, rhs_border: Array
) -> float:
    """Add the priors to the border (see `block_arrow`); returns their cost."""
    cost = 0.0
    for i in range(3):
        away_bg, away_ba = x.bg[i] - priors.mean_bg[i], x.ba[i] - priors.mean_ba[i]
        cost += priors.info_bg[i] * away_bg**2 + priors.info_ba[i] * away_ba**2
        if unknowns.bias_gyro:
            D[3 + i, 3 + i] += priors.info_bg[i]
            rhs_border[3 + i] -= priors.info_bg[i] * away_bg
        if unknowns.bias_acc:
            D[6 + i, 6 + i] += priors.info_ba[i]
            rhs_border[6 + i] -= priors.info_ba[i] * away_ba
    if priors.vertical.white.any():
        cost += _add_vertical(priors.vertical, unknowns, x, D, rhs_border)
    if unknowns.extrinsics:
        cost += _add_extrinsic_priors(x.T_b_c, D, rhs_border)
    if unknowns.constants:
        longer = x.inverse_scale - 1.0
        cost += priors.info_scale * longer**2 + priors.info_offset * x.offset_s**2
        D[15, 15] += priors.info_scale
        D[16, 16] += priors.info_offset
        rhs_border[15] -= priors.info_scale * longer
        rhs_border[16] -= priors.info_offset * x.offset_s
    return cost


@kernel
def _add_vertical(
    prior: VerticalPrior, unknowns: Unknowns, x: Variables, D: Array, rhs_border: Array
) -> float:
    r, J = vertical_residual(prior, x, unknowns)
    columns = 15 if unknowns.extrinsics else 9
    for row in range(2):
        for i in range(columns):
            rhs_border[i] -= J[row, i] * r[row]
            for j in range(columns):
                D[i, j] += J[row, i] * J[row, j]
    return r[0] ** 2 + r[1] ** 2


@kernel
def vertical_residual(
    prior: VerticalPrior, x: Variables, unknowns: Unknowns
) -> tuple[Array, Array]:
    """(2,) whitened difference between gravity at the first keyframe and what earlier samples tell
    of it, and its (2, 15) derivative by gravity, both biases and the extrinsics.

    The first camera is the origin, so gravity in the first body frame is R_b_c g_c0.
    """
    R_b_c = np.ascontiguousarray(x.T_b_c[:3, :3])
    norm = np.sqrt((x.g_c0**2).sum())
    g_b0 = R_b_c @ x.g_c0 / norm
    moved_D_g = R_b_c @ gravity_basis(x.g_c0, unknowns.sphere) / norm
    away, white_phi = np.empty(9), np.ascontiguousarray(prior.white[:, :3])
    away[:3] = np.cross(g_b0, prior.down_b)
    J = np.zeros((2, 15))
    for i in range(3):
        away[3 + i] = x.bg[i] - prior.bias[i]
        away[6 + i] = x.ba[i] - prior.bias[3 + i]
        # A length of gravity that is free does not turn it.
        moved = np.ascontiguousarray(moved_D_g[:, i])
        turned = moved - g_b0 * (g_b0 @ moved)
        J[:, i] = white_phi @ np.cross(turned, prior.down_b)
        if unknowns.bias_gyro:
            J[:, 3 + i] = prior.white[:, 3 + i]
        if unknowns.bias_acc:
            J[:, 6 + i] = prior.white[:, 6 + i]
        axis = np.zeros(3)
        axis[i] = 1.0
        J[:, 12 + i] = white_phi @ np.cross(np.cross(axis, g_b0), prior.down_b)
    return prior.white @ away, J


@kernel
def _add_extrinsic_priors(T_b_c: Array, D: Array, rhs_border: Array) -> float:
    info = LEVER_STD**-2.0
    x, y, z = T_b_c[0, 3], T_b_c[1, 3], T_b_c[2, 3]
    # The derivative of p by xi is [I, -[p]x], and [p]x p = 0.
    p_cross = ((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0))
    square = x * x + y * y + z * z
    for i in range(3):
        D[9 + i, 9 + i] += info
        rhs_border[9 + i] -= info * T_b_c[i, 3]
        # A rotation about which nothing is known lies within half a turn.
        D[12 + i, 12 + i] += info * square + 1.0 / np.pi**2
        for j in range(3):
            D[9 + i, 12 + j] -= info * p_cross[i][j]
            D[12 + j, 9 + i] -= info * p_cross[i][j]
            D[12 + i, 12 + j] -= info * T_b_c[i, 3] * T_b_c[j, 3]
    return info * square
