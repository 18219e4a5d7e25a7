"""A window's problem at a state that is known already: for its residuals, and solved again with the
rig's constants free."""

from dataclasses import replace

import numpy as np

from maci2.estimator.initialize import (
    HUBER,
    RELINEARIZE_ABOVE,
    solve_motion,
    window_problem,
    with_loss,
)
from maci2.estimator.measurements import Spans, with_motion_only
from maci2.estimator.problem import SCALE, Loss, Shared, SolverConfig, States
from maci2.estimator.results import Posterior, SolveReport, VIState, first_camera_guess
from maci2.estimator.solver import Solution, SolverOptions, evaluated
from maci2.imu import ImuMeasurements
from maci2.vision import RelativePoses

TEST_DECREMENT = 0.04
"""Decrease of the cost at which a solution ends that only tests stated constants: no unknown moves
by more than a fifth of a standard deviation."""


def window_at(
    imu: ImuMeasurements,
    vision: RelativePoses,
    state: VIState,
    config: SolverConfig,
    inflation: float,
    scale: float | None = None,
) -> Solution:
    """A window's problem at a known state, for its covariance and residuals. Without `scale` vision
    is taken as metric."""
    vision = replace(vision, stamps_ns=state.stamps_ns)
    if scale is None and vision.std_scale > 0.0:
        vision = replace(vision, std_scale=0.0)
    states, shared = _guess_at(state)
    shared.scalars[SCALE] = np.log(scale or 1.0)
    problem = replace(window_problem(imu, vision, config), inflation=inflation)
    loss = HUBER if config.robust else Loss()
    return evaluated(with_loss(problem, loss), states, shared)


def _guess_at(state: VIState) -> tuple[States, Shared]:
    return first_camera_guess(
        state.Ts_c0_b,
        state.velocity_b,
        state.gravity_c0,
        state.gyro_bias_residual,
        state.acc_bias_residual,
        state.T_b_c,
    )


def solve_with_free_constants(
    imu: ImuMeasurements,
    vision: RelativePoses,
    state: VIState,
    config: SolverConfig,
    spans: Spans | None = None,
) -> tuple[VIState, Posterior | None, SolveReport]:
    """A window solved again with extrinsics, scale and clock free, from a solution that took them
    as stated; `spans` are the samples integrated between its keyframes, where they are at hand.

    Squares, for robust losses would take the scale's error for outliers, and more steps, for what a
    window hardly shows lies at the end of a long valley.
    """
    states, shared = _guess_at(state)
    vision = replace(vision, stamps_ns=state.stamps_ns)
    problem = window_problem(imu, vision, config, T_b_c=state.T_b_c)
    options = SolverOptions(
        4 * config.max_iterations, decrement=TEST_DECREMENT, reintegrate_above=RELINEARIZE_ABOVE
    )
    # Clocks are nearly as stated, and samples may end with the keyframes.
    before = None if spans is None else with_motion_only(problem, spans)
    solved = solve_motion(problem, states, shared, 0.0, False, options, np.inf, before)
    return solved.answer(imu)
