"""A track as text, as a record for `--json`, and as files."""

import io
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from maci2 import __version__
from maci2.datasets.euroc import truth_csv
from maci2.files import json_text, write_together
from maci2.odometry.tracked import TrackedState
from maci2.pipeline.prepare import Inputs
from maci2.result_output import stds, verdict_text
from maci2.sensors import GroundTruth
from maci2.text_tables import number as text_of
from maci2.text_tables import table_text
from maci2.types import NS

if TYPE_CHECKING:
    from maci2.metrics.track_errors import TrackErrors
    from maci2.pipeline.track_recording import RecordedTrack

TRAJECTORY = "trajectory_Twb_tum.txt"
TABLE = "trajectory_Twb_euroc.csv"
DENSE = "trajectory_imu_rate_Twb_tum.txt"
ARRAYS = "track.npz"
DENSE_ARRAYS = "track_imu_rate.npz"
SUMMARY = "summary.json"


def write_track(tracked: "RecordedTrack", folder: Path, summary: dict[str, Any]) -> list[Path]:
    """Write trajectory, arrays and summary into a folder; returns their paths."""
    files: dict[str, str | bytes] = {
        TRAJECTORY: tum_text(tracked.at_images),
        TABLE: euroc_text(tracked.inputs, tracked.at_images),
        ARRAYS: arrays_bytes(tracked, tracked.at_images),
    }
    if tracked.at_imu_rate:
        files[DENSE] = tum_text(tracked.states)
        files[DENSE_ARRAYS] = arrays_bytes(tracked, tracked.states)
    files[SUMMARY] = json_text(summary)
    paths = {folder / name: content for name, content in files.items()}
    write_together(paths)
    return list(paths)


def euroc_text(inputs: Inputs, states: list[TrackedState]) -> str:
    """States as EuRoC's ground truth is written: a CSV with poses, velocities and biases."""
    return truth_csv(
        GroundTruth(
            np.array([state.stamp_ns for state in states]),
            np.array([state.T_w_b for state in states]),
            np.array([state.v_w for state in states]),
            *raw_biases(inputs, states),
            source="track",
        )
    )


def tum_text(states: list[TrackedState]) -> str:
    """`t tx ty tz qx qy qz qw`, one pose of the IMU a line; exact nanoseconds in t."""
    lines = ["# timestamp tx ty tz qx qy qz qw: pose of the IMU in a world whose z axis points up"]
    for state in states:
        seconds = f"{state.stamp_ns // NS}.{state.stamp_ns % NS:09d}"
        quat_xyzw = scipy.spatial.transform.Rotation.from_matrix(state.T_w_b[:3, :3]).as_quat()
        numbers = " ".join(f"{value:.9f}" for value in (*state.T_w_b[:3, 3], *quat_xyzw))
        lines.append(f"{seconds} {numbers}")
    return "\n".join(lines) + "\n"


def arrays_bytes(tracked: "RecordedTrack", states: list[TrackedState]) -> bytes:
    """The `.npz` of docs/conventions.md."""
    gyro, acc = raw_biases(tracked.inputs, states)
    keyframes = tracked.keyframes
    buffer = io.BytesIO()
    np.savez(
        buffer,
        stamps_ns=np.array([state.stamp_ns for state in states]),
        T_w_b=np.array([state.T_w_b for state in states]),
        v_w=np.array([state.v_w for state in states]),
        gyro_bias=gyro,
        acc_bias=acc,
        cov=np.array([state.cov for state in states]),
        health=np.array([state.health for state in states]),
        segment=np.array([state.segment for state in states]),
        keyframe_stamps_ns=np.array([keyframe.stamp_ns for keyframe in keyframes]),
        innovation=np.array(
            [np.nan if k.innovation is None else k.innovation for k in keyframes], dtype=float
        ),
        rejected=np.array([keyframe.rejected for keyframe in keyframes], dtype=bool),
        version=__version__,
    )
    return buffer.getvalue()


def raw_biases(inputs: Inputs, states: list[TrackedState]) -> tuple[np.ndarray, np.ndarray]:
    """(n, 3) each: the raw sensor's biases, what the IMU model removed included."""
    stamps_ns = np.array([state.stamp_ns for state in states])
    raw, corrected = inputs.recording.imu, inputs.imu
    shared, at_raw, at_corrected = np.intersect1d(
        raw.stamps_ns, corrected.stamps_ns, return_indices=True
    )
    removed = np.column_stack(
        [
            raw.gyro[at_raw] - corrected.gyro[at_corrected],
            raw.acc[at_raw] - corrected.acc[at_corrected],
        ]
    )
    index = np.clip(np.searchsorted(shared, stamps_ns), 0, len(shared) - 1)
    gyro = np.array([state.gyro_bias for state in states]) + removed[index, :3]
    acc = np.array([state.acc_bias for state in states]) + removed[index, 3:]
    return gyro, acc


def state_record(state: TrackedState) -> dict[str, Any]:
    """One state as JSON takes it; standard deviations beside the numbers."""
    std = stds(state.cov)
    return {
        "stamp_ns": state.stamp_ns,
        "health": state.health,
        "segment": state.segment,
        "T_w_b": state.T_w_b.tolist(),
        "v_w": state.v_w.tolist(),
        "gyro_bias": state.gyro_bias.tolist(),
        "acc_bias": state.acc_bias.tolist(),
        "std": std_record(std),
    }


def std_record(std: np.ndarray) -> dict[str, list[float]]:
    """Standard deviations of a state (15,) by name."""
    return {
        "rotation_deg": np.rad2deg(std[0:3]).tolist(),
        "velocity": std[3:6].tolist(),
        "position_m": std[6:9].tolist(),
        "gyro_bias": std[9:12].tolist(),
        "acc_bias": std[12:15].tolist(),
    }


def track_summary(tracked: "RecordedTrack") -> dict[str, Any]:
    """Record of `maci2 track --json`."""
    states, keyframes = tracked.at_images, tracked.keyframes
    gyro_bias, acc_bias = raw_biases(tracked.inputs, states[-1:])
    last = states[-1]
    std = stds(last.cov)
    steps = np.diff([state.T_w_b[:3, 3] for state in states], axis=0)
    return {
        "recording": tracked.inputs.recording.name,
        "status": tracked.verdict.status,
        "reasons": list(tracked.verdict.reasons),
        "batch": tracked.batch,
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
        "vision_scale": float(np.exp(tracked.log_scale)),
        "gyro_bias": gyro_bias[0].tolist(),
        "acc_bias": acc_bias[0].tolist(),
        "last_std": std_record(std),
        "processor_ms": {
            "vision_per_image": tracked.spent.per_image_ms,
            "smoothing_per_keyframe": tracked.spent.per_keyframe_ms,
        },
        **tracked.inputs.source.pose_noise_record(),
        **({} if tracked.errors is None else {"errors": tracked.errors.as_dict()}),
    }


def track_text(tracked: "RecordedTrack") -> str:
    """The text that `maci2 track` prints."""
    record = track_summary(tracked)
    parts = [*_lines(record), _sigma_table(record["last_std"])]
    if tracked.errors is not None:
        parts.append(_error_table(tracked.errors))
    return "\n".join([*parts, verdict_text(tracked.verdict)])


def _lines(record: dict[str, Any]) -> list[str]:
    duration_s = (record["end_ns"] - record["start_ns"]) / 1e9
    health = ", ".join(f"{name} {count}" for name, count in record["health"].items())
    spent = record["processor_ms"]
    return [
        f"{record['recording']}: {record['states']} states over {duration_s:.1f} s and "
        f"{record['length_m']:.1f} m; {health}; of {record['keyframes']} relative poses "
        f"{record['unmeasured']} unmeasured, {record['rejected']} rejected, "
        f"{record['second_motions']} the motion of fewer matches",
        f"processor time: {spent['vision_per_image']:.1f} ms an image for vision, "
        f"{spent['smoothing_per_keyframe']:.1f} ms a keyframe for start and smoothing",
    ]


def _sigma_table(std: dict[str, list[float]]) -> str:
    digits = {
        "rotation [deg]": ("rotation_deg", 3),
        "velocity [m/s]": ("velocity", 4),
        "position [m]": ("position_m", 3),
        "gyro bias [rad/s]": ("gyro_bias", 5),
        "acc bias [m/s^2]": ("acc_bias", 4),
    }
    rows = [
        (label, *(text_of(value, places) for value in std[key]))
        for label, (key, places) in digits.items()
    ]
    return table_text("1-sigma of the last state", ("", "x", "y", "z"), rows)


def _error_table(errors: "TrackErrors") -> str:
    cells = {
        "ATE [m]": text_of(errors.ate_m, 4),
        **{f"{h:g} s [m]": text_of(rms, 4) for h, (rms, _) in errors.relative_m.items()},
        "gravity [deg]": text_of(errors.gravity_deg, 3),
        "velocity [m/s]": text_of(errors.velocity_rmse, 4),
        "scale": text_of(errors.scale, 4),
        "scale over 1 s": text_of(errors.scale_1s, 4),
    }
    return table_text("against ground truth", tuple(cells), [tuple(cells.values())])
