"""Rejection of relative poses that contradict the IMU beyond any noise.

A camera that looks at a moving object measures the motion of that object, with a small covariance.
The IMU connects all relative poses of a window and reveals this: with rotations from the gyroscope,
the velocity in the middle of a relative pose, minus the change measured by the accelerometer, is

    u_k = (R_k (d_k - alpha_k)) / dt_k - sum_j<k R_j beta_j = v_0 + g tau_k

a straight line in time with gravity as its slope. Consistent poses lie on one line, up to the
effect of the accelerometer bias.
"""

from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maci2.estimator.problem import SolverConfig
from maci2.estimator.results import SolveReport
from maci2.geometry.se3 import se3_inv
from maci2.geometry.so3 import so3_log
from maci2.imu import ALPHA, BETA, GAMMA, ImuMeasurements, Preintegrated, preintegrate
from maci2.types import Array

if TYPE_CHECKING:
    from maci2.vision import RelativePoses

Mask = NDArray[np.bool_]

CONTRADICTION = 50.0
"""Inflation of the stated covariances (seven times the noise) that noise does not explain."""

SUSPICION = 4.0
"""Inflation above which a single outlier is possible, as well as noise."""

NOISE = 2.0
"""Inflation below which the remaining poses agree."""

NEEDED = 3
"""Smallest number of poses on one line; two always are."""

ROUNDS = 3
MAX_SIGMAS = 4.0
DRIFT = 0.02
"""Deviation from the line that noise of accelerometer and gyroscope may cause [m/s]."""

GYRO_DRIFT = 0.005
"""Deviation of rates that noise may cause [rad/s]."""

GAP = 2.0
"""Multiple of the limit by which every rejected pose must deviate."""

REJECTED = "contradicts the IMU"
"""Reason given for a relative pose that was rejected as an outlier."""

GRAVITY_SLACK = 0.6
"""Tolerance of the norm of the slope: accelerometer scale, noise of two poses [m/s^2]."""


def suspicious(report: SolveReport) -> bool:
    """Whether relative poses may contradict the IMU."""
    return not report.converged or report.inflation > SUSPICION


def resolved(before: SolveReport, after: SolveReport, agreeing: Mask, measured: Mask) -> bool:
    """Whether rejecting the outliers explains the misfit.

    Beyond any noise every answer without contradiction does. Below that larger noise is the simpler
    reason, unless most poses agree to within what was stated.
    """
    if _contradicted(before):
        return not _contradicted(after)
    most = 2 * (agreeing & measured).sum() > measured.sum()
    return bool(most and after.converged and after.inflation < NOISE)


def _contradicted(report: SolveReport) -> bool:
    return not report.converged or report.inflation > CONTRADICTION


def inlier_poses(
    imu: ImuMeasurements, vision: "RelativePoses", T_b_c: Array, config: SolverConfig
) -> Mask:
    """(m,) which relative poses agree with the IMU and each other; all if no subset stands out.
    Unmeasured poses are counted as inliers."""
    prior = imu.bias_prior
    pre = preintegrate(imu, vision.stamps_ns, prior.mean_gyro, prior.mean_acc, config.rule)
    measured = vision.measured
    everything = np.ones(len(measured), dtype=bool)
    if measured.sum() < NEEDED:
        return everything
    turned = rotation_distances(pre, vision, T_b_c, _median_bias(pre, vision, T_b_c))
    bias_gyro = common_gyro_bias(pre, vision, T_b_c)
    pre = preintegrate(imu, vision.stamps_ns, bias_gyro, prior.mean_acc, config.rule)
    line, limit = falling_line(pre, vision, T_b_c), velocity_limits(pre, vision)
    usable = measured & (turned < 1.0)
    fit = partial(largest_set, line, limit, prior.std_acc, config.gravity_norm)
    best = fit(usable)
    rest = fit(usable & ~best)
    if best.sum() < NEEDED or best.sum() == rest.sum():
        return everything
    # Noise larger than stated has no gap between what is on the line and what is not.
    distances = line_distances(line, limit, prior.std_acc, best)
    apart = np.maximum(distances, turned)[measured & ~best]
    return best | ~measured if (apart > GAP).all() else everything


class FallingLine(NamedTuple):
    """Velocities from m poses, minus their change since the start that the IMU measured."""

    tau: Array
    """(m,) middles of the intervals [s]."""

    u: Array
    """(m, 3) [m/s], in the first body frame."""

    by_bias: Array
    """(m, 3, 3) its derivative by the accelerometer's bias."""


def falling_line(pre: Preintegrated, vision: "RelativePoses", T_b_c: Array) -> FallingLine:
    """One point of the line for each pose, with rotations from the gyroscope."""
    d = (T_b_c @ vision.Ts_ck_ck1 @ se3_inv(T_b_c))[:, :3, 3]
    R, t = np.eye(3), 0.0
    gained, gained_by_bias = np.zeros(3), np.zeros((3, 3))
    tau, u, by_bias = np.empty(len(d)), np.empty((len(d), 3)), np.empty((len(d), 3, 3))
    for k, dt in enumerate(pre.dt):
        tau[k] = t + 0.5 * dt
        u[k] = R @ (d[k] - pre.alpha[k]) / dt - gained
        by_bias[k] = -R @ pre.D_ba[k, ALPHA] / dt - gained_by_bias
        gained = gained + R @ pre.beta[k]
        gained_by_bias = gained_by_bias + R @ pre.D_ba[k, BETA]
        R, t = R @ pre.gamma[k], t + dt
    return FallingLine(tau, u, by_bias)


def velocity_limits(pre: Preintegrated, vision: "RelativePoses") -> Array:
    """(m,) accepted distance of each pose from the line [m/s]."""
    return MAX_SIGMAS * np.hypot(_rate_stds(pre, vision)[:, :3].max(axis=1), DRIFT)


def _rate_stds(pre: Preintegrated, vision: "RelativePoses") -> Array:
    """(m, 6) standard deviations of poses as those of a velocity and a rate [m/s, rad/s]."""
    stds = np.sqrt(np.diagonal(vision.covs_T_ck_ck1, axis1=1, axis2=2))
    return np.asarray(stds / pre.dt[:, None])


def _gyro_biases(pre: Preintegrated, vision: "RelativePoses", T_b_c: Array) -> Array:
    """(m, 3) gyroscope bias that each rotation implies."""
    R_b_c = T_b_c[:3, :3]
    Rs_vision = R_b_c @ vision.Ts_ck_ck1[:, :3, :3] @ R_b_c.T
    missing = [
        so3_log(np.ascontiguousarray(G.T @ R)) for G, R in zip(pre.gamma, Rs_vision, strict=True)
    ]
    found = np.linalg.solve(pre.D_bg[:, GAMMA], np.array(missing)[..., None])[..., 0]
    return np.asarray(pre.bias_gyro + found)


def _median_bias(pre: Preintegrated, vision: "RelativePoses", T_b_c: Array) -> Array:
    return np.asarray(np.median(_gyro_biases(pre, vision, T_b_c)[vision.measured], axis=0))


def rotation_distances(
    pre: Preintegrated, vision: "RelativePoses", T_b_c: Array, bias_gyro: Array
) -> Array:
    """(m,) difference of each rotation from the gyroscope's with a bias, in units of its limit."""
    limit = MAX_SIGMAS * np.hypot(_rate_stds(pre, vision)[:, 3:].max(axis=1), GYRO_DRIFT)
    away = np.abs(_gyro_biases(pre, vision, T_b_c) - bias_gyro).max(axis=1)
    return np.asarray(away / limit)


def common_gyro_bias(pre: Preintegrated, vision: "RelativePoses", T_b_c: Array) -> Array:
    """(3,) gyroscope bias that most rotations agree on."""
    middle = _median_bias(pre, vision, T_b_c)
    used = vision.measured & (rotation_distances(pre, vision, T_b_c, middle) < 1.0)
    biases = _gyro_biases(pre, vision, T_b_c)
    return np.asarray(biases[used].mean(axis=0)) if used.any() else middle


def largest_set(
    line: FallingLine,
    limit: Array,
    std_acc: Array,
    gravity: float,
    usable: Mask,
    pose: NDArray[np.int64] | None = None,
) -> Mask:
    """Largest set of poses on one line whose slope has the norm of gravity.

    `pose` says to which pose each point belongs where one has several: each counts once.
    """
    pose = np.arange(len(limit)) if pose is None else pose
    best, most, least = np.zeros(len(limit), dtype=bool), 0, np.inf
    for pair in combinations(np.flatnonzero(usable), 2):
        if pose[pair[0]] == pose[pair[1]]:
            continue
        on = np.zeros(len(limit), dtype=bool)
        on[list(pair)] = True
        # Two poses give a rough line; those on it give a better one.
        for _ in range(ROUNDS):
            slope, distances = _fit(line, limit, std_acc, on)
            found = usable & (distances < 1.0)
            if found.sum() < 2 or (found == on).all():
                break
            on = found
        if abs(np.linalg.norm(slope) - gravity) > GRAVITY_SLACK or found.sum() < 2:
            continue
        count, misfit = len(np.unique(pose[found])), float((distances[found] ** 2).mean())
        if (count, -misfit) > (most, -least):
            best, most, least = found, count, misfit
    return best


def line_distances(line: FallingLine, limit: Array, std_acc: Array, on: Mask) -> Array:
    """(m,) distances from the line through some poses, in units of the limit."""
    return _fit(line, limit, std_acc, on)[1]


def _fit(line: FallingLine, limit: Array, std_acc: Array, on: Mask) -> tuple[Array, Array]:
    """Slope of the line through some poses, with the accelerometer bias constrained by its prior,
    and the distance of every pose from it in units of its limit."""
    eye = np.broadcast_to(np.eye(3), (len(limit), 3, 3))
    rows = np.concatenate([eye, eye * line.tau[:, None, None], -line.by_bias], axis=2)
    weighted = rows[on] * (MAX_SIGMAS / limit[on])[:, None, None]
    right = line.u[on] * (MAX_SIGMAS / limit[on])[:, None]
    prior = np.hstack([np.zeros((3, 6)), np.diag(1.0 / std_acc)])
    x = np.linalg.lstsq(
        np.vstack([weighted.reshape(-1, 9), prior]),
        np.concatenate([right.ravel(), np.zeros(3)]),
        rcond=None,
    )[0]
    return x[3:6], np.linalg.norm(line.u - rows @ x, axis=1) / limit


def without(vision: "RelativePoses", kept: Mask) -> "RelativePoses":
    """The same keyframes; the other poses get a covariance as large as a camera can move."""
    from maci2.vision import any_motion

    Ts, covs = vision.Ts_ck_ck1.copy(), vision.covs_T_ck_ck1.copy()
    dt = np.diff(vision.stamps_ns) / 1e9
    for k in np.flatnonzero(~kept):
        Ts[k], covs[k] = np.eye(4), any_motion(float(dt[k]))
    reasons = tuple(
        reason if is_kept else reason or REJECTED
        for reason, is_kept in zip(vision.reasons, kept, strict=True)
    )
    return replace(vision, Ts_ck_ck1=Ts, covs_T_ck_ck1=covs, reasons=reasons)


WINDOW = 12
"""Relative poses that are looked at together: with more of them a bias wanders off its line."""


class MotionChoice(NamedTuple):
    """Relative poses with what the IMU decided."""

    vision: "RelativePoses"
    """Poses that were decided are the motion chosen, with its covariance, and in doubt no more."""

    second: Mask
    """(m,) where the motion of fewer matches was chosen."""

    rejected: Mask
    """(m,) where none of the motions agrees with the IMU: nothing is known of these poses."""


def choose_motions(
    imu: ImuMeasurements, vision: "RelativePoses", T_b_c: Array, config: SolverConfig
) -> MotionChoice:
    """Select a motion for each ambiguous relative pose where the IMU can decide; others are
    unchanged."""
    second, rejected = np.zeros((2, len(vision) - 1), dtype=bool)
    if not config.robust or not any(vision.motions):
        return MotionChoice(vision, second, rejected)
    Ts, covs = vision.Ts_ck_ck1.copy(), vision.covs_T_ck_ck1.copy()
    motions = list(vision.motions)
    windows = max(round(len(second) / WINDOW), 1)
    for some in np.array_split(np.arange(len(second)), windows):
        first = int(some[0])
        chosen = _chosen(imu, vision.part(first, int(some[-1]) + 1), T_b_c, config)
        for k, which in chosen.items():
            motions[first + k] = ()
            if which is None:
                rejected[first + k] = True
                continue
            motion = vision.motions[first + k][which]
            Ts[first + k], covs[first + k] = motion.T_ck_ck1, motion.cov_T_ck_ck1
            second[first + k] = which > 0
    decided = replace(vision, Ts_ck_ck1=Ts, covs_T_ck_ck1=covs, motions=tuple(motions))
    return MotionChoice(without(decided, ~rejected), second, rejected)


def with_choice(report: SolveReport, choice: MotionChoice) -> SolveReport:
    """The report of a solution with these motions."""
    rejected = tuple(sorted({*report.rejected_poses, *map(int, np.flatnonzero(choice.rejected))}))
    return replace(
        report,
        rejected=len(rejected),
        rejected_poses=rejected,
        second_motions=int(choice.second.sum()),
    )


def _chosen(
    imu: ImuMeasurements, vision: "RelativePoses", T_b_c: Array, config: SolverConfig
) -> dict[int, int | None]:
    """Pose in doubt -> its motion that the IMU chooses, None where it contradicts all of them, of
    one window."""
    doubted = np.array([len(some) > 1 for some in vision.motions])
    if not doubted.any() or vision.measured.sum() <= NEEDED:
        return {}
    first, last = int(vision.stamps_ns[0]), int(vision.stamps_ns[-1])
    imu, prior = imu.between(first, last), imu.bias_prior
    most = max(len(some) for some in vision.motions)
    layers = [_layer(vision, which) for which in range(most)]
    pre = preintegrate(imu, vision.stamps_ns, prior.mean_gyro, prior.mean_acc, config.rule)
    bias_gyro = common_gyro_bias(pre, layers[0], T_b_c)
    turned = [rotation_distances(pre, layer, T_b_c, bias_gyro) for layer in layers]
    pre = preintegrate(imu, vision.stamps_ns, bias_gyro, prior.mean_acc, config.rule)
    line, limit = _stacked(pre, layers, T_b_c)
    told = np.array([[len(some) > which for some in vision.motions] for which in range(1, most)])
    usable = np.concatenate([vision.measured, told.ravel()]) & (np.concatenate(turned) < 1.0)
    pose = np.tile(np.arange(len(doubted)), most)
    best = largest_set(line, limit, prior.std_acc, config.gravity_norm, usable, pose)
    rest = largest_set(line, limit, prior.std_acc, config.gravity_norm, usable & ~best, pose)
    held, others = (len(np.unique(pose[points])) for points in (best, rest))
    half = 0.5 * vision.measured.sum()
    if held <= max(half, NEEDED) or others > half:
        return {}
    chosen: dict[int, int | None] = {}
    for k in np.flatnonzero(doubted):
        along = line_distances(line, limit, prior.std_acc, best & (pose != k))
        count = len(vision.motions[k])
        away = np.maximum(along.reshape(most, -1)[:count, k], [one[k] for one in turned[:count]])
        which = int(np.argmin(away))
        if np.delete(away, which).min() > GAP and not 1.0 <= away[which] <= GAP:
            chosen[int(k)] = which if away[which] < 1.0 else None
    return chosen


def _layer(vision: "RelativePoses", which: int) -> "RelativePoses":
    """One motion of every pose: that `which` where it is in doubt, else the only one."""
    Ts, covs = vision.Ts_ck_ck1.copy(), vision.covs_T_ck_ck1.copy()
    for k, some in enumerate(vision.motions):
        if some:
            motion = some[min(which, len(some) - 1)]
            Ts[k], covs[k] = motion.T_ck_ck1, motion.cov_T_ck_ck1
    return replace(vision, Ts_ck_ck1=Ts, covs_T_ck_ck1=covs)


def _stacked(
    pre: Preintegrated, layers: list["RelativePoses"], T_b_c: Array
) -> tuple[FallingLine, Array]:
    """The points of all layers with their limits."""
    lines = [falling_line(pre, layer, T_b_c) for layer in layers]
    limits = [velocity_limits(pre, layer) for layer in layers]
    columns = (np.concatenate(parts) for parts in zip(*lines, strict=True))
    return FallingLine(*columns), np.concatenate(limits)
