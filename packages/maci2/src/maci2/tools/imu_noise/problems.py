"""Estimation problems that show an IMU's noise: against a capture, or against camera motion."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from maci2.calibration_prior import UNVERIFIED
from maci2.errors import DatasetError
from maci2.estimator import SolverConfig
from maci2.estimator.calibrate import MountingPrior, solve_from_nothing
from maci2.estimator.initialize import with_loss
from maci2.estimator.problem import Loss, Problem
from maci2.imu import datasheet_model
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import long_window, open_inputs
from maci2.sensors import Recording
from maci2.tools.ground_truth.audit_problem import audit_problem, first_of_slots
from maci2.tools.ground_truth.capture import open_capture
from maci2.tools.ground_truth.registration import register
from maci2.tools.imu_noise.estimate import NoiseProblem
from maci2.types import NS, Mask, Stamps

STATE_PERIOD_S = 0.25
"""Time between states [s]: errors faster than a camera's keyframes do not matter to estimators."""

POSITION_HZ, ORIENTATION_HZ = 2.0, 0.2
"""Rows a second that are used of a real capture. Its errors last: markers wobble on the body and
clocks jitter, which at more rows would count as noise of the IMU."""

EXACT_HZ = 20.0
"""Rows a second of a simulated capture, whose noise is white."""


def against_capture(recording: Recording, source: str, length_s: float) -> NoiseProblem:
    """The problem of a capture's middle."""
    capture = open_capture(recording, source)
    capture = capture.part(first_of_slots(capture.stamps_ns, EXACT_HZ))
    found = register(capture, recording.imu)
    imu = datasheet_model(recording.imu, recording.rig.imu)
    middle_ns = int(capture.stamps_ns[len(capture) // 2])
    capture = capture.part(np.abs(capture.stamps_ns - middle_ns) <= 0.5 * length_s * NS)
    start = audit_problem(capture, found, imu, recording, state_period_s=STATE_PERIOD_S)
    first_ns, last_ns = int(start.problem.stamps_ns[0]), int(start.problem.stamps_ns[-1])
    problem = replace(start.problem, imu=imu.between(first_ns - NS // 2, last_ns + NS // 2))
    if not recording.rig.imu.exact:
        problem = _thinned(problem, round(found.offset_s * NS))
    return NoiseProblem(problem, start.states, start.shared, start.least_factor)


def _thinned(problem: Problem, offset_ns: int) -> Problem:
    """The problem with as many rows of its capture as have errors of their own."""
    changes = {}
    for name, rate_hz in (("positions", POSITION_HZ), ("orientations", ORIENTATION_HZ)):
        measured = getattr(problem, name)
        if measured is not None:
            rows = _nearest_rows(measured.stamps_ns + offset_ns, problem.stamps_ns, rate_hz)
            values = {field.name: getattr(measured, field.name) for field in fields(measured)}
            arrays = {key: v[rows] for key, v in values.items() if isinstance(v, np.ndarray)}
            changes[name] = replace(measured, **arrays)
    return replace(problem, **changes)


def _nearest_rows(on_imu_ns: Stamps, states_ns: Stamps, rate_hz: float) -> Mask:
    """The row of every slot of time that comes soonest after a state: what the IMU adds between
    that state and the row counts as noise of the row."""
    slots = ((on_imu_ns - on_imu_ns[0]) * rate_hz // NS).astype(np.int64)
    before = np.maximum(np.searchsorted(states_ns, on_imu_ns, side="right") - 1, 0)
    order = np.lexsort((np.abs(on_imu_ns - states_ns[before]), slots))
    chosen = np.zeros(len(slots), dtype=bool)
    chosen[order[np.r_[True, np.diff(slots[order]) > 0]]] = True
    return chosen


def against_vision(path: Path, options: RunOptions) -> NoiseProblem:
    """The problem of a recording's camera motion."""
    # The IMU's noise is the question, so the noise of vision is not estimated from it.
    inputs = open_inputs(path, replace(options, imu="datasheet", noise_as_stated=True))
    candidates_ns = inputs.measurable_ns()
    if len(candidates_ns) < 2:
        raise DatasetError(f"{path}: {len(candidates_ns)} usable images, needed two or more.")
    has_s = float(candidates_ns[-1] - candidates_ns[0]) / NS - options.start_s
    window_s = min(options.window_s, has_s)
    keyframes = max(round(window_s / STATE_PERIOD_S) + 1, 2)
    window = long_window(candidates_ns, window_s, keyframes, options.start_s)
    vision = inputs.vision.motion(window.stamps_ns, 0)
    std = np.repeat([UNVERIFIED.lever_m, UNVERIFIED.rotation], 3)
    mounting = MountingPrior(inputs.T_b_c, std)
    config = SolverConfig(estimate_time_offset=True)
    solution = solve_from_nothing(inputs.imu, vision, mounting, config)[0].solution
    problem = replace(with_loss(solution.problem, Loss()), inflation=1.0)
    return NoiseProblem(problem, solution.states, solution.shared)
