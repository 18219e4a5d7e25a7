"""Errors of visual orientation that last for seconds, and what they add to a state's covariance.

Vision's orientation may wander slowly against that of the IMU: a mount that bends, a lens that
warms up, rectification that is off towards the image's shared, the drift of somebody's odometry.
Single innovations hardly show it, yet the estimate follows it: the gyroscope bias takes up its
rate, the vertical its angle, the accelerometer bias what the tilt makes of gravity.

The body that vision sees is taken as rotated against the real one by w, a critically damped
Gauss-Markov process of the second order. The estimate keeps its weights, which suit the fast part
of the noise; by the gains of each update its errors e follow w linearly (a consider covariance,
as in a Schmidt-Kalman filter):

    e' = (F - K J) e + K (T_ck_ck1 G w' - G w)

What is followed here is the covariance of [e, w, rate of w] for a w of variance one. How large w
is, the biases tell: over some seconds the estimated ones may move by their random walk and by what
the estimate still learns of them, and by no more unless vision has made them.
"""

from typing import TYPE_CHECKING

import numpy as np

from maci2.estimator.prediction import Prediction, predict
from maci2.estimator.problem import STATE, States
from maci2.estimator.residuals import Response
from maci2.estimator.solver import Covariance, Solution
from maci2.geometry.gaussian import square_root_information
from maci2.geometry.se3 import se3_adj, se3_inv
from maci2.imu import ImuMeasurements
from maci2.types import NS, Array, Mat4, Mat6, Stamps

if TYPE_CHECKING:
    from maci2.vision import RelativePoses

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

LARGEST_SQUARE = 54.0
"""Squared Mahalanobis distance of six biases beyond which it counts as that: an outlier."""

LOOSE_STD = np.repeat([0.05, 1.0, 1e-4, 0.02, 0.5], 3)
"""Standard deviations of a state before its first window: [rad, m/s, m, rad/s, m/s^2]."""

ERROR, WOBBLE, BEFORE = slice(0, STATE), slice(STATE, STATE + 6), slice(STATE + 6, STATE + 12)
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
        self._joint[WOBBLE, WOBBLE] = np.diag([1.0] * 3 + [TIME_CONSTANT_S**-2] * 3)
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

    def begin(self, imu: ImuMeasurements, vision: "RelativePoses", solution: Solution) -> None:
        """Follow the errors through a first window, filtered from nothing known on."""
        cov = np.diag(LOOSE_STD**2)
        for k, measured in enumerate(vision.measured):
            state = States(*(values[k : k + 1] for values in solution.states))
            span_ns = vision.stamps_ns[k : k + 2]
            prediction = predict(imu, span_ns, state, cov, solution.shared, self._walks)
            cov = prediction.cov_state
            if measured:
                T_ck_ck1, cov_T = vision.Ts_ck_ck1[k], vision.covs_T_ck_ck1[k]
                cov = cov - self.follow(prediction, T_ck_ck1, cov_T) @ prediction.cross.T
            else:
                self.follow(prediction)

    def follow(
        self,
        prediction: Prediction,
        T_ck_ck1: Mat4 | None = None,
        cov_T_ck_ck1: Mat6 | None = None,
    ) -> Array:
        """Carry the errors to the next keyframe, updated by a relative pose where there is one;
        returns the gain (15, 6)."""
        by_drift, noise = drift_step(prediction.dt)
        A: Array = np.eye(SIZE)
        N: Array = np.zeros((SIZE, 6))
        A[ERROR, ERROR] = prediction.F
        A[WOBBLE, WOBBLE], N[WOBBLE] = by_drift, np.eye(6)
        gain: Array = np.zeros((STATE, 6))
        if T_ck_ck1 is None or cov_T_ck_ck1 is None:
            self._since = None
        else:
            gain = np.asarray(
                np.linalg.solve(prediction.cov + cov_T_ck_ck1, prediction.cross.T).T, np.float64
            )
            after = gain @ (se3_adj(np.ascontiguousarray(T_ck_ck1)) @ self._by_drift)
            A[ERROR, ERROR] -= gain @ prediction.J
            A[ERROR, WOBBLE] = after @ by_drift[:3]
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
        squares = np.minimum(np.sum((roots @ moved) ** 2, axis=1), LARGEST_SQUARE)
        normalised = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        self._evidence = KEPT * self._evidence + WEIGHT * (normalised - 0.5 * squares)


def drift_step(dt: float) -> tuple[Array, Array]:
    """(6, 6) derivative of [w, its rate] by the ones `dt` seconds before, and the noise in between,
    for a w of variance one."""
    x = dt / TIME_CONSTANT_S
    kept = np.exp(-x) * np.array([[1.0 + x, dt], [-x / TIME_CONSTANT_S, 1.0 - x]])
    stationary = np.diag([1.0, TIME_CONSTANT_S**-2])
    noise = stationary - kept @ stationary @ kept.T
    return _per_axis(kept), _per_axis(noise)


def _per_axis(block: Array) -> Array:
    """(6, 6) of three axes that do the same, from the (2, 2) of one."""
    out = np.zeros((2, 3, 2, 3))
    out[:, range(3), :, range(3)] = block
    return out.reshape(6, 6)


PATHS, AT_ONCE = 400, 100
"""Paths that are drawn, and how many are in memory together: variances are told to 7 % and need
12 kB a state."""


def smoothed_drift_covariance(
    solution: Solution, posterior: Covariance, stamps_ns: Stamps, seed: int = 0
) -> Array:
    """(n, 15, 15) covariance that a w of one radian adds to each state."""
    response = Response(solution, posterior)
    rng, total = np.random.default_rng(seed), np.zeros((len(stamps_ns), STATE, STATE))
    for _ in range(PATHS // AT_ONCE):
        errors = _whitened_errors(solution, drift_paths(stamps_ns, AT_ONCE, rng))
        moved, _ = response.solved(*response.gradients(errors))
        total += moved @ np.swapaxes(moved, 1, 2)
    return total / PATHS


def drift_paths(stamps_ns: Stamps, count: int, rng: np.random.Generator) -> Array:
    """(n, 3, count) paths of w at timestamps, of variance one."""
    wobble = rng.standard_normal((6, count))
    wobble[3:] /= TIME_CONSTANT_S
    paths = [wobble[:3]]
    for dt in np.diff(stamps_ns) / NS:
        by_drift, noise = drift_step(float(dt))
        # Of steps that are short against the process, rounding leaves the noise semidefinite.
        values, vectors = np.linalg.eigh(noise)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        wobble = by_drift @ wobble + root @ rng.standard_normal((6, count))
        paths.append(wobble[:3])
    return np.array(paths)


def _whitened_errors(solution: Solution, paths: Array) -> Array:
    """(m, 6, count) what paths of w make of each relative pose, in standard deviations."""
    motions, T_b_c = solution.measurements.motions, solution.shared.T_b_c
    k, white = motions.state, motions.white
    by_drift = se3_adj(se3_inv(np.ascontiguousarray(T_b_c)))[:, 3:6]
    after = np.array([se3_adj(np.ascontiguousarray(T)) @ by_drift for T in motions.Ts_ck_ck1[:, 0]])
    return np.asarray(white @ (after @ paths[k + 1] - by_drift @ paths[k]))
