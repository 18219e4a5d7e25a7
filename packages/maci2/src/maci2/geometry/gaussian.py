"""Covariances: checks, square roots, and scores of errors against them."""

import math

import numpy as np
from scipy.special import chdtrc, chdtri

from maci2.errors import MeasurementError
from maci2.jit import kernel
from maci2.types import Array


def symmetrize(matrices: Array) -> Array:
    """Symmetric part, for matrices that are symmetric up to rounding."""
    return 0.5 * (matrices + np.swapaxes(matrices, -1, -2))


def require_spd(covs: Array, name: str) -> None:
    """Raise unless every matrix of a stack (..., d, d) is a proper covariance."""
    if not np.isfinite(covs).all():
        raise MeasurementError(f"{name} holds NaN or infinity; every entry must be finite.")
    scale = np.abs(covs).max(initial=0.0)
    asymmetry = np.abs(covs - np.swapaxes(covs, -1, -2)).max(initial=0.0)
    if asymmetry > 1e-9 * scale:
        raise MeasurementError(
            f"{name} is not symmetric: entries differ by {asymmetry:.3g} from their mirror image."
        )
    smallest = np.linalg.eigvalsh(covs)[..., 0]
    if (smallest <= 0.0).any():
        where = np.argwhere(np.atleast_1d(smallest) <= 0.0)[0]
        place = f" at index {tuple(int(i) for i in where)}" if covs.ndim > 2 else ""
        raise MeasurementError(
            f"{name} is not positive definite{place}: smallest eigenvalue {smallest.min():.3g}, "
            "needed above 0. A covariance must give every direction some uncertainty."
        )


def square_root_information(covs: Array) -> Array:
    """W with W^T W = cov^-1, lower triangular, for one matrix or a stack: whitens errors."""
    d = covs.shape[-1]
    stack: Array = np.ascontiguousarray(covs, dtype=np.float64).reshape(-1, d, d)
    roots = np.zeros_like(stack)
    if not square_roots(stack, roots):
        raise np.linalg.LinAlgError("a covariance is not positive definite")
    return roots.reshape(covs.shape)


@kernel
def square_roots(covs: Array, roots: Array) -> bool:
    """Fill `roots`, given as zeros, with L^-1, cov = L L^T; False if there is no such L."""
    n = covs.shape[1]
    L = np.zeros((n, n))
    for m in range(len(covs)):
        W = roots[m]
        for i in range(n):
            for j in range(i + 1):
                rest = covs[m, i, j]
                for k in range(j):
                    rest -= L[i, k] * L[j, k]
                if j < i:
                    L[i, j] = rest / L[j, j]
                elif rest > 0.0:
                    L[i, i] = math.sqrt(rest)
                else:
                    return False
            W[i, i] = 1.0
            for k in range(i):
                for j in range(k + 1):
                    W[i, j] -= L[i, k] * W[k, j]
            for j in range(i + 1):
                W[i, j] /= L[i, i]
    return True


@kernel
def squared_distance(error: Array, cov: Array, variance: float) -> float:
    """error' (cov + variance I)^-1 error of one small matrix; NaN if not positive definite."""
    n = len(error)
    total, root = np.empty((1, n, n)), np.zeros((1, n, n))
    for i in range(n):
        for j in range(n):
            total[0, i, j] = cov[i, j]
        total[0, i, i] += variance
    if not square_roots(total, root):
        return np.nan
    square = 0.0
    for i in range(n):
        white = 0.0
        for j in range(n):
            white += root[0, i, j] * error[j]
        square += white * white
    return square


def nees(errors: Array, covs: Array) -> Array:
    """Normalized estimation error squared, e^T cov^-1 e: (..., d) and (..., d, d) -> (...).

    Its mean is d if the covariance is consistent.
    """
    solved = np.linalg.solve(covs, errors[..., None])[..., 0]
    return np.einsum("...i,...i->...", errors, solved)


def chi2_quantile(dof: int, probability: float) -> float:
    """Value that chi-square with `dof` degrees of freedom stays below with this probability."""
    return float(chdtri(dof, 1.0 - probability))


def chi2_significance(dof: int, square: float) -> float:
    """Probability that chi-square with `dof` degrees of freedom exceeds a squared distance."""
    return float(chdtrc(dof, square))


def predictive_variance(seen: Array) -> float:
    """Predictive variance of each column of a further row, from n rows (n, d) of the same
    distribution: Student's, since mean and variance come from few rows."""
    n, d = seen.shape
    dof = d * (n - 1)
    if dof < 3:
        raise ValueError(f"{n} rows of {d}: too few to say how far they spread.")
    pooled = float(seen.var(axis=0, ddof=1).mean())
    return pooled * (1.0 + 1.0 / n) * dof / (dof - 2.0)


def direction_std(vector: Array, cov: Array) -> float:
    """Standard deviation of a vector's direction [rad], both angles together."""
    norm2 = float(vector @ vector)
    across = float(np.trace(cov) - vector @ cov @ vector / norm2)
    return math.sqrt(max(across, 0.0) / norm2)
