"""Likelihood of the true motions under poses that predicted match covariances weigh together.

Errors of single matches do not tell everything: those of one thing that moves, of one edge of
depth or of one repeating wall err together, and weights matter only against each other. So the
network is also asked how probable its poses make the true ones. Each is one step of Eq. 5 from the
truth, where everything but the covariances is known beforehand. It tells weights apart, not the
size of all of them together, since a robust loss makes up for too small ones: that is set by
matches and calibration.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maci2.learn.vision.data import RenderedMatches
from maci2.types import Array
from maci2.vision.covariance import MAX_STD_PX, MIN_STD_PX
from maci2.vision.relative_pose import CONTAMINATION
from maci2.vision.two_frame import INLIER_CHI2, ROBUST_FACTOR, ROBUST_NORM, points

Mask = NDArray[np.bool_]

POSE_TAIL = 8.0
"""Degrees of freedom of the Student t that poses are given: tails cost, but a lost pose does not
decide alone."""

FLOOR_PX = 1e-3
"""Keeps residual covariances from being singular."""


@dataclass(frozen=True)
class LinearizedPoses:
    """Matches of some relative poses, linearized at the true motion, in double precision."""

    inputs: Tensor
    """(n, INPUTS) what the network reads, in single precision."""

    pose: Tensor
    """(n,) which relative pose each match belongs to."""

    count: int
    """How many relative poses there are."""

    r: Tensor
    """(n, 3) residuals p0 - T p1 [m]."""

    D: Tensor
    """(n, 3, 4) their derivative by (u1, v1, d0, d1)."""

    J: Tensor
    """(n, 3, 6) their derivative by the pose."""


def linearized(rendered: list[RenderedMatches], kept: list[Mask]) -> LinearizedPoses:
    """Some matches of each relative pose, by mask."""
    parts = [_linearized_one(one, which) for one, which in zip(rendered, kept, strict=True)]
    r, D, J = (torch.from_numpy(np.concatenate(column)) for column in zip(*parts, strict=True))
    inputs = np.concatenate([one.inputs[which] for one, which in zip(rendered, kept, strict=True)])
    pose = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    return LinearizedPoses(torch.from_numpy(inputs), torch.from_numpy(pose), len(parts), r, D, J)


def _linearized_one(one: RenderedMatches, which: Mask) -> tuple[Array, Array, Array]:
    matches, camera = one.matches.take(which), one.camera
    R, t = one.T_ck_ck1[:3, :3], one.T_ck_ck1[:3, 3]
    p0 = points(matches.uv0, matches.disparity0, camera)
    p1 = points(matches.uv1, matches.disparity1, camera)
    turned = p1 @ R.T
    q = turned + t
    D = np.empty((len(q), 3, 4))
    D[:, :, :2] = -R[:, :2] * (p1[:, 2] / camera.focal)[:, None, None]
    D[:, :, 2] = -p0 / matches.disparity0[:, None]
    D[:, :, 3] = turned / matches.disparity1[:, None]
    J = np.zeros((len(q), 3, 6))
    J[:, range(3), range(3)] = -1.0
    J[:, 0, 4], J[:, 0, 5] = -q[:, 2], q[:, 1]
    J[:, 1, 3], J[:, 1, 5] = q[:, 2], -q[:, 0]
    J[:, 2, 3], J[:, 2, 4] = -q[:, 1], q[:, 0]
    return p0 - q, D, J


def factors(outputs: Tensor) -> Tensor:
    """(n, 4, 4) Cholesky factors [px] of the network's outputs, in double precision."""
    rows, columns = np.tril_indices(4)
    shares = torch.zeros(len(outputs), 4, 4, dtype=torch.float64)
    shares[:, rows, columns] = outputs.double()
    diagonal = torch.diagonal(shares, dim1=1, dim2=2)
    std = diagonal.clamp(float(np.log(MIN_STD_PX)), float(np.log(MAX_STD_PX))).exp()
    lower = torch.tril(shares, -1) + torch.eye(4, dtype=torch.float64)
    return std[:, :, None] * lower


def pose_nll(outputs: Tensor, poses: LinearizedPoses) -> Tensor:
    """Mean negative log likelihood of the true motions, per degree of freedom."""
    D_L = poses.D @ factors(outputs)
    floor = FLOOR_PX * poses.D
    S = D_L @ D_L.transpose(1, 2) + floor @ floor.transpose(1, 2)
    W = torch.linalg.inv(S)
    chi2 = torch.einsum("ni,nij,nj->n", poses.r, W, poses.r).detach()
    fits = chi2 < INLIER_CHI2
    weight = fits / (1.0 + chi2 / ROBUST_NORM**2)
    JtW = poses.J.transpose(1, 2) @ W * weight[:, None, None]
    prior = 1e-3 * torch.eye(6, dtype=torch.float64)
    H = prior.repeat(poses.count, 1, 1).index_add(0, poses.pose, JtW @ poses.J)
    g = torch.zeros(poses.count, 6, dtype=torch.float64).index_add(
        0, poses.pose, torch.einsum("nij,nj->ni", JtW, poses.r)
    )
    error = torch.linalg.solve(H, g)
    matches = torch.bincount(poses.pose, minlength=poses.count)
    inliers = torch.bincount(poses.pose[fits], minlength=poses.count).clamp(min=1)
    factor = ROBUST_FACTOR * (1.0 + CONTAMINATION * (matches - inliers) / inliers)
    square = torch.einsum("ni,nij,nj->n", error, H, error) / factor
    log_det = 6.0 * torch.log(factor) - torch.linalg.slogdet(H).logabsdet
    nll = 0.5 * log_det + 0.5 * (POSE_TAIL + 6.0) * torch.log1p(square / POSE_TAIL)
    return nll.mean() / 6.0
