"""An odometry watched along a whole recording."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from maci2.errors import DatasetError, require_in_range
from maci2.estimator.smoother import WINDOW_S, window_start
from maci2.field_docs import document_fields
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.rehearsals import warm_up
from maci2.pipeline.track_recording import keyframes_of
from maci2.tracking.settings import TRAJECTORY_SCALE_WALK, tracker_settings
from maci2.types import NS, Mat4, Stamps
from maci2.vision import RelativePoses
from maci2.watchdog.watch import Alarm, Watchdog, WatchdogConfig

NOTHING_WATCHED = (
    "no window of the odometry agrees with the IMU well enough to begin from, so nothing at all "
    "was watched; check whose poses these are, their clock and their scale (`maci2 check --vision "
    "trajectory:FILE`)"
)


@dataclass(frozen=True)
class WatchedRecording:
    """Result of watching an odometry along a recording."""

    inputs: Inputs
    """The opened recording."""

    alarms: list[Alarm]
    """Faults in the order in which they were noticed."""

    watched_s: float
    """Time during which the odometry could be compared [s]."""

    start_ns: int
    """Timestamp of the first keyframe [ns]."""

    end_ns: int
    """Timestamp of the last one [ns]."""

    notes: list[str] = field(default_factory=list)
    """Reasons why parts could not be compared: gaps of the IMU, or no window to begin from."""


def watch_recording(
    path: Path,
    options: RunOptions,
    interval_s: float = 0.2,
    of_body: bool = True,
    config: WatchdogConfig | None = None,
) -> WatchedRecording:
    """Watch the trajectory of `options.vision` along a recording.

    `of_body`: its poses are those of the IMU; otherwise of the camera that the options name.
    """
    require_in_range("--interval", interval_s, 0.05, 2.0)
    # What is to be found out is whether the odometry keeps to what it is known to do.
    inputs = open_inputs(path, replace(options, noise_as_stated=True))
    warm_up("initialize", "chain")
    T_b_o = np.eye(4) if of_body else inputs.T_b_c
    vision = inputs.vision.motion(keyframes_of(inputs, inputs.measurable_ns(), interval_s), 0)
    return watch(inputs, vision, T_b_o, config, options.imu)


def watch(
    inputs: Inputs,
    vision: RelativePoses,
    T_b_o: Mat4,
    config: WatchdogConfig | None = None,
    imu_model: str = "raw",
) -> WatchedRecording:
    """Watch relative poses over all keyframes of a recording."""
    imu, stamps_ns = inputs.imu, vision.stamps_ns
    settings = tracker_settings(inputs.recording.rig, imu_model, scale_walk=TRAJECTORY_SCALE_WALK)
    watchdog = Watchdog(T_b_o, *settings, config)
    alarms, notes, watched_ns, since = [], [], 0, 0
    for k in range(1, len(stamps_ns)):
        stamp_ns = int(stamps_ns[k])
        try:
            if not watchdog.is_watching:
                first = window_start(stamps_ns, k)
                if first is not None and first >= since:
                    samples = imu.between(int(stamps_ns[first]), stamp_ns)
                    watchdog.start(samples, vision.part(first, k))
                continue
            samples = imu.between(watchdog.needed_from_ns, stamp_ns)
            alarm = watchdog.add(
                samples, stamp_ns, vision.Ts_ck_ck1[k - 1], vision.covs_T_ck_ck1[k - 1]
            )
            watched_ns += stamp_ns - int(stamps_ns[k - 1])
        except DatasetError as error:
            notes.append(str(error))
            watchdog.reset()
            since = k
            continue
        if alarm is not None:
            alarms.append(alarm)
            since = k
    if watched_ns == 0 and not alarms:
        few = all(window_start(stamps_ns, k) is None for k in range(len(stamps_ns)))
        notes.append(_too_few(stamps_ns) if few else NOTHING_WATCHED)
    return WatchedRecording(
        inputs, alarms, watched_ns / 1e9, int(stamps_ns[0]), int(stamps_ns[-1]), notes
    )


def _too_few(stamps_ns: Stamps) -> str:
    """What is missing where no window can begin."""
    span_s = float(stamps_ns[-1] - stamps_ns[0]) / NS
    return (
        f"{len(stamps_ns)} poses over {span_s:.1f} s, needed five or more in each {WINDOW_S:g} s "
        "to begin from, so nothing at all was watched; choose a shorter --interval, or have the "
        "odometry write more poses"
    )


document_fields(__name__)
