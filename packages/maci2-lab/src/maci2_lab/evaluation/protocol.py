"""The paper's protocol: every window of every recording, one row each."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maci2.errors import DatasetError, Maci2Error, OptionError
from maci2.estimator import Posterior, Status, VIState
from maci2.files import real_path
from maci2.geometry import se3_inv
from maci2.geometry.gaussian import direction_std
from maci2.jit import warm_up
from maci2.metrics.init_errors import InitErrors, state_errors, truth_is_known
from maci2.pipeline.offline import initialize_window
from maci2.pipeline.options import RunOptions, VisionChoice
from maci2.pipeline.prepare import Inputs, Window, open_inputs, plan_windows
from maci2.sensors import GroundTruth, truth_at, with_velocity
from maci2.tools.ground_truth.choose import published_names, require_known_truths
from maci2.types import GRAVITY_W, Array
from maci2.vision.relative_poses import MAX_TRUTH_GAP_S
from maci2_lab.evaluation.audited_integration import shared_noise
from maci2_lab.evaluation.imu_gains import ImuGains, imu_gains
from maci2_lab.evaluation.truth_states import audited_or_none
from maci2_lab.parallel import Pool, WorkerDied, run_all


def distinct_names(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Each recording's own name; with as many of its parent folders as it takes where several
    recordings have the same name."""
    resolved = [real_path(path) for path in paths]
    for path, count in Counter(resolved).items():
        if count > 1:
            raise OptionError(f"{path}: is given {count} times; name each recording once.")
    longest = max((len(path.parts) for path in resolved), default=0)
    distinct = list(names)
    for depth in range(1, longest):
        counts = Counter(distinct)
        if max(counts.values(), default=0) < 2:
            break
        distinct = [
            _with_parents(name, path, depth) if counts[shown] > 1 else shown
            for name, shown, path in zip(names, distinct, resolved, strict=True)
        ]
    return distinct


def _with_parents(name: str, path: Path, depth: int) -> str:
    """`b/c/name` for depth 2 of /a/b/c/name."""
    folder = path.parent if path.name == "mav0" else path
    return "/".join([*folder.parent.parts[-depth:], name])


@dataclass(frozen=True)
class Estimate:
    """Result of any method on one window."""

    status: Status
    """ok: accepted; weak: undecided, requires more motion; failed: rejected."""

    reasons: tuple[str, ...] = ()
    """Why the window was not accepted, or what the method warned of."""

    state: VIState | None = None
    """The estimate, also of a rejected window; None where there is none."""

    posterior: Posterior | None = None
    """Covariance of the estimate; None for methods without one."""

    solve_ms: float | None = None
    """Wall time of the method; None where it did not run."""

    timed_out: bool = False
    """True if the method was stopped by its time limit."""

    excited: bool | None = None
    """True if the window passes DRT's excitation gate; None if unknown."""

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
    """True if the method was stopped by its time limit."""

    position_w: tuple[float, float, float] | None = None
    """Position of the first keyframe in the world of the ground truth [m]; None if nothing ran."""

    excited: bool | None = None
    """True if the window passes DRT's excitation gate; None if unknown."""

    stated: StatedUncertainty | None = None
    """Predicted standard deviations with the errors; None without a posterior."""

    audited: InitErrors | None = None
    """Errors against the audited ground truth; None where there is none, or no state."""

    @property
    def accepted(self) -> bool:
        """True if the method would have started on this window."""
        return self.status == "ok"

    @property
    def unsure(self) -> bool:
        """True if the method requires more motion instead of deciding."""
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
    shared = None
    if estimate.state is not None and estimate.gains is not None:
        shared = partial(
            shared_noise,
            stamps_ns=estimate.state.stamps_ns,
            T_b_c=inputs.T_b_c,
            gains=estimate.gains,
            imu=inputs.imu,
            max_gap_s=MAX_TRUTH_GAP_S,
        )
    errors, audited = (
        state_errors(inputs, truth, estimate.state, estimate.posterior, shared)
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


ALONE = Pool()
"""One recording after the other, in this process."""


@dataclass(frozen=True)
class Evaluated:
    """All windows of one recording."""

    rows: list[Row]
    """One row for each window whose ground truth is known."""

    left_out: int
    """Windows in which the ground truth has a gap or jumps, which are not evaluated."""

    vision: VisionChoice
    """Source of camera motion, with the noise that a trajectory's relative poses were taken to
    have."""


def evaluate(
    paths: list[Path],
    options: RunOptions,
    pool: Pool = ALONE,
    on_recording: Callable[[str, int], None] = lambda *_: None,
) -> dict[str, Evaluated]:
    """Run every recording; results by name, with parent folders where names repeat.

    `on_recording(name, rows)` reports progress.
    """
    distinct_names([path.name for path in paths], paths)  # a recording given twice is told now
    require_known_truths(
        (options.open(path) for path in paths),
        options.truth,
    )
    results: dict[Path, tuple[str, Evaluated]] = {}
    for path, result in run_all(partial(evaluate_recording, options=options), paths, pool):
        if isinstance(result, WorkerDied):
            raise DatasetError(f"{path}: {result.reason}; try it alone, with --jobs 1.")
        results[path] = result
        on_recording(result[0], len(result[1].rows))
    names = distinct_names([results[path][0] for path in paths], paths)
    return {name: results[path][1] for name, path in zip(names, paths, strict=True)}


def evaluate_recording(path: Path, options: RunOptions) -> tuple[str, Evaluated]:
    """All windows of one recording; a window that cannot be used is a failed row."""
    inputs = open_inputs(path, options)
    windows, left_out = windows_with_truth(inputs, options)
    warm_up("initialize")
    estimator = partial(estimate_window, options=options)
    judges = find_judges(inputs, options)
    rows = [window_row(inputs, window, estimator, judges) for window in windows]
    return inputs.recording.name, Evaluated(rows, left_out, inputs.source)


def find_judges(inputs: Inputs, options: RunOptions) -> Judges:
    """The ground truth as published and audited, whichever of them `--truth` chose."""
    published = inputs.recording.truth(published_names(options.truth))
    audited = inputs.truth if inputs.truth is not None and inputs.truth.covariance else None
    if published is None:
        return Judges(audited, audited)
    if audited is None:
        audited = audited_or_none(inputs.ground_truth.calibrated, options.truth)
        return Judges(inputs.truth, audited)
    if not np.isfinite(published.v_w).any():
        published = with_velocity(published)
    return Judges(published, audited)


def estimate_window(inputs: Inputs, window: Window, options: RunOptions) -> Estimate:
    """Result of `maci2 init` on one window."""
    result = initialize_window(inputs, window, options)
    return Estimate(
        result.verdict.status,
        result.verdict.reasons,
        result.state,
        result.posterior,
        result.report.solve_ms,
        gains=imu_gains(result.imu, result.vision, result, options.solver()),
    )
