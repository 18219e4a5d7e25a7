"""Consistency tests of the constants that estimates take as given; initialization and calibration
with their verdicts."""

from maci2.consistency.evidence import Evidence, MeasuredConstants, OnlineConsistency
from maci2.consistency.rotation import estimate_rotation_noise
from maci2.consistency.tests import MOST_MISSING, missing_samples, sample_rate
from maci2.consistency.verdict import (
    CalibrationLimits,
    InitLimits,
    calibrate,
    initialize,
    rotation_about_axes_deg,
)

__all__ = [
    "MOST_MISSING",
    "CalibrationLimits",
    "Evidence",
    "InitLimits",
    "MeasuredConstants",
    "OnlineConsistency",
    "calibrate",
    "estimate_rotation_noise",
    "initialize",
    "missing_samples",
    "rotation_about_axes_deg",
    "sample_rate",
]
