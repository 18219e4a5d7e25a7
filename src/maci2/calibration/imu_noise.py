"""Noise of an IMU from recordings in motion: densities and random walks, with their sigmas."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from maci2.calibration.noise_estimate import NoiseEstimate, NoiseLevel
from maci2.calibration.noise_likelihood import (
    IMU_LEVELS,
    WHITE,
    Slope,
    likelihood_slope,
    other_kinds,
)
from maci2.estimator.problem import (
    CameraMotions,
    Loss,
    MarkerOrientations,
    MarkerPositions,
    Problem,
    Shared,
    States,
)
from maci2.estimator.solver import CAMERA, POSITIONS, Solution, SolverOptions, solve
from maci2.sensors import ImuNoise
from maci2.types import Array

Measured = TypeVar("Measured", CameraMotions, MarkerPositions, MarkerOrientations)

MOST_STEPS = 25
LONGEST_STEP = 1.5
"""Largest change of the logarithm of a squared density in one step."""

SETTLED = 0.1
"""Steps end when no logarithm moves by more than this share of its sigma."""

STD_LOG_STATED = 2.0 * np.log(10.0)
"""Standard deviation of the logarithm of a squared density about the data sheet's: a factor of ten.
Values that the motion does not determine stay at the data sheet and are reported as such."""


@dataclass(frozen=True)
class NoiseProblem:
    """One recording: its chain, and where to begin."""

    problem: Problem
    states: States
    shared: Shared
    least_factor: float = 1e-6
    """Least variance of what is not the IMU, over the one stated."""

    log_factors: tuple[float, ...] = ()
    """Logarithms of the factors that its variances have been scaled with so far."""


def estimate_imu_noise(recordings: Sequence[NoiseProblem], stated: ImuNoise) -> NoiseEstimate:
    """Maximum of the likelihood over all recordings, states integrated out.

    Noise of what is not the IMU (relative poses, marker positions, orientations) is estimated with
    it, for each recording by itself. `stated` is the data sheet: where to begin, and with a spread
    of a factor of ten the prior of what motion does not show.
    """
    first = 2.0 * np.log(stated_levels(stated))
    logs, chains = first.copy(), [_without_losses(recording) for recording in recordings]
    converged = False
    for _ in range(MOST_STEPS):
        slopes = []
        for i, chain in enumerate(chains):
            solution = _solve(chain, logs)
            problem = _with_levels(chain.problem, logs)
            slopes.append(likelihood_slope(problem, solution, np.exp(logs)))
            chains[i] = replace(chain, states=solution.states, shared=solution.shared)
        step, others, cov = _newton(slopes, logs - first)
        logs = logs + step
        scaled = [_rescaled(c, o) for c, o in zip(chains, others, strict=True)]
        moved = [_moved(before, after) for before, after in zip(chains, scaled, strict=True)]
        chains = scaled
        settled = np.abs(step) < SETTLED * np.sqrt(np.diag(cov))
        if settled.all() and max(moved) < SETTLED:
            converged = True
            break
    return _estimate(logs, cov, converged)


def fit_reference_noise(recording: NoiseProblem, noise: Array) -> Solution:
    """The states with the noise of what is not the IMU at its maximum of the likelihood, that of
    the IMU held at `noise` (8,): densities of the axes, then walks."""
    logs, chain = 2.0 * np.log(noise), _without_losses(recording)
    for _ in range(MOST_STEPS):
        solution = _solve(chain, logs)
        slope = likelihood_slope(_with_levels(chain.problem, logs), solution, np.exp(logs))
        chain = replace(chain, states=solution.states, shared=solution.shared)
        own = _bent(slope)[8:, 8:] + 1e-6 * np.eye(len(slope.score) - 8)
        step = np.clip(np.linalg.solve(own, slope.score[8:]), -LONGEST_STEP, LONGEST_STEP)
        before, chain = chain, _rescaled(chain, step)
        if _moved(before, chain) < SETTLED:
            break
    return _solve(chain, logs)


def stated_levels(stated: ImuNoise) -> Array:
    """(8,) densities of the axes and walks, as a data sheet has them."""
    least = 1e-9
    walks = [max(stated.walk_gyro, least), max(stated.walk_acc, least)]
    return np.array([stated.density_gyro] * 3 + [stated.density_acc] * 3 + walks)


def _without_losses(recording: NoiseProblem) -> NoiseProblem:
    """Factors with squared losses only: robust losses have no usable likelihood."""
    problem = recording.problem
    problem = replace(
        problem,
        camera=tuple(_squared(stack) for stack in problem.camera),
        positions=problem.positions and _squared(problem.positions),
        orientations=problem.orientations and _squared(problem.orientations),
    )
    return replace(recording, problem=problem)


def _squared(measured: Measured) -> Measured:
    return replace(measured, loss=Loss())


def _with_levels(problem: Problem, logs: Array) -> Problem:
    imu, variances = problem.imu, np.exp(logs)
    rate_hz = 1e9 / float(np.median(np.diff(imu.stamps_ns)))
    shape = imu.gyro.shape
    noisy = replace(
        imu,
        var_gyro=np.broadcast_to(variances[:3] * rate_hz, shape).copy(),
        var_acc=np.broadcast_to(variances[3:6] * rate_hz, shape).copy(),
        cov_0=np.zeros((9, 9)),
    )
    walk_gyro, walk_acc = np.sqrt(variances[6:])
    return replace(problem, imu=noisy, walk_gyro=float(walk_gyro), walk_acc=float(walk_acc))


def _solve(chain: NoiseProblem, logs: Array) -> Solution:
    problem = _with_levels(chain.problem, logs)
    return solve(
        problem, chain.states, chain.shared, SolverOptions(max_iterations=20, max_rounds=2)
    )


def _newton(slopes: list[Slope], from_stated: Array) -> tuple[Array, list[Array], Array]:
    """Step of the IMU's levels, steps of each recording's other noise, covariance of the first.

    The other noise of each recording is eliminated: it belongs to that recording alone.
    """
    prior = np.eye(IMU_LEVELS) / STD_LOG_STATED**2
    information, score = prior.copy(), -prior @ from_stated
    eliminated = []
    for slope in slopes:
        bent = _bent(slope)
        A, B = bent[:8, :8], bent[:8, 8:]
        C = bent[8:, 8:] + 1e-6 * np.eye(len(slope.score) - 8)
        solved = np.linalg.solve(C, np.column_stack([B.T, slope.score[8:]]))
        information += A - B @ solved[:, :8]
        score += slope.score[:8] - B @ solved[:, 8]
        eliminated.append((B, C))
    cov: Array = np.asarray(np.linalg.inv(_positive(information)), dtype=np.float64)
    step: Array = np.clip(cov @ score, -LONGEST_STEP, LONGEST_STEP)
    others = [
        np.clip(np.linalg.solve(C, slope.score[8:] - B.T @ step), -LONGEST_STEP, LONGEST_STEP)
        for slope, (B, C) in zip(slopes, eliminated, strict=True)
    ]
    return step, others, cov


def _bent(slope: Slope) -> Array:
    """Information by logarithms, which bend too: a level on its way to zero slows down."""
    return np.asarray(slope.information + np.diag(np.maximum(-slope.score, 0.0)))


def _positive(information: Array) -> Array:
    """Average information may be indefinite by chance far from the optimum: at least the prior."""
    values, vectors = np.linalg.eigh(0.5 * (information + information.T))
    return np.asarray((vectors * np.maximum(values, STD_LOG_STATED**-2.0)) @ vectors.T)


def _rescaled(chain: NoiseProblem, steps: Array) -> NoiseProblem:
    """The problem with the noise of its other measurements scaled."""
    before = chain.log_factors or (0.0,) * len(steps)
    after = np.maximum(np.array(before) + steps, np.log(chain.least_factor))
    problem = chain.problem
    camera, positions, orientations = problem.camera, problem.positions, problem.orientations
    for kind, factor in zip(other_kinds(problem), np.exp(after - before), strict=True):
        if kind == CAMERA:
            camera = tuple(_scaled(stack, factor) for stack in camera)
        elif kind == POSITIONS and positions is not None:
            positions = _scaled(positions, factor)
        elif orientations is not None:
            orientations = _scaled(orientations, factor)
    problem = replace(problem, camera=camera, positions=positions, orientations=orientations)
    return replace(chain, problem=problem, log_factors=tuple(float(a) for a in after))


def _scaled(measured: Measured, factor: float) -> Measured:
    return replace(measured, covs=factor * measured.covs)


def _moved(before: NoiseProblem, after: NoiseProblem) -> float:
    """Largest change of the logarithm of a variance that is not the IMU's."""
    first = before.log_factors or (0.0,) * len(after.log_factors)
    return float(np.abs(np.subtract(after.log_factors, first)).max(initial=0.0))


def _estimate(logs: Array, cov: Array, converged: bool) -> NoiseEstimate:
    """Logarithms of squares to levels of their roots."""
    levels = [
        NoiseLevel(float(np.exp(0.5 * log)), 0.5 * float(np.sqrt(variance)))
        for log, variance in zip(logs, np.diag(cov), strict=True)
    ]
    gyro, acc = (levels[0], levels[1], levels[2]), (levels[3], levels[4], levels[5])
    return NoiseEstimate(gyro, acc, levels[WHITE], levels[WHITE + 1], 0.25 * cov, converged)
