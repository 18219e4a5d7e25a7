"""Results of a calibration besides its extrinsics: the scale of vision, the uncertainty of the
camera frame, and the extrinsics from longer and longer parts of a recording."""

from dataclasses import replace

import numpy as np

from maci2.estimator import CalibrationStage, Posterior, SolverOptions, solve
from maci2.estimator.initialize import Solved, determined_covariance, with_loss
from maci2.estimator.problem import CAMERA, SCALE, SHARED, STATE, Loss
from maci2.geometry.se3 import se3_adj, se3_inv, se3_log
from maci2.types import NS, Array
from maci2.vision import RelativePoses

ANY_SCALE = 0.4
"""Standard deviation of the prior of the logarithm of a scale that is to be estimated freely."""

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


def measured_scale(vision: RelativePoses, solved: Solved) -> tuple[float, float] | None:
    """Scale of translations that were taken as metric, around a calibration that is solved, and its
    standard deviation; None where it was an unknown already, or where nothing determines it.

    Squares: robust losses would take the scale's error for outliers.
    """
    problem = solved.solution.problem
    if vision.std_scale > 0.0:
        return None
    info = np.zeros((STATE + SHARED, STATE + SHARED))
    info[STATE + SCALE, STATE + SCALE] = ANY_SCALE**-2.0
    (prior,) = problem.priors
    problem = replace(
        problem,
        free=replace(problem.free, scale=True),
        priors=(replace(prior, info=prior.info + info),),
    )
    again = solve(with_loss(problem, Loss()), solved.solution.states, solved.solution.shared)
    cov = determined_covariance(again) if again.converged else None
    if cov is None:
        return None
    scale = float(np.exp(again.shared.scalars[SCALE]))
    return scale, scale * float(np.sqrt(cov.shared[SCALE, SCALE]))


def frame_covariance(std_frame: tuple[float, float], T_b_c: Array) -> Array:
    """(6, 6) uncertainty of the camera frame itself, seen from the body: T_b_c Exp(xi)."""
    adj_b_c = se3_adj(T_b_c)
    return np.asarray(adj_b_c @ np.diag(np.repeat(std_frame, 3) ** 2) @ adj_b_c.T)


def with_frame(posterior: Posterior, frame: Array, T_b_c: Array) -> Posterior:
    """The posterior with uncertainty of the camera frame itself, which no motion removes."""
    adj_c_b = se3_adj(se3_inv(T_b_c))
    poses = posterior.Ts_c0_b.copy()
    # The first pose is the inverse extrinsics: xi_0 = -Ad(T_c_b) xi_bc.
    poses[0] += adj_c_b @ frame @ adj_c_b.T
    return replace(posterior, Ts_c0_b=poses, T_b_c=posterior.T_b_c + frame)
