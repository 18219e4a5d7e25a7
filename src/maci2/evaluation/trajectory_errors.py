"""Errors of any trajectory against ground truth: absolute, and relative over horizons."""

from dataclasses import dataclass

import numpy as np

from maci2.lie.stacks import so3_log_stack
from maci2.sensors import GroundTruth, truth_at
from maci2.types import NS, Array, Stamps

HORIZONS_S = (1.0, 5.0, 10.0)
MAX_TRUTH_GAP_S = 0.1


@dataclass(frozen=True)
class TrajectoryErrors:
    """Errors of the poses of the IMU in any world."""

    poses: int
    """Poses at which the ground truth is known."""

    ate_m: float
    """Root mean square position error after the best rotation and translation; no scale."""

    scale: float
    """Length of the trajectory over that of the ground truth, after alignment with a scale: drift
    that bends the trajectory is in it, too."""

    scale_1s: float
    """Length of displacements over 1 s over that of the true ones: what has drifted before does not
    count. NaN where the trajectory is shorter."""

    relative_m: dict[float, tuple[float, float]]
    """Horizon [s] -> root mean square and median error of displacements, in the first body; NaN
    where the trajectory is shorter."""


def trajectory_errors(
    stamps_ns: Stamps, Ts_w_b: Array, truth: GroundTruth
) -> TrajectoryErrors | None:
    """Compare poses (n, 4, 4) with ground truth where that is known; None where it hardly is."""
    known = known_stamps(truth, stamps_ns)
    if known.sum() < 3:
        return None
    stamps_ns, Ts_w_b = stamps_ns[known], Ts_w_b[known]
    true_Ts_w_b = truth_at(truth, stamps_ns, MAX_TRUTH_GAP_S).Ts_w_b
    positions, true_positions = Ts_w_b[:, :3, 3], true_Ts_w_b[:, :3, 3]
    R, t, scale = alignment(positions, true_positions)
    error = positions @ R.T + t - true_positions
    return TrajectoryErrors(
        poses=len(stamps_ns),
        ate_m=float(np.sqrt(np.mean(np.sum(error**2, axis=1)))),
        scale=scale,
        scale_1s=displacement_scale(stamps_ns, Ts_w_b, true_Ts_w_b, 1.0),
        relative_m={h: relative_errors(stamps_ns, Ts_w_b, true_Ts_w_b, h) for h in HORIZONS_S},
    )


def known_stamps(truth: GroundTruth, stamps_ns: Stamps) -> np.ndarray:
    """(n,) timestamps between two ground-truth rows that are not too far apart."""
    after = np.searchsorted(truth.stamps_ns, stamps_ns)
    inside = (after > 0) & (after < len(truth))
    after = np.clip(after, 1, len(truth) - 1)
    gap_ns = truth.stamps_ns[after] - truth.stamps_ns[after - 1]
    return np.asarray(inside & (gap_ns < MAX_TRUTH_GAP_S * NS))


def alignment(points: Array, onto: Array) -> tuple[Array, Array, float]:
    """Rotation and translation that bring points (n, 3) onto others, and the scale that a
    similarity would have (Umeyama)."""
    centre, other = points.mean(axis=0), onto.mean(axis=0)
    U, S, Vt = np.linalg.svd((onto - other).T @ (points - centre))
    signs = np.array([1.0, 1.0, np.sign(np.linalg.det(U @ Vt))])
    R = U @ np.diag(signs) @ Vt
    spread = float(np.sum((points - centre) ** 2))
    scale = float(S @ signs) / spread if spread > 0.0 else float("nan")
    return R, other - R @ centre, 1.0 / scale if scale else float("nan")


def relative_errors(
    stamps_ns: Stamps, Ts_w_b: Array, true_Ts_w_b: Array, horizon_s: float
) -> tuple[float, float]:
    """Root mean square and median error of displacements over a horizon [m]."""
    moved, truly = _displacements(stamps_ns, Ts_w_b, true_Ts_w_b, horizon_s)
    if not len(moved):
        return float("nan"), float("nan")
    errors = np.linalg.norm(moved - truly, axis=1)
    return float(np.sqrt(np.mean(errors**2))), float(np.median(errors))


def displacement_scale(
    stamps_ns: Stamps, Ts_w_b: Array, true_Ts_w_b: Array, horizon_s: float
) -> float:
    """Length of displacements over a horizon, along the true ones, over the length of these."""
    moved, truly = _displacements(stamps_ns, Ts_w_b, true_Ts_w_b, horizon_s)
    total = float(np.sum(truly**2))
    return float(np.sum(moved * truly)) / total if total > 0.0 else float("nan")


def _displacements(
    stamps_ns: Stamps, Ts_w_b: Array, true_Ts_w_b: Array, horizon_s: float
) -> tuple[Array, Array]:
    """(m, 3) estimated and true displacements over a horizon, each in its first body [m]."""
    later = np.searchsorted(stamps_ns, stamps_ns + round(horizon_s * NS) - 1)
    # Where poses are missing the next one may be far later than the horizon.
    near = stamps_ns[np.minimum(later, len(stamps_ns) - 1)] < stamps_ns + 1.2 * horizon_s * NS
    starts = np.flatnonzero((later < len(stamps_ns)) & near)
    moved, truly = (
        np.einsum("kji,kj->ki", Ts[starts, :3, :3], Ts[later[starts], :3, 3] - Ts[starts, :3, 3])
        for Ts in (Ts_w_b, true_Ts_w_b)
    )
    return moved, truly


def heading_between(R_w_b: Array, R_v_b: Array) -> Array:
    """(3, 3) rotation about the vertical that takes level world v to level world w, given one
    body's orientation in both."""
    phi = so3_log_stack((R_w_b @ R_v_b.T)[None])[0]
    cosine, sine = np.cos(phi[2]), np.sin(phi[2])
    return np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])
