"""Consistency tests of the constants that estimates take as given, and verdicts."""

from maci2.consistency.evidence import (
    Evidence,
    MeasuredConstants,
    OnlineConsistency,
    contradictions,
    free_constants,
    window_constants,
)
from maci2.consistency.judged import initialize, require_arguments
from maci2.consistency.rotation import estimate_rotation_noise
from maci2.consistency.significance import FAR
from maci2.consistency.tests import MOST_MISSING, SampleRate, sample_rate
from maci2.consistency.verdict import (
    CalibrationLimits,
    Check,
    InitLimits,
    MeasuredScale,
    judge_calibration,
    mounting_checks,
    rotation_about_axes_deg,
)

__all__ = [
    "FAR",
    "MOST_MISSING",
    "CalibrationLimits",
    "Check",
    "Evidence",
    "InitLimits",
    "MeasuredConstants",
    "MeasuredScale",
    "OnlineConsistency",
    "SampleRate",
    "contradictions",
    "estimate_rotation_noise",
    "free_constants",
    "initialize",
    "judge_calibration",
    "mounting_checks",
    "require_arguments",
    "rotation_about_axes_deg",
    "sample_rate",
    "window_constants",
]
