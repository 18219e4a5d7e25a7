"""What measurements say about their own constants: extrinsics, scale, axes, clocks, sample rate."""

from maci2.premises.contradictions import (
    MOST_MISSING,
    contradicted_axes,
    contradictions,
    contradictions_of_calibration,
    samples_contradicted,
)
from maci2.premises.evidence import (
    PremiseEvidence,
    Premises,
    window_premises,
    with_window_samples,
)
from maci2.premises.false_alarms import FALSE_ALARM
from maci2.premises.rotation_noise import RotationNoise, estimate_rotation_noise
from maci2.premises.sample_rate import SampleRate, sample_rate

__all__ = [
    "FALSE_ALARM",
    "MOST_MISSING",
    "PremiseEvidence",
    "Premises",
    "RotationNoise",
    "SampleRate",
    "contradicted_axes",
    "contradictions",
    "contradictions_of_calibration",
    "estimate_rotation_noise",
    "sample_rate",
    "samples_contradicted",
    "window_premises",
    "with_window_samples",
]
