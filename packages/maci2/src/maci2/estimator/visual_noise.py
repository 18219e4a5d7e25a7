"""Errors of vision that its covariances do not state.

`VisualNoise` reads off the innovations how large the noise of relative poses is.

`OrientationDrift` follows errors of visual orientation that last for seconds, and what they add to
a state's covariance. Vision's orientation may wander slowly against that of the IMU: a mount that
bends, a lens that warms up, rectification that is off towards the image's border, the drift of
somebody's odometry. Single innovations hardly show it, yet the estimate follows it: the gyroscope
bias takes up its rate, the vertical its angle, the accelerometer bias what the tilt makes of
gravity.

The body that vision sees is taken as rotated against the real one by w, a critically damped
Gauss-Markov process of the second order. The estimate keeps its weights, which suit the fast part
of the noise; by the gains of each update its errors e follow w linearly (a consider covariance,
as in a Schmidt-Kalman filter):

    e' = (F - K J) e + K (T_ck_ck1 G w' - G w)

What is followed here is the covariance of [e, w, rate of w] for a w of variance one. How large w
is, the biases show: over some seconds the estimated ones may move by their random walk and by what
the estimate still learns of them, and by no more unless vision has made them.
"""

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maci2.estimator.problem import STATE, States
from maci2.geometry.gaussian import chi2_quantile, nees, square_root_information
from maci2.geometry.se3 import se3_adj, se3_inv
from maci2.types import NS, Array, Mat4, Mat6

if TYPE_CHECKING:
    from maci2.estimator.smoother import Prediction

POSES = 3
"""Innovations whose median is taken: about half a second of keyframes."""

MEDIAN_CHI2 = chi2_quantile(1, 0.5)
"""Median of the square of a standard normal number."""

BY_CHANCE = 2.5
"""Ratio of that median to its expectation which 18 innovations of the stated size exceed once in a
hundred times: below it, nothing is scaled."""

LARGEST_FACTOR = 25.0
"""Largest factor on the stated covariance; beyond it a relative pose is an outlier, not noise."""

FEWEST, REMEMBERED = 10, 50
"""Innovations that a lasting noise is estimated from: two to ten seconds of keyframes."""

LARGEST_ENTRY = 9.0
"""Square of a whitened entry beyond which it counts as that: outliers are not noise."""

MEAN_SQUARE = 0.973
"""Expected square of a standard normal number so limited."""

PRECISION = 1e-3
"""Share of a lasting variance to which it is told."""

CHANCE_SIGMAS = 3.0
"""Standard deviations of the mean square by which it must exceed its expectation."""

BELIEVED_CHI2 = chi2_quantile(6, 0.99)
"""Chi-square of six numbers that one in a hundred exceeds: beyond it noise as known does not
explain an innovation, and that pose alone is given as much more as does."""

ONE_SIDED = ((5, 8.3), (10, 7.5), (20, 5.4), (40, 4.2))
"""Numbers of innovations that are averaged, and standard deviations of their mean beyond which it
is no chance: noise has both signs, a bias that has jumped has one. Sound recordings reach two
thirds of it (docs/research/tracking.md)."""

SLOW_RATES = np.repeat([0.01, np.deg2rad(0.1)], 3)
"""(6,) speed [m/s] and rate [rad/s] of slow errors of vision, which are one-sided for seconds."""


class Innovation(NamedTuple):
    """A relative pose against what the IMU predicts."""

    r: Array
    """(6,) left difference [rho, phi]."""

    cov: Array
    """(6, 6) covariance of the prediction."""

    dt: float = 0.2
    """Time over which it is predicted [s]."""


class VisualNoise:
    """Noise that the covariances of relative poses do not state, one keyframe late.

    A factor for what comes and goes within a second, and a variance of rotation and of translation
    that lasts: none below what is stated, since good innovations do not make a measurement better
    than it claims.
    """

    def __init__(self) -> None:
        self._squares: deque[Array] = deque(maxlen=POSES)
        self._recent: deque[Array] = deque(maxlen=ONE_SIDED[-1][0])
        self._axes: deque[Array] = deque(maxlen=REMEMBERED)  # (2, 2, 3) squares, their variances
        self._more = np.zeros((6, 6))  # covariance that lasts beyond what is stated
        self.is_one_sided = False  # innovations keep to one side of what is predicted
        self.factor = 1.0  # median square of the whitened innovations over its expectation

    def covariance(self, stated: Mat6) -> Mat6:
        """(6, 6) of a relative pose, with what its predecessors have shown."""
        return self.factor * (stated + self._more)

    def explaining(self, difference: Innovation, stated: Mat6) -> Mat6:
        """(6, 6) of a relative pose, wide enough for its own innovation.

        A pose that contradicts the IMU by more than chance allows is wrong by an amount that its
        covariance does not know; a state that followed it would not know it either.
        """
        cov = self.covariance(stated)
        if nees(difference.r, difference.cov + cov) <= BELIEVED_CHI2:
            return cov
        root = square_root_information(cov)
        variances, axes = np.linalg.eigh(root @ difference.cov @ root.T)
        squares = (axes.T @ (root @ difference.r)) ** 2
        factor = 1.0
        # Newton's steps: the sum is convex and falls, so none goes too far.
        while (excess := float(np.sum(squares / (variances + factor))) - BELIEVED_CHI2) > 0.01:
            factor += excess / float(np.sum(squares / (variances + factor) ** 2))
        return factor * cov

    def observe(self, difference: Innovation, stated: Mat6) -> None:
        """Take note of an innovation."""
        known = difference.cov + stated
        dt = difference.dt
        self._recent.append(np.array([difference.r / dt, np.diag(known) / dt**2]))
        self.is_one_sided = _keep_to_one_side(self._recent)
        root = square_root_information(known + self._more)
        self._squares.append((root @ difference.r) ** 2)
        if len(self._squares) == POSES:
            ratio = float(np.median(np.concatenate(self._squares))) / MEDIAN_CHI2
            self.factor = min(ratio, LARGEST_FACTOR) if ratio > BY_CHANCE else 1.0
        blocks = known[:3, :3], known[3:, 3:]
        variances, axes = np.linalg.eigh(blocks)
        squares = np.einsum("kij,ki->kj", axes, difference.r.reshape(2, 3)) ** 2
        self._axes.append(np.array([squares, variances]))
        if len(self._axes) >= FEWEST:
            squares, variances = np.array(self._axes).transpose(1, 2, 0, 3)
            lasting = [_lasting_variance(*seen) for seen in zip(squares, variances, strict=True)]
            self._more = np.diag(np.repeat(lasting, 3))


def _keep_to_one_side(recent: deque[Array]) -> bool:
    """Whether the mean of innovations is far from zero, in standard deviations: the stated ones or,
    where it is more, those that the innovations themselves show, and slow errors. What predicts
    them is wrong then, and taking it for noise would have the state follow it."""
    newest_first = np.array(recent)[::-1]
    for count, limit in ((n, limit) for n, limit in ONE_SIDED if n <= len(recent)):
        rates, variances = newest_first[:count].swapaxes(0, 1)
        variance = np.maximum(rates.var(axis=0, ddof=1), variances.mean(axis=0)) / count
        if (np.abs(rates.mean(axis=0)) / np.sqrt(variance + SLOW_RATES**2)).max() > limit:
            return True
    return False


def _lasting_variance(squares: Array, variances: Array) -> float:
    """Variance that stated ones lack: the one at which the mean square of whitened innovations is
    what it should be."""

    def ratio(extra: float) -> float:
        limited = np.minimum(squares / (variances + extra), LARGEST_ENTRY)
        return float(limited.mean()) / MEAN_SQUARE

    if ratio(0.0) < 1.0 + CHANCE_SIGMAS * np.sqrt(2.0 / squares.size):
        return 0.0
    low, high = 0.0, float(squares.max())
    while high - low > PRECISION * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ratio(middle) > 1.0 else (low, middle)
    return high


TIME_CONSTANT_S = 4.0
"""Of the process: its correlation falls to one half after 1.7 times this."""

LEVELS_DEG = np.array([0.0, 0.05, 0.1, 0.2, 0.4])
"""Standard deviations of w that are told apart; those above zero are equally likely before
anything is seen."""

KEYFRAMES = 20
"""Over which the movement of biases is looked at: four seconds."""

KEPT = 0.96
"""Share of the evidence that the next movement leaves: a memory of a hundred seconds."""

WEIGHT = 0.5
"""Of the evidence of one movement: it begins with the w that the one before it has ended with, so
neighbours are not independent."""

LARGEST_MOVEMENT = 54.0
"""Squared Mahalanobis distance of six biases beyond which it counts as that: an outlier."""

LOOSE_STD = np.repeat([0.05, 1.0, 1e-4, 0.02, 0.5], 3)
"""Standard deviations of a state before its first window: [rad, m/s, m, rad/s, m/s^2]."""

ERROR, DRIFT, BEFORE = slice(0, STATE), slice(STATE, STATE + 6), slice(STATE + 6, STATE + 12)
"""Places in the joint covariance: of the state's errors, of w and its rate, and of the errors of
the biases when their movement was begun to be looked at."""

SIZE, BIASES = STATE + 12, slice(9, 15)


class OrientationDrift:
    """Takes every prediction and estimate; tells what slow errors add to the covariance.

    `chance` is the probability that vision has slow errors, before anything is seen.
    """

    def __init__(self, T_b_c: Mat4, walks: tuple[float, float], chance: float) -> None:
        self._by_drift = se3_adj(se3_inv(np.ascontiguousarray(T_b_c)))[:, 3:6]
        self._walks = walks
        self._joint = np.zeros((SIZE, SIZE))
        self._joint[DRIFT, DRIFT] = np.diag([1.0] * 3 + [TIME_CONSTANT_S**-2] * 3)
        others = len(LEVELS_DEG) - 1
        self._prior = np.log(np.array([1.0 - chance, *[chance / others] * others]))
        self._evidence = np.zeros(len(LEVELS_DEG))
        self._since: tuple[int, Array, Array] | None = None  # begun at, biases, their covariance
        self._steps = 0

    @property
    def std_deg(self) -> float:
        """Standard deviation of w, given all movements of the biases."""
        posterior = self._prior + self._evidence
        weights = np.exp(posterior - posterior.max())
        return float(np.sqrt(weights @ LEVELS_DEG**2 / weights.sum()))

    @property
    def added(self) -> Array:
        """(15, 15) covariance that slow errors add to the state's."""
        return np.asarray(np.deg2rad(self.std_deg) ** 2 * self._joint[ERROR, ERROR])

    def follow(
        self,
        prediction: "Prediction",
        T_ck_ck1: Mat4 | None = None,
        cov_T_ck_ck1: Mat6 | None = None,
    ) -> Array:
        """Carry the errors to the next keyframe, updated by a relative pose where there is one;
        returns the gain (15, 6)."""
        by_drift, noise = drift_step(prediction.dt)
        A: Array = np.eye(SIZE)
        N: Array = np.zeros((SIZE, 6))
        A[ERROR, ERROR] = prediction.end.F
        A[DRIFT, DRIFT], N[DRIFT] = by_drift, np.eye(6)
        gain: Array = np.zeros((STATE, 6))
        if T_ck_ck1 is None or cov_T_ck_ck1 is None:
            self._since = None
        else:
            gain = np.asarray(
                np.linalg.solve(prediction.cov + cov_T_ck_ck1, prediction.cross.T).T, np.float64
            )
            after = gain @ (se3_adj(np.ascontiguousarray(T_ck_ck1)) @ self._by_drift)
            A[ERROR, ERROR] -= gain @ prediction.J
            A[ERROR, DRIFT] = after @ by_drift[:3]
            A[ERROR, STATE : STATE + 3] -= gain @ self._by_drift
            N[ERROR, :3] = after
            self._steps += 1
        self._joint = A @ self._joint @ A.T + N @ noise @ N.T
        return gain

    def observe(self, stamp_ns: int, state: States, cov: Array) -> None:
        """Take note of the newest keyframe's state and its (15, 15) covariance."""
        biases = np.concatenate([state.bias_gyro[0], state.bias_acc[0]])
        if self._since is not None:
            if self._steps < KEYFRAMES:
                return
            since_ns, before, cov_before = self._since
            walked = np.repeat(np.square(self._walks), 3) * (stamp_ns - since_ns) / NS
            self._learn(biases - before, cov_before + np.diag(walked) - cov[BIASES, BIASES])
        self._since, self._steps = (stamp_ns, biases, cov[BIASES, BIASES]), 0
        self._joint[BEFORE] = self._joint[BIASES]
        self._joint[:, BEFORE] = self._joint[:, BIASES]

    def _learn(self, moved: Array, promised: Array) -> None:
        """Weigh the levels by how biases have moved: `promised` (6, 6) is the covariance of that
        without slow errors."""
        if np.linalg.eigvalsh(promised)[0] <= 0.0:
            return
        joint = self._joint
        by_drift = joint[BEFORE, BEFORE] + joint[BIASES, BIASES]
        by_drift = by_drift - joint[BEFORE, BIASES] - joint[BIASES, BEFORE]
        roots = square_root_information(
            promised + np.square(np.deg2rad(LEVELS_DEG))[:, None, None] * by_drift
        )
        squares = np.minimum(np.sum((roots @ moved) ** 2, axis=1), LARGEST_MOVEMENT)
        normalised = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        self._evidence = KEPT * self._evidence + WEIGHT * (normalised - 0.5 * squares)


def drift_step(dt: float) -> tuple[Array, Array]:
    """(6, 6) derivative of [w, its rate] by the ones `dt` seconds before, and the noise in between,
    for a w of variance one."""
    x = dt / TIME_CONSTANT_S
    kept = np.exp(-x) * np.array([[1.0 + x, dt], [-x / TIME_CONSTANT_S, 1.0 - x]])
    stationary = np.diag([1.0, TIME_CONSTANT_S**-2])
    noise = stationary - kept @ stationary @ kept.T
    return np.kron(kept, np.eye(3)), np.kron(noise, np.eye(3))
