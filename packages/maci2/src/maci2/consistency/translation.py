"""Accelerometer against camera translation: scale, lever arm, axes, drift, delay, common bias.

In the first body frame of a window, with rotations R_k from the gyroscope, a relative pose is

    R_k (M t_k + (I - gamma_k) p) = dt_k (v_0 + g tau_k) + what the accelerometer adds,

linear in M = R_b_c (times the scale), in the lever arm p and in a matrix A on the accelerometer's
readings, in a drift of the camera's translations, in a delay of the accelerometer and in a bias of
it that all windows share. Velocity, gravity and biases of the window are eliminated. What remains
is a quadratic form in z = [M, p, A, drift, delay, bias, 1]: windows add up, and any scale,
rotation, mirroring or exchange of axes has its chi-square from the same sums.

A drift that keeps its direction in the camera rotates with the body, and no acceleration does so;
one that keeps its direction in the world is a velocity to any IMU, and is not observable. A window
of a few seconds hardly separates a bias from a tilt of gravity and keeps its prior; over many
windows a bias rotates with the body while gravity does not.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag, cho_solve

from maci2.calibration_prior import UNKNOWN
from maci2.consistency.rotation import Run
from maci2.consistency.significance import (
    FALSE_ALARM,
    cauchy_weights,
    inliers,
    robust_covariance,
    shows_scatter,
)
from maci2.geometry.gaussian import chi2_quantile, symmetrize
from maci2.geometry.se3 import skew_stack
from maci2.imu import ALPHA, BETA, GAMMA, ImuMeasurements, Preintegrated, Rule, preintegrate
from maci2.types import NS, Array, Stamps

CAMERA_MATRIX, LEVER_ARM, ACC_MATRIX = slice(0, 9), slice(9, 12), slice(12, 21)
DELAY, BIAS, DRIFT, ONE = slice(21, 22), slice(22, 25), slice(25, 28), slice(28, 29)
"""Blocks of z; matrices row by row, drift and bias in the body's axes [m/s, m/s^2], delay [s]."""

FORCES = slice(12, 25)
"""Those that are multiplied by forces: matrix, delay and bias."""

SHARED = 29
"""Entries of z."""

VELOCITY, GRAVITY, ACC_BIAS, GYRO_BIAS = slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 12)
"""Unknowns of a window."""

OWN = 12
WITHOUT_ACC_BIAS = [*range(0, 6), *range(9, 12)]
"""Unknowns of a window where all windows share the accelerometer's bias."""

DELAY_S = 0.01
"""Time before and after a reading over which its change is taken [s]."""

ROUNDS = 5
"""Solutions with weights that fall with the residual, before outliers are rejected."""

LEAST = 1e-6
"""Information on an unknown that is free."""

FREE_STD = {DRIFT.start: 1.0, DELAY.start: 0.1, BIAS.start: LEAST**-0.5}
"""Spread of each further block while it is estimated: [m/s], [s], [m/s^2], one axis."""

EXPECTED_WALKS = (0.01, 0.02, 0.03)
"""Random walks of the accelerometer bias [m/s^2 / sqrt(s)] that sound recordings show beside none:
slow errors of the camera's orientation and of a ground truth look like a bias that wanders. MH_01,
MH_03 and MH_05 show 0.02 to 0.03 with the published ground truth, all others less; accelerometers
themselves a tenth of it."""

FAULTY_WALKS = (0.05, 0.1, 0.2, 0.4)
"""Random walks that only a faulty accelerometer has."""

WANDERS = chi2_quantile(1, 1.0 - 2.0 * FALSE_ALARM)
"""Twice the gain in log likelihood beyond which a bias wanders more than expected: one-sided, noise
exceeds it half as often."""

CONSTANTS = 8
"""Unknowns that all windows share: one over the scale, lever arm, drift, delay."""


class TranslationSums(NamedTuple):
    """Chi-square z' S z of the translations, one block for each of B windows or more."""

    own_bias: Array
    """(B, 29, 29) with an accelerometer bias and its prior in each window; [bias, 1] is unused."""

    shared_bias: Array
    """(B, 29, 29) with one accelerometer bias for all windows and no prior of it."""

    gravity: Array
    """(B, 29, 29) sum over windows of gravity's squared norm as a quadratic form of z: windows have
    body frames of their own, so their gravities cannot be added as vectors."""

    windows: Array
    """(B,) number of windows in each block."""

    dof: Array
    """(B,) numbers measured and priors, less unknowns of the windows."""

    time_s: Array
    """(B,) sum over windows of the time of their first keyframe [s]."""


def translation_sums(
    imu: ImuMeasurements, run: Run, T_b_c: Array, biases: Array, std_bias: Array, rule: Rule
) -> TranslationSums:
    """Sums of a run of W windows, with the gyroscope biases (W, 3) that rotations show.

    `T_b_c` enters only where an error of the gyroscope bias is propagated.
    """
    mean_bias = np.average(biases, axis=0, weights=std_bias**-2.0)
    mean_acc = imu.bias_prior.mean_acc
    pre = preintegrate(imu, run.stamps_ns, mean_bias, mean_acc, rule)
    Z, N = _rows(run, pre, *_by_readings(imu, run, mean_bias, rule), T_b_c)
    Z[..., ONE] = -Z[..., BIAS] @ mean_acc[:, None]
    variance = run.covs_T_ck_ck1[..., :3, :3] + run.stacked(pre.cov[:, ALPHA, ALPHA])
    weights = np.where(run.measured, 3.0 / np.trace(variance, axis1=2, axis2=3), 0.0)
    information = np.zeros((len(weights), OWN))
    information[:, ACC_BIAS] = imu.bias_prior.std_acc**-2.0
    information[:, GYRO_BIAS] = 1.0 / (std_bias[:, None] ** 2 + (biases - mean_bias) ** 2)
    weights = _without_outliers(Z, N, weights, information, T_b_c)
    own_bias, by_z = _eliminated(Z, N, weights, information)
    shared_bias, _ = _eliminated(
        Z, N[..., WITHOUT_ACC_BIAS], weights, information[:, WITHOUT_ACC_BIAS]
    )
    gravity = np.einsum("wij,wik->wjk", by_z[:, GRAVITY], by_z[:, GRAVITY], optimize=True)
    dof = np.maximum(3 * (weights > 0.0).sum(axis=1) - 6, 0)
    starts_s = run.stamps_ns[:-1].reshape(run.measured.shape)[:, 0] / NS
    return TranslationSums(own_bias, shared_bias, gravity, np.ones(len(dof)), dof, starts_s)


def _eliminated(Z: Array, N: Array, weights: Array, information: Array) -> tuple[Array, Array]:
    """(W, 29, 29) chi-square in z without the windows' unknowns, which are (W, u, 29) times z."""
    own = N.shape[3]
    rows = np.concatenate([N, Z], axis=3).reshape(len(N), -1, own + SHARED)
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
        z = fitted(S, T_b_c[:3, :3], T_b_c[:3, 3]).z
        lengths = root * np.linalg.norm(Z @ z + np.einsum("wmij,wj->wmi", N, by_z @ z), axis=2)
        kept = cauchy_weights(lengths, used)
    return np.where(inliers(lengths, used), weights, 0.0)


def _rows(
    run: Run, pre: Preintegrated, alpha: Array, beta: Array, T_b_c: Array
) -> tuple[Array, Array]:
    """(W, m, 3, 29) derivatives by z, but for the constant, and (W, m, 3, 12) by the window's own
    unknowns."""
    W, m = run.measured.shape
    dts, gammas, betas = run.stacked(pre.dt), run.stacked(pre.gamma), run.stacked(pre.beta)
    by_gyro, by_acc = run.stacked(pre.D_bg), run.stacked(pre.D_ba)
    alpha = np.concatenate([alpha, by_acc[:, :, ALPHA]], axis=3)
    beta = np.concatenate([beta, by_acc[:, :, BETA]], axis=3)
    lever, t = T_b_c[:3, 3], run.Ts_ck_ck1[..., :3, 3]
    moved = t @ T_b_c[:3, :3].T + lever - gammas @ lever - run.stacked(pre.alpha)
    Z, N = np.zeros((W, m, 3, SHARED)), np.zeros((W, m, 3, OWN))
    R, tau = np.broadcast_to(np.eye(3), (W, 3, 3)), np.zeros((W, 1, 1))
    gained, gained_bg = np.zeros((W, 3, alpha.shape[3])), np.zeros((W, 3, 3))
    # Rotation of the body at keyframe k by an error of the gyroscope bias.
    rotated = np.zeros((W, 3, 3))
    for k in range(m):
        dt, gamma = dts[:, k, None, None], gammas[:, k]
        Z[:, k, :, CAMERA_MATRIX] = (R[..., None] * t[:, k, None, None, :]).reshape(W, 3, 9)
        Z[:, k, :, LEVER_ARM] = R - R @ gamma
        Z[:, k, :, FORCES] = -dt * gained - R @ alpha[:, k]
        Z[:, k, :, DRIFT] = -dt * R
        by_rotation = skew_stack(moved[:, k]) @ rotated + by_gyro[:, k, ALPHA]
        N[:, k, :, VELOCITY] = -dt * np.eye(3)
        N[:, k, :, GRAVITY] = -dt * (tau + 0.5 * dt) * np.eye(3)
        N[:, k, :, GYRO_BIAS] = -R @ by_rotation - dt * gained_bg
        gained = gained + R @ beta[:, k]
        gained_bg = gained_bg + R @ (by_gyro[:, k, BETA] - skew_stack(betas[:, k]) @ rotated)
        rotated = np.swapaxes(gamma, 1, 2) @ rotated + by_gyro[:, k, GAMMA]
        R, tau = R @ gamma, tau + dt
    N[..., ACC_BIAS] = Z[..., BIAS]
    return Z, N


def _by_readings(imu: ImuMeasurements, run: Run, bias: Array, rule: Rule) -> tuple[Array, Array]:
    """(W, m, 3, 10) alpha and beta of the readings along axis j taken for forces along axis i, for
    all (i, j), which add up for any matrix on the readings; the last one is of the readings' change
    with time."""
    readings = imu.acc - imu.bias_prior.mean_acc
    inputs = [np.outer(readings[:, j], np.eye(3)[i]) for i, j in np.ndindex(3, 3)]
    inputs.append(_change_with_time(imu.stamps_ns, readings))
    parts = [
        preintegrate(replace(imu, acc=acc), run.stamps_ns, bias, np.zeros(3), rule)
        for acc in inputs
    ]
    alpha = np.stack([pre.alpha for pre in parts], axis=2)
    beta = np.stack([pre.beta for pre in parts], axis=2)
    return run.stacked(alpha), run.stacked(beta)


def _change_with_time(stamps_ns: Stamps, readings: Array) -> Array:
    """(n, 3) derivative of readings; one-sided where they end.

    Interpolated: timestamps jitter, and steps of unlike length would let vibration pass.
    """
    t = (stamps_ns - stamps_ns[0]) / NS
    earlier, later = np.maximum(t - DELAY_S, 0.0), np.minimum(t + DELAY_S, t[-1])
    changes = [np.interp(later, t, axis) - np.interp(earlier, t, axis) for axis in readings.T]
    return np.ascontiguousarray(np.array(changes).T / (later - earlier)[:, None])


def away_from_zero(inverse_scale: float) -> float:
    """One over a scale, as something to divide by."""
    return float(inverse_scale) if abs(inverse_scale) > 1e-6 else 1e-6


class Fit(NamedTuple):
    """z = B q + c at the least chi-square of z' S z and the prior of q = [1 / scale, correction of
    the lever arm, further blocks]; with a first axis more, of each of many matrices on the
    readings."""

    S: Array
    """(blocks, 29, 29)"""

    z: Array
    q: Array
    B: Array
    information: Array
    """Information on q, its prior included."""

    least: Array
    """Chi-square, of the prior too."""

    @property
    def inverse_scale(self) -> float:
        """One over the scale; accelerations, their biases and their changes with time are
        multiplied by it."""
        return away_from_zero(self.q[0])

    def covariance(self, excess: float) -> Array:
        """Covariance of q, model errors included."""
        return robust_covariance(self.information, self.S @ self.z @ self.B, excess)

    @property
    def misfit(self) -> Array:
        """Least chi-square with a positive scale: it is a parabola in 1 / scale, and zero is where
        that ends."""
        behind = np.minimum(self.q[..., 0], 0.0) ** 2 / np.linalg.inv(self.information)[..., 0, 0]
        return np.asarray(self.least + behind)


def _design(
    R_b_c: Array, p_b_c: Array, further: tuple[slice, ...], acc_matrix: Array
) -> tuple[Array, Array, Array]:
    """Derivative B (..., 29, d) of z by the unknowns q, constant part c (29,), and information
    (d, d) of the prior of q."""
    columns = np.hstack([np.eye(SHARED)[:, block] for block in (LEVER_ARM, *further)])
    many = acc_matrix.shape[:-2]
    B = np.zeros((*many, SHARED, 1 + columns.shape[1]))
    B[..., ACC_MATRIX, 0], B[..., 1:] = acc_matrix.reshape(*many, 9), columns
    c = np.zeros(SHARED)
    c[CAMERA_MATRIX], c[LEVER_ARM], c[ONE] = R_b_c.ravel(), p_b_c, float(BIAS in further)
    stds = [LEAST**-0.5, *[UNKNOWN.lever_m] * 3]
    for block in further:
        stds += [FREE_STD[block.start]] * (block.stop - block.start)
    return B, c, np.diag(np.array(stds) ** -2.0)


def fitted(
    S: Array,
    R_b_c: Array,
    p_b_c: Array,
    further: tuple[slice, ...] = (),
    acc_matrix: Array | None = None,
) -> Fit:
    """Scale, lever arm and further blocks at the least chi-square of the sums S (blocks, 29, 29),
    for (3, 3) or (n, 3, 3) matrices on the readings.

    The scale is on the accelerometer's side: the camera's translations are the noisier ones and
    would pull it towards zero on theirs.
    """
    total = S.sum(axis=0)
    B, c, prior = _design(R_b_c, p_b_c, further, np.eye(3) if acc_matrix is None else acc_matrix)
    by_q = np.swapaxes(B, -1, -2) @ total
    information = by_q @ B + prior
    q = np.asarray(np.linalg.solve(information, -(by_q @ c)[..., None])[..., 0], np.float64)
    z = (B @ q[..., None])[..., 0] + c
    least = (z @ total * z).sum(axis=-1) + (q @ prior * q).sum(axis=-1)
    return Fit(S, z, q, B, information, np.asarray(least))


@dataclass(frozen=True)
class TranslationEstimate:
    """Scale and lever arm that fit best, for one extrinsic rotation and the nominal axes."""

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
    """Chi-square with nominal noise and the scale kept positive: no camera sees itself move the
    other way."""


def estimate_translation(sums: TranslationSums, R_b_c: Array, p_b_c: Array) -> TranslationEstimate:
    """Fit scale and lever arm."""
    fit = fitted(sums.own_bias, R_b_c, p_b_c)
    # d(scale) = -scale^2 d(1 / scale)
    change = np.diag([-(fit.inverse_scale**-2.0), 1.0, 1.0, 1.0])
    cov = fit.covariance(max(float(fit.least) / max(int(sums.dof.sum()), 1), 1.0))
    z = fit.z / abs(fit.inverse_scale)
    norms = np.sqrt(np.einsum("bij,i,j->b", sums.gravity, z, z) / sums.windows)
    norm = float(np.average(norms, weights=sums.windows))
    variance = float(np.average((norms - norm) ** 2, weights=sums.windows))
    return TranslationEstimate(
        scale=1.0 / fit.inverse_scale,
        p_b_c=p_b_c + fit.q[1:4],
        cov=change @ cov @ change,
        gravity_norm=norm,
        std_gravity_norm=float(np.sqrt(variance / max(len(norms) - 1, 1))),
        misfit=float(fit.misfit),
    )


class MotionErrors(NamedTuple):
    """Errors that no constant of the rig explains: a late accelerometer, a camera that drifts."""

    delay_s: float
    """Time by which the accelerometer is behind gyroscope and camera [s]."""

    var_delay: float
    drift_b: Array
    """(3,) excess of the camera's translations, along the body's axes [m/s]."""

    cov_drift_b: Array


def estimate_motion_errors(
    sums: TranslationSums, R_b_c: Array, p_b_c: Array
) -> MotionErrors | None:
    """Fit scale, lever arm, drift and delay at once, with the nominal axes; None with too few
    windows to estimate model errors."""
    if not shows_scatter(len(sums.dof), CONSTANTS):
        return None
    fit = fitted(sums.own_bias, R_b_c, p_b_c, (DRIFT, DELAY))
    cov, scale = fit.covariance(_excess(fit, sums)), fit.inverse_scale
    return MotionErrors(
        float(fit.q[7] / scale), float(cov[7, 7] / scale**2), fit.q[4:7], cov[4:7, 4:7]
    )


def _excess(fit: Fit, sums: TranslationSums) -> float:
    """Chi-square of the translations per degree of freedom, at least 1."""
    return max(float(fit.z @ fit.S.sum(axis=0) @ fit.z) / max(int(sums.dof.sum()), 1), 1.0)


class BiasAt(NamedTuple):
    """Bias that the IMU model left in the accelerometer's samples."""

    acc: Array
    """(3,) [m/s^2]"""

    cov: Array
    """(3, 3) [(m/s^2)^2], model errors included; wide along axes without motion."""


class SharedBias(NamedTuple):
    """Accelerometer bias over time, estimated from all windows."""

    times_s: Array
    """(T,) times at which it is known; a single one for a bias that does not change."""

    biases: tuple[BiasAt, ...]

    @property
    def wanders(self) -> bool:
        """It changes by more than the bias of a sound accelerometer."""
        return len(self.biases) > 1

    def at(self, stamp_ns: int) -> BiasAt:
        """The bias nearest to a time."""
        return self.biases[int(np.argmin(np.abs(self.times_s - stamp_ns / NS)))]


def estimate_shared_bias(sums: TranslationSums, R_b_c: Array, p_b_c: Array) -> SharedBias | None:
    """Fit scale, lever arm and bias at once, with the nominal axes; None with too few windows: a
    bias takes up their model errors (a late clock, a camera that drifts) as readily.

    A bias that wanders, by the most likely random walk, is used where that is significantly more
    likely than what sound recordings show.
    """
    if not shows_scatter(len(sums.dof), 7):
        return None
    wandering = _wandering_bias(sums, R_b_c, p_b_c)
    if wandering is not None:
        return wandering
    fit = fitted(sums.shared_bias, R_b_c, p_b_c, (BIAS,))
    cov, scale = fit.covariance(_excess(fit, sums)), fit.inverse_scale
    return SharedBias(np.zeros(1), (BiasAt(fit.q[4:7] / scale, cov[4:, 4:] / scale**2),))


def _wandering_bias(sums: TranslationSums, R_b_c: Array, p_b_c: Array) -> SharedBias | None:
    """The bias of each block, where it changes from one to the next by more than expected.

    Delay and drift are free beside scale and lever arm: they come and go with the motion, and a
    bias would follow them.
    """
    B, c, prior = _design(R_b_c, p_b_c, (DRIFT, DELAY, BIAS), np.eye(3))
    S, times_s = sums.shared_bias, sums.time_s / sums.windows
    constant = float(c @ S.sum(axis=0) @ c)
    blocks = BiasBlocks(B.T @ S @ B, S @ c @ B, constant, prior, int(sums.dof.sum()))
    expected, faulty = (
        [wandering_bias(blocks, walk**2 * np.diff(times_s)) for walk in walks]
        for walks in (EXPECTED_WALKS, FAULTY_WALKS)
    )
    best = min(faulty, key=lambda fit: fit.misfit)
    least = min(fit.misfit for fit in (wandering_bias(blocks.joined(), np.zeros(0)), *expected))
    if least - best.misfit <= WANDERS:
        return None
    return SharedBias(times_s, tuple(map(BiasAt, best.biases, best.covariances)))


class BiasBlocks(NamedTuple):
    """Chi-square of B blocks of windows in x = [constants, bias of the block]."""

    information: Array
    """(B, 11, 11)"""

    gradient: Array
    """(B, 11) half the derivative at zero."""

    constant: float
    """Chi-square at zero, of all blocks."""

    prior: Array
    """(11, 11) information of the prior on constants and bias."""

    dof: int
    """Numbers measured, less unknowns of the windows."""

    def joined(self) -> "BiasBlocks":
        """All windows in one block: the same bias in all of them."""
        total = self.information.sum(axis=0), self.gradient.sum(axis=0)
        return self._replace(information=total[0][None], gradient=total[1][None])


class WanderingBias(NamedTuple):
    """Biases of the blocks that are most likely with some random walk."""

    misfit: float
    """Twice the negative log likelihood, the unknowns integrated out."""

    biases: Array
    """(B, 3) [m/s^2]"""

    factor: Array
    """Cholesky factor of the information on [constants, biases times one over the scale]."""

    variance: float
    """Measured over nominal variances, times the scale squared."""

    @property
    def covariances(self) -> Array:
        """(B, 3, 3) [(m/s^2)^2]"""
        cov = self.variance * cho_solve((self.factor, True), np.eye(len(self.factor)))
        starts = range(CONSTANTS, len(cov), 3)
        return np.array([cov[k : k + 3, k : k + 3] for k in starts])


def wandering_bias(blocks: BiasBlocks, variances: Array) -> WanderingBias:
    """Constants and biases most likely with a random walk of these variances (B - 1,) from block to
    block [(m/s^2)^2], in units of the measurements' noise."""
    variances, shared = np.maximum(variances, 1e-12), slice(0, CONSTANTS)
    own, prior = slice(CONSTANTS, None), blocks.prior
    steps = np.diff(np.eye(len(blocks.information)), axis=0)
    walk = np.kron((steps.T / variances) @ steps, np.eye(3))
    information = np.zeros((CONSTANTS + len(walk),) * 2)  # its lower triangle
    information[shared, shared] = blocks.information[:, shared, shared].sum(axis=0)
    information[shared, shared] += prior[shared, shared]
    information[own, shared] = blocks.information[:, own, shared].reshape(-1, CONSTANTS)
    information[own, own] = block_diag(*(blocks.information[:, own, own] + prior[own, own])) + walk
    gradient = np.append(blocks.gradient[:, shared].sum(axis=0), blocks.gradient[:, own])
    factor: Array = np.linalg.cholesky(information).astype(np.float64)
    x = -cho_solve((factor, True), gradient)
    chi2 = blocks.constant + float(gradient @ x)
    free = max(blocks.dof - blocks.gradient.shape[1], 1)
    noise, inverse_scale = max(chi2 / free, 1.0), away_from_zero(x[0])
    log_det = 2.0 * np.log(np.diag(factor)).sum() + 3.0 * np.log(variances).sum()
    misfit = free * np.log(noise) + chi2 / noise + log_det
    # Accelerations count as one over the scale, and so does their bias.
    biases = x[own].reshape(-1, 3) / inverse_scale
    return WanderingBias(float(misfit), biases, factor, noise / inverse_scale**2)
