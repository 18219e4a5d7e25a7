"""What a recording says of its own constants, asked once for all its windows."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maci2.errors import DatasetError, MeasurementError
from maci2.pipeline.windows import plan_windows
from maci2.premises import PremiseEvidence, Premises, sample_rate
from maci2.vision import RelativePoses
from maci2.vision.odometry import StereoOdometry

if TYPE_CHECKING:
    from maci2.pipeline.prepare import Inputs

WINDOW_S, KEYFRAMES = 2.5, 10
"""Windows that the recording is cut into, whatever the user's own are."""

FIRST_INDEX = 1_000_000
"""Where camera motion is simulated with noise, the noise is not that of any window of the user."""


IMAGE_WINDOWS = 6
"""Windows that are looked at where camera motion is still to be computed from images."""


def recording_premises(inputs: "Inputs") -> Premises | None:
    """Posterior of the constants over the whole recording, or where motion comes from images over
    some windows of it; None where there is no window."""
    evidence = PremiseEvidence(inputs.T_b_c)
    motions = _camera_motions(inputs)
    try:
        evidence.add(inputs.imu, motions)
    except DatasetError:
        # Samples are missing somewhere: what is left speaks for itself.
        evidence = PremiseEvidence(inputs.T_b_c)
        for motion in motions:
            _add_if_covered(evidence, inputs, motion)
    premises = evidence.posterior()
    rate = sample_rate(inputs.recording.imu.stamps_ns, inputs.recording.rig.imu.rate_hz)
    return premises and replace(premises, sample_rate=rate, is_complete=True)


def _camera_motions(inputs: "Inputs") -> list[RelativePoses]:
    motions = []
    windows = plan_windows(inputs.candidates_ns(), WINDOW_S, WINDOW_S, KEYFRAMES)
    if isinstance(inputs.visual, StereoOdometry) and len(windows) > IMAGE_WINDOWS:
        chosen = np.linspace(0, len(windows) - 1, IMAGE_WINDOWS).round().astype(int)
        windows = [windows[index] for index in chosen]
    for window in windows:
        try:
            motions.append(inputs.camera_motion(window.stamps_ns, FIRST_INDEX + window.index))
        except (DatasetError, MeasurementError):
            continue
    return motions


def _add_if_covered(evidence: PremiseEvidence, inputs: "Inputs", motion: RelativePoses) -> None:
    try:
        evidence.add(inputs.imu, [motion])
    except DatasetError:
        return
