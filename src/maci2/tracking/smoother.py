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

import numpy as np

from maci2.boundary import as_number
from maci2.chain import (
    Border,
    CameraMotions,
    ChainConfig,
    ChainProblem,
    ChainSolution,
    Loss,
    States,
    last_state_covariance,
    solution_without_first,
    solve_chain,
    with_wandering_constants,
    without_first,
    zero_velocity,
)
from maci2.errors import MeasurementError
from maci2.estimation import InitResult
from maci2.estimation.outlier_rejection import without
from maci2.estimation.solve import VISUAL_LIMIT
from maci2.gaussian import nees
from maci2.imu import ImuMeasurements
from maci2.tracking.calibration_spread import KNOWN, CalibrationSpread
from maci2.tracking.first_window import bias_prior, gauge_prior, world_states
from maci2.tracking.prediction import Prediction, predict
from maci2.tracking.slow_errors import SlowErrors
from maci2.tracking.visual_noise import VisualNoise
from maci2.types import NS, Array, Mat4, Mat6, Stamps
from maci2.vision import RelativePoses

LAG_RANGE_S = (0.5, 3600.0)
"""Shortest and longest window [s]: below it hardly a keyframe is left, above it nothing is gained
that smoothing all at once would not give."""


@dataclass(frozen=True)
class SmootherConfig:
    """Choices of the smoother; the defaults run every recording unchanged."""

    lag_s: float = 3.0
    """States younger than this are estimated anew with every keyframe."""

    loss: Loss = field(default_factory=lambda: Loss("huber", VISUAL_LIMIT))
    """Loss of a relative pose that is farther off than noise explains: linear from the limit of
    initialization and calibration on."""

    adapt_visual_noise: bool = True
    """Scale the covariance of relative poses by what their innovations have shown."""

    std_zero_velocity: float = 0.003
    """Velocity of a device that stands still [m/s]."""

    calibration: CalibrationSpread = KNOWN
    """How far the rig's constants may be off."""

    solver: ChainConfig = field(
        default_factory=lambda: ChainConfig(
            max_iterations=6, max_rounds=2, decrement=1e-2, reintegrate_above=1e-7
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
        chance = self.config.calibration.slow_error_chance
        self._slow = SlowErrors(T_b_c, self._walks, chance)
        self._problem: ChainProblem | None = None
        self._solution: ChainSolution | None = None
        self._prediction: tuple[int, Prediction] | None = None

    def start(self, imu: ImuMeasurements, vision: RelativePoses, result: InitResult) -> None:
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
        states, border = world_states(result, self._T_b_c)
        calibration = self.config.calibration
        unknowns = calibration.unknowns(vision.std_scale)
        priors = [
            gauge_prior(states, border),
            bias_prior(imu.bias_prior, states, border),
            calibration.prior(self._T_b_c, vision.std_scale),
        ]
        measured = np.flatnonzero(vision.measured)
        camera = CameraMotions(
            measured, vision.Ts_ck_ck1[measured], vision.covs_T_ck_ck1[measured], self.config.loss
        )
        self._problem = ChainProblem(
            imu,
            state.stamps_ns,
            *self._walks,
            unknowns,
            camera,
            priors=tuple(priors),
            longest_tie_s=np.inf,
        )
        self._solve(states, border)
        self._slow.begin(imu, vision, self.solution)
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
            self._slow.follow(prediction, T_ck_ck1, cov)
            assert camera is not None
            camera = camera.followed_by(k, T_ck_ck1, cov)
        else:
            self._slow.follow(prediction)
        if still:
            std = self.config.std_zero_velocity
            priors = (*priors, zero_velocity(k + 1, std, solution.border))
        self._problem = replace(
            problem,
            imu=imu,
            stamps_ns=np.append(problem.stamps_ns, stamp_ns),
            camera=camera,
            priors=priors,
        )
        extended = (np.concatenate([a, b]) for a, b in zip(states, prediction.state, strict=True))
        self._solve(States(*extended), solution.border)
        self._slow.observe(stamp_ns, *self.latest)
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
            border = self.solution.border
            prediction = predict(imu, span_ns, *self.latest, border, self._walks)
            self._prediction = (stamp_ns, prediction)
        return self._prediction[1]

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

    @property
    def handed_out(self) -> Array:
        """(15, 15) covariance of the newest state with what errors of vision that last for seconds
        add to it."""
        return self._latest_cov + (self._slow.added if self.config.adapt_visual_noise else 0.0)

    @property
    def slow_error_deg(self) -> float:
        """Standard deviation of errors of visual orientation that last for seconds [deg]."""
        return self._slow.std_deg if self.config.adapt_visual_noise else 0.0

    def _current(self) -> tuple[ChainProblem, ChainSolution]:
        if self._problem is None or self._solution is None:
            raise MeasurementError("the smoother has not been started; call start() first.")
        return self._problem, self._solution

    def _solve(self, states: States, border: Border) -> None:
        assert self._problem is not None
        before = self._solution
        self._solution = solve_chain(self._problem, states, border, self.config.solver, before)
        self._latest_cov = last_state_covariance(self._solution)

    def _forget(self) -> None:
        """Marginalize what is older than the lag."""
        problem, solution = self._current()
        oldest_ns = int(problem.stamps_ns[-1]) - round(self.config.lag_s * NS)
        while len(problem.stamps_ns) > 3 and int(problem.stamps_ns[0]) < oldest_ns:
            dt = float(problem.stamps_ns[1] - problem.stamps_ns[0]) / NS
            problem = without_first(problem, solution)
            marginal = with_wandering_constants(
                problem.priors[0], self.config.calibration.wandered(dt)
            )
            problem = replace(problem, priors=(marginal, *problem.priors[1:]))
            solution = solution_without_first(problem, solution)
        self._problem, self._solution = problem, solution
