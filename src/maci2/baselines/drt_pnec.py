"""DRT-PNEC (Mu et al., 2025): DRT-l with epipolar planes weighted by the points' covariances.

Each normal vector of the gyroscope bias' cost is scaled by sqrt(w),

    w = 1e-8 / (t' [f_1]x R S_2 R' [f_1]x' t),

with S_2 the covariance of the second bearing, here that of the tracks (the original takes it from
the image patch), and t, R the IMU's own, alpha and gamma of the same interval. After the alignment
scale and gravity are solved once more: velocities are eliminated over three keyframes,

    l s + F dtheta = d,   l = (p_3 - p_2) dt_12 - (p_2 - p_1) dt_23,

with gravity R_wi Exp(dtheta) (0, 0, G) linear in two angles.
"""

import numpy as np

from maci2.baselines.alignment import SCALE_UNIT, raw_motion
from maci2.baselines.bundle_state import upright
from maci2.baselines.drt import (
    align_on_sphere,
    aligned_state,
    answer_of,
    epipolar_bias,
    loose_translation,
)
from maci2.baselines.integrated_motion import integrated
from maci2.baselines.segment import Answer, Segment
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.imu import Preintegrated
from maci2.lie import skew, so3_exp
from maci2.types import Array

WEIGHT_UNIT = 1e-8


def drt_pnec(segment: Segment) -> Answer:
    """Weighted gyroscope bias, DRT-l, then scale and direction of gravity again."""
    fit = epipolar_bias(segment, epipolar_weights(segment))
    pre = raw_motion(segment, fit.bias)
    Rs_c0_b, p_c0_c = loose_translation(segment, integrated(pre))
    x = align_on_sphere(segment, pre, Rs_c0_b, p_c0_c)
    scale, gravity_c0 = refine(segment, pre, Rs_c0_b, p_c0_c, x[-4:-1])
    velocity_c0 = _velocities(segment, pre, Rs_c0_b, scale * p_c0_c, gravity_c0)
    x = np.concatenate(
        [
            np.einsum("kji,kj->ki", Rs_c0_b, velocity_c0).ravel(),
            gravity_c0,
            [SCALE_UNIT * scale],
        ]
    )
    return answer_of(segment, fit, aligned_state(segment, Rs_c0_b, p_c0_c, x, fit.bias), scale)


def epipolar_weights(segment: Segment) -> Array:
    """(m, p) weights of every point between neighbouring keyframes; 0 where not seen in both."""
    tracks, pre = segment.tracks, raw_motion(segment)
    R_b_c = segment.T_b_c[:3, :3]
    R = R_b_c.T @ pre.gamma @ R_b_c
    t = pre.alpha @ R_b_c
    both = (tracks.seen[:, :-1] & tracks.seen[:, 1:]).T
    f1 = np.where(both[..., None], tracks.bearings[:, :-1].swapaxes(0, 1), 0.0)
    covs = bearing_covariances(tracks)[:, 1:].swapaxes(0, 1)
    turned = R[:, None] @ np.where(both[..., None, None], covs, 0.0) @ np.swapaxes(R, 1, 2)[:, None]
    # t' [f]x = (t x f)'.
    across = np.cross(t[:, None, :], f1)
    variances = np.einsum("mpi,mpij,mpj->mp", across, turned, across)
    return np.where(variances > 0.0, WEIGHT_UNIT / np.where(variances > 0.0, variances, 1.0), 0.0)


def bearing_covariances(tracks: FeatureTracks) -> Array:
    """(p, n, 3, 3) of the left bearings, to first order."""
    f = tracks.bearings
    across = np.eye(3) - f[..., :, None] * f[..., None, :]
    J = across[..., :2] * f[..., 2, None, None]
    return np.asarray(J @ tracks.covs @ np.swapaxes(J, -1, -2), np.float64)


def refine(
    segment: Segment, pre: Preintegrated, Rs_c0_b: Array, p_c0_c: Array, gravity_c0: Array
) -> tuple[float, Array]:
    """Scale and gravity by least squares over all triples of keyframes."""
    rows, right = [], []
    R_w_c0 = upright(gravity_c0)
    down_w = np.array([0.0, 0.0, -segment.gravity_norm])
    by_angles = -(R_w_c0.T @ skew(down_w))[:, :2]
    lever_c0 = -Rs_c0_b @ segment.T_b_c[:3, 3]
    for k in range(len(pre.dt) - 1):
        dt_12, dt_23 = pre.dt[k], pre.dt[k + 1]
        bend, lever = (_bend(p, k, dt_12, dt_23) for p in (p_c0_c, lever_c0))
        by_gravity = 0.5 * dt_12 * dt_23 * (dt_12 + dt_23)
        moved = (
            dt_12 * Rs_c0_b[k + 1] @ pre.alpha[k + 1]
            - dt_23 * Rs_c0_b[k] @ pre.alpha[k]
            + dt_12 * dt_23 * Rs_c0_b[k] @ pre.beta[k]
        )
        rows.append(np.column_stack([bend, -by_gravity * by_angles]))
        right.append(moved - lever + by_gravity * R_w_c0.T @ down_w)
    x = np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0]
    turn = so3_exp(np.array([x[1], x[2], 0.0]))
    return float(x[0]), np.asarray(R_w_c0.T @ turn @ down_w, np.float64)


def _bend(p: Array, k: int, dt_12: float, dt_23: float) -> Array:
    return np.asarray((p[k + 2] - p[k + 1]) * dt_12 - (p[k + 1] - p[k]) * dt_23, np.float64)


def _velocities(
    segment: Segment, pre: Preintegrated, Rs_c0_b: Array, p_c0_c: Array, gravity_c0: Array
) -> Array:
    """(n, 3) in c0, from each position row, the last from its velocity row."""
    p = p_c0_c - Rs_c0_b @ segment.T_b_c[:3, 3]
    dt = pre.dt[:, None]
    alpha, beta = (np.einsum("kij,kj->ki", Rs_c0_b[:-1], part) for part in (pre.alpha, pre.beta))
    v = (np.diff(p, axis=0) - alpha) / dt - 0.5 * dt * gravity_c0
    return np.vstack([v, v[-1] + pre.dt[-1] * gravity_c0 + beta[-1]])
