"""A fixed-lag smoother over keyframes: relative poses and IMU in one chain, its tail marginalized.

World frame w: origin at the body of the first keyframe, z axis up. Position and heading of that
body are fixed by a tight prior; they are what no measurement here can see.

What leaves the window becomes a Gaussian on the oldest state that is left and on the constants,
linearized at the smoothed solution at that moment. A relative pose touches two neighbours only and
is the same in every world frame, so heading and position gain no information from a later change of
the linearization point to first order; by then the states concerned have been smoothed over the
whole lag and hardly move any more. Simulated runs hold the consistency that follows from it.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from maci2.chain import (
    Border,
    BorderUnknowns,
    CameraMotions,
    ChainConfig,
    ChainProblem,
    ChainSolution,
    GaussianPrior,
    Loss,
    States,
    border_prior,
    chain_posterior,
    make_border,
    solve_chain,
    without_first,
    zero_motion,
)
from maci2.chain.chain_state import BORDER, SCALE, STATE
from maci2.errors import MeasurementError
from maci2.estimation import InitResult
from maci2.gaussian import nees
from maci2.imu import BiasPrior, ImuMeasurements
from maci2.lie import so3_exp
from maci2.pipeline.tracking.propagation import propagated_mean
from maci2.pipeline.tracking.visual_noise import VisualNoise, innovation
from maci2.types import GRAVITY_NORM, NS, Array, Mat4, Mat6, Stamps, Vec3
from maci2.vision import RelativePoses

GAUGE_STD = (1e-4, 1e-4)
"""Prior of the first body's position [m] and heading [rad]: far below what is measured."""


@dataclass(frozen=True)
class SmootherConfig:
    """Choices of the smoother; the defaults run every recording unchanged."""

    lag_s: float = 3.0
    """States younger than this are estimated anew with every keyframe."""

    loss: Loss = field(default_factory=lambda: Loss("huber", 4.0))
    """How a relative pose counts that is farther off than noise explains."""

    adapt_visual_noise: bool = True
    """Scale the covariance of relative poses by what their innovations have shown."""

    std_zero_velocity: float = 0.003
    """Velocity of a device that stands still [m/s]."""

    solver: ChainConfig = field(
        default_factory=lambda: ChainConfig(max_iterations=6, max_rounds=2, decrement=1e-4)
    )
    """Each keyframe begins at the solution before it: a few steps suffice."""


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
        self._problem: ChainProblem | None = None
        self._solution: ChainSolution | None = None

    def start(self, imu: ImuMeasurements, vision: RelativePoses, result: InitResult) -> None:
        """Begin with an initialized window.

        The window's own measurements enter the chain, so its posterior is the window's; nothing
        is counted twice.
        """
        state = result.state
        if state is None:
            raise MeasurementError("tracking needs an initialized window; this one has no state.")
        states, border = world_states(result, self._T_b_c)
        unknowns = BorderUnknowns(scale=vision.std_scale > 0.0)
        priors = [gauge_prior(states, border), bias_prior(imu.bias_prior, states, border)]
        if unknowns.scale:
            std = np.full(BORDER, np.inf)
            std[SCALE] = vision.std_scale
            priors.append(border_prior(make_border(T_b_c=self._T_b_c), std))
        measured = np.flatnonzero(vision.measured)
        camera = CameraMotions(
            measured, vision.Ts_ck_ck1[measured], vision.covs_T_ck_ck1[measured], self.config.loss
        )
        self._problem = ChainProblem(
            imu, state.stamps_ns, *self._walks, unknowns, camera, priors=tuple(priors)
        )
        self._solve(states, border)
        self._forget()

    def add(
        self,
        imu: ImuMeasurements,
        stamp_ns: int,
        T_ck_ck1: Mat4 | None,
        cov_T_ck_ck1: Mat6 | None,
        stationary_rate: Vec3 | None = None,
    ) -> None:
        """Append a keyframe and smooth; without a relative pose from the keyframe before, the IMU
        alone ties the two.

        `imu` covers the window and the new keyframe. `stationary_rate` is the gyroscope's mean
        reading [rad/s] where the device stood still since the keyframe before.
        """
        problem, solution = self._current()
        states = solution.states
        last = States(*(values[-1:] for values in states))
        span = np.array([problem.stamps_ns[-1], stamp_ns])
        predicted = propagated_mean(imu, span, last, solution.border)
        k = len(problem.stamps_ns) - 1
        camera, priors = problem.camera, problem.priors
        if T_ck_ck1 is not None and cov_T_ck_ck1 is not None:
            factor = self._noise.factor if self.config.adapt_visual_noise else 1.0
            cov = factor * cov_T_ck_ck1
            self._noise.observe(*innovation(self, imu, span, T_ck_ck1, cov_T_ck_ck1))
            assert camera is not None
            camera = replace(
                camera,
                index=np.append(camera.index, k),
                Ts_ck_ck1=np.concatenate([camera.Ts_ck_ck1, T_ck_ck1[None]]),
                covs=np.concatenate([camera.covs, cov[None]]),
            )
        if stationary_rate is not None:
            std = self.config.std_zero_velocity
            still = zero_motion(k + 1, stationary_rate, std, 1e-4, solution.border)
            priors = (*priors, still)
        self._problem = replace(
            problem,
            imu=imu,
            stamps_ns=np.append(problem.stamps_ns, stamp_ns),
            camera=camera,
            priors=priors,
        )
        extended = (np.concatenate([a, b]) for a, b in zip(states, predicted, strict=True))
        self._solve(States(*extended), solution.border)
        self._forget()

    def innovation(
        self, imu: ImuMeasurements, stamp_ns: int, T_ck_ck1: Mat4, cov_T_ck_ck1: Mat6
    ) -> float:
        """Chi-square per degree of freedom of a relative pose against the IMU's prediction."""
        span = np.array([self.stamps_ns[-1], stamp_ns])
        factor = self._noise.factor if self.config.adapt_visual_noise else 1.0
        r, cov = innovation(self, imu, span, T_ck_ck1, factor * cov_T_ck_ck1)
        return float(nees(r, cov)) / 6.0

    @property
    def stamps_ns(self) -> Stamps:
        """(n,) keyframes in the window."""
        return self._current()[0].stamps_ns

    @property
    def solution(self) -> ChainSolution:
        """The smoothed window."""
        return self._current()[1]

    @property
    def latest(self) -> tuple[States, Array]:
        """The newest state and its covariance (15, 15), order [phi, v, p, bg, ba]."""
        solution = self.solution
        return States(*(values[-1:] for values in solution.states)), self._latest_cov

    def _current(self) -> tuple[ChainProblem, ChainSolution]:
        if self._problem is None or self._solution is None:
            raise MeasurementError("the smoother has not been started; call start() first.")
        return self._problem, self._solution

    def _solve(self, states: States, border: Border) -> None:
        assert self._problem is not None
        self._solution = solve_chain(self._problem, states, border, self.config.solver)
        self._latest_cov = chain_posterior(self._solution).states[-1]

    def _forget(self) -> None:
        """Marginalize what is older than the lag."""
        problem, solution = self._current()
        oldest_ns = int(problem.stamps_ns[-1]) - round(self.config.lag_s * NS)
        while len(problem.stamps_ns) > 3 and int(problem.stamps_ns[0]) < oldest_ns:
            problem = without_first(problem, solution)
            states = States(*(values[1:] for values in solution.states))
            if len(problem.stamps_ns) > 3 and int(problem.stamps_ns[0]) < oldest_ns:
                solution = solve_chain(problem, states, solution.border, self.config.solver)
            else:
                solution = replace(solution, states=states)
        self._problem, self._solution = problem, solution


def world_states(result: InitResult, T_b_c: Mat4) -> tuple[States, Border]:
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
    return states, make_border(
        T_b_c=T_b_c, gravity_norm=GRAVITY_NORM, log_scale=float(np.log(scale)) if scale else 0.0
    )


def gauge_prior(states: States, border: Border) -> GaussianPrior:
    """Position and heading of the first body, which nothing measures."""
    info = np.zeros((STATE + BORDER, STATE + BORDER))
    # Heading is the rotation about the world's z axis, seen in the body.
    up_b = states.Ts_w_b[0, 2, :3]
    info[0:3, 0:3] = np.outer(up_b, up_b) / GAUGE_STD[1] ** 2
    info[6:9, 6:9] = np.eye(3) / GAUGE_STD[0] ** 2
    first = States(*(values[:1] for values in states))
    return GaussianPrior(0, first, border, info)


def bias_prior(prior: BiasPrior, states: States, border: Border) -> GaussianPrior:
    """What the IMU model knows of the biases that are left, at the first state."""
    info = np.zeros((STATE + BORDER, STATE + BORDER))
    info[range(9, 15), range(9, 15)] = np.concatenate([prior.std_gyro, prior.std_acc]) ** -2.0
    first = States(states.Ts_w_b[:1], states.v_w[:1], prior.mean_gyro[None], prior.mean_acc[None])
    return GaussianPrior(0, first, border, info)


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
