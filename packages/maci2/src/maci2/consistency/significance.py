"""Significance of disagreement: false-alarm rate, quantiles, statistics robust to model errors."""

from functools import lru_cache

import numpy as np
from scipy.special import fdtri, ndtri

from maci2.geometry.gaussian import chi2_quantile
from maci2.types import Array, Mask

FALSE_ALARM = 0.01
"""Probability that a sound device is contradicted, all tests of its constants together."""

LEVEL = 0.9 * FALSE_ALARM / 8
"""Significance level of each of eight tests that a few windows allow."""

LONG_LEVEL = 0.1 * FALSE_ALARM / 2
"""Significance level of each of two tests that only long recordings allow: what they find is large.
"""

FAR = float(-ndtri(FALSE_ALARM / 2.0))
"""Number of standard deviations from its prior at which a single result is contradicted."""

FAR_3D = chi2_quantile(3, 1.0 - FALSE_ALARM)
"""Squared distance from its prior at which a result of three axes is contradicted."""

MIN_BLOCKS = 8
"""Fewer blocks do not show their own scatter: the misfit of all data stands in for it."""

MEDIAN_LENGTH = float(np.sqrt(chi2_quantile(3, 0.5)))
"""Median length of a whitened residual of three numbers."""

LIMIT = float(np.sqrt(chi2_quantile(3, 0.999)))
"""Length that one such residual in a thousand exceeds."""


@lru_cache(maxsize=256)
def largest_square(d: int, dof: int, level: float) -> float:
    """Squared distance in d dimensions that noise exceeds with probability `level`, its covariance
    estimated with `dof` degrees of freedom."""
    return float(d * fdtri(d, max(dof, 1), 1.0 - level))


def noise_level(lengths: Array, used: Mask) -> float:
    """Measured over nominal noise, by the median of the whitened residuals; at least 1."""
    return max(float(np.median(lengths[used])) / MEDIAN_LENGTH, 1.0) if used.any() else 1.0


def inliers(lengths: Array, used: Mask) -> Mask:
    """Whitened residuals that noise explains; half of them may be wrong."""
    return np.asarray(used & (lengths < LIMIT * noise_level(lengths, used)))


def cauchy_weights(lengths: Array, used: Mask) -> Array:
    """Weights that fall with the whitened residual."""
    relative = lengths / (LIMIT * noise_level(lengths, used))
    return np.asarray(np.where(used, 1.0 / (1.0 + relative**2), 0.0))


def shows_scatter(blocks: int, unknowns: int) -> bool:
    """There are enough blocks to estimate model errors from their disagreement."""
    return blocks >= max(MIN_BLOCKS, 2 * unknowns)


def robust_covariance(information: Array, gradients: Array, excess: float) -> Array:
    """Covariance of the minimum of a sum over blocks, model errors included.

    `gradients` (blocks, d) are half the derivatives of each block's chi-square at the minimum.
    Nominal noise gives the least covariance; `excess` is chi-square per degree of freedom, at least
    1, which stands in for the scatter of few blocks.
    """
    inverse: Array = np.asarray(np.linalg.inv(information), dtype=np.float64)
    blocks, unknowns = gradients.shape
    if not shows_scatter(blocks, unknowns):
        return excess * inverse
    scatter = gradients.T @ gradients * blocks / (blocks - unknowns)
    # Widened to the nominal covariance in directions in which that is wider.
    L = np.linalg.cholesky(inverse)
    white = np.linalg.solve(L, np.linalg.solve(L, inverse @ scatter @ inverse).T)
    values, vectors = np.linalg.eigh(0.5 * (white + white.T))
    root = L @ vectors
    return np.asarray((root * np.maximum(values, 1.0)) @ root.T)
