"""Errors of a track or of any trajectory against ground truth."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from maci2.files import finite_or_none
from maci2.geometry.gaussian import nees
from maci2.geometry.se3 import skew_stack, so3_log_stack
from maci2.odometry import Origin, TrackedState
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


@dataclass(frozen=True)
class TrackErrors(TrajectoryErrors):
    """Errors of one track; NaN where the ground truth has no value."""

    gravity_deg: float
    """Mean angle between estimated and true vertical, in the body."""

    velocity_rmse: float
    """[m/s], in the body."""

    nees_over_time: dict[str, Array]
    """(n,) normalised error squared per degree of freedom at each scored state: velocity, gravity
    and gyro_bias in the body, orientation and position from the start of the state's segment."""

    nees: dict[str, float]
    """Their means over time."""

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
            "scale_1s": finite_or_none(self.scale_1s),
        }


def track_errors(
    states: list[TrackedState],
    gyro_bias: Array,
    truth: GroundTruth,
    origins: tuple[Origin, ...] = (),
) -> TrackErrors | None:
    """Compare a track with ground truth where that is known; None where it never is.

    `gyro_bias` (n, 3) are the raw gyroscope's at the states; `origins` are where position and
    heading of each segment count from. Where the ground truth has a covariance, NEES is that of
    the difference.
    """
    stamps_ns = np.array([state.stamp_ns for state in states])
    path = trajectory_errors(stamps_ns, np.array([state.T_w_b for state in states]), truth)
    if path is None:
        return None
    known = known_stamps(truth, stamps_ns)
    states = [state for state, keep in zip(states, known, strict=True) if keep]
    at = truth_at(truth, stamps_ns[known], MAX_TRUTH_GAP_S)
    Rs, true_Rs = np.array([state.T_w_b[:3, :3] for state in states]), at.Ts_w_b[:, :3, :3]
    v_b = np.einsum("kji,kj->ki", Rs, np.array([state.v_w for state in states]))
    velocity = v_b - np.einsum("kji,kj->ki", true_Rs, at.v_w)
    up, true_up = Rs[:, 2], true_Rs[:, 2]
    sine = np.linalg.norm(np.cross(up, true_up), axis=1)
    across = np.linalg.svd(up[:, None, :])[2][:, 1:]  # two directions across the vertical
    orientation, position = _in_worlds(states, truth, origins)

    cov = np.array([state.cov for state in states])
    true_cov = np.zeros_like(cov)
    if at.covariance is not None:
        true_cov = at.covariance.at(at.stamps_ns)
    both, up_D_phi = cov + true_cov, np.cross(up[:, None, :], across)
    cov_up = up_D_phi @ both[:, 0:3, 0:3] @ np.swapaxes(up_D_phi, 1, 2)
    # Position is stated in the track's world, velocity and position of the truth in its own.
    true_variance = np.einsum("kii->k", true_cov[:, 6:9, 6:9]) / 3.0
    cov_p = cov[:, 6:9, 6:9] + np.eye(3) * true_variance[:, None, None]
    cov_v = _of_velocity(cov, Rs, v_b) + _of_velocity(true_cov, true_Rs, v_b)
    scores = {
        "velocity": _scored(velocity, cov_v),
        "gravity": _scored(np.einsum("kij,kj->ki", across, up - true_up), cov_up),
        "gyro_bias": _scored(gyro_bias[known] - at.bias_gyro, both[:, 9:12, 9:12]),
        "orientation": _scored(orientation, both[:, 0:3, 0:3]),
        "position": _scored(position, cov_p),
    }
    return TrackErrors(
        **vars(path),
        gravity_deg=_mean(np.rad2deg(np.arctan2(sine, np.sum(up * true_up, axis=1)))),
        velocity_rmse=float(np.sqrt(_mean(np.sum(velocity**2, axis=1)))),
        nees_over_time=scores,
        nees={name: _mean(score) for name, score in scores.items()},
    )


def _of_velocity(cov: Array, Rs: Array, v_b: Array) -> Array:
    """(n, 3, 3) covariance of the velocity in the body."""
    J = np.zeros((len(cov), 3, 15))
    J[:, :, 0:3] = skew_stack(v_b)
    J[:, :, 3:6] = np.swapaxes(Rs, 1, 2)
    return J @ cov @ np.swapaxes(J, 1, 2)


def _in_worlds(
    states: list[TrackedState], truth: GroundTruth, origins: tuple[Origin, ...]
) -> tuple[Array, Array]:
    """(n, 3) errors of orientation (right) and of position in the track's world, which begins with
    its segment; NaN where the ground truth does not reach back to that."""
    rotation, position = np.full((len(states), 3), np.nan), np.full((len(states), 3), np.nan)
    for segment, origin in enumerate(origins):
        inside = np.flatnonzero([state.segment == segment for state in states])
        stamps_ns = np.array([states[k].stamp_ns for k in inside])
        if not len(inside) or not known_stamps(truth, np.array([origin.stamp_ns]))[0]:
            continue
        first = truth_at(truth, np.array([origin.stamp_ns]), MAX_TRUTH_GAP_S).Ts_w_b[0]
        at = truth_at(truth, stamps_ns, MAX_TRUTH_GAP_S).Ts_w_b
        R_w_v = heading_between(origin.T_w_b[:3, :3], first[:3, :3])
        Ts = np.array([states[k].T_w_b for k in inside])
        true_Rs = R_w_v @ at[:, :3, :3]
        rotation[inside] = so3_log_stack(np.swapaxes(Ts[:, :3, :3], 1, 2) @ true_Rs)
        true_p = (at[:, :3, 3] - first[:3, 3]) @ R_w_v.T + origin.T_w_b[:3, 3]
        position[inside] = Ts[:, :3, 3] - true_p
    return rotation, position


def _scored(errors: Array, covs: Array) -> Array:
    """(n,) NEES per degree of freedom; NaN where an error is."""
    scores = np.full(len(errors), np.nan)
    known = np.isfinite(errors).all(axis=1)
    if known.any():
        scores[known] = nees(errors[known], covs[known]) / errors.shape[1]
    return scores


def _mean(values: Array) -> float:
    known = np.isfinite(values)
    return float(values[known].mean()) if known.any() else float("nan")
