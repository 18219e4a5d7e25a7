"""Covariance of an estimate from how much blocks of data disagree, not from stated noise alone."""

import numpy as np

from maci2.types import Array

MIN_BLOCKS = 8
"""Fewer blocks do not show their own scatter: the misfit of all data stands in for it."""


def shows_scatter(blocks: int, unknowns: int) -> bool:
    """Whether there are blocks enough to tell model errors from how they disagree."""
    return blocks >= max(MIN_BLOCKS, 2 * unknowns)


def robust_covariance(information: Array, gradients: Array, excess: float) -> Array:
    """Covariance of the minimum of a sum over blocks, model errors included.

    `gradients` (blocks, d) are half the derivatives of each block's chi-square at the minimum. What
    noise as stated gives is the least; `excess` is chi-square per degree of freedom, at least 1.
    """
    inverse: Array = np.asarray(np.linalg.inv(information), dtype=np.float64)
    blocks, unknowns = gradients.shape
    if not shows_scatter(blocks, unknowns):
        return excess * inverse
    scatter = gradients.T @ gradients * blocks / (blocks - unknowns)
    return _at_least(inverse @ scatter @ inverse, inverse)


def _at_least(cov: Array, least: Array) -> Array:
    """`cov`, widened to `least` in the directions in which that is wider."""
    L = np.linalg.cholesky(least)
    white = np.linalg.solve(L, np.linalg.solve(L, cov).T)
    values, vectors = np.linalg.eigh(0.5 * (white + white.T))
    root = L @ vectors
    return np.asarray((root * np.maximum(values, 1.0)) @ root.T)
