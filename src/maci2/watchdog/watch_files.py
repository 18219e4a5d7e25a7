"""Results of the watchdog as files: a summary, and restart states as other systems take them."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy

from maci2 import __version__
from maci2.files import json_text, write_together
from maci2.types import NS, Array
from maci2.watchdog.watch import Alarm, RestartState
from maci2.watchdog.watched_recording import WatchedRecording

SUMMARY = "watch.json"
OPENVINS = "openvins_{number}.txt"


def watch_summary(watched: WatchedRecording) -> dict[str, Any]:
    """What `maci2 watch --json` writes."""
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
    std = np.sqrt(np.diag(restart.cov))
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
            "std": {
                "rotation_deg": np.rad2deg(std[0:3]).tolist(),
                "velocity": std[3:6].tolist(),
                "position_m": std[6:9].tolist(),
                "gyro_bias": std[9:12].tolist(),
                "acc_bias": std[12:15].tolist(),
            },
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
    """Biases of the raw sensor: what the IMU model removed included."""
    imu = watched.inputs.imu
    around_ns = (restart.stamp_ns - NS, restart.stamp_ns)
    removed_gyro, removed_acc = imu.removed_bias(*around_ns)
    return restart.gyro_bias + removed_gyro, restart.acc_bias + removed_acc


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
