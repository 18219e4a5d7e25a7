"""Covariances: checks, square roots, and how errors are scored against them."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from maci2.errors import MeasurementError

Array = NDArray[np.float64]


def symmetrize(matrices: Array) -> Array:
    """The symmetric part; for matrices that are symmetric up to rounding."""
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
    lower = np.linalg.cholesky(covs)
    d = covs.shape[-1]
    stack: Array = lower.reshape(-1, d, d).astype(np.float64, copy=False)
    return _inverse_each(stack).reshape(covs.shape)


@njit(cache=True)
def _inverse_each(lower: Array) -> Array:
    inverse = np.empty_like(lower)
    for k in range(len(lower)):
        inverse[k] = inverse_lower(lower[k])
    return inverse


@njit(cache=True, error_model="numpy")
def inverse_lower(L: Array) -> Array:
    """L^-1 of a lower triangular matrix."""
    n = L.shape[0]
    inverse = np.zeros((n, n))
    for i in range(n):
        inverse[i, i] = 1.0
        for k in range(i):
            f = L[i, k]
            for c in range(k + 1):
                inverse[i, c] -= f * inverse[k, c]
        d = 1.0 / L[i, i]
        for c in range(i + 1):
            inverse[i, c] *= d
    return inverse


def nees(errors: Array, covs: Array) -> Array:
    """Normalised error squared e^T cov^-1 e, (..., d) and (..., d, d) -> (...).

    Its mean is d when the covariance tells the truth.
    """
    solved = np.linalg.solve(covs, errors[..., None])[..., 0]
    return np.einsum("...i,...i->...", errors, solved)
