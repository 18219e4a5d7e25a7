"""Measurements that do not belong to the others, found without trusting the stated noise."""

import numpy as np

from maci2.gaussian import chi2_quantile
from maci2.types import Array, Mask

MEDIAN_LENGTH = float(np.sqrt(chi2_quantile(3, 0.5)))
"""Median length of a whitened residual of three numbers."""

LIMIT = float(np.sqrt(chi2_quantile(3, 0.999)))
"""Length that one such residual in a thousand exceeds."""


def noise_level(lengths: Array, used: Mask) -> float:
    """Factor on the stated noise that the middle residual shows; at least 1."""
    if not used.any():
        return 1.0
    return max(float(np.median(lengths[used])) / MEDIAN_LENGTH, 1.0)


def inliers(lengths: Array, used: Mask) -> Mask:
    """Mask of whitened residuals no longer than noise makes them; half of them may be wrong."""
    return np.asarray(used & (lengths < LIMIT * noise_level(lengths, used)))


def cauchy_weights(lengths: Array, used: Mask) -> Array:
    """Weights that fall with the residual: outliers among the first ones lose their hold."""
    relative = lengths / (LIMIT * noise_level(lengths, used))
    return np.asarray(np.where(used, 1.0 / (1.0 + relative**2), 0.0))
