"""What measurements say about their own constants: extrinsics, scale, axes, clocks, sample rate."""

from maci2.estimation.premises.contradictions import (
    FALSE_ALARM,
    MOST_MISSING,
    contradictions,
    contradictions_of_calibration,
    rate_contradicted,
)
from maci2.estimation.premises.evidence import (
    PremiseEvidence,
    Premises,
    window_premises,
    window_rate,
    with_window_rate,
)
from maci2.estimation.premises.sample_rate import SampleRate, sample_rate

__all__ = [
    "FALSE_ALARM",
    "MOST_MISSING",
    "PremiseEvidence",
    "Premises",
    "SampleRate",
    "contradictions",
    "contradictions_of_calibration",
    "rate_contradicted",
    "sample_rate",
    "window_premises",
    "window_rate",
    "with_window_rate",
]
