"""A fixed-lag smoother over keyframes: relative poses and IMU in one chain, its tail marginalized.

World frame w: origin at the body of the first keyframe, z axis up. Position and heading of that
body are fixed by a tight prior; they are what no measurement here can see.

What leaves the window becomes a Gaussian on the oldest state that is left and on the constants,
linearized at the smoothed solution of that moment. Everything inside the window is linearized anew
with every step; first-estimate Jacobians are not used. Where a state moves after its predecessor
was marginalized, the two linearizations disagree about how a turn of the world about the vertical
moves it, and heading gains information that nobody measured. It is of second order in that
movement, and small: the state has been smoothed over the whole lag by then. Orientation and
position of simulated minutes, counted from the start, are as far off as they say.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.errors import MeasurementError
from maci2.estimator.camera_imu import HUBER
from maci2.estimator.drift import OrientationDrift
from maci2.estimator.measurements import Markers, Measurements, Timed, rows_of, stack_priors
from maci2.estimator.normal_equations import empty_system
from maci2.estimator.outliers import without
from maci2.estimator.prediction import Prediction, predict
from maci2.estimator.problem import (
    BIAS_ACC,
    BIAS_GYRO,
    CAMERA,
    CAMERA_CLOCK,
    MOTION,
    SCALE,
    SHARED,
    STATE,
    CameraMotions,
    Free,
    GaussianPrior,
    Loss,
    Problem,
    Shared,
    States,
    shared_parameters,
    shared_prior,
    state_prior,
    zero_velocity,
)
from maci2.estimator.results import InitResult
from maci2.estimator.solver import (
    Solution,
    SolverOptions,
    bandwidth,
    last_state_covariance,
    linearize,
    solve,
)
from maci2.estimator.visual_noise import VisualNoise
from maci2.geometry.gaussian import nees, symmetrize
from maci2.geometry.so3 import so3_exp
from maci2.imu import BiasPrior, ImuMeasurements
from maci2.types import GRAVITY_NORM, NS, Array, Mat4, Mat6, Stamps, Vec3
from maci2.validation import as_number

if TYPE_CHECKING:
    from maci2.vision import RelativePoses


def marginalize_first(solution: Solution) -> GaussianPrior:
    """The prior on state 1 and the shared parameters that all factors touching state 0 amount to.

    Its `index` is 0: that of the next state in the problem without the first. Linearized at the
    solution. The free parameters must stay the same, and motions of the camera span two keyframes.
    """
    assert bandwidth(solution.measurements) == 1, "motions over more than two keyframes"
    s, b, columns = solution.problem.state_size, solution.border, solution.columns
    system, costs = empty_system(2, s, 1, b), np.zeros(5)
    linearize(
        _touching_first(solution.measurements),
        solution.markers and Markers(*(_of_first(timed) for timed in solution.markers)),
        solution.unknowns._replace(states=solution.states.part(slice(2))),
        system,
        costs,
    )
    first, second = system.rows
    tail = slice(2 * s + 1, 2 * s + 1 + b)
    rhs = np.concatenate([second[:, 2 * s], system.border[:, b]])
    H = np.hstack([first[:, s : 2 * s], first[:, tail]])
    kept = np.zeros((s + b, s + b))
    kept[:s, :s], kept[:s, s:] = second[:, :s], second[:, tail]
    kept[s:, :s], kept[s:, s:] = second[:, tail].T, system.border[:, :b]
    gain = np.linalg.solve(symmetrize(first[:, :s]), np.column_stack([H, first[:, 2 * s]]))
    info = symmetrize(kept - H.T @ gain[:, :-1])
    eta = rhs - H.T @ gain[:, -1]
    constant = float(costs.sum() - first[:, 2 * s] @ gain[:, -1])
    # A clock shared by positions and orientations is one unknown; it is kept as the position's.
    shared = [MOTION + list(columns).index(c) for c in range(b)]
    places = np.array([*range(s), *shared], dtype=int)
    full_info = np.zeros((STATE + SHARED, STATE + SHARED))
    full_eta = np.zeros(STATE + SHARED)
    full_info[np.ix_(places, places)] = info
    full_eta[places] = eta
    state = solution.states.part(slice(1, 2))
    return GaussianPrior(0, state, solution.shared, full_info, full_eta, constant)


def without_first(problem: Problem, solution: Solution) -> Problem:
    """The problem without its first state, whose information becomes a prior."""
    last = len(problem.stamps_ns) - 1
    kept = [replace(p, index=p.index - 1) for p in problem.priors if p.index > 0]
    return replace(
        problem,
        stamps_ns=problem.stamps_ns[1:],
        camera=tuple(stack.part(1, last) for stack in problem.camera),
        vertical=None,
        priors=(marginalize_first(solution), *kept),
    )


def with_wandering_parameters(prior: GaussianPrior, variances: Array) -> GaussianPrior:
    """The prior after its shared parameters have wandered: `variances` (24,) are added to theirs.

    In the form of information, so that directions of which nothing is known stay unknown.
    """
    moved = STATE + np.flatnonzero(variances > 0.0)
    if not len(moved):
        return prior
    rows = prior.info[moved]
    gain = np.linalg.inv(np.diag(1.0 / variances[moved - STATE]) + rows[:, moved])
    info = symmetrize(prior.info - rows.T @ gain @ rows)
    # The Gaussian's least value is not changed by a wider one.
    eta = prior.eta - rows.T @ gain @ prior.eta[moved]
    constant = prior.constant - float(prior.eta[moved] @ gain @ prior.eta[moved])
    return replace(prior, info=info, eta=eta, constant=constant)


def solution_without_first(problem: Problem, solution: Solution) -> Solution:
    """The solution of what `without_first` left, which is still its optimum."""
    later, measurements = slice(1, None), solution.measurements
    motions = rows_of(measurements.motions, measurements.motions.state > 0)
    measurements = measurements._replace(
        spans=rows_of(measurements.spans, later),
        white=measurements.white[1:],
        motions=motions._replace(state=motions.state - 1),
        instant=rows_of(measurements.instant, later),
        priors=stack_priors(problem.priors),
    )
    unknowns = solution.unknowns._replace(states=solution.states.part(later))
    return replace(solution, problem=problem, unknowns=unknowns, measurements=measurements)


def _touching_first(measurements: Measurements) -> Measurements:
    """The measurements of state 0, alone or with state 1."""
    first, motions, priors = slice(0, 1), measurements.motions, measurements.priors
    return measurements._replace(
        spans=rows_of(measurements.spans, first),
        white=measurements.white[first],
        motions=rows_of(motions, motions.state == 0),
        priors=rows_of(priors, priors.at_state == 0),
    )


def _of_first(timed: Timed) -> Timed:
    return rows_of(timed, slice(0, int(np.searchsorted(timed.at_state, 0, side="right"))))


WINDOW_S = 2.5
"""Length of the window that tracking starts from."""

GAUGE_STD = (1e-4, 1e-4)
"""Prior of the first body's position [m] and heading [rad]: far below what is measured."""

LAG_RANGE_S = (0.5, 3600.0)
"""Shortest and longest window [s]: below it hardly a keyframe is left, above it nothing is gained
that smoothing all at once would not give."""


@dataclass(frozen=True)
class CalibrationSpread:
    """Standard deviations of the rig's constants, which are estimated along; 0 takes one as
    known."""

    rotation_deg: float = 0.0
    """Rotation of the camera in the body, per axis."""

    lever_m: float = CALIBRATED.lever_m
    """Place of the camera in the body, per axis, where its rotation is estimated."""

    clock_s: float = 0.0
    """Offset of the camera's clock."""

    scale_walk: float = 0.0
    """Random walk of vision's scale where that is estimated [1/sqrt(s)]."""

    clock_walk_s: float = 0.0
    """Random walk of the camera's clock [s/sqrt(s)]."""

    slow_error_probability: float = 0.1
    """Probability that errors of visual orientation last for seconds (`drift`)."""

    def free(self, std_scale: float) -> Free:
        """Constants that are free."""
        return Free(
            camera=self.rotation_deg > 0.0, scale=std_scale > 0.0, camera_clock=self.clock_s > 0.0
        )

    def prior(self, T_b_c: Mat4, std_scale: float) -> GaussianPrior:
        """Prior about the calibration as it is stated."""
        std = np.full(SHARED, np.inf)
        if std_scale > 0.0:
            std[SCALE] = std_scale
        if self.rotation_deg > 0.0:
            std[CAMERA] = [self.lever_m] * 3 + [np.deg2rad(self.rotation_deg)] * 3
        if self.clock_s > 0.0:
            std[CAMERA_CLOCK] = self.clock_s
        return shared_prior(shared_parameters(T_b_c=T_b_c), std)

    def wandered(self, dt: float) -> Array:
        """(24,) variances by which the constants wander in `dt` seconds."""
        variances = np.zeros(SHARED)
        variances[SCALE] = self.scale_walk**2 * dt
        if self.clock_s > 0.0:
            variances[CAMERA_CLOCK] = self.clock_walk_s**2 * dt
        return variances


KNOWN = CalibrationSpread()
"""Nothing is in doubt, as in a simulation."""

MEASURED = CalibrationSpread(
    rotation_deg=float(np.rad2deg(CALIBRATED.rotation)),
    lever_m=CALIBRATED.lever_m,
    clock_s=CALIBRATED.camera_clock_s,
    clock_walk_s=0.0005,
    slow_error_probability=0.8,
)
"""A calibration as calibration tools leave it."""


@dataclass(frozen=True)
class SmootherConfig:
    """Choices of the smoother; the defaults run every recording unchanged."""

    lag_s: float = 3.0
    """States younger than this are estimated anew with every keyframe."""

    loss: Loss = HUBER
    """Loss of a relative pose that is farther off than noise explains: linear from the limit of
    initialization and calibration on."""

    adapt_visual_noise: bool = True
    """Scale the covariance of relative poses by what their innovations have shown."""

    std_zero_velocity: float = 0.003
    """Velocity of a device that stands still [m/s]."""

    calibration: CalibrationSpread = KNOWN
    """How far the rig's constants may be off."""

    solver: SolverOptions = field(
        default_factory=lambda: SolverOptions(
            max_iterations=6, max_rounds=2, decrement=1e-4, reintegrate_above=1e-7
        )
    )
    """Each keyframe begins at the solution before it: a few steps suffice. The last one moves
    states by a tenth of a standard deviation at most and leaves a hundredth of that. A rotation of
    1e-7 rad is a thousandth of a gyroscope's noise from keyframe to keyframe."""

    def __post_init__(self) -> None:
        as_number(self.lag_s, "SmootherConfig.lag_s", *LAG_RANGE_S)


class FixedLagSmoother:
    """States of the last few seconds, given everything so far."""

    def __init__(
        self,
        T_b_c: Mat4,
        walk_gyro: float,
        walk_acc: float,
        config: SmootherConfig | None = None,
    ) -> None:
        self.config = config or SmootherConfig()
        self._T_b_c = T_b_c
        self._walks = (walk_gyro, walk_acc)
        self._noise = VisualNoise()
        chance = self.config.calibration.slow_error_probability
        self._drift = OrientationDrift(T_b_c, self._walks, chance)
        self._problem: Problem | None = None
        self._solution: Solution | None = None
        self._prediction: tuple[int, Prediction] | None = None

    def start(self, imu: ImuMeasurements, vision: "RelativePoses", result: InitResult) -> None:
        """Begin with an initialized window.

        The window's own measurements enter the chain but for those that its initialization
        rejected, so its posterior is the window's; nothing is counted twice.
        """
        state = result.state
        if state is None:
            raise MeasurementError("tracking needs an initialized window; this one has no state.")
        kept = np.ones(len(vision) - 1, dtype=bool)
        kept[list(result.report.rejected_poses)] = False
        vision = without(vision, kept)
        states, shared = world_states(result, self._T_b_c)
        calibration = self.config.calibration
        priors = [
            gauge_prior(states, shared),
            bias_prior(imu.bias_prior, states, shared),
            calibration.prior(self._T_b_c, vision.std_scale),
        ]
        measured = np.flatnonzero(vision.measured)
        camera = CameraMotions(
            measured, vision.Ts_ck_ck1[measured], vision.covs_T_ck_ck1[measured], self.config.loss
        )
        self._problem = Problem(
            imu,
            state.stamps_ns,
            *self._walks,
            calibration.free(vision.std_scale),
            (camera,),
            priors=tuple(priors),
            longest_span_s=np.inf,
        )
        self._solve(states, shared)
        self._drift.begin(imu, vision, self.solution)
        self._forget()

    def add(
        self,
        imu: ImuMeasurements,
        stamp_ns: int,
        T_ck_ck1: Mat4 | None,
        cov_T_ck_ck1: Mat6 | None,
        still: bool = False,
    ) -> Mat6 | None:
        """Append a keyframe and smooth; without a relative pose from the keyframe before, the IMU
        alone ties the two. Returns the covariance that the relative pose is used with.

        `imu` covers the window and the new keyframe. `still` says that the device stands still:
        it has no velocity, and its relative poses show nothing of the noise in motion. The
        gyroscope's reading is not taken for its bias: in flight that is another one by up to
        1e-3 rad/s (`imu.stationary`), more than relative poses leave open.
        """
        problem, solution = self._current()
        states, prediction = solution.states, self._predicted(imu, stamp_ns)
        k = len(problem.stamps_ns) - 1
        camera, priors, cov = problem.camera, problem.priors, None
        if T_ck_ck1 is not None and cov_T_ck_ck1 is not None:
            cov, difference = cov_T_ck_ck1, prediction.innovation(T_ck_ck1)
            if self.config.adapt_visual_noise:
                cov = self._noise.explaining(difference, cov)
            if not still:
                self._noise.observe(difference, cov_T_ck_ck1)
            self._drift.follow(prediction, T_ck_ck1, cov)
            camera = (camera[0].followed_by(k, T_ck_ck1, cov),)
        else:
            self._drift.follow(prediction)
        if still:
            std = self.config.std_zero_velocity
            priors = (*priors, zero_velocity(k + 1, std, solution.shared))
        self._problem = replace(
            problem,
            imu=imu,
            stamps_ns=np.append(problem.stamps_ns, stamp_ns),
            camera=camera,
            priors=priors,
        )
        extended = (np.concatenate([a, b]) for a, b in zip(states, prediction.state, strict=True))
        self._solve(States(*extended), solution.shared)
        self._drift.observe(stamp_ns, *self.latest)
        self._forget()
        return cov

    def innovation(
        self, imu: ImuMeasurements, stamp_ns: int, T_ck_ck1: Mat4, cov_T_ck_ck1: Mat6
    ) -> float:
        """Chi-square per degree of freedom of a relative pose and its (6, 6) covariance against
        the IMU's prediction."""
        difference = self._predicted(imu, stamp_ns).innovation(T_ck_ck1)
        return float(nees(difference.r, difference.cov + cov_T_ck_ck1)) / 6.0

    def stated(self, cov_T_ck_ck1: Mat6) -> Mat6:
        """Covariance of a relative pose as it is used."""
        if not self.config.adapt_visual_noise:
            return cov_T_ck_ck1
        return self._noise.covariance(cov_T_ck_ck1)

    @property
    def is_contradicted(self) -> bool:
        """Whether relative poses keep to one side of what is predicted, as no noise of theirs
        does: a bias has jumped, say."""
        return self._noise.is_one_sided

    def _predicted(self, imu: ImuMeasurements, stamp_ns: int) -> Prediction:
        """The next keyframe as the IMU predicts it, computed once however often it is asked for."""
        if self._prediction is None or self._prediction[0] != stamp_ns:
            span_ns = np.array([self.stamps_ns[-1], stamp_ns])
            shared = self.solution.shared
            prediction = predict(imu, span_ns, *self.latest, shared, self._walks)
            self._prediction = (stamp_ns, prediction)
        return self._prediction[1]

    @property
    def stamps_ns(self) -> Stamps:
        """(n,) keyframes in the window."""
        return self._current()[0].stamps_ns

    @property
    def solution(self) -> Solution:
        """The smoothed window."""
        return self._current()[1]

    @property
    def latest(self) -> tuple[States, Array]:
        """The newest state and its covariance (15, 15), order [phi, v, p, bg, ba]."""
        solution = self.solution
        return solution.states.part(slice(-1, None)), self._latest_cov

    @property
    def reported_cov(self) -> Array:
        """(15, 15) covariance of the newest state with what errors of vision that last for seconds
        add to it."""
        return self._latest_cov + (self._drift.added if self.config.adapt_visual_noise else 0.0)

    @property
    def slow_error_deg(self) -> float:
        """Standard deviation of errors of visual orientation that last for seconds [deg]."""
        return self._drift.std_deg if self.config.adapt_visual_noise else 0.0

    def _current(self) -> tuple[Problem, Solution]:
        if self._problem is None or self._solution is None:
            raise MeasurementError("the smoother has not been started; call start() first.")
        return self._problem, self._solution

    def _solve(self, states: States, shared: Shared) -> None:
        assert self._problem is not None
        before = None if self._solution is None else self._solution.measurements
        self._solution = solve(self._problem, states, shared, self.config.solver, before)
        self._latest_cov = last_state_covariance(self._solution)

    def _forget(self) -> None:
        """Marginalize what is older than the lag."""
        problem, solution = self._current()
        oldest_ns = int(problem.stamps_ns[-1]) - round(self.config.lag_s * NS)
        while len(problem.stamps_ns) > 3 and int(problem.stamps_ns[0]) < oldest_ns:
            dt = float(problem.stamps_ns[1] - problem.stamps_ns[0]) / NS
            problem = without_first(problem, solution)
            marginal = with_wandering_parameters(
                problem.priors[0], self.config.calibration.wandered(dt)
            )
            problem = replace(problem, priors=(marginal, *problem.priors[1:]))
            solution = solution_without_first(problem, solution)
        self._problem, self._solution = problem, solution


def window_start(keyframes_ns: Stamps, last: int) -> int | None:
    """First keyframe of the window that ends at keyframe `last`; None before there is one."""
    first = int(np.searchsorted(keyframes_ns, keyframes_ns[last] - round(WINDOW_S * NS)))
    shortest_ns = 0.9 * WINDOW_S * NS
    if first > 0 and keyframes_ns[last] - keyframes_ns[first] <= shortest_ns:
        first -= 1  # keyframes that do not divide the window: rather one more than none at all
    long_enough = keyframes_ns[last] - keyframes_ns[first] > shortest_ns
    return first if long_enough and last - first >= 4 else None


def world_states(result: InitResult, T_b_c: Mat4) -> tuple[States, Shared]:
    """An initialized window in a level world that begins at its first body."""
    state = result.state
    assert state is not None
    down = state.gravity_c0 / np.linalg.norm(state.gravity_c0)
    R_w_c0 = _rotation_between(down, np.array([0.0, 0.0, -1.0]))
    Ts_w_b = state.Ts_c0_b.copy()
    Ts_w_b[:, :3, :3] = R_w_c0 @ state.Ts_c0_b[:, :3, :3]
    positions = state.Ts_c0_b[:, :3, 3] @ R_w_c0.T
    Ts_w_b[:, :3, 3] = positions - positions[0]
    n = len(Ts_w_b)
    states = States(
        np.ascontiguousarray(Ts_w_b),
        np.einsum("kij,kj->ki", Ts_w_b[:, :3, :3], state.velocity_b),
        np.tile(state.gyro_bias_residual, (n, 1)),
        np.tile(state.acc_bias_residual, (n, 1)),
    )
    scale = result.report.scale
    return states, shared_parameters(
        T_b_c=T_b_c, gravity_norm=GRAVITY_NORM, log_scale=float(np.log(scale)) if scale else 0.0
    )


def gauge_prior(states: States, shared: Shared) -> GaussianPrior:
    """Position and heading of the first body, which nothing measures."""
    info = np.zeros((STATE + SHARED, STATE + SHARED))
    # Heading is the rotation about the world's z axis, seen in the body.
    up_b = states.Ts_w_b[0, 2, :3]
    info[0:3, 0:3] = np.outer(up_b, up_b) / GAUGE_STD[1] ** 2
    info[6:9, 6:9] = np.eye(3) / GAUGE_STD[0] ** 2
    first = states.part(slice(1))
    return GaussianPrior(0, first, shared, info)


def bias_prior(prior: BiasPrior, states: States, shared: Shared) -> GaussianPrior:
    """What the IMU model knows of the biases that are left, at the first state."""
    std = np.full(STATE, np.inf)
    std[BIAS_GYRO], std[BIAS_ACC] = prior.std_gyro, prior.std_acc
    first = States(states.Ts_w_b[:1], states.v_w[:1], prior.mean_gyro[None], prior.mean_acc[None])
    return state_prior(0, first, shared, std)


def _rotation_between(a: Vec3, b: Vec3) -> Array:
    """The shortest rotation that takes direction a to direction b."""
    axis = np.cross(a, b)
    sine, cosine = float(np.linalg.norm(axis)), float(a @ b)
    if sine < 1e-12:
        if cosine > 0.0:
            return np.eye(3)
        axis = np.cross(a, np.eye(3)[int(np.argmin(np.abs(a)))])
        return np.asarray(so3_exp(np.pi * axis / np.linalg.norm(axis)))
    return np.asarray(so3_exp(np.arctan2(sine, cosine) * axis / sine))
