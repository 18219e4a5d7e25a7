"""Normal equations of poses and points that two rectified cameras see; points are eliminated."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maci2.types import Array, Mask
from maci2.vision.two_frame import ROBUST_NORM

NEAREST = 1e-2
"""[m] Points nearer to a camera, or behind it, are seen as if they were this near."""


@dataclass(frozen=True)
class Views:
    """What two cameras see of p points from n keyframes."""

    seen: Mask
    """(2, p, n) left and right."""

    xy: Array
    """(2, p, n, 2) normalized coordinates; zero where not seen."""

    whiten: Array
    """(2, p, n, 2, 2) inverse Cholesky factors of their covariances; zero where not seen."""

    baseline: float
    """[m]"""

    def only(self, points: Mask) -> "Views":
        """Some of the points."""
        return Views(
            self.seen[:, points], self.xy[:, points], self.whiten[:, points], self.baseline
        )

    def without(self, rejected: Mask) -> "Views":
        """Without some of the observations (2, p, n)."""
        kept = self.seen & ~rejected
        whiten = np.where(kept[..., None, None], self.whiten, 0.0)
        return replace(self, seen=kept, whiten=whiten)


class Equations(NamedTuple):
    """Normal equations of n poses and p points; the first pose is held."""

    H: Array
    """(6 n - 6, 6 n - 6)"""
    b: Array
    V: Array
    """(p, 3, 3) of the points."""
    W: Array
    """(p, 3, 6 n - 6) between points and poses."""
    b_points: Array
    cost: float
    chi2: Array
    """(2, p, n) squared Mahalanobis norms of the residuals; zero where not seen."""


def linearize(views: Views, Ts_c_c0: Array, points: Array, robust: bool) -> Equations:
    """Normal equations about poses T_ck_c0, perturbed on the left, and points in c0."""
    r, by_pose, by_point = residuals(views, Ts_c_c0, points)
    chi2 = (r**2).sum(axis=-1)
    cost = float(chi2.sum())
    if robust:
        grown = 1.0 + chi2 / ROBUST_NORM**2
        cost = float(ROBUST_NORM**2 * np.log(grown).sum())
        root = 1.0 / np.sqrt(grown)
        r = r * root[..., None]
        by_pose, by_point = (J * root[..., None, None] for J in (by_pose, by_point))
    p, n = points.shape[0], len(Ts_c_c0)
    # Rows of both cameras and coordinates on one axis: (p, n, 4, ...).
    r, by_pose, by_point = (
        np.moveaxis(a, 0, 2).reshape(p, n, 4, -1) for a in (r, by_pose, by_point)
    )
    pose_t, point_t = np.swapaxes(by_pose, 2, 3), np.swapaxes(by_point, 2, 3)
    H = np.zeros((n, 6, n, 6))
    every = np.arange(n)
    H[every, :, every, :] = (pose_t @ by_pose).sum(axis=0)
    b = -(pose_t @ r)[..., 0].sum(axis=0)
    W = np.moveaxis(point_t @ by_pose, 1, 2).reshape(p, 3, 6 * n)
    return Equations(
        H.reshape(6 * n, 6 * n)[6:, 6:],
        b.ravel()[6:],
        (point_t @ by_point).sum(axis=1),
        W[:, :, 6:],
        -(point_t @ r)[..., 0].sum(axis=1),
        cost,
        chi2,
    )


def residuals(views: Views, Ts_c_c0: Array, points: Array) -> tuple[Array, Array, Array]:
    """Whitened residuals (2, p, n, 2), zero where not seen, and their derivatives by the pose
    (2, p, n, 2, 6), [rho, phi], and by the point (2, p, n, 2, 3)."""
    R = Ts_c_c0[:, :3, :3]
    q = np.einsum("kij,pj->pki", R, points) + Ts_c_c0[:, :3, 3]
    in_camera = np.stack([q, q - np.array([views.baseline, 0.0, 0.0])])
    inverse = 1.0 / np.maximum(in_camera[..., 2], NEAREST)
    xy = in_camera[..., :2] * inverse[..., None]
    r = (views.whiten @ (xy - views.xy)[..., None])[..., 0]
    by_q = np.zeros((*xy.shape, 3))
    by_q[..., 0, 0] = by_q[..., 1, 1] = inverse
    by_q[..., 2] = -xy * inverse[..., None]
    by_q = views.whiten @ by_q
    # q moves by rho + phi x q: row . (phi x q) = (q x row) . phi.
    by_phi = np.cross(q[None, :, :, None, :], by_q)
    return r, np.concatenate([by_q, by_phi], axis=-1), by_q @ R


def reduced(now: Equations, damping: float) -> tuple[Array, Array, Array]:
    """Normal equations of the poses after the points are eliminated, and inverse point blocks."""
    V = now.V * (1.0 + damping * np.eye(3))
    V_inv = np.asarray(np.linalg.inv(V), np.float64)
    flat = now.W.reshape(-1, now.W.shape[-1])
    H = now.H + damping * np.diag(np.diag(now.H)) - flat.T @ (V_inv @ now.W).reshape(flat.shape)
    b = now.b - flat.T @ (V_inv @ now.b_points[:, :, None]).ravel()
    return H, b, V_inv


def solve(now: Equations, damping: float) -> tuple[Array, Array]:
    H, b, V_inv = reduced(now, damping)
    step = np.asarray(np.linalg.solve(H, b), np.float64)
    return step, (V_inv @ (now.b_points - now.W @ step)[:, :, None])[:, :, 0]
