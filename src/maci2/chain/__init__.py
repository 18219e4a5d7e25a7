"""A chain of many states with wandering biases, estimated at a cost linear in its length."""

from maci2.chain.chain_measurements import (
    CameraMotions,
    ChainProblem,
    GaussianPrior,
    Loss,
    MarkerOrientations,
    MarkerPositions,
    border_prior,
    state_prior,
    zero_velocity,
)
from maci2.chain.chain_posterior import ChainPosterior, chain_posterior, last_state_covariance
from maci2.chain.chain_solver import ChainConfig, ChainSolution, solve_chain
from maci2.chain.chain_state import Border, BorderUnknowns, States, make_border
from maci2.chain.marginalization import (
    marginalize_first,
    solution_without_first,
    with_wandering_constants,
    without_first,
)
from maci2.chain.variance_components import (
    ChainResiduals,
    NoiseSolution,
    chain_residuals,
    solve_with_noise,
)

__all__ = [
    "Border",
    "BorderUnknowns",
    "CameraMotions",
    "ChainConfig",
    "ChainPosterior",
    "ChainProblem",
    "ChainResiduals",
    "ChainSolution",
    "GaussianPrior",
    "Loss",
    "MarkerOrientations",
    "MarkerPositions",
    "NoiseSolution",
    "States",
    "border_prior",
    "chain_posterior",
    "chain_residuals",
    "last_state_covariance",
    "make_border",
    "marginalize_first",
    "solution_without_first",
    "solve_chain",
    "solve_with_noise",
    "state_prior",
    "with_wandering_constants",
    "without_first",
    "zero_velocity",
]
