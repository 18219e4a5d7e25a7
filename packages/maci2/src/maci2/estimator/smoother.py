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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from maci2.calibration_prior import EXACT, CalibrationPrior
from maci2.errors import MeasurementError
from maci2.estimator.initialize import HUBER, camera_motions, free_with_prior
from maci2.estimator.measurements import rows_of
from maci2.estimator.outliers import without
from maci2.estimator.problem import (
    CAMERA,
    CAMERA_CLOCK,
    MOTION,
    POSITION,
    ROTATION,
    SCALE,
    SHARED,
    STATE,
    CameraMotions,
    GaussianPrior,
    Loss,
    Problem,
    Shared,
    States,
    shared_parameters,
    zero_velocity,
)
from maci2.estimator.results import InitResult
from maci2.estimator.solver import (
    Solution,
    SolverOptions,
    bandwidth,
    evaluated,
    last_state_covariance,
    normal_equations,
    solve,
)
from maci2.estimator.visual_noise import LOOSE_STD, Innovation, OrientationDrift, VisualNoise
from maci2.geometry.gaussian import nees, symmetrize
from maci2.geometry.se3 import se3_adj, se3_inv, se3_log
from maci2.geometry.so3 import skew, so3_exp
from maci2.imu import ALPHA, BETA, GAMMA, ImuMeasurements, preintegrate
from maci2.types import GRAVITY_NORM, NS, Array, Mat4, Mat6, Stamps
from maci2.validation import as_number

if TYPE_CHECKING:
    from maci2.vision import RelativePoses

BIASES = slice(9, 15)

GAUGE_STD = (1e-4, 1e-4)
"""Prior of the first body's position [m] and heading [rad]: far below what is measured."""

LAG_RANGE_S = (0.5, 3600.0)
"""Shortest and longest window [s]: below it hardly a keyframe is left, above it nothing is gained
that smoothing all at once would not give."""


class Propagation(NamedTuple):
    """A state after a segment of IMU samples, order [phi, v, p, bg, ba]."""

    state: States
    cov: Array
    """(15, 15)"""

    F: Array
    """(15, 15) derivative of the state by the one before the segment."""

    Q: Array
    """(15, 15) noise added in between."""


def propagate(
    imu: ImuMeasurements,
    stamps_ns: Stamps,
    state: States,
    cov: Array,
    shared: Shared,
    walks: tuple[float, float],
) -> list[Propagation]:
    """The state at stamps_ns[0], with its (15, 15) covariance, carried to the other timestamps by
    the samples, with random walks of gyroscope and accelerometer bias."""
    pre = preintegrate(imu, stamps_ns, state.bias_gyro[0], state.bias_acc[0])
    g_w, steps = shared.gravity_w, []
    for k, dt in enumerate(map(float, pre.dt)):
        T_w_bk, v_w = state.Ts_w_b[0], state.v_w[0]
        R = T_w_bk[:3, :3]
        T_w_bk1 = np.eye(4)
        T_w_bk1[:3, :3] = R @ pre.gamma[k]
        T_w_bk1[:3, 3] = T_w_bk[:3, 3] + dt * v_w + 0.5 * dt * dt * g_w + R @ pre.alpha[k]
        v1_w = v_w + dt * g_w + R @ pre.beta[k]
        F = np.eye(15)
        F[GAMMA, GAMMA] = pre.gamma[k].T
        F[BETA, GAMMA] = -R @ skew(pre.beta[k])
        F[ALPHA, GAMMA] = -R @ skew(pre.alpha[k])
        F[ALPHA, BETA] = dt * np.eye(3)
        # Biases move beta and alpha in the first body frame; gamma in the last one.
        G = np.zeros((9, 9))
        G[GAMMA, GAMMA], G[BETA, BETA], G[ALPHA, ALPHA] = np.eye(3), R, R
        F[:9, BIASES] = G @ np.hstack([pre.D_bg[k], pre.D_ba[k]])
        Q = np.diag(np.concatenate([np.zeros(9), np.repeat(np.square(walks), 3) * dt]))
        Q[:9, :9] = G @ pre.cov[k] @ G.T
        state = States(T_w_bk1[None], v1_w[None], state.bias_gyro, state.bias_acc)
        cov = F @ cov @ F.T + Q
        steps.append(Propagation(state, cov, F, Q))
    return steps


class Prediction(NamedTuple):
    """The next keyframe as the IMU carries the last one there."""

    end: Propagation

    dt: float
    """Time to it [s]."""

    T_ck_ck1: Mat4
    """Motion of the camera, in the world's unit of length."""

    J: Array
    """(6, 15) derivative of that motion (left, [rho, phi]) by the state before."""

    cov: Array
    """(6, 6) covariance of that motion."""

    cross: Array
    """(15, 6) covariance of the carried state with it."""

    log_scale: float
    """Logarithm of true length over vision's."""

    def innovation(self, T_ck_ck1: Mat4) -> Innovation:
        """A measured relative pose against the predicted one."""
        scaled = T_ck_ck1.copy()
        scaled[:3, 3] *= np.exp(self.log_scale)
        r = np.asarray(se3_log(scaled @ se3_inv(self.T_ck_ck1)))
        return Innovation(r, self.cov, self.dt)


def predict(
    imu: ImuMeasurements,
    span_ns: Stamps,
    state: States,
    cov: Array,
    shared: Shared,
    walks: tuple[float, float],
) -> Prediction:
    """Carry a state with its (15, 15) covariance to the end of a span."""
    (end,) = propagate(imu, span_ns, state, cov, shared, walks)
    T_bk_bk1 = se3_inv(state.Ts_w_b[0]) @ end.state.Ts_w_b[0]
    T_c_b = se3_inv(shared.T_b_c)
    R_bk_w = state.Ts_w_b[0, :3, :3].T
    # Left twist [rho, phi] of the body's motion by the states at both ends, then the camera's.
    by_first, by_last = np.zeros((2, 6, STATE))
    by_first[0:3, POSITION], by_first[3:6, ROTATION] = -R_bk_w, -np.eye(3)
    by_last[0:3, POSITION], by_last[3:6, ROTATION] = R_bk_w, T_bk_bk1[:3, :3]
    by_last[0:3, ROTATION] = skew(T_bk_bk1[:3, 3]) @ T_bk_bk1[:3, :3]
    by_first, by_last = se3_adj(T_c_b) @ by_first, se3_adj(T_c_b) @ by_last
    J = by_first + by_last @ end.F
    return Prediction(
        end,
        float(span_ns[1] - span_ns[0]) / NS,
        T_c_b @ T_bk_bk1 @ shared.T_b_c,
        J,
        J @ cov @ J.T + by_last @ end.Q @ by_last.T,
        end.F @ cov @ J.T + end.Q @ by_last.T,
        float(shared.scalars[SCALE]),
    )


def chain_problem(
    imu: ImuMeasurements,
    vision: "RelativePoses",
    camera: CameraMotions,
    guess: tuple[States, Shared],
    walks: tuple[float, float],
    calibration: CalibrationPrior,
) -> Problem:
    """All keyframes in one chain with walking biases, about extrinsics as the guess has them."""
    states, shared = guess
    std = np.zeros(SHARED)
    std[CAMERA] = np.repeat([calibration.lever_m, calibration.rotation], 3)
    std[SCALE], std[CAMERA_CLOCK] = vision.std_scale, calibration.camera_clock_s
    free, prior = free_with_prior(imu.bias_prior, shared_parameters(T_b_c=shared.T_b_c), std)
    return Problem(
        imu,
        vision.stamps_ns,
        *walks,
        free,
        (camera,),
        priors=(gauge_prior(states, shared), prior),
        longest_span_s=np.inf,
    )


def gauge_prior(states: States, shared: Shared) -> GaussianPrior:
    """Position and heading of the first body, which nothing measures."""
    info = np.zeros((STATE + SHARED, STATE + SHARED))
    # Heading is the rotation about the world's z axis, seen in the body.
    up_b = states.Ts_w_b[0, 2, :3]
    info[ROTATION, ROTATION] = np.outer(up_b, up_b) / GAUGE_STD[1] ** 2
    info[POSITION, POSITION] = np.eye(3) / GAUGE_STD[0] ** 2
    return GaussianPrior(0, states.part(slice(1)), shared, info)


def marginalize_first(solution: Solution) -> GaussianPrior:
    """The prior on state 1 and the shared parameters that all factors touching state 0 amount to.

    Its `index` is 0: that of the next state in the problem without the first. Linearized at the
    solution. The free parameters must stay the same; motions of the camera span two keyframes, and
    there is no marker.
    """
    assert bandwidth(solution.measurements) == 1, "motions over more than two keyframes"
    assert solution.markers is None, "a marker"
    problem, costs = solution.problem, np.zeros(5)
    touching = replace(
        problem,
        stamps_ns=problem.stamps_ns[:2],
        camera=tuple(stack.part(0, 1) for stack in problem.camera),
        priors=tuple(prior for prior in problem.priors if prior.index == 0),
    )
    first_two = _part(solution, touching, slice(0, 2))
    s, b = problem.state_size, solution.border
    system = normal_equations(first_two, costs)
    first, second = system.rows
    tail = slice(2 * s + 1, 2 * s + 1 + b)
    rhs = np.concatenate([second[:, 2 * s], system.border[:, b]])
    H = np.hstack([first[:, s : 2 * s], first[:, tail]])
    kept = np.block([[second[:, :s], second[:, tail]], [second[:, tail].T, system.border[:, :b]]])
    gain = np.linalg.solve(symmetrize(first[:, :s]), np.column_stack([H, first[:, 2 * s]]))
    # A clock shared by positions and orientations is one unknown; it is kept as the position's.
    shared = [MOTION + list(solution.columns).index(c) for c in range(b)]
    places = np.array([*range(s), *shared], dtype=int)
    info, eta = np.zeros((STATE + SHARED, STATE + SHARED)), np.zeros(STATE + SHARED)
    info[np.ix_(places, places)] = symmetrize(kept - H.T @ gain[:, :-1])
    eta[places] = rhs - H.T @ gain[:, -1]
    constant = float(costs.sum() - first[:, 2 * s] @ gain[:, -1])
    return GaussianPrior(
        0, first_two.states.part(slice(1, 2)), solution.shared, info, eta, constant
    )


def without_first(solution: Solution, variances: Array | None = None) -> Solution:
    """The solution without its first state, whose information becomes a prior; it is still the
    optimum. The shared parameters wander meanwhile by `variances` (24,)."""
    problem, last = solution.problem, len(solution.problem.stamps_ns) - 1
    marginal = marginalize_first(solution)
    if variances is not None:
        marginal = with_wandering_parameters(marginal, variances)
    kept = [replace(p, index=p.index - 1) for p in problem.priors if p.index > 0]
    rest = replace(
        problem,
        stamps_ns=problem.stamps_ns[1:],
        camera=tuple(stack.part(1, last) for stack in problem.camera),
        vertical=None,
        priors=(marginal, *kept),
    )
    return _part(solution, rest, slice(1, last + 1))


def _part(solution: Solution, problem: Problem, states: slice) -> Solution:
    """Some of the states of a solution in a problem of their own, with the IMU's motion between
    them as it is integrated."""
    before, spans = solution.measurements, slice(states.start, states.stop - 1)
    integrated = before._replace(
        spans=rows_of(before.spans, spans),
        white=before.white[spans],
        instant=rows_of(before.instant, states),
    )
    return evaluated(problem, solution.states.part(states), solution.shared, integrated)


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

    calibration: CalibrationPrior = EXACT
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
    """States of the last few seconds, given everything so far.

    It begins with an initialized window, whose own measurements enter the chain but for those that
    its initialization rejected: its posterior is the window's, and nothing is counted twice.
    """

    def __init__(
        self,
        imu: ImuMeasurements,
        vision: "RelativePoses",
        result: InitResult,
        T_b_c: Mat4,
        walks: tuple[float, float],
        config: SmootherConfig | None = None,
    ) -> None:
        self.config = config or SmootherConfig()
        calibration = self.config.calibration
        self._walks, self._noise = walks, VisualNoise()
        self._drift = OrientationDrift(T_b_c, walks, calibration.slow_error_probability)
        self._prediction: tuple[int, Prediction] | None = None
        kept = np.ones(len(vision) - 1, dtype=bool)
        kept[list(result.report.rejected_poses)] = False
        vision, guess = without(vision, kept), world_states(result, T_b_c)
        camera = camera_motions(vision, np.flatnonzero(vision.measured), self.config.loss)
        problem = chain_problem(imu, vision, camera, guess, walks, calibration)
        self.solution = solve(problem, *guess, self.config.solver)
        self._latest_cov = last_state_covariance(self.solution)
        self._follow_window(imu, vision)
        self._forget()

    def _follow_window(self, imu: ImuMeasurements, vision: "RelativePoses") -> None:
        """Follow slow errors through the first window, filtered from nothing known on."""
        cov, solution = np.diag(LOOSE_STD**2), self.solution
        for k, measured in enumerate(vision.measured):
            state, span_ns = solution.states.part(slice(k, k + 1)), vision.stamps_ns[k : k + 2]
            prediction = predict(imu, span_ns, state, cov, solution.shared, self._walks)
            cov = prediction.end.cov
            if measured:
                T_ck_ck1, cov_T = vision.Ts_ck_ck1[k], vision.covs_T_ck_ck1[k]
                gain = self._drift.follow(prediction, T_ck_ck1, cov_T)
                cov = cov - gain @ prediction.cross.T
            else:
                self._drift.follow(prediction)

    def add(
        self,
        imu: ImuMeasurements,
        stamp_ns: int,
        T_ck_ck1: Mat4 | None = None,
        cov_T_ck_ck1: Mat6 | None = None,
        still: bool = False,
    ) -> Mat6 | None:
        """Append a keyframe and smooth; without a relative pose from the keyframe before, the IMU
        alone ties the two. Returns the covariance that the relative pose is used with.

        `imu` covers the window and the new keyframe. `still` says that the device stands still:
        it has no velocity, and its relative poses show nothing of the noise in motion. The
        gyroscope's reading is not taken for its bias: in flight that is another one by up to
        1e-3 rad/s (`imu.stationary`), more than relative poses leave open.
        """
        problem, states, shared = self.solution.problem, self.solution.states, self.solution.shared
        prediction, k = self._predicted(imu, stamp_ns), len(problem.stamps_ns) - 1
        camera, priors, cov = problem.camera, problem.priors, None
        if T_ck_ck1 is not None and cov_T_ck_ck1 is not None:
            cov, difference = cov_T_ck_ck1, prediction.innovation(T_ck_ck1)
            if self.config.adapt_visual_noise:
                cov = self._noise.explaining(difference, cov)
            if not still:
                self._noise.observe(difference, cov_T_ck_ck1)
            camera = (camera[0].followed_by(k, T_ck_ck1, cov),)
        self._drift.follow(prediction, T_ck_ck1, cov)
        if still:
            priors = (*priors, zero_velocity(k + 1, self.config.std_zero_velocity, shared))
        stamps_ns = np.append(problem.stamps_ns, stamp_ns)
        problem = replace(problem, imu=imu, stamps_ns=stamps_ns, camera=camera, priors=priors)
        pairs = zip(states, prediction.end.state, strict=True)
        extended = States(*(np.concatenate(pair) for pair in pairs))
        before = self.solution.measurements
        self.solution = solve(problem, extended, shared, self.config.solver, before)
        self._latest_cov = last_state_covariance(self.solution)
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
        return self.solution.problem.stamps_ns

    @property
    def latest(self) -> tuple[States, Array]:
        """The newest state and its covariance (15, 15), order [phi, v, p, bg, ba]."""
        return self.solution.states.part(slice(-1, None)), self._latest_cov

    @property
    def reported_cov(self) -> Array:
        """(15, 15) covariance of the newest state with what errors of vision that last for seconds
        add to it."""
        return self._latest_cov + (self._drift.added if self.config.adapt_visual_noise else 0.0)

    @property
    def slow_error_deg(self) -> float:
        """Standard deviation of errors of visual orientation that last for seconds [deg]."""
        return self._drift.std_deg if self.config.adapt_visual_noise else 0.0

    def _forget(self) -> None:
        """Marginalize what is older than the lag."""
        calibration = self.config.calibration
        oldest_ns = int(self.stamps_ns[-1]) - round(self.config.lag_s * NS)
        while len(self.stamps_ns) > 3 and int(self.stamps_ns[0]) < oldest_ns:
            dt, variances = float(self.stamps_ns[1] - self.stamps_ns[0]) / NS, np.zeros(SHARED)
            variances[SCALE] = calibration.scale_walk**2 * dt
            variances[CAMERA_CLOCK] = calibration.camera_clock_walk_s**2 * dt
            self.solution = without_first(self.solution, variances)


def world_states(result: InitResult, T_b_c: Mat4) -> tuple[States, Shared]:
    """An initialized window in a level world that begins at its first body."""
    state = result.state
    if state is None:
        raise MeasurementError("tracking needs an initialized window; this one has no state.")
    down = state.gravity_c0 / np.linalg.norm(state.gravity_c0)
    # The shortest rotation that takes it to -z.
    axis = np.cross(down, [0.0, 0.0, -1.0])
    sine = float(np.linalg.norm(axis))
    axis = np.array([0.0, 1.0, 0.0]) if sine < 1e-12 else axis / sine
    R_w_c0 = np.asarray(so3_exp(np.arctan2(sine, -down[2]) * axis))
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
