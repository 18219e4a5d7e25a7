"""Trajectories in TUM format: t tx ty tz qx qy qz qw, one pose per line."""

import re
from decimal import Decimal
from pathlib import Path

import numpy as np

from maci2.datasets.csv_tables import MAX_ABSOLUTE, require_short_enough
from maci2.errors import DatasetError
from maci2.files import read_lines
from maci2.lie.stacks import rotations_from_quat_wxyz, stack_poses
from maci2.sensors.types import CameraTrajectory
from maci2.sensors.validation import require_count, require_increasing
from maci2.types import NS, Array

NANOSECONDS_ABOVE = Decimal(10) ** 14
"""Largest timestamp in seconds; larger ones are nanoseconds."""

MAX_STAMP_NS = 2**63 - 1

MAX_QUAT_NORM_ERROR = 0.01

NUMBER = re.compile(r"[-+]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][-+]?\d{1,2})?", re.ASCII)
"""Decimal numbers short enough for fast exact arithmetic."""


def read_trajectory(path: Path) -> CameraTrajectory:
    """Read a TUM trajectory; timestamps are seconds or integer nanoseconds, parsed exactly."""
    stamps, poses, lines, dropped = [], [], [], 0
    rows = read_lines(path, "a trajectory, one line 't tx ty tz qx qy qz qw' for each pose")
    for line, text in enumerate(rows, start=1):
        fields = text.split()
        if not fields or fields[0].startswith("#"):
            continue
        pose = _pose(fields, path, line)
        if not np.isfinite(pose).all():
            dropped += 1
            continue
        _require_possible(pose, path, line)
        stamps.append(_stamp_ns(fields[0], path, line))
        poses.append(pose)
        lines.append(line)
    require_count(len(stamps), 2, str(path))
    stamps_ns = np.array(stamps, dtype=np.int64)
    require_increasing(stamps_ns, str(path), np.array(lines))
    require_short_enough(stamps_ns, str(path))
    values = np.array(poses)
    # File order is x y z w.
    R_w_c = rotations_from_quat_wxyz(values[:, [6, 3, 4, 5]])
    return CameraTrajectory(stamps_ns, stack_poses(R_w_c, values[:, :3]), str(path), dropped)


def _stamp_ns(text: str, path: Path, line: int) -> int:
    """Nanoseconds from decimal text, without passing through float."""
    remedy = "Repair or remove this line."
    if NUMBER.fullmatch(text):
        stamp = Decimal(text)
        stamp_ns = round(stamp if stamp > NANOSECONDS_ABOVE else stamp * NS)
        if 0 <= stamp_ns <= MAX_STAMP_NS:
            return stamp_ns
        if 0 < stamp <= NANOSECONDS_ABOVE:
            remedy = "It looks like milliseconds or microseconds: write seconds."
    raise DatasetError(
        f"{path}, line {line}: timestamp '{text[:40]}' is not a number of seconds or nanoseconds, "
        f"needed 0 or later. {remedy}"
    )


def _pose(fields: list[str], path: Path, line: int) -> Array:
    """tx ty tz qx qy qz qw of one line."""
    if len(fields) != 8:
        raise DatasetError(
            f"{path}, line {line}: found {len(fields)} fields, needed 8: t tx ty tz qx qy qz qw, "
            "separated by blanks. Repair or remove this line."
        )
    try:
        return np.array([float(field) for field in fields[1:]])
    except ValueError as error:
        raise DatasetError(
            f"{path}, line {line}: {str(error)[:80]}; needed numbers. Repair or remove this line."
        ) from None


def _require_possible(pose: Array, path: Path, line: int) -> None:
    """Raise for an invalid pose: a quaternion not of unit length, or an implausible position."""
    largest = float(np.abs(pose).max())
    if largest > MAX_ABSOLUTE:
        raise DatasetError(
            f"{path}, line {line}: holds {largest:g}, needed at most {MAX_ABSOLUTE:g} m. Repair or "
            "remove this line."
        )
    norm = float(np.linalg.norm(pose[3:]))
    if abs(norm - 1.0) > MAX_QUAT_NORM_ERROR:
        raise DatasetError(
            f"{path}, line {line}: quaternion norm is {norm:.4f}, needed 1 within "
            f"{MAX_QUAT_NORM_ERROR}. Check the order qx qy qz qw."
        )
