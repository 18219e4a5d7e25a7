"""Errors of an IMU over windows of several factors of a chain, with the covariance that shows.

Factor j ties two neighbouring states: e_j = A_j x_j + B_j x_j+1 + noise. Multiplied from the last
one back by M_j = -M_j+1 A_j+1 B_j^-1 and added up, all states between cancel, and what is left is
the error of integrating from the window's first state, with its bias, to the last.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maci2.errors import MeasurementError
from maci2.estimator.problem import STATE
from maci2.estimator.residuals import WhitenedFactors
from maci2.estimator.solver import Covariance, Solution
from maci2.sensors.truth_covariance import TruthCovariance
from maci2.types import Array, Stamps


@dataclass(frozen=True)
class Windows:
    """m windows of equally many factors, one from every state that has enough after it."""

    first: NDArray[np.int64]
    """(m,) first factor of each window."""

    transport: Array
    """(steps, m, 15, 15) what takes a whitened residual of each factor to the window's end."""

    cov: Array
    """(m, 15, 15) of the IMU's error over the window."""

    cov_shown: Array
    """(m, 15, 15) of what shows of it between the states, which follow the IMU too."""

    def errors(self, r: Array) -> Array:
        """(m, 15) errors at the windows' ends of whitened residuals (n, 15) of all factors."""
        return np.asarray(
            sum(
                np.einsum("kij,kj->ki", M, r[self.first + step])
                for step, M in enumerate(self.transport)
            )
        )


def compose_windows(
    stamps_ns: Stamps,
    solution: Solution,
    posterior: Covariance,
    factors: WhitenedFactors,
    steps: int,
) -> Windows:
    """All windows of `steps` IMU factors without a gap of the samples."""
    white = solution.measurements.white
    whole = np.einsum("kii->ki", white).all(axis=1)
    first = _runs(whole, steps)
    if not len(first):
        raise MeasurementError(
            f"no {steps} neighbouring states without a gap of the IMU's samples between them; give "
            "a longer recording."
        )
    white_inv = np.zeros_like(white)
    white_inv[whole] = np.linalg.inv(white[whole])
    G = white_inv @ factors.G
    A, B, shared = G[:, :, :STATE], G[:, :, STATE : 2 * STATE], G[:, :, 2 * STATE :]
    M = np.tile(np.eye(STATE), (len(first), 1, 1))
    transport: list[Array] = []
    by_border = np.zeros((len(first), STATE, shared.shape[2]))
    for at in (first + step for step in reversed(range(steps))):
        transport.insert(0, M @ white_inv[at])
        by_border += M @ shared[at]
        by_first = M @ A[at]
        if len(transport) < steps:
            M = -by_first @ np.linalg.inv(B[at - 1])
    D = np.concatenate([by_first, B[first + steps - 1], by_border], axis=2)
    cov = sum(W @ np.swapaxes(W, 1, 2) for W in transport)
    followed = D @ _joint(stamps_ns, posterior, first, steps) @ np.swapaxes(D, 1, 2)
    return Windows(first, np.stack(transport), np.asarray(cov), np.asarray(cov - followed))


def _runs(whole: NDArray[np.bool_], steps: int) -> NDArray[np.int64]:
    """Starts of runs of `steps` that are whole."""
    broken = np.r_[0, np.cumsum(~whole)]
    return np.asarray(np.flatnonzero(broken[steps:] == broken[:-steps]), dtype=np.int64)


def _joint(stamps_ns: Stamps, posterior: Covariance, first: NDArray[np.int64], steps: int) -> Array:
    """(m, 30 + b, 30 + b) of the windows' first and last states and the free constants."""
    s, last = STATE, first + steps
    known = (posterior.states, posterior.neighbours, posterior.with_shared, posterior.free)
    chain = TruthCovariance(stamps_ns, *known)
    P = np.zeros((len(first), 2 * s + len(posterior.free), 2 * s + len(posterior.free)))
    P[:, :s, :s], P[:, s : 2 * s, s : 2 * s] = posterior.states[first], posterior.states[last]
    P[:, :s, s : 2 * s] = chain.between(first, last)
    P[:, :s, 2 * s :] = posterior.with_shared[first]
    P[:, s : 2 * s, 2 * s :] = posterior.with_shared[last]
    upper = np.triu(np.ones(P.shape[1:], dtype=bool), 1)
    P[:, 2 * s :, 2 * s :] = posterior.free
    return np.where(upper.T, np.swapaxes(P, 1, 2), P)
