"""Estimators: from measurements to state, posterior covariance and verdict."""

from maci2.estimation.config import SolverConfig
from maci2.estimation.initialize import initialize
from maci2.estimation.results import (
    CalibrationResult,
    CalibrationStage,
    InitResult,
    Posterior,
    SolveReport,
    Status,
    Verdict,
    VIState,
)
from maci2.estimation.verdict import CalibrationLimits, InitLimits
from maci2.gaussian import direction_std

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
