"""Motion between two stereo frames from matched points, with covariance (Eq. 5 and 6).

A match is six numbers [px]: where the point is in the left image of frame k (chosen, so without
error), where it was found in frame k+1, and both disparities. What errs is (u1, v1, d0, d1), with
one 4x4 covariance per match: its blocks are the two point covariances of Eq. 5 and its cross terms
what the two frames' errors have in common.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maci2.gaussian import chi2_quantile
from maci2.lie import se3
from maci2.types import Array
from maci2.vision.two_frame_kernel import gauss_newton, in_columns, matches_last

Which = NDArray[np.intp] | NDArray[np.bool_]

ROBUST_NORM = 3.0
"""Mahalanobis norm at which a match's weight has dropped to a half (Cauchy)."""

INLIER_CHI2 = chi2_quantile(3, 0.999)
"""Squared Mahalanobis norm below which a match fits: 99.9 % of chi-square with 3 dof."""

ROBUST_FACTOR = 0.8066
"""Factor on H^-1 for Gaussian errors under the robust loss. It lowers every weight (mean 0.776), so
that H is too small by more than the loss costs in accuracy (4 %). With psi(u) = w(|u|^2) u of a
whitened residual in three dimensions it is E[w] E[w^2 |u|^2 / 3] / E[w + 2/3 w' |u|^2]^2."""


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
    d0, d1 = np.ascontiguousarray(matches.disparity0), np.ascontiguousarray(matches.disparity1)
    lens = (camera.focal, camera.center, camera.baseline)
    T, H, weights, chi2, converged = gauss_newton(
        in_columns(np.ascontiguousarray(matches.uv0), d0, *lens),
        in_columns(np.ascontiguousarray(matches.uv1), d1, *lens),
        d0,
        d1,
        matches_last(np.ascontiguousarray(covs)),
        camera.focal,
        np.eye(4) if T_ck_ck1 is None else np.ascontiguousarray(T_ck_ck1),
        ROBUST_NORM,
    )
    # Products of many rotations drift off the group by rounding; one Newton step puts them back.
    R = T[:3, :3]
    T = se3(1.5 * R - 0.5 * R @ R.T @ R, T[:3, 3])
    cov = np.asarray(ROBUST_FACTOR * np.linalg.inv(H), np.float64)
    return TwoFrame(T, cov, weights, chi2, bool(converged))


def residual_terms(
    T_ck_ck1: Array, matches: Matches, covs: Array, camera: PinholePair
) -> tuple[Array, Array, Array]:
    """Residuals p0 - T p1 of matches at any pose (n, 3), their covariances (n, 3, 3), and T p1."""
    R, t = T_ck_ck1[:3, :3], T_ck_ck1[:3, 3]
    p0 = points(matches.uv0, matches.disparity0, camera)
    p1 = points(matches.uv1, matches.disparity1, camera)
    moved = p1 @ R.T
    D = np.empty((len(matches), 3, 4))
    D[:, :, :2] = -R[:, :2] * (p1[:, 2] / camera.focal)[:, None, None]
    D[:, :, 2] = -p0 / matches.disparity0[:, None]
    D[:, :, 3] = moved / matches.disparity1[:, None]
    return p0 - moved - t, D @ covs @ np.swapaxes(D, 1, 2), moved + t


def residual_chi2(T_ck_ck1: Array, matches: Matches, covs: Array, camera: PinholePair) -> Array:
    """(n,) squared Mahalanobis norms of the residuals p0 - T p1 of matches at any pose."""
    r, cov_r, _ = residual_terms(T_ck_ck1, matches, covs, camera)
    whitened = np.linalg.solve(cov_r, r[:, :, None])[:, :, 0]
    return np.asarray((r * whitened).sum(axis=1), np.float64)
