"""Trajectories in TUM format: t tx ty tz qx qy qz qw, one pose a line."""

from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np

from maci2.errors import DatasetError
from maci2.lie.stacks import rotations_from_quat_wxyz, stack_poses
from maci2.sensors.types import CameraTrajectory
from maci2.sensors.validation import require_count, require_file, require_increasing
from maci2.types import NS, Array

NANOSECONDS_ABOVE = Decimal(10) ** 14
"""Stamps larger than this are nanoseconds: as seconds they would be three million years."""

MAX_QUAT_NORM_ERROR = 0.01


def read_trajectory(path: Path) -> CameraTrajectory:
    """Read a TUM trajectory; stamps are seconds or integer nanoseconds, parsed exactly."""
    require_file(path, "a trajectory, one line 't tx ty tz qx qy qz qw' for each pose")
    stamps, poses, lines, dropped = [], [], [], 0
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fields = text.split()
        if not fields or fields[0].startswith("#"):
            continue
        pose = _pose(fields, path, line)
        if not np.isfinite(pose).all():
            dropped += 1
            continue
        stamps.append(_stamp_ns(fields[0], path, line))
        poses.append(pose)
        lines.append(line)
    require_count(len(stamps), 2, str(path))
    stamps_ns = np.array(stamps, dtype=np.int64)
    require_increasing(stamps_ns, str(path), np.array(lines))
    values = np.array(poses)
    # File order is x y z w.
    R_w_c = rotations_from_quat_wxyz(values[:, [6, 3, 4, 5]])
    return CameraTrajectory(stamps_ns, stack_poses(R_w_c, values[:, :3]), str(path), dropped)


def _stamp_ns(text: str, path: Path, line: int) -> int:
    """Nanoseconds from decimal text, without passing through float."""
    try:
        stamp = Decimal(text)
        return round(stamp if stamp > NANOSECONDS_ABOVE else stamp * NS)
    except (InvalidOperation, ValueError, OverflowError):
        raise DatasetError(
            f"{path}, line {line}: stamp '{text}' is not a number of seconds or nanoseconds. "
            "Repair or remove this line."
        ) from None


def _pose(fields: list[str], path: Path, line: int) -> Array:
    """tx ty tz qx qy qz qw of one line."""
    if len(fields) != 8:
        raise DatasetError(
            f"{path}, line {line}: found {len(fields)} fields, needed 8: t tx ty tz qx qy qz qw, "
            "separated by blanks."
        )
    try:
        pose = np.array([float(field) for field in fields[1:]])
    except ValueError as error:
        raise DatasetError(f"{path}, line {line}: {error}; needed numbers.") from None
    norm = float(np.linalg.norm(pose[3:]))
    if abs(norm - 1.0) > MAX_QUAT_NORM_ERROR:
        raise DatasetError(
            f"{path}, line {line}: quaternion norm is {norm:.4f}, needed 1 within "
            f"{MAX_QUAT_NORM_ERROR}. Check the order qx qy qz qw."
        )
    return pose
