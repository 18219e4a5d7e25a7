"""Everything that a chain is estimated from, as arrays for the kernels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maci2.chain.propagation import Spans
from maci2.types import Array

Indices = NDArray[np.int64]

IMU_GROUP, CAMERA_GROUP, POSITION_GROUP, ORIENTATION_GROUP, PRIOR_GROUP = range(5)
"""Kinds of measurement whose costs are kept apart."""

GROUPS = 5

NO_LOSS, HUBER, CAUCHY = range(3)


class Timed(NamedTuple):
    """m measurements, each of one state carried to its own instant; sorted by state."""

    at_state: Indices
    """(m,) state."""
    spans: Spans
    """Spans from the state to the timestamp, with its clock's offset as it was when integrated."""
    anchor: Array
    """(m,) that offset [s]."""
    elapsed: Array
    """(m,) timestamp less the clock's origin [s]."""
    value: Array
    """(m, 3, 1) positions p_w_m, or (m, 3, 3) rotations R_w_m."""
    white: Array
    """(m, 3, 3) W with W'W = cov^-1."""
    loss: Array
    """(2,) which loss, and its limit in standard deviations."""


class Ties(NamedTuple):
    """What ties neighbours; entry k ties states k and k + 1."""

    spans: Spans
    """(n - 1,) IMU motion."""
    white: Array
    """(n - 1, 15, 15) of it; zero where the IMU has a gap."""
    camera: Array
    """(m, 4, 4) relative poses T_ck_ck1."""
    camera_index: Indices
    """(m,) sorted."""
    camera_white: Array
    """(m, 15, 15), of which the upper left (6, 6) is used."""
    camera_loss: Array
    """(2,)"""
    instant: Spans
    """(n,) spans of no length: angular rate and specific force at each state."""


class StackedPriors(NamedTuple):
    """Gaussian priors on one state and the border each; see `GaussianPrior`."""

    at_state: Indices
    Ts_w_b: Array
    rest: Array
    """(m, 9) [v, bg, ba]"""
    R_w_g: Array
    T_b_c: Array
    T_b_m: Array
    scalars: Array
    info: Array
    """(m, 35, 35)"""
    eta: Array
    """(m, 35)"""
    constant: Array
    """(m,)"""


class Factors(NamedTuple):
    """Everything measured or known."""

    ties: Ties
    positions: Timed
    orientations: Timed
    priors: StackedPriors


class FactorRows(NamedTuple):
    """Derivatives and residuals of single factors, (m, d, columns [state(s), residual, free
    constants]) of each kind; arrays without entries have none kept."""

    imu: Array
    """(n - 1, 15, 31 + b)"""
    camera: Array
    """(m, 6, 31 + b)"""
    positions: Array
    """(m, 3, 16 + b)"""
    orientations: Array
    """(m, 3, 16 + b)"""


NO_ROWS = FactorRows(*4 * [np.zeros((0, 0, 0))])
"""Rows of a linearization that is asked for normal equations only."""
