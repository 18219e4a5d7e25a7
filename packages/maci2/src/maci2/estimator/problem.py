"""The one problem of initialization, calibration, odometry, smoothing and audit: its unknowns and
what they are estimated from.

Unknowns are the states of n keyframes and parameters that all states share. A state has the tangent
order [phi, v, p, bg, ba] (as preintegration: rotation first, perturbed on the right):
R_w_b Exp(phi), and plain differences of velocity and position in w and of the biases. Poses among
the shared parameters are perturbed on the left, Exp([rho, phi]) T.

Biases that stay constant are the limit of a random walk of zero: they leave the states, which keep
nine unknowns, and are shared by all of them.
"""

import math
from copy import copy
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maci2.errors import MeasurementError
from maci2.geometry.gaussian import require_spd
from maci2.geometry.se3 import se3_exp, se3_mul
from maci2.geometry.so3 import so3_exp
from maci2.imu import ALPHA, BETA, GAMMA, ImuMeasurements, Rule, VerticalPrior
from maci2.jit import kernel
from maci2.types import Array, Stamps

ROTATION, VELOCITY, POSITION = GAMMA, BETA, ALPHA
BIAS_GYRO, BIAS_ACC = slice(9, 12), slice(12, 15)
STATE = 15
"""Unknowns of a state with its biases."""

MOTION = 9
"""Unknowns of a state where biases are shared: pose and velocity."""

GRAVITY = slice(0, 2)
GRAVITY_NORM = 2
CAMERA = slice(3, 9)
SCALE = 9
CAMERA_CLOCK = 10
MARKER = slice(11, 17)
POSITION_CLOCK = slice(17, 19)
ORIENTATION_CLOCK = slice(19, 21)
GYRO_SCALE = slice(21, 24)
SHARED = 24
"""Shared unknowns where all of them are free, but for shared biases."""

GRAVITY_NORM_AT, LOG_SCALE_AT, CAMERA_CLOCK_AT, POSITION_CLOCK_AT, ORIENTATION_CLOCK_AT = range(5)
GYRO_SCALE_AT = slice(7, 10)
"""Places in `Shared.scalars`; drifts of the marker's two clocks are at 5 and 6."""

SCALAR_AT = np.array([[2, 0], [9, 1], [10, 2], [17, 3], [19, 4], [18, 5], [20, 6], [21, 7], [22, 8],
                      [23, 9]])  # fmt: skip
"""Place of each shared scalar among the unknowns, and in `Shared.scalars`."""

Indices = NDArray[np.int64]
LossKind = Literal["none", "huber", "cauchy"]
Weighting = Literal["full", "blocks", "identity"]

LONGEST_SPAN_S = 10.0
"""Time [s] over which samples are integrated at once where other measurements observe every
state."""


class States(NamedTuple):
    """n states on the IMU's clock."""

    Ts_w_b: Array
    """(n, 4, 4) pose of the body in the world."""
    v_w: Array
    """(n, 3) velocity in the world [m/s]."""
    bias_gyro: Array
    """(n, 3) [rad/s]; n equal rows where the biases are shared."""
    bias_acc: Array
    """(n, 3) [m/s^2]"""

    def part(self, part: slice) -> "States":
        """Some of the states."""
        return States(*(values[part] for values in self))


class Shared(NamedTuple):
    """Parameters shared by all states. Gravity in w is R_w_g (0, 0, -g): where R_w_g is the
    identity, the world's z axis points up."""

    R_w_g: Array
    """(3, 3) orientation of a level frame; its heading has no meaning."""
    T_b_c: Array
    """(4, 4) pose of the camera in the body."""
    T_b_m: Array
    """(4, 4) pose of the tracked marker in the body."""
    scalars: Array
    """(10,) gravity's norm [m/s^2]; logarithm of true length over vision's; clock offsets of
    camera, marker position and marker orientation [s]; drifts of the last two [s/s]; scale error of
    the gyroscope's axes, true rate over measured less one. A clock's offset is to be added to its
    timestamps; a drift counts from `clock_origin_ns` of the problem."""

    @property
    def gravity_w(self) -> Array:
        """(3,) gravity in the world [m/s^2]."""
        return np.asarray(-self.scalars[0] * self.R_w_g[:, 2])


def shared_parameters(
    R_w_g: Array | None = None,
    T_b_c: Array | None = None,
    T_b_m: Array | None = None,
    gravity_norm: float = 9.81,
    log_scale: float = 0.0,
    camera_clock_s: float = 0.0,
    position_clock_s: float = 0.0,
    orientation_clock_s: float = 0.0,
) -> Shared:
    """Shared parameters from known values; the others are the identity or zero."""
    scalars = np.zeros(10)
    scalars[:5] = gravity_norm, log_scale, camera_clock_s, position_clock_s, orientation_clock_s
    return Shared(
        np.eye(3) if R_w_g is None else np.ascontiguousarray(R_w_g, dtype=np.float64),
        np.eye(4) if T_b_c is None else np.ascontiguousarray(T_b_c, dtype=np.float64),
        np.eye(4) if T_b_m is None else np.ascontiguousarray(T_b_m, dtype=np.float64),
        scalars,
    )


@dataclass(frozen=True)
class Free:
    """Shared parameters that are free; all others stay at their initial guess."""

    gravity: bool = False
    """Direction of gravity in the world."""

    gravity_norm: bool = False
    """Norm of gravity; with its direction, gravity is a free vector."""

    camera: bool = False
    """Pose of the camera in the body, T_b_c."""

    scale: bool = False
    """True length over vision's, as a logarithm."""

    camera_clock: bool = False
    """Offset of the camera's clock."""

    marker_rotation: bool = False
    """Rotation of T_b_m."""

    marker_translation: bool = False
    """Translation of T_b_m, the lever arm."""

    position_clock: bool = False
    """Offset of the clock of marker positions."""

    position_drift: bool = False
    """Drift of that clock."""

    orientation_clock: bool = False
    """Offset of the clock of marker orientations."""

    orientation_drift: bool = False
    """Drift of that clock."""

    shared_clock: bool = False
    """Positions and orientations come from one device: one clock, the position's."""

    gyro_scale: bool = False
    """Scale errors of the gyroscope's three axes."""

    bias_gyro: bool = True
    """Gyroscope bias; only a shared one can be fixed."""

    bias_acc: bool = True
    """Accelerometer bias; only a shared one can be fixed."""

    def columns(self, shared_biases: bool = False) -> Indices:
        """(30,) place of [biases, shared parameters] among those that are free and shared; -1 where
        one is not."""
        free = np.zeros(6 + SHARED, dtype=bool)
        free[0:3], free[3:6] = shared_biases and self.bias_gyro, shared_biases and self.bias_acc
        shared = free[6:]
        shared[GRAVITY], shared[GRAVITY_NORM] = self.gravity, self.gravity_norm
        shared[CAMERA], shared[SCALE] = self.camera, self.scale
        shared[CAMERA_CLOCK] = self.camera_clock
        shared[11:14], shared[14:17] = self.marker_translation, self.marker_rotation
        shared[17:19] = self.position_clock, self.position_drift
        if not self.shared_clock:
            shared[19:21] = self.orientation_clock, self.orientation_drift
        shared[GYRO_SCALE] = self.gyro_scale
        columns = np.where(free, np.cumsum(free) - 1, -1)
        if self.shared_clock:
            columns[6:][ORIENTATION_CLOCK] = columns[6:][POSITION_CLOCK]
        return columns.astype(np.int64)


@kernel
def retract(
    states: States, shared: Shared, columns: Indices, dx: Array, dx_shared: Array
) -> tuple[States, Shared]:
    """Unknowns after a step: dx (n, 15) or (n, 9) of the states, dx_shared of what they share."""
    n, s = dx.shape
    Ts_w_b, v_w = np.empty((n, 4, 4)), np.empty((n, 3))
    bias_gyro, bias_acc = np.empty((n, 3)), np.empty((n, 3))
    full = np.zeros(6 + SHARED)
    for i in range(6 + SHARED):
        if columns[i] >= 0:
            full[i] = dx_shared[columns[i]]
    for k in range(n):
        R_bk_bk1 = so3_exp(dx[k, 0:3])
        for i in range(3):
            for j in range(3):
                Ts_w_b[k, i, j] = (
                    states.Ts_w_b[k, i, 0] * R_bk_bk1[0, j]
                    + states.Ts_w_b[k, i, 1] * R_bk_bk1[1, j]
                    + states.Ts_w_b[k, i, 2] * R_bk_bk1[2, j]
                )
            v_w[k, i] = states.v_w[k, i] + dx[k, 3 + i]
            Ts_w_b[k, i, 3] = states.Ts_w_b[k, i, 3] + dx[k, 6 + i]
            Ts_w_b[k, 3, i] = 0.0
            bias_gyro[k, i] = states.bias_gyro[k, i] + (dx[k, 9 + i] if s > MOTION else full[i])
            bias_acc[k, i] = states.bias_acc[k, i] + (dx[k, 12 + i] if s > MOTION else full[3 + i])
        Ts_w_b[k, 3, 3] = 1.0
    tilt, scalars = np.array([full[6], full[7], 0.0]), shared.scalars.copy()
    if columns[8] >= 0:
        # Gravity of a free norm moves along a straight line: residuals are linear in it.
        norm = scalars[0]
        across, along = norm * math.sqrt(full[6] ** 2 + full[7] ** 2), norm + full[8]
        scalars[0], full[8] = math.sqrt(across * across + along * along), 0.0
        if across > 0.0:
            share = norm * math.atan2(across, along) / across
            tilt[0], tilt[1] = share * full[6], share * full[7]
    R_w_g, turn = np.empty((3, 3)), so3_exp(tilt)
    for i in range(3):
        for j in range(3):
            R_w_g[i, j] = (
                shared.R_w_g[i, 0] * turn[0, j]
                + shared.R_w_g[i, 1] * turn[1, j]
                + shared.R_w_g[i, 2] * turn[2, j]
            )
    for i in range(len(SCALAR_AT)):
        scalars[SCALAR_AT[i, 1]] += full[6 + SCALAR_AT[i, 0]]
    T_b_c = se3_mul(se3_exp(full[9:15]), shared.T_b_c)
    T_b_m = se3_mul(se3_exp(full[17:23]), shared.T_b_m)
    return States(Ts_w_b, v_w, bias_gyro, bias_acc), Shared(R_w_g, T_b_c, T_b_m, scalars)


@dataclass(frozen=True)
class Loss:
    """How a measurement counts that is farther off than noise explains."""

    kind: LossKind = "none"
    """none: by its square; huber: linearly beyond the limit; cauchy: by a logarithm."""

    limit: float = 3.0
    """Mahalanobis distance at which the loss departs from the square."""


@dataclass(frozen=True)
class CameraMotions:
    """m motions of the camera, each over q + 1 neighbouring keyframes with one joint covariance.

    A relative pose between two keyframes is the case q = 1. Where q > 1, the q relative poses of a
    motion are correlated, as those of a joint adjustment of tracks are.
    """

    index: Indices
    """(m,) first keyframe k of each motion, rising; keyframes may have several or none."""

    Ts_ck_ck1: Array
    """(m, 4, 4) or (m, q, 4, 4) takes points from each next camera to the one before it; vision's
    unit of length."""

    covs: Array
    """(m, 6 q, 6 q) left perturbation, order [rho, phi] of each relative pose, vision's unit and
    rad."""

    loss: Loss = Loss()
    """Its limit is that of one relative pose; that of a motion of several has the same quantile."""

    def __post_init__(self) -> None:
        require_spd(self.covs, "CameraMotions.covs")

    @property
    def span(self) -> int:
        """q, number of relative poses of a motion."""
        return self.covs.shape[-1] // 6

    @classmethod
    def checked(
        cls, index: Indices, Ts_ck_ck1: Array, covs: Array, loss: Loss = Loss()
    ) -> "CameraMotions":
        """Motions whose covariances have been checked already."""
        motions = object.__new__(cls)
        object.__setattr__(motions, "loss", loss)
        return motions._with(index, Ts_ck_ck1, covs)

    def with_loss(self, loss: Loss) -> "CameraMotions":
        """The motions with another loss."""
        return self.checked(self.index, self.Ts_ck_ck1, self.covs, loss)

    def followed_by(self, index: int, T_ck_ck1: Array, cov: Array) -> "CameraMotions":
        """These motions and one more, which alone is checked: a smoother adds one at every
        keyframe."""
        require_spd(cov, "covariance of the relative pose")
        return self._with(
            np.append(self.index, index),
            np.concatenate([self.Ts_ck_ck1, T_ck_ck1[None]]),
            np.concatenate([self.covs, cov[None]]),
        )

    def part(self, first: int, last: int) -> "CameraMotions":
        """Motions within keyframes `first` to `last`, both included, counted from `first`."""
        inside = (self.index >= first) & (self.index + self.span <= last)
        return self._with(self.index[inside] - first, self.Ts_ck_ck1[inside], self.covs[inside])

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
    """A Gaussian on one state and the shared parameters: delta' info delta - 2 eta' delta +
    constant.

    delta (39,) are the coordinates [state (15), shared (24)] about `state` and `shared`. What
    nothing is known of has rows and columns of zeros.
    """

    index: int
    """State."""

    state: States
    """One state (n = 1) that the coordinates count from."""

    shared: Shared
    """Shared parameters that the coordinates count from."""

    info: Array
    """(39, 39) inverse covariance, positive semidefinite."""

    eta: Array = field(default_factory=lambda: np.zeros(STATE + SHARED))
    """(39,) info times the mean; zero where the mean is `state` and `shared`."""

    constant: float = 0.0
    """Cost at delta = 0."""


UNKNOWN_STATE = States(np.eye(4)[None], np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 3)))


def state_prior(index: int, state: States, shared: Shared, std: Array) -> GaussianPrior:
    """A prior with independent entries: `std` (15,) of a state, infinity where nothing is known."""
    return _independent(index, state, shared, ROTATION.start, std)


def shared_prior(shared: Shared, std: Array) -> GaussianPrior:
    """A prior of the shared parameters: `std` (24,), infinity where nothing is known."""
    return _independent(0, UNKNOWN_STATE, shared, STATE, std)


def _independent(index: int, state: States, shared: Shared, at: int, std: Array) -> GaussianPrior:
    info = np.zeros((STATE + SHARED, STATE + SHARED))
    places = range(at, at + len(std))
    info[places, places] = np.asarray(std, dtype=np.float64) ** -2.0
    return GaussianPrior(index, state, shared, info)


def zero_velocity(index: int, std_velocity: float, shared: Shared) -> GaussianPrior:
    """A stationary body at a state: no velocity, known to `std_velocity` [m/s] per axis."""
    std = np.full(STATE, np.inf)
    std[VELOCITY] = std_velocity
    return state_prior(index, UNKNOWN_STATE, shared, std)


@dataclass(frozen=True)
class Problem:
    """n states connected by an IMU, and everything else that was measured."""

    imu: ImuMeasurements
    """Covers all timestamps."""

    stamps_ns: Stamps
    """(n,) of the states, on the IMU's clock."""

    walk_gyro: float = 0.0
    """Random walk of the gyroscope bias [rad/s^2/sqrt(Hz)]."""

    walk_acc: float = 0.0
    """Random walk of the accelerometer bias [m/s^3/sqrt(Hz)]. Both walks are above 0, or both are 0
    and the biases are shared by all states."""

    free: Free = field(default_factory=Free)
    camera: tuple[CameraMotions, ...] = ()
    """Motions over equally many keyframes are one stack."""

    positions: MarkerPositions | None = None
    orientations: MarkerOrientations | None = None
    vertical: VerticalPrior | None = None
    """The vertical at the first state, as earlier samples measure it."""

    priors: tuple[GaussianPrior, ...] = ()

    first_pose_fixed: bool = False
    """Take the first pose as known: a choice of gauge where nothing else fixes the world."""

    inflation: float = 1.0
    """Factor on the stated variances of camera and IMU."""

    rule: Rule = "midpoint"
    """Integration rule of IMU samples."""

    imu_weights: Weighting = "full"
    """Covariance of the IMU's motion that is used: all of it, its three 3x3 blocks, or one."""

    longest_span_s: float = LONGEST_SPAN_S
    """Neighbours farther apart than this are connected by their biases only [s]."""

    clock_origin_ns: int = 0
    """Timestamp from which drifts of clocks count; choose the middle of the recording."""

    def __post_init__(self) -> None:
        if (self.walk_gyro > 0.0) != (self.walk_acc > 0.0) or min(*self.walks) < 0.0:
            raise MeasurementError(
                f"the biases' random walks are {self.walk_gyro} and {self.walk_acc}; needed both "
                "above 0, or both 0 for biases that all states share."
            )
        if len(self.stamps_ns) < 2 or (self.stamps_ns[1:] <= self.stamps_ns[:-1]).any():
            raise MeasurementError("a problem needs two or more states with rising timestamps.")

    @property
    def walks(self) -> tuple[float, float]:
        return self.walk_gyro, self.walk_acc

    @property
    def state_size(self) -> int:
        """Unknowns of a state."""
        return STATE if self.walk_gyro > 0.0 else MOTION
