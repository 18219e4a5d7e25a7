"""Camera motion to compare a recording with."""

from typing import NamedTuple

from maci2.errors import OptionError
from maci2.pipeline.options import parse_vision
from maci2.pipeline.vision_sources import open_vision
from maci2.sensors import CameraTrajectory, Recording
from maci2.vision import CameraFrame


class CameraPath(NamedTuple):
    """Path of a camera on the recording's clock."""

    trajectory: CameraTrajectory
    """Poses of the camera in the world of its odometry."""

    frame: CameraFrame
    """Camera frame of the poses."""


def open_camera_path(recording: Recording, vision: str, frame: str) -> CameraPath | None:
    """Path named by `--vision`: images, a trajectory or measurements; None for ''."""
    if not vision:
        return None
    source = open_vision(recording, parse_vision(vision, frame, None))
    path = source.camera_path()
    if path is None:
        truth = source.choice.from_truth
        why = "ground truth is looked at anyway" if truth else "tracks are no path"
        raise OptionError(
            f"--vision is '{vision}'; {why}: give images, trajectory:FILE or measurements:FILE."
        )
    return CameraPath(path, source.frame)
