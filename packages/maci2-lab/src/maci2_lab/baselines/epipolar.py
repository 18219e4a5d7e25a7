"""Gyroscope bias from bearings alone: the normals of epipolar planes lie in one plane.

For one pair of views, n_i = f_i x R f_j are all across the translation if the rotation is right:
the smallest eigenvalue of M = sum n_i n_i' is then zero. With R = R_bc' gamma Exp(J b) R_bc, to
first order in the bias b, every pair gives one number. DRT and Stereo-NEC sum it over neighbouring
keyframes, sqrt-VINS over all pairs of keyframes and cameras; they differ in the loss.

The originals leave the minimum to Levenberg-Marquardt on the eigenvalues, which treats them as
residuals although they never reach zero. Here Newton's steps use the curvature of the cost itself,
by differences of its exact gradient; the minimum is the same.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from maci2.feature_tracks.tracks import FeatureTracks
from maci2.geometry import so3_exp, so3_jr
from maci2.imu import GAMMA, Preintegrated
from maci2.types import Array, Mask
from maci2_lab.baselines.segment import stage

Loss = Callable[[Array], tuple[Array, Array]]
"""Function from smallest eigenvalues (m,) to cost and its derivative."""

MAX_ITERATIONS = 60
STEP_TOLERANCE = 1e-10
CURVATURE_STEP = 1e-5
"""Step of the finite difference of the gradient [rad/s]."""

MAX_STEP = 0.05
"""Longest step of the bias [rad/s]."""


@dataclass(frozen=True)
class BearingPairs:
    """Matches of m pairs of views, at most n each."""

    f0: Array
    """(m, n, 3) unit vectors in the first camera; zero where a pair has fewer matches."""

    f1_b: Array
    """(m, n, 3) unit vectors of the second camera, rotated into its body."""

    weights: Array
    """(m, n) factor on each n_i n_i'; zero where a pair has fewer matches."""

    gamma: Array
    """(m, 3, 3) rotation of the body between the views by the gyroscope."""

    D_bg: Array
    """(m, 3, 3) derivative of gamma by the bias, on the right."""

    R_c_b: Array
    """(3, 3) rotation of the body into the first camera's frame."""


@dataclass(frozen=True)
class BiasFit:
    """Bias at the minimum of the cost."""

    bias: Array
    converged: bool


def square(eigenvalues: Array) -> tuple[Array, Array]:
    """Least squares of the eigenvalues, as in Stereo-NEC."""
    return 0.5 * eigenvalues**2, eigenvalues


def plain(eigenvalues: Array) -> tuple[Array, Array]:
    """Sum of the eigenvalues, as in sqrt-VINS."""
    return eigenvalues, np.ones_like(eigenvalues)


def cauchy(scale: float) -> Loss:
    """Cauchy loss of the squared eigenvalues, as in DRT."""

    def loss(eigenvalues: Array) -> tuple[Array, Array]:
        grown = 1.0 + (eigenvalues / scale) ** 2
        return 0.5 * scale**2 * np.log(grown), eigenvalues / grown

    return loss


@stage("gyroscope bias")
def fit_bias(pairs: BearingPairs, loss: Loss) -> BiasFit:
    """Bias that minimizes the summed loss of the smallest eigenvalues, from zero."""
    bias = np.zeros(3)
    cost, gradient, _ = cost_and_gradient(pairs, bias, loss)
    damping, converged = 0.0, False
    for _ in range(MAX_ITERATIONS):
        H = _curvature(pairs, bias, gradient, loss)
        while True:
            step = _bounded(-_solve_positive(H, gradient, damping))
            tried = cost_and_gradient(pairs, bias + step, loss)
            if tried[0] <= cost or np.abs(step).max() < STEP_TOLERANCE:
                break
            damping = max(4.0 * damping, 1e-3 * float(np.abs(np.linalg.eigvalsh(H)).max()))
        if tried[0] > cost:
            converged = True
            break
        bias, (cost, gradient, _) = bias + step, tried
        damping = 0.25 * damping if damping > 1e-12 else 0.0
        if np.abs(step).max() < STEP_TOLERANCE:
            converged = True
            break
    return BiasFit(bias, converged)


def cost_and_gradient(pairs: BearingPairs, bias: Array, loss: Loss) -> tuple[float, Array, Array]:
    """Cost, its gradient (3,) and the smallest eigenvalues (m,) at a bias."""
    turns = pairs.D_bg @ bias
    R = pairs.R_c_b @ pairs.gamma @ np.array([so3_exp(turn) for turn in turns])
    n = np.cross(pairs.f0, pairs.f1_b @ np.swapaxes(R, 1, 2))
    weighed = pairs.weights[:, :, None] * n
    values, vectors = np.linalg.eigh(np.swapaxes(weighed, 1, 2) @ n)
    u = vectors[:, :, 0]
    cost, slope = loss(values[:, 0])
    # u'(f0 x R (phi x f1)) = (f1 x R' (u x f0))' phi, with phi = J_r D db.
    along = (weighed @ u[:, :, None])[:, :, 0]
    across = np.cross(u[:, None, :], pairs.f0) @ R
    by_turn = 2.0 * np.einsum("mn,mni->mi", along, np.cross(pairs.f1_b, across))
    J = np.array([so3_jr(turn) for turn in turns]) @ pairs.D_bg
    gradient = np.einsum("m,mi,mij->j", slope, by_turn, J)
    return float(cost.sum()), gradient, values[:, 0]


def _curvature(pairs: BearingPairs, bias: Array, gradient: Array, loss: Loss) -> Array:
    columns = [
        (cost_and_gradient(pairs, bias + CURVATURE_STEP * axis, loss)[1] - gradient)
        / CURVATURE_STEP
        for axis in np.eye(3)
    ]
    H = np.array(columns)
    return 0.5 * (H + H.T)


def _solve_positive(H: Array, gradient: Array, damping: float) -> Array:
    """Newton step with negative curvature reversed, so that it is a descent direction."""
    values, Q = np.linalg.eigh(H)
    floor = 1e-9 * float(np.abs(values).max())
    scaled = (Q.T @ gradient) / (np.maximum(np.abs(values), floor) + damping)
    return np.asarray(Q @ scaled, np.float64)


def _bounded(step: Array) -> Array:
    length = float(np.linalg.norm(step))
    return step if length <= MAX_STEP else step * (MAX_STEP / length)


def neighbouring_pairs(
    tracks: FeatureTracks, pre: Preintegrated, R_b_c: Array, weights: Array | None = None
) -> BearingPairs:
    """Left views of every keyframe and the next; `weights` (m, p) of every point in each pair."""
    both = (tracks.seen[:, :-1] & tracks.seen[:, 1:]).T
    f0, f1 = tracks.bearings[:, :-1].swapaxes(0, 1), tracks.bearings[:, 1:].swapaxes(0, 1)
    return bearing_pairs(f0, f1, both, pre.gamma, pre.D_bg[:, GAMMA], R_b_c, weights)


def bearing_pairs(
    f0: Array,
    f1: Array,
    both: Mask,
    gamma: Array,
    D_bg: Array,
    R_b_c: Array,
    weights: Array | None = None,
) -> BearingPairs:
    """Pairs of bearings (m, p, 3) where `both` (m, p); those of few matches are packed."""
    size = int(both.sum(axis=1).max(initial=1))
    order = np.argsort(~both, axis=1, kind="stable")[:, :size]
    there = np.take_along_axis(both, order, axis=1)
    packed0, packed1 = (
        np.where(there[:, :, None], np.take_along_axis(f, order[:, :, None], axis=1), 0.0)
        for f in (f0, f1)
    )
    packed = there.astype(np.float64)
    if weights is not None:
        packed = np.where(there, np.take_along_axis(weights, order, axis=1), 0.0)
    return BearingPairs(packed0, packed1 @ R_b_c.T, packed, gamma, D_bg, R_b_c.T)
