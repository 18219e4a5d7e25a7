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
from maci2.geometry.gaussian import chi2_quantile, symmetrize
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


def runs_of(windows: Sequence[RelativePoses]) -> list[Run]:
    """Windows joined to runs, in the order of time, without those that measured nothing."""
    groups: list[list[RelativePoses]] = []
    for window in sorted(windows, key=lambda window: int(window.stamps_ns[0])):
        if window.measured.sum() < 2:
            continue
        last = groups[-1][-1] if groups else None
        if last and (len(last), last.stamps_ns[-1]) == (len(window), window.stamps_ns[0]):
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


BODY, CAMERA, CHANGE = slice(0, 3), slice(3, 6), slice(6, 9)
"""Mean rates of an interval: gyroscope, camera in its own frame [rad/s], and derivative of the
gyroscope's by the time offset [rad/s^2]."""


class RotationSums(NamedTuple):
    """Weighted products of the centred rates, one block for each of B windows or more."""

    products: Array
    """(B, 9, 9) of [gyroscope, camera, derivative by the time offset]."""

    dof: Array
    """(B,) numbers measured, less each window's mean."""


class RotationComparison(NamedTuple):
    """Rotations of gyroscope and camera over a run of W windows of m relative poses."""

    sums: RotationSums
    means: Array
    """(W, 9) mean rates of each window."""

    std: Array
    """(W,) of the difference of the means [rad/s]."""

    run: Run
    """Relative poses, those in the sums marked as measured."""

    variances: Array
    """(2,) sums of the nominal variances of measured rotations, vision's and the gyroscope's."""

    mean_bias: Array
    """(3,) gyroscope bias that the prior took off [rad/s]."""

    def biases(self, R_b_c: Array) -> Array:
        """(W, 3) gyroscope bias of each window, given the extrinsic rotation [rad/s]."""
        return self.mean_bias + self.means[:, BODY] - self.means[:, CAMERA] @ R_b_c.T


def compare_rotations(imu: ImuMeasurements, run: Run, rule: Rule) -> RotationComparison:
    """Mean rates of gyroscope and camera in each interval, without outliers, summed by windows."""
    body, dt, cov_gyro = _gyro_rates(imu, run.stamps_ns, rule)
    camera = so3_log_stack(run.Ts_ck_ck1[..., :3, :3].reshape(-1, 3, 3)) / dt[:, None]
    rates = run.stacked(np.hstack([body, camera, _change_with_time(imu, run.stamps_ns, rule)]))
    variances = [
        np.trace(cov, axis1=2, axis2=3)
        for cov in (run.covs_T_ck_ck1[..., 3:, 3:], run.stacked(cov_gyro))
    ]
    weights = np.where(run.measured, 3.0 * run.stacked(dt) ** 2 / sum(variances), 0.0)
    weights = _without_outliers(rates, weights)
    centred, means = _centred(rates, weights)
    return RotationComparison(
        RotationSums(
            np.einsum("wm,wmi,wmj->wij", weights, centred, centred),
            3 * np.maximum((weights > 0.0).sum(axis=1) - 1, 0),
        ),
        means,
        np.maximum(weights.sum(axis=1), NOTHING) ** -0.5,
        run._replace(measured=weights > 0.0),
        np.array([variance[run.measured].sum() for variance in variances]),
        imu.bias_prior.mean_gyro,
    )


def _gyro_rates(imu: ImuMeasurements, stamps_ns: Stamps, rule: Rule) -> tuple[Array, Array, Array]:
    """Mean rates (n, 3) [rad/s], lengths (n,) [s] and covariances (n, 3, 3) of the rotations."""
    prior = imu.bias_prior
    pre = preintegrate(imu, stamps_ns, prior.mean_gyro, prior.mean_acc, rule)
    return so3_log_stack(pre.gamma) / pre.dt[:, None], pre.dt, pre.cov[:, GAMMA, GAMMA]


def _centred(rates: Array, weights: Array) -> tuple[Array, Array]:
    """(W, m, 9) rates less their window's weighted mean, and those means (W, 9)."""
    total = np.maximum(weights.sum(axis=1), NOTHING)[:, None]
    means = np.einsum("wm,wmi->wi", weights, rates) / total
    return rates - means[:, None], means


def _without_outliers(rates: Array, weights: Array) -> Array:
    """Weights with zeros where camera and gyroscope cannot have measured the same rotation.

    Angles first, which no extrinsics change; then residuals of the run's own best rotation.
    """
    used, root = weights > 0.0, np.sqrt(weights)
    angles = np.linalg.norm(rates[..., BODY], axis=2) - np.linalg.norm(rates[..., CAMERA], axis=2)
    middle = np.nanmedian(np.where(used, angles, np.nan), axis=1, keepdims=True)
    kept = inliers(np.sqrt(3.0) * np.abs(angles - middle) * root, used)
    for _ in range(ROUNDS):
        body, camera, _ = np.split(_centred(rates, np.where(kept, weights, 0.0))[0], 3, axis=2)
        body_camera = np.einsum("wm,wmi,wmj->ij", np.where(kept, weights, 0.0), body, camera)
        R = _best_rotation(body_camera, np.zeros((3, 3)), 1.0)
        kept = inliers(np.linalg.norm(body - camera @ R.T, axis=2) * root, used)
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
    total = sums.products.sum(axis=0)
    R, offset_s = R_nominal, 0.0
    for _ in range(ROUNDS):
        R = _best_rotation(_moved(total, offset_s)[BODY, CAMERA], R_nominal, 1.0)
        offset_s = _best_offset_s(total, R)
    numbers = int(sums.dof.sum())
    dof = max(numbers - 4, 1)
    misfit = _misfit(total, R, offset_s)
    excess = max(misfit / dof, 1.0)
    mirrored = _best_rotation(total[BODY, CAMERA], R_nominal, -1.0)
    mirror_misfit = _misfit(total, mirrored, 0.0)
    nominal_misfit = _misfit(total, R_nominal, _best_offset_s(total, R_nominal))
    information, gradients = _information(total, R, offset_s), _gradients(sums, R, offset_s)
    inverse_scale, cov_inverse_scale = _inverse_scale(sums, R, offset_s, excess)
    body, camera = np.trace(total[BODY, BODY]), np.trace(total[CAMERA, CAMERA])
    return RotationEstimate(
        R_b_c=R,
        time_offset_s=offset_s,
        cov=robust_covariance(information, gradients, excess),
        variance_ratio=misfit / dof,
        gain=(nominal_misfit - misfit) / excess,
        # The noise level is unknown: likelihood is a power of the misfit, at least nominal noise.
        mirror_ratio=0.5 * dof * float(np.log(max(misfit, dof) / max(mirror_misfit, dof))),
        is_camera_still=bool(
            camera <= chi2_quantile(numbers, 1.0 - STILL_SIGNIFICANCE)
            and body > STILL_RATIO * max(camera, numbers)
        ),
        inverse_scale=inverse_scale,
        cov_inverse_scale=cov_inverse_scale,
    )


def _moved(products: Array, offset_s: float) -> Array:
    """(..., 6, 6) products of the camera's rates and the gyroscope's at a time offset."""
    A = np.eye(6, 9)
    A[BODY, CHANGE] = offset_s * np.eye(3)
    return np.asarray(A @ products @ A.T)


def _best_rotation(body_camera: Array, R_nominal: Array, sign: float) -> Array:
    """The rotation, or with sign -1 the mirroring, that carries the camera's rates best."""
    U, _, Vt = np.linalg.svd(body_camera + PRIOR_WEIGHT * R_nominal)
    return np.asarray(U @ np.diag([1.0, 1.0, sign * np.linalg.det(U @ Vt)]) @ Vt)


def _best_offset_s(total: Array, R: Array) -> float:
    """Time offset at which the rates fit best, given the rotation [s]."""
    missing = np.sum(R * total[CHANGE, CAMERA]) - np.trace(total[CHANGE, BODY])
    information = np.trace(total[CHANGE, CHANGE]) + UNKNOWN.camera_clock_s**-2.0
    return float(missing / information)


def _misfit(total: Array, R: Array, offset_s: float) -> float:
    """Chi-square of gyroscope + offset derivative - R camera."""
    moved = _moved(total, offset_s)
    return float(np.trace(moved) - 2.0 * np.sum(R * moved[BODY, CAMERA]))


def _information(total: Array, R: Array, offset_s: float) -> Array:
    """(4, 4) from products of both sensors, whose noises are independent: noise alone is none."""
    S = symmetrize(_moved(total, offset_s)[BODY, CAMERA] @ R.T)
    information = np.zeros((4, 4))
    information[:3, :3] = np.trace(S) * np.eye(3) - S + PRIOR_WEIGHT * np.eye(3)
    information[:3, 3] = information[3, :3] = -_axial(total[CHANGE, CAMERA] @ R.T)
    information[3, 3] = np.trace(total[CHANGE, CHANGE]) + UNKNOWN.camera_clock_s**-2.0
    # Where there is no motion, products of noise may have any sign.
    values, vectors = np.linalg.eigh(information)
    return np.asarray((vectors * np.maximum(values, PRIOR_WEIGHT)) @ vectors.T)


def _gradients(sums: RotationSums, R: Array, offset_s: float) -> Array:
    """(B, 4) half the derivative of each block's misfit by [rotation, offset]."""
    by_rotation = -_axial(_moved(sums.products, offset_s)[:, BODY, CAMERA] @ R.T)
    # Residual = gyroscope - R camera + offset * derivative.
    J = np.hstack([np.eye(3), -R, offset_s * np.eye(3)])
    by_offset = np.trace(J @ sums.products[:, :, CHANGE], axis1=1, axis2=2)
    return np.concatenate([by_rotation, by_offset[:, None]], axis=1)


def _inverse_scale(
    sums: RotationSums, R: Array, offset_s: float, excess: float
) -> tuple[Array, Array]:
    """Factor on each axis of the gyroscope that fits the camera's rates best, and its covariance.

    The factor is on the gyroscope's side: noise of the camera, which is larger, would pull it
    towards zero on the other.
    """
    moved = _moved(sums.products, offset_s)
    body = np.diagonal(moved[:, BODY, BODY], axis1=1, axis2=2)
    camera = np.diagonal(moved[:, BODY, CAMERA] @ R.T, axis1=1, axis2=2)
    information = body.sum(axis=0) + SCALE_WEIGHT
    inverse = (camera.sum(axis=0) + SCALE_WEIGHT) / information
    return inverse, robust_covariance(np.diag(information), camera - inverse * body, excess)


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
    compared = [compare_rotations(imu, run, rule) for run in runs_of(windows)]
    if not compared:
        return None
    sums = RotationSums(*map(np.concatenate, zip(*(one.sums for one in compared), strict=True)))
    rotation = estimate_rotation(sums, T_b_c[:3, :3])
    within = _with_nominal(rotation.variance_ratio, float(sums.dof.sum()))
    jumps = np.concatenate([_squared_jumps(one, rotation.R_b_c) for one in compared])
    between = _with_nominal(float(jumps.mean()) if jumps.size else 1.0, float(jumps.size))
    vision, gyro = np.sum([one.variances for one in compared], axis=0)
    factor = max(within, between) * (vision + gyro) / vision
    count = sum(len(one.run.measured) for one in compared)
    return RotationNoise(float(np.clip(factor, LEAST_FACTOR, 1.0)), count)


def _squared_jumps(compared: RotationComparison, R_b_c: Array) -> Array:
    """(W - 1, 3) squared change of the bias from each window to the next, over its variance."""
    variances = compared.std[1:] ** 2 + compared.std[:-1] ** 2
    return np.asarray(np.diff(compared.biases(R_b_c), axis=0) ** 2 / variances[:, None])


def _with_nominal(ratio: float, numbers: float) -> float:
    return (numbers * ratio + NOMINAL_DOF) / (numbers + NOMINAL_DOF)
