"""Linear global translation: camera positions from tracks when all rotations are known (Cai et al.,
TPAMI 2021), as DRT uses it.

Of the views of a track, l and r see the point under the largest angle. Every further view i says

    B t_r + C t_i - (B + C) t_l = 0,   B = [f_i]x R_il f_l a',   C = theta^2 [f_i]x R_i',
    a' = (R_rl f_l x f_r)' [f_r]x R_r',   theta = |f_r x R_rl f_l|,

with t_k the camera's position and R_k its rotation in a common frame: the point is eliminated.
"""

import numpy as np

from maci2.feature_tracks.tracks import FeatureTracks
from maci2.lie.stacks import skew_stack
from maci2.types import Array

MIN_VIEWS = 3


def translation_rows(tracks: FeatureTracks, Rs_w_c: Array) -> Array:
    """(m, 3, n, 3) rows by the positions of the n cameras; three for each track and further view.

    `Rs_w_c` (n, 3, 3) are the rotations of the left cameras.
    """
    chosen = tracks.seen.sum(axis=1) >= MIN_VIEWS
    seen, f = tracks.seen[chosen], tracks.bearings[chosen]
    rays_w = np.einsum("kij,pkj->pki", Rs_w_c, np.where(seen[:, :, None], f, 0.0))
    left, right = _widest(rays_w)
    point, view = np.nonzero(seen)
    further = (view != left[point]) & (view != right[point])
    point, view = point[further], view[further]
    at_l, at_r = left[point], right[point]
    # Everything turned into the common frame: [f_i]x R_i' x = R_i' (R_i f_i) x x.
    ray_l, ray_r, ray_i = rays_w[point, at_l], rays_w[point, at_r], rays_w[point, view]
    into_i = np.swapaxes(Rs_w_c[view], 1, 2)
    aside = np.cross(ray_l, ray_r)
    a = np.cross(aside, ray_r)
    B = (into_i @ np.cross(ray_i, ray_l)[:, :, None]) * a[:, None, :]
    theta2 = np.sum(aside**2, axis=1)
    C = theta2[:, None, None] * (into_i @ skew_stack(ray_i))
    rows = np.zeros((len(point), 3, len(Rs_w_c), 3))
    every = np.arange(len(point))
    rows[every, :, at_r] += B
    rows[every, :, view] += C
    rows[every, :, at_l] -= B + C
    return rows


def depth_signs(tracks: FeatureTracks, Rs_w_c: Array, p_w_c: Array) -> Array:
    """(m,) depth of each track's point in its view l, up to a positive factor, for positions
    (n, 3): cheirality asks that these be positive."""
    chosen = tracks.seen.sum(axis=1) >= MIN_VIEWS
    seen, f = tracks.seen[chosen], tracks.bearings[chosen]
    rays_w = np.einsum("kij,pkj->pki", Rs_w_c, np.where(seen[:, :, None], f, 0.0))
    left, right = _widest(rays_w)
    every = np.arange(len(rays_w))
    ray_l, ray_r = rays_w[every, left], rays_w[every, right]
    moved = np.cross(ray_r, p_w_c[right] - p_w_c[left])
    return np.asarray(np.sum(np.cross(ray_r, ray_l) * moved, axis=1), np.float64)


def _widest(rays_w: Array) -> tuple[Array, Array]:
    """The two views of each track (p, n, 3) that see its point under the largest angle."""
    n = rays_w.shape[1]
    first, second = np.triu_indices(n, 1)
    angles = np.sum(np.cross(rays_w[:, first], rays_w[:, second]) ** 2, axis=2)
    best = angles.argmax(axis=1)
    return first[best], second[best]
