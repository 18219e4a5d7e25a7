"""Odometry over a whole recording: keyframes at even times, results saved as they come."""

import logging
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

from maci2 import __version__
from maci2.errors import DatasetError, Maci2Error, require_in_range
from maci2.files import NpzField, read_npz, require_writable, write_npz
from maci2.types import NS, Stamps, nearest_index
from maci2.vision import possible_motions
from maci2.vision.odometry import StereoOdometry
from maci2.vision.relative_pose import RelativePose

_LOG = logging.getLogger(__name__)

SAVE_EVERY = 25
"""Relative poses between two saves of the unfinished file."""


MEASURED_FIELDS = {
    "stamps_ns": NpzField("iu", ("m", 2)),
    "T_ck_ck1": NpzField("f", ("m", 4, 4)),
    "cov": NpzField("f", ("m", 6, 6)),
    "matches": NpzField("iu", ("m",)),
    "inliers": NpzField("iu", ("m",)),
    "row_error_px": NpzField("f", ("m",)),
    "reasons": NpzField("U", ("m",)),
    "settings": NpzField("U", ()),
    **possible_motions.FIELDS,
}


def even_keyframes(stamps_ns: Stamps, interval_s: float) -> Stamps:
    """The images nearest to even times, each once."""
    require_in_range("--interval", interval_s, 0.001, 1e6)
    if len(stamps_ns) < 2:
        raise DatasetError(
            f"{len(stamps_ns)} images or poses that can be used, needed two or more for a relative "
            "pose. Check the file, and that it overlaps the other sensors in time."
        )
    if (np.diff(stamps_ns) <= 0).any():
        index = int(np.argmax(np.diff(stamps_ns) <= 0))
        raise DatasetError(
            f"image timestamps go backwards: {stamps_ns[index + 1]} ns follows "
            f"{stamps_ns[index]} ns."
        )
    wanted_ns = np.arange(int(stamps_ns[0]), int(stamps_ns[-1]) + 1, round(interval_s * NS))
    chosen = np.unique(stamps_ns[nearest_index(stamps_ns, wanted_ns)])
    return chosen if len(chosen) > 1 else stamps_ns[[0, -1]]


def measure_all(
    odometry: StereoOdometry,
    keyframes_ns: Stamps,
    output: Path | None = None,
    on_pose: Callable[[int, int], None] = lambda done, total: None,
    settings: str = "",
) -> list[RelativePose]:
    """Relative poses of all keyframes; with `output`, unfinished work is saved beside it and
    resumed by a run of the same version, odometry and `settings`: a text that names what else
    decides the poses. The second look comes last."""
    if output is not None:
        require_writable(output)
    settings = f"{__version__}; {odometry.settings}; {settings}"
    partial = None if output is None else output.with_name(output.name + ".unfinished")
    poses = [] if partial is None else _resumed(partial, keyframes_ns, settings)
    indices = [odometry.frames.index_of(int(stamp)) for stamp in keyframes_ns]
    for pose in odometry.relative_poses(indices[len(poses) :]):
        poses.append(pose)
        on_pose(len(poses), len(indices) - 1)
        if partial is not None and len(poses) % SAVE_EVERY == 0:
            save_measured(partial, poses, settings, odometry.calibration.scale)
    poses = odometry.judged(poses)
    if output is not None and partial is not None:
        save_measured(output, poses, settings, odometry.calibration.scale)
        partial.unlink(missing_ok=True)
    return poses


def save_measured(
    path: Path, poses: list[RelativePose], settings: str, std_scale: float = 0.0
) -> None:
    """Write the `.npz` of relative poses, with counts and reasons beside them; `std_scale` is that
    of the scale that they share."""
    arrays = {
        "stamps_ns": np.array([pose.stamps_ns for pose in poses], dtype=np.int64),
        "T_ck_ck1": np.array([pose.T_ck_ck1 for pose in poses]),
        "cov": np.array([pose.cov_T_ck_ck1 for pose in poses]),
        "frame": "rectified",
        "std_scale": std_scale,
        "version": __version__,
        "matches": np.array([pose.matches for pose in poses]),
        "inliers": np.array([pose.inliers for pose in poses]),
        "row_error_px": np.array([pose.row_error_px for pose in poses]),
        "settings": settings,
        "measured": np.array([not pose.reason for pose in poses]),
        "reasons": np.array([pose.reason for pose in poses], dtype=np.str_),
        **possible_motions.as_arrays([pose.motions for pose in poses]),
    }
    write_npz(path, arrays)


def load_measured(path: Path, settings: str = "") -> list[RelativePose]:
    """Read what `save_measured` wrote; nothing where it was written with other `settings`."""
    content = read_npz(path, MEASURED_FIELDS, "relative poses that `maci2 vo` wrote")
    if settings and str(content["settings"]) != settings:
        return []
    columns = [content[name] for name in ("stamps_ns", "T_ck_ck1", "cov", "matches", "inliers",
                                          "row_error_px", "reasons")]  # fmt: skip
    motions = possible_motions.from_arrays(content, len(content["reasons"]), str(path))
    return [
        RelativePose((int(s[0]), int(s[1])), T, cov, int(m), int(i), float(row), str(reason), some)
        for s, T, cov, m, i, row, reason, some in zip(*columns, motions, strict=True)
    ]


def _resumed(partial: Path, keyframes_ns: Stamps, settings: str) -> list[RelativePose]:
    """Relative poses of an earlier run over the same keyframes with the same settings."""
    if not partial.is_file():
        return []
    try:
        poses = load_measured(partial, settings)
    except Maci2Error:
        return []
    if not poses:
        _LOG.warning(
            "note: %s is of a run with other options, rig, weights or version; starting anew",
            partial,
        )
        return []
    wanted = pairwise(keyframes_ns)
    same = [p.stamps_ns == (int(a), int(b)) for p, (a, b) in zip(poses, wanted, strict=False)]
    poses = poses[: same.index(False)] if False in same else poses[: len(same)]
    # A run that begins with pairs that do not fit the calibration would end there.
    while poses and poses[-1].reason:
        poses.pop()
    return poses
