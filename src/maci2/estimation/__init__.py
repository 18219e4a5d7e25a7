"""Estimates with their verdicts: what `maci2.estimator` finds, judged."""

from maci2.estimation.initialize import initialize
from maci2.estimation.verdict import CalibrationLimits, InitLimits
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
    direction_std,
)

__all__ = [
    "CalibrationLimits",
    "CalibrationResult",
    "CalibrationStage",
    "InitLimits",
    "InitResult",
    "Posterior",
    "SolveReport",
    "SolverConfig",
    "Status",
    "VIState",
    "Verdict",
    "direction_std",
    "initialize",
]
