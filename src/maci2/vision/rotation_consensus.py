"""Errors that all predicted rotations share, learned from the rotations that matches tell.

A gyroscope's bias is the same for seconds, so whatever rotations the camera really made tell one
bias; a thing that moves by itself tells another one every time. The largest set of relative poses
that agree on the shared errors is looked for from single poses, and believed only where it explains
the rotations far better than a motion of its own for each of them, and no other set does so nearly
as well. Where that is not so, nothing is known but what the predictions say themselves.
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maci2.gaussian import chi2_quantile, nees, symmetrize
from maci2.lie import so3_exp, so3_log
from maci2.types import Array, Mask
from maci2.vision.predicted_rotation import AGREEMENT_CHI2, SURE_CHI2, PredictedRotation

HISTORY = 50
"""Relative poses that are remembered: as long as a bias hardly wanders."""

THING_STD = 0.02
"""[rad] Rotation, per axis, by which a set of matches on a thing that moves may be off."""

EVIDENCE = 25.0
"""Natural logarithm of the odds from which on shared errors are believed: four sharp poses that
agree."""

AHEAD_OF_OTHERS = 4.0
"""How many times the evidence of any set of the other poses that has to be."""

MEDIAN_CHI2 = chi2_quantile(3, 0.5)
"""Median of chi-square with 3 degrees of freedom: of those that agree the mean would be too small,
since what scatters more does not agree."""

NOT_FAR_CHI2 = 4.0 * AGREEMENT_CHI2
"""Beyond this a rotation is no camera's that scatters more than its covariance says."""

SEEDS, MAX_ROUNDS = 12, 8


class Rotations(NamedTuple):
    """What is remembered: (n, ...) of n relative poses."""

    away: Array
    """(n, 3) left difference of measured and predicted rotation [rad]."""

    by_shared: Array
    """(n, 3, m) what shared errors make of it."""

    cov: Array
    """(n, 3, 3) of the rest."""

    def take(self, which: Mask) -> "Rotations":
        return Rotations(*(column[which] for column in self))


@dataclass(frozen=True)
class SharedErrors:
    """The errors that a set of relative poses agrees on, in units of their standard deviations."""

    mean: Array
    cov: Array
    agreeing: Mask
    """(n,) which relative poses agree."""

    evidence: float
    """Logarithm of the odds for errors that these share, against a motion of its own for each."""

    noise: float
    """Factor on all covariances: larger than 1 where what is not far off scatters by more than they
    say."""


class RotationConsensus:
    """Sharpens predicted rotations by the latest relative poses."""

    def __init__(self) -> None:
        self._told: deque[tuple[Array, Array, Array]] = deque(maxlen=HISTORY)
        self.shared: SharedErrors | None = None
        """What is believed of the shared errors; None where nothing is."""

    def add(self, predicted: PredictedRotation, R_ck_ck1: Array, cov: Array) -> None:
        """Take the rotation that matches tell, with its covariance (3, 3), left. It must have been
        measured without what is known from here, or that would confirm itself."""
        away = so3_log(np.ascontiguousarray(R_ck_ck1 @ predicted.R_ck_ck1.T))
        by_shared = predicted.by_shared
        own = predicted.cov - by_shared @ by_shared.T
        self._told.append((away, by_shared, symmetrize(cov + own)))
        told = Rotations(*(np.array(column) for column in zip(*self._told, strict=True)))
        self.shared = believed(told, None if self.shared is None else self.shared.mean)

    def sharpened(self, predicted: PredictedRotation) -> PredictedRotation | None:
        """The prediction with what is known of the shared errors; None where nothing is."""
        if self.shared is None:
            return None
        by_shared = predicted.by_shared
        own = predicted.cov - by_shared @ by_shared.T
        R_ck_ck1 = so3_exp(by_shared @ self.shared.mean) @ predicted.R_ck_ck1
        cov = own + by_shared @ self.shared.cov @ by_shared.T
        return PredictedRotation(R_ck_ck1, symmetrize(self.shared.noise * cov))


def believed(told: Rotations, before: Array | None = None) -> SharedErrors | None:
    """The shared errors that most rotations agree on; None where another set may be the camera's.

    `before` are those believed before this rotation was told, if any were.
    """
    most = _most_probable(told, before)
    if most.evidence < EVIDENCE:
        return None
    others = ~most.agreeing
    if others.any():
        rest = _most_probable(told.take(others))
        if AHEAD_OF_OTHERS * rest.evidence > most.evidence:
            return None
    return most


def _most_probable(told: Rotations, before: Array | None = None) -> SharedErrors:
    """The set with most evidence, looked for around what was believed and around single poses."""
    nothing = np.zeros(told.by_shared.shape[2])
    if before is not None:
        found = _settled(told, before, np.zeros((len(nothing), len(nothing))))
        if 2 * int(found.agreeing.sum()) > len(found.agreeing):
            return found
    sharpest = np.argsort(np.linalg.det(told.cov), kind="stable")[:SEEDS]
    starts = [_solved(told, np.arange(len(told.away)) == k) for k in sharpest]
    found_sets = [_settled(told, *start) for start in starts]
    if before is not None:
        found_sets.append(found)
    return max(found_sets, key=lambda one: one.evidence)


def _settled(told: Rotations, mean: Array, cov: Array) -> SharedErrors:
    """Solve with the rotations that agree until these stay the same."""
    agreeing = np.zeros(len(told.away), dtype=bool)
    for _ in range(MAX_ROUNDS):
        spread = told.cov + told.by_shared @ cov @ np.swapaxes(told.by_shared, 1, 2)
        agree = nees(told.away - told.by_shared @ mean, spread) < SURE_CHI2
        if (agree == agreeing).all():
            break
        agreeing = agree
        mean, cov = _solved(told, agreeing)
    chi2 = nees(told.away - told.by_shared @ mean, told.cov)
    noise = float(np.median(chi2[chi2 < NOT_FAR_CHI2])) if agreeing.any() else 0.0
    noise = max(1.0, noise / MEDIAN_CHI2)
    return SharedErrors(mean, cov, agreeing, _evidence(told.take(agreeing), mean, cov), noise)


def _solved(told: Rotations, which: Mask) -> tuple[Array, Array]:
    """Shared errors with covariance from some rotations; the prior is the identity."""
    J, cov = told.by_shared[which], told.cov[which]
    JtW = np.swapaxes(np.linalg.solve(cov, J), 1, 2)
    H = np.eye(J.shape[2]) + (JtW @ J).sum(axis=0)
    P = symmetrize(np.linalg.inv(H))
    return P @ np.einsum("nij,nj->i", JtW, told.away[which]), P


def _evidence(told: Rotations, mean: Array, cov: Array) -> float:
    """Logarithm of the odds for rotations with shared errors against things of their own motion."""
    own = told.cov + told.by_shared @ np.swapaxes(told.by_shared, 1, 2) + THING_STD**2 * np.eye(3)
    shared = _log_density(told.away - told.by_shared @ mean, told.cov)
    # The density of a joint Gaussian at its maximum, times the volume of what is left unknown.
    known = 0.5 * float(np.linalg.slogdet(cov)[1]) - 0.5 * float(mean @ mean)
    return float((shared - _log_density(told.away, own)).sum()) + known


def _log_density(errors: Array, covs: Array) -> Array:
    """(n,) logarithm of Gaussian densities, but for a constant."""
    return np.asarray(-0.5 * (nees(errors, covs) + np.linalg.slogdet(covs)[1]))
