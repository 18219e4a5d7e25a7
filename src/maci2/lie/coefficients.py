"""Coefficients of exponential, logarithm and Jacobians: functions of the angle t, to the last bit.

Written in closed form, coefficients such as (t - sin t) / t^3 lose all digits near zero. So each
is its own power series below `SERIES_BELOW`. A slope is a derivative by t, divided by t.
"""

import math

import numpy as np
from scipy.special import zeta

from maci2.compile import kernel
from maci2.types import Array

# Below this angle [rad] the closed forms cancel by more than a digit; the series there converge
# to the last bit in `SERIES_TERMS` terms.
SERIES_BELOW = 1.0
SERIES_TERMS = 10


def _alternating(first: int) -> Array:
    """(-1)^m / (first + 2m)!, the series of sin, cos and of what is left of them."""
    return np.array([(-1.0) ** m / math.factorial(first + 2 * m) for m in range(SERIES_TERMS + 1)])


def _slopes(coefficients: Array) -> Array:
    """Coefficients of the derivative by t of a series in t^2, divided by t."""
    return 2.0 * np.arange(1, len(coefficients)) * coefficients[1:]


_EVEN = 2 * np.arange(1, SERIES_TERMS + 2)

SIN = _alternating(1)
COS = _alternating(2)
COS_SLOPE = _slopes(COS)
SIN_REMAINDER = _alternating(3)
SIN_REMAINDER_SLOPE = _slopes(SIN_REMAINDER)
# |B_2n| / (2n)!, n = 1, 2, ..., with Bernoulli numbers B: 2 zeta(2n) / (2 pi)^2n.
HALF_COT = 2.0 * zeta(_EVEN) / (2.0 * np.pi) ** _EVEN
HALF_COT_SLOPE = _slopes(HALF_COT)


@kernel
def _series(coefficients: Array, t2: float) -> float:
    """sum_m coefficients[m] t2^m."""
    total = 0.0
    for m in range(SERIES_TERMS - 1, -1, -1):
        total = coefficients[m] + t2 * total
    return total


@kernel
def sin_over(t: float) -> float:
    """sin(t) / t."""
    return _series(SIN, t * t) if t < SERIES_BELOW else math.sin(t) / t


@kernel
def one_minus_cos_over(t: float) -> float:
    """(1 - cos t) / t^2."""
    return _series(COS, t * t) if t < SERIES_BELOW else (1.0 - math.cos(t)) / (t * t)


@kernel
def t_minus_sin_over(t: float) -> float:
    """(t - sin t) / t^3."""
    return _series(SIN_REMAINDER, t * t) if t < SERIES_BELOW else (t - math.sin(t)) / (t * t * t)


@kernel
def half_cot_over(t: float) -> float:
    """(1 - (t / 2) cot(t / 2)) / t^2, the second-order coefficient of J^-1."""
    if t < SERIES_BELOW:
        return _series(HALF_COT, t * t)
    return (1.0 - 0.5 * t / math.tan(0.5 * t)) / (t * t)


@kernel
def one_minus_cos_slope(t: float) -> float:
    """The derivative of `one_minus_cos_over`, divided by t."""
    if t < SERIES_BELOW:
        return _series(COS_SLOPE, t * t)
    return (sin_over(t) - 2.0 * one_minus_cos_over(t)) / (t * t)


@kernel
def t_minus_sin_slope(t: float) -> float:
    """The derivative of `t_minus_sin_over`, divided by t."""
    if t < SERIES_BELOW:
        return _series(SIN_REMAINDER_SLOPE, t * t)
    return (one_minus_cos_over(t) - 3.0 * t_minus_sin_over(t)) / (t * t)


@kernel
def half_cot_slope(t: float) -> float:
    """The derivative of `half_cot_over`, divided by t."""
    if t < SERIES_BELOW:
        return _series(HALF_COT_SLOPE, t * t)
    s = math.sin(0.5 * t)
    rising = (0.25 * t / (s * s) - 0.5 / math.tan(0.5 * t)) / t
    return (rising - 2.0 * half_cot_over(t)) / (t * t)
