"""Least squares in which three of the unknowns are a vector of known norm.

The originals look for the Lagrange multiplier among the roots of a polynomial of degree six. Here
the other unknowns are eliminated and the multiplier is the one root of the secular equation

    sum (q_i' r)^2 / (lambda_i + mu)^2 = norm^2,    mu > -lambda_min

for which S + mu I is positive: that one is the minimum. A test compares with the polynomial.
"""

import numpy as np

from maci2.types import Array

MAX_ITERATIONS = 100
TOLERANCE = 1e-14


def solve_on_sphere(H: Array, b: Array, part: slice, norm: float) -> Array:
    """Minimizer of x' H x / 2 - b' x subject to |x[part]| = norm; H is positive definite on the
    other unknowns."""
    inside = np.zeros(len(b), dtype=bool)
    inside[part] = True
    others = ~inside
    by_part = np.linalg.solve(H[np.ix_(others, others)], H[np.ix_(others, inside)])
    known = np.linalg.solve(H[np.ix_(others, others)], b[others])
    S = H[np.ix_(inside, inside)] - H[np.ix_(inside, others)] @ by_part
    r = b[inside] - H[np.ix_(inside, others)] @ known
    x = np.empty(len(b))
    x[inside] = nearest_on_sphere(0.5 * (S + S.T), r, norm)
    x[others] = known - by_part @ x[inside]
    return x


def nearest_on_sphere(S: Array, r: Array, norm: float) -> Array:
    """Minimizer of g' S g / 2 - r' g subject to |g| = norm."""
    values, Q = np.linalg.eigh(S)
    c = Q.T @ r
    gaps = values - values[0]
    lowest = gaps <= 1e-14 * max(abs(values[-1]), abs(values[0]))
    # At mu = -lambda_min the lowest directions are free; where r does not reach them, the rest
    # may be too short for the sphere, and they fill it up.
    rest = np.where(lowest, 0.0, c) / np.where(lowest, 1.0, gaps)
    if np.linalg.norm(c[lowest]) <= 1e-14 * np.linalg.norm(c) and np.linalg.norm(rest) <= norm:
        filled = rest.copy()
        filled[0] = np.sqrt(norm**2 - rest @ rest)
        return Q @ filled
    shift = _secular_root(c, gaps, norm)
    g = Q @ (c / (gaps + shift))
    return g * (norm / np.linalg.norm(g))


def _secular_root(c: Array, gaps: Array, norm: float) -> float:
    """Solution shift > 0 of |c / (gaps + shift)| = norm by Newton steps on 1 / |.|, which is nearly
    linear and concave; steps that leave the bracket are replaced."""
    low = max(float(np.max(np.abs(c) / norm - gaps)), 0.0)
    high = float(np.linalg.norm(c)) / norm
    shift = low if low > 0.0 else 0.5 * high
    for _ in range(MAX_ITERATIONS):
        g = c / (gaps + shift)
        length = float(np.linalg.norm(g))
        if abs(length - norm) <= TOLERANCE * norm or high - low <= TOLERANCE * high:
            break
        if length > norm:
            low = shift
        else:
            high = shift
        slope = float(g @ (g / (gaps + shift))) / length**3
        step = (1.0 / norm - 1.0 / length) / slope
        shift = shift + step if low < shift + step < high else 0.5 * (low + high)
    return shift
