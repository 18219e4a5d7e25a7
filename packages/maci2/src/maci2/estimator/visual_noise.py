"""How large the noise of relative poses is, against what they state: read off their innovations."""

from collections import deque
from typing import NamedTuple

import numpy as np

from maci2.geometry.gaussian import chi2_quantile, nees, square_root_information
from maci2.types import Array, Mat6

POSES = 3
"""Innovations whose median is taken: about half a second of keyframes."""

MEDIAN_CHI2 = chi2_quantile(1, 0.5)
"""Median of the square of a standard normal number."""

BY_CHANCE = 2.5
"""Ratio of that median to its expectation which 18 innovations of the stated size exceed once in a
hundred times: below it, nothing is scaled."""

LARGEST_FACTOR = 25.0
"""Largest factor on the stated covariance; beyond it a relative pose is an outlier, not noise."""

FEWEST, REMEMBERED = 10, 50
"""Innovations that a lasting noise is estimated from: two to ten seconds of keyframes."""

LARGEST_SQUARE = 9.0
"""Square of a whitened entry beyond which it counts as that: outliers are not noise."""

MEAN_SQUARE = 0.973
"""Expected square of a standard normal number so limited."""

PRECISION = 1e-3
"""Share of a lasting variance to which it is told."""

CHANCE_SIGMAS = 3.0
"""Standard deviations of the mean square by which it must exceed its expectation."""

BELIEVED_CHI2 = chi2_quantile(6, 0.99)
"""Chi-square of six numbers that one in a hundred exceeds: beyond it noise as known does not
explain an innovation, and that pose alone is given as much more as does."""

ONE_SIDED = np.array([[5, 8.3], [10, 7.5], [20, 5.4], [40, 4.2]])
"""Numbers of innovations that are averaged, and standard deviations of their mean beyond which it
is no chance: noise has both signs, a bias that has jumped has one. Sound recordings reach two
thirds of it (docs/research/tracking.md)."""

ONE_SIDED_COUNTS = ONE_SIDED[:, 0].astype(np.int64)

SLOW_RATES = np.repeat([0.01, np.deg2rad(0.1)], 3)
"""(6,) speed [m/s] and rate [rad/s] of slow errors of vision, which are one-sided for seconds."""


class VisualNoise:
    """Noise that the covariances of relative poses do not state, one keyframe late.

    A factor for what comes and goes within a second, and a variance of rotation and of translation
    that lasts: none below what is stated, since good innovations do not make a measurement better
    than it claims.
    """

    def __init__(self) -> None:
        self._squares: deque[Array] = deque(maxlen=POSES)
        self._lasting = (_LastingVariance(slice(0, 3)), _LastingVariance(slice(3, 6)))
        self._recent: deque[Array] = deque(maxlen=int(ONE_SIDED_COUNTS[-1]))
        self.is_one_sided = False  # innovations keep to one side of what is predicted
        self.factor = 1.0  # median square of the whitened innovations over its expectation

    def covariance(self, stated: Mat6) -> Mat6:
        """(6, 6) of a relative pose, with what its predecessors have shown."""
        return self.factor * (stated + self._more)

    @property
    def _more(self) -> Mat6:
        """(6, 6) that lasts beyond what is stated."""
        rho, phi = (lasting.variance for lasting in self._lasting)
        return np.diag([rho, rho, rho, phi, phi, phi])

    def explaining(self, difference: "Innovation", stated: Mat6) -> Mat6:
        """(6, 6) of a relative pose, wide enough for its own innovation.

        A pose that contradicts the IMU by more than chance allows is wrong by an amount that its
        covariance does not know; a state that followed it would not know it either.
        """
        cov = self.covariance(stated)
        if nees(difference.r, difference.cov + cov) <= BELIEVED_CHI2:
            return cov
        root = square_root_information(cov)
        variances, axes = np.linalg.eigh(root @ difference.cov @ root.T)
        squares = (axes.T @ (root @ difference.r)) ** 2
        factor = 1.0
        # Newton's steps: the sum is convex and falls, so none goes too far.
        while (excess := float(np.sum(squares / (variances + factor))) - BELIEVED_CHI2) > 0.01:
            factor += excess / float(np.sum(squares / (variances + factor) ** 2))
        return factor * cov

    def observe(self, difference: "Innovation", stated: Mat6) -> None:
        """Take note of an innovation."""
        known = difference.cov + stated
        dt = difference.dt
        self._recent.append(np.array([difference.r / dt, np.diag(known) / dt**2]))
        self.is_one_sided = _keep_to_one_side(self._recent)
        root = square_root_information(known + self._more)
        self._squares.append((root @ difference.r) ** 2)
        if len(self._squares) == POSES:
            ratio = float(np.median(np.concatenate(self._squares))) / MEDIAN_CHI2
            self.factor = min(ratio, LARGEST_FACTOR) if ratio > BY_CHANCE else 1.0
        for lasting in self._lasting:
            lasting.observe(difference.r, known)


def _keep_to_one_side(recent: deque[Array]) -> bool:
    """Whether innovations have one sign: no noise of relative poses does that. What predicts them
    is wrong, and taking it for noise would have the state follow it."""
    newest_first = np.array(recent)[::-1]
    counts = ONE_SIDED_COUNTS[len(newest_first) >= ONE_SIDED_COUNTS]
    means = newest_first.cumsum(axis=0)[counts - 1] / counts[:, None, None]
    stated = np.sqrt(means[:, 1] / counts[:, None] + SLOW_RATES**2)
    far = np.flatnonzero((np.abs(means[:, 0]) / stated).max(axis=1) > ONE_SIDED[: len(counts), 1])
    return any(
        _sigmas_of_mean(*newest_first[: counts[k]].swapaxes(0, 1)) > ONE_SIDED[k, 1] for k in far
    )


def _sigmas_of_mean(rates: Array, variances: Array) -> float:
    """How far from zero the mean of n innovations (n, 6) is, in standard deviations: the stated
    ones or, where it is more, those that the innovations themselves show, and slow errors."""
    variance = np.maximum(rates.var(axis=0, ddof=1), variances.mean(axis=0)) / len(rates)
    return float((np.abs(rates.mean(axis=0)) / np.sqrt(variance + SLOW_RATES**2)).max())


class _LastingVariance:
    """A variance that stated covariances lack: the one that explains the last innovations."""

    def __init__(self, part: slice) -> None:
        self._part = part
        self._seen: deque[Array] = deque(maxlen=REMEMBERED)  # (2, 3) squares and their variances
        self.variance = 0.0

    def observe(self, r: Array, cov: Array) -> None:
        variances, axes = np.linalg.eigh(cov[self._part, self._part])
        self._seen.append(np.array([(axes.T @ r[self._part]) ** 2, variances]))
        if len(self._seen) >= FEWEST:
            self.variance = self._solved(*np.array(self._seen).swapaxes(0, 1))

    def _solved(self, squares: Array, variances: Array) -> float:
        """Variance at which the mean square of whitened innovations is what it should be."""

        def ratio(extra: float) -> float:
            limited = np.minimum(squares / (variances + extra), LARGEST_SQUARE)
            return float(limited.mean()) / MEAN_SQUARE

        if ratio(0.0) < 1.0 + CHANCE_SIGMAS * np.sqrt(2.0 / squares.size):
            return 0.0
        low, high = 0.0, float(squares.max())
        while high - low > PRECISION * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if ratio(middle) > 1.0 else (low, middle)
        return high


class Innovation(NamedTuple):
    """A relative pose against what the IMU predicts."""

    r: Array
    """(6,) left difference [rho, phi]."""

    cov: Array
    """(6, 6) covariance of the prediction."""

    dt: float = 0.2
    """Time over which it is predicted [s]."""
