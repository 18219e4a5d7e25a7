"""`maci2 vo`: relative poses over the images of a recording, written as they are measured."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from maci2.datasets.open import open_images, open_recording
from maci2.errors import Maci2Error, OptionError
from maci2.pipeline.options import VisionChoice, VoOptions
from maci2.pipeline.vision_sources import open_odometry, rotation_predictor
from maci2.sensors import Rig
from maci2.types import Stamps
from maci2.vision.covariance import ModelName
from maci2.vision.odometry import StereoOdometry, even_keyframes, measure_all
from maci2.vision.relative_pose import RelativePose
from maci2.vision.relative_poses import RotationPredictor, no_prediction


@dataclass(frozen=True)
class VoResult:
    """Relative poses of a recording and what measured them."""

    odometry: StereoOdometry
    """The odometry, on the camera's clock."""

    keyframes_ns: Stamps
    """(n,) timestamps of the keyframes as the images have them."""

    poses: list[RelativePose]
    """The n - 1 relative poses between keyframes; an unmeasured one has its reason."""

    @property
    def unmeasured(self) -> list[RelativePose]:
        """Relative poses that could not be measured."""
        return [pose for pose in self.poses if pose.reason]


def run_vo(
    path: Path,
    output: Path,
    options: VoOptions,
    on_pose: Callable[[int, int], None] = lambda done, total: None,
) -> VoResult:
    """Measure a whole recording and write `output`; an interrupted run goes on where it ended.

    Work of a run with other options, rig, weights or version is not taken up.
    """
    if options.covariance not in get_args(ModelName):
        raise OptionError(
            f"--covariance is '{options.covariance}'; choose one of "
            f"{', '.join(get_args(ModelName))}."
        )
    # A file of camera motion is on the camera's clock, whatever a rig states about clocks.
    recording = open_images(path, options.rig, options.topics, options.given)
    predict: RotationPredictor = no_prediction
    with suppress(Maci2Error):  # there is no IMU, or none that can be read
        with_imu = open_recording(path, options.rig, options.topics, options.given, clock="camera")
        predict = rotation_predictor(with_imu)
    source = VisionChoice("images", frame="rectified", covariance=options.covariance)
    odometry = open_odometry(recording, source, predict, options.weights)
    keyframes_ns = even_keyframes(odometry.stamps_ns, options.interval_s)
    settings = settings_of(options, recording.rig)
    poses = measure_all(odometry, keyframes_ns, output, on_pose, settings)
    return VoResult(odometry, keyframes_ns, poses)


def settings_of(options: VoOptions, rig: Rig) -> str:
    """A text that differs where options, calibration or weights differ, whatever their paths."""
    try:
        weights = None if options.weights is None else _digest(options.weights.read_bytes())
    except OSError as error:
        raise OptionError(
            f"--weights {options.weights}: cannot be read ({error.strerror}); name the .onnx file "
            "that `maci2 train-vision` wrote."
        ) from error
    calibration = json.dumps(asdict(replace(rig, source="")), default=_plain, sort_keys=True)
    record = {
        "interval_s": options.interval_s,
        "covariance": options.covariance,
        "weights": weights,
        "topics": options.topics,
        "rig": _digest(calibration.encode()),
    }
    return json.dumps(record, sort_keys=True)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else str(value)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
