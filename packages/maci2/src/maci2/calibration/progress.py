"""Extrinsics from longer and longer parts of a recording."""

from dataclasses import replace

import numpy as np

from maci2.estimator import CalibrationStage, SolverOptions, solve
from maci2.estimator.initialize import Solved, determined_covariance
from maci2.estimator.problem import CAMERA
from maci2.geometry.se3 import se3_inv, se3_log
from maci2.types import NS, Array

STAGE_S = 10.0
MOST_STAGES = 30
"""Largest number of stages of progress; longer calibrations have longer stages."""

SHORTEST_REST = 0.3
"""A last stage shorter than this fraction of the others is merged with the one before."""


def calibration_progress(solved: Solved, frame: Array) -> tuple[CalibrationStage, ...]:
    """Extrinsics and their standard deviations after every ten seconds, from that part alone.

    Each stage is solved on its own from the final answer, with the noise that all of it showed;
    `frame` (6, 6) is uncertainty of the camera frame, which no motion removes.
    """
    stamps_ns = solved.solution.problem.stamps_ns
    length_s = float(stamps_ns[-1] - stamps_ns[0]) / NS
    stage_s = STAGE_S * max(1, int(np.ceil(length_s / (STAGE_S * MOST_STAGES))))
    counts = range(1, int(length_s / stage_s - SHORTEST_REST) + 1)
    ends = [
        int(np.searchsorted(stamps_ns, stamps_ns[0] + i * stage_s * NS, "right")) for i in counts
    ]
    ends = [n for n in ends if 4 <= n < len(stamps_ns)]
    stages = [_stage(solved, n, frame) for n in (*ends, len(stamps_ns))]
    return tuple(stage for stage in stages if stage is not None)


def _stage(solved: Solved, n: int, frame: Array) -> CalibrationStage | None:
    """Answer of the first n keyframes; None where they give none."""
    whole, problem = solved.solution, solved.solution.problem
    problem = replace(
        problem,
        stamps_ns=problem.stamps_ns[:n],
        camera=tuple(stack.part(0, n - 1) for stack in problem.camera),
    )
    solution = solve(
        problem, whole.states.part(slice(n)), whole.shared, SolverOptions(max_rounds=2)
    )
    cov = determined_covariance(solution) if solution.converged else None
    if cov is None:
        return None
    seconds = float(problem.stamps_ns[-1] - problem.stamps_ns[0]) / NS
    moved = se3_log(solution.shared.T_b_c @ se3_inv(whole.shared.T_b_c))
    std = np.sqrt(np.diag(cov.shared[CAMERA, CAMERA] + frame))
    return CalibrationStage(seconds, std, moved)
