"""Estimates with their verdicts: what `maci2.estimator` finds, judged."""

from maci2.estimator.config import SolverConfig
from maci2.estimator.results import (
    CalibrationResult,
    CalibrationStage,
    InitResult,
    Posterior,
    SolveReport,
    Status,
    Verdict,
    VIState,
)
from maci2.gaussian import direction_std

__all__ = [
    "CalibrationResult",
    "CalibrationStage",
    "InitResult",
    "Posterior",
    "SolveReport",
    "SolverConfig",
    "Status",
    "VIState",
    "Verdict",
    "direction_std",
]
