"""Errors that all points of a step share, and what they do to its pose.

Eq. 6 averages match errors as if they were independent. Lens, rectification, baseline and stamps
err for all points alike, so more points do not help. Each is a parameter theta with a known spread;
the pose answers to it by -H^-1 sum_i J_i^T W_i dr_i/dtheta, the algebra that made the pose.
All of it cancels at rest, where both frames err alike; only the steadiness of the image remains.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from maci2.gaussian import Array, symmetrize
from maci2.lie import se3_log
from maci2.vision.two_frame import (
    Matches,
    PinholePair,
    TwoFrame,
    information,
    points,
    residual_derivative,
)


@dataclass(frozen=True)
class SharedErrors:
    """Spreads (standard deviations) of what a calibrated rig does not know about itself."""

    calibration_px: float = 0.02
    """Smooth error of a pixel's direction, per axis, beyond what stereo rows show of it."""

    baseline: float = 0.001
    """Relative: 0.1 mm of 0.1 m."""

    stamp_s: float = 5e-5
    """Of the middle of an exposure against its stamp, for cameras triggered by hardware."""

    rough: tuple[float, float] = (0.68, 0.84)
    """How far a pixel of excess row scatter turns and moves all points of a step together [px]:
    lens and resampling errors too rough for a smooth field. Measured on drawn images whose
    rectification was spoiled by random fields of patch size (20 px); fields of 40 to 80 px, which
    the smooth part covers, give 1.6 to 2.1."""

    steadiness_px: float = 0.04
    """Shift of a whole image at rest: pixel locking of the matcher, the sensor's fixed pattern, the
    mount's vibration. It turns the camera."""


DRAWN_SCATTER_PX = 0.08
"""Scatter of stereo rows in drawn images, whose calibration is exact."""

CROSSING_PX = 2.0
"""Motion over which rough errors have become those of other pixels."""

NO_SHARED_ERRORS = SharedErrors(0.0, 0.0, 0.0, (0.0, 0.0), 0.0)


def shared_covariance(
    errors: SharedErrors,
    matches: Matches,
    covs: Array,
    pose: TwoFrame,
    camera: PinholePair,
    row_errors: Array,
    dt: float,
) -> Array:
    """(6, 6) to add to Eq. 6, left, [rho, phi]; `row_errors` (n,) are what stereo rows disagree by
    [px], `dt` the length of the step [s]."""
    if errors == NO_SHARED_ERRORS:
        return np.zeros((6, 6))
    p0 = points(matches.uv0, matches.disparity0, camera)
    p1 = points(matches.uv1, matches.disparity1, camera)
    pulls, derivatives = _pulls(
        pose.T_ck_ck1, p0, p1, matches.disparity0, matches.disparity1,
        np.ascontiguousarray(covs), camera.focal, pose.weights,
    )  # fmt: skip
    # A row error is the difference of two cameras' errors.
    smooth = row_disagreement(matches.uv0, row_errors, camera)
    pixel = float(np.hypot(errors.calibration_px, smooth / np.sqrt(2.0)))
    by_theta = np.concatenate(
        [
            pixel * _lens(matches, p0, derivatives, camera),
            np.sqrt(2.0) * pixel * _disparity(matches, derivatives, camera),
            errors.baseline * (p0 - p1 @ pose.T_ck_ck1[:3, :3].T)[:, :, None],
        ],
        axis=2,
    )
    answer = -pose.cov @ np.einsum("nik,nkm->im", pulls, by_theta)
    total = answer @ answer.T + _stamps(errors.stamp_s, pose.T_ck_ck1, dt)
    total[3:, 3:] += (errors.steadiness_px / camera.focal) ** 2 * np.eye(3)
    shift = _rough_shift(matches, row_errors) / camera.focal
    turn, move = errors.rough
    # A shift of all points is a turn of the camera, or a move at the depth of the points.
    total[3:, 3:] += (turn * shift) ** 2 * np.eye(3)
    total[:3, :3] += (move * shift * float(np.median(p0[:, 2]))) ** 2 * np.eye(3)
    return symmetrize(total)


def row_scatter(row_errors: Array) -> float:
    """Robust standard deviation of stereo row errors about their median [px]."""
    return 1.4826 * float(np.median(np.abs(row_errors - np.median(row_errors))))


def _rough_shift(matches: Matches, row_errors: Array) -> float:
    """Excess scatter of the rows [px], as far as points have moved to other pixels."""
    excess = np.sqrt(max(row_scatter(row_errors) ** 2 - DRAWN_SCATTER_PX**2, 0.0))
    moved = float(np.median(np.linalg.norm(matches.uv1 - matches.uv0, axis=1)))
    return float(excess * (1.0 - np.exp(-moved / CROSSING_PX)))


def row_disagreement(uv: Array, row_errors: Array, camera: PinholePair) -> float:
    """Size of the smooth part of the stereo row errors [px], which a true calibration has not.

    The same lens errors act along the rows, where they cannot be told from depth.
    """
    basis = _basis(uv, camera, degree=2)
    if len(uv) < 4 * basis.shape[1]:
        return float(abs(np.median(row_errors))) if len(uv) else 0.0
    weights = np.ones(len(uv))
    for _ in range(5):
        scaled = basis * weights[:, None]
        fit = basis @ np.linalg.lstsq(scaled, row_errors * weights, rcond=None)[0]
        rest = row_errors - fit
        spread = max(1.4826 * float(np.median(np.abs(rest))), 1e-3)
        weights = 1.0 / np.sqrt(1.0 + (rest / (2.0 * spread)) ** 2)
    noise = basis.shape[1] * spread**2 / len(uv)
    return float(np.sqrt(max(np.mean(fit**2) - noise, 0.0)))


def _basis(uv: Array, camera: PinholePair, degree: int) -> Array:
    """(n, m) smooth fields over the image whose squares add up to about one."""
    x, y = ((uv - np.array(camera.center)) / camera.center[0]).T
    fields = [x**i * y**j for i in range(degree + 1) for j in range(degree + 1 - i)]
    return np.column_stack(fields) / np.sqrt(1.5)


def _lens(matches: Matches, p0: Array, derivatives: Array, camera: PinholePair) -> Array:
    """(n, 3, m) residuals by smooth errors of pixel direction, the same in both frames."""
    at0, at1 = (_basis(uv, camera, degree=3) for uv in (matches.uv0, matches.uv1))
    columns = []
    for axis in range(2):
        by_pixel0 = np.zeros((len(matches), 3))
        by_pixel0[:, axis] = p0[:, 2] / camera.focal
        by_pixel1 = derivatives[:, :, axis]
        columns.append(by_pixel0[:, :, None] * at0[:, None] + by_pixel1[:, :, None] * at1[:, None])
    return np.concatenate(columns, axis=2)


def _disparity(matches: Matches, derivatives: Array, camera: PinholePair) -> Array:
    """(n, 3, m) residuals by smooth errors of disparity, the same in both frames."""
    at0, at1 = (_basis(uv, camera, degree=2) for uv in (matches.uv0, matches.uv1))
    return derivatives[:, :, 2, None] * at0[:, None] + derivatives[:, :, 3, None] * at1[:, None]


def _stamps(stamp_s: float, T_ck_ck1: Array, dt: float) -> Array:
    """Both stamps err by their own time, during which the camera moves on.

    The velocity at the ends is known only as that of the whole step, so its spread is taken as
    large as itself, in any direction.
    """
    twist = se3_log(T_ck_ck1) / dt
    total = np.outer(twist, twist)
    total[:3, :3] += (twist[:3] @ twist[:3]) / 3.0 * np.eye(3)
    total[3:, 3:] += (twist[3:] @ twist[3:]) / 3.0 * np.eye(3)
    return 2.0 * stamp_s**2 * total


@njit(cache=True)
def _pulls(
    T: Array,
    p0: Array,
    p1: Array,
    d0: Array,
    d1: Array,
    covs: Array,
    focal: float,
    weights: Array,
) -> tuple[Array, Array]:
    """(n, 6, 3) w J^T W of every match, and its (n, 3, 4) derivative by (u1, v1, d0, d1)."""
    n = len(p0)
    pulls, derivatives = np.empty((n, 6, 3)), np.empty((n, 3, 4))
    R = np.ascontiguousarray(T[:3, :3])
    for k in range(n):
        D = residual_derivative(R, p0[k], p1[k], d0[k], d1[k], focal)
        W = information(D, covs[k])
        q = R @ np.ascontiguousarray(p1[k]) + T[:3, 3]
        for j in range(3):
            pulls[k, 0, j] = -weights[k] * W[0, j]
            pulls[k, 1, j] = -weights[k] * W[1, j]
            pulls[k, 2, j] = -weights[k] * W[2, j]
            # [q]x^T W = -[q]x W.
            pulls[k, 3, j] = weights[k] * (q[2] * W[1, j] - q[1] * W[2, j])
            pulls[k, 4, j] = weights[k] * (q[0] * W[2, j] - q[2] * W[0, j])
            pulls[k, 5, j] = weights[k] * (q[1] * W[0, j] - q[0] * W[1, j])
        derivatives[k] = D
    return pulls, derivatives
