"""Consistency tests of the constants that estimates take as given, and verdicts."""

from maci2.consistency.evidence import (
    Evidence,
    MeasuredConstants,
    OnlineConsistency,
    window_constants,
)
from maci2.consistency.rotation import estimate_rotation_noise
from maci2.consistency.significance import FAR
from maci2.consistency.tests import MOST_MISSING, missing_samples, sample_rate
from maci2.consistency.verdict import (
    CalibrationLimits,
    Check,
    InitLimits,
    initialize,
    judge_calibration,
    require_arguments,
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
    "OnlineConsistency",
    "estimate_rotation_noise",
    "initialize",
    "judge_calibration",
    "missing_samples",
    "require_arguments",
    "rotation_about_axes_deg",
    "sample_rate",
    "window_constants",
]
