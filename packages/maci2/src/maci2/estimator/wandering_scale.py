"""Scale of an odometry that wanders, in a chain that is smoothed as a whole.

The problem has one scale. What the scale is off from that is a path w(t): a random
walk from zero at the first state, linear between knots. Relative poses and their covariances are
stretched by exp(w), and the chain is solved with them; given its solution, Newton's step of w is

    (D - C' H^-1 C) dw = -(J_w' r + Q w),        D = J_w' J_w + Q,  C = J_x' J_w

where r are the whitened residuals of relative poses, J_w and J_x their derivatives by w and by all
other unknowns, H the chain's normal equations and Q the information of the random walk. That is the
optimum of states, constants and path together, and their covariance follows from the same blocks.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maci2.estimator.problem import SCALE, STATE, CameraMotions, Problem, Shared, States
from maci2.estimator.residuals import Response
from maci2.estimator.solver import Covariance, Solution, SolverOptions, covariance, solve
from maci2.geometry.gaussian import symmetrize
from maci2.types import NS, Array, Stamps

KNOT_S, MOST_KNOTS = 2.0, 200
"""Time between knots [s], and how many there are at most: in a longer chain they are farther
apart. A knot needs 120 bytes a state."""

STEPS, STEP_TOLERANCE = 6, 1e-5
"""Newton's steps, and the largest movement of w that ends them."""


class SmoothedScale(NamedTuple):
    """A chain with a wandering scale, solved."""

    solution: Solution
    posterior: Covariance
    """Covariances of the states include those of the path."""

    log_scale: Array
    """(m,) logarithm of true length over vision's, of each relative pose."""


def solve_with_wandering_scale(
    problem: Problem, states: States, shared: Shared, walk: float, config: SolverOptions
) -> SmoothedScale:
    """Solve a chain whose scale is free and wanders by `walk` [1/sqrt(s)]."""
    (motions,) = problem.camera
    knots, info = random_walk(problem.stamps_ns, walk)
    knots = knots[motions.index]
    w = np.zeros(len(info))
    for _ in range(STEPS):
        stretched = stretched_motions(motions, knots @ w)
        solution = solve(replace(problem, camera=(stretched,)), states, shared, config)
        states, shared = solution.states, solution.shared
        posterior = covariance(solution)
        step, added = _newton_step(Response(solution, posterior), solution, knots, info, w)
        if np.abs(step).max() < STEP_TOLERANCE:
            break
        w = w + step
    posterior = posterior._replace(states=posterior.states + added)
    return SmoothedScale(solution, posterior, shared.scalars[SCALE] + knots @ w)


def stretched_motions(motions: CameraMotions, log_stretch: Array) -> CameraMotions:
    """Relative poses in another unit of length each, with the covariances in that unit."""
    stretch = np.ones((len(log_stretch), 6))
    stretch[:, :3] = np.exp(log_stretch)[:, None]
    Ts_ck_ck1 = motions.Ts_ck_ck1.copy()
    Ts_ck_ck1[:, :3, 3] *= stretch[:, :3]
    covs = stretch[:, :, None] * motions.covs * stretch[:, None]
    return replace(motions, Ts_ck_ck1=Ts_ck_ck1, covs=covs)


def random_walk(stamps_ns: Stamps, walk: float) -> tuple[Array, Array]:
    """(n - 1, k) share of each knot in the path between neighbouring states, and the (k, k)
    information of a random walk at the knots, which begins at zero."""
    seconds = (stamps_ns - stamps_ns[0]) / NS
    count = int(np.clip(round(seconds[-1] / KNOT_S), 1, MOST_KNOTS))
    at = np.linspace(0.0, seconds[-1], count + 1)
    middle = 0.5 * (seconds[1:] + seconds[:-1])
    shares = np.array([np.interp(middle, at, hat) for hat in np.eye(count + 1)[1:]]).T
    increments = np.eye(count) - np.eye(count, k=-1)
    return shares, increments.T @ increments / (walk**2 * at[1])


def _newton_step(
    response: Response, solution: Solution, knots: Array, info: Array, w: Array
) -> tuple[Array, Array]:
    """Step of w, and the (n, 15, 15) covariance that the uncertainty of w adds to the states."""
    by_scale = response.rows[:, :, 2 * STATE + int(solution.columns[6 + SCALE])]
    weights = response.weights
    gradient = knots.T @ (weights * np.sum(by_scale * response.r, axis=1)) + info @ w
    D = knots.T @ ((weights * np.sum(by_scale**2, axis=1))[:, None] * knots) + info
    C, C_border = response.gradients(by_scale[:, :, None] * knots[:, None])
    moved, moved_border = response.solved(C, C_border)
    by_others = np.tensordot(C, moved, axes=([0, 1], [0, 1])) + C_border.T @ moved_border
    cov = np.linalg.inv(symmetrize(D - by_others))
    return -cov @ gradient, moved @ cov @ np.swapaxes(moved, 1, 2)
