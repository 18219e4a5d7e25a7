"""`maci2 track` as a function."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maci2.boundary import as_path
from maci2.errors import require_in_range
from maci2.estimation import Verdict
from maci2.estimation.result_output import Record, verdict_text
from maci2.evaluation.track_errors import TrackErrors, track_errors
from maci2.field_docs import document_fields
from maci2.pipeline import track_recording as pipeline
from maci2.pipeline.track_files import raw_biases, track_summary, write_track
from maci2.pipeline.track_recording import KEYFRAME_INTERVAL_S, TrackedRecording
from maci2.recording_calls.arguments import flag, number, options_of
from maci2.text_tables import number as text_of
from maci2.text_tables import table_text
from maci2.tracking import SmootherConfig, TrackedState
from maci2.tracking.smoother import LAG_RANGE_S
from maci2.types import Array, Stamps


@dataclass(frozen=True, repr=False)
class RecordedTrack:
    """Result of `track_recording`, with errors if the recording has ground truth."""

    tracked: TrackedRecording
    """The track with its input: the recording and the relative poses, used or rejected."""

    errors: TrackErrors | None
    """Errors against ground truth; None without ground truth."""

    @classmethod
    def scored(cls, tracked: TrackedRecording) -> "RecordedTrack":
        """A track with its errors against the ground truth of the recording."""
        truth, track = tracked.inputs.truth, tracked.track
        if truth is None:
            return cls(tracked, None)
        gyro_bias, _ = raw_biases(tracked)
        return cls(tracked, track_errors(track.states, gyro_bias, truth, track.origins))

    @property
    def verdict(self) -> Verdict:
        """Whether the covariances can be relied on, and the reasons if not."""
        return self.tracked.track.verdict

    @property
    def states(self) -> list[TrackedState]:
        """States at the images, or at every IMU sample if `at_imu_rate` was set."""
        return list(self.tracked.at_imu_rate) or self.tracked.track.states

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
        record = track_summary(self.tracked)
        parts = [*_lines(record), _sigma_table(record["last_std"])]
        if self.errors is not None:
            parts.append(_error_table(self.errors))
        return "\n".join([*parts, verdict_text(self.verdict)])

    def to_dict(self) -> Record:
        """The record that `maci2 track --json` writes."""
        record = track_summary(self.tracked)
        if self.errors is not None:
            record["errors"] = self.errors.as_dict()
        return record

    def save(self, folder: str | Path) -> list[Path]:
        """Write trajectories, arrays with covariances and the summary; returns their paths."""
        return write_track(self.tracked, as_path(folder, "folder"), self.to_dict())

    def __repr__(self) -> str:
        track = self.tracked.track
        name, seconds = self.tracked.inputs.recording.name, 1e-9 * float(np.ptp(self.stamps_ns))
        status, count = track.verdict.status, len(self.states)
        return f"RecordedTrack({name}: {status}, {count} states, {seconds:.1f} s)"


def track_recording(
    path: str | Path,
    *,
    vision: str = "images",
    imu: str = "raw",
    interval_s: float = KEYFRAME_INTERVAL_S,
    lag_s: float = 3.0,
    start_s: float = 0.0,
    batch: bool = False,
    adapt_noise: bool = True,
    at_imu_rate: bool = False,
    vision_frame: str = "camera",
    vision_std: str | None = None,
    vision_scale_std: float | None = None,
    truth: Sequence[str] = (),
    rig: str | Path | None = None,
    topics: str = "",
    seed: int = 0,
) -> RecordedTrack:
    """Run visual-inertial odometry on a recording, as `maci2 track` does.

    Args:
        path: folder or bag of a recording.
        vision: source of camera motion, as for `initialize_recording`.
        imu: IMU model, as for `initialize_recording`.
        interval_s: time between keyframes [s].
        lag_s: length of the smoothed window [s].
        start_s: start, from the first usable timestamp [s].
        batch: smooth the whole recording at once; otherwise states are causal.
        adapt_noise: adapt the noise of vision to its innovations.
        at_imu_rate: also compute states at every IMU sample.
        vision_frame, vision_std, vision_scale_std: as for `initialize_recording`.
        truth, rig, topics, seed: as for `initialize_recording`.

    Returns:
        States with covariances and a verdict, with errors if the recording has ground truth.

    Raises:
        OptionError: an argument is invalid.
        DatasetError: the recording cannot be read, or no window can be initialized.
        CalibrationError: the rig cannot be used.
    """
    options = options_of(
        vision=vision,
        imu=imu,
        start_s=start_s,
        vision_frame=vision_frame,
        vision_std=vision_std,
        vision_scale_std=vision_scale_std,
        truth=truth,
        rig=rig,
        topics=topics,
        seed=seed,
    )
    lag_s = number(lag_s, "lag_s")
    require_in_range("lag_s", lag_s, *LAG_RANGE_S)
    config = SmootherConfig(lag_s=lag_s, adapt_visual_noise=flag(adapt_noise, "adapt_noise"))
    tracked = pipeline.track_recording(
        as_path(path, "path"),
        options,
        number(interval_s, "interval_s"),
        config,
        batch=flag(batch, "batch"),
        at_imu_rate=flag(at_imu_rate, "at_imu_rate"),
    )
    return RecordedTrack.scored(tracked)


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


def _error_table(errors: TrackErrors) -> str:
    cells = {
        "ATE [m]": text_of(errors.ate_m, 4),
        **{f"{h:g} s [m]": text_of(rms, 4) for h, (rms, _) in errors.relative_m.items()},
        "gravity [deg]": text_of(errors.gravity_deg, 3),
        "velocity [m/s]": text_of(errors.velocity_rmse, 4),
        "scale": text_of(errors.scale, 4),
        "scale over 1 s": text_of(errors.scale_1s, 4),
    }
    return table_text("against ground truth", tuple(cells), [tuple(cells.values())])


document_fields(__name__)
