"""Estimated states, their covariances, and the verdict on them, in the words of the paper: poses in
the frame of the first camera, by left twists, velocities in the body.

The problem fixes the first body's pose; the paper's first camera frame is a choice of gauge. With
extrinsics that are free, the first camera moves in the world by T_w_b0 Exp(xi) T_b_c, and all that
is expressed in it moves against that. Texts, records and figures of a result are made elsewhere,
when one is requested.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from maci2 import validation
from maci2.estimator.problem import (
    CAMERA,
    CAMERA_CLOCK,
    GRAVITY,
    GRAVITY_NORM,
    MOTION,
    STATE,
    Shared,
    States,
    Unknowns,
    shared_parameters,
)
from maci2.estimator.solver import Covariance, Solution, at_camera
from maci2.field_docs import document_fields
from maci2.geometry.gaussian import chi2_quantile
from maci2.geometry.gaussian import direction_std as direction_std
from maci2.geometry.se3 import se3_adj, se3_inv, se3_mul
from maci2.geometry.so3 import norm3, product, skew
from maci2.imu import ImuMeasurements
from maci2.jit import kernel
from maci2.types import Array, Stamps, Vec3

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from maci2.result_output import Record

Status = Literal["ok", "weak", "failed"]

VERTICAL_CHI2 = chi2_quantile(2, 0.999)
"""99.9 % quantile of chi-square with 2 degrees of freedom: two verticals contradict each other."""


@dataclass(frozen=True)
class VIState:
    """The paper's state X: poses and velocities of the body, gravity, biases, extrinsics."""

    stamps_ns: Stamps
    """(n,) timestamps of the keyframes [ns], on the IMU's clock."""

    Ts_c0_b: Array
    """(n, 4, 4) body poses in the first camera frame [m]."""

    velocity_b: Array
    """(n, 3) velocities of the body, each in the body frame of its keyframe [m/s]."""

    gravity_c0: Array
    """(3,) gravity in the first camera frame, pointing down [m/s^2]."""

    gyro_bias: Array
    """(3,) bias of the raw gyroscope [rad/s], with any IMU model."""

    acc_bias: Array
    """(3,) bias of the raw accelerometer [m/s^2], with any IMU model."""

    T_b_c: Array
    """(4, 4) pose of the camera in the body (IMU) frame [m]: p_b = T_b_c p_c."""

    removed_gyro: Array = field(default_factory=lambda: np.zeros(3))
    """(3,) part of `gyro_bias` that the IMU model subtracted from the samples [rad/s]."""

    removed_acc: Array = field(default_factory=lambda: np.zeros(3))
    """(3,) part of `acc_bias` that the IMU model subtracted from the samples [m/s^2]."""

    @property
    def gyro_bias_residual(self) -> Array:
        """(3,) gyroscope bias that remains in the samples after the IMU model [rad/s]."""
        return self.gyro_bias - self.removed_gyro

    @property
    def acc_bias_residual(self) -> Array:
        """(3,) accelerometer bias that remains in the samples after the IMU model [m/s^2]."""
        return self.acc_bias - self.removed_acc


@dataclass(frozen=True)
class Posterior:
    """Covariance of the state, given the measurements (with `SolveReport.inflation` applied)."""

    gravity_c0: Array
    """(3, 3) in the first camera frame [(m/s^2)^2]; rank 2 if the norm of gravity is known."""

    Ts_c0_b: Array
    """(n, 6, 6) left perturbation, order [rho, phi], [m, rad]; zero for the first pose where the
    extrinsics are given."""

    velocity_b: Array
    """(n, 3, 3) each in the body frame of its keyframe [(m/s)^2]."""

    gyro_bias: Array
    """(3, 3) in the body frame [(rad/s)^2]; zero where the bias was not estimated."""

    acc_bias: Array
    """(3, 3) in the body frame [(m/s^2)^2]; zero where the bias was not estimated."""

    T_b_c: Array
    """(6, 6) left perturbation, order [rho, phi], [m, rad]; zero where the extrinsics are given."""


@dataclass(frozen=True)
class SolveReport:
    """Outcome of the optimization: convergence, chi-square, rejected measurements, time."""

    converged: bool
    """Whether the optimization converged within the allowed iterations."""

    cost: float
    """Sum of squared residuals, whitened by the stated noise: chi-square distributed."""

    dof: int
    """Degrees of freedom: residuals minus unknowns."""

    iterations: int
    """Levenberg-Marquardt steps, summed over all rounds."""

    solve_ms: float
    """Wall time of the whole call [ms], preintegration and covariance included."""

    inflation: float = 1.0
    """Factor by which chi-square enlarged the stated measurement covariances; 1 if it did not."""

    rejected: int = 0
    """Number of relative poses rejected because they contradict the IMU."""

    rejected_poses: tuple[int, ...] = ()
    """Indices of the rejected relative poses."""

    second_motions: int = 0
    """Number of relative poses for which the IMU selected a motion supported by fewer matches."""

    scale: float | None = None
    """Ratio of true to measured translation; None if the scale of vision was taken as exact."""

    std_scale: float | None = None
    """Standard deviation of `scale`; None if it was not estimated."""

    time_offset_s: float | None = None
    """Time on the IMU's clock minus time on the camera's [s]; None if it was not estimated."""

    std_time_offset_s: float | None = None
    """Standard deviation of `time_offset_s` [s]; None if it was not estimated."""

    vertical_chi2: float | None = None
    """Squared distance of gravity from the vertical that samples before the window show, 2 degrees
    of freedom; None where they show none."""

    solves: int = 0
    """Runs of the optimizer."""

    @property
    def vertical_rejected(self) -> bool:
        """Whether that vertical contradicts the window and was not used."""
        return self.vertical_chi2 is not None and self.vertical_chi2 > VERTICAL_CHI2


@dataclass(frozen=True)
class Verdict:
    """Whether the result may be used, and the reasons if not."""

    status: Status
    """ok: within the limits; weak: possibly outside the limits; failed: no usable estimate."""

    reasons: tuple[str, ...] = ()
    """Reasons against the result; an `ok` may have remarks, too."""

    taken_as_given: tuple[str, ...] = field(default=(), repr=False)
    """Stated constants that were accepted although no measurement confirms them: if they are wrong,
    an `ok` may be wrong. Empty if they were confirmed, or are among the reasons."""


@dataclass(frozen=True, repr=False)
class Estimate:
    """State with covariance, report and verdict: what both estimators return."""

    verdict: Verdict
    """Whether the result may be used, and the reasons if not."""

    report: SolveReport
    """How the optimization went."""

    state: VIState | None = None
    """Poses, velocities, gravity, biases (after a calibration those of the last keyframe) and
    extrinsics; None if there is no estimate."""

    posterior: Posterior | None = None
    """Covariance of the state; None without a state."""

    @property
    def gyro_bias(self) -> Array | None:
        """(3,) bias of the raw gyroscope [rad/s]; None without a state."""
        return None if self.state is None else self.state.gyro_bias

    @property
    def acc_bias(self) -> Array | None:
        """(3,) bias of the raw accelerometer [m/s^2]; None without a state."""
        return None if self.state is None else self.state.acc_bias

    def to_dict(self) -> "Record":
        """The record that `--json` writes, as plain numbers, strings and lists."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write `to_dict()` as JSON, atomically."""
        from maci2.files import write_json

        write_json(validation.as_path(path, "path"), self.to_dict())

    def _headline(self, state: VIState) -> str:
        """Main estimate, for `repr`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        words = [_verdict_words(self.verdict)]
        if self.state is not None:
            words += [f"{len(self.state.stamps_ns)} keyframes", self._headline(self.state)]
        return f"{type(self).__name__}({', '.join(words)})"


@dataclass(frozen=True, repr=False)
class InitResult(Estimate):
    """Result of `initialize`; `state` and `posterior` are None only if there is no estimate."""

    @property
    def gravity_c0(self) -> Array | None:
        """(3,) gravity in the first camera frame, pointing down [m/s^2]; None without a state."""
        return None if self.state is None else self.state.gravity_c0

    @property
    def velocity_b(self) -> Array | None:
        """(n, 3) velocities, each in the body frame of its keyframe [m/s]; None without a state."""
        return None if self.state is None else self.state.velocity_b

    @property
    def gravity_std_deg(self) -> float | None:
        """Standard deviation of the direction of gravity, both angles together [deg], or None."""
        if self.state is None or self.posterior is None:
            return None
        return math.degrees(direction_std(self.state.gravity_c0, self.posterior.gravity_c0))

    def summary(self) -> str:
        """Estimates with 1-sigma and the verdict: the text that `maci2 init` prints."""
        from maci2.result_output import initialization_text

        return initialization_text(self)

    def to_dict(self) -> "Record":
        """The record that `maci2 init --json` writes, as plain numbers, strings and lists."""
        from maci2.result_output import initialization_record

        return initialization_record(self)

    def plot(self) -> "Figure":
        """Velocity, gravity and biases with 2-sigma bands, as a matplotlib figure.

        Raises:
            OptionError: matplotlib is not installed (extra `report`).
            MeasurementError: there is no state to plot.
        """

        from maci2.result_output import plot_initialization

        return plot_initialization(self)

    def _headline(self, state: VIState) -> str:
        gravity = ", ".join(f"{value:.3f}" for value in state.gravity_c0)
        return f"gravity_c0 [{gravity}] m/s^2 +- {self.gravity_std_deg:.3f} deg"


@dataclass(frozen=True)
class CalibrationStage:
    """Result of a calibration from the first part of a recording only."""

    seconds: float
    """Length of the part [s]."""

    std: Array
    """(6,) standard deviations of T_b_c, order [rho, phi], [m, rad]."""

    moved: Array
    """(6,) left twist from the final T_b_c to the one of this part, order [rho, phi], [m, rad]."""


@dataclass(frozen=True, repr=False)
class CalibrationResult(Estimate):
    """Result of `calibrate`: camera-IMU extrinsics, with the states they were estimated with."""

    progress: tuple[CalibrationStage, ...] = ()
    """Results after every ten seconds; the last one uses the whole recording."""

    def summary(self) -> str:
        """Extrinsics with 1-sigma and the verdict: the text that `maci2 calibrate` prints."""
        from maci2.result_output import calibration_text

        return calibration_text(self)

    def to_dict(self) -> "Record":
        """The record that `maci2 calibrate --json` writes; `T_b_c` belongs to the camera frame of
        the relative poses."""
        from maci2.result_output import calibration_record

        return calibration_record(self)

    def plot(self) -> "Figure":
        """Extrinsics with their uncertainty, as a matplotlib figure.

        Raises:
            OptionError: matplotlib is not installed (extra `report`).
            MeasurementError: there is no state to plot.
        """

        from maci2.result_output import plot_calibration

        return plot_calibration(self)

    def _headline(self, state: VIState) -> str:
        return f"p_b_c [{', '.join(f'{value:.4f}' for value in state.T_b_c[:3, 3])}] m"


def _verdict_words(verdict: Verdict) -> str:
    given = ", constants taken as given" if verdict.taken_as_given else ""
    if not verdict.reasons:
        return verdict.status + given
    remarks = f"{len(verdict.reasons)} remark{'s'[: len(verdict.reasons) > 1]}"
    return f"{verdict.status}, {remarks}{given}"


def first_camera_guess(
    Ts_c0_b: Array,
    velocity_b: Array,
    gravity_c0: Array,
    bias_gyro: Vec3,
    bias_acc: Vec3,
    T_b_c: Array,
) -> tuple[States, Shared]:
    """Initial guess of the problem; its world is the first camera's frame."""
    biases = np.empty((2, len(Ts_c0_b), 3))
    biases[0], biases[1] = bias_gyro, bias_acc
    v_w = (Ts_c0_b[:, :3, :3] @ velocity_b[:, :, None])[:, :, 0]
    R_w_g, norm = _level_frame(gravity_c0)
    shared = shared_parameters(R_w_g, T_b_c, gravity_norm=norm)
    return States(np.ascontiguousarray(Ts_c0_b), v_w, biases[0], biases[1]), shared


@kernel
def _level_frame(gravity_w: Array) -> tuple[Array, float]:
    """(3, 3) orientation of a level frame, whose heading has no meaning, and the norm of
    gravity."""
    norm, least, R_w_g = norm3(gravity_w), 0, np.zeros((3, 3))
    for i in range(3):
        R_w_g[i, 2] = -gravity_w[i] / norm
        if abs(gravity_w[i]) < abs(gravity_w[least]):
            least = i
    # x is the axis that gravity is farthest from, crossed with up.
    up = skew(R_w_g[:, 2].copy())
    across = norm3(up[:, least].copy())
    for i in range(3):
        R_w_g[i, 0] = -up[i, least] / across
    for i in range(3):
        for j in range(3):
            R_w_g[i, 1] += up[i, j] * R_w_g[j, 0]
    return R_w_g, norm


def state_and_posterior(
    solution: Solution, covariance: Covariance | None, imu: ImuMeasurements, stamps_ns: Stamps
) -> tuple[VIState, Posterior | None]:
    """The paper's state at the keyframes' timestamps, and its covariance where there is one.

    Biases are those of the raw sensor, with what the IMU model removed, at the last keyframe.
    """
    unknowns = solution.unknowns
    if solution.shared.scalars[CAMERA_CLOCK] != 0.0:
        unknowns = unknowns._replace(states=at_camera(solution.measurements, unknowns))
    states, s, b = unknowns.states, unknowns.size, solution.border
    n = len(states.v_w)
    known = covariance
    if known is None:
        zeros = (np.zeros(shape) for shape in ((n, s, s), (n - 1, s, s), (n, s, b), (b, b)))
        known = Covariance._make([*zeros, unknowns.columns])
    view = in_first_camera(unknowns, known)
    Ts_c0_b, velocity_b, gravity_c0, cov_Ts, cov_velocity, cov_gravity = view
    removed_gyro, removed_acc = imu.removed_bias(int(stamps_ns[0]), int(stamps_ns[-1]))
    state = VIState(
        stamps_ns,
        Ts_c0_b,
        velocity_b,
        gravity_c0,
        states.bias_gyro[-1] + removed_gyro,
        states.bias_acc[-1] + removed_acc,
        solution.shared.T_b_c,
        removed_gyro,
        removed_acc,
    )
    if covariance is None:
        return state, None
    biases = covariance.states[-1, MOTION:, MOTION:] if s == STATE else covariance.biases
    posterior = Posterior(
        cov_gravity,
        cov_Ts,
        cov_velocity,
        biases[:3, :3],
        biases[3:, 3:],
        covariance.of(CAMERA),
    )
    return state, posterior


GRAVITY_MOVED_BY = 6 + np.r_[GRAVITY, GRAVITY_NORM, CAMERA.start + 3 : CAMERA.stop]
"""Places in `Free.columns` of what moves gravity in c0: tilts, norm, rotation of the camera."""


@kernel
def in_first_camera(
    unknowns: Unknowns, cov: Covariance
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Poses, velocities and gravity in the first camera, and their covariances (n, 6, 6),
    (n, 3, 3), (3, 3)."""
    states, shared, columns, s, _ = unknowns
    n, b, norm = len(states.v_w), len(cov.free), shared.scalars[GRAVITY_NORM]
    T_c_b = se3_inv(shared.T_b_c)
    T_c0_w = se3_mul(T_c_b, se3_inv(states.Ts_w_b[0]))
    adj_c_b = se3_adj(T_c_b)
    Ts_c0_b, v_b, g_c0 = np.empty((n, 4, 4)), np.zeros((n, 3)), np.empty(3)
    cov_T, cov_v, cov_g = np.empty((n, 6, 6)), np.empty((n, 3, 3)), np.empty((3, 3))
    A, P, out = np.zeros((9, s + b)), np.empty((s + b, s + b)), np.empty((9, 9))
    for j in range(6):
        to = columns[6 + CAMERA.start + j]
        for i in range(6 if to >= 0 else 0):
            A[i, s + to] = -adj_c_b[i, j]
    for i in range(b):
        for j in range(b):
            P[s + i, s + j] = cov.free[i, j]
    for k in range(n):
        T_w_b, T_c0_b = states.Ts_w_b[k], se3_mul(T_c0_w, states.Ts_w_b[k])
        # The left twist in c0 is the body's own, [R' dp, phi], seen from there.
        adj_c0_b = se3_adj(T_c0_b)
        for i in range(4):
            for j in range(4):
                Ts_c0_b[k, i, j] = T_c0_b[i, j]
        for i in range(3):
            for j in range(3):
                v_b[k, i] += T_w_b[j, i] * states.v_w[k, j]
                A[i, j], A[3 + i, j] = adj_c0_b[i, 3 + j], adj_c0_b[3 + i, 3 + j]
                A[i, 6 + j], A[6 + i, 3 + j] = T_c0_w[i, j], T_w_b[j, i]
        for i in range(3):
            j, m = (i + 1) % 3, (i + 2) % 3
            A[6 + i, m], A[6 + i, j] = v_b[k, j], -v_b[k, m]
        for i in range(s):
            for j in range(s):
                P[i, j] = cov.states[k, i, j]
            for j in range(b):
                P[i, s + j] = P[s + j, i] = cov.with_shared[k, i, j]
        congruent(A, P, out)
        for i in range(6):
            for j in range(6):
                cov_T[k, i, j] = out[i, j]
        for i in range(3):
            for j in range(3):
                cov_v[k, i, j] = out[6 + i, 6 + j]
    R_c0_g = product(T_c0_w, shared.R_w_g)
    for i in range(3):
        g_c0[i] = -norm * R_c0_g[i, 2]
    # The camera's frame rotates by -R_c_b phi.
    by_rotation, G, by_unknown = product(skew(g_c0), T_c_b), np.zeros((3, b)), np.empty(6)
    for i in range(3):
        by_unknown[0], by_unknown[1] = norm * R_c0_g[i, 1], -norm * R_c0_g[i, 0]
        by_unknown[2], by_unknown[3:6] = -R_c0_g[i, 2], by_rotation[i]
        for c in range(6):
            to = columns[GRAVITY_MOVED_BY[c]]
            if to >= 0:
                G[i, to] = by_unknown[c]
    congruent(G, cov.free, cov_g)
    return Ts_c0_b, v_b, g_c0, cov_T, cov_v, cov_g


@kernel
def congruent(A: Array, P: Array, out: Array) -> None:
    """out = A P A', symmetric."""
    rows, columns = A.shape
    AP = np.empty(columns)
    for i in range(rows):
        for c in range(columns):
            AP[c] = 0.0
        for m in range(columns):
            f = A[i, m]
            if f != 0.0:
                for c in range(columns):
                    AP[c] += f * P[m, c]
        for j in range(i + 1):
            total = 0.0
            for c in range(columns):
                total += AP[c] * A[j, c]
            out[i, j] = out[j, i] = total


document_fields(__name__)
