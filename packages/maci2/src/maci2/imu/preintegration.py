"""Preintegration between keyframes, with covariance and bias derivatives (Eqs. 2-3, App. C).

Compiled kernels integrate one segment after the other; where kernels are interpreted, numpy takes
all segments at once with the same sums. Segments are then padded with steps of no length, which add
nothing.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from maci2 import validation
from maci2.errors import DatasetError
from maci2.geometry.se3 import skew_stack
from maci2.imu.measurements import ImuMeasurements
from maci2.imu.preintegration_kernels import SHORT_SERIES_BELOW, preintegrate_segments
from maci2.jit import are_interpreted
from maci2.types import NS, Array, Stamps

GAMMA = slice(0, 3)
BETA = slice(3, 6)
ALPHA = slice(6, 9)

Rule = Literal["midpoint", "euler"]

MAX_GAP_PERIODS = 5.0
"""Longest step between two samples that is still integrated across, in sampling periods."""


@dataclass(frozen=True)
class Preintegrated:
    """Motion between consecutive keyframes as the IMU measured it, m segments in a stack.

    Order [gamma, beta, alpha]; gamma is perturbed on the right: gamma Exp(dphi).
    """

    stamps_ns: Stamps
    """(m + 1,) keyframes."""

    dt: Array
    """(m,) length of each segment [s]."""

    gamma: Array
    """(m, 3, 3) rotation R_bk_bk1."""

    beta: Array
    """(m, 3) velocity change without gravity, in b_k [m/s]."""

    alpha: Array
    """(m, 3) position change without gravity and start velocity, in b_k [m]."""

    cov: Array
    """(m, 9, 9)."""

    D_bg: Array
    """(m, 9, 3) derivative by the gyroscope bias."""

    D_ba: Array
    """(m, 9, 3) derivative by the accelerometer bias; its rotation rows are zero."""

    bias_gyro: Array
    """(3,) gyroscope bias that was taken off the samples [rad/s]."""

    bias_acc: Array
    """(3,) accelerometer bias that was taken off the samples [m/s^2]."""


def preintegrate(
    imu: ImuMeasurements,
    stamps_ns: Stamps,
    bias_gyro: Array | None = None,
    bias_acc: Array | None = None,
    rule: Rule = "midpoint",
) -> Preintegrated:
    """Integrate the samples from each keyframe to the next.

    Samples are interpolated to the keyframes' timestamps. `euler` holds each sample until the next
    (the paper's Eq. 2); `midpoint` takes the mean of both ends and the rotation half way.
    """
    validation.require_type(imu, ImuMeasurements, "imu", "as raw_model(samples, noise) makes them")
    stamps_ns = validation.as_stamps(stamps_ns, "stamps_ns of the keyframes", least=2)
    bias_gyro = validation.as_array(
        np.zeros(3) if bias_gyro is None else bias_gyro, (3,), "bias_gyro"
    )
    bias_acc = validation.as_array(np.zeros(3) if bias_acc is None else bias_acc, (3,), "bias_acc")
    require_samples(imu, stamps_ns)
    return integrate_between(imu, stamps_ns, bias_gyro, bias_acc, rule)


def integrate_between(
    imu: ImuMeasurements,
    stamps_ns: Stamps,
    bias_gyro: Array,
    bias_acc: Array,
    rule: Rule,
    rotations_only: bool = False,
) -> Preintegrated:
    """`preintegrate` of arguments that have been checked.

    With `rotations_only` gamma has a meaning, and its part of cov and D_bg: half the time.
    """
    bias = np.empty((len(stamps_ns) - 1, 6))
    bias[:, :3], bias[:, 3:] = bias_gyro, bias_acc
    dt, gamma, beta, alpha, cov, by_bias = integrate_segments(
        imu, stamps_ns[:-1], stamps_ns[1:], bias, rule == "midpoint", rotations_only
    )
    D_bg, D_ba = (np.ascontiguousarray(by_bias[:, :, axes]) for axes in (GAMMA, BETA))
    return Preintegrated(stamps_ns, dt, gamma, beta, alpha, cov, D_bg, D_ba, bias_gyro, bias_acc)


Segments = tuple[Array, Array, Array, Array, Array, Array]
"""dt, gamma, beta, alpha, cov of m segments (see `Preintegrated`), and (m, 9, 6) by both biases."""


def integrate_segments(
    imu: ImuMeasurements,
    starts_ns: Stamps,
    ends_ns: Stamps,
    bias: Array,
    midpoint: bool,
    rotations_only: bool = False,
) -> Segments:
    """Integrate m segments within the samples; (m, 6) biases of gyroscope and accelerometer are
    taken off."""
    if are_interpreted():
        return preintegrate_arrays(imu, starts_ns, ends_ns, bias, midpoint)
    samples = imu.stamps_ns, imu.gyro, imu.acc, imu.var_gyro, imu.var_acc, imu.cov_0
    segments: Segments = preintegrate_segments(
        *samples, starts_ns, ends_ns, bias, midpoint, rotations_only
    )
    return segments


def require_samples(imu: ImuMeasurements, stamps_ns: Stamps) -> None:
    """Raise unless a window lies inside the samples and holds no gap."""
    start_ns, end_ns = int(stamps_ns[0]), int(stamps_ns[-1])
    if start_ns < imu.stamps_ns[0] or end_ns > imu.stamps_ns[-1]:
        raise DatasetError(
            f"{imu.source}: the IMU covers {imu.stamps_ns[0]}..{imu.stamps_ns[-1]} ns but the "
            f"window needs {start_ns}..{end_ns} ns; drop keyframes outside the IMU recording."
        )
    first = int(imu.stamps_ns.searchsorted(start_ns, side="right")) - 1
    inside_ns = imu.stamps_ns[first : int(imu.stamps_ns.searchsorted(end_ns)) + 1]
    steps_ns = inside_ns[1:] - inside_ns[:-1]
    gap_ns = int(steps_ns.max(initial=0))
    period_ns = float(inside_ns[-1] - inside_ns[0] - gap_ns) / max(len(steps_ns) - 1, 1)
    if 0.0 < MAX_GAP_PERIODS * period_ns < gap_ns:
        raise DatasetError(
            f"{imu.source}: no IMU sample for {gap_ns / 1e6:.1f} ms after timestamp "
            f"{imu.stamps_ns[first + int(np.argmax(steps_ns))]} ns, inside the window "
            f"{start_ns}..{end_ns} ns; at most {MAX_GAP_PERIODS * period_ns / 1e6:.1f} ms is "
            "allowed. Choose a window without a gap."
        )


def preintegrate_arrays(
    imu: ImuMeasurements, starts_ns: Stamps, ends_ns: Stamps, bias: Array, midpoint: bool
) -> Segments:
    """Results of `preintegrate_segments`; all of it whatever is asked for."""
    dt, values, std = _steps(imu, starts_ns[:, None], ends_ns[:, None], bias, midpoint)
    R_at, whole, part, gamma = _rotations(values[..., :3], dt, midpoint)
    d_beta = dt[..., None] * (R_at @ values[..., 3:, None])[..., 0]
    beta = np.cumsum(d_beta, axis=1)
    alpha = np.cumsum(dt[..., None] * (beta - 0.5 * d_beta), axis=1)

    # What one unit of error of gyroscope and accelerometer does to [psi, c_v, c_p] in a step.
    t = np.cumsum(dt, axis=1)
    tau = (0.5 * dt - t)[..., None, None]
    kick, force = _crossed(d_beta, part), dt[..., None, None] * R_at
    by_gyro = [
        whole,
        _crossed(beta, whole) - kick,
        _crossed(alpha - t[..., None] * beta, whole) - tau * kick,
    ]
    by_acc = [np.zeros_like(force), force, tau * force]
    errors = np.concatenate([np.concatenate(by, axis=2) for by in (by_gyro, by_acc)], axis=3)
    noise = errors * std[:, :, None, :]
    sums = imu.cov_0 + np.einsum("knic,knjc->kij", noise, noise, optimize=True)

    # From [psi, c_v, c_p] to the errors [dphi, dv, dp].
    length_s, beta, alpha = (ends_ns - starts_ns) / NS, beta[:, -1].copy(), alpha[:, -1].copy()
    D = np.tile(np.eye(9), (len(length_s), 1, 1))
    D[:, GAMMA, GAMMA] = np.swapaxes(gamma, 1, 2)
    D[:, BETA, GAMMA], D[:, ALPHA, GAMMA] = -skew_stack(beta), -skew_stack(alpha)
    D[:, ALPHA, BETA] = length_s[:, None, None] * np.eye(3)
    # A bias is -1 in all steps.
    by_bias = -D @ errors.sum(axis=1)
    return length_s, gamma, beta, alpha, D @ sums @ np.swapaxes(D, 1, 2), by_bias


def _steps(
    imu: ImuMeasurements, start_ns: Stamps, end_ns: Stamps, bias: Array, midpoint: bool
) -> tuple[Array, Array, Array]:
    """Steps between the samples of m segments: lengths (m, n) [s], zero where a segment has fewer;
    (m, n, 6) samples less bias where a step reads them, and noise of the whole step."""
    values, variances = np.hstack([imu.gyro, imu.acc]), np.hstack([imu.var_gyro, imu.var_acc])
    first = np.searchsorted(imu.stamps_ns, start_ns, side="right") - 1
    count = np.searchsorted(imu.stamps_ns, end_ns, side="left") - first
    n = np.arange(int(count.max(initial=1)))
    index = np.minimum(first + n, len(imu.stamps_ns) - 2)
    begin = (imu.stamps_ns[index] - start_ns) / NS
    period = (imu.stamps_ns[index + 1] - imu.stamps_ns[index]) / NS
    left = np.maximum(begin, 0.0)
    dt = np.where(n < count, np.minimum(begin + period, (end_ns - start_ns) / NS) - left, 0.0)
    place = ((left + (0.5 * dt if midpoint else 0.0) - begin) / period)[..., None]
    read = values[index] + place * (values[index + 1] - values[index]) - bias[:, None, :]
    variance = variances[index] + place * (variances[index + 1] - variances[index])
    # A shortened step averages its noise over less time; what stays the same is the density.
    longer = np.divide(period, dt, out=np.zeros_like(dt), where=dt > 0.0)
    # Beyond a segment's own steps the samples are of no use, and a variance there may be anything.
    std = np.sqrt(longer[..., None] * np.where(dt[..., None] > 0.0, variance, 0.0))
    return dt, read, std


def _rotations(gyro: Array, dt: Array, midpoint: bool) -> tuple[Array, Array, Array, Array]:
    """(m, n, 3, 3) rotation where acceleration is summed, gyroscope error to psi over the whole
    step and up to there; (m, 3, 3) gamma."""
    dt = ((0.5 if midpoint else 1.0) * dt)[..., None, None]
    phi = gyro * dt[..., 0]
    t = np.linalg.norm(phi, axis=-1)[..., None, None]
    cross = skew_stack(phi.reshape(-1, 3)).reshape(*phi.shape, 3)
    squared = cross @ cross
    # sin(t) / t, (1 - cos t) / t^2 and (t - sin t) / t^3, whose closed form loses small angles.
    s, c, t2 = np.sinc(t / np.pi), 0.5 * np.sinc(0.5 * t / np.pi) ** 2, t**2
    series = 1.0 / 6.0 - t2 / 120.0 * (1.0 - t2 / 42.0 * (1.0 - t2 / 72.0))
    is_short = t2 < SHORT_SERIES_BELOW
    r = np.where(is_short, series, (t - np.sin(t)) / np.where(is_short, 1.0, t) ** 3)
    turn = np.eye(3) + s * cross + c * squared
    jacobian = dt * (np.eye(3) + c * cross + r * squared)
    if not midpoint:
        R_at, gamma = _chained(turn)
        whole = R_at @ jacobian
        return R_at, whole, np.zeros_like(whole), gamma
    R, gamma = _chained(turn @ turn)
    R_at, part = R @ turn, R @ jacobian
    return R_at, R_at @ jacobian + part, part, gamma


def _chained(turn: Array) -> tuple[Array, Array]:
    """(m, n, 3, 3) rotation at the start of every step, and (m, 3, 3) at the end of all."""
    R, gamma = np.empty_like(turn), np.tile(np.eye(3), (len(turn), 1, 1))
    for k in range(turn.shape[1]):
        R[:, k] = gamma
        gamma = gamma @ turn[:, k]
    return R, gamma


def _crossed(vectors: Array, matrices: Array) -> Array:
    """[v]x M of every step."""
    return np.cross(vectors[..., None], matrices, axisa=-2, axisb=-2, axisc=-2)
