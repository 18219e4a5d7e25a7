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
from dataclasses import dataclass, field, fields, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from maci2.errors import MeasurementError, OptionError
from maci2.field_docs import document_fields
from maci2.geometry.gaussian import require_spd
from maci2.geometry.se3 import se3_exp, se3_mul
from maci2.geometry.so3 import multiply, product, so3_exp
from maci2.imu import ALPHA, BETA, GAMMA, ImuMeasurements, Rule, VerticalPrior
from maci2.jit import kernel
from maci2.types import GRAVITY_NORM as NORMAL_GRAVITY
from maci2.types import Array, Stamps
from maci2.validation import as_number, require_choice

ROTATION, VELOCITY, POSITION = GAMMA, BETA, ALPHA
BIAS_GYRO, BIAS_ACC = slice(9, 12), slice(12, 15)
STATE = 15
"""Unknowns of a state with its biases."""

MOTION = 9
"""Unknowns of a state where biases are shared: pose and velocity."""

GRAVITY_NORM, SCALE, CAMERA_CLOCK = range(3)
POSITION_CLOCK, ORIENTATION_CLOCK = slice(3, 5), slice(5, 7)
GYRO_SCALE = slice(7, 10)
SCALARS = 10
GRAVITY, CAMERA, MARKER = slice(10, 12), slice(12, 18), slice(18, 24)
SHARED = 24
"""Shared unknowns where all of them are free, but for shared biases. The first `SCALARS` are at the
same places in `Shared.scalars`; a clock of the marker has an offset and a drift."""

PARAMETERS: dict[str, int | slice] = {
    "gravity_norm": GRAVITY_NORM,
    "scale": SCALE,
    "camera_clock": CAMERA_CLOCK,
    "position_clock": POSITION_CLOCK.start,
    "position_drift": POSITION_CLOCK.start + 1,
    "orientation_clock": ORIENTATION_CLOCK.start,
    "orientation_drift": ORIENTATION_CLOCK.start + 1,
    "gyro_scale": GYRO_SCALE,
    "gravity": GRAVITY,
    "camera": CAMERA,
    "marker_translation": slice(MARKER.start, MARKER.start + 3),
    "marker_rotation": slice(MARKER.start + 3, MARKER.stop),
}
"""Unknowns of each shared parameter, by its name in `Free`."""

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
    """(10,) gravity's norm [m/s^2]; logarithm of true length over vision's; offset of the camera's
    clock [s]; offset [s] and drift [s/s] of the clock of marker positions and of that of marker
    orientations; scale error of the gyroscope's axes, true rate over measured less one. A clock's
    offset is to be added to its timestamps; a drift counts from `clock_origin_ns` of the problem.
    """

    @property
    def gravity_w(self) -> Array:
        """(3,) gravity in the world [m/s^2]."""
        return np.asarray(-self.scalars[GRAVITY_NORM] * self.R_w_g[:, 2])


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
    scalars = np.zeros(SCALARS)
    scalars[:3] = gravity_norm, log_scale, camera_clock_s
    scalars[POSITION_CLOCK.start] = position_clock_s
    scalars[ORIENTATION_CLOCK.start] = orientation_clock_s
    R_w_g, T_b_c, T_b_m = (
        np.eye(n) if pose is None else np.ascontiguousarray(pose, dtype=np.float64)
        for pose, n in ((R_w_g, 3), (T_b_c, 4), (T_b_m, 4))
    )
    return Shared(R_w_g, T_b_c, T_b_m, scalars)


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
        for name, place in PARAMETERS.items():
            shared[place] = getattr(self, name)
        if self.shared_clock:
            shared[ORIENTATION_CLOCK] = False
        columns = np.where(free, np.cumsum(free) - 1, -1)
        if self.shared_clock:
            columns[6:][ORIENTATION_CLOCK] = columns[6:][POSITION_CLOCK]
        return columns.astype(np.int64)


class Unknowns(NamedTuple):
    """A point in the space of unknowns, and which of them are free."""

    states: States
    shared: Shared
    columns: Indices
    """(30,) see `Free.columns`."""
    size: int
    """Unknowns of a state: 15, or 9 where biases are shared."""
    first_pose_fixed: bool
    """The first pose is known."""


@kernel
def retract(unknowns: Unknowns, dx: Array, dx_shared: Array) -> Unknowns:
    """Unknowns after a step: dx (n, 15) or (n, 9) of the states, dx_shared of what they share."""
    states, shared, columns, s, first_pose_fixed = unknowns
    full = np.zeros(6 + SHARED)
    for i in range(len(full)):
        if columns[i] >= 0:
            full[i] = dx_shared[columns[i]]
    Ts_w_b, v_w = states.Ts_w_b.copy(), states.v_w.copy()
    bias_gyro, bias_acc = states.bias_gyro.copy(), states.bias_acc.copy()
    for k in range(len(dx)):
        multiply(states.Ts_w_b[k], so3_exp(dx[k, 0:3]), Ts_w_b[k])
        for i in range(3):
            v_w[k, i] += dx[k, 3 + i]
            Ts_w_b[k, i, 3] += dx[k, 6 + i]
            bias_gyro[k, i] += dx[k, 9 + i] if s > MOTION else full[i]
            bias_acc[k, i] += dx[k, 12 + i] if s > MOTION else full[3 + i]
    delta, scalars, tilt = full[6:], shared.scalars.copy(), np.zeros(3)
    for i in range(SCALARS):
        scalars[i] += delta[i]
    tilt[0], tilt[1] = delta[GRAVITY.start], delta[GRAVITY.start + 1]
    if columns[6 + GRAVITY_NORM] >= 0:
        # Gravity of a free norm moves along a straight line: residuals are linear in it.
        norm, along = shared.scalars[GRAVITY_NORM], scalars[GRAVITY_NORM]
        across = norm * math.sqrt(tilt[0] ** 2 + tilt[1] ** 2)
        scalars[GRAVITY_NORM] = math.sqrt(across * across + along * along)
        if across > 0.0:
            share = norm * math.atan2(across, along) / across
            tilt[0], tilt[1] = share * tilt[0], share * tilt[1]
    moved = Shared(
        product(shared.R_w_g, so3_exp(tilt)),
        se3_mul(se3_exp(delta[CAMERA]), shared.T_b_c),
        se3_mul(se3_exp(delta[MARKER]), shared.T_b_m),
        scalars,
    )
    moved_states = States(Ts_w_b, v_w, bias_gyro, bias_acc)
    return Unknowns(moved_states, moved, columns, s, first_pose_fixed)


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

    checked: bool = False
    """The covariances are known to be positive definite."""

    def __post_init__(self) -> None:
        if not self.checked:
            require_spd(self.covs, "CameraMotions.covs")
            object.__setattr__(self, "checked", True)

    @property
    def span(self) -> int:
        """q, number of relative poses of a motion."""
        return self.covs.shape[-1] // 6

    def followed_by(self, index: int, T_ck_ck1: Array, cov: Array) -> "CameraMotions":
        """These motions and one more, which alone is checked: a smoother adds one at every
        keyframe."""
        require_spd(cov, "covariance of the relative pose")
        return replace(
            self,
            index=np.append(self.index, index),
            Ts_ck_ck1=np.concatenate([self.Ts_ck_ck1, T_ck_ck1[None]]),
            covs=np.concatenate([self.covs, cov[None]]),
        )

    def part(self, first: int, last: int) -> "CameraMotions":
        """Motions within keyframes `first` to `last`, both included, counted from `first`."""
        inside = (self.index >= first) & (self.index + self.span <= last)
        index, Ts_ck_ck1, covs = self.index[inside], self.Ts_ck_ck1[inside], self.covs[inside]
        return replace(self, index=index - first, Ts_ck_ck1=Ts_ck_ck1, covs=covs)


@dataclass(frozen=True)
class MarkerMeasurements:
    """m positions or m orientations of a tracked marker, on a clock of their own."""

    stamps_ns: Stamps
    """(m,) rising."""

    values: Array
    """(m, 3) positions p_w_m [m], or (m, 3, 3) rotations R_w_m."""

    covs: Array
    """(m, 3, 3) of positions in w [m^2]; of orientations as right perturbation, in m [rad^2]."""

    loss: Loss = Loss()

    def __post_init__(self) -> None:
        require_spd(self.covs, "MarkerMeasurements.covs")


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
    return _independent(index, state, shared, np.append(std, np.full(SHARED, np.inf)))


def shared_prior(shared: Shared, std: Array) -> GaussianPrior:
    """A prior of the shared parameters: `std` (24,), infinity where nothing is known."""
    return _independent(0, UNKNOWN_STATE, shared, np.append(np.full(STATE, np.inf), std))


def _independent(index: int, state: States, shared: Shared, std: Array) -> GaussianPrior:
    return GaussianPrior(index, state, shared, np.diag(std**-2.0))


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

    positions: MarkerMeasurements | None = None
    orientations: MarkerMeasurements | None = None
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

    def unknowns(self, states: States, shared: Shared) -> Unknowns:
        """A point at which the problem is evaluated."""
        columns = self.free.columns(self.state_size == MOTION)
        return Unknowns(states, shared, columns, self.state_size, self.first_pose_fixed)

    @property
    def state_size(self) -> int:
        """Unknowns of a state."""
        return STATE if self.walk_gyro > 0.0 else MOTION


@dataclass(frozen=True)
class SolverConfig:
    """Choices of the joint optimization; the defaults are used for every recording."""

    gravity_on_sphere: bool = True
    """Fix the norm of gravity and estimate its direction; otherwise estimate a free vector."""

    gravity_norm: float = NORMAL_GRAVITY
    """Norm of gravity [m/s^2] if `gravity_on_sphere`."""

    estimate_gyro_bias: bool = True
    """Estimate the gyroscope bias with the prior of the IMU model; otherwise use its mean."""

    estimate_acc_bias: bool = True
    """Estimate the accelerometer bias with the prior of the IMU model; otherwise use its mean."""

    tracked_vertical: bool = True
    """Use what the IMU model knows of the vertical from samples before the window."""

    imu_cross_terms: bool = True
    """Weight IMU residuals by the full 9x9 covariance, not only its three 3x3 blocks."""

    imu_identity: bool = False
    """Weight all IMU residuals equally [rad, m/s, m], for ablations."""

    robust: bool = True
    """Use a robust loss for relative poses, linear beyond what noise explains."""

    estimate_time_offset: bool = False
    """Estimate a constant offset of the camera's timestamps, up to 0.1 s."""

    rule: Rule = "midpoint"
    """Integration rule of IMU samples."""

    max_iterations: int = 50
    """Levenberg-Marquardt steps before the report says 'not converged'."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.type is bool and not isinstance(getattr(self, each.name), bool):
                raise OptionError(
                    f"SolverConfig.{each.name} is {getattr(self, each.name)!r}, needed True or "
                    "False."
                )
        as_number(self.gravity_norm, "SolverConfig.gravity_norm", 0.0, 1e3, OptionError, True)
        as_number(self.max_iterations, "SolverConfig.max_iterations", 1, 10**6, OptionError)
        object.__setattr__(self, "max_iterations", int(self.max_iterations))
        require_choice(self.rule, get_args(Rule), "SolverConfig.rule", OptionError)


DEFAULT_CONFIG = SolverConfig()
"""Created once, because `initialize` takes only about a millisecond."""

document_fields(__name__)
