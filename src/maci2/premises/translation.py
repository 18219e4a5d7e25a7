"""Scale, lever arm, axes and signs, from translations and accelerations summed over windows.

In the first body frame of a window, with rotations R_k from the gyroscope, a relative pose says

    R_k (M t_k + (I - gamma_k) p) = dt_k (v_0 + g tau_k) + what the accelerometer adds,

linear in M = R_b_c (times the scale), in the lever arm p and in a matrix A on the accelerometer's
readings, in a drift of the camera's translations and in a delay of the accelerometer. Velocity,
gravity and biases belong to the window and are eliminated. What remains is a quadratic form in
z = [M, p, A, drift, delay]: windows add up, and any scale, rotation, mirroring or exchange of axes
has its chi-square from the same sums.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.gaussian import symmetrize
from maci2.imu import ALPHA, BETA, GAMMA, ImuMeasurements, Preintegrated, Rule, preintegrate
from maci2.lie.stacks import skew_stack
from maci2.premises.robust_covariance import robust_covariance
from maci2.premises.robust_weights import cauchy_weights, inliers
from maci2.premises.runs import Run
from maci2.types import NS, Array, Stamps

UNKNOWNS = 25
M, P, A, DRIFT, DELAY = slice(0, 9), slice(9, 12), slice(12, 21), slice(21, 24), slice(24, 25)
"""Parts of z; matrices row by row, the drift in the body's axes [m/s], the delay [s]."""

READINGS = 10
"""Ways in which readings of the accelerometer enter: nine of A, and their change with time."""

DELAY_S = 0.01
"""Time before and after a reading over which its change is taken [s]."""

V, G, BA, BG = slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 12)
"""Unknowns of a window."""

UNSHARED = [*range(0, 6), *range(9, 12)]
"""Those of them that are left where all windows share the accelerometer's bias."""


ROUNDS = 5
"""Solutions with weights that fall with the residual, before outliers are rejected."""

LEAST = 1e-6
"""Information on each unknown of a window of which nothing is left."""


class TranslationSums(NamedTuple):
    """Chi-square z' S z of the translations, one block for each of B windows or more."""

    S: Array
    """(B, 25, 25)"""

    gravity: Array
    """(B, 25, 25) sum over windows of gravity's squared norm as a quadratic form of z: windows have
    body frames of their own, so their gravities cannot be added as vectors."""

    windows: Array
    """(B,) number of windows in each block."""

    dof: Array
    """(B,) numbers measured and priors, less unknowns of the windows."""

    shared_bias: Array
    """(B, 29, 29) chi-square with one accelerometer bias for all windows and no prior of it, a
    quadratic form of [z, bias, 1] (`shared_bias`)."""

    time_s: Array
    """(B,) sum over windows of the time of their first keyframe [s]."""


def translation_sums(
    imu: ImuMeasurements, run: Run, T_b_c: Array, biases: Array, std_bias: Array, rule: Rule
) -> TranslationSums:
    """Sums of a run of W windows, with the gyroscope biases (W, 3) that rotations show.

    `T_b_c` enters only where an error of the gyroscope bias is propagated.
    """
    mean_bias = np.average(biases, axis=0, weights=std_bias**-2.0)
    pre = preintegrate(imu, run.stamps_ns, mean_bias, imu.bias_prior.mean_acc, rule)
    Z, N = _rows(run, pre, *_by_readings(imu, run, mean_bias, rule), T_b_c)
    variance = run.covs_T_ck_ck1[..., :3, :3] + run.stacked(pre.cov[:, ALPHA, ALPHA])
    weights = np.where(run.measured, 3.0 / np.trace(variance, axis1=2, axis2=3), 0.0)
    information = np.zeros((len(weights), 12))
    information[:, BA] = imu.bias_prior.std_acc**-2.0
    information[:, BG] = 1.0 / (std_bias[:, None] ** 2 + (biases - mean_bias) ** 2)
    weights = _without_outliers(Z, N, weights, information, T_b_c)
    S, by_z = _eliminated(Z, N, weights, information)
    by_bias = N[..., BA]
    Z = np.concatenate([Z, by_bias, -by_bias @ imu.bias_prior.mean_acc[:, None]], axis=3)
    shared, _ = _eliminated(Z, N[..., UNSHARED], weights, information[:, UNSHARED])
    dof = np.maximum(3 * (weights > 0.0).sum(axis=1) - 6, 0)
    gravity = np.einsum("wij,wik->wjk", by_z[:, G], by_z[:, G], optimize=True)
    starts_s = run.stamps_ns[:-1].reshape(run.measured.shape)[:, 0] / NS
    return TranslationSums(S, gravity, np.ones(len(dof)), dof, shared, starts_s)


def _eliminated(Z: Array, N: Array, weights: Array, information: Array) -> tuple[Array, Array]:
    """(W, 25, 25) chi-square in z without the windows' unknowns, which are (W, 12, 25) times z."""
    own = N.shape[3]
    rows = np.concatenate([N, Z], axis=3).reshape(len(N), -1, own + Z.shape[3])
    products = np.swapaxes(rows * np.repeat(weights, 3, axis=1)[:, :, None], 1, 2) @ rows
    NN, NZ = products[:, :own, :own], products[:, :own, own:]
    NN[:, range(own), range(own)] += information + LEAST
    by_z = -np.linalg.solve(NN, NZ)
    return symmetrize(products[:, own:, own:] + np.swapaxes(NZ, 1, 2) @ by_z), by_z


def _without_outliers(
    Z: Array, N: Array, weights: Array, information: Array, T_b_c: Array
) -> Array:
    """Weights with zeros where a translation does not belong to the others of the run.

    Scale and lever arm are free meanwhile; wrong axes make all residuals longer, not a few.
    """
    used, root = weights > 0.0, np.sqrt(weights)
    kept = used.astype(np.float64)
    for _ in range(ROUNDS):
        S, by_z = _eliminated(Z, N, kept * weights, information)
        z = _fitted(S.sum(axis=0), T_b_c[:3, :3], T_b_c[:3, 3], UNKNOWN.lever_m, np.eye(3)).z
        lengths = root * np.linalg.norm(Z @ z + np.einsum("wmij,wj->wmi", N, by_z @ z), axis=2)
        kept = cauchy_weights(lengths, used)
    return np.where(inliers(lengths, used), weights, 0.0)


def _rows(
    run: Run, pre: Preintegrated, alpha: Array, beta: Array, T_b_c: Array
) -> tuple[Array, Array]:
    """(W, m, 3, 25) derivatives by z and (W, m, 3, 12) by what belongs to the window."""
    W, m = run.measured.shape
    dts, gammas = run.stacked(pre.dt), run.stacked(pre.gamma)
    by_acc, by_gyro = run.stacked(pre.D_ba), run.stacked(pre.D_bg)
    lever, t = T_b_c[:3, 3], run.Ts_ck_ck1[..., :3, 3]
    moved = t @ T_b_c[:3, :3].T + lever - gammas @ lever - run.stacked(pre.alpha)
    betas = run.stacked(pre.beta)
    Z, N = np.zeros((W, m, 3, UNKNOWNS)), np.zeros((W, m, 3, 12))
    R, tau = np.broadcast_to(np.eye(3), (W, 3, 3)), np.zeros((W, 1, 1))
    gained = np.zeros((W, 3, READINGS))
    gained_ba, gained_bg = np.zeros((W, 3, 3)), np.zeros((W, 3, 3))
    # How far an error of the gyroscope bias has rotated the body at keyframe k.
    rotated = np.zeros((W, 3, 3))
    for k in range(m):
        dt, gamma = dts[:, k, None, None], gammas[:, k]
        Z[:, k, :, M] = (R[:, :, :, None] * t[:, k, None, None, :]).reshape(W, 3, 9)
        Z[:, k, :, P] = R - R @ gamma
        Z[:, k, :, DRIFT] = -dt * R
        by_readings = -dt * gained - R @ alpha[:, k]
        Z[:, k, :, A], Z[:, k, :, DELAY] = by_readings[..., :9], by_readings[..., 9:]
        N[:, k, :, V] = -dt * np.eye(3)
        N[:, k, :, G] = -dt * (tau + 0.5 * dt) * np.eye(3)
        N[:, k, :, BA] = -dt * gained_ba - R @ by_acc[:, k, ALPHA]
        turned = skew_stack(moved[:, k]) @ rotated
        N[:, k, :, BG] = -R @ (turned + by_gyro[:, k, ALPHA]) - dt * gained_bg
        gained = gained + R @ beta[:, k]
        gained_ba = gained_ba + R @ by_acc[:, k, BETA]
        gained_bg = gained_bg + R @ (by_gyro[:, k, BETA] - skew_stack(betas[:, k]) @ rotated)
        rotated = np.swapaxes(gamma, 1, 2) @ rotated + by_gyro[:, k, GAMMA]
        R, tau = R @ gamma, tau + dt
    return Z, N


def _by_readings(imu: ImuMeasurements, run: Run, bias: Array, rule: Rule) -> tuple[Array, Array]:
    """(W, m, 3, 10) alpha and beta if reading j of the accelerometer were felt along axis i of the
    body, for all (i, j): those of any matrix on the readings are sums of these. The last one is of
    the readings' change with time."""
    steps = run.measured.size
    alpha, beta = np.empty((steps, 3, READINGS)), np.empty((steps, 3, READINGS))
    readings = imu.acc - imu.bias_prior.mean_acc
    for i in range(3):
        for j in range(3):
            acc = np.zeros_like(readings)
            acc[:, i] = readings[:, j]
            pre = preintegrate(replace(imu, acc=acc), run.stamps_ns, bias, np.zeros(3), rule)
            alpha[:, :, 3 * i + j], beta[:, :, 3 * i + j] = pre.alpha, pre.beta
    changes = replace(imu, acc=_change_with_time(imu.stamps_ns, readings))
    pre = preintegrate(changes, run.stamps_ns, bias, np.zeros(3), rule)
    alpha[:, :, 9], beta[:, :, 9] = pre.alpha, pre.beta
    return run.stacked(alpha), run.stacked(beta)


def _change_with_time(stamps_ns: Stamps, readings: Array) -> Array:
    """(n, 3) derivative of readings; one-sided where they end.

    Interpolated: timestamps jitter, and steps of unlike length would let vibration pass.
    """
    t = (stamps_ns - stamps_ns[0]) / NS
    earlier, later = np.maximum(t - DELAY_S, 0.0), np.minimum(t + DELAY_S, t[-1])
    changes = [np.interp(later, t, axis) - np.interp(earlier, t, axis) for axis in readings.T]
    return np.ascontiguousarray(np.array(changes).T / (later - earlier)[:, None])


@dataclass(frozen=True)
class TranslationEstimate:
    """Scale and lever arm that fit best, for one extrinsic rotation and one set of axes."""

    scale: float
    """True translation over the measured one; negative where accelerations have the other sign."""

    p_b_c: Array
    """(3,) [m]"""

    cov: Array
    """(4, 4) of [scale, lever arm [m]], model errors included; given the extrinsic rotation, whose
    own error shows in the lever arm, below a centimetre."""

    gravity_norm: float
    """Mean of gravity's norm over windows, with no constraint on it [m/s^2]."""

    std_gravity_norm: float
    """Standard deviation of gravity's norm, from the windows' scatter [m/s^2]."""

    misfit: float
    """Chi-square with the noise as stated and the scale kept positive: no camera sees itself move
    the other way."""

    dof: int


def estimate_translation(
    sums: TranslationSums, R_b_c: Array, p_b_c: Array, std_lever: float, axes: Array
) -> TranslationEstimate:
    """Fit scale and lever arm; the scale is on the accelerometer's side, since the camera's
    translations are the noisier ones and would pull it towards zero on theirs."""
    S = sums.S.sum(axis=0)
    fit = _fitted(S, R_b_c, p_b_c, std_lever, axes)
    dof = int(sums.dof.sum())
    excess = max(float(fit.least) / max(dof, 1), 1.0)
    cov = robust_covariance(fit.information, sums.S @ fit.z @ fit.B, excess)
    inverse_scale = fit.q[0] if abs(fit.q[0]) > 1e-6 else 1e-6
    # d(scale) = -scale^2 d(1 / scale)
    change = np.diag([-(inverse_scale**-2.0), 1.0, 1.0, 1.0])
    norm, std_norm = _gravity_norm(sums, fit.z / abs(inverse_scale))
    return TranslationEstimate(
        float(1.0 / inverse_scale),
        p_b_c + fit.q[1:4],
        change @ cov @ change,
        norm,
        std_norm,
        float(fit.misfit),
        dof,
    )


def translation_misfits(
    sums: TranslationSums, R_b_c: Array, p_b_c: Array, std_lever: float, many_axes: Array
) -> Array:
    """(n,) least chi-square for each of (n, 3, 3) matrices on the accelerometer's readings."""
    return _fitted(sums.S.sum(axis=0), R_b_c, p_b_c, std_lever, many_axes).misfit


def _gravity_norm(sums: TranslationSums, z: Array) -> tuple[float, float]:
    """Mean of gravity's norm over windows, and its standard deviation from the blocks' scatter."""
    norms = np.sqrt(np.einsum("bij,i,j->b", sums.gravity, z, z) / sums.windows)
    mean = float(np.average(norms, weights=sums.windows))
    variance = float(np.average((norms - mean) ** 2, weights=sums.windows))
    return mean, float(np.sqrt(variance / max(len(norms) - 1, 1)))


class _Fit(NamedTuple):
    """z = B q + c at the least chi-square, q = [1 / scale, what the lever arm is off by]; of one
    matrix on the readings or, with a first axis more, of each of many."""

    z: Array
    q: Array
    B: Array
    information: Array
    """(4, 4) of q, its prior included."""

    least: Array
    """Chi-square, of the prior too."""

    @property
    def misfit(self) -> Array:
        """Least chi-square with a positive scale: it is a parabola in 1 / scale, and zero is where
        that ends."""
        behind = np.minimum(self.q[..., 0], 0.0) ** 2 / np.linalg.inv(self.information)[..., 0, 0]
        return np.asarray(self.least + behind)


def _fitted(S: Array, R_b_c: Array, p_b_c: Array, std_lever: float, axes: Array) -> _Fit:
    """Scale and lever arm at the least chi-square of z' S z and their prior, for (3, 3) or
    (n, 3, 3) axes."""
    B, c = np.zeros((*axes.shape[:-2], UNKNOWNS, 4)), np.zeros(UNKNOWNS)
    B[..., A, 0], B[..., P, 1:4] = axes.reshape(*axes.shape[:-2], 9), np.eye(3)
    c[M], c[P] = R_b_c.ravel(), p_b_c
    prior: Array = np.diag([LEAST, *[std_lever**-2.0] * 3]).astype(np.float64)
    by_q = np.swapaxes(B, -1, -2) @ S
    information = by_q @ B + prior
    q = np.asarray(np.linalg.solve(information, -(by_q @ c)[..., None])[..., 0], np.float64)
    z = (B @ q[..., None])[..., 0] + c
    least = (z @ S * z).sum(axis=-1) + (q @ prior * q).sum(axis=-1)
    return _Fit(z, q, B, information, np.asarray(least))
