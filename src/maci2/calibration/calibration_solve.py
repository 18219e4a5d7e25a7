"""Solving a calibration's chain: clock, scale, noise that is larger than stated."""

from dataclasses import dataclass, replace

import numpy as np

from maci2.calibration.calibration_problem import (
    EXACT_GAUGE_STD,
    Choices,
    Guess,
    MountingPrior,
    calibration_problem,
    first_camera_prior,
    in_first_camera,
)
from maci2.chain import (
    ChainConfig,
    ChainPosterior,
    ChainProblem,
    ChainSolution,
    chain_posterior,
    solve_chain,
)
from maci2.chain.chain_assembly import stack_priors
from maci2.chain.chain_state import CAMERA_CLOCK_AT, LOG_SCALE_AT, SCALE
from maci2.consistency import MeasuredScale
from maci2.errors import MeasurementError
from maci2.estimation import SolverConfig
from maci2.estimation.solve import CHI2_LEVEL, SETTLED
from maci2.estimation.time_offset import LARGEST_S
from maci2.gaussian import chi2_quantile
from maci2.imu import ImuMeasurements
from maci2.types import NS
from maci2.vision import RelativePoses

MAX_ROUNDS = 8
"""Largest number of solves."""

REANCHOR_ABOVE_S = 3e-4
"""Change of the time offset [s] after which keyframes are moved to their new times: up to here,
constant rate and force extrapolate to a microradian."""

ANY_SCALE = 0.4
"""Standard deviation of the prior of the logarithm of a scale that is to be estimated freely."""


@dataclass(frozen=True)
class Solved:
    """A solved calibration, in the frame of the first camera."""

    problem: ChainProblem
    solution: ChainSolution
    guess: Guess
    """The solution as a place to begin from; keyframes on the IMU's clock."""

    chi_square: float
    """Cost with the noise as stated."""

    choices: Choices
    iterations: int

    def posterior(self) -> ChainPosterior | None:
        """Covariances; None where some direction is not determined at all."""
        try:
            return chain_posterior(self.solution)
        except MeasurementError:
            return None


def solve_calibration(
    imu: ImuMeasurements,
    vision: RelativePoses,
    guess: Guess,
    mounting: MountingPrior,
    config: SolverConfig,
) -> Solved:
    """Solve everything jointly, and again if the solution shows that an assumption did not hold.

    A clock or a scale that is off makes every pose look like an outlier, so squares come first
    where one of them is free. Chi-square too large: measurements are noisier than stated and are
    weighed down; priors, which nothing has contradicted, keep their weight.
    """
    choices = Choices(config.estimate_time_offset, vision.std_scale, False)
    iterations = 0
    if choices.clock or choices.std_scale > 0.0:
        first = solve_with_clock(imu, vision, guess, choices, mounting, config)
        guess, iterations = first.guess, first.iterations
    choices = replace(choices, robust=config.robust)
    chi_square = np.nan
    for _ in range(MAX_ROUNDS):
        solved = solve_with_clock(imu, vision, guess, choices, mounting, config)
        iterations += solved.iterations
        cost, dof = solved.solution.cost, solved.solution.dof
        if choices.inflation == 1.0:
            chi_square = cost
        enough = chi2_quantile(dof, CHI2_LEVEL) if choices.inflation == 1.0 else SETTLED * dof
        if not solved.solution.converged or not np.isfinite(cost) or cost <= enough:
            break
        guess = solved.guess
        choices = replace(choices, inflation=choices.inflation * cost / dof)
    return replace(solved, chi_square=chi_square, iterations=iterations)


def solve_with_clock(
    imu: ImuMeasurements,
    vision: RelativePoses,
    guess: Guess,
    choices: Choices,
    mounting: MountingPrior,
    config: SolverConfig,
) -> Solved:
    """One solution, with keyframes at the instants that its clock says."""
    chain_config, iterations = ChainConfig(max_iterations=config.max_iterations), 0
    for _ in range(MAX_ROUNDS):
        problem = calibration_problem(imu, vision, guess, choices, mounting)
        solution = solve_chain(problem, guess.states, guess.border, chain_config)
        iterations += solution.iterations
        states, border = in_first_camera(solution.states, solution.border)
        further_s = float(border.scalars[CAMERA_CLOCK_AT])
        outside = abs(guess.offset_s + further_s) > LARGEST_S
        if not solution.converged or outside or abs(further_s) <= REANCHOR_ABOVE_S:
            break
        border.scalars[CAMERA_CLOCK_AT] = 0.0
        stamps_ns = guess.stamps_ns + round(further_s * NS)
        guess = Guess(stamps_ns, guess.offset_s + further_s, states, border)
    guess = replace(guess, states=states, border=border)
    problem = calibration_problem(imu, vision, guess, choices, mounting)
    gauge = first_camera_prior(states, border, EXACT_GAUGE_STD)
    solution = replace(
        solution,
        states=states,
        border=border,
        factors=solution.factors._replace(priors=stack_priors((gauge, *problem.priors[1:]))),
        converged=solution.converged and not outside,
    )
    return Solved(problem, solution, guess, solution.cost, choices, iterations)


def measured_scale(
    imu: ImuMeasurements,
    vision: RelativePoses,
    solved: Solved,
    mounting: MountingPrior,
    config: SolverConfig,
) -> MeasuredScale | None:
    """Scale of translations that were taken as metric, around a calibration that is solved; None
    where it was an unknown already, or where nothing tells it."""
    if vision.std_scale > 0.0:
        return None
    # Squares: robust losses would take the scale's error for outliers.
    choices = replace(solved.choices, std_scale=ANY_SCALE, robust=False)
    free = solve_with_clock(imu, vision, solved.guess, choices, mounting, config)
    posterior = free.posterior()
    if not free.solution.converged or posterior is None:
        return None
    scale = float(np.exp(free.solution.border.scalars[LOG_SCALE_AT]))
    return MeasuredScale(scale, scale * float(np.sqrt(posterior.border[SCALE, SCALE])))
