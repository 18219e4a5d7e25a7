"""Files of relative poses: the `.npz` that `maci2 vo` writes and `measurements:FILE` reads."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maci2 import __version__, boundary
from maci2.errors import MeasurementError
from maci2.files import NpzField, read_npz, write_npz
from maci2.gaussian import require_spd
from maci2.types import NS, Array, Stamps
from maci2.vision import possible_motions
from maci2.vision.possible_motions import Possible
from maci2.vision.relative_poses import CameraFrame, RelativePoses, any_motion

POSE_FIELDS = {
    "stamps_ns": NpzField("iu", ("m", 2)),
    "T_ck_ck1": NpzField("f", ("m", 4, 4)),
    "cov": NpzField("f", ("m", 6, 6)),
    "frame": NpzField("U", ()),
    "measured": NpzField("b", ("m",), optional=True),
    "reasons": NpzField("U", ("m",), optional=True),
    "std_scale": NpzField("f", (), optional=True),
    **possible_motions.FIELDS,
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
        **possible_motions.as_arrays(poses.motions),
    }
    write_npz(path, arrays)


def load_relative_poses(path: Path) -> MeasuredPoses:
    """Read what `save_relative_poses` or `maci2 vo` wrote, version 0.1 included."""
    if not path.is_file():
        raise MeasurementError(f"{path}: no such file; `maci2 vo` writes one.")
    content = read_npz(path, POSE_FIELDS, "relative poses that `maci2 vo` wrote")
    return _measured_poses(content, str(path))


def _measured_poses(content: dict[str, np.ndarray], source: str) -> MeasuredPoses:
    frame = str(content["frame"])
    if frame not in ("camera", "rectified"):
        raise MeasurementError(f"{source}: frame is '{frame}', needed 'camera' or 'rectified'.")
    stamps_ns = _spans(content["stamps_ns"], source)
    count = len(stamps_ns)
    Ts = boundary.as_transforms(content["T_ck_ck1"], count, f"{source}: T_ck_ck1")
    covs = boundary.as_array(content["cov"], (count, 6, 6), f"{source}: cov")
    require_spd(covs, f"{source}: cov")
    reasons = _reasons(content, stamps_ns, Ts, covs)
    motions = possible_motions.from_arrays(content, count, source)
    camera_frame: CameraFrame = "rectified" if frame == "rectified" else "camera"
    std_scale = float(content.get("std_scale", 0.0))
    return MeasuredPoses(stamps_ns, Ts, covs, camera_frame, source, reasons, motions, std_scale)


def _spans(stamps_ns: Stamps, source: str) -> Stamps:
    """(m, 2) int64, each from an earlier to a later timestamp, in their order."""
    first, last = (
        boundary.as_stamps(stamps_ns[:, i], f"{source}: stamps_ns[:, {i}]") for i in (0, 1)
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
    """Why poses were not measured, as the file says it."""
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
