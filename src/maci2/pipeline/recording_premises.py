"""Tests of a recording's constants, run once for all its windows."""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maci2.consistency import Evidence, MeasuredConstants, estimate_rotation_noise, sample_rate
from maci2.errors import DatasetError, MeasurementError
from maci2.imu import preintegrate
from maci2.pipeline.options import VisionChoice
from maci2.pipeline.windows import plan_windows
from maci2.vision import RelativePoses

if TYPE_CHECKING:
    from maci2.pipeline.prepare import Inputs

_LOG = logging.getLogger(__name__)

WINDOW_S, KEYFRAMES = 2.5, 10
"""Windows that the recording is cut into, whatever the user's own are."""

FIRST_INDEX = 1_000_000
"""Index of the noise of simulated camera motion, different from that of every window of the
user."""


IMAGE_WINDOWS = 6
"""Windows that are looked at where camera motion is still to be computed from images."""


def recording_premises(inputs: "Inputs") -> MeasuredConstants | None:
    """Posterior of the constants over the whole recording, or where motion comes from images over
    some windows of it; None where there is no window."""
    evidence = Evidence(inputs.T_b_c)
    evidence.add(inputs.imu, _covered_motions(inputs))
    constants = evidence.constants()
    rate = sample_rate(inputs.recording.imu.stamps_ns, inputs.recording.rig.imu.rate_hz)
    return constants and replace(constants, sample_rate=rate, is_complete=True)


def with_estimated_noise(inputs: "Inputs", tell: bool = False) -> VisionChoice:
    """The source with the noise that its relative poses show along the whole recording, where none
    was stated; `tell` logs it."""
    source = inputs.source
    if source.std_windows != 0:
        return source
    noise = estimate_rotation_noise(inputs.imu, _covered_motions(inputs), inputs.T_b_c)
    if noise is None:
        return source
    rotation_deg, translation = source.std
    std = rotation_deg * float(np.sqrt(noise.factor)), translation
    source = replace(source, std=std, std_windows=noise.windows)
    if tell:
        _tell_noise(inputs.recording.name, source)
    return source


def _tell_noise(recording: str, source: VisionChoice) -> None:
    _LOG.warning(
        "note: %s: relative poses of %s are off by %.3f deg, estimated from %d windows, and by "
        "%g mm + %g %% of their length; --vision-std states other noise",
        recording,
        source.file,
        source.std[0],
        source.std_windows,
        1e3 * source.std[1],
        100.0 * source.std_share,
    )


def _covered_motions(inputs: "Inputs") -> list[RelativePoses]:
    """Windows that samples cover; where some are missing, what is left speaks for itself."""
    return [motion for motion in _camera_motions(inputs) if _is_covered(inputs, motion)]


def _is_covered(inputs: "Inputs", motion: RelativePoses) -> bool:
    try:
        preintegrate(inputs.imu, motion.stamps_ns, np.zeros(3), np.zeros(3))
    except DatasetError:
        return False
    return True


def _camera_motions(inputs: "Inputs") -> list[RelativePoses]:
    motions = []
    windows = plan_windows(inputs.candidates_ns(), WINDOW_S, WINDOW_S, KEYFRAMES)
    if inputs.vision.from_images and len(windows) > IMAGE_WINDOWS:
        chosen = np.linspace(0, len(windows) - 1, IMAGE_WINDOWS).round().astype(int)
        windows = [windows[index] for index in chosen]
    for window in windows:
        try:
            motions.append(inputs.vision.motion(window.stamps_ns, FIRST_INDEX + window.index))
        except (DatasetError, MeasurementError):
            continue
    return motions
