"""Where the camera points and whose clock is ahead, from rotation rates summed over windows.

A rotation vector of the camera, expressed in the body, is R_b_c times itself; a constant gyroscope
bias drops out with each window's mean. What remains is Wahba's problem, whose data are one 3x3
matrix: windows add up, and no guess of the rotation is needed (Eq. 8 without its start).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.gaussian import chi2_quantile
from maci2.imu import GAMMA, ImuMeasurements, Rule, preintegrate
from maci2.lie.stacks import so3_log_stack
from maci2.premises.robust_covariance import robust_covariance
from maci2.premises.robust_weights import inliers
from maci2.premises.runs import Run
from maci2.types import NS, Array, Mask

SHIFT_S = 0.004
"""Time by which keyframes are moved to see how rates change with a time offset [s]."""

PRIOR_WEIGHT = 1.0 / np.pi**2
"""Information on a rotation of which nothing is known: within half a revolution [1/rad^2]."""

SCALE_WEIGHT = 1.0
"""Information on the scale of a gyroscope's axis of which nothing is known: within 100 %."""

ROUNDS = 3
"""Iterations between rotation and time offset, and between rotation and outliers."""


STILL = 0.01
"""Probability that the noise of a stationary camera exceeds the threshold below which rotation
counts as noise."""

MUCH = 10.0
"""Times the camera's rates, squared, that the gyroscope shows where the camera is still."""

NOTHING = 1e-9
"""Weight of a window without usable rotation; others have weights of 1e4 and more."""


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
    """What rotations need to give each window's gyroscope bias, once the extrinsics are known."""

    mean_body: Array
    """(W, 3) mean rate of the gyroscope [rad/s]."""

    mean_camera: Array
    """(W, 3) mean rate of the camera, in its own frame [rad/s]."""

    std: Array
    """(W,) of their difference [rad/s]."""

    def biases(self, R_b_c: Array) -> Array:
        """(W, 3) difference between gyroscope and rotation of the camera [rad/s]."""
        return self.mean_body - self.mean_camera @ R_b_c.T


def rotation_sums(
    imu: ImuMeasurements, run: Run, rule: Rule
) -> tuple[RotationSums, WindowBiases, Mask]:
    """Sums of a run of windows, the means that they are centred by, and (W, m) which relative
    poses are in them."""
    prior = imu.bias_prior
    pre = preintegrate(imu, run.stamps_ns, prior.mean_gyro, prior.mean_acc, rule)
    dt = run.stacked(pre.dt)
    body = run.stacked(so3_log_stack(pre.gamma) / pre.dt[:, None])
    camera = so3_log_stack(run.Ts_ck_ck1[..., :3, :3].reshape(-1, 3, 3)) / pre.dt[:, None]
    camera = run.stacked(camera)
    cov = run.covs_T_ck_ck1[..., 3:, 3:] + run.stacked(pre.cov[:, GAMMA, GAMMA])
    weights = np.where(run.measured, 3.0 * dt**2 / np.trace(cov, axis1=2, axis2=3), 0.0)
    weights = _without_outliers(body, camera, weights)
    change = run.stacked(_change_with_time(imu, run, rule))
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
    return sums, WindowBiases(prior.mean_gyro + means[0], means[1], std), weights > 0.0


def _centred(values: tuple[Array, ...], weights: Array) -> tuple[list[Array], list[Array]]:
    """Each (W, m, 3) less its window's weighted mean, and those means (W, 3)."""
    total = np.maximum(weights.sum(axis=1), NOTHING)[:, None]
    means = [np.einsum("wm,wmi->wi", weights, value) / total for value in values]
    return [value - mean[:, None] for value, mean in zip(values, means, strict=True)], means


def _without_outliers(body: Array, camera: Array, weights: Array) -> Array:
    """Weights with zeros where camera and gyroscope cannot have measured the same rotation.

    Angles first, which no extrinsics change; then what the run's own best rotation leaves.
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


def _change_with_time(imu: ImuMeasurements, run: Run, rule: Rule) -> Array:
    """(W m, 3) derivative of the gyroscope's mean rates by the time offset [rad/s^2].

    One-sided where samples end; zero where they cover the keyframes alone.
    """
    shift_ns = round(SHIFT_S * NS)
    first, last = int(run.stamps_ns[0]), int(run.stamps_ns[-1])
    earlier = -shift_ns if first - shift_ns >= imu.stamps_ns[0] else 0
    later = shift_ns if last + shift_ns <= imu.stamps_ns[-1] else 0
    if earlier == later:
        return np.zeros((run.measured.size, 3))
    prior = imu.bias_prior
    rates = []
    for moved_ns in (earlier, later):
        stamps_ns = run.stamps_ns + moved_ns
        pre = preintegrate(imu, stamps_ns, prior.mean_gyro, prior.mean_acc, rule)
        rates.append(so3_log_stack(pre.gamma) / pre.dt[:, None])
    return np.asarray((rates[1] - rates[0]) * NS / (later - earlier))


@dataclass(frozen=True)
class RotationEstimate:
    """Extrinsic rotation and time offset estimated from the rotation rates, independent of the
    stated ones."""

    R_b_c: Array
    """(3, 3)"""

    time_offset_s: float
    """IMU timestamp less camera timestamp, beyond what was applied already."""

    cov: Array
    """(4, 4) of [rotation (left) [rad], time offset [s]], model errors included."""

    variance_ratio: float
    """Variance found over variance stated."""

    gain: float
    """Decrease of chi-square from the stated rotation to this one, in units of the noise that was
    found: products of noise alone have a best rotation too."""

    mirror_ratio: float
    """Log likelihood ratio of a mirrored gyroscope or camera over the best rotation."""

    is_camera_still: bool
    """The camera shows no rotation beyond its noise where the gyroscope shows much."""

    inverse_scale: Array
    """(3,) true rate over the gyroscope's, axis by axis; 1 about axes that motion does not show."""

    cov_inverse_scale: Array
    """(3, 3), model errors included."""


def estimate_rotation(sums: RotationSums, R_stated: Array) -> RotationEstimate:
    """Solve Wahba's problem with a time offset; `R_stated` counts where no motion tells."""
    total = RotationSums(*(part.sum(axis=0) for part in sums))
    R, offset_s = R_stated, 0.0
    for _ in range(ROUNDS):
        R = _best_rotation(total.body_camera + offset_s * total.change_camera, R_stated, 1.0)
        offset_s = _best_offset_s(total, R)
    dof = max(int(total.dof) - 4, 1)
    misfit = _misfit(total, R, offset_s)
    variance_ratio = misfit / dof
    excess = max(variance_ratio, 1.0)
    mirror = _best_rotation(total.body_camera, R_stated, -1.0)
    mirror_misfit = _misfit(total, mirror, 0.0)
    # The noise level is unknown: likelihood is a power of the misfit, no better than stated noise.
    mirror_ratio = 0.5 * dof * float(np.log(max(misfit, dof) / max(mirror_misfit, dof)))
    cov = robust_covariance(_information(total, R, offset_s), _gradients(sums, R, offset_s), excess)
    stated_misfit = _misfit(total, R_stated, _best_offset_s(total, R_stated))
    gain = (stated_misfit - misfit) / excess
    scale = _inverse_scale(sums, R, offset_s, excess)
    still = _is_still(total)
    return RotationEstimate(R, offset_s, cov, variance_ratio, gain, mirror_ratio, still, *scale)


def _is_still(total: RotationSums) -> bool:
    """Whether the camera's rates are noise as stated and the gyroscope's are far more."""
    body, camera = total.squares[:2].sum(axis=-1)
    return bool(
        camera <= chi2_quantile(int(total.dof), 1.0 - STILL)
        and body > MUCH * max(camera, total.dof)
    )


def _best_rotation(body_camera: Array, R_stated: Array, sign: float) -> Array:
    """The rotation, or with sign -1 the mirroring, that carries the camera's rates best."""
    U, _, Vt = np.linalg.svd(body_camera + PRIOR_WEIGHT * R_stated)
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
    cov = robust_covariance(np.diag(information), fitted - inverse * moved, excess)
    return inverse, cov


def _axial(matrices: Array) -> Array:
    """(..., 3) a with a . theta = sum(matrix * [theta]x)."""
    m = matrices
    return np.stack(
        [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]],
        axis=-1,
    )
