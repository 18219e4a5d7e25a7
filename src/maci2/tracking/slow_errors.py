"""Errors that last for seconds: what a state is corrected by, against what its covariance promised.

A state that is carried by the IMU alone from one keyframe to a later one differs from the state
estimated there by what the relative poses in between have corrected. Where the covariances are
right, that correction has covariance P (carried) - P (estimated). Errors of vision with the same
sign for seconds hide in single innovations; vertical and biases, which average them, are then
corrected by more than was promised.
"""

from collections import deque
from typing import NamedTuple

import numpy as np

from maci2.chain import Border, States
from maci2.chain.chain_state import BIAS_ACC, BIAS_GYRO, ROTATION, STATE
from maci2.gaussian import square_root_information
from maci2.imu import ImuMeasurements
from maci2.lie import so3_log
from maci2.tracking.propagation import propagated
from maci2.types import Array

KEYFRAMES = 10
"""Keyframes over which a state is carried: two seconds. Five were tried and tell no more."""

FEWEST, REMEMBERED = 5, 50
"""Corrections that slow errors are told from: ten seconds at least, 100 at most."""

CHANCE_SIGMAS = 2.0
"""Standard deviations of their mean square by which it must exceed its expectation."""

LARGEST_SQUARE, MEAN_SQUARE = 9.0, 0.973
"""Square of a whitened entry beyond which it counts as that, since outliers are not noise, and
the expected square of a standard normal number so limited."""

LEAST_SHARE = 0.02
"""Share of a variance that has to be promised for a correction to say anything."""


class SlowFactors(NamedTuple):
    """Factors on stated variances, 1 where chance explains the corrections."""

    vertical: float = 1.0
    """On orientation and accelerometer bias: a tilted vertical and a bias of the accelerometer are
    told apart by little, so the larger of the two ratios holds for both."""

    gyro_bias: float = 1.0

    def covered(self, cov: Array) -> Array:
        """Covariances (..., 15, 15) that cover errors of vision which last for seconds.

        The estimate keeps its weights, which suit the fast part of the noise. Velocity and
        position, which forget within a second, stay as they are.
        """
        spread = np.ones(STATE)
        spread[ROTATION] = spread[BIAS_ACC] = np.sqrt(self.vertical)
        spread[BIAS_GYRO] = np.sqrt(self.gyro_bias)
        return np.asarray(spread[:, None] * cov * spread)


NO_SLOW_ERRORS = SlowFactors()
"""Covariances as they are."""


class SlowErrors:
    """Takes the estimate at each keyframe; tells by how much slow errors exceed its covariance."""

    def __init__(self, walks: tuple[float, float]) -> None:
        self._walks = walks
        self._carried: tuple[int, States, Array] | None = None
        self._steps = 0
        self._squares: tuple[deque[Array], ...] = tuple(deque(maxlen=REMEMBERED) for _ in range(3))

    @property
    def factors(self) -> SlowFactors:
        vertical, gyro, acc = map(_ratio, self._squares)
        return SlowFactors(max(vertical, acc), gyro)

    def observe(
        self, imu: ImuMeasurements, stamp_ns: int, state: States, cov: Array, border: Border
    ) -> None:
        """Take note of the newest keyframe's state and its (15, 15) covariance; `imu` reaches back
        to the keyframe before."""
        if self._carried is None:
            self._carried = (stamp_ns, state, cov)
            return
        before_ns, before, cov_before = self._carried
        span_ns = np.array([before_ns, stamp_ns])
        carried, covs = propagated(imu, span_ns, before, cov_before, border, self._walks)
        self._carried, self._steps = (stamp_ns, carried, covs[0]), self._steps + 1
        if self._steps == KEYFRAMES:
            self._compare(carried, covs[0], state, cov)
            self._carried, self._steps = (stamp_ns, state, cov), 0

    def _compare(self, carried: States, cov_carried: Array, state: States, cov: Array) -> None:
        difference = correction(carried, state)
        up_b = state.Ts_w_b[0, 2, :3]
        across = np.zeros((2, STATE))
        across[:, ROTATION] = np.linalg.svd(up_b[None])[2][1:]
        parts = (across, np.eye(STATE)[BIAS_GYRO], np.eye(STATE)[BIAS_ACC])
        for J, squares in zip(parts, self._squares, strict=True):
            promised = J @ (cov_carried - cov) @ J.T
            least = LEAST_SHARE * np.trace(J @ cov_carried @ J.T) / len(J)
            if np.linalg.eigvalsh(promised)[0] > least:
                whitened = square_root_information(promised) @ (J @ difference)
                squares.append(np.minimum(whitened**2, LARGEST_SQUARE))


def _ratio(squares: deque[Array]) -> float:
    """Mean square of whitened corrections over its expectation; 1 where chance explains it."""
    if len(squares) < FEWEST:
        return 1.0
    ratio = float(np.mean(squares)) / MEAN_SQUARE
    chance = CHANCE_SIGMAS * np.sqrt(2.0 / (len(squares) * len(squares[0])))
    return ratio if ratio > 1.0 + chance else 1.0


def correction(carried: States, state: States) -> Array:
    """(15,) a carried state less the estimated one, order [phi (right), v, p, bg, ba]."""
    R_b_carried = state.Ts_w_b[0, :3, :3].T @ carried.Ts_w_b[0, :3, :3]
    return np.concatenate(
        [
            so3_log(np.ascontiguousarray(R_b_carried)),
            carried.v_w[0] - state.v_w[0],
            carried.Ts_w_b[0, :3, 3] - state.Ts_w_b[0, :3, 3],
            carried.bias_gyro[0] - state.bias_gyro[0],
            carried.bias_acc[0] - state.bias_acc[0],
        ]
    )
