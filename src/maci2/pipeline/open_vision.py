"""The one way from a vision source (`--vision`) to what measures camera motion."""

import logging
from dataclasses import replace
from pathlib import Path

from maci2.datasets import read_trajectory
from maci2.datasets.image_files import stereo_frames
from maci2.errors import DatasetError, OptionError
from maci2.feature_tracks.simulated_tracks import SimulatedTracker, simulated_tracker
from maci2.feature_tracks.track_files import RecordedTracks, load_tracks
from maci2.pipeline.options import VISION_FORMS, VisionSource
from maci2.sensors import CameraTrajectory, Recording
from maci2.sensors.stereo import HasImages
from maci2.vision import CameraFrame, MeasuredPoses, load_relative_poses
from maci2.vision.odometry import StereoOdometry, odometry_by
from maci2.vision.predicted_rotation import RotationPredictor, no_prediction

_LOG = logging.getLogger(__name__)

Vision = CameraTrajectory | MeasuredPoses | StereoOdometry | RecordedTracks | SimulatedTracker
"""An opened source of camera motion; its timestamps are on the clock of its recording."""


def open_vision(
    recording: Recording,
    source: VisionSource,
    predict_rotation: RotationPredictor = no_prediction,
) -> Vision | None:
    """Open the images of a recording, or the file that `source` names; None for poses from ground
    truth.

    A relative path is looked up in the recording, then in the working directory. Files are written
    on the camera's clock and put onto the clock of the recording here. `predict_rotation` is handed
    to the odometry of images.
    """
    if source.kind == "truth":
        return None
    if source.kind == "images":
        return open_odometry(recording, source, predict_rotation)
    if source.kind == "tracks" and not source.file:
        return simulated_tracker(recording.rig, source.pixel_std, source.depths)
    path = _find_file(recording, source)
    if source.kind == "tracks":
        tracks = load_tracks(path)
        return replace(tracks, stamp_ns=tracks.stamp_ns + recording.camera_shift_ns)
    if source.kind == "trajectory":
        trajectory = read_trajectory(path)
        if trajectory.dropped:
            _LOG.warning(
                "note: %s: %d poses hold NaN and are left out: the odometry was lost there",
                source.file,
                trajectory.dropped,
            )
        return replace(trajectory, stamps_ns=trajectory.stamps_ns + recording.camera_shift_ns)
    measured = load_relative_poses(path)
    return replace(measured, stamps_ns=measured.stamps_ns + recording.camera_shift_ns)


def frame_of(vision: Vision | None, source: VisionSource) -> CameraFrame:
    """The camera frame that the motion speaks of: what was opened knows it, except trajectories."""
    return vision.frame if isinstance(vision, MeasuredPoses | StereoOdometry) else source.frame


def open_odometry(
    recording: HasImages,
    source: VisionSource,
    predict_rotation: RotationPredictor = no_prediction,
    weights: Path | None = None,
) -> StereoOdometry:
    """Open the odometry of a recording's images; `weights` replace the bundled network."""
    try:
        frames = stereo_frames(recording)
    except DatasetError as error:
        if not source.by_default:
            raise
        raise OptionError(
            "--vision is needed: where camera motion comes from. Without it the recording's images "
            f"are used, and there are none to use ({error}). Choose one of {VISION_FORMS}."
        ) from error
    if source.by_default:
        _LOG.warning(
            "note: --vision is not given; camera motion comes from the images of %s",
            recording.name,
        )
    return odometry_by(source.covariance, frames, recording.rig, weights, predict_rotation)


def _find_file(recording: Recording, source: VisionSource) -> Path:
    path = Path(source.file)
    if not path.is_absolute():
        folder = recording.path if recording.path.is_dir() else recording.path.parent
        inside = folder / path
        path = inside if inside.exists() else path
    if not path.is_file():
        found = f"no such file in {recording.path} or in the working directory"
        if path.exists():
            found = "a folder, not a file" if path.is_dir() else "no regular file"
        raise DatasetError(
            f"{source.file}: {found}; camera motion ({source.kind}) is read from it. Check the "
            "path."
        )
    return path
