"""Stereo-NEC (Wang et al., ICRA 2024): ORB-SLAM3 with a gyroscope bias from bearings.

1. Gyroscope bias from left bearings of neighbouring keyframes: least squares of the smallest
   eigenvalues, no robust loss.
2. ORB-SLAM3's inertial-only optimization from that bias.
3. Rotations are replaced by integration with it and velocities propagated; then every keyframe's
   position is adjusted against the map's points, which stay (four rounds of ten steps, the last
   without Huber's loss; observations beyond chi-square 5.991 in one image are dropped after each).
4. Full inertial bundle adjustment.

The paper's test of the residual is not in the release and not here; gates are ORB-SLAM3's.
"""

import numpy as np

from maci2.baselines.alignment import raw_motion
from maci2.baselines.bundle_factors import Observations, reprojection
from maci2.baselines.bundle_state import POSITION, SIZE, BundleState, from_vi_state, to_vi_state
from maci2.baselines.epipolar_bias import fit_bias, square
from maci2.baselines.integrated_motion import integrated
from maci2.baselines.landmarks import longest, with_points
from maci2.baselines.orbslam3 import rejection
from maci2.baselines.orbslam3_full import (
    HUBER,
    PIXEL_STD,
    POINTS,
    full_bundle,
    inertial_only,
    map_poses,
)
from maci2.baselines.segment import Answer, Segment
from maci2.baselines.view_pairs import neighbouring_pairs

MIN_MATCHES = 15
ROUNDS, STEPS = 4, 10
CHI2 = HUBER**2


def stereo_nec(segment: Segment) -> Answer:
    """Stereo-NEC's initialization with all four steps, then ORB-SLAM3's gates."""
    tracks = segment.tracks
    fewest = int((tracks.seen[:, :-1] & tracks.seen[:, 1:]).sum(axis=0).min())
    if fewest < MIN_MATCHES:
        return Answer(False, f"{fewest} matches between two keyframes, needed {MIN_MATCHES}")
    pairs = neighbouring_pairs(tracks, raw_motion(segment), segment.T_b_c[:3, :3])
    gyro_bias = fit_bias(pairs, square).bias
    Ts_c0_b = map_poses(segment)
    state = inertial_only(segment, Ts_c0_b, gyro_bias)
    seen, x = with_points(segment, from_vi_state(state), longest(tracks, POINTS, 2), stereo=True)
    x = adjust_positions(seen, rotated_by_gyroscope(segment, x), PIXEL_STD / tracks.focal_px)
    reason = rejection(segment)
    return Answer(not reason, reason, to_vi_state(segment, full_bundle(segment, x)))


def rotated_by_gyroscope(segment: Segment, x: BundleState) -> BundleState:
    """Rotations by integration from the first on, velocities propagated from the first."""
    motion = integrated(raw_motion(segment, x.gyro_bias[0], x.acc_bias[0]))
    R_w_b0 = x.Rs_w_b[0]
    gravity_w = np.array([0.0, 0.0, -segment.gravity_norm])
    v_w = x.v_w[0] + motion.t[:, None] * gravity_w + motion.beta @ R_w_b0.T
    return BundleState(R_w_b0 @ motion.Rs_b0_b, x.p_w_b, v_w, x.gyro_bias, x.acc_bias, x.points_w)


def adjust_positions(seen: Observations, x: BundleState, std: float) -> BundleState:
    """Positions of all keyframes but the first, each adjusted separately against fixed points."""
    used = seen.seen.copy()
    for rounds in range(1, ROUNDS + 1):
        for _ in range(STEPS):
            r, by_pose, _ = reprojection(seen, x)
            r, J = r / std, by_pose[..., 3:6] / std
            norms = np.sqrt(np.maximum((r**2).sum(axis=-1), CHI2))
            weights = used * (HUBER / norms if rounds < ROUNDS else 1.0)
            H = np.einsum("cpk,cpkri,cpkrj->kij", weights, J, J)
            b = -np.einsum("cpk,cpkri,cpkr->ki", weights, J, r)
            step = np.zeros((len(x.p_w_b), SIZE))
            # A keyframe that sees nothing any more stays where it is.
            H += 1e-9 * np.eye(3)
            step[1:, POSITION] = np.linalg.solve(H[1:], b[1:, :, None])[:, :, 0]
            x = x.moved(step, np.zeros_like(x.points_w))
            if np.abs(step).max() < 1e-8:
                break
        r, _, _ = reprojection(seen, x)
        used = seen.seen & ((r**2).sum(axis=-1) < CHI2 * std**2)
    return x
