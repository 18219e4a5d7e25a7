"""What each ten seconds of a calibration added."""

from dataclasses import replace

import numpy as np

from maci2.calibration.calibration_solve import Solved
from maci2.chain import ChainConfig, ChainProblem, States, chain_posterior, solve_chain
from maci2.chain.chain_state import CAMERA
from maci2.errors import MeasurementError
from maci2.estimation.results import CalibrationStage
from maci2.lie import se3_inv, se3_log
from maci2.types import NS, Array

STAGE_S = 10.0
MOST_STAGES = 30
"""Largest number of stages; longer calibrations have longer stages."""

SHORTEST_REST = 0.3
"""A last stage shorter than this fraction of the others is merged with the one before."""


def calibration_progress(solved: Solved, frame: Array) -> tuple[CalibrationStage, ...]:
    """Extrinsics and their standard deviations after every ten seconds, from that part alone.

    Each stage is solved for itself from the final answer, with the noise that all of it showed;
    `frame` (6, 6) is doubt about the camera frame that no motion removes.
    """
    stamps_ns = solved.problem.stamps_ns
    length_s = float(stamps_ns[-1] - stamps_ns[0]) / NS
    stage_s = STAGE_S * max(1, int(np.ceil(length_s / (STAGE_S * MOST_STAGES))))
    counts = range(1, int(length_s / stage_s - SHORTEST_REST) + 1)
    ends = [
        int(np.searchsorted(stamps_ns, stamps_ns[0] + i * stage_s * NS, "right")) for i in counts
    ]
    stages = [_stage(solved, n, frame) for n in ends if 4 <= n < len(stamps_ns)]
    return tuple(
        stage for stage in (*stages, _stage(solved, len(stamps_ns), frame)) if stage is not None
    )


def _stage(solved: Solved, n: int, frame: Array) -> CalibrationStage | None:
    """Answer of the first n keyframes; None where they give none."""
    states = States(*(values[:n] for values in solved.guess.states))
    problem = _first_part(solved.problem, n)
    try:
        solution = solve_chain(problem, states, solved.guess.border, ChainConfig(max_rounds=2))
        cov = chain_posterior(solution).border[CAMERA, CAMERA] + frame
    except MeasurementError:
        return None
    if not solution.converged:
        return None
    seconds = float(problem.stamps_ns[-1] - problem.stamps_ns[0]) / NS
    moved = se3_log(solution.border.T_b_c @ se3_inv(solved.guess.border.T_b_c))
    return CalibrationStage(seconds, np.sqrt(np.diag(cov)), moved)


def _first_part(problem: ChainProblem, n: int) -> ChainProblem:
    camera = problem.camera
    assert camera is not None
    inside = camera.index < n - 1
    return replace(
        problem,
        stamps_ns=problem.stamps_ns[:n],
        camera=replace(
            camera,
            index=camera.index[inside],
            Ts_ck_ck1=camera.Ts_ck_ck1[inside],
            covs=camera.covs[inside],
        ),
    )
