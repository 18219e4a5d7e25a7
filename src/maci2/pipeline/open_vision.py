"""The one way from a vision source (`--vision`) to what measures camera motion."""

import logging
from dataclasses import replace
from pathlib import Path

from maci2.datasets import read_trajectory
from maci2.datasets.image_files import stereo_frames
from maci2.errors import DatasetError, OptionError
from maci2.feature_tracks.track_sources import simulated_tracker
from maci2.feature_tracks.tracks import load_tracks
from maci2.pipeline.chosen_truth import ChosenTruth
from maci2.pipeline.options import VISION_FORMS, VisionChoice
from maci2.pipeline.vision_sources import (
    ImageSource,
    MeasurementSource,
    SimulatedTrackSource,
    TrackSource,
    TrajectorySource,
    TruthSource,
    VisionSource,
)
from maci2.sensors import Recording
from maci2.sensors.stereo import HasImages
from maci2.vision import load_relative_poses
from maci2.vision.covariance import EXACT_CALIBRATION, CalibrationUncertainty
from maci2.vision.odometry import StereoOdometry, odometry_by
from maci2.vision.predicted_rotation import RotationPredictor, no_prediction

_LOG = logging.getLogger(__name__)


def open_vision(
    recording: Recording,
    choice: VisionChoice,
    predict_rotation: RotationPredictor = no_prediction,
    ground_truth: ChosenTruth | None = None,
    seed: int = 0,
) -> VisionSource:
    """Open the images of a recording, the file that `choice` names, or its ground truth with noise.

    A relative path is looked up in the recording, then in the working directory. Files are written
    on the camera's clock and put onto the clock of the recording here. `predict_rotation` is handed
    to the odometry of images; `seed` is that of noise that is drawn.
    """
    rig, shift_ns = recording.rig, recording.camera_shift_ns
    if choice.kind == "images":
        odometry = open_odometry(recording, choice, predict_rotation)
        return ImageSource(replace(choice, frame=odometry.frame), odometry)
    if choice.from_truth:
        truth = ground_truth or ChosenTruth(recording)
        made_from = choice, truth, rig.cameras[0].T_b_c, seed
        if choice.kind == "truth":
            return TruthSource(*made_from)
        tracker = simulated_tracker(rig, choice.pixel_std, choice.depths)
        return SimulatedTrackSource(*made_from, tracker)
    path = _find_file(recording, choice)
    if choice.kind == "tracks":
        tracks = load_tracks(path)
        tracks = replace(tracks, stamp_ns=tracks.stamp_ns + shift_ns)
        calibration = EXACT_CALIBRATION if rig.exact else CalibrationUncertainty()
        return TrackSource(choice, tracks, calibration)
    if choice.kind == "trajectory":
        trajectory = read_trajectory(path)
        if trajectory.dropped:
            _LOG.warning(
                "note: %s: %d poses hold NaN and are left out: the odometry was lost there",
                choice.file,
                trajectory.dropped,
            )
        trajectory = replace(trajectory, stamps_ns=trajectory.stamps_ns + shift_ns)
        return TrajectorySource(choice, trajectory)
    measured = load_relative_poses(path)
    measured = replace(measured, stamps_ns=measured.stamps_ns + shift_ns)
    return MeasurementSource(replace(choice, frame=measured.frame), measured)


def open_odometry(
    recording: HasImages,
    choice: VisionChoice,
    predict_rotation: RotationPredictor = no_prediction,
    weights: Path | None = None,
) -> StereoOdometry:
    """Open the odometry of a recording's images; `weights` replace the bundled network."""
    try:
        frames = stereo_frames(recording)
    except DatasetError as error:
        if not choice.by_default:
            raise
        raise OptionError(
            "--vision is needed: where camera motion comes from. Without it the recording's images "
            f"are used, and there are none to use ({error}). Choose one of {VISION_FORMS}."
        ) from error
    if choice.by_default:
        _LOG.warning(
            "note: --vision is not given; camera motion comes from the images of %s",
            recording.name,
        )
    return odometry_by(choice.covariance, frames, recording.rig, weights, predict_rotation)


def _find_file(recording: Recording, choice: VisionChoice) -> Path:
    path = Path(choice.file)
    if not path.is_absolute():
        folder = recording.path if recording.path.is_dir() else recording.path.parent
        inside = folder / path
        path = inside if inside.exists() else path
    if not path.is_file():
        found = f"no such file in {recording.path} or in the working directory"
        if path.exists():
            found = "a folder, not a file" if path.is_dir() else "no regular file"
        raise DatasetError(
            f"{choice.file}: {found}; camera motion ({choice.kind}) is read from it. Check the "
            "path."
        )
    return path
