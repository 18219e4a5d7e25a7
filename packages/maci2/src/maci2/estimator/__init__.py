"""One estimator: initialization, calibration, odometry and smoothing are one problem with different
free parameters.

Read in this order: `problem` (unknowns and measurements), `factors` (residuals and derivatives),
`normal_equations` and `solver`, then what builds a problem: `initial_guess` and `initialize`,
`calibrate`, `smoother`.
"""

from maci2.estimator.calibrate import MountingPrior, solve_from_nothing
from maci2.estimator.initialize import SolvedWindow, solve_window
from maci2.estimator.problem import Free, Problem, Shared, SolverConfig, States
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
from maci2.estimator.smoother import FixedLagSmoother, SmootherConfig
from maci2.estimator.solver import Covariance, Solution, SolverOptions, covariance, solve
from maci2.geometry.gaussian import direction_std

__all__ = [
    "CalibrationResult",
    "CalibrationStage",
    "Covariance",
    "FixedLagSmoother",
    "Free",
    "InitResult",
    "MountingPrior",
    "Posterior",
    "Problem",
    "Shared",
    "SmootherConfig",
    "Solution",
    "SolveReport",
    "SolvedWindow",
    "SolverConfig",
    "SolverOptions",
    "States",
    "Status",
    "VIState",
    "Verdict",
    "covariance",
    "direction_std",
    "solve",
    "solve_from_nothing",
    "solve_window",
]
