"""Preintegration between keyframes, with covariance and bias derivatives (Eqs. 2-3, App. C)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from maci2 import boundary
from maci2.compile import are_interpreted, kernel
from maci2.errors import DatasetError
from maci2.imu.measurements import ImuMeasurements
from maci2.imu.preintegration_arrays import preintegrate_arrays
from maci2.imu.preintegration_kernels import interpolate_samples, preintegrate_segments
from maci2.types import Array, Stamps

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
    boundary.require_type(imu, ImuMeasurements, "imu", "as raw_model(samples, noise) makes them")
    stamps_ns = boundary.as_stamps(stamps_ns, "stamps_ns of the keyframes", least=2)
    bias_gyro = boundary.as_array(
        np.zeros(3) if bias_gyro is None else bias_gyro, (3,), "bias_gyro"
    )
    bias_acc = boundary.as_array(np.zeros(3) if bias_acc is None else bias_acc, (3,), "bias_acc")
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
    return Preintegrated(
        stamps_ns,
        dt,
        gamma,
        beta,
        alpha,
        cov,
        np.ascontiguousarray(by_bias[:, :, 0:3]),
        np.ascontiguousarray(by_bias[:, :, 3:6]),
        bias_gyro,
        bias_acc,
    )


def rates_at_keyframes(imu: ImuMeasurements, pre: Preintegrated) -> Array:
    """(m + 1, 6) angular rate [rad/s] and specific force [m/s^2] at the keyframes, less the biases
    that were taken off."""
    rates: Array = interpolate_samples(
        imu.stamps_ns, imu.gyro, imu.acc, pre.bias_gyro, pre.bias_acc, pre.stamps_ns
    )
    return rates


def integrate_segments(
    imu: ImuMeasurements,
    starts_ns: Stamps,
    ends_ns: Stamps,
    bias: Array,
    midpoint: bool,
    rotations_only: bool = False,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """dt, gamma, beta, alpha, cov of m segments within the samples, and (m, 9, 6) by both biases;
    (m, 6) biases of gyroscope and accelerometer are taken off."""
    integrate = preintegrate_arrays if are_interpreted() else preintegrate_segments
    segments: tuple[Array, Array, Array, Array, Array, Array] = integrate(
        imu.stamps_ns,
        imu.gyro,
        imu.acc,
        imu.var_gyro,
        imu.var_acc,
        imu.cov_0,
        starts_ns,
        ends_ns,
        bias,
        midpoint,
        rotations_only,
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
    longest, gap_ns, period_ns = _longest_step(imu.stamps_ns, start_ns, end_ns)
    if 0.0 < MAX_GAP_PERIODS * period_ns < gap_ns:
        raise DatasetError(
            f"{imu.source}: no IMU sample for {gap_ns / 1e6:.1f} ms after timestamp "
            f"{imu.stamps_ns[longest]} ns, inside the window {start_ns}..{end_ns} ns; at most "
            f"{MAX_GAP_PERIODS * period_ns / 1e6:.1f} ms is allowed. Choose a window without a gap."
        )


@kernel
def _longest_step(stamps_ns: Stamps, start_ns: int, end_ns: int) -> tuple[int, int, float]:
    """Index and length of the longest step that touches the window, and the mean of the others."""
    first = int(np.searchsorted(stamps_ns, start_ns, side="right")) - 1
    last = int(np.searchsorted(stamps_ns, end_ns, side="left"))
    longest, gap_ns = first, 0
    for i in range(first, last):
        step_ns = stamps_ns[i + 1] - stamps_ns[i]
        if step_ns > gap_ns:
            longest, gap_ns = i, step_ns
    others_ns = stamps_ns[last] - stamps_ns[first] - gap_ns
    return longest, gap_ns, others_ns / max(last - first - 1, 1)
