"""An accelerometer bias that wanders from window to window by a random walk."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded

from maci2.types import Array

SLOW_WALK = 0.03
"""Random walk [m/s^2 / sqrt(s)] that sound recordings show: slow errors of the camera's orientation
and of a ground truth look like a bias that wanders. MH_01, MH_03 and MH_05 show 0.02 to 0.03 with
the published ground truth, all others less; accelerometers themselves a tenth of it."""

SLOWER = (0.01, 0.02, SLOW_WALK)
"""Random walks that are expected beside none."""

FASTER = (0.05, 0.1, 0.2, 0.4)
"""Random walks that only a faulty accelerometer has."""

CONSTANTS, WIDTH = 8, 6
"""Unknowns that all windows share (one over the scale, lever arm, drift, delay), and diagonals of
the biases' information: each is tied to the next."""


class BiasBlocks(NamedTuple):
    """Chi-square of B blocks of windows in x = [constants, bias of the block]."""

    information: Array
    """(B, 11, 11)"""

    gradient: Array
    """(B, 11) half the derivative at zero."""

    constant: float
    """Chi-square at zero, of all blocks."""

    prior: Array
    """(11, 11) information on constants and bias from elsewhere."""

    dof: int
    """Numbers measured, less unknowns of the windows."""

    def misfit_of_constant_bias(self) -> float:
        """Misfit with the same bias in all blocks."""
        information = self.information.sum(axis=0) + self.prior
        gradient = self.gradient.sum(axis=0)
        chi2 = self.constant - float(gradient @ np.linalg.solve(information, gradient))
        return self.misfit(chi2, float(np.linalg.slogdet(information)[1]))

    def misfit(self, chi2: float, log_det: float) -> float:
        """Twice the negative log likelihood, the unknowns integrated out."""
        noise = self.noise(chi2)
        return self._free * float(np.log(noise)) + chi2 / noise + log_det

    def noise(self, chi2: float) -> float:
        """Factor on the stated variances: what the misfit says, never less than 1."""
        return max(chi2 / self._free, 1.0)

    @property
    def _free(self) -> int:
        return max(self.dof - self.gradient.shape[1], 1)


class WanderingBias:
    """Constants and biases most likely with a random walk of `walk` [m/s^2 / sqrt(s)] over the
    times `elapsed_s` (B - 1,) from block to block."""

    def __init__(self, blocks: BiasBlocks, elapsed_s: Array, walk: float) -> None:
        count = len(blocks.gradient)
        variances = np.maximum(walk**2 * elapsed_s, 1e-12)
        # A walk's variance is in units of the measurements' noise, as theirs is.
        self._factor = cholesky_banded(_tied(blocks, 1.0 / variances), lower=True)
        to_constants = blocks.information[:, CONSTANTS:, :CONSTANTS].reshape(3 * count, CONSTANTS)
        own = blocks.gradient[:, CONSTANTS:].reshape(3 * count)
        self._by_constants = self._solved(to_constants)
        reduced = blocks.information[:, :CONSTANTS, :CONSTANTS].sum(axis=0)
        reduced = reduced + blocks.prior[:CONSTANTS, :CONSTANTS]
        reduced = reduced - to_constants.T @ self._by_constants
        gradient = blocks.gradient[:, :CONSTANTS].sum(axis=0)
        self._reduced = reduced
        self._q = np.linalg.solve(reduced, self._by_constants.T @ own - gradient)
        self._x = -self._solved(own) - self._by_constants @ self._q
        chi2 = blocks.constant + float(gradient @ self._q + own @ self._x)
        log_det = 2.0 * float(np.log(self._factor[0]).sum())
        log_det += float(np.linalg.slogdet(reduced)[1]) + 3.0 * float(np.log(variances).sum())
        self._noise = blocks.noise(chi2)
        self.misfit: float = blocks.misfit(chi2, log_det)

    def _solved(self, values: Array) -> Array:
        return np.asarray(cho_solve_banded((self._factor, True), values))

    @property
    def _inverse_scale(self) -> float:
        # Accelerations count as one over the scale, and so does their bias.
        return float(self._q[0]) if abs(self._q[0]) > 1e-6 else 1e-6

    @property
    def biases(self) -> Array:
        """(B, 3) [m/s^2]"""
        return np.asarray(self._x.reshape(-1, 3) / self._inverse_scale)

    @cached_property
    def covariances(self) -> Array:
        """(B, 3, 3) [(m/s^2)^2]"""
        own = self._solved(np.eye(len(self._x)))
        cov = own + self._by_constants @ np.linalg.solve(self._reduced, self._by_constants.T)
        parts = [cov[k : k + 3, k : k + 3] for k in range(0, len(cov), 3)]
        return self._noise * np.array(parts) / self._inverse_scale**2


def _tied(blocks: BiasBlocks, ties: Array) -> Array:
    """(6, 3 B) lower diagonals of the biases' information, neighbours tied by a walk."""
    count = len(blocks.gradient)
    own = blocks.information[:, CONSTANTS:, CONSTANTS:] + blocks.prior[CONSTANTS:, CONSTANTS:]
    both = np.concatenate([[0.0], ties]) + np.concatenate([ties, [0.0]])
    own = own + both[:, None, None] * np.eye(3)
    diagonals = np.zeros((WIDTH, 3 * count))
    for below in range(3):
        for column in range(3 - below):
            diagonals[below, column::3] = own[:, column + below, column]
    diagonals[3, : 3 * (count - 1)] = np.repeat(-ties, 3)
    return diagonals
