"""Residuals of a visual-inertial bundle adjustment with their derivatives, vectorized."""

from dataclasses import dataclass

import numpy as np

from maci2.baselines.alignment import corrected, logs, rotation_errors_D_bias
from maci2.baselines.bundle_state import (
    ACC_BIAS,
    GYRO_BIAS,
    PHI,
    POSITION,
    SIZE,
    VELOCITY,
    BundleState,
)
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.imu import ALPHA, BETA, GAMMA, Preintegrated
from maci2.lie import so3_jl_inv, so3_jr_inv, so3_log
from maci2.lie.stacks import skew_stack
from maci2.types import Array, Mask

NEAREST = 1e-3
"""Smallest depth [m]; nearer points, and those behind a camera, are treated as if at this depth."""


@dataclass(frozen=True)
class Observations:
    """Observations of p points by c cameras at n keyframes; the right camera is offset along x."""

    seen: Mask
    """(c, p, n)"""

    xy: Array
    """(c, p, n, 2) normalized coordinates; zero where not seen."""

    offsets: Array
    """(c,) offsets of the cameras along x of the left one [m]."""

    T_b_c: Array
    """(4, 4) pose of the left camera in the body."""


def observations(tracks: FeatureTracks, T_b_c: Array, chosen: Mask, stereo: bool) -> Observations:
    """Observations of some points of the tracks, by one camera or two."""
    seen = [tracks.seen[chosen], tracks.seen_right[chosen]][: 1 + stereo]
    xy = [tracks.xy[chosen], tracks.xy_right[chosen]][: 1 + stereo]
    masked = [np.where(s[:, :, None], x, 0.0) for s, x in zip(seen, xy, strict=True)]
    offsets = np.array([0.0, tracks.baseline])[: 1 + stereo]
    return Observations(np.array(seen), np.array(masked), offsets, T_b_c)


def projections(seen: Observations, x: BundleState) -> tuple[Array, Array, Array]:
    """Points in each body (p, n, 3), in each camera (c, p, n, 3), and where they appear."""
    R_b_c, p_b_c = seen.T_b_c[:3, :3], seen.T_b_c[:3, 3]
    q = np.einsum("kji,pkj->pki", x.Rs_w_b, x.points_w[:, None, :] - x.p_w_b)
    in_left = (q - p_b_c) @ R_b_c
    shifts = np.stack([seen.offsets, 0.0 * seen.offsets, 0.0 * seen.offsets], axis=1)
    in_camera = in_left[None] - shifts[:, None, None, :]
    depth = np.maximum(in_camera[..., 2:], NEAREST)
    return q, in_camera, in_camera[..., :2] / depth


def reprojection(seen: Observations, x: BundleState) -> tuple[Array, Array, Array]:
    """Residuals (c, p, n, 2) in normalized units, zero where not seen; derivatives by the pose
    (c, p, n, 2, 6) and by the point (c, p, n, 2, 3)."""
    q, in_camera, xy = projections(seen, x)
    mask = seen.seen[..., None]
    residuals = np.where(mask, xy - seen.xy, 0.0)
    inverse = np.where(seen.seen, 1.0 / np.maximum(in_camera[..., 2], NEAREST), 0.0)
    xy = np.where(mask, xy, 0.0)
    R_c_b = seen.T_b_c[:3, :3].T
    # Rows of d(x/z, y/z)/dc times R_c_b: (R_x - x R_z) / z.
    by_q = (R_c_b[:2] - xy[..., None] * R_c_b[2]) * inverse[..., None, None]
    by_point = by_q @ np.swapaxes(x.Rs_w_b, 1, 2)
    # q turns as q + [q]x phi: row . (q x phi) = (row x q) . phi.
    by_phi = np.cross(by_q, q[None, :, :, None, :])
    return residuals, np.concatenate([by_phi, -by_point], axis=-1), by_point


def inertial(pre: Preintegrated, gravity_norm: float, x: BundleState) -> tuple[Array, Array]:
    """Residuals (m, 9) of rotation, velocity, position of every step, and derivatives
    (m, 9, 30) by its two keyframes."""
    gravity = np.array([0.0, 0.0, -gravity_norm])
    into = np.swapaxes(x.Rs_w_b[:-1], 1, 2)
    dt = pre.dt[:, None]
    bg, ba = x.gyro_bias[:-1] - pre.bias_gyro, x.acc_bias[:-1] - pre.bias_acc
    gamma, beta, alpha = corrected(pre, bg, ba)
    relative = into @ x.Rs_w_b[1:]
    r = np.empty((len(dt), 9))
    r[:, GAMMA] = logs(np.swapaxes(gamma, 1, 2) @ relative)
    dv = (into @ (np.diff(x.v_w, axis=0) - dt * gravity)[:, :, None])[:, :, 0]
    moved = np.diff(x.p_w_b, axis=0) - dt * x.v_w[:-1] - 0.5 * dt**2 * gravity
    dp = (into @ moved[:, :, None])[:, :, 0]
    r[:, BETA], r[:, ALPHA] = dv - beta, dp - alpha

    J = np.zeros((len(dt), 9, 2 * SIZE))
    J_r_inv = np.array([so3_jr_inv(e) for e in np.ascontiguousarray(r[:, GAMMA])])
    after = SIZE
    J[:, GAMMA, PHI] = -J_r_inv @ np.swapaxes(relative, 1, 2)
    J[:, GAMMA, after : after + 3] = J_r_inv
    J[:, GAMMA, GYRO_BIAS] = rotation_errors_D_bias(
        np.ascontiguousarray(r[:, GAMMA]), pre.D_bg[:, GAMMA], bg
    )
    J[:, BETA, PHI], J[:, ALPHA, PHI] = skew_stack(dv), skew_stack(dp)
    J[:, BETA, VELOCITY] = -into
    J[:, BETA, after + VELOCITY.start : after + VELOCITY.stop] = into
    J[:, ALPHA, POSITION] = -into
    J[:, ALPHA, after + POSITION.start : after + POSITION.stop] = into
    J[:, ALPHA, VELOCITY] = -dt[:, :, None] * into
    J[:, BETA, GYRO_BIAS], J[:, ALPHA, GYRO_BIAS] = -pre.D_bg[:, BETA], -pre.D_bg[:, ALPHA]
    J[:, BETA, ACC_BIAS], J[:, ALPHA, ACC_BIAS] = -pre.D_ba[:, BETA], -pre.D_ba[:, ALPHA]
    return r, J


def first_state_prior(mean: BundleState, x: BundleState) -> tuple[Array, Array]:
    """Residual (15,) of the first keyframe to its prior, and the derivative (15, 15); rotation in
    the world frame, so that its third entry is the yaw."""
    r, J = np.empty(SIZE), np.eye(SIZE)
    r[PHI] = so3_log(np.ascontiguousarray(x.Rs_w_b[0] @ mean.Rs_w_b[0].T))
    J[PHI, PHI] = so3_jl_inv(np.ascontiguousarray(r[PHI])) @ x.Rs_w_b[0]
    r[POSITION], r[VELOCITY] = x.p_w_b[0] - mean.p_w_b[0], x.v_w[0] - mean.v_w[0]
    r[GYRO_BIAS] = x.gyro_bias[0] - mean.gyro_bias[0]
    r[ACC_BIAS] = x.acc_bias[0] - mean.acc_bias[0]
    return r, J
