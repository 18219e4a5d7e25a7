"""The paper's protocol: every window of every recording, one row each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from maci2.errors import DatasetError
from maci2.estimation.imu_gains import imu_gains
from maci2.evaluation.metrics import InitErrors
from maci2.evaluation.names import distinct_names
from maci2.evaluation.parallel import Pool, WorkerDied, run_all
from maci2.evaluation.rows import (
    Estimate,
    Judges,
    Row,
    state_errors,
    window_row,
    windows_with_truth,
)
from maci2.ground_truth.choose import audited_or_none, published_names, require_known_truths
from maci2.pipeline.offline import InitializedRecording, initialize_window
from maci2.pipeline.options import RunOptions, VisionChoice
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.rehearsals import warm_up
from maci2.pipeline.windows import Window
from maci2.sensors import with_velocity

ALONE = Pool()
"""One recording after the other, in this process."""


@dataclass(frozen=True)
class Evaluated:
    """All windows of one recording."""

    rows: list[Row]
    """One row for each window whose ground truth is known."""

    left_out: int
    """Windows in which the ground truth has a gap or jumps: nothing can be said of them."""

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


def window_errors(result: InitializedRecording) -> InitErrors | None:
    """Errors of one window's result; None without a state or where ground truth is not known."""
    return state_errors(result.inputs, result.inputs.truth, result.state, result.posterior)
