"""Camera motion without images: from ground truth with noise, a trajectory, or a file.

The file is the `.npz` that `maci2 vo` writes and `measurements:FILE` reads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maci2 import __version__, validation
from maci2.errors import DatasetError, MeasurementError
from maci2.files import NpzField, read_npz, write_npz
from maci2.geometry import se3_adj, se3_exp, se3_inv
from maci2.geometry.gaussian import require_spd
from maci2.sensors import CameraTrajectory, GroundTruth, poses_at, truth_at
from maci2.types import NS, Array, Stamps
from maci2.validation import as_number
from maci2.vision.relative_poses import (
    CameraFrame,
    Possible,
    PossibleMotion,
    RelativePoses,
    any_motion,
)

MOTION_FIELDS = {
    "motion_pose": NpzField("iu", ("a",), optional=True),
    "motion_T_ck_ck1": NpzField("f", ("a", 4, 4), optional=True),
    "motion_cov": NpzField("f", ("a", 6, 6), optional=True),
    "motion_share": NpzField("f", ("a",), optional=True),
}
"""Arrays of a file of relative poses, one row for each possible motion; versions before 0.5 had
none."""

POSE_FIELDS = {
    "stamps_ns": NpzField("iu", ("m", 2)),
    "T_ck_ck1": NpzField("f", ("m", 4, 4)),
    "cov": NpzField("f", ("m", 6, 6)),
    "frame": NpzField("U", ()),
    "measured": NpzField("b", ("m",), optional=True),
    "reasons": NpzField("U", ("m",), optional=True),
    "std_scale": NpzField("f", (), optional=True),
    **MOTION_FIELDS,
}
"""Arrays of the file; version 0.1 had no mask, and reasons only where `maci2 vo` wrote it."""

NOT_MEASURED = "not measured"
"""Reason given for a pose whose file has a mask but no reasons."""


@dataclass(frozen=True)
class MeasuredPoses:
    """Relative poses of a file; they need not follow each other."""

    stamps_ns: Stamps
    """(m, 2) timestamps of the keyframes from which and to which [ns]."""

    Ts_ck_ck1: Array
    """(m, 4, 4) poses of the later camera in the earlier one."""

    covs_T_ck_ck1: Array
    """(m, 6, 6) left perturbation, order [rho, phi], [m, rad]."""

    frame: CameraFrame
    """Camera frame that the poses speak of."""

    source: str
    """File, for messages."""

    reasons: tuple[str, ...] = ()
    """(m,) why a pose could not be measured; empty text where it was. Not given: all were."""

    motions: tuple[Possible, ...] = ()
    """(m,) motions of which one is the camera's, where there is doubt. Not given: there is none."""

    std_scale: float = 0.0
    """Standard deviation of a factor on all translations alike."""

    def __post_init__(self) -> None:
        if not self.reasons:
            object.__setattr__(self, "reasons", ("",) * len(self.stamps_ns))
        if not self.motions:
            object.__setattr__(self, "motions", ((),) * len(self.stamps_ns))


def motions_as_arrays(motions: Sequence[Possible]) -> dict[str, Array]:
    """All of consecutive relative poses as the arrays of a file."""
    rows = [(k, motion) for k, some in enumerate(motions) for motion in some]
    return {
        "motion_pose": np.array([k for k, _ in rows], dtype=np.int64),
        "motion_T_ck_ck1": np.array([one.T_ck_ck1 for _, one in rows]).reshape(-1, 4, 4),
        "motion_cov": np.array([one.cov_T_ck_ck1 for _, one in rows]).reshape(-1, 6, 6),
        "motion_share": np.array([one.share for _, one in rows], dtype=np.float64),
    }


def motions_from_arrays(
    content: Mapping[str, Any], count: int, source: str
) -> tuple[Possible, ...]:
    """(count,) what `motions_as_arrays` wrote; none where the file has no such arrays."""
    found: list[list[PossibleMotion]] = [[] for _ in range(count)]
    lacking = [name for name in MOTION_FIELDS if name not in content]
    if lacking and len(lacking) < len(MOTION_FIELDS):
        raise MeasurementError(
            f"{source}: lacks {', '.join(lacking)}, needed beside the other arrays of motions; "
            "write all of them or none."
        )
    if not lacking:
        for k, *motion in zip(*(content[name] for name in MOTION_FIELDS), strict=True):
            if not 0 <= k < count:
                raise MeasurementError(
                    f"{source}: motion_pose is {k}, needed 0 to {count - 1}: the place of a pose."
                )
            found[int(k)].append(PossibleMotion(*motion))
    return tuple(tuple(some) for some in found)


def save_relative_poses(path: Path, poses: RelativePoses) -> None:
    """Write the `.npz` of docs/conventions.md, whole or not at all."""
    arrays = {
        "stamps_ns": np.stack([poses.stamps_ns[:-1], poses.stamps_ns[1:]], axis=1),
        "T_ck_ck1": poses.Ts_ck_ck1,
        "cov": poses.covs_T_ck_ck1,
        "measured": poses.measured,
        "reasons": np.array(poses.reasons, dtype=np.str_),
        "frame": poses.frame,
        "std_scale": poses.std_scale,
        "version": __version__,
        **motions_as_arrays(poses.motions),
    }
    write_npz(path, arrays)


def load_relative_poses(path: Path) -> MeasuredPoses:
    """Read what `save_relative_poses` or `maci2 vo` wrote, version 0.1 included."""
    if not path.is_file():
        raise MeasurementError(f"{path}: no such file; `maci2 vo` writes one.")
    content = read_npz(path, POSE_FIELDS, "relative poses that `maci2 vo` wrote")
    source, frame = str(path), str(content["frame"])
    if frame not in ("camera", "rectified"):
        raise MeasurementError(f"{source}: frame is '{frame}', needed 'camera' or 'rectified'.")
    stamps_ns = _spans(content["stamps_ns"], source)
    count = len(stamps_ns)
    Ts = validation.as_transforms(content["T_ck_ck1"], count, f"{source}: T_ck_ck1")
    covs = validation.as_array(content["cov"], (count, 6, 6), f"{source}: cov")
    require_spd(covs, f"{source}: cov")
    return MeasuredPoses(
        stamps_ns,
        Ts,
        covs,
        "rectified" if frame == "rectified" else "camera",
        source,
        _reasons(content, stamps_ns, Ts, covs),
        motions_from_arrays(content, count, source),
        float(content.get("std_scale", 0.0)),
    )


def _spans(stamps_ns: Stamps, source: str) -> Stamps:
    """(m, 2) int64, each from an earlier to a later timestamp, in their order."""
    first, last = (
        validation.as_stamps(stamps_ns[:, i], f"{source}: stamps_ns[:, {i}]") for i in (0, 1)
    )
    if (last <= first).any():
        k = int(np.argmax(last <= first))
        raise MeasurementError(
            f"{source}: pose {k} leads from {first[k]} to {last[k]} ns, needed from an earlier to "
            "a later timestamp."
        )
    return np.stack([first, last], axis=1)


def _reasons(
    content: dict[str, np.ndarray], stamps_ns: Stamps, Ts: Array, covs: Array
) -> tuple[str, ...]:
    """Reasons why poses were not measured, from the file."""
    if "reasons" in content or "measured" in content:
        said = content.get("reasons", np.full(len(Ts), ""))
        masked = content.get("measured", np.full(len(Ts), True))
        return tuple(
            str(reason) or ("" if measured else NOT_MEASURED)
            for reason, measured in zip(said, masked, strict=True)
        )
    # Version 0.1 wrote no mask: what it had not measured has exactly this transform and covariance.
    dt = (stamps_ns[:, 1] - stamps_ns[:, 0]) / NS
    marks = [
        np.array_equal(T, np.eye(4)) and np.array_equal(cov, any_motion(float(step)))
        for T, cov, step in zip(Ts, covs, dt, strict=True)
    ]
    return tuple(NOT_MEASURED if mark else "" for mark in marks)


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
    of_body = np.repeat(np.square(std_truth[::-1]), 3)
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
    path = trajectory.stamps_ns, trajectory.Ts_w_c
    Ts = _relative(poses_at(*path, stamps_ns, MAX_TRUTH_GAP_S, source=trajectory.source))
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
