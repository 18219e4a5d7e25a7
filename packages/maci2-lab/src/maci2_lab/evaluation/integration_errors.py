"""Errors of integrating an IMU from one truth state to a later one, with what was predicted.

    e = [Log(R_truth^T gamma), beta - beta_truth, alpha - alpha_truth]        in b_i, SI units

The error has three sources, and each has its own covariance: the samples' noise, a bias that stays
in the samples, and the truth's own error at both ends of the window (`LabelNoise`).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maci2.geometry.se3 import skew_stack, so3_log_stack
from maci2.imu import ALPHA, BETA, GAMMA, BiasPrior, ImuMeasurements
from maci2.imu.preintegration import integrate_segments
from maci2.sensors import gaps
from maci2.types import GRAVITY_W, NS, Array
from maci2_lab.evaluation.truth_states import Indices, TruthStates


@dataclass(frozen=True)
class LabelNoise:
    """Error of a ground-truth state, independent at each end of a window.

    Part of what is measured, never of what goes into fusion: there the start state is a variable.
    """

    std_rotation: float
    """[rad], each axis."""

    std_velocity: float
    """[m/s], each axis."""

    std_position: float
    """[m], each axis."""

    std_time: float
    """[s]: a timestamp off by this moves the whole state along the motion."""

    std_drift: float
    """[rad/s], each axis: orientation at the end against that at the start, per second between."""

    std_tilt: float
    """[rad], each axis: how far gravity in the truth's body is off, both ends of a window alike:
    its world is not level, or its body is rotated against the IMU. Rotations over a window are not
    meant: a truth that was fused with the gyroscope follows it there."""

    gyro_shown: float
    """Share of the variance of the gyroscope's samples that shows against this truth: 0 for an
    orientation that was integrated from the same samples, 1 for one that knows nothing of them."""

    acc_shown: float = 1.0
    """Share for the accelerometer: ground truth that was smoothed with its samples follows
    them."""

    def shown(self, imu: ImuMeasurements) -> ImuMeasurements:
        """The samples with the noise that shows."""
        gyro, acc = self.gyro_shown * imu.var_gyro, self.acc_shown * imu.var_acc
        return replace(imu, var_gyro=gyro, var_acc=acc)

    def cov(self, rates: Array) -> Array:
        """(m, 9, 9) of states that move with `rates` (m, 9): [omega, acceleration, velocity]."""
        floor = np.repeat([self.std_rotation, self.std_velocity, self.std_position], 3) ** 2
        return np.diag(floor) + self.std_time**2 * rates[:, :, None] * rates[:, None, :]


NO_LABEL_NOISE = LabelNoise(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class WindowErrors:
    """m windows of one length."""

    dt: Array
    """(m,) [s]."""

    first: Indices
    """(m,) truth state at the start."""

    last: Indices
    """(m,) truth state at the end."""

    e: Array
    """(m, 9) order [gamma, beta, alpha]."""

    cov_imu: Array
    """(m, 9, 9) from the samples' variances and cov_0."""

    e_D_bias: Array
    """(m, 9, 6) derivative by a remaining bias [gyro, acc] of the samples."""

    e_D_start: Array
    """(m, 9, 9) how an error of the start state shows in e, up to its sign."""

    std_gyro_bias: Array | None
    """(m, 3) spread at the start of a gyroscope bias that the IMU model tracks; None without."""

    rates_first: Array
    """(m, 9) rate of change of the start state, in b_i: [omega, acceleration, velocity]."""

    rates_last: Array
    """(m, 9) rates of the end state; omega in b_j, the others in b_i."""

    left_out: int
    """Windows that touch a jump or a gap of the truth, or a gap of the samples."""

    def without_bias(self, bias: Array) -> "WindowErrors":
        """The errors with a known bias (6,) [gyro, acc] taken off the samples, to first order."""
        return replace(self, e=self.e - self.e_D_bias @ bias)

    def cov(self, bias: BiasPrior | None = None, labels: LabelNoise = NO_LABEL_NOISE) -> Array:
        """(m, 9, 9) covariance of e; an infinite or absent bias spread counts as none."""
        total = self.cov_imu + self.cov_bias(bias)
        start = labels.cov(self.rates_first)
        D = self.e_D_start
        total = total + D @ start @ np.swapaxes(D, 1, 2) + labels.cov(self.rates_last)
        tilted = labels.std_tilt * self.e_D_start[:, :, GAMMA]
        tilted[:, GAMMA] = 0.0
        total = total + tilted @ np.swapaxes(tilted, 1, 2)
        drift = (labels.std_drift * self.dt)[:, None] ** 2
        total[:, range(3), range(3)] += drift
        return total

    def cov_bias(self, bias: BiasPrior | None) -> Array:
        """(m, 9, 9) of what a bias of that spread adds; an infinite or absent one adds nothing."""
        if bias is None:
            return np.zeros_like(self.cov_imu)
        scaled = self.e_D_bias * self._bias_std(bias)[:, None, :]
        return np.asarray(scaled @ np.swapaxes(scaled, 1, 2))

    def _bias_std(self, bias: BiasPrior) -> Array:
        """(m, 6) [gyro, acc]; the tracker's own for a gyroscope whose bias is tracked."""
        gyro = bias.std_gyro if self.std_gyro_bias is None else self.std_gyro_bias
        std = [np.broadcast_to(one, (len(self.dt), 3)) for one in (gyro, bias.std_acc)]
        return np.nan_to_num(np.concatenate(std, axis=1), posinf=0.0)


def integration_errors(
    imu: ImuMeasurements,
    states: TruthStates,
    horizon_s: float,
    stride_s: float,
) -> WindowErrors:
    """Errors over all windows of about `horizon_s` that start every `stride_s`.

    Windows start and end at truth timestamps: nothing of the truth is interpolated.
    """
    stamps_ns = imu.stamps_ns[states.samples]
    period_s = float(np.median(np.diff(stamps_ns))) / NS
    length = max(round(horizon_s / period_s), 1)
    stride = max(round(stride_s / period_s), 1)
    firsts = np.arange(0, len(states) - length, stride)
    lasts = firsts + length
    long = (stamps_ns[lasts] - stamps_ns[firsts]) / NS > horizon_s + 1.5 * period_s
    missing = np.searchsorted(gaps(imu.stamps_ns), states.samples)
    unbroken = missing[firsts] == missing[lasts]
    whole = (states.run[firsts] == states.run[lasts]) & ~long & unbroken
    left_out = int((~whole).sum())
    return errors_between(imu, states, firsts[whole], lasts[whole], left_out)


def errors_between(
    imu: ImuMeasurements,
    states: TruthStates,
    firsts: Indices,
    lasts: Indices,
    left_out: int,
) -> WindowErrors:
    """Errors over windows that start and end at given truth states; `left_out` others are not
    used."""
    parts = _preintegrate_windows(imu, imu.stamps_ns[states.samples], firsts, lasts)
    return _compare(imu, states, firsts, lasts, parts, left_out)


@dataclass(frozen=True)
class _Integrated:
    dt: Array
    gamma: Array
    beta: Array
    alpha: Array
    cov: Array
    D_bias: Array


def _preintegrate_windows(
    imu: ImuMeasurements, stamps_ns: NDArray[np.int64], firsts: Indices, lasts: Indices
) -> _Integrated:
    """Overlapping windows, none of which has a gap inside."""
    nothing = np.zeros((len(firsts), 6))
    found = integrate_segments(imu, stamps_ns[firsts], stamps_ns[lasts], nothing, True)
    # Derived by a bias that is taken off; here it is left in.
    return _Integrated(*found[:5], -found[5])


def _compare(
    imu: ImuMeasurements,
    states: TruthStates,
    firsts: Indices,
    lasts: Indices,
    one: _Integrated,
    left_out: int,
) -> WindowErrors:
    R_i, R_j = states.Rs_w_b[firsts], states.Rs_w_b[lasts]
    R_bi_w = np.swapaxes(R_i, 1, 2)
    dt = one.dt[:, None]
    v_i, v_j = states.v_w[firsts], states.v_w[lasts]
    moved = states.p_w[lasts] - states.p_w[firsts] - v_i * dt - 0.5 * GRAVITY_W * dt**2
    e = np.empty((len(dt), 9))
    e[:, GAMMA] = so3_log_stack(np.swapaxes(R_bi_w @ R_j, 1, 2) @ one.gamma)
    e[:, BETA] = one.beta - _apply(R_bi_w, v_j - v_i - GRAVITY_W * dt)
    e[:, ALPHA] = one.alpha - _apply(R_bi_w, moved)
    rates = []
    for index, v, R in ((firsts, v_i, R_i), (lasts, v_j, R_j)):
        sample = states.samples[index]
        acc_w = _apply(R, imu.acc[sample]) + GRAVITY_W
        in_bi = [_apply(R_bi_w, acc_w), _apply(R_bi_w, v)]
        rates.append(np.concatenate([imu.gyro[sample], *in_bi], axis=1))
    return WindowErrors(
        dt=one.dt,
        first=firsts,
        last=lasts,
        e=e,
        cov_imu=one.cov,
        e_D_bias=one.D_bias,
        e_D_start=_start_derivative(one),
        std_gyro_bias=(
            None if imu.std_gyro_bias is None else imu.std_gyro_bias[states.samples[firsts]]
        ),
        rates_first=rates[0],
        rates_last=rates[1],
        left_out=left_out,
    )


def _start_derivative(one: _Integrated) -> Array:
    """[[gamma^T, 0, 0], [-[beta]x, I, 0], [-[alpha]x, I dt, I]]."""
    D = np.zeros((len(one.dt), 9, 9))
    D[:, GAMMA, GAMMA] = np.swapaxes(one.gamma, 1, 2)
    D[:, BETA, GAMMA] = -skew_stack(one.beta)
    D[:, ALPHA, GAMMA] = -skew_stack(one.alpha)
    D[:, BETA, BETA] = D[:, ALPHA, ALPHA] = np.eye(3)
    D[:, ALPHA, BETA] = one.dt[:, None, None] * np.eye(3)
    return D


def _apply(R: Array, v: Array) -> Array:
    return np.asarray(np.einsum("nij,nj->ni", R, v))
