"""ORB-SLAM3 from tracks (Campos et al., T-RO 2021): visual map, inertial-only, full inertial BA.

The stereo map's poses come from a bundle adjustment of vision alone; the inertial-only optimization
takes them as exact; the full inertial bundle adjustment then moves everything, with one bias for
all keyframes and the same priors (information 1e2 and 1e5 about zero). Huber's loss at chi-square
5.991, observations with 1 px: the scale pyramid of its features is left out. Gates are those of
`orbslam3`.
"""

import numpy as np

from maci2.baselines.alignment import raw_motion
from maci2.baselines.bundle_adjustment import Bundle, adjust, gauge_information, huber
from maci2.baselines.bundle_state import BundleState, from_vi_state, to_vi_state
from maci2.baselines.landmarks import longest, poses_as_state, visual_bundle, with_points
from maci2.baselines.orbslam3 import (
    DOWN,
    INFO_ACC_BIAS,
    INFO_GYRO_BIAS,
    Unknowns,
    informations,
    optimize,
    rejection,
    start,
)
from maci2.baselines.segment import Answer, Segment
from maci2.baselines.stages import stage
from maci2.estimation import VIState
from maci2.types import Array

POINTS = 150
PIXEL_STD = 1.0
HUBER = float(np.sqrt(5.991))
ITERATIONS = 100


def orbslam3_full(segment: Segment) -> Answer:
    """ORB-SLAM3's initialization with all three stages, then its gates."""
    Ts_c0_b = map_poses(segment)
    state = inertial_only(segment, Ts_c0_b, np.zeros(3))
    found = full_inertial(segment, state)
    reason = rejection(segment)
    return Answer(not reason, reason, found)


@stage("structure")
def map_poses(segment: Segment) -> Array:
    """(n, 4, 4) T_c0_b of a stereo map: vision alone adjusted, from the relative poses."""
    Ts_c0_b = segment.Ts_c0_b()
    found = visual_bundle(segment, poses_as_state(segment, Ts_c0_b), PIXEL_STD, HUBER, True, POINTS)
    Ts = np.tile(np.eye(4), (len(Ts_c0_b), 1, 1))
    Ts[:, :3, :3], Ts[:, :3, 3] = found.Rs_w_b, found.p_w_b
    return Ts_c0_b[0] @ Ts


@stage("inertial-only")
def inertial_only(segment: Segment, Ts_c0_b: Array, gyro_bias: Array) -> VIState:
    """Velocities, biases and gravity from fixed poses; the gyroscope bias starts as given."""
    pre = raw_motion(segment)
    first = start(pre, Ts_c0_b)
    x: Unknowns = first._replace(bias_gyro=gyro_bias)
    x = optimize(pre, Ts_c0_b, x, segment.gravity_norm)
    velocity_b = np.einsum("kji,kj->ki", Ts_c0_b[:, :3, :3], x.v_c0)
    gravity_c0 = segment.gravity_norm * x.R_c0_g @ DOWN
    return segment.state(gravity_c0, velocity_b, x.bias_gyro, x.bias_acc, Ts_c0_b)


def full_inertial(segment: Segment, state: VIState) -> VIState:
    """The full inertial bundle adjustment from a state."""
    return to_vi_state(segment, full_bundle(segment, from_vi_state(state)))


def full_bundle(segment: Segment, x: BundleState) -> BundleState:
    """Full inertial bundle adjustment with one bias of each sensor for all keyframes."""
    tracks = segment.tracks
    seen, x = with_points(segment, x, longest(tracks, POINTS, 2), stereo=True)
    pre = raw_motion(segment, x.gyro_bias[0], x.acc_bias[0])
    bundle = Bundle(
        seen,
        PIXEL_STD / tracks.focal_px,
        huber(HUBER),
        pre,
        segment.gravity_norm,
        np.zeros(6),
        x,
        gauge_information(),
        np.array([INFO_GYRO_BIAS] * 3 + [INFO_ACC_BIAS] * 3),
        infos=informations(pre.cov),
    )
    return adjust(bundle, x, ITERATIONS).state
