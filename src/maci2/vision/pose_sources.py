"""Camera motion without images: from ground truth with noise added, a trajectory, or a file."""

import numpy as np

from maci2.boundary import as_number
from maci2.errors import DatasetError, MeasurementError
from maci2.lie import se3_adj, se3_exp, se3_inv
from maci2.sensors import CameraTrajectory, GroundTruth, poses_at, truth_at
from maci2.types import Array, Stamps
from maci2.vision.pose_files import MeasuredPoses
from maci2.vision.relative_poses import CameraFrame, RelativePoses

MAX_TRUTH_GAP_S = 0.06
"""Longest time between two poses that is interpolated across: one frame at 20 Hz and jitter."""


def pose_noise(std_rotation_deg: float, std_translation: float) -> Array:
    """(6, 6) covariance of a relative pose with these standard deviations per axis, [rho, phi]."""
    std_rotation_deg = as_number(std_rotation_deg, "std_rotation_deg")
    std_translation = as_number(std_translation, "std_translation")
    if not (std_rotation_deg > 0.0 and std_translation > 0.0):
        raise MeasurementError(
            f"standard deviations are {std_rotation_deg} deg and {std_translation} m; needed both "
            "above 0: a measurement without noise has no weight to be fused with."
        )
    return np.diag([std_translation**2] * 3 + [np.deg2rad(std_rotation_deg) ** 2] * 3)


def poses_from_truth(
    truth: GroundTruth,
    stamps_ns: Stamps,
    T_b_c: Array,
    cov_pose: Array,
    seed: tuple[int, ...],
    std_truth: tuple[float, float] = (0.0, 0.0),
) -> RelativePoses:
    """Relative poses as a camera with exactly this noise between keyframes measures them.

    `std_truth` is what the ground truth itself adds to the body's motion, rotation [rad] and
    translation [m] per axis: it is in the covariances, and not drawn.
    """
    Ts_w_c = truth_at(truth, stamps_ns, MAX_TRUTH_GAP_S).Ts_w_b @ T_b_c
    noise = np.random.default_rng(seed).multivariate_normal(
        np.zeros(6), cov_pose, size=len(stamps_ns) - 1, method="cholesky"
    )
    Ts = np.array([se3_exp(xi) for xi in noise]) @ _relative(Ts_w_c)
    std_rotation, std_translation = std_truth
    of_body = np.repeat([std_translation**2, std_rotation**2], 3)
    adjoint = se3_adj(se3_inv(np.ascontiguousarray(T_b_c)))
    cov = cov_pose + (adjoint * of_body) @ adjoint.T
    return RelativePoses(stamps_ns, Ts, np.broadcast_to(cov, (len(Ts), 6, 6)).copy())


def poses_from_trajectory(
    trajectory: CameraTrajectory,
    stamps_ns: Stamps,
    cov_pose: Array,
    frame: CameraFrame,
    std_share: float = 0.0,
    std_scale: float = 0.0,
    std_frame: tuple[float, float] = (0.0, 0.0),
) -> RelativePoses:
    """Relative poses between the poses of a visual odometry or SLAM.

    Every relative pose has `cov_pose`, and in translation `std_share` of its own length,
    independently of its neighbours; `std_scale` is the share by which all may be off together,
    `std_frame` [m, rad] how far the camera frame that they speak of may be off.
    """
    Ts_w_c = poses_at(
        trajectory.stamps_ns,
        trajectory.Ts_w_c,
        stamps_ns,
        MAX_TRUTH_GAP_S,
        source=trajectory.source,
    )
    Ts = _relative(Ts_w_c)
    covs = np.broadcast_to(cov_pose, (len(Ts), 6, 6)).copy()
    covs[:, range(3), range(3)] += (std_share * np.linalg.norm(Ts[:, :3, 3], axis=1))[:, None] ** 2
    return RelativePoses(stamps_ns, Ts, covs, frame, std_scale, std_frame=std_frame)


def poses_from_measurements(poses: MeasuredPoses, start_ns: int, end_ns: int) -> RelativePoses:
    """Relative poses of a file inside [start_ns, end_ns]; they must follow each other without a
    break."""
    inside = (poses.stamps_ns[:, 0] >= start_ns) & (poses.stamps_ns[:, 1] <= end_ns)
    stamps = poses.stamps_ns[inside]
    if len(stamps) == 0:
        raise DatasetError(
            f"{poses.source}: no relative pose inside {start_ns}..{end_ns} ns; it covers "
            f"{poses.stamps_ns.min()}..{poses.stamps_ns.max()} ns."
        )
    broken = np.flatnonzero(stamps[1:, 0] != stamps[:-1, 1])
    if len(broken):
        index = int(broken[0])
        raise DatasetError(
            f"{poses.source}: relative poses do not follow each other: one ends at "
            f"{stamps[index, 1]} ns, the next begins at {stamps[index + 1, 0]} ns. Choose a window "
            "without a break."
        )
    keyframes = np.concatenate([stamps[:, 0], stamps[-1:, 1]])
    return RelativePoses(
        keyframes,
        poses.Ts_ck_ck1[inside],
        poses.covs_T_ck_ck1[inside],
        poses.frame,
        poses.std_scale,
        reasons=tuple(poses.reasons[k] for k in np.flatnonzero(inside)),
        motions=tuple(poses.motions[k] for k in np.flatnonzero(inside)),
    )


def _relative(Ts_w_c: Array) -> Array:
    """(n - 1, 4, 4) motion from each pose to the next."""
    return np.array([se3_inv(T) for T in Ts_w_c[:-1]]) @ Ts_w_c[1:]
