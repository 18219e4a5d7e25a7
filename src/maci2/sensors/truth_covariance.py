"""Covariances of ground-truth states, and of pairs of them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maci2.types import Array, Stamps

STATE = 15


@dataclass(frozen=True)
class TruthCovariance:
    """Joint covariance of a chain of ground-truth states that share a few constants.

    Order of a state [phi, v, p, bg, ba]: R_w_b Exp(phi), the others plain differences, v and p in
    the truth's world. Given the constants, a state depends on its neighbours only.
    """

    stamps_ns: Stamps
    """(n,) timestamps at which covariances are stored, increasing [ns]."""

    states: Array
    """(n, 15, 15) of each state."""

    neighbours: Array
    """(n - 1, 15, 15) of state k (rows) with state k + 1 (columns)."""

    with_constants: Array
    """(n, 15, b) of each state with the constants."""

    constants: Array
    """(b, b) of the constants."""

    imu_noise: Array | None = None
    """(n - 1, 9, 9) of the IMU measurement between consecutive states that the ground truth was
    made with, order [gamma, beta, alpha]; None if it was made without."""

    def at(self, query_ns: Stamps) -> Array:
        """(m, 15, 15) of the states at other timestamps, linear between the stored ones."""
        since_ns = self.stamps_ns[0]
        elapsed = (np.asarray(query_ns) - since_ns).astype(float)
        place = np.interp(elapsed, self.stamps_ns - since_ns, np.arange(len(self.stamps_ns)))
        before = np.minimum(place.astype(np.int64), len(self.stamps_ns) - 2)
        u = (place - before)[:, None, None]
        return np.asarray((1.0 - u) * self.states[before] + u * self.states[before + 1])

    def nearest(self, query_ns: Stamps) -> Stamps:
        """(m,) indices of the stored states nearest to timestamps."""
        query_ns = np.asarray(query_ns)
        after = np.clip(np.searchsorted(self.stamps_ns, query_ns), 1, len(self.stamps_ns) - 1)
        closer = query_ns - self.stamps_ns[after - 1] < self.stamps_ns[after] - query_ns
        return np.asarray(after - closer)

    @cached_property
    def _given_constants(self) -> tuple[Array, Array]:
        """Part of each state that the constants explain, and transitions between states."""
        explained = np.linalg.solve(self.constants, np.swapaxes(self.with_constants, 1, 2))
        rest = self.states - self.with_constants @ explained
        between = self.neighbours - self.with_constants[:-1] @ explained[1:]
        return np.asarray(explained), np.asarray(np.linalg.solve(rest[:-1], between))

    def between(self, i: Stamps, j: Stamps) -> Array:
        """(m, 15, 15) covariance of stored states i (rows) with later or equal ones j (columns)."""
        explained, steps = self._given_constants
        carried = self.states[i] - self.with_constants[i] @ explained[i]
        for step in range(int(np.max(j - i, initial=0))):
            going = np.flatnonzero(i + step < j)
            carried[going] = carried[going] @ steps[i[going] + step]
        return np.asarray(carried + self.with_constants[i] @ explained[j])

    def pairs(self, first: Stamps, later: Stamps) -> Array:
        """(m, 30, 30) joint covariances of pairs of stored states, by index."""
        joint = np.empty((len(first), 2 * STATE, 2 * STATE))
        joint[:, :STATE, :STATE] = self.states[first]
        joint[:, STATE:, STATE:] = self.states[later]
        joint[:, :STATE, STATE:] = self.between(first, later)
        joint[:, STATE:, :STATE] = np.swapaxes(joint[:, :STATE, STATE:], 1, 2)
        return joint

    def joint(self, places: Stamps) -> Array:
        """(15 m, 15 m) joint covariance of stored states, by increasing index."""
        m = len(places)
        a, b = np.triu_indices(m)
        cov = np.empty((m, m, STATE, STATE))
        cov[a, b] = self.between(places[a], places[b])
        cov[b, a] = np.swapaxes(cov[a, b], 1, 2)
        return cov.swapaxes(1, 2).reshape(m * STATE, m * STATE)
