"""Camera motion from tracks over all their keyframes at once: points are eliminated (bundle
adjustment of vision alone).

Eq. 5 takes two keyframes at a time. What it has of a point's depth is one disparity in each, whose
error is large and lopsided where the point is far, and the keyframe that two relative poses share
errs in both. Over a window the same point is seen again and again: errors of relative poses fall to
about a third. The relative poses of Eq. 5 are the initial guess, and stay where they are in doubt.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from maci2.feature_tracks.tracks import FeatureTracks, unit_rays
from maci2.geometry import se3_adj, se3_exp, se3_inv
from maci2.geometry.gaussian import chi2_quantile, symmetrize
from maci2.types import NS, Array, Mask
from maci2.vision.covariance import (
    EXACT_CALIBRATION,
    CalibrationUncertainty,
    calibration_covariance,
)
from maci2.vision.relative_pose import BEYOND_DOUBT, CONTAMINATION, RelativePose
from maci2.vision.two_frame import ROBUST_NORM

MIN_CONDITION = 1e-6
"""Smallest over largest eigenvalue of the rays' normal equations: below it they are parallel."""


def triangulate(rays_w: Array, centers_w: Array, seen: Mask) -> tuple[Array, Mask]:
    """(p, 3) points of unit rays (p, n, 3) from (n, 3), or (p, n, 3), where `seen`; and which of
    them are determined and lie in front of every camera that sees them."""
    across = np.eye(3) - rays_w[..., :, None] * rays_w[..., None, :]
    across = np.where(seen[..., None, None], across, 0.0)
    centers = np.broadcast_to(centers_w, rays_w.shape)
    H = across.sum(axis=1)
    b = np.einsum("pkij,pkj->pi", across, centers)
    values = np.linalg.eigvalsh(H)
    fine = values[:, 0] > MIN_CONDITION * values[:, 2]
    fine &= seen.sum(axis=1) >= 2
    points_w = np.zeros((len(rays_w), 3))
    points_w[fine] = np.linalg.solve(H[fine], b[fine, :, None])[:, :, 0]
    depths = np.einsum("pki,pki->pk", points_w[:, None, :] - centers, np.nan_to_num(rays_w))
    in_front = ((depths > 0.0) | ~seen).all(axis=1)
    return points_w, fine & in_front


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


OUTLIER_CHI2 = chi2_quantile(2, 0.999)
"""Squared Mahalanobis norm above which an observation is rejected: 99.9 % of chi-square, 2 dof."""

MIN_POINTS = 15
ITERATIONS = 15
TOLERANCE = 1e-6
"""Decrease of the cost, as a share of it, below which the minimisation ends."""


def adjusted_steps(
    tracks: FeatureTracks, calibration: CalibrationUncertainty = EXACT_CALIBRATION
) -> list[RelativePose]:
    """Motion between consecutive keyframes, by all keyframes together where it is clear.

    A step that fewer than nine tenths of the matches agree on stays as two keyframes measured it.
    """
    steps = tracks.steps(calibration)
    for first, last in _clear_runs(steps):
        steps[first:last] = _adjusted(tracks, first, last, steps[first:last], calibration)
    return steps


def _clear_runs(steps: list[RelativePose]) -> Iterator[tuple[int, int]]:
    """First keyframe and last of every run of steps that nothing is doubted in."""

    def is_clear(k: int) -> bool:
        return not steps[k].reason and steps[k].inliers >= BEYOND_DOUBT * steps[k].matches

    for clear, run in groupby(range(len(steps)), is_clear):
        if clear:
            first, *others = run
            yield first, first + 1 + len(others)


def _adjusted(
    tracks: FeatureTracks,
    first: int,
    last: int,
    steps: list[RelativePose],
    calibration: CalibrationUncertainty,
) -> list[RelativePose]:
    """The steps from keyframe `first` to `last`; as they were where nothing better is found."""
    Ts_c_c0 = _chained([step.T_ck_ck1 for step in steps])
    views, points = _triangulated(_views(tracks, slice(first, last + 1)), Ts_c_c0)
    if len(points) < MIN_POINTS:
        return steps
    Ts_c_c0, points, found = _minimise(views, Ts_c_c0, points, robust=True)
    rejected = found.chi2 > OUTLIER_CHI2
    kept_views = views.without(rejected)
    kept = kept_views.seen.sum(axis=(0, 2)) >= 2
    share = 1.0 - kept_views.seen[:, kept].sum() / views.seen.sum()
    if kept.sum() < MIN_POINTS or share > 1.0 - BEYOND_DOUBT:
        return steps
    views = kept_views.only(kept)
    try:
        Ts_c_c0, _, found = _minimise(views, Ts_c_c0, points[kept], robust=False)
        covs = _step_covariances(found, Ts_c_c0)
    except np.linalg.LinAlgError:
        return steps
    dof = 2 * int(views.seen.sum()) - 3 * int(kept.sum()) - len(found.b)
    scale = max(found.cost / max(dof, 1), 1.0) * (1.0 + CONTAMINATION * share / (1.0 - share))
    moved_px = tracks.focal_px * _displacements(views)
    adjusted = []
    for k, step in enumerate(steps):
        T_ck_ck1 = np.ascontiguousarray(Ts_c_c0[k] @ se3_inv(Ts_c_c0[k + 1]))
        dt = (step.stamps_ns[1] - step.stamps_ns[0]) / NS
        cov = scale * covs[k] + calibration_covariance(calibration, T_ck_ck1, dt, moved_px[k])
        adjusted.append(replace(step, T_ck_ck1=T_ck_ck1, cov_T_ck_ck1=symmetrize(cov)))
    return adjusted


def _chained(Ts_ck_ck1: list[Array]) -> Array:
    """(n, 4, 4) T_ck_c0."""
    Ts = [np.eye(4)]
    for T_ck_ck1 in Ts_ck_ck1:
        Ts.append(se3_inv(np.ascontiguousarray(T_ck_ck1)) @ Ts[-1])
    return np.array(Ts)


def _views(tracks: FeatureTracks, keyframes: slice) -> Views:
    seen = np.array([tracks.seen[:, keyframes], tracks.seen_right[:, keyframes]])
    xy = np.array([tracks.xy[:, keyframes], tracks.xy_right[:, keyframes]])
    covs = np.array([tracks.covs[:, keyframes], tracks.covs_right[:, keyframes]])
    whiten = np.zeros(covs.shape)
    whiten[seen] = np.linalg.inv(np.linalg.cholesky(covs[seen]))
    return Views(seen, np.where(seen[..., None], xy, 0.0), whiten, tracks.baseline)


def _triangulated(views: Views, Ts_c_c0: Array) -> tuple[Views, Array]:
    """Views of the points that their rays determine, and the points (p, 3) in the first camera."""
    R_c0_c = np.swapaxes(Ts_c_c0[:, :3, :3], 1, 2)
    centers = -(R_c0_c @ Ts_c_c0[:, :3, 3:])[..., 0]
    rays = np.einsum("kij,cpkj->cpki", R_c0_c, unit_rays(views.xy))
    centers_right = centers + views.baseline * R_c0_c[:, :, 0]
    points, fine = triangulate(
        np.concatenate(list(rays), axis=1),
        np.concatenate([centers, centers_right]),
        np.concatenate(list(views.seen), axis=1),
    )
    return views.only(fine), points[fine]


def _minimise(
    views: Views, Ts_c_c0: Array, points: Array, robust: bool
) -> tuple[Array, Array, Equations]:
    """Levenberg-Marquardt over all poses but the first and all points."""
    now = linearize(views, Ts_c_c0, points, robust)
    damping = 1e-6
    for _ in range(ITERATIONS):
        H, b, V_inv = reduced(now, damping)
        step = np.asarray(np.linalg.solve(H, b), np.float64)
        moved = points + (V_inv @ (now.b_points - now.W @ step)[:, :, None])[:, :, 0]
        # The first keyframe stays.
        motions = [np.eye(4), *(se3_exp(xi) for xi in step.reshape(-1, 6))]
        tried = np.array(motions) @ Ts_c_c0
        then = linearize(views, tried, moved, robust)
        if not then.cost < now.cost:
            damping *= 30.0
            if damping > 1e6:
                break
            continue
        converged = now.cost - then.cost < TOLERANCE * now.cost
        Ts_c_c0, points, now = tried, moved, then
        damping = max(damping / 10.0, 1e-12)
        if converged:
            break
    return Ts_c_c0, points, now


def _step_covariances(now: Equations, Ts_c_c0: Array) -> Array:
    """(n - 1, 6, 6) of the relative poses T_ck_ck1, left, [rho, phi]."""
    n = len(Ts_c_c0)
    cov = np.zeros((6 * n, 6 * n))
    cov[6:, 6:] = np.linalg.inv(reduced(now, 0.0)[0])
    covs = np.empty((n - 1, 6, 6))
    for k in range(n - 1):
        T_ck_ck1 = Ts_c_c0[k] @ se3_inv(Ts_c_c0[k + 1])
        # Exp(a) T_k (Exp(b) T_k1)^-1 = Exp(a - Ad b) T_ck_ck1.
        D = np.hstack([np.eye(6), -se3_adj(T_ck_ck1)])
        covs[k] = D @ cov[6 * k : 6 * k + 12, 6 * k : 6 * k + 12] @ D.T
    return covs


def _displacements(views: Views) -> Array:
    """(n - 1,) median motion of points in the left image, in normalized units."""
    seen, xy = views.seen[0], views.xy[0]
    moved = np.where(
        seen[:, :-1] & seen[:, 1:], np.linalg.norm(np.diff(xy, axis=1), axis=2), np.nan
    )
    return np.asarray(np.nanmedian(moved, axis=0), np.float64)
