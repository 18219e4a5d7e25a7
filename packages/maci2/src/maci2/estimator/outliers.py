"""Rejection of relative poses that contradict the IMU beyond any noise.

A camera that looks at a moving object measures the motion of that object, with a small covariance.
The IMU connects all relative poses of a window and reveals this: with rotations from the gyroscope,
the velocity in the middle of a relative pose, minus the change measured by the accelerometer, is

    u_k = (R_k (d_k - alpha_k)) / dt_k - sum_j<k R_j beta_j = v_0 + g tau_k

a straight line in time with gravity as its slope. Consistent poses lie on one line, up to the
effect of the accelerometer bias.
"""

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maci2.estimator.problem import Indices, SolverConfig
from maci2.estimator.results import SolveReport
from maci2.geometry.se3 import se3_inv, so3_log_stack
from maci2.imu import ALPHA, BETA, GAMMA, ImuMeasurements, Preintegrated, preintegrate
from maci2.types import Array, Mask

if TYPE_CHECKING:
    from maci2.vision import RelativePoses

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
    measured = vision.measured
    everything = np.ones(len(measured), dtype=bool)
    if measured.sum() < NEEDED:
        return everything
    (turned,), line = _against_imu(imu, [vision], T_b_c, config)
    usable, pose = measured & (turned < 1.0), np.arange(len(measured))
    best = line.largest_set(usable, config.gravity_norm, pose)
    rest = line.largest_set(usable & ~best, config.gravity_norm, pose)
    if best.sum() < NEEDED or best.sum() == rest.sum():
        return everything
    # Noise larger than stated has no gap between what is on the line and what is not.
    apart = np.maximum(line.fit(best)[1], turned)[measured & ~best]
    return best | ~measured if (apart > GAP).all() else everything


class FallingLine(NamedTuple):
    """Velocities from m poses, minus their change since the start that the IMU measured."""

    tau: Array
    """(m,) middles of the intervals [s]."""

    u: Array
    """(m, 3) [m/s], in the first body frame."""

    by_bias: Array
    """(m, 3, 3) its derivative by the accelerometer's bias."""

    limit: Array
    """(m,) accepted distance of each pose from the line [m/s]."""

    std_acc: Array
    """(3,) standard deviations of the accelerometer's bias."""

    def fit(self, on: Mask) -> tuple[Array, Array]:
        """Slope of the line through some poses, with the accelerometer bias constrained by its
        prior, and the distance of every pose from it in units of its limit."""
        eye = np.broadcast_to(np.eye(3), self.by_bias.shape)
        rows = np.concatenate([eye, eye * self.tau[:, None, None], -self.by_bias], axis=2)
        prior = np.hstack([np.zeros((3, 6)), np.diag(1.0 / self.std_acc)])
        weights = (MAX_SIGMAS / self.limit[on])[:, None]
        x = np.linalg.lstsq(
            np.vstack([(rows[on] * weights[:, :, None]).reshape(-1, 9), prior]),
            np.concatenate([(self.u[on] * weights).ravel(), np.zeros(3)]),
            rcond=None,
        )[0]
        return x[3:6], np.linalg.norm(self.u - rows @ x, axis=1) / self.limit

    def largest_set(self, usable: Mask, gravity: float, pose: Indices) -> Mask:
        """Largest set of poses on one line whose slope has the norm of gravity. `pose` is the pose
        that each point belongs to: each counts once."""
        best, most, least = np.zeros(len(usable), dtype=bool), 0, np.inf
        for pair in combinations(np.flatnonzero(usable), 2):
            if pose[pair[0]] == pose[pair[1]]:
                continue
            on = np.zeros(len(usable), dtype=bool)
            on[list(pair)] = True
            # Two poses give a rough line; those on it give a better one.
            for _ in range(ROUNDS):
                slope, distances = self.fit(on)
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


def falling_line(
    pre: Preintegrated, vision: "RelativePoses", T_b_c: Array, std_acc: Array
) -> FallingLine:
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
    limit = MAX_SIGMAS * np.hypot(_rate_stds(pre, vision)[:, :3].max(axis=1), DRIFT)
    return FallingLine(tau, u, by_bias, limit, std_acc)


def _rate_stds(pre: Preintegrated, vision: "RelativePoses") -> Array:
    """(m, 6) standard deviations of poses as those of a velocity and a rate [m/s, rad/s]."""
    stds = np.sqrt(np.diagonal(vision.covs_T_ck_ck1, axis1=1, axis2=2))
    return np.asarray(stds / pre.dt[:, None])


def _against_imu(
    imu: ImuMeasurements, layers: list["RelativePoses"], T_b_c: Array, config: SolverConfig
) -> tuple[Array, FallingLine]:
    """Motions of poses, in layers of one for each pose, against the IMU: (layers, m) differences
    of rotation in units of their limit, and the points of all layers on the line."""
    prior, measured, R_b_c = imu.bias_prior, layers[0].measured, T_b_c[:3, :3]
    stamps_ns = layers[0].stamps_ns
    pre = preintegrate(imu, stamps_ns, prior.mean_gyro, prior.mean_acc, config.rule)
    biases = np.empty((len(layers), len(measured), 3))
    limits = np.array([_rate_stds(pre, layer)[:, 3:].max(axis=1) for layer in layers])
    limits = MAX_SIGMAS * np.hypot(limits, GYRO_DRIFT)
    for layer, implied in zip(layers, biases, strict=True):
        # The gyroscope bias that each rotation implies.
        Rs_bk_bk1 = R_b_c @ layer.Ts_ck_ck1[:, :3, :3] @ R_b_c.T
        missing = so3_log_stack(np.swapaxes(pre.gamma, 1, 2) @ Rs_bk_bk1)
        implied[:] = np.linalg.solve(pre.D_bg[:, GAMMA], missing[..., None])[..., 0]

    def distances(bias: Array) -> Array:
        return np.asarray(np.abs(biases - bias).max(axis=2) / limits)

    middle = np.median(biases[0, measured], axis=0)
    agreeing = measured & (distances(middle)[0] < 1.0)
    common = biases[0, agreeing].mean(axis=0) if agreeing.any() else middle
    bias_gyro = prior.mean_gyro + common
    pre = preintegrate(imu, stamps_ns, bias_gyro, prior.mean_acc, config.rule)
    lines = [falling_line(pre, layer, T_b_c, prior.std_acc)[:4] for layer in layers]
    points = map(np.concatenate, zip(*lines, strict=True))
    return distances(common), FallingLine._make([*points, prior.std_acc])


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
    counts, measured = np.array([len(some) for some in vision.motions]), vision.measured
    if not (counts > 1).any() or measured.sum() <= NEEDED:
        return {}
    imu = imu.between(int(vision.stamps_ns[0]), int(vision.stamps_ns[-1]))
    most = int(counts.max())
    layers = [_layer(vision, which) for which in range(most)]
    turned, line = _against_imu(imu, layers, T_b_c, config)
    offered = np.array([measured, *(counts > which for which in range(1, most))])
    usable = (offered & (turned < 1.0)).ravel()
    pose = np.tile(np.arange(len(counts)), most)
    best = line.largest_set(usable, config.gravity_norm, pose)
    rest = line.largest_set(usable & ~best, config.gravity_norm, pose)
    held, others = (len(np.unique(pose[points])) for points in (best, rest))
    half = 0.5 * measured.sum()
    if held <= max(half, NEEDED) or others > half:
        return {}
    chosen: dict[int, int | None] = {}
    for k in map(int, np.flatnonzero(counts > 1)):
        along = line.fit(best & (pose != k))[1].reshape(most, -1)
        away = np.maximum(along, turned)[: counts[k], k]
        which = int(np.argmin(away))
        if np.delete(away, which).min() > GAP and not 1.0 <= away[which] <= GAP:
            chosen[k] = which if away[which] < 1.0 else None
    return chosen


def _layer(vision: "RelativePoses", which: int) -> "RelativePoses":
    """One motion of every pose: that `which` where it is in doubt, else the only one."""
    Ts, covs = vision.Ts_ck_ck1.copy(), vision.covs_T_ck_ck1.copy()
    for k, some in enumerate(vision.motions):
        if some:
            motion = some[min(which, len(some) - 1)]
            Ts[k], covs[k] = motion.T_ck_ck1, motion.cov_T_ck_ck1
    return replace(vision, Ts_ck_ck1=Ts, covs_T_ck_ck1=covs)
