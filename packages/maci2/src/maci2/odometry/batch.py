"""A track smoothed as a whole: every state with all measurements, those after it included.

`solve_with_wandering_scale` smooths a chain whose scale wanders. The problem has one scale; what
the scale is off from that is a path w(t): a random walk from zero at the first state, linear
between knots. Relative poses and their covariances are stretched by exp(w), and the chain is solved
with them; given its solution, Newton's step of w is

    (D - C' H^-1 C) dw = -(J_w' r + Q w),        D = J_w' J_w + Q,  C = J_x' J_w

where r are the whitened residuals of relative poses, J_w and J_x their derivatives by w and by all
other unknowns, H the chain's normal equations and Q the information of the random walk. That is the
optimum of states, constants and path together, and their covariance follows from the same blocks.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maci2.estimator.initialize import camera_motions
from maci2.estimator.outliers import without
from maci2.estimator.problem import (
    SCALE,
    STATE,
    CameraMotions,
    Problem,
    Shared,
    States,
    shared_parameters,
)
from maci2.estimator.residuals import Response
from maci2.estimator.smoother import SmootherConfig, chain_problem
from maci2.estimator.solver import (
    DEFAULT_OPTIONS,
    Covariance,
    Solution,
    SolverOptions,
    covariance,
    solve,
)
from maci2.estimator.visual_noise import TIME_CONSTANT_S, drift_step
from maci2.geometry.gaussian import symmetrize
from maci2.geometry.se3 import se3_adj, se3_inv
from maci2.imu import ImuMeasurements
from maci2.odometry.tracked import Origin, Track, TrackedState
from maci2.types import NS, Array, Mat4, Stamps
from maci2.vision import RelativePoses


def smoothed(
    imu: ImuMeasurements,
    vision: RelativePoses,
    T_b_c: Mat4,
    walks: tuple[float, float],
    causal: Track,
    config: SmootherConfig,
) -> Track:
    """The longest continuous part of a causal track, every state smoothed with all measurements.

    Rejected relative poses stay rejected, and the others are used with the covariances that the
    causal track has found; its states are the initial guess.
    """
    segments = [state.segment for state in causal.states]
    longest = max(set(segments), key=segments.count)
    by_stamp = {state.stamp_ns: state for state in causal.states if state.segment == longest}
    inside = np.flatnonzero([int(stamp) in by_stamp for stamp in vision.stamps_ns])
    vision = _as_used(vision.part(int(inside[0]), int(inside[-1])), causal)
    stamps_ns = vision.stamps_ns
    imu = imu.between(int(stamps_ns[0]), int(stamps_ns[-1]))
    guess = [by_stamp[int(stamp)] for stamp in stamps_ns]
    states = States(
        np.ascontiguousarray([state.T_w_b for state in guess]),
        np.array([state.v_w for state in guess]),
        np.array([state.gyro_bias for state in guess]),
        np.array([state.acc_bias for state in guess]),
    )
    shared = shared_parameters(T_b_c=T_b_c, log_scale=causal.log_scale)
    camera = camera_motions(vision, np.flatnonzero(vision.measured), config.loss)
    problem = chain_problem(imu, vision, camera, (states, shared), walks, config.calibration)
    if problem.free.scale and config.calibration.scale_walk > 0.0:
        walk = config.calibration.scale_walk
        solution, posterior, _ = solve_with_wandering_scale(problem, states, shared, walk)
    else:
        solution = solve(problem, states, shared)
        posterior = covariance(solution)
    covs = posterior.states
    if causal.slow_error_deg > 0.0:
        unit = smoothed_drift_covariance(solution, posterior, stamps_ns)
        covs = covs + np.deg2rad(causal.slow_error_deg) ** 2 * unit
    # The chain's world is fixed to its own first state.
    origins = list(causal.origins)
    origins[longest] = Origin(int(stamps_ns[0]), solution.states.Ts_w_b[0])
    # States between keyframes are carried by the IMU.
    images_ns, found = np.array(sorted(by_stamp)), list[TrackedState]()
    for k, stamp_ns in enumerate(map(int, stamps_ns)):
        found.append(by_stamp[stamp_ns].at(stamp_ns, solution.states, k, covs[k]))
        end_ns = stamps_ns[k + 1] if k + 1 < len(stamps_ns) else images_ns[-1] + 1
        between_ns = images_ns[(images_ns > stamp_ns) & (images_ns < end_ns)]
        for state in found[-1].carried(imu, between_ns, solution.shared, walks):
            found.append(replace(state, health=by_stamp[state.stamp_ns].health))
    return replace(causal, states=found, origins=tuple(origins))


def _as_used(vision: RelativePoses, causal: Track) -> RelativePoses:
    """Relative poses as the causal track has used them: without those that it rejected."""
    covs, kept = vision.covs_T_ck_ck1.copy(), vision.measured.copy()
    after = {keyframe.stamp_ns: keyframe for keyframe in causal.keyframes}
    for k, stamp_ns in enumerate(map(int, vision.stamps_ns[1:])):
        keyframe = after.get(stamp_ns)
        if keyframe is None:
            continue
        kept[k] &= not keyframe.rejected
        if kept[k] and keyframe.cov_T_ck_ck1 is not None:
            covs[k] = keyframe.cov_T_ck_ck1
    return without(replace(vision, covs_T_ck_ck1=covs), kept)


PATHS, AT_ONCE = 400, 100
"""Paths that are drawn, and how many are in memory together: variances are told to 7 % and need
12 kB a state."""


def smoothed_drift_covariance(
    solution: Solution, posterior: Covariance, stamps_ns: Stamps, seed: int = 0
) -> Array:
    """(n, 15, 15) covariance that a w of one radian adds to each state."""
    response, motions = Response(solution, posterior), solution.measurements.motions
    by_drift = se3_adj(se3_inv(np.ascontiguousarray(solution.shared.T_b_c)))[:, 3:6]
    after = np.array([se3_adj(np.ascontiguousarray(T)) @ by_drift for T in motions.Ts_ck_ck1[:, 0]])
    rng, total = np.random.default_rng(seed), np.zeros((len(stamps_ns), STATE, STATE))
    for _ in range(PATHS // AT_ONCE):
        paths = drift_paths(stamps_ns, AT_ONCE, rng)
        errors = after @ paths[motions.state + 1] - by_drift @ paths[motions.state]
        moved, _ = response.solved(*response.gradients(motions.white @ errors))
        total += moved @ np.swapaxes(moved, 1, 2)
    return total / PATHS


def drift_paths(stamps_ns: Stamps, count: int, rng: np.random.Generator) -> Array:
    """(n, 3, count) paths of w at timestamps, of variance one."""
    wobble = rng.standard_normal((6, count))
    wobble[3:] /= TIME_CONSTANT_S
    paths = [wobble[:3]]
    for dt in np.diff(stamps_ns) / NS:
        by_drift, noise = drift_step(float(dt))
        # Of steps that are short against the process, rounding leaves the noise semidefinite.
        values, vectors = np.linalg.eigh(noise)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        wobble = by_drift @ wobble + root @ rng.standard_normal((6, count))
        paths.append(wobble[:3])
    return np.array(paths)


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
    problem: Problem,
    states: States,
    shared: Shared,
    walk: float,
    config: SolverOptions = DEFAULT_OPTIONS,
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
