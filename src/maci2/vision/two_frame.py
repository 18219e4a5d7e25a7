"""Motion between two stereo frames from matched points, with covariance (Eq. 5 and 6).

A match is six numbers [px]: where the point is in the left image of frame k (chosen, so without
error), where it was found in frame k+1, and both disparities. What errs is (u1, v1, d0, d1), with
one 4x4 covariance per match: its blocks are the two point covariances of Eq. 5 and its cross terms
what the two frames' errors have in common.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from maci2.gaussian import Array
from maci2.lie import se3, se3_exp

Which = NDArray[np.intp] | NDArray[np.bool_]

ROBUST_NORM = 3.0
"""Mahalanobis norm at which a match's weight has dropped to a half (Cauchy)."""

INLIER_CHI2 = 16.27
"""Squared Mahalanobis norm below which a match fits: 99.9 % of chi-square with 3 dof."""

ROBUST_FACTOR = 0.8066
"""Of Gaussian errors: what the robust loss makes of H^-1. It lowers every weight (mean 0.776), so
that H is too small by more than the loss costs in accuracy (4 %). With psi(u) = w(|u|^2) u of a
whitened residual in three dimensions it is E[w] E[w^2 |u|^2 / 3] / E[w + 2/3 w' |u|^2]^2."""

MAX_ITERATIONS = 50
COST_SLACK = 0.01
"""The covariances move with the rotation, so the cost may rise a little towards the answer."""
STEP_TOLERANCE = 1e-3
"""Standard deviations of the pose; reweighting converges only linearly, so no less is asked."""


@dataclass(frozen=True)
class PinholePair:
    """The rectified stereo camera: all that geometry needs of it."""

    focal: float
    center: tuple[float, float]
    baseline: float


@dataclass(frozen=True)
class Matches:
    """n points seen by both cameras in both frames."""

    uv0: Array
    """(n, 2) in the left image of frame k [px]."""

    uv1: Array
    """(n, 2) in the left image of frame k+1 [px]."""

    disparity0: Array
    """(n,) u_left - u_right in frame k [px], above 0."""

    disparity1: Array
    """(n,) the same in frame k+1."""

    def __len__(self) -> int:
        return len(self.uv0)

    def take(self, which: Which) -> "Matches":
        """Some of them, by index or mask."""
        return Matches(
            self.uv0[which], self.uv1[which], self.disparity0[which], self.disparity1[which]
        )


@dataclass(frozen=True)
class TwoFrame:
    """The pose that fits the matches best."""

    T_ck_ck1: Array
    cov: Array
    """(6, 6) Eq. 6: H^-1 times `ROBUST_FACTOR`, left, [rho, phi]; for independent matches."""

    weights: Array
    """(n,) 0..1, what the robust loss left of each match."""

    chi2: Array
    """(n,) squared Mahalanobis norms of the residuals."""

    converged: bool

    @property
    def inliers(self) -> int:
        return int((self.chi2 < INLIER_CHI2).sum())


def points(uv: Array, disparity: Array, camera: PinholePair) -> Array:
    """(n, 3) in the left camera frame [m]."""
    z = camera.focal * camera.baseline / disparity
    center = np.array(camera.center)
    return np.column_stack([(uv - center) / camera.focal * z[:, None], z])


def point_covariances(p: Array, disparity: Array, covs_uvd: Array, focal: float) -> Array:
    """(n, 3, 3) of points whose pixel and disparity have covariances (n, 3, 3) [px^2]."""
    D = np.zeros((len(p), 3, 3))
    D[:, 0, 0] = D[:, 1, 1] = p[:, 2] / focal
    D[:, :, 2] = -p / disparity[:, None]
    return D @ covs_uvd @ np.swapaxes(D, 1, 2)


def two_frame_pose(
    matches: Matches, covs: Array, camera: PinholePair, T_ck_ck1: Array | None = None
) -> TwoFrame:
    """Minimise Eq. 5 over the pose; `covs` are (n, 4, 4) of (u1, v1, d0, d1) [px^2]."""
    p0 = points(matches.uv0, matches.disparity0, camera)
    p1 = points(matches.uv1, matches.disparity1, camera)
    start = np.eye(4) if T_ck_ck1 is None else T_ck_ck1
    T, H, weights, chi2, converged = _solve(
        p0, p1, matches.disparity0, matches.disparity1, np.ascontiguousarray(covs), camera.focal,
        np.ascontiguousarray(start), ROBUST_NORM,
    )  # fmt: skip
    cov = np.asarray(ROBUST_FACTOR * np.linalg.inv(H), np.float64)
    return TwoFrame(T, cov, weights, chi2, bool(converged))


@njit(cache=True, fastmath=True)
def residual_derivative(
    R: Array, p0: Array, p1: Array, d0: float, d1: float, focal: float, D: Array
) -> None:
    """Fill D (3, 4), derivative of p0 - T p1 by (u1, v1, d0, d1)."""
    for i in range(3):
        D[i, 0] = -R[i, 0] * p1[2] / focal
        D[i, 1] = -R[i, 1] * p1[2] / focal
        D[i, 2] = -p0[i] / d0
        D[i, 3] = (R[i, 0] * p1[0] + R[i, 1] * p1[1] + R[i, 2] * p1[2]) / d1


@njit(cache=True, fastmath=True)
def _information(D: Array, cov: Array, W: Array) -> None:
    """Fill W (3, 3) with the inverse of D cov D^T."""
    S = W
    for j in range(3):
        c0 = cov[0, 0] * D[j, 0] + cov[0, 1] * D[j, 1] + cov[0, 2] * D[j, 2] + cov[0, 3] * D[j, 3]
        c1 = cov[1, 0] * D[j, 0] + cov[1, 1] * D[j, 1] + cov[1, 2] * D[j, 2] + cov[1, 3] * D[j, 3]
        c2 = cov[2, 0] * D[j, 0] + cov[2, 1] * D[j, 1] + cov[2, 2] * D[j, 2] + cov[2, 3] * D[j, 3]
        c3 = cov[3, 0] * D[j, 0] + cov[3, 1] * D[j, 1] + cov[3, 2] * D[j, 2] + cov[3, 3] * D[j, 3]
        for i in range(j + 1):
            S[i, j] = D[i, 0] * c0 + D[i, 1] * c1 + D[i, 2] * c2 + D[i, 3] * c3
    a, b, c, d, e, f = S[0, 0], S[0, 1], S[0, 2], S[1, 1], S[1, 2], S[2, 2]
    # The adjugate of a symmetric matrix over its determinant.
    w00, w01, w02 = d * f - e * e, c * e - b * f, b * e - c * d
    scale = 1.0 / (a * w00 + b * w01 + c * w02)
    W[0, 0] = w00 * scale
    W[0, 1] = W[1, 0] = w01 * scale
    W[0, 2] = W[2, 0] = w02 * scale
    W[1, 1] = (a * f - c * c) * scale
    W[1, 2] = W[2, 1] = (b * c - a * e) * scale
    W[2, 2] = (a * d - b * b) * scale


@njit(cache=True, fastmath=True)
def accumulate(H: Array, g: Array, q: Array, W: Array, Wr: Array, weight: float, M: Array) -> None:
    """Add J^T W J and J^T W r of one match, J = [-I, [q]x] with q = T p1 (Eq. 75).

    Rows of W [q]x are W_i x q, columns of [q]x^T M are M_j x q. H above its diagonal only.
    """
    for i in range(3):
        M[i, 0] = W[i, 1] * q[2] - W[i, 2] * q[1]
        M[i, 1] = W[i, 2] * q[0] - W[i, 0] * q[2]
        M[i, 2] = W[i, 0] * q[1] - W[i, 1] * q[0]
    for i in range(3):
        for j in range(i, 3):
            H[i, j] += weight * W[i, j]
        for j in range(3):
            H[i, 3 + j] -= weight * M[i, j]
        g[i] -= weight * Wr[i]
    for j in range(3):
        H[3, 3 + j] += weight * (M[1, j] * q[2] - M[2, j] * q[1])
        H[4, 3 + j] += weight * (M[2, j] * q[0] - M[0, j] * q[2])
        H[5, 3 + j] += weight * (M[0, j] * q[1] - M[1, j] * q[0])
    g[3] += weight * (Wr[1] * q[2] - Wr[2] * q[1])
    g[4] += weight * (Wr[2] * q[0] - Wr[0] * q[2])
    g[5] += weight * (Wr[0] * q[1] - Wr[1] * q[0])


@njit(cache=True, fastmath=True)
def _linearize(
    T: Array,
    p0: Array,
    p1: Array,
    d0: Array,
    d1: Array,
    covs: Array,
    focal: float,
    robust: float,
    weights: Array,
    chi2: Array,
) -> tuple[Array, Array, float]:
    """H, gradient and robust cost at T; weights are rebuilt with its rotation."""
    H, g = np.zeros((6, 6)), np.zeros(6)
    R = np.ascontiguousarray(T[:3, :3])
    D, W, M = np.empty((3, 4)), np.empty((3, 3)), np.empty((3, 3))
    q, r, Wr = np.empty(3), np.empty(3), np.empty(3)
    cost = 0.0
    for n in range(len(p0)):
        for i in range(3):
            q[i] = R[i, 0] * p1[n, 0] + R[i, 1] * p1[n, 1] + R[i, 2] * p1[n, 2] + T[i, 3]
            r[i] = p0[n, i] - q[i]
        residual_derivative(R, p0[n], p1[n], d0[n], d1[n], focal, D)
        _information(D, covs[n], W)
        m2 = 0.0
        for i in range(3):
            Wr[i] = W[i, 0] * r[0] + W[i, 1] * r[1] + W[i, 2] * r[2]
            m2 += r[i] * Wr[i]
        chi2[n] = m2
        weights[n] = 1.0 / (1.0 + m2 / (robust * robust))
        cost += robust * robust * math.log1p(m2 / (robust * robust))
        accumulate(H, g, q, W, Wr, weights[n], M)
    for i in range(6):
        for j in range(i):
            H[i, j] = H[j, i]
    return H, g, cost


@njit(cache=True)
def _solve(
    p0: Array,
    p1: Array,
    d0: Array,
    d1: Array,
    covs: Array,
    focal: float,
    start: Array,
    robust: float,
) -> tuple[Array, Array, Array, Array, bool]:
    """Gauss-Newton with damping where the robust cost rises."""
    weights, chi2 = np.empty(len(p0)), np.empty(len(p0))
    T = start.copy()
    H, g, cost = _linearize(T, p0, p1, d0, d1, covs, focal, robust, weights, chi2)
    damping, converged, rejected = 0.0, False, False
    for _ in range(MAX_ITERATIONS):
        damped = H.copy()
        for i in range(6):
            damped[i, i] *= 1.0 + damping
            damped[i, i] += 1e-12
        step = np.linalg.solve(damped, -g).astype(np.float64)
        # A damped step is small for other reasons.
        if damping < 1e-3 and step @ (H @ step) < STEP_TOLERANCE * STEP_TOLERANCE:
            converged = True
            break
        T_new = np.ascontiguousarray(se3_exp(step)) @ T
        H_new, g_new, cost_new = _linearize(
            T_new, p0, p1, d0, d1, covs, focal, robust, weights, chi2
        )
        rejected = cost_new > cost * (1.0 + COST_SLACK)
        if rejected:
            damping = 1e-4 if damping == 0.0 else damping * 10.0
        else:
            T, H, g, cost = T_new, H_new, g_new, cost_new
            damping = 0.0 if damping < 1e-6 else damping * 0.1
    if rejected:
        # Weights are still those of the pose that was turned down.
        _linearize(T, p0, p1, d0, d1, covs, focal, robust, weights, chi2)
    R = np.ascontiguousarray(T[:3, :3])
    # Products of many rotations drift off the group by rounding; one Newton step puts them back.
    R = 1.5 * R - 0.5 * (R @ np.ascontiguousarray(R.T) @ R)
    return se3(R, T[:3, 3].copy()), H, weights, chi2, converged
