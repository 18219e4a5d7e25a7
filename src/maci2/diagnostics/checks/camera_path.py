"""Camera motion to compare a recording with."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from maci2.errors import DatasetError, OptionError
from maci2.estimation.initial_guess import chain
from maci2.feature_tracks.simulated_tracks import SimulatedTracker
from maci2.feature_tracks.track_files import RecordedTracks
from maci2.imu.rotation_rates import INTERVAL_S
from maci2.pipeline.open_vision import frame_of, open_vision
from maci2.pipeline.options import parse_vision
from maci2.sensors import CameraTrajectory, Recording
from maci2.types import NS, Array, Stamps
from maci2.vision import CameraFrame, MeasuredPoses
from maci2.vision.odometry import StereoOdometry
from maci2.vision.odometry_run import even_keyframes


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
    source = parse_vision(vision, frame, None)
    opened = open_vision(recording, source)
    if opened is None or isinstance(opened, RecordedTracks | SimulatedTracker):
        why = "ground truth is looked at anyway" if source.from_truth else "tracks are no path"
        raise OptionError(
            f"--vision is '{vision}'; {why}: give images, trajectory:FILE or measurements:FILE."
        )
    return CameraPath(_trajectory(opened), frame_of(opened, source))


def _trajectory(vision: CameraTrajectory | MeasuredPoses | StereoOdometry) -> CameraTrajectory:
    if isinstance(vision, CameraTrajectory):
        return vision
    if isinstance(vision, MeasuredPoses):
        order = np.argsort(vision.stamps_ns[:, 0])
        return chained(vision.stamps_ns[order], vision.Ts_ck_ck1[order], vision.source)
    return _odometry_path(vision)


def _odometry_path(odometry: StereoOdometry) -> CameraTrajectory:
    """Poses from the images of the whole recording, at the rate used for comparison."""
    keyframes_ns = even_keyframes(odometry.stamps_ns, INTERVAL_S)
    indices = [odometry.frames.index_of(int(stamp_ns)) for stamp_ns in keyframes_ns]
    poses = [odometry.relative_pose(first, second) for first, second in pairwise(indices)]
    measured = [pose for pose in poses if not pose.reason]
    if not measured:
        raise DatasetError(
            f"{odometry.frames.source}: no camera motion could be measured over "
            f"{(keyframes_ns[-1] - keyframes_ns[0]) / NS:.1f} s of images: {poses[0].reason}."
        )
    stamps_ns = np.array([pose.stamps_ns for pose in measured], dtype=np.int64)
    return chained(stamps_ns, np.array([pose.T_ck_ck1 for pose in measured]), "images")


def chained(stamps_ns: Stamps, Ts_ck_ck1: Array, source: str) -> CameraTrajectory:
    """Poses along the longest chain of consecutive relative poses; `stamps_ns` is (m, 2), from and
    to, in order of time."""
    breaks = np.flatnonzero(stamps_ns[1:, 0] != stamps_ns[:-1, 1]) + 1
    run = max(np.split(np.arange(len(Ts_ck_ck1)), breaks), key=len)
    keyframes_ns = np.concatenate([stamps_ns[run, 0], stamps_ns[run[-1:], 1]])
    return CameraTrajectory(keyframes_ns, chain(Ts_ck_ck1[run]), source)
