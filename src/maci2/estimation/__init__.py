"""Estimation: from measurements to state and posterior covariance."""

from maci2.estimation.config import SolverConfig
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
