"""Odometry along a recording, causal or smoothed as a whole, and its result: in memory, as text, as
a record for `--json`, and as files."""

import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from maci2 import __version__
from maci2.datasets.euroc import truth_csv
from maci2.errors import DatasetError
from maci2.estimator import SolverConfig, Verdict
from maci2.estimator.outliers import choose_motions
from maci2.estimator.smoother import SmootherConfig
from maci2.field_docs import document_fields
from maci2.files import json_text, write_together
from maci2.jit import warm_up
from maci2.odometry.batch import smoothed
from maci2.odometry.settings import TRAJECTORY_SCALE_WALK, tracker_settings
from maci2.odometry.track import track
from maci2.odometry.tracked import Track, TrackedState
from maci2.pipeline.prepare import Inputs
from maci2.result_output import Record, stds, verdict_text
from maci2.sensors import GroundTruth
from maci2.text_tables import number, table_text
from maci2.types import NS, Array, Stamps
from maci2.validation import as_path
from maci2.vision import RelativePoses
from maci2.vision.odometry import even_keyframes

if TYPE_CHECKING:
    from maci2.metrics.track_errors import TrackErrors

KEYFRAME_INTERVAL_S = 0.2
"""Between keyframes: the odometry's own spacing, for which its covariances are calibrated."""

STATE_PARTS = (
    ("rotation_deg", "rotation [deg]", slice(0, 3), float(np.rad2deg(1.0)), 3),
    ("velocity", "velocity [m/s]", slice(3, 6), 1.0, 4),
    ("position_m", "position [m]", slice(6, 9), 1.0, 3),
    ("gyro_bias", "gyro bias [rad/s]", slice(9, 12), 1.0, 5),
    ("acc_bias", "acc bias [m/s^2]", slice(12, 15), 1.0, 4),
)
"""Parts of a state's covariance: key in JSON, label, place, unit over the SI unit, digits."""


@dataclass(frozen=True)
class ProcessorTime:
    """Processor time of a track, all threads together."""

    per_image_ms: float
    """Time of vision, or of interpolating given poses, over the number of images."""

    per_keyframe_ms: float
    """Time of starting, smoothing and predicting states, over the number of keyframes."""


@dataclass(frozen=True, repr=False, kw_only=True)
class RecordedTrack(Track):
    """Result of `track_recording`: a track with its inputs, and errors if there is ground truth."""

    inputs: Inputs
    """The opened recording: IMU measurements, vision, extrinsics, ground truth."""

    vision: RelativePoses
    """Relative poses, used or rejected."""

    at_images: list[TrackedState]
    """States at the images; equal to `states` unless `at_imu_rate` was set."""

    at_imu_rate: bool
    """True if `states` are at every IMU sample."""

    batch: bool
    """True if every state was smoothed with all measurements; otherwise states are causal."""

    spent: ProcessorTime
    """Processor time of vision and of smoothing."""

    errors: "TrackErrors | None" = None
    """Errors against ground truth; None without ground truth."""

    @property
    def verdict(self) -> Verdict:
        """Reliability of the covariances, and the reasons against it."""
        return self.judged_by(self.at_images)

    @property
    def stamps_ns(self) -> Stamps:
        """(n,) timestamps of the states on the IMU's clock [ns]."""
        return np.array([state.stamp_ns for state in self.states])

    @property
    def Ts_w_b(self) -> Array:
        """(n, 4, 4) poses of the IMU in a world whose z axis points up."""
        return np.array([state.T_w_b for state in self.states])

    @property
    def velocities_w(self) -> Array:
        """(n, 3) velocities of the IMU in the same world [m/s]."""
        return np.array([state.v_w for state in self.states])

    @property
    def covs(self) -> Array:
        """(n, 15, 15) covariances, order [phi (right), v, p, gyro bias, acc bias]."""
        return np.array([state.cov for state in self.states])

    def summary(self) -> str:
        """The text that `maci2 track` prints."""
        record: dict[str, Any] = self.to_dict()
        duration_s = (record["end_ns"] - record["start_ns"]) / 1e9
        health = ", ".join(f"{name} {count}" for name, count in record["health"].items())
        spent, std = record["processor_ms"], record["last_std"]
        rows = [
            (label, *(number(value, digits) for value in std[key]))
            for key, label, _, _, digits in STATE_PARTS
        ]
        parts = [
            f"{record['recording']}: {record['states']} states over {duration_s:.1f} s and "
            f"{record['length_m']:.1f} m; {health}; of {record['keyframes']} relative poses "
            f"{record['unmeasured']} unmeasured, {record['rejected']} rejected, "
            f"{record['second_motions']} the motion of fewer matches",
            f"processor time: {spent['vision_per_image']:.1f} ms an image for vision, "
            f"{spent['smoothing_per_keyframe']:.1f} ms a keyframe for start and smoothing",
            table_text("1-sigma of the last state", ("", "x", "y", "z"), rows),
        ]
        if self.errors is not None:
            parts.append(_error_table(self.errors))
        return "\n".join([*parts, verdict_text(self.verdict)])

    def to_dict(self) -> Record:
        """The record that `maci2 track --json` writes."""
        states, keyframes, last = self.at_images, self.keyframes, self.at_images[-1]
        gyro_bias, acc_bias = raw_biases(self.inputs, [last])
        steps = np.diff([state.T_w_b[:3, 3] for state in states], axis=0)
        return {
            "recording": self.inputs.recording.name,
            "status": self.verdict.status,
            "reasons": list(self.verdict.reasons),
            "batch": self.batch,
            "states": len(states),
            "start_ns": states[0].stamp_ns,
            "end_ns": last.stamp_ns,
            "length_m": float(np.linalg.norm(steps, axis=1).sum()),
            "segments": last.segment + 1,
            "health": dict(Counter(state.health for state in states)),
            "keyframes": len(keyframes),
            "unmeasured": sum(keyframe.innovation is None for keyframe in keyframes),
            "rejected": sum(keyframe.rejected for keyframe in keyframes),
            "second_motions": sum(keyframe.second_motion for keyframe in keyframes),
            "vision_scale": float(np.exp(self.log_scale)),
            "gyro_bias": gyro_bias[0].tolist(),
            "acc_bias": acc_bias[0].tolist(),
            "last_std": _std_record(last),
            "processor_ms": {
                "vision_per_image": self.spent.per_image_ms,
                "smoothing_per_keyframe": self.spent.per_keyframe_ms,
            },
            **self.inputs.source.pose_noise_record(),
            **({} if self.errors is None else {"errors": self.errors.as_dict()}),
        }

    def save(self, folder: str | Path) -> list[Path]:
        """Write trajectories, arrays with covariances and the summary; returns their paths."""
        states, columns = self.at_images, self._columns(self.at_images)
        stamps_ns, T_w_b, v_w, gyro_bias, acc_bias = (
            columns[name] for name in ("stamps_ns", "T_w_b", "v_w", "gyro_bias", "acc_bias")
        )
        table = GroundTruth(stamps_ns, T_w_b, v_w, gyro_bias, acc_bias, source="track")
        files: dict[str, str | bytes] = {
            "trajectory_Twb_tum.txt": tum_text(states),
            "trajectory_Twb_euroc.csv": truth_csv(table),
            "track.npz": self._arrays(states),
        }
        if self.at_imu_rate:
            files["trajectory_imu_rate_Twb_tum.txt"] = tum_text(self.states)
            files["track_imu_rate.npz"] = self._arrays(self.states)
        files["summary.json"] = json_text(self.to_dict())
        paths = {as_path(folder, "folder") / name: content for name, content in files.items()}
        write_together(paths)
        return list(paths)

    def _columns(self, states: list[TrackedState]) -> dict[str, Any]:
        """Arrays of states, by their names in `.npz`."""
        names = ("T_w_b", "v_w", "cov", "health", "segment")
        gyro_bias, acc_bias = raw_biases(self.inputs, states)
        stamps_ns = np.array([state.stamp_ns for state in states])
        columns = {"stamps_ns": stamps_ns, "gyro_bias": gyro_bias, "acc_bias": acc_bias}
        return columns | {name: np.array([getattr(one, name) for one in states]) for name in names}

    def _arrays(self, states: list[TrackedState]) -> bytes:
        """The `.npz` of docs/conventions.md."""
        buffer, keyframes = io.BytesIO(), self.keyframes
        np.savez(
            buffer,
            **self._columns(states),
            keyframe_stamps_ns=np.array([keyframe.stamp_ns for keyframe in keyframes]),
            innovation=np.array([keyframe.innovation for keyframe in keyframes], dtype=float),
            rejected=np.array([keyframe.rejected for keyframe in keyframes], dtype=bool),
            version=__version__,
        )
        return buffer.getvalue()

    def __repr__(self) -> str:
        name, seconds = self.inputs.recording.name, 1e-9 * float(np.ptp(self.stamps_ns))
        status, count = self.verdict.status, len(self.states)
        return f"RecordedTrack({name}: {status}, {count} states, {seconds:.1f} s)"


def _error_table(errors: "TrackErrors") -> str:
    cells = {
        "ATE [m]": number(errors.ate_m, 4),
        **{f"{h:g} s [m]": number(rms, 4) for h, (rms, _) in errors.relative_m.items()},
        "gravity [deg]": number(errors.gravity_deg, 3),
        "velocity [m/s]": number(errors.velocity_rmse, 4),
        "scale": number(errors.scale, 4),
        "scale over 1 s": number(errors.scale_1s, 4),
    }
    return table_text("against ground truth", tuple(cells), [tuple(cells.values())])


def tum_text(states: list[TrackedState]) -> str:
    """`t tx ty tz qx qy qz qw`, one pose of the IMU a line; exact nanoseconds in t."""
    lines = ["# timestamp tx ty tz qx qy qz qw: pose of the IMU in a world whose z axis points up"]
    for state in states:
        seconds = f"{state.stamp_ns // NS}.{state.stamp_ns % NS:09d}"
        quat_xyzw = scipy.spatial.transform.Rotation.from_matrix(state.T_w_b[:3, :3]).as_quat()
        numbers = " ".join(f"{value:.9f}" for value in (*state.T_w_b[:3, 3], *quat_xyzw))
        lines.append(f"{seconds} {numbers}")
    return "\n".join(lines) + "\n"


def raw_biases(inputs: Inputs, states: list[TrackedState]) -> tuple[Array, Array]:
    """(n, 3) each: the raw sensor's biases, what the IMU model removed included."""
    raw, corrected = inputs.recording.imu, inputs.imu
    shared_ns, at_raw, at_corrected = np.intersect1d(
        raw.stamps_ns, corrected.stamps_ns, return_indices=True
    )
    after = np.searchsorted(shared_ns, [state.stamp_ns for state in states])
    nearest = np.clip(after, 0, len(shared_ns) - 1)
    at_raw, at_corrected = at_raw[nearest], at_corrected[nearest]
    removed_gyro = raw.gyro[at_raw] - corrected.gyro[at_corrected]
    removed_acc = raw.acc[at_raw] - corrected.acc[at_corrected]
    gyro_bias = np.array([state.gyro_bias for state in states])
    acc_bias = np.array([state.acc_bias for state in states])
    return gyro_bias + removed_gyro, acc_bias + removed_acc


def state_record(state: TrackedState) -> Record:
    """One state as JSON takes it; standard deviations beside the numbers."""
    return {
        "stamp_ns": state.stamp_ns,
        "health": state.health,
        "segment": state.segment,
        "T_w_b": state.T_w_b.tolist(),
        "v_w": state.v_w.tolist(),
        "gyro_bias": state.gyro_bias.tolist(),
        "acc_bias": state.acc_bias.tolist(),
        "std": _std_record(state),
    }


def _std_record(state: TrackedState) -> Record:
    """Standard deviations of a state by name."""
    std = stds(state.cov)
    return {key: (unit * std[part]).tolist() for key, _, part, unit, _ in STATE_PARTS}


def track_inputs(
    inputs: Inputs,
    interval_s: float = KEYFRAME_INTERVAL_S,
    config: SmootherConfig | None = None,
    batch: bool = False,
    measured: RelativePoses | None = None,
    at_imu_rate: bool = False,
) -> RecordedTrack:
    """Track a recording from its first usable window on.

    `measured` are the relative poses of an earlier run with the same options. `at_imu_rate` gives
    states at every IMU sample beside those at images.
    """
    warm_up("initialize", "chain")
    options, candidates_ns = inputs.options, inputs.measurable_ns()
    start_ns = round(options.start_s * NS)
    candidates_ns = candidates_ns[candidates_ns - candidates_ns[:1] >= start_ns]
    if len(candidates_ns) < 2:
        raise DatasetError(
            f"{inputs.recording.path}: {len(candidates_ns)} usable images from "
            f"{options.start_s:g} s on, needed two or more; choose an earlier --start, or camera "
            "motion that covers more of the images."
        )
    began_s = process_time()
    vision = measured or inputs.vision.motion(keyframes_of(inputs, candidates_ns, interval_s), 0)
    seen_s = process_time()
    images_ns = vision.stamps_ns
    if inputs.recording.camera_stamps_ns:
        stamps_ns = inputs.recording.camera_stamps_ns[0]
        inside = (stamps_ns >= images_ns[0]) & (stamps_ns <= images_ns[-1])
        images_ns = np.union1d(stamps_ns[inside], images_ns)
    scale_walk = TRAJECTORY_SCALE_WALK if inputs.source.kind == "trajectory" else 0.0
    rig = inputs.recording.rig
    walks, config = tracker_settings(rig, options.imu, config, scale_walk)
    wanted_ns = images_ns
    if at_imu_rate:
        samples_ns = inputs.imu.stamps_ns
        inside = (samples_ns >= images_ns[0]) & (samples_ns <= images_ns[-1])
        wanted_ns = np.union1d(images_ns, samples_ns[inside])
    found = track(inputs.imu, vision, inputs.T_b_c, walks, wanted_ns, config)
    if batch:
        vision = choose_motions(inputs.imu, vision, inputs.T_b_c, SolverConfig()).vision
        found = smoothed(inputs.imu, vision, inputs.T_b_c, walks, found, config)
    spent = ProcessorTime(
        1e3 * (seen_s - began_s) / len(images_ns),
        1e3 * (process_time() - seen_s) / len(vision.stamps_ns),
    )
    with_image = set(images_ns.tolist())
    return RecordedTrack(
        **vars(found),
        inputs=inputs,
        vision=vision,
        at_images=[state for state in found.states if state.stamp_ns in with_image],
        at_imu_rate=at_imu_rate,
        batch=batch,
        spent=spent,
    )


def keyframes_of(inputs: Inputs, candidates_ns: Stamps, interval_s: float) -> Stamps:
    """Even keyframes; those of a file of measurements are given."""
    if inputs.source.kind == "measurements":
        return candidates_ns
    return even_keyframes(candidates_ns, interval_s)


document_fields(__name__)
