"""Preintegration of all segments at once with numpy, where kernels are interpreted.

The sums are those of `preintegration_kernels`, whose loops are slow without a compiler. Segments
are padded with steps of no length, which add nothing.
"""

from typing import NamedTuple

import numpy as np

from maci2.imu.integration_steps import SHORT_SERIES_BELOW
from maci2.lie.stacks import skew_stack
from maci2.types import NS, Array, Stamps


class _Steps(NamedTuple):
    """What happens in the n integration steps of m segments."""

    dt: Array
    """(m, n) [s], zero where a segment has fewer steps."""
    gyro: Array
    """(m, n, 3) angular rate without bias [rad/s]."""
    acc: Array
    """(m, n, 3) specific force without bias [m/s^2]."""
    std: Array
    """(m, n, 6) noise of the whole step [rad/s, m/s^2]."""


def preintegrate_arrays(
    stamps_ns: Stamps,
    gyro: Array,
    acc: Array,
    var_gyro: Array,
    var_acc: Array,
    cov_0: Array,
    starts_ns: Stamps,
    ends_ns: Stamps,
    bias: Array,
    midpoint: bool,
    rotations_only: bool = False,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """What `preintegrate_segments` gives: dt, gamma, beta, alpha, cov, and (m, 9, 6) by both
    biases; all of it whatever is asked for."""
    start_ns, end_ns = starts_ns[:, None], ends_ns[:, None]
    values, variances = np.hstack([gyro, acc]), np.hstack([var_gyro, var_acc])
    steps = _steps(stamps_ns, values, variances, start_ns, end_ns, bias, midpoint)
    R_at, whole, part, gamma = _rotations(steps, midpoint)
    d_beta = steps.dt[..., None] * (R_at @ steps.acc[..., None])[..., 0]
    beta = np.cumsum(d_beta, axis=1)
    alpha = np.cumsum(steps.dt[..., None] * (beta - 0.5 * d_beta), axis=1)
    errors = _errors(steps, R_at, whole, part, d_beta, beta, alpha)
    noise = errors * steps.std[:, :, None, :]
    sums = cov_0 + np.einsum("knic,knjc->kij", noise, noise, optimize=True)
    dt = (ends_ns - starts_ns) / NS
    to_errors = _errors_D_sums(gamma, beta[:, -1], alpha[:, -1], dt)
    cov = to_errors @ sums @ np.swapaxes(to_errors, 1, 2)
    # A bias is -1 in all steps.
    by_bias = -to_errors @ errors.sum(axis=1)
    return dt, gamma, beta[:, -1].copy(), alpha[:, -1].copy(), cov, by_bias


def _steps(
    stamps_ns: Stamps,
    values: Array,
    variances: Array,
    start_ns: Stamps,
    end_ns: Stamps,
    bias: Array,
    midpoint: bool,
) -> _Steps:
    """Samples less bias, and variances, interpolated to where the steps between them read them."""
    first = np.searchsorted(stamps_ns, start_ns, side="right") - 1
    count = np.searchsorted(stamps_ns, end_ns, side="left") - first
    n = np.arange(int(count.max(initial=1)))
    index = np.minimum(first + n, len(stamps_ns) - 2)
    begin = (stamps_ns[index] - start_ns) / NS
    period = (stamps_ns[index + 1] - stamps_ns[index]) / NS
    left = np.maximum(begin, 0.0)
    dt = np.where(n < count, np.minimum(begin + period, (end_ns - start_ns) / NS) - left, 0.0)
    place = ((left + (0.5 * dt if midpoint else 0.0) - begin) / period)[..., None]
    read = values[index] + place * (values[index + 1] - values[index]) - bias[:, None, :]
    variance = variances[index] + place * (variances[index + 1] - variances[index])
    # A shortened step averages its noise over less time; what stays the same is the density.
    longer = np.divide(period, dt, out=np.zeros_like(dt), where=dt > 0.0)
    # Beyond a segment's own steps the samples are of no use, and a variance there may be anything.
    std = np.sqrt(longer[..., None] * np.where(dt[..., None] > 0.0, variance, 0.0))
    return _Steps(dt, read[..., :3], read[..., 3:], std)


def _rotations(steps: _Steps, midpoint: bool) -> tuple[Array, Array, Array, Array]:
    """(m, n, 3, 3) rotation where acceleration is summed, gyroscope error to psi over the whole
    step and up to there; (m, 3, 3) gamma."""
    dt = (0.5 if midpoint else 1.0) * steps.dt
    phi = steps.gyro * dt[..., None]
    s, c, r = (values[..., None, None] for values in _coefficients((phi**2).sum(axis=-1)))
    cross = skew_stack(phi.reshape(-1, 3)).reshape(*phi.shape, 3)
    squared = cross @ cross
    turn = np.eye(3) + s * cross + c * squared
    jacobian = dt[..., None, None] * (np.eye(3) + c * cross + r * squared)
    if not midpoint:
        R_at, gamma = _chained(turn)
        whole = R_at @ jacobian
        return R_at, whole, np.zeros_like(whole), gamma
    R, gamma = _chained(turn @ turn)
    R_at, part = R @ turn, R @ jacobian
    return R_at, R_at @ jacobian + part, part, gamma


def _coefficients(t2: Array) -> tuple[Array, Array, Array]:
    """sin(t) / t, (1 - cos t) / t^2 and (t - sin t) / t^3 of squared angles [rad^2]."""
    t = np.sqrt(np.maximum(t2, SHORT_SERIES_BELOW))
    s, c, r = np.sin(t) / t, 2.0 * (np.sin(0.5 * t) / t) ** 2, (t - np.sin(t)) / t**3
    is_short = t2 < SHORT_SERIES_BELOW
    return (
        np.where(is_short, 1.0 - t2 / 6.0 * (1.0 - t2 / 20.0 * (1.0 - t2 / 42.0)), s),
        np.where(is_short, 0.5 - t2 / 24.0 * (1.0 - t2 / 30.0 * (1.0 - t2 / 56.0)), c),
        np.where(is_short, 1.0 / 6.0 - t2 / 120.0 * (1.0 - t2 / 42.0 * (1.0 - t2 / 72.0)), r),
    )


def _chained(turn: Array) -> tuple[Array, Array]:
    """(m, n, 3, 3) rotation at the start of every step, and (m, 3, 3) at the end of all."""
    R, gamma = np.empty_like(turn), np.tile(np.eye(3), (len(turn), 1, 1))
    for k in range(turn.shape[1]):
        R[:, k] = gamma
        gamma = gamma @ turn[:, k]
    return R, gamma


def _errors(
    steps: _Steps, R_at: Array, whole: Array, part: Array, d_beta: Array, beta: Array, alpha: Array
) -> Array:
    """(m, n, 9, 6) what one unit of error of gyroscope and accelerometer does to [psi, c_v, c_p]
    in a step (see `preintegration_kernels`)."""
    t = np.cumsum(steps.dt, axis=1)
    tau = (0.5 * steps.dt - t)[..., None, None]
    kick = _crossed(d_beta, part)
    force = steps.dt[..., None, None] * R_at
    gyro = [
        whole,
        _crossed(beta, whole) - kick,
        _crossed(alpha - t[..., None] * beta, whole) - tau * kick,
    ]
    acc = [np.zeros_like(force), force, tau * force]
    return np.concatenate([np.concatenate(gyro, axis=2), np.concatenate(acc, axis=2)], axis=3)


def _crossed(vectors: Array, matrices: Array) -> Array:
    """[v]x M of every step."""
    return np.cross(vectors[..., None], matrices, axisa=-2, axisb=-2, axisc=-2)


def _errors_D_sums(gamma: Array, beta: Array, alpha: Array, dt: Array) -> Array:
    """(m, 9, 9) from [psi, c_v, c_p] to the errors [dphi, dv, dp]."""
    D = np.zeros((len(dt), 9, 9))
    D[:, 0:3, 0:3] = np.swapaxes(gamma, 1, 2)
    D[:, 3:6, 0:3], D[:, 3:6, 3:6] = -skew_stack(beta), np.eye(3)
    D[:, 6:9, 0:3], D[:, 6:9, 6:9] = -skew_stack(alpha), np.eye(3)
    D[:, 6:9, 3:6] = dt[:, None, None] * np.eye(3)
    return D
