"""Arrays of the joint problem (Eq. 9): measurements, priors, free unknowns."""

from typing import NamedTuple

import numpy as np

from maci2.compile import kernel
from maci2.imu import VerticalPrior
from maci2.lie import se3_exp, se3_inv, se3_mul
from maci2.types import Array

SCALE_STD = 1.0
"""Standard deviation of the prior of an inverse scale that is to be estimated freely, about 1."""

CLOCK_STD_S = 0.001
"""Prior of the time offset while extrinsics and scale are freed for their test [s]: the clocks are
then taken as stated, and the pull against this prior measures the offset."""


class Measurements(NamedTuple):
    """Measurements of vision and IMU between m + 1 keyframes, ready for whitening."""

    Ts_ck_ck1: Array
    """(m, 4, 4)"""
    white_visual: Array
    """(m, 6, 6) W with W'W = cov^-1."""
    dt: Array
    gamma: Array
    beta: Array
    alpha: Array
    D_bg: Array
    D_ba: Array
    white_imu: Array
    """(m, 9, 9), for residuals in the paper's sign."""
    bias_gyro: Array
    """(3,) bias at which the preintegration was made."""
    bias_acc: Array
    visual_limit: float
    """Norm of a whitened visual residual above which its loss is linear (Huber)."""
    rates: Array
    """(m + 1, 6) angular rate and specific force at the keyframes, minus the biases of the
    preintegration; empty if the time offset is given."""


class Priors(NamedTuple):
    """Gaussian priors; zero information means no prior."""

    mean_bg: Array
    info_bg: Array
    mean_ba: Array
    info_ba: Array
    info_scale: float
    """Information of the inverse scale of vision, around 1."""
    info_offset: float
    """Information of the time offset, around 0 [1/s^2]."""
    vertical: VerticalPrior
    """The vertical at the first keyframe, as earlier samples tell it; zeros for none."""


class Unknowns(NamedTuple):
    """Flags of the shared unknowns that are free."""

    sphere: bool
    """Whether the norm of gravity is fixed."""
    bias_gyro: bool
    bias_acc: bool
    extrinsics: bool
    constants: bool
    """Whether the scale of vision and the time offset are free, with the extrinsics."""


class Variables(NamedTuple):
    """State as arrays; see VIState."""

    Ts_c0_b: Array
    v_b: Array
    g_c0: Array
    bg: Array
    ba: Array
    T_b_c: Array
    inverse_scale: float = 1.0
    """Ratio of measured to true translation."""
    offset_s: float = 0.0
    """Time on the IMU's clock minus that of a keyframe [s]."""


@kernel
def gravity_basis(g_c0: Array, sphere: bool) -> Array:
    """(3, 3) derivative of gravity by its unknowns: two angles [rad] on the sphere (the third
    column is zero), or the vector itself [m/s^2]."""
    if not sphere:
        return np.eye(3)
    x, y, z = g_c0[0], g_c0[1], g_c0[2]
    norm = np.sqrt(x * x + y * y + z * z)
    # Gravity crossed with the axis that it is farthest from.
    if abs(x) <= abs(y) and abs(x) <= abs(z):
        a, b, c = 0.0, z, -y
    elif abs(y) <= abs(z):
        a, b, c = -z, 0.0, x
    else:
        a, b, c = y, -x, 0.0
    scale = norm / np.sqrt(a * a + b * b + c * c)
    a, b, c = scale * a, scale * b, scale * c
    basis = np.zeros((3, 3))
    basis[0, 0], basis[1, 0], basis[2, 0] = a, b, c
    basis[0, 1] = (y * c - z * b) / norm
    basis[1, 1] = (z * a - x * c) / norm
    basis[2, 1] = (x * b - y * a) / norm
    return basis


@kernel
def retract(x: Variables, dx: Array, dx_border: Array, unknowns: Unknowns) -> Variables:
    """State after a step: dx (n, 9) of the keyframes, dx_border of the shared unknowns."""
    n = len(dx)
    Ts_c0_b, v_b = np.empty((n, 4, 4)), np.empty((n, 3))
    T_b_c = x.T_b_c
    if unknowns.extrinsics:
        T_b_c = se3_mul(se3_exp(dx_border[9:15]), T_b_c)
    for k in range(n):
        # Gauge: the first camera is the origin, so the first body pose is the inverse extrinsics.
        T_c0_b = se3_mul(se3_exp(dx[k]), x.Ts_c0_b[k]) if k > 0 else se3_inv(T_b_c)
        for i in range(4):
            for j in range(4):
                Ts_c0_b[k, i, j] = T_c0_b[i, j]
        for i in range(3):
            v_b[k, i] = x.v_b[k, i] + dx[k, 6 + i]
    g_c0, bg, ba = x.g_c0.copy(), x.bg.copy(), x.ba.copy()
    basis = gravity_basis(x.g_c0, unknowns.sphere)
    before, after = 0.0, 0.0
    for i in range(3):
        for j in range(3):
            g_c0[i] += basis[i, j] * dx_border[j]
        before += x.g_c0[i] ** 2
        after += g_c0[i] ** 2
        bg[i] += dx_border[3 + i]
        ba[i] += dx_border[6 + i]
    if unknowns.sphere:
        for i in range(3):
            g_c0[i] *= np.sqrt(before / after)
    inverse_scale, offset_s = x.inverse_scale, x.offset_s
    if unknowns.constants:
        inverse_scale += dx_border[15]
        offset_s += dx_border[16]
    return Variables(Ts_c0_b, v_b, g_c0, bg, ba, T_b_c, inverse_scale, offset_s)
