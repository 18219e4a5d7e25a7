"""Points where the rays of several views come nearest to each other."""

import numpy as np

from maci2.types import Array, Mask

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
