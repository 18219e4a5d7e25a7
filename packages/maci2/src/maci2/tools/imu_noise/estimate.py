"""Noise of an IMU from recordings in motion: densities and random walks, with their sigmas."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maci2.estimator.problem import Loss, Problem, Shared, States
from maci2.estimator.solver import Solution, SolverOptions, solve
from maci2.geometry.gaussian import chi2_significance, nees
from maci2.sensors import ImuNoise
from maci2.tools.imu_noise.likelihood import IMU_LEVELS, WHITE, Slope, likelihood_slope, other_kinds
from maci2.types import Array

LARGEST_KNOWN = float(np.log(2.0))
"""A density known to less than a factor of two (1 sigma) was not seen."""


@dataclass(frozen=True)
class NoiseLevel:
    """One density or random walk."""

    value: float
    """Per sqrt(Hz), SI units."""

    std_log: float
    """Standard deviation of its natural logarithm."""

    @property
    def std(self) -> float:
        """Standard deviation of the value itself, to first order."""
        return self.value * self.std_log

    @property
    def seen(self) -> bool:
        """The recordings show it; otherwise it stays near the data sheet."""
        return self.std_log < LARGEST_KNOWN


@dataclass(frozen=True)
class WhiteNoise:
    """White noise of the three axes of one sensor."""

    axes: tuple[NoiseLevel, ...]
    """Density of each axis [rad/s/sqrt(Hz)] or [m/s^2/sqrt(Hz)]."""

    cov_log: Array
    """(3, 3) covariance of their natural logarithms."""

    @property
    def seen(self) -> bool:
        """The recordings show that of some axis."""
        return any(level.seen for level in self.axes)

    @property
    def differs(self) -> bool:
        """The axes differ by more than chance explains."""
        D = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
        logs = np.log([level.value for level in self.axes])
        return chi2_significance(2, float(nees(D @ logs, D @ self.cov_log @ D.T))) < 0.001

    @property
    def pooled(self) -> NoiseLevel:
        """The most likely number of axes that are alike, to second order: an axis that hardly
        shows counts little. Of axes that differ the root of the mean variance."""
        values = np.array([level.value for level in self.axes])
        if self.differs:
            share = values**2 / np.sum(values**2)
            std_log = float(np.sqrt(share @ self.cov_log @ share))
            return NoiseLevel(float(np.sqrt(np.mean(values**2))), std_log)
        weights = np.linalg.solve(self.cov_log, np.ones(3))
        log = weights @ np.log(values) / weights.sum()
        return NoiseLevel(float(np.exp(log)), float(1.0 / np.sqrt(weights.sum())))

    @property
    def to_use(self) -> list[float]:
        """Density of each axis: its own where axes differ, else one for all."""
        pooled = self.pooled
        return [(level if self.differs else pooled).value for level in self.axes]


@dataclass(frozen=True)
class NoiseEstimate:
    """Noise of an IMU as recordings in motion show it."""

    gyro: WhiteNoise
    acc: WhiteNoise
    walk_gyro: NoiseLevel
    """Random walk of the bias, all axes alike [rad/s^2/sqrt(Hz)]."""

    walk_acc: NoiseLevel
    """Random walk of the bias, all axes alike [m/s^3/sqrt(Hz)]."""

    converged: bool

    def levels(self) -> Array:
        """(8,) densities to use for the axes, then walks."""
        walks = (self.walk_gyro.value, self.walk_acc.value)
        return np.array([*self.gyro.to_use, *self.acc.to_use, *walks])

    def pooled(self, rate_hz: float) -> ImuNoise:
        """One number for all axes, as most tools want it."""
        gyro, acc = self.gyro.pooled.value, self.acc.pooled.value
        return ImuNoise(gyro, acc, self.walk_gyro.value, self.walk_acc.value, rate_hz)


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
    """One recording: its estimation problem, and the initial guess."""

    problem: Problem
    states: States
    shared: Shared
    least_factor: float = 1e-6
    """Least variance of what is not the IMU, over the stated one."""

    log_factors: Array = field(default_factory=lambda: np.zeros(0))
    """Logarithms of the factors that its variances have been scaled with so far."""


def estimate_imu_noise(recordings: Sequence[NoiseProblem], stated: ImuNoise) -> NoiseEstimate:
    """Maximum of the likelihood over all recordings, states integrated out.

    Noise of what is not the IMU (relative poses, marker positions, orientations) is estimated with
    it, for each recording by itself. `stated` is the data sheet: where to begin, and with a spread
    of a factor of ten the prior of what motion does not show.
    """
    first = 2.0 * np.log(stated_levels(stated))
    logs, chains = first, [_without_losses(recording) for recording in recordings]
    converged = False
    for _ in range(MOST_STEPS):
        solved = [_solved(chain, logs) for chain in chains]
        step, others, cov = _newton([slope for _, slope in solved], logs - first)
        logs = logs + step
        chains = [_rescaled(chain, o) for (chain, _), o in zip(solved, others, strict=True)]
        moved = [_moved(before, after) for (before, _), after in zip(solved, chains, strict=True)]
        if (np.abs(step) < SETTLED * np.sqrt(np.diag(cov))).all() and max(moved) < SETTLED:
            converged = True
            break
    levels = tuple(
        NoiseLevel(float(np.exp(0.5 * log)), 0.5 * float(np.sqrt(variance)))
        for log, variance in zip(logs, np.diag(cov), strict=True)
    )
    gyro, acc = (
        WhiteNoise(levels[axes], 0.25 * cov[axes, axes]) for axes in (slice(0, 3), slice(3, 6))
    )
    return NoiseEstimate(gyro, acc, levels[WHITE], levels[WHITE + 1], converged)


def fit_reference_noise(recording: NoiseProblem, noise: Array) -> Solution:
    """The states with the noise of what is not the IMU at its maximum of the likelihood, that of
    the IMU held at `noise` (8,): densities of the axes, then walks."""
    logs, chain = 2.0 * np.log(noise), _without_losses(recording)
    for _ in range(MOST_STEPS):
        before, slope = _solved(chain, logs)
        step = np.asarray(np.linalg.solve(_others(_bent(slope)), slope.score[8:]))
        chain = _rescaled(before, step)
        if _moved(before, chain) < SETTLED:
            break
    return _solve(chain, logs)


def _solved(chain: NoiseProblem, logs: Array) -> tuple[NoiseProblem, Slope]:
    """The recording at the optimum of its states, and the slope of its likelihood there."""
    solution = _solve(chain, logs)
    slope = likelihood_slope(solution, np.exp(logs))
    return replace(chain, states=solution.states, shared=solution.shared), slope


def stated_levels(stated: ImuNoise) -> Array:
    """(8,) densities of the axes and walks, as a data sheet has them."""
    least = 1e-9
    walks = [max(stated.walk_gyro, least), max(stated.walk_acc, least)]
    return np.array([stated.density_gyro] * 3 + [stated.density_acc] * 3 + walks)


def _without_losses(recording: NoiseProblem) -> NoiseProblem:
    """Factors with squared losses only: robust losses have no usable likelihood."""
    problem = _with_others(recording.problem, lambda measured, _: replace(measured, loss=Loss()))
    return replace(recording, problem=problem, log_factors=np.zeros(len(other_kinds(problem))))


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
    options = SolverOptions(max_iterations=20, max_rounds=2)
    return solve(_with_levels(chain.problem, logs), chain.states, chain.shared, options)


def _newton(slopes: list[Slope], from_stated: Array) -> tuple[Array, list[Array], Array]:
    """Step of the IMU's levels, steps of each recording's other noise, covariance of the first.

    The other noise of each recording is eliminated: it belongs to that recording alone.
    """
    prior = np.eye(IMU_LEVELS) / STD_LOG_STATED**2
    information, score = prior.copy(), -prior @ from_stated
    eliminated = []
    for slope in slopes:
        bent = _bent(slope)
        A, B, C = bent[:8, :8], bent[:8, 8:], _others(bent)
        solved = np.linalg.solve(C, np.column_stack([B.T, slope.score[8:]]))
        information += A - B @ solved[:, :8]
        score += slope.score[:8] - B @ solved[:, 8]
        eliminated.append((B, C))
    # Average information may be indefinite by chance far from the optimum: at least the prior.
    values, vectors = np.linalg.eigh(0.5 * (information + information.T))
    positive = (vectors * np.maximum(values, STD_LOG_STATED**-2.0)) @ vectors.T
    cov: Array = np.linalg.inv(positive)
    step: Array = np.clip(cov @ score, -LONGEST_STEP, LONGEST_STEP)
    others = [
        np.asarray(np.linalg.solve(C, slope.score[8:] - B.T @ step))
        for slope, (B, C) in zip(slopes, eliminated, strict=True)
    ]
    return step, others, cov


def _others(information: Array) -> Array:
    """Part of an information that belongs to what is not the IMU; never singular."""
    return information[8:, 8:] + 1e-6 * np.eye(len(information) - 8)


def _bent(slope: Slope) -> Array:
    """Information by logarithms, which bend too: a level on its way to zero slows down."""
    return np.asarray(slope.information + np.diag(np.maximum(-slope.score, 0.0)))


def _rescaled(chain: NoiseProblem, steps: Array) -> NoiseProblem:
    """The recording with the noise of its other measurements scaled."""
    steps = np.clip(steps, -LONGEST_STEP, LONGEST_STEP)
    after = np.maximum(chain.log_factors + steps, np.log(chain.least_factor))
    factors = np.exp(after - chain.log_factors)
    problem = _with_others(
        chain.problem, lambda measured, i: replace(measured, covs=factors[i] * measured.covs)
    )
    return replace(chain, problem=problem, log_factors=after)


def _with_others(problem: Problem, changed: Callable[[Any, int], Any]) -> Problem:
    """The problem with each kind of measurement besides the IMU changed; `changed` gets a stack
    and the index of its kind."""
    changes: dict[str, Any] = {}
    for i, name in enumerate(other_kinds(problem)):
        measured = getattr(problem, name)
        several = isinstance(measured, tuple)
        stacks = tuple(changed(stack, i) for stack in (measured if several else (measured,)))
        changes[name] = stacks if several else stacks[0]
    return replace(problem, **changes)


def _moved(before: NoiseProblem, after: NoiseProblem) -> float:
    """Largest change of the logarithm of a variance that is not the IMU's."""
    return float(np.abs(after.log_factors - before.log_factors).max(initial=0.0))
