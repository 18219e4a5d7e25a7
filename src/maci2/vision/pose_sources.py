"""Camera motion without images: from ground truth with noise added, a trajectory, or a file."""

import numpy as np

from maci2.errors import DatasetError, MeasurementError
from maci2.lie import se3_exp, se3_inv
from maci2.sensors import CameraTrajectory, GroundTruth, poses_at, truth_at
from maci2.types import Array, Stamps
from maci2.vision.relative_poses import CameraFrame, MeasuredPoses, RelativePoses

MAX_TRUTH_GAP_S = 0.06
"""Longest step between two poses that is interpolated across: one frame at 20 Hz and jitter."""


def pose_noise(std_rotation_deg: float, std_translation: float) -> Array:
    """(6, 6) of a step whose error has this standard deviation on each axis, [rho, phi]."""
    if not (std_rotation_deg > 0.0 and std_translation > 0.0):
        raise MeasurementError(
            f"standard deviations are {std_rotation_deg} deg and {std_translation} m; needed both "
            "above 0: a measurement without noise has no weight to be fused with."
        )
    return np.diag([std_translation**2] * 3 + [np.deg2rad(std_rotation_deg) ** 2] * 3)


def poses_from_truth(
    truth: GroundTruth, stamps_ns: Stamps, T_b_c: Array, cov_pose: Array, seed: tuple[int, ...]
) -> RelativePoses:
    """What a camera with exactly this noise per keyframe step would have measured."""
    Ts_w_c = truth_at(truth, stamps_ns, MAX_TRUTH_GAP_S).Ts_w_b @ T_b_c
    noise = np.random.default_rng(seed).multivariate_normal(
        np.zeros(6), cov_pose, size=len(stamps_ns) - 1, method="cholesky"
    )
    Ts = np.array([se3_exp(xi) for xi in noise]) @ _steps(Ts_w_c)
    return RelativePoses(stamps_ns, Ts, np.broadcast_to(cov_pose, (len(Ts), 6, 6)).copy())


def poses_from_trajectory(
    trajectory: CameraTrajectory,
    stamps_ns: Stamps,
    cov_pose: Array,
    frame: CameraFrame,
    std_share: float = 0.0,
    std_scale: float = 0.0,
) -> RelativePoses:
    """Steps between the poses of a visual odometry or SLAM.

    Every step has `cov_pose`, and in translation `std_share` of its own length, independently of
    its neighbours; `std_scale` is the share by which all may be off together.
    """
    Ts_w_c = poses_at(
        trajectory.stamps_ns,
        trajectory.Ts_w_c,
        stamps_ns,
        MAX_TRUTH_GAP_S,
        source=trajectory.source,
    )
    Ts = _steps(Ts_w_c)
    covs = np.broadcast_to(cov_pose, (len(Ts), 6, 6)).copy()
    covs[:, range(3), range(3)] += (std_share * np.linalg.norm(Ts[:, :3, 3], axis=1))[:, None] ** 2
    return RelativePoses(stamps_ns, Ts, covs, frame, std_scale)


def poses_from_measurements(steps: MeasuredPoses, start_ns: int, end_ns: int) -> RelativePoses:
    """The measured steps inside [start_ns, end_ns]; they must follow each other without a break."""
    inside = (steps.stamps_ns[:, 0] >= start_ns) & (steps.stamps_ns[:, 1] <= end_ns)
    stamps = steps.stamps_ns[inside]
    if len(stamps) == 0:
        raise DatasetError(
            f"{steps.source}: no measured step inside {start_ns}..{end_ns} ns; it covers "
            f"{steps.stamps_ns.min()}..{steps.stamps_ns.max()} ns."
        )
    broken = np.flatnonzero(stamps[1:, 0] != stamps[:-1, 1])
    if len(broken):
        at = int(broken[0])
        raise DatasetError(
            f"{steps.source}: steps do not follow each other: one ends at {stamps[at, 1]} ns, the "
            f"next begins at {stamps[at + 1, 0]} ns. Choose a window without a break."
        )
    keyframes = np.concatenate([stamps[:, 0], stamps[-1:, 1]])
    return RelativePoses(
        keyframes, steps.Ts_ck_ck1[inside], steps.covs_T_ck_ck1[inside], steps.frame
    )


def _steps(Ts_w_c: Array) -> Array:
    return np.array([se3_inv(T) for T in Ts_w_c[:-1]]) @ Ts_w_c[1:]
