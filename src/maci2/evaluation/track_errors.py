"""Errors of a track against ground truth: absolute, relative over horizons, and NEES over time."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from maci2.files import finite_or_none
from maci2.gaussian import nees
from maci2.lie import se3_inv, skew
from maci2.pipeline.tracking import TrackedState
from maci2.sensors import GroundTruth, truth_at
from maci2.types import NS, Array, Stamps

HORIZONS_S = (1.0, 5.0, 10.0)
MAX_TRUTH_GAP_S = 0.1


@dataclass(frozen=True)
class TrackErrors:
    """Errors of one track; NaN where the ground truth does not say."""

    ate_m: float
    """Root mean square position error after the best rotation and translation; no scale."""

    relative_m: dict[float, tuple[float, float]]
    """Horizon [s] -> root mean square and median error of displacements, in the first body."""

    gravity_deg: float
    """Mean angle between estimated and true vertical, in the body."""

    velocity_rmse: float
    """[m/s], in the body."""

    nees: dict[str, float]
    """Per degree of freedom: velocity, gravity, gyro_bias."""

    scale: float
    """Length of the track over that of the ground truth, after alignment with a scale."""

    def as_dict(self) -> dict[str, Any]:
        """Errors as JSON has them."""
        return {
            "ate_m": finite_or_none(self.ate_m),
            "relative_m": {
                f"{horizon:g}": {"rms": finite_or_none(rms), "median": finite_or_none(median)}
                for horizon, (rms, median) in self.relative_m.items()
            },
            "gravity_deg": finite_or_none(self.gravity_deg),
            "velocity_rmse": finite_or_none(self.velocity_rmse),
            "nees": {name: finite_or_none(value) for name, value in self.nees.items()},
            "scale": finite_or_none(self.scale),
        }


def track_errors(
    states: list[TrackedState], gyro_bias: Array, truth: GroundTruth
) -> TrackErrors | None:
    """Compare a track with ground truth where that is known; None where it never is.

    `gyro_bias` (n, 3) are the raw gyroscope's at the states.
    """
    stamps_ns = np.array([state.stamp_ns for state in states])
    known = known_stamps(truth, stamps_ns)
    if known.sum() < 3:
        return None
    states = [state for state, keep in zip(states, known, strict=True) if keep]
    at = truth_at(truth, stamps_ns[known], MAX_TRUTH_GAP_S)
    Ts_w_b = np.array([state.T_w_b for state in states])
    positions, true_positions = Ts_w_b[:, :3, 3], at.Ts_w_b[:, :3, 3]
    R, t, scale = alignment(positions, true_positions)
    error = positions @ R.T + t - true_positions
    scores = [_scores(state, at, k, gyro_bias[known][k]) for k, state in enumerate(states)]
    gravity_deg, velocity, *rest = np.array(scores).T
    return TrackErrors(
        ate_m=float(np.sqrt(np.mean(np.sum(error**2, axis=1)))),
        relative_m={h: relative_errors(stamps_ns[known], Ts_w_b, at.Ts_w_b, h) for h in HORIZONS_S},
        gravity_deg=float(np.nanmean(gravity_deg)),
        velocity_rmse=float(np.sqrt(np.nanmean(velocity**2))) if _any(velocity) else float("nan"),
        nees={
            name: float(np.nanmean(values)) if _any(values) else float("nan")
            for name, values in zip(("velocity", "gravity", "gyro_bias"), rest, strict=True)
        },
        scale=scale,
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
    later = np.searchsorted(stamps_ns, stamps_ns + round(horizon_s * NS) - 1)
    starts = np.flatnonzero(later < len(stamps_ns))
    if not len(starts):
        return float("nan"), float("nan")
    errors = []
    for k in starts:
        found, true = (
            (se3_inv(np.ascontiguousarray(Ts[k])) @ Ts[later[k]])[:3, 3]
            for Ts in (Ts_w_b, true_Ts_w_b)
        )
        errors.append(np.linalg.norm(found - true))
    return float(np.sqrt(np.mean(np.square(errors)))), float(np.median(errors))


def _scores(
    state: TrackedState, truth: GroundTruth, k: int, gyro_bias: Array
) -> tuple[float, float, float, float, float]:
    """Angle of gravity, velocity error, and NEES of velocity, gravity and gyroscope bias."""
    R = state.T_w_b[:3, :3]
    v_b = R.T @ state.v_w
    dv = v_b - truth.Ts_w_b[k, :3, :3].T @ truth.v_w[k]
    J = np.zeros((3, 15))
    J[:, 0:3], J[:, 3:6] = skew(v_b), R.T
    up, true_up = R[2], truth.Ts_w_b[k, 2, :3]
    across = np.linalg.svd(up[None])[2][1:]
    cov_up = skew(up) @ state.cov[0:3, 0:3] @ skew(up).T
    bias_error = gyro_bias - truth.bias_gyro[k]
    nan = float("nan")
    return (
        float(np.rad2deg(np.arctan2(np.linalg.norm(np.cross(up, true_up)), up @ true_up))),
        float(np.linalg.norm(dv)),
        float(nees(dv, J @ state.cov @ J.T)) / 3.0 if np.isfinite(dv).all() else nan,
        float(nees(across @ (up - true_up), across @ cov_up @ across.T)) / 2.0,
        float(nees(bias_error, state.cov[9:12, 9:12])) / 3.0 if _any(bias_error) else nan,
    )


def _any(values: Array) -> bool:
    return bool(np.isfinite(values).any())
