"""What a chain is estimated from: each kind of measurement in a stack, priors, the problem."""

from copy import copy
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maci2.chain.chain_state import BORDER, STATE, Border, BorderUnknowns, States
from maci2.errors import MeasurementError
from maci2.gaussian import require_spd
from maci2.imu import ImuMeasurements
from maci2.types import Array

Stamps = NDArray[np.int64]
Indices = NDArray[np.int64]
LossKind = Literal["none", "huber", "cauchy"]

LONGEST_TIE_S = 10.0
"""Time [s] over which samples are integrated at once where other measurements tell every state."""


@dataclass(frozen=True)
class Loss:
    """How a measurement counts that is farther off than noise explains."""

    kind: LossKind = "none"
    """none: by its square; huber: linearly beyond the limit; cauchy: by a logarithm."""

    limit: float = 3.0
    """Mahalanobis distance at which the loss departs from the square."""


@dataclass(frozen=True)
class CameraMotions:
    """m relative poses of the camera, each between neighbours k and k + 1 of the chain."""

    index: Indices
    """(m,) k, rising; a neighbour pair may have several or none."""

    Ts_ck_ck1: Array
    """(m, 4, 4) takes points from camera k + 1 to camera k; vision's unit of length."""

    covs: Array
    """(m, 6, 6) left perturbation, order [rho, phi], vision's unit and rad."""

    loss: Loss = Loss()

    def __post_init__(self) -> None:
        require_spd(self.covs, "CameraMotions.covs")

    def followed_by(self, index: int, T_ck_ck1: Array, cov: Array) -> "CameraMotions":
        """These and one more, which alone is checked: a smoother adds one at every keyframe."""
        require_spd(cov, "covariance of the relative pose")
        return self._with(
            np.append(self.index, index),
            np.concatenate([self.Ts_ck_ck1, T_ck_ck1[None]]),
            np.concatenate([self.covs, cov[None]]),
        )

    def without_first(self) -> "CameraMotions":
        """Those of the chain without its first state."""
        later = self.index > 0
        return self._with(self.index[later] - 1, self.Ts_ck_ck1[later], self.covs[later])

    def _with(self, index: Indices, Ts_ck_ck1: Array, covs: Array) -> "CameraMotions":
        motions = copy(self)
        for name, values in (("index", index), ("Ts_ck_ck1", Ts_ck_ck1), ("covs", covs)):
            object.__setattr__(motions, name, values)
        return motions


@dataclass(frozen=True)
class MarkerPositions:
    """m positions of a tracked marker, on a clock of their own."""

    stamps_ns: Stamps
    """(m,) rising."""

    p_w_m: Array
    """(m, 3) [m]"""

    covs: Array
    """(m, 3, 3) in w [m^2]."""

    loss: Loss = Loss()

    def __post_init__(self) -> None:
        require_spd(self.covs, "MarkerPositions.covs")


@dataclass(frozen=True)
class MarkerOrientations:
    """m orientations of a tracked marker, on a clock of their own."""

    stamps_ns: Stamps
    """(m,) rising."""

    Rs_w_m: Array
    """(m, 3, 3)"""

    covs: Array
    """(m, 3, 3) right perturbation, in m [rad^2]."""

    loss: Loss = Loss()

    def __post_init__(self) -> None:
        require_spd(self.covs, "MarkerOrientations.covs")


@dataclass(frozen=True)
class GaussianPrior:
    """A Gaussian on one state and the border: delta' info delta - 2 eta' delta + constant.

    delta (35,) are the coordinates [state (15), border (20)] about `state` and `border`; see
    `chain_state`. What nothing is known of has rows and columns of zeros.
    """

    index: int
    """State."""

    state: States
    """One state (n = 1) that the coordinates count from."""

    border: Border
    """Constants that the coordinates count from."""

    info: Array
    """(35, 35) inverse covariance, positive semidefinite."""

    eta: Array = field(default_factory=lambda: np.zeros(STATE + BORDER))
    """(35,) info times the mean; zero where the mean is `state` and `border`."""

    constant: float = 0.0
    """Cost at delta = 0."""


def state_prior(index: int, state: States, border: Border, std: Array) -> GaussianPrior:
    """A prior with independent entries: `std` (15,) of a state, infinity where nothing is known."""
    info = np.zeros((STATE + BORDER, STATE + BORDER))
    info[range(STATE), range(STATE)] = np.asarray(std, dtype=np.float64) ** -2.0
    return GaussianPrior(index, state, border, info)


def border_prior(border: Border, std: Array) -> GaussianPrior:
    """A prior on the constants: `std` (20,), infinity where nothing is known."""
    info = np.zeros((STATE + BORDER, STATE + BORDER))
    at = range(STATE, STATE + BORDER)
    info[at, at] = np.asarray(std, dtype=np.float64) ** -2.0
    nothing = States(np.eye(4)[None], np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 3)))
    return GaussianPrior(0, nothing, border, info)


def zero_velocity(index: int, std_velocity: float, border: Border) -> GaussianPrior:
    """The body does not move at a state: no velocity, known to `std_velocity` [m/s] per axis."""
    std = np.full(STATE, np.inf)
    std[3:6] = std_velocity
    nothing = np.zeros((1, 3))
    return state_prior(index, States(np.eye(4)[None], nothing, nothing, nothing), border, std)


@dataclass(frozen=True)
class ChainProblem:
    """n states tied by an IMU, and everything else that was measured."""

    imu: ImuMeasurements
    """Covers all timestamps."""

    stamps_ns: Stamps
    """(n,) of the states, on the IMU's clock."""

    walk_gyro: float
    """Random walk of the gyroscope bias [rad/s^2/sqrt(Hz)], above 0."""

    walk_acc: float
    """Random walk of the accelerometer bias [m/s^3/sqrt(Hz)], above 0."""

    unknowns: BorderUnknowns = field(default_factory=BorderUnknowns)
    camera: CameraMotions | None = None
    positions: MarkerPositions | None = None
    orientations: MarkerOrientations | None = None
    priors: tuple[GaussianPrior, ...] = ()

    longest_tie_s: float = LONGEST_TIE_S
    """Neighbours farther apart than this are tied by their biases only [s]."""

    clock_origin_ns: int = 0
    """Timestamp from which drifts of clocks count; choose the middle of the recording."""

    def __post_init__(self) -> None:
        if not (self.walk_gyro > 0.0 and self.walk_acc > 0.0):
            raise MeasurementError(
                f"the biases' random walks are {self.walk_gyro} and {self.walk_acc}; needed above "
                "0: a bias that cannot wander makes the chain singular."
            )
        if len(self.stamps_ns) < 2 or (np.diff(self.stamps_ns) <= 0).any():
            raise MeasurementError("a chain needs two or more states with rising timestamps.")
