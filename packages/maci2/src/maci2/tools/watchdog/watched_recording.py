"""Watchdog along a whole recording, and its results as files."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from maci2 import __version__
from maci2.errors import DatasetError, require_in_range
from maci2.field_docs import document_fields
from maci2.files import json_text, write_together
from maci2.jit import warm_up
from maci2.odometry.settings import TRAJECTORY_SCALE_WALK, WINDOW_S, tracker_settings, window_start
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.track_recording import keyframes_of
from maci2.tools.watchdog.watch import Alarm, RestartState, Watchdog, WatchdogConfig
from maci2.types import NS, Array

SUMMARY = "watch.json"
OPENVINS = "openvins_{number}.txt"

NOTHING_WATCHED = (
    "no window of the odometry agrees with the IMU well enough to begin from, so nothing at all "
    "was watched; check whose poses these are, their clock and their scale (`maci2 check --vision "
    "trajectory:FILE`)"
)

TOO_FEW = (
    "{poses} poses over {span_s:.1f} s, needed five or more in each {window_s:g} s to begin from, "
    "so nothing at all was watched; choose a shorter --interval, or have the odometry write more "
    "poses"
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
    # The odometry is judged by the noise that it is known to have, not by an estimate of it.
    inputs = open_inputs(path, replace(options, noise_as_stated=True))
    warm_up("initialize", "chain")
    T_b_o = np.eye(4) if of_body else inputs.T_b_c
    vision = inputs.vision.motion(keyframes_of(inputs, inputs.measurable_ns(), interval_s), 0)
    imu, stamps_ns, rig = inputs.imu, vision.stamps_ns, inputs.recording.rig
    settings = tracker_settings(rig, options.imu, scale_walk=TRAJECTORY_SCALE_WALK)
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
            T_ok_ok1, cov = vision.Ts_ck_ck1[k - 1], vision.covs_T_ck_ck1[k - 1]
            alarm = watchdog.add(samples, stamp_ns, T_ok_ok1, cov)
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
        span_s = float(stamps_ns[-1] - stamps_ns[0]) / NS
        too_few = TOO_FEW.format(poses=len(stamps_ns), span_s=span_s, window_s=WINDOW_S)
        notes.append(too_few if few else NOTHING_WATCHED)
    start_ns, end_ns = int(stamps_ns[0]), int(stamps_ns[-1])
    return WatchedRecording(inputs, alarms, watched_ns / NS, start_ns, end_ns, notes)


def watch_summary(watched: WatchedRecording) -> dict[str, Any]:
    """Record that `maci2 watch --json` writes."""
    return {
        "recording": watched.inputs.recording.name,
        "odometry": watched.inputs.source.file,
        "version": __version__,
        "start_ns": watched.start_ns,
        "end_ns": watched.end_ns,
        "watched_s": watched.watched_s,
        "alarms": [alarm_record(alarm, watched) for alarm in watched.alarms],
        "notes": watched.notes,
    }


def alarm_record(alarm: Alarm, watched: WatchedRecording) -> dict[str, Any]:
    """One alarm as JSON has it; biases are those of the raw sensor."""
    size, unit = alarm_size(alarm)
    restart = alarm.restart
    gyro, acc = raw_restart_biases(restart, watched)
    std = np.split(np.sqrt(np.diag(restart.cov)), 5)
    names = ("rotation_deg", "velocity", "position_m", "gyro_bias", "acc_bias")
    values = (np.rad2deg(std[0]), *std[1:])
    return {
        "fault": alarm.fault,
        "onset_ns": alarm.onset_ns,
        "stamp_ns": alarm.stamp_ns,
        "sigmas": alarm.sigmas,
        "size": size,
        "unit": unit,
        "restart": {
            "stamp_ns": restart.stamp_ns,
            "T_w_b": restart.T_w_b.tolist(),
            "velocity_w": restart.v_w.tolist(),
            "gravity_b": restart.gravity_b.tolist(),
            "gyro_bias": gyro.tolist(),
            "acc_bias": acc.tolist(),
            "std": {name: part.tolist() for name, part in zip(names, values, strict=True)},
            "cov": restart.cov.tolist(),
        },
    }


def alarm_size(alarm: Alarm) -> tuple[float, str]:
    """Size of a fault and its unit."""
    if alarm.fault == "scale":
        return float(np.expm1(alarm.size[0])) * 100.0, "%"
    if alarm.fault == "tilt":
        return float(np.rad2deg(np.linalg.norm(alarm.size))), "deg"
    return float(np.linalg.norm(alarm.size)), "m"


def raw_restart_biases(restart: RestartState, watched: WatchedRecording) -> tuple[Array, Array]:
    """Biases of the raw sensor, with the part that the IMU model removed."""
    gyro, acc = watched.inputs.imu.removed_bias(restart.stamp_ns - NS, restart.stamp_ns)
    return restart.gyro_bias + gyro, restart.acc_bias + acc


def openvins_state(restart: RestartState, gyro_bias: Array, acc_bias: Array) -> str:
    """The 17 numbers that OpenVINS starts from: time, q_GtoI (JPL, x y z w), p_IinG, v_IinG, bias
    of gyroscope and accelerometer; the argument of `VioManager::initialize_with_gt`."""
    # JPL's quaternion of the rotation from the world is Hamilton's of the rotation to it.
    quat_xyzw = scipy.spatial.transform.Rotation.from_matrix(restart.T_w_b[:3, :3]).as_quat()
    numbers = (*quat_xyzw, *restart.T_w_b[:3, 3], *restart.v_w, *gyro_bias, *acc_bias)
    seconds = f"{restart.stamp_ns // NS}.{restart.stamp_ns % NS:09d}"
    return " ".join([seconds, *(f"{number:.9g}" for number in numbers)]) + "\n"


def write_watch(watched: WatchedRecording, folder: Path) -> list[Path]:
    """Write the summary and a restart state of each alarm; returns their paths."""
    files = {folder / SUMMARY: json_text(watch_summary(watched))}
    for number, alarm in enumerate(watched.alarms):
        biases = raw_restart_biases(alarm.restart, watched)
        path = folder / OPENVINS.format(number=number)
        files[path] = openvins_state(alarm.restart, *biases)
    write_together(files)
    return list(files)


document_fields(__name__)
