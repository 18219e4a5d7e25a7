"""VINS-Fusion's start with a stereo camera and an IMU (Qin et al., 2019): one bundle adjustment.

1. Gravity opposite to the mean accelerometer of the first 0.1 s, velocity zero, both as if at rest.
2. Poses frame by frame by PnP against points that stereo gave when they first appeared.
3. Gyroscope bias from their rotations, as in VINS-Mono.
4. Eight iterations of bundle adjustment over poses, velocities, both biases and points that four
   keyframes see: Huber's loss, 1.5 px of a focal length of 460, acc_n 0.1 and gyr_n 0.01 of a
   sample, acc_w 1e-3, gyr_w 1e-4; no prior on the biases.

It never rejects. Points are free in three dimensions (the original: inverse depths), and the ten
keyframes of the window are its frames (the original: eleven, at 10 Hz).
"""

from dataclasses import replace

import numpy as np

from maci2.geometry import se3_inv
from maci2.imu import Preintegrated, preintegrate
from maci2.types import NS, Array
from maci2_lab.baselines import bundle_adjustment as ba
from maci2_lab.baselines.alignment import (
    fit_gyro_bias,
    integrated,
    quaternion_vectors,
    raw_motion,
    rotation_errors,
    with_norm,
)
from maci2_lab.baselines.segment import Answer, Segment, stage
from maci2_lab.baselines.vins import pose_by_pnp

FIRST_BATCH_S = 0.1
STD = 1.5 / 460.0
MIN_VIEWS = 4
ITERATIONS = 8
POINTS = 150
MIN_POINTS = 4
STD_GYRO, STD_ACC = 0.01, 0.1
"""Noise of one sample [rad/s, m/s^2]."""

WALK_GYRO, WALK_ACC = 1e-4, 1e-3
INIT_DEPTH = 5.0
"""Depth of a point without positive disparity [m]."""


def vins_fusion(segment: Segment) -> Answer:
    """VINS-Fusion as released, which accepts every result."""
    Ts_c0_c = poses_by_pnp(segment)
    T_c_b = se3_inv(np.ascontiguousarray(segment.T_b_c))
    Ts_c0_b = Ts_c0_c @ T_c_b
    pre = raw_motion(segment)
    errors = quaternion_vectors(rotation_errors(pre.gamma, Ts_c0_b[:, :3, :3]))
    gyro_bias = fit_gyro_bias(pre, errors)
    start = start_at_rest(segment, Ts_c0_b, gyro_bias)
    seen, start = ba.with_points(
        segment, start, ba.longest(segment.tracks, POINTS, MIN_VIEWS), True
    )
    period_s = float(np.median(np.diff(segment.raw.stamps_ns))) / NS
    bundle = ba.Bundle(
        seen,
        STD,
        ba.huber(1.0),
        start,
        ba.gauge_information(),
        motion_with_noise(segment, gyro_bias),
        segment.gravity_norm,
        period_s * np.array([WALK_GYRO**2] * 3 + [WALK_ACC**2] * 3),
    )
    return Answer(True, "", ba.to_vi_state(segment, ba.adjust(bundle, start, ITERATIONS).state))


@stage("structure")
def poses_by_pnp(segment: Segment) -> Array:
    """(n, 4, 4) T_c0_c, each from the points that stereo has given so far."""
    tracks = segment.tracks
    points = np.full((len(tracks), 3), np.nan)
    Ts_c0_c = np.tile(np.eye(4), (len(tracks.stamps_ns), 1, 1))
    for k in range(len(Ts_c0_c)):
        if k > 0:
            known = tracks.seen[:, k] & np.isfinite(points[:, 0])
            before = Ts_c0_c[k - 1]
            found = pose_by_pnp(points[known], tracks.xy[known, k], before, MIN_POINTS)
            Ts_c0_c[k] = before if found is None else found
        new = tracks.seen_right[:, k] & np.isnan(points[:, 0])
        z = np.nan_to_num(tracks.depths[new, k], nan=INIT_DEPTH)[:, None]
        in_camera = np.hstack([tracks.xy[new, k] * z, z])
        points[new] = in_camera @ Ts_c0_c[k, :3, :3].T + Ts_c0_c[k, :3, 3]
    return Ts_c0_c


def start_at_rest(segment: Segment, Ts_c0_b: Array, gyro_bias: Array) -> ba.BundleState:
    """Poses of vision, levelled by the first accelerometer samples; integrated velocities."""
    raw = segment.raw
    inside = (raw.stamps_ns >= segment.stamps_ns[0]) & (
        raw.stamps_ns <= segment.stamps_ns[0] + round(FIRST_BATCH_S * NS)
    )
    gravity_b0 = with_norm(-raw.acc[inside].mean(axis=0), segment.gravity_norm)
    R_w_b0 = ba.upright(gravity_b0)
    Ts = R_w_b0 @ np.array([se3_inv(Ts_c0_b[0]) @ T for T in Ts_c0_b])[:, :3]
    motion = integrated(raw_motion(segment, gyro_bias))
    v_w = motion.velocities(np.zeros(3), gravity_b0) @ R_w_b0.T
    n = len(Ts)
    biases = np.tile(gyro_bias, (n, 1)), np.zeros((n, 3))
    return ba.BundleState(Ts[:, :, :3], Ts[:, :, 3], v_w, biases[0], biases[1], np.empty((0, 3)))


def motion_with_noise(segment: Segment, gyro_bias: Array) -> Preintegrated:
    """Preintegration with the noise of its configuration instead of the data sheet's."""
    raw = segment.raw
    noisy = replace(
        raw,
        var_gyro=np.full_like(raw.var_gyro, STD_GYRO**2),
        var_acc=np.full_like(raw.var_acc, STD_ACC**2),
    )
    return preintegrate(noisy, segment.stamps_ns, gyro_bias)
