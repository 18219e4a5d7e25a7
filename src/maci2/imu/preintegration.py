"""Preintegration between keyframes, with covariance and bias derivatives (Eqs. 2-3, App. C).

The usual recursion multiplies 9x9 matrices at every sample. In the coordinates

    psi = R_bi_bk dphi,   c_v = dv + [beta]x psi,   c_p = dp - t dv + [alpha - beta t]x psi

errors only add up, so covariance and bias derivatives are plain sums of 3x3 blocks, and the
initial covariance enters as it is. `tests/imu` holds the recursion and compares.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit

from maci2.errors import DatasetError
from maci2.gaussian import Array
from maci2.imu.measurements import ImuMeasurements
from maci2.lie import one_minus_cos_over, sin_over, skew, t_minus_sin_over
from maci2.sensors import NS, Stamps

GAMMA = slice(0, 3)
BETA = slice(3, 6)
ALPHA = slice(6, 9)

Rule = Literal["midpoint", "euler"]

SHORT_SERIES_BELOW = 1e-3
"""Squared angle of one step [rad^2] below which four terms give the last bit."""

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

    Samples are interpolated to the keyframes' stamps. `euler` holds each sample until the next
    (the paper's Eq. 2); `midpoint` takes the mean of both ends and the rotation half way.
    """
    bias_gyro = np.zeros(3) if bias_gyro is None else np.asarray(bias_gyro, dtype=np.float64)
    bias_acc = np.zeros(3) if bias_acc is None else np.asarray(bias_acc, dtype=np.float64)
    _require_samples(imu, stamps_ns)
    dt, gamma, beta, alpha, cov, D_bg, D_ba = _preintegrate(
        imu.stamps_ns,
        imu.gyro,
        imu.acc,
        imu.var_gyro,
        imu.var_acc,
        imu.cov_0,
        stamps_ns,
        bias_gyro,
        bias_acc,
        rule == "midpoint",
    )
    return Preintegrated(stamps_ns, dt, gamma, beta, alpha, cov, D_bg, D_ba, bias_gyro, bias_acc)


def _require_samples(imu: ImuMeasurements, stamps_ns: Stamps) -> None:
    """The window must lie inside the samples and hold no gap."""
    start_ns, end_ns = int(stamps_ns[0]), int(stamps_ns[-1])
    if start_ns < imu.stamps_ns[0] or end_ns > imu.stamps_ns[-1]:
        raise DatasetError(
            f"{imu.source}: the IMU covers {imu.stamps_ns[0]}..{imu.stamps_ns[-1]} ns but the "
            f"window needs {start_ns}..{end_ns} ns; drop keyframes outside the IMU recording."
        )
    longest, gap_ns, period_ns = _longest_step(imu.stamps_ns, start_ns, end_ns)
    if gap_ns > MAX_GAP_PERIODS * period_ns:
        raise DatasetError(
            f"{imu.source}: no IMU sample for {gap_ns / 1e6:.1f} ms after stamp "
            f"{imu.stamps_ns[longest]} ns, inside the window {start_ns}..{end_ns} ns; at most "
            f"{MAX_GAP_PERIODS * period_ns / 1e6:.1f} ms is allowed. Choose a window without a gap."
        )


@njit(cache=True)
def _longest_step(stamps_ns: Stamps, start_ns: int, end_ns: int) -> tuple[int, int, float]:
    """Index and length of the longest step that touches the window, and the mean step."""
    first = np.searchsorted(stamps_ns, start_ns, side="right") - 1
    last = np.searchsorted(stamps_ns, end_ns, side="left")
    longest = first
    for i in range(first, last):
        if stamps_ns[i + 1] - stamps_ns[i] > stamps_ns[longest + 1] - stamps_ns[longest]:
            longest = i
    gap_ns = stamps_ns[longest + 1] - stamps_ns[longest]
    return longest, gap_ns, (stamps_ns[last] - stamps_ns[first]) / (last - first)


@njit(cache=True)
def _preintegrate(
    stamps_ns: Stamps,
    gyro: Array,
    acc: Array,
    var_gyro: Array,
    var_acc: Array,
    cov_0: Array,
    keyframes_ns: Stamps,
    bias_gyro: Array,
    bias_acc: Array,
    midpoint: bool,
) -> tuple[Array, Array, Array, Array, Array, Array, Array]:
    m = len(keyframes_ns) - 1
    dt = np.empty(m)
    gamma, beta, alpha = np.empty((m, 3, 3)), np.empty((m, 3)), np.empty((m, 3))
    cov, D_bg, D_ba = np.empty((m, 9, 9)), np.empty((m, 9, 3)), np.empty((m, 9, 3))
    for k in range(m):
        start_ns, end_ns = keyframes_ns[k], keyframes_ns[k + 1]
        dt[k] = (end_ns - start_ns) / NS
        first = np.searchsorted(stamps_ns, start_ns, side="right") - 1
        last = np.searchsorted(stamps_ns, end_ns, side="left") + 1
        times = (stamps_ns[first:last] - start_ns) / NS
        width, w, var_w = _steps(times, gyro[first:last], var_gyro[first:last], dt[k], midpoint)
        width, a, var_a = _steps(times, acc[first:last], var_acc[first:last], dt[k], midpoint)
        sums, sums_bg, sums_ba = _accumulate(
            width,
            w - bias_gyro,
            a - bias_acc,
            np.sqrt(var_w),
            np.sqrt(var_a),
            midpoint,
            gamma[k],
            beta[k],
            alpha[k],
        )
        errors_D_sums = _errors_from_sums(gamma[k], beta[k], alpha[k], dt[k])
        cov[k] = errors_D_sums @ (sums + cov_0) @ errors_D_sums.T
        D_bg[k] = errors_D_sums @ sums_bg
        D_ba[k] = errors_D_sums @ sums_ba
    return dt, gamma, beta, alpha, cov, D_bg, D_ba


@njit(cache=True)
def _steps(
    times: Array, values: Array, variances: Array, end: float, midpoint: bool
) -> tuple[Array, Array, Array]:
    """Width [s], value and variance of every integration step from 0 to `end`.

    `times` holds the samples inside and one at or beyond each end.
    """
    n = len(times) - 1
    width, value, variance = np.empty(n), np.empty((n, 3)), np.empty((n, 3))
    for k in range(n):
        period = times[k + 1] - times[k]
        left, right = max(times[k], 0.0), min(times[k + 1], end)
        width[k] = right - left
        # Where in the period the value is read: at the left end, or in the middle.
        s = ((0.5 * (left + right) if midpoint else left) - times[k]) / period
        # A shortened step averages its noise over less time; what stays the same is the density.
        shortened = period / width[k]
        for j in range(3):
            value[k, j] = values[k, j] + s * (values[k + 1, j] - values[k, j])
            variance[k, j] = shortened * (
                variances[k, j] + s * (variances[k + 1, j] - variances[k, j])
            )
    return width, value, variance


@njit(cache=True, error_model="numpy")
def _accumulate(
    width: Array,
    gyro: Array,
    acc: Array,
    std_gyro: Array,
    std_acc: Array,
    midpoint: bool,
    R: Array,
    beta: Array,
    alpha: Array,
) -> tuple[Array, Array, Array]:
    """Run through one segment; gamma, beta and alpha are written into R, beta and alpha.

    Returns covariance (9, 9) and bias derivatives (9, 3) in the coordinates [psi, c_v, c_p].
    """
    n = len(width)
    # Column 3 k + j: what one sigma of noise on axis j in step k does.
    noise_gyro, noise_acc = np.empty((9, 3 * n)), np.empty((6, 3 * n))
    sums_bg, sums_ba = np.zeros((9, 3)), np.zeros((9, 3))
    turn, jacobian = np.empty((3, 3)), np.empty((3, 3))
    R_at, R_next = np.empty((3, 3)), np.empty((3, 3))
    # Gyro noise to psi: over the whole step, and up to where the acceleration is summed.
    whole, part = np.empty((3, 3)), np.zeros((3, 3))
    d_beta = np.empty(3)
    R[:] = np.eye(3)
    beta[:] = 0.0
    alpha[:] = 0.0
    t = 0.0
    for k in range(n):
        dt = width[k]
        if midpoint:
            _turn_and_jacobian(gyro, k, 0.5 * dt, turn, jacobian)
            _multiply(R, jacobian, part)
            _multiply(R, turn, R_at)
            _multiply(R_at, jacobian, whole)
            for i in range(3):
                for j in range(3):
                    whole[i, j] += part[i, j]
            _multiply(R_at, turn, R_next)
        else:
            _turn_and_jacobian(gyro, k, dt, turn, jacobian)
            _multiply(R, jacobian, whole)
            R_at[:] = R
            _multiply(R, turn, R_next)
        tau = -(t + 0.5 * dt)
        for i in range(3):
            d_beta[i] = dt * (
                R_at[i, 0] * acc[k, 0] + R_at[i, 1] * acc[k, 1] + R_at[i, 2] * acc[k, 2]
            )
            alpha[i] += dt * (beta[i] + 0.5 * d_beta[i])
            beta[i] += d_beta[i]
        t += dt
        _gyro_noise(whole, part, beta, alpha, d_beta, t, tau, std_gyro, k, noise_gyro, sums_bg)
        _acc_noise(R_at, dt, tau, std_acc, k, noise_acc, sums_ba)
        R[:] = R_next
    sums = np.zeros((9, 9))
    _add_outer(noise_gyro, sums)
    _add_outer(noise_acc, sums[3:, 3:])
    return sums, sums_bg, sums_ba


@njit(cache=True, error_model="numpy")
def _turn_and_jacobian(gyro: Array, k: int, dt: float, turn: Array, jacobian: Array) -> None:
    """turn = Exp(w dt) and jacobian = J_l(w dt) dt, w = gyro[k]."""
    x, y, z = gyro[k, 0] * dt, gyro[k, 1] * dt, gyro[k, 2] * dt
    t2 = x * x + y * y + z * z
    if t2 < SHORT_SERIES_BELOW:
        s = 1.0 - t2 / 6.0 * (1.0 - t2 / 20.0 * (1.0 - t2 / 42.0))
        c = 0.5 - t2 / 24.0 * (1.0 - t2 / 30.0 * (1.0 - t2 / 56.0))
        r = 1.0 / 6.0 - t2 / 120.0 * (1.0 - t2 / 42.0 * (1.0 - t2 / 72.0))
    else:
        t = np.sqrt(t2)
        s, c, r = sin_over(t), one_minus_cos_over(t), t_minus_sin_over(t)
    _fill(x, y, z, 1.0, s, c, turn)
    _fill(x, y, z, dt, dt * c, dt * r, jacobian)


@njit(cache=True)
def _fill(
    x: float, y: float, z: float, one: float, first: float, second: float, out: Array
) -> None:
    """out = one I + first [v]x + second [v]x^2."""
    diagonal = one - second * (x * x + y * y + z * z)
    out[0, 0] = diagonal + second * x * x
    out[1, 1] = diagonal + second * y * y
    out[2, 2] = diagonal + second * z * z
    out[0, 1] = second * x * y - first * z
    out[1, 0] = second * x * y + first * z
    out[0, 2] = second * x * z + first * y
    out[2, 0] = second * x * z - first * y
    out[1, 2] = second * y * z - first * x
    out[2, 1] = second * y * z + first * x


@njit(cache=True)
def _multiply(A: Array, B: Array, out: Array) -> None:
    for i in range(3):
        for j in range(3):
            out[i, j] = A[i, 0] * B[0, j] + A[i, 1] * B[1, j] + A[i, 2] * B[2, j]


@njit(cache=True)
def _gyro_noise(
    whole: Array,
    part: Array,
    beta: Array,
    alpha: Array,
    d_beta: Array,
    t: float,
    tau: float,
    std_gyro: Array,
    k: int,
    noise: Array,
    sums_bg: Array,
) -> None:
    """Step k's gyro noise: whole on psi, [beta]x whole - [d_beta]x part on c_v, and
    [alpha - t beta]x whole - tau [d_beta]x part on c_p. A bias is -1 in every step."""
    b0, b1, b2 = beta[0], beta[1], beta[2]
    m0, m1, m2 = alpha[0] - t * b0, alpha[1] - t * b1, alpha[2] - t * b2
    d0, d1, d2 = d_beta[0], d_beta[1], d_beta[2]
    for j in range(3):
        w0, w1, w2 = whole[0, j], whole[1, j], whole[2, j]
        p0, p1, p2 = part[0, j], part[1, j], part[2, j]
        c0, c1, c2 = d1 * p2 - d2 * p1, d2 * p0 - d0 * p2, d0 * p1 - d1 * p0
        column = (
            w0,
            w1,
            w2,
            b1 * w2 - b2 * w1 - c0,
            b2 * w0 - b0 * w2 - c1,
            b0 * w1 - b1 * w0 - c2,
            m1 * w2 - m2 * w1 - tau * c0,
            m2 * w0 - m0 * w2 - tau * c1,
            m0 * w1 - m1 * w0 - tau * c2,
        )
        std = std_gyro[k, j]
        for i in range(9):
            noise[i, 3 * k + j] = std * column[i]
            sums_bg[i, j] -= column[i]


@njit(cache=True)
def _acc_noise(
    R_at: Array, dt: float, tau: float, std_acc: Array, k: int, noise: Array, sums_ba: Array
) -> None:
    """Step k's accelerometer noise: R dt on c_v and tau R dt on c_p. A bias is -1 in every step."""
    for j in range(3):
        std = std_acc[k, j]
        for i in range(3):
            v = dt * R_at[i, j]
            noise[i, 3 * k + j] = std * v
            noise[3 + i, 3 * k + j] = std * tau * v
            sums_ba[3 + i, j] -= v
            sums_ba[6 + i, j] -= tau * v


@njit(cache=True, fastmath=True)
def _add_outer(noise: Array, sums: Array) -> None:
    """sums += noise noise^T."""
    rows, columns = noise.shape
    for i in range(rows):
        for j in range(i + 1):
            total = 0.0
            for c in range(columns):
                total += noise[i, c] * noise[j, c]
            sums[i, j] += total
            if j < i:
                sums[j, i] += total


@njit(cache=True)
def _errors_from_sums(gamma: Array, beta: Array, alpha: Array, t: float) -> Array:
    """(9, 9) map from [psi, c_v, c_p] to the errors [dphi, dv, dp]."""
    D = np.zeros((9, 9))
    for i in range(3):
        D[3 + i, 3 + i] = D[6 + i, 6 + i] = 1.0
        D[6 + i, 3 + i] = t
        for j in range(3):
            D[i, j] = gamma[j, i]
    D[3:6, 0:3] = -skew(beta)
    D[6:9, 0:3] = -skew(alpha)
    return D
