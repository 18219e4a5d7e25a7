"""Odometry of a whole recording, causal and smoothed, compared with other systems."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from maci2.datasets import open_recording, read_trajectory
from maci2.errors import Maci2Error
from maci2.geometry import se3_inv
from maci2.metrics.track_errors import (
    TrackErrors,
    TrajectoryErrors,
    track_errors,
    trajectory_errors,
)
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.track_recording import RecordedTrack, raw_biases, track_inputs
from maci2.sensors import GroundTruth, poses_at
from maci2.tools.ground_truth.choose import AUDITED, with_audited
from maci2.types import Array, Mask, Stamps
from maci2_lab.evaluation.imu_report import TRUTHS
from maci2_lab.experiments.experiment import Task, TaskResult
from maci2_lab.experiments.methods import has_vision
from maci2_lab.experiments.recordings import Recordings
from maci2_lab.experiments.store import WindowTimes, rounded
from maci2_lab.experiments.table import Cell, Claim, Findings, Line, Record, Table, mark_best

BASELINE_SUFFIX = "_Twb_tum.txt"
"""Files of other systems: NAME_Twb_tum.txt, poses of the IMU."""

SAME_START = {"MH_01_clip": "MH_01_30s"}
"""Folders of trajectories on a longer part of the same recording."""

NEES_BOUNDS = (0.5, 2.0)
SCALE_BOUND = 0.01
CAUSAL, SMOOTHED = "maci2, causal", "maci2, smoothed as a whole"
VISION_ALONE = "vision alone"
SCORED = ("velocity", "gravity", "gyro_bias", "orientation", "position")
POINTS = 200
"""Values of NEES over time that a result keeps."""


def track_tasks(
    with_images: tuple[str, ...], vision: str, imus: tuple[str, ...], recordings: Recordings, _: int
) -> list[Task]:
    """Tasks of the recordings tracked from their images, and of those whose trajectory is fused."""
    tasks = []
    for name, path in recordings.by_name.items():
        if name in with_images:
            others = baselines_of(recordings.root, name)
            tasks.append(track_task(name, path, "images", "raw", others))
        elif has_vision(path, vision):
            tasks += [track_task(name, path, vision, imu) for imu in imus]
    return tasks


def track_task(
    recording: str, path: Path, vision: str, imu: str, baselines: Path | None = None
) -> Task:
    """One recording, one source of camera motion, one IMU model; `baselines` is the folder of other
    systems' trajectories on the same images."""
    options = {
        "recording": recording,
        "vision": vision,
        "imu": imu,
        "baselines": sorted(file.name for file in _files(baselines)),
    }
    key = f"{recording}_{vision.partition(':')[0]}_{imu}"
    run = partial(run_track, path, vision, imu, baselines)
    return Task(key, options, {recording: path}, run)


def baselines_of(root: Path, recording: str) -> Path | None:
    """The folder of other systems' trajectories on a recording's images, below `root`."""
    for name in (recording, SAME_START.get(recording, recording)):
        for folder in (root / "rivals", root / "baselines", root.parent / "rivals"):
            if _files(folder / name):
                return folder / name
    return None


def run_track(path: Path, vision: str, imu: str, baselines: Path | None) -> TaskResult:
    """A row for each system: causal, smoothed, those of the folder, and vision alone."""
    held = open_recording(path).truths
    truths = tuple(name for name in TRUTHS if name in held)
    options = RunOptions(vision=vision, vision_frame="rectified", imu=imu, truth=truths)
    begun = time.process_time()
    causal = _where_vision_is(track_inputs(open_inputs(path, options)))
    frame_ms = 1e3 * (time.process_time() - begun) / max(len(causal.at_images), 1)
    truth = causal.inputs.truth
    if truth is None:
        return TaskResult([], problem="no ground truth")
    rows = [_own_row(CAUSAL, causal, truth)]
    smoothed = _where_vision_is(track_inputs(causal.inputs, batch=True, measured=causal.vision))
    rows.append(_own_row(SMOOTHED, smoothed, truth))
    for name, (stamps_ns, Ts_w_b) in _others(baselines, causal.inputs).items():
        rows.append(_row(name, _common(stamps_ns, Ts_w_b, causal, truth)))
    return TaskResult([rounded(row) for row in rows if row], WindowTimes([frame_ms]))


def _where_vision_is(tracked: RecordedTrack) -> RecordedTrack:
    """The states near which vision has poses: a trajectory that pauses is not compared with what
    the IMU alone makes of the pause."""
    inputs, states = tracked.inputs, tracked.at_images
    if inputs.source.kind != "trajectory":
        return tracked
    near = _near(inputs.vision.stamps_ns, np.array([state.stamp_ns for state in states]))
    kept = [state for state, keep in zip(states, near, strict=True) if keep]
    return replace(tracked, at_images=kept)


def _near(poses_ns: Stamps, at_ns: Stamps) -> Mask:
    """(n,) timestamps between poses near enough to interpolate."""
    after = np.clip(np.searchsorted(poses_ns, at_ns), 1, len(poses_ns) - 1)
    close = poses_ns[after] - poses_ns[after - 1] < 250_000_000
    return np.asarray(close & (at_ns >= poses_ns[0]) & (at_ns <= poses_ns[-1]))


def _own_row(name: str, tracked: RecordedTrack, truth: GroundTruth) -> Record:
    states, origins = tracked.at_images, tracked.origins
    biases = raw_biases(tracked.inputs, tracked.at_images)[0]
    errors = track_errors(states, biases, truth, origins)
    if errors is None:
        return {}
    audited = _audited_errors(tracked)
    judged = audited or errors
    over_time = {part: _thinned(judged.nees_over_time[part]) for part in SCORED}
    return _row(name, errors) | {
        "gravity_deg": judged.gravity_deg,
        "velocity_rmse": judged.velocity_rmse,
        "nees": {part: judged.nees[part] for part in SCORED},
        "nees_over_time": over_time,
        "nees_against": "audited" if audited is not None else "published",
    }


def _audited_errors(tracked: RecordedTrack) -> TrackErrors | None:
    """Errors against the audited ground truth; None where it could not be audited."""
    try:
        recording = with_audited(tracked.inputs.recording, (AUDITED, *TRUTHS))
    except Maci2Error:
        return None
    truth = recording.truths.get(AUDITED)
    if truth is None:
        return None
    biases = raw_biases(tracked.inputs, tracked.at_images)[0]
    return track_errors(tracked.at_images, biases, truth, tracked.origins)


def _others(baselines: Path | None, inputs: Inputs) -> dict[str, tuple[Stamps, Array]]:
    """Trajectories of the IMU by name: those of the folder, and the one that was fused."""
    found = {}
    for file in _files(baselines):
        trajectory = read_trajectory(file)
        name = file.name.removesuffix(BASELINE_SUFFIX)
        found[name] = (trajectory.stamps_ns, trajectory.Ts_w_c)
    path = inputs.vision.camera_path() if inputs.source.kind == "trajectory" else None
    if path is not None:
        T_c_b = se3_inv(np.ascontiguousarray(inputs.T_b_c))
        found[VISION_ALONE] = (path.stamps_ns, path.Ts_w_c @ T_c_b)
    return found


def _common(
    stamps_ns: Stamps, Ts_w_b: Array, causal: RecordedTrack, truth: GroundTruth
) -> TrajectoryErrors | None:
    """Errors over the images that the causal track has a state at."""
    at_ns = np.array([state.stamp_ns for state in causal.at_images])
    at_ns = at_ns[_near(stamps_ns, at_ns)]
    if len(at_ns) < 3:
        return None
    return trajectory_errors(at_ns, poses_at(stamps_ns, Ts_w_b, at_ns, 0.25, source=""), truth)


def _row(name: str, errors: TrajectoryErrors | None) -> Record:
    if errors is None:
        return {}
    return {
        "system": name,
        "ate_m": errors.ate_m,
        "scale": errors.scale,
        "scale_1s": errors.scale_1s,
        "relative_m": {f"{horizon:g}": pair for horizon, pair in errors.relative_m.items()},
    }


def _thinned(values: Array) -> Array:
    return values[:: max(len(values) // POINTS, 1)]


def _files(folder: Path | None) -> list[Path]:
    return sorted(folder.glob(f"*{BASELINE_SUFFIX}")) if folder is not None else []


def track_findings(records: list[Record]) -> Findings:
    """A table for each recording, claims about ATE, relative error and NEES, and NEES over time."""
    tables, claims, figures = [], [], []
    for record in records:
        if not record["rows"]:
            continue
        task, rows = record["task"], record["rows"]
        name = f"{task['recording']}, vision {task['vision'].partition(':')[0]}, IMU {task['imu']}"
        tables.append(_table(name, rows))
        claims += _claims(name, rows)
        over_time = rows[0].get("nees_over_time", {})
        groups = [
            {"name": part, "values": [v for v in values if v is not None]}
            for part, values in over_time.items()
        ]
        title = f"NEES over time: {name}"
        figures.append({"kind": "distributions", "title": title, "unit": "", "groups": groups})
    return Findings(tables, claims, figures)


COLUMNS = (
    "ATE [m]", "scale", "scale over 1 s", "1 s rms [m]", "1 s median [m]", "5 s rms [m]",
    "10 s rms [m]", "gravity [deg]", "velocity [m/s]", *(f"NEES {part}" for part in SCORED),
)  # fmt: skip


def _table(name: str, rows: list[Record]) -> Table:
    lines = []
    for row in rows:
        relative, nees = row["relative_m"], row.get("nees", {})
        numbers = [row["ate_m"], row["scale"], row["scale_1s"], *relative["1"]]
        cells = (
            *(Cell(value, 4) for value in (*numbers, relative["5"][0], relative["10"][0])),
            Cell(row.get("gravity_deg")),
            Cell(row.get("velocity_rmse"), 4),
            *(Cell(nees.get(part), 2) for part in SCORED),
        )
        lines.append(Line(row["system"], "", cells))
    note = (
        "ATE after rotation and translation, no scale, over the images that the causal track has a "
        "state at and vision a pose near; scale after alignment with one, over 1 s from "
        "displacements, in which drift does not count; gravity, velocity and NEES against the "
        f"{rows[0].get('nees_against', '')} ground truth, NEES per degree of freedom."
    )
    return Table(name, COLUMNS, mark_best(lines, {0: False, 3: False}), note)


def _claims(name: str, rows: list[Record]) -> list[Claim]:
    own, others = rows[0], [row for row in rows if not row["system"].startswith("maci2")]
    claims = []
    if others:
        lowest = min(row["ate_m"] for row in others)
        below = f"{name}: causal ATE below every other system's"
        claims.append(Claim(below, own["ate_m"] < lowest))
        shortest = min(row["relative_m"]["1"][0] for row in others)
        claims.append(
            Claim(f"{name}: error over 1 s below theirs", own["relative_m"]["1"][0] < shortest)
        )
    if any(row["system"] == VISION_ALONE for row in others):
        claims += _fused_claims(name, own, rows)
    low, high = NEES_BOUNDS
    for part in ("velocity", "gravity", "gyro_bias"):
        value = own["nees"][part]
        text = f"{name}: NEES of {part.replace('_', ' ')} {low:g} to {high:g}"
        claims.append(Claim(text, value is not None and low <= value <= high))
    return claims


def _fused_claims(name: str, own: Record, rows: list[Record]) -> list[Claim]:
    """Claims about a trajectory that was fused with the IMU."""
    text = f"{name}: scale over 1 s within {100 * SCALE_BOUND:g} %"
    claims = [Claim(text, abs(own["scale_1s"] - 1.0) <= SCALE_BOUND)]
    for row in rows:
        if row["system"] == SMOOTHED:
            text = f"{name}: ATE smoothed as a whole no higher than causal"
            claims.append(Claim(text, row["ate_m"] <= own["ate_m"]))
    return claims
