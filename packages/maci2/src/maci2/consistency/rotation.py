"""Gyroscope against camera rotation: extrinsic rotation, time offset, gyroscope scale, noise.

A rotation vector of the camera, expressed in the body, is R_b_c times itself; a constant gyroscope
bias drops out with each window's mean. What remains is Wahba's problem, whose data are one 3x3
matrix: windows add up, and no guess of the rotation is needed (Eq. 8 without its start).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.consistency.significance import inliers, robust_covariance
from maci2.geometry.gaussian import chi2_quantile
from maci2.geometry.se3 import so3_log_stack
from maci2.imu import GAMMA, ImuMeasurements, Rule, preintegrate
from maci2.types import NS, Array, Mask, Stamps
from maci2.vision import RelativePoses

SHIFT_S = 0.004
"""Time by which keyframes are moved to see how rates change with a time offset [s]."""

PRIOR_WEIGHT = 1.0 / np.pi**2
"""Information on an unknown rotation: within half a revolution [1/rad^2]."""

SCALE_WEIGHT = 1.0
"""Information on the unknown scale of a gyroscope's axis: within 100 %."""

ROUNDS = 3
"""Iterations between rotation and time offset, and between rotation and outliers."""

STILL_SIGNIFICANCE = 0.01
"""Probability that the noise of a stationary camera exceeds the threshold below which rotation
counts as noise."""

STILL_RATIO = 10.0
"""Least ratio of the gyroscope's squared rates to the camera's where the camera is still."""

NOTHING = 1e-9
"""Weight of a window without usable rotation; others have weights of 1e4 and more."""

NOMINAL_DOF = 10
"""Weight of the nominal noise, in degrees of freedom; a window has 24 of its own, and three more
where it is compared with the one before."""

LEAST_FACTOR = 0.1
"""Smallest factor on the variance: rotations count as at most three times as accurate as nominal.
"""


class Run(NamedTuple):
    """W windows of m relative poses each; every window begins where the one before it ends."""

    stamps_ns: Stamps
    """(W m + 1,) keyframes."""

    Ts_ck_ck1: Array
    """(W, m, 4, 4)"""

    covs_T_ck_ck1: Array
    """(W, m, 6, 6)"""

    measured: Mask
    """(W, m) which relative poses vision measured."""

    def stacked(self, values: Array) -> Array:
        """(W, m, ...) from (W m, ...)."""
        return values.reshape(*self.measured.shape, *values.shape[1:])


def runs_of(windows: list[RelativePoses]) -> list[Run]:
    """Windows joined to runs, in the order of time, without those that measured nothing."""
    groups: list[list[RelativePoses]] = []
    for window in sorted(windows, key=lambda window: int(window.stamps_ns[0])):
        if window.measured.sum() < 2:
            continue
        if groups and _follows(groups[-1][-1], window):
            groups[-1].append(window)
        else:
            groups.append([window])
    return [
        Run(
            np.concatenate([*(one.stamps_ns[:-1] for one in group), group[-1].stamps_ns[-1:]]),
            np.array([one.Ts_ck_ck1 for one in group]),
            np.array([one.covs_T_ck_ck1 for one in group]),
            np.array([one.measured for one in group]),
        )
        for group in groups
    ]


def _follows(before: RelativePoses, after: RelativePoses) -> bool:
    return len(before) == len(after) and bool(before.stamps_ns[-1] == after.stamps_ns[0])


class RotationSums(NamedTuple):
    """Centred, weighted products of mean rates, one block for each of B windows or more."""

    body_camera: Array
    """(B, 3, 3) gyroscope by camera."""

    change_camera: Array
    """(B, 3, 3) derivative of the gyroscope's rate by the time offset, by camera."""

    squares: Array
    """(B, 4, 3) gyroscope, camera, derivative, and derivative by gyroscope, axis by axis."""

    dof: Array
    """(B,) numbers measured, less each window's mean."""


class WindowBiases(NamedTuple):
    """Mean rates of each window, which give its gyroscope bias once the extrinsics are known."""

    mean_body: Array
    """(W, 3) mean rate of the gyroscope [rad/s]."""

    mean_camera: Array
    """(W, 3) mean rate of the camera, in its own frame [rad/s]."""

    std: Array
    """(W,) of their difference [rad/s]."""

    def biases(self, R_b_c: Array) -> Array:
        """(W, 3) difference between gyroscope and rotation of the camera [rad/s]."""
        return self.mean_body - self.mean_camera @ R_b_c.T


class RotationComparison(NamedTuple):
    """Rotations of gyroscope and camera over a run of W windows of m relative poses."""

    sums: RotationSums
    biases: WindowBiases
    inliers: Mask
    """(W, m) relative poses in the sums."""

    variances: Array
    """(2,) sums of the nominal variances of measured rotations, vision's and the gyroscope's."""


def compare_rotations(imu: ImuMeasurements, run: Run, rule: Rule) -> RotationComparison:
    """Mean rates of gyroscope and camera in each interval, without outliers, summed by windows."""
    rates, dt, cov_gyro = _gyro_rates(imu, run.stamps_ns, rule)
    body, dt, cov_gyro = run.stacked(rates), run.stacked(dt), run.stacked(cov_gyro)
    camera = run.stacked(so3_log_stack(run.Ts_ck_ck1[..., :3, :3].reshape(-1, 3, 3)))
    camera = camera / dt[..., None]
    cov_camera = run.covs_T_ck_ck1[..., 3:, 3:]
    variances = [np.trace(cov, axis1=2, axis2=3) for cov in (cov_camera, cov_gyro)]
    weights = np.where(run.measured, 3.0 * dt**2 / (variances[0] + variances[1]), 0.0)
    weights = _without_outliers(body, camera, weights)
    change = run.stacked(_change_with_time(imu, run.stamps_ns, rule))
    (x, y, d), means = _centred((body, camera, change), weights)
    squares = [
        np.einsum("wm,wmi,wmi->wi", weights, *pair) for pair in ((x, x), (y, y), (d, d), (d, x))
    ]
    sums = RotationSums(
        np.einsum("wm,wmi,wmj->wij", weights, x, y),
        np.einsum("wm,wmi,wmj->wij", weights, d, y),
        np.stack(squares, axis=1),
        3 * np.maximum((weights > 0.0).sum(axis=1) - 1, 0),
    )
    std = np.maximum(weights.sum(axis=1), NOTHING) ** -0.5
    biases = WindowBiases(imu.bias_prior.mean_gyro + means[0], means[1], std)
    totals = np.array([variance[run.measured].sum() for variance in variances])
    return RotationComparison(sums, biases, weights > 0.0, totals)


def _gyro_rates(imu: ImuMeasurements, stamps_ns: Stamps, rule: Rule) -> tuple[Array, Array, Array]:
    """Mean rates (n, 3) [rad/s], lengths (n,) [s] and covariances (n, 3, 3) of the rotations."""
    prior = imu.bias_prior
    pre = preintegrate(imu, stamps_ns, prior.mean_gyro, prior.mean_acc, rule)
    return so3_log_stack(pre.gamma) / pre.dt[:, None], pre.dt, pre.cov[:, GAMMA, GAMMA]


def _centred(values: tuple[Array, ...], weights: Array) -> tuple[list[Array], list[Array]]:
    """Each (W, m, 3) less its window's weighted mean, and those means (W, 3)."""
    total = np.maximum(weights.sum(axis=1), NOTHING)[:, None]
    means = [np.einsum("wm,wmi->wi", weights, value) / total for value in values]
    return [value - mean[:, None] for value, mean in zip(values, means, strict=True)], means


def _without_outliers(body: Array, camera: Array, weights: Array) -> Array:
    """Weights with zeros where camera and gyroscope cannot have measured the same rotation.

    Angles first, which no extrinsics change; then residuals of the run's own best rotation.
    """
    used, root = weights > 0.0, np.sqrt(weights)
    angles = np.linalg.norm(body, axis=2) - np.linalg.norm(camera, axis=2)
    middle = np.nanmedian(np.where(used, angles, np.nan), axis=1, keepdims=True)
    kept = inliers(np.sqrt(3.0) * np.abs(angles - middle) * root, used)
    for _ in range(ROUNDS):
        (x, y), _ = _centred((body, camera), np.where(kept, weights, 0.0))
        products = np.einsum("wm,wmi,wmj->ij", np.where(kept, weights, 0.0), x, y)
        R = _best_rotation(products, np.zeros((3, 3)), 1.0)
        kept = inliers(np.linalg.norm(x - y @ R.T, axis=2) * root, used)
    return np.where(kept, weights, 0.0)


def _change_with_time(imu: ImuMeasurements, stamps_ns: Stamps, rule: Rule) -> Array:
    """(n, 3) derivative of the gyroscope's mean rates by the time offset [rad/s^2].

    One-sided where samples end; zero where they cover the keyframes alone.
    """
    shift_ns = round(SHIFT_S * NS)
    earlier = -shift_ns if int(stamps_ns[0]) - shift_ns >= imu.stamps_ns[0] else 0
    later = shift_ns if int(stamps_ns[-1]) + shift_ns <= imu.stamps_ns[-1] else 0
    if earlier == later:
        return np.zeros((len(stamps_ns) - 1, 3))
    before, after = (_gyro_rates(imu, stamps_ns + moved, rule)[0] for moved in (earlier, later))
    return np.asarray((after - before) * NS / (later - earlier))


@dataclass(frozen=True)
class RotationEstimate:
    """Extrinsic rotation, time offset and gyroscope scale that fit the rotation rates best,
    independent of the nominal ones."""

    R_b_c: Array
    """(3, 3)"""

    time_offset_s: float
    """IMU timestamp less camera timestamp, beyond what was applied already."""

    cov: Array
    """(4, 4) of [rotation (left) [rad], time offset [s]], model errors included."""

    variance_ratio: float
    """Measured over nominal variance."""

    gain: float
    """Decrease of chi-square from the nominal rotation to this one, in units of the measured
    noise: products of noise alone have a best rotation too."""

    mirror_ratio: float
    """Log likelihood ratio of a mirrored gyroscope or camera over the best rotation."""

    is_camera_still: bool
    """The camera shows no rotation beyond its noise where the gyroscope shows much."""

    inverse_scale: Array
    """(3,) true rate over the gyroscope's, axis by axis; 1 about axes without motion."""

    cov_inverse_scale: Array
    """(3, 3), model errors included."""


def estimate_rotation(sums: RotationSums, R_nominal: Array) -> RotationEstimate:
    """Solve Wahba's problem with a time offset; `R_nominal` counts about axes without motion."""
    total = RotationSums(*(part.sum(axis=0) for part in sums))
    R, offset_s = R_nominal, 0.0
    for _ in range(ROUNDS):
        R = _best_rotation(total.body_camera + offset_s * total.change_camera, R_nominal, 1.0)
        offset_s = _best_offset_s(total, R)
    dof = max(int(total.dof) - 4, 1)
    misfit = _misfit(total, R, offset_s)
    excess = max(misfit / dof, 1.0)
    mirror_misfit = _misfit(total, _best_rotation(total.body_camera, R_nominal, -1.0), 0.0)
    nominal_misfit = _misfit(total, R_nominal, _best_offset_s(total, R_nominal))
    information, gradients = _information(total, R, offset_s), _gradients(sums, R, offset_s)
    inverse_scale, cov_inverse_scale = _inverse_scale(sums, R, offset_s, excess)
    body, camera = total.squares[:2].sum(axis=-1)
    return RotationEstimate(
        R_b_c=R,
        time_offset_s=offset_s,
        cov=robust_covariance(information, gradients, excess),
        variance_ratio=misfit / dof,
        gain=(nominal_misfit - misfit) / excess,
        # The noise level is unknown: likelihood is a power of the misfit, at least nominal noise.
        mirror_ratio=0.5 * dof * float(np.log(max(misfit, dof) / max(mirror_misfit, dof))),
        is_camera_still=bool(
            camera <= chi2_quantile(int(total.dof), 1.0 - STILL_SIGNIFICANCE)
            and body > STILL_RATIO * max(camera, total.dof)
        ),
        inverse_scale=inverse_scale,
        cov_inverse_scale=cov_inverse_scale,
    )


def _best_rotation(body_camera: Array, R_nominal: Array, sign: float) -> Array:
    """The rotation, or with sign -1 the mirroring, that carries the camera's rates best."""
    U, _, Vt = np.linalg.svd(body_camera + PRIOR_WEIGHT * R_nominal)
    return np.asarray(U @ np.diag([1.0, 1.0, sign * np.linalg.det(U @ Vt)]) @ Vt)


def _best_offset_s(total: RotationSums, R: Array) -> float:
    """Time offset at which the rates fit best, given the rotation [s]."""
    _, _, change, change_body = total.squares.sum(axis=-1)
    missing = np.sum(R * total.change_camera) - change_body
    return float(missing / (change + UNKNOWN.camera_clock_s**-2.0))


def _misfit(total: RotationSums, R: Array, offset_s: float) -> float:
    """Chi-square of gyroscope + offset derivative - R camera."""
    body, camera, change, change_body = total.squares.sum(axis=-1)
    cross = np.sum(R * (total.body_camera + offset_s * total.change_camera))
    moved = body + offset_s**2 * change + 2.0 * offset_s * change_body
    return float(moved + camera - 2.0 * cross)


def _information(total: RotationSums, R: Array, offset_s: float) -> Array:
    """(4, 4) from products of both sensors, whose noises are independent: noise alone is none."""
    S = (total.body_camera + offset_s * total.change_camera) @ R.T
    S = 0.5 * (S + S.T)
    information = np.zeros((4, 4))
    information[:3, :3] = np.trace(S) * np.eye(3) - S + PRIOR_WEIGHT * np.eye(3)
    information[:3, 3] = information[3, :3] = -_axial(total.change_camera @ R.T)
    information[3, 3] = total.squares[2].sum() + UNKNOWN.camera_clock_s**-2.0
    # Where there is no motion, products of noise may have any sign.
    values, vectors = np.linalg.eigh(information)
    return np.asarray((vectors * np.maximum(values, PRIOR_WEIGHT)) @ vectors.T)


def _gradients(sums: RotationSums, R: Array, offset_s: float) -> Array:
    """(B, 4) half the derivative of each block's misfit by [rotation, offset]."""
    by_rotation = -_axial((sums.body_camera + offset_s * sums.change_camera) @ R.T)
    by_offset = np.sum(sums.squares[:, 3] + offset_s * sums.squares[:, 2], axis=1)
    by_offset = by_offset - np.einsum("ij,bij->b", R, sums.change_camera)
    return np.concatenate([by_rotation, by_offset[:, None]], axis=1)


def _inverse_scale(
    sums: RotationSums, R: Array, offset_s: float, excess: float
) -> tuple[Array, Array]:
    """Factor on each axis of the gyroscope that fits the camera's rates best, and its covariance.

    The factor is on the gyroscope's side: noise of the camera, which is larger, would pull it
    towards zero on the other.
    """
    body, _, change, change_body = np.moveaxis(sums.squares, 1, 0)
    moved = body + offset_s**2 * change + 2.0 * offset_s * change_body
    camera = (sums.body_camera + offset_s * sums.change_camera) @ R.T
    fitted = np.diagonal(camera, axis1=1, axis2=2)
    information = moved.sum(axis=0) + SCALE_WEIGHT
    inverse = (fitted.sum(axis=0) + SCALE_WEIGHT) / information
    return inverse, robust_covariance(np.diag(information), fitted - inverse * moved, excess)


def _axial(matrices: Array) -> Array:
    """(..., 3) a with a . theta = sum(matrix * [theta]x)."""
    odd = matrices - np.swapaxes(matrices, -1, -2)
    return np.stack([odd[..., 2, 1], odd[..., 0, 2], odd[..., 1, 0]], axis=-1)


class RotationNoise(NamedTuple):
    """Measured over nominal variance of relative rotations, at most 1."""

    factor: float
    windows: int
    """Number of windows it was estimated from."""


def estimate_rotation_noise(
    imu: ImuMeasurements, windows: Sequence[RelativePoses], T_b_c: Array, rule: Rule = "midpoint"
) -> RotationNoise | None:
    """Noise of relative rotations that came without covariances; None where nothing was measured.

    The gyroscope shows it at two time scales: within windows, in the residuals of the best
    extrinsic rotation, which is fitted meanwhile and need not be right; and from window to window,
    where a bias that hardly changes seems to jump, which slow errors of the rotations cause more
    than white noise of equal size. The larger of the two counts. A fault of the mounting, the clock
    or the axes looks like noise too, so that noise is never estimated above the nominal one: what
    fits worse is left to the consistency tests. Translations stay as stated: their slow errors
    show less against the accelerometer than in velocities (`docs/research/vision.md`).
    """
    compared = [compare_rotations(imu, run, rule) for run in runs_of(list(windows))]
    if not compared:
        return None
    parts = zip(*(one.sums for one in compared), strict=True)
    sums = RotationSums(*(np.concatenate(part) for part in parts))
    rotation = estimate_rotation(sums, T_b_c[:3, :3])
    within = _with_nominal(rotation.variance_ratio, float(sums.dof.sum()))
    jumps = np.concatenate([_squared_jumps(one.biases, rotation.R_b_c) for one in compared])
    between = _with_nominal(float(jumps.mean()) if jumps.size else 1.0, float(jumps.size))
    vision, gyro = np.sum([one.variances for one in compared], axis=0)
    factor = max(within, between) * (vision + gyro) / vision
    count = sum(len(one.inliers) for one in compared)
    return RotationNoise(float(np.clip(factor, LEAST_FACTOR, 1.0)), count)


def _squared_jumps(biases: WindowBiases, R_b_c: Array) -> Array:
    """(W - 1, 3) squared change of the bias from each window to the next, over its variance."""
    variances = biases.std[1:] ** 2 + biases.std[:-1] ** 2
    return np.asarray(np.diff(biases.biases(R_b_c), axis=0) ** 2 / variances[:, None])


def _with_nominal(ratio: float, numbers: float) -> float:
    return (numbers * ratio + NOMINAL_DOF) / (numbers + NOMINAL_DOF)
