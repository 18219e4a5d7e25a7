"""The one way from a window to a row: estimate, compare with ground truth, write down."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from maci2.errors import DatasetError, Maci2Error
from maci2.estimation import Posterior, Status, VIState
from maci2.estimation.imu_gains import ImuGains
from maci2.estimator.results import direction_std
from maci2.evaluation.metrics import MAX_TRUTH_GAP_S, InitErrors, initialization_errors
from maci2.evaluation.shared_noise import shared_noise
from maci2.evaluation.truth_noise import TruthNoise, truth_noise
from maci2.ground_truth.states import truth_jumps
from maci2.lie import se3_inv
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs
from maci2.pipeline.windows import Window, plan_windows
from maci2.sensors import GroundTruth, truth_at
from maci2.types import GRAVITY_W, Array

GROSS_JUMP_M = 0.025
"""A ground truth that moves by this much beyond its own velocity, from one timestamp to the next,
cannot judge 0.1 m/s over a quarter of a second."""


@dataclass(frozen=True)
class Estimate:
    """Result of any method on one window."""

    status: Status
    """ok: accepted; weak: not sure, asks for more motion; failed: rejected."""

    reasons: tuple[str, ...] = ()
    """Why the window was not accepted, or what the method warned of."""

    state: VIState | None = None
    """The estimate, also of a rejected window; None where there is none."""

    posterior: Posterior | None = None
    """Covariance of the estimate; None for methods without one."""

    solve_ms: float | None = None
    """Wall time of the method; None where it did not run."""

    timed_out: bool = False
    """Whether the method was stopped by its time limit."""

    excited: bool | None = None
    """Whether the window passes DRT's excitation gate; None where nobody asked."""

    gains: ImuGains | None = None
    """Sensitivity of the estimate to errors of the IMU, which an audited ground truth shares; None
    if unknown."""


Estimator = Callable[[Inputs, Window], Estimate]
"""A method as the protocol calls it; may raise a Maci2Error where a window cannot be used."""


@dataclass(frozen=True)
class StatedUncertainty:
    """Predicted standard deviations of gravity and velocity, with the actual errors."""

    gravity_std_deg: float
    """Standard deviation of gravity's direction, both angles together."""

    velocity_std: float
    """Root mean square over keyframes of the predicted velocity error [m/s]."""

    gravity_error_deg: tuple[float, float]
    """Error of gravity's direction in the plane across it."""

    gravity_cov_deg2: tuple[tuple[float, float], tuple[float, float]]
    """Stated covariance of that error."""


@dataclass(frozen=True)
class Row:
    """One window of one recording, estimated by one method."""

    index: int
    """Number of the window in its recording."""

    start_ns: int
    """First keyframe."""

    end_ns: int
    """Last keyframe."""

    status: Status
    """Verdict of the method."""

    reasons: tuple[str, ...]
    """Reasons for the verdict of the method, or why it could not run."""

    errors: InitErrors | None
    """Errors against ground truth; None where no state was returned."""

    solve_ms: float | None = None
    """Wall time of the method; None where it did not run."""

    timed_out: bool = False
    """Whether the method was stopped by its time limit."""

    position_w: tuple[float, float, float] | None = None
    """Position of the first keyframe in the world of the ground truth [m]; None if nothing ran."""

    excited: bool | None = None
    """Whether the window passes DRT's excitation gate; None where nobody asked."""

    stated: StatedUncertainty | None = None
    """Predicted standard deviations with the errors; None without a posterior."""

    audited: InitErrors | None = None
    """Errors against the audited ground truth; None where there is none, or no state."""

    @property
    def accepted(self) -> bool:
        """Whether the method would have started on this window."""
        return self.status == "ok"

    @property
    def unsure(self) -> bool:
        """Whether the method asks for more motion instead of deciding."""
        return self.status == "weak"

    def as_dict(self) -> dict[str, Any]:
        """The row as rows.json has it."""
        return asdict(self)


def windows_with_truth(inputs: Inputs, options: RunOptions) -> tuple[list[Window], int]:
    """Windows whose ground truth is known, and how many were skipped because it is not."""
    truth = require_truth(inputs)
    windows = plan_windows(
        inputs.candidates_ns(with_truth=True),
        options.window_s,
        options.stride_s,
        options.keyframes,
        options.start_s,
    )
    known = [window for window in windows if truth_is_known(truth, window)]
    return known, len(windows) - len(known)


def require_truth(inputs: Inputs) -> GroundTruth:
    """The ground truth of a recording; raises where it has none."""
    if inputs.truth is None:
        raise DatasetError(f"{inputs.recording.path}: no ground truth to evaluate against.")
    return inputs.truth


def truth_is_known(truth: GroundTruth, window: Window) -> bool:
    """Whether the ground truth states a velocity at every keyframe and does not jump between."""
    try:
        states = truth_at(truth, window.stamps_ns, MAX_TRUTH_GAP_S)
    except DatasetError:
        return False
    inside = (truth.stamps_ns >= window.start_ns) & (truth.stamps_ns <= window.stamps_ns[-1])
    covered = truth.part(inside)
    return bool(np.isfinite(states.v_w).all() and not truth_jumps(covered, GROSS_JUMP_M).any())


def state_errors(
    inputs: Inputs,
    truth: GroundTruth | None,
    state: VIState | None,
    posterior: Posterior | None,
    gains: ImuGains | None = None,
) -> InitErrors | None:
    """Errors of an estimate; None without a state or where its ground truth is not known.

    A truth that states its covariance is judged as another measurement: biases are those of the
    window, and NEES is that of the difference, less what both have from the IMU.
    """
    if state is None or truth is None or not truth_is_known(truth, Window(0, state.stamps_ns)):
        return None
    at = truth_at(truth, state.stamps_ns, MAX_TRUTH_GAP_S)
    noise = truth_noise(at, inputs.T_b_c)
    if noise is not None and inputs.source.kind == "truth" and truth is inputs.truth:
        noise = _without_motion(noise)
    elif noise is not None and gains is not None:
        less = shared_noise(
            truth, state.stamps_ns, inputs.T_b_c, gains, inputs.imu, MAX_TRUTH_GAP_S
        )
        noise = less or noise
    mean_bias = (truth if noise is None else at).bias_gyro.mean(axis=0)
    return initialization_errors(
        state, at, inputs.T_b_c, state.gyro_bias, mean_bias, posterior, noise
    )


def _without_motion(noise: TruthNoise) -> TruthNoise:
    """What is left where camera motion was made from this very truth: its errors of motion are in
    the estimate, too, and do not show in the difference."""
    zero = np.zeros_like
    return replace(noise, velocity_b=zero(noise.velocity_b), Ts_c0_b=zero(noise.Ts_c0_b))


@dataclass(frozen=True)
class Judges:
    """Ground truths that one recording's estimates are compared with."""

    published: GroundTruth | None
    """Ground truth as published."""

    audited: GroundTruth | None = None
    """With its covariance; None where nothing could be audited."""


def window_row(
    inputs: Inputs, window: Window, estimator: Estimator, judges: Judges | None = None
) -> Row:
    """Estimate on one window and compare with ground truth; what cannot be used is a failed row.

    Without `judges` the truth of the inputs is the only one.
    """
    judges = judges or Judges(inputs.truth)
    start_ns, end_ns = window.start_ns, int(window.stamps_ns[-1])
    try:
        estimate = estimator(inputs, window)
    except Maci2Error as error:
        return Row(window.index, start_ns, end_ns, "failed", (str(error),), None)
    first_state = truth_at(require_truth(inputs), window.stamps_ns[:1], MAX_TRUTH_GAP_S)
    x, y, z = (float(value) for value in first_state.Ts_w_b[0, :3, 3])
    errors, audited = (
        state_errors(inputs, truth, estimate.state, estimate.posterior, estimate.gains)
        for truth in (judges.published, judges.audited)
    )
    stated = None
    if errors is not None and estimate.state is not None and estimate.posterior is not None:
        T_w_b0 = truth_at(
            require_truth(inputs), estimate.state.stamps_ns[:1], MAX_TRUTH_GAP_S
        ).Ts_w_b[0]
        stated = stated_uncertainty(estimate.state, estimate.posterior, T_w_b0 @ inputs.T_b_c)
    return Row(
        window.index,
        start_ns,
        end_ns,
        estimate.status,
        estimate.reasons,
        errors,
        estimate.solve_ms,
        estimate.timed_out,
        (x, y, z),
        estimate.excited,
        stated,
        audited,
    )


def stated_uncertainty(state: VIState, posterior: Posterior, T_w_c0: Array) -> StatedUncertainty:
    """Stated sigma of gravity and velocity, and gravity's error in the plane across it."""
    T_c0_w = se3_inv(np.ascontiguousarray(T_w_c0))
    true_c0 = T_c0_w[:3, :3] @ GRAVITY_W
    norm = np.linalg.norm(state.gravity_c0)
    across = np.linalg.svd(state.gravity_c0[None, :])[2][1:]
    degree = 180.0 / np.pi
    error = degree * (across @ (state.gravity_c0 / norm - true_c0 / np.linalg.norm(true_c0)))
    cov = degree**2 * (across @ posterior.gravity_c0 @ across.T / norm**2)
    variance = np.einsum("kii->", posterior.velocity_b) / len(posterior.velocity_b)
    return StatedUncertainty(
        degree * direction_std(state.gravity_c0, posterior.gravity_c0),
        float(np.sqrt(variance)),
        (float(error[0]), float(error[1])),
        ((float(cov[0, 0]), float(cov[0, 1])), (float(cov[1, 0]), float(cov[1, 1]))),
    )
