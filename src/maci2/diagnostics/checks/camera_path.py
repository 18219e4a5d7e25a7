"""The camera motion that a recording is compared with."""

from pathlib import Path

import numpy as np

from maci2.datasets import read_trajectory
from maci2.errors import OptionError
from maci2.pipeline.options import parse_vision
from maci2.sensors import CameraTrajectory
from maci2.vision import MeasuredPoses, load_relative_poses
from maci2.vision.relative_poses import CameraFrame


def open_camera_path(
    sequence: Path, vision: str, frame: str
) -> tuple[CameraTrajectory | None, CameraFrame]:
    """`trajectory:FILE` or `measurements:FILE`, looked up in the recording first; None for ''."""
    if not vision:
        return None, "camera"
    source = parse_vision(vision, frame, None)
    if source.kind == "truth":
        raise OptionError(
            f"--vision is '{vision}'; ground truth is looked at anyway: give trajectory:FILE or "
            "measurements:FILE."
        )
    inside = sequence / source.file
    path = inside if inside.is_file() else Path(source.file)
    if source.kind == "trajectory":
        return read_trajectory(path), source.frame
    steps = load_relative_poses(path)
    return chained(steps), steps.frame


def chained(steps: MeasuredPoses) -> CameraTrajectory:
    """Poses along the longest run of steps that follow each other."""
    order = np.argsort(steps.stamps_ns[:, 0])
    stamps_ns, Ts = steps.stamps_ns[order], steps.Ts_ck_ck1[order]
    breaks = np.flatnonzero(stamps_ns[1:, 0] != stamps_ns[:-1, 1]) + 1
    run = max(np.split(np.arange(len(Ts)), breaks), key=len)
    poses = [np.eye(4)]
    for T in Ts[run]:
        poses.append(poses[-1] @ T)
    keyframes_ns = np.concatenate([stamps_ns[run, 0], stamps_ns[run[-1:], 1]])
    return CameraTrajectory(keyframes_ns, np.array(poses), steps.source)
