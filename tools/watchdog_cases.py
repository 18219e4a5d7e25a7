"""How many injected faults of an odometry the watchdog finds, and how promptly.

    python tools/watchdog_cases.py EUROC [CASES]

puts a jump of 10 cm, a tilt by 2 deg, a stall and a change of scale by 5 % into DROID's
trajectories of V1_02 and MH_04 at random moments of motion (CASES of each kind, half of them on
each recording; 100 unless told), and counts alarms on all nine recordings as they are
(docs/research/tracking.md).
"""

import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np

from maci2.errors import DatasetError
from maci2_lab.experiments.methods import DROID
from maci2.geometry import so3_exp
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.track_recording import keyframes_of
from maci2.odometry.settings import TRAJECTORY_SCALE_WALK
from maci2.odometry.settings import window_start
from maci2.odometry.settings import tracker_settings
from maci2.types import Array
from maci2.vision import RelativePoses
from maci2.tools.watchdog import Watchdog

RECORDINGS = (
    "MH_01_easy", "MH_02_easy", "MH_03_medium", "MH_05_difficult", "V1_01_easy", "V2_01_easy",
    "V2_03_difficult", "V1_02_medium", "MH_04_difficult",
)  # fmt: skip
DEGRADED = ("V1_02_medium", "MH_04_difficult")
FAULTS = ("jump", "tilt", "stall", "scale")

LATEST = {"jump": 10, "tilt": 10, "stall": 10, "scale": 50}
"""Keyframes of 0.2 s for which an alarm is waited."""

SLOWEST = 0.1
"""[m/s] Faults begin at this speed or above."""


def faulty(Ts: Array, at: int, fault: str, rng: np.random.Generator) -> Array:
    """Relative poses with a fault that begins at one of them."""
    Ts = Ts.copy()
    direction = rng.standard_normal(3)
    direction /= np.linalg.norm(direction)
    if fault == "jump":
        Ts[at, :3, 3] += 0.1 * direction
    elif fault == "tilt":
        Ts[at, :3, :3] = Ts[at, :3, :3] @ so3_exp(np.deg2rad(2.0) * direction)
    elif fault == "stall":
        Ts[at:] = np.eye(4)
    else:
        Ts[at:, :3, 3] *= rng.choice([0.95, 1.05])
    return Ts


def advanced(dog: Watchdog, inputs: Inputs, vision: RelativePoses, k: int) -> int | None:
    """Keyframe k; the timestamp at which the fault is said to have begun, where there is one."""
    stamps_ns, stamp_ns = vision.stamps_ns, int(vision.stamps_ns[k])
    try:
        if not dog.is_watching:
            first = window_start(stamps_ns, k)
            if first is not None:
                samples = inputs.imu.between(int(stamps_ns[first]), stamp_ns)
                dog.start(samples, vision.part(first, k))
            return None
        samples = inputs.imu.between(dog.needed_from_ns, stamp_ns)
        alarm = dog.add(samples, stamp_ns, vision.Ts_ck_ck1[k - 1], vision.covs_T_ck_ck1[k - 1])
    except DatasetError:
        dog.reset()
        return None
    return None if alarm is None else alarm.onset_ns


def delays(
    dog: Watchdog, inputs: Inputs, vision: RelativePoses, at: int, rng: np.random.Generator
) -> dict[str, float]:
    """Fault -> time until its alarm [s]; infinite where there was none in time."""
    found = {}
    for fault in FAULTS:
        watching, after = deepcopy(dog), np.inf
        degraded = replace(vision, Ts_ck_ck1=faulty(vision.Ts_ck_ck1, at, fault, rng))
        for k in range(at + 1, min(at + 1 + LATEST[fault], len(vision.stamps_ns))):
            if advanced(watching, inputs, degraded, k) is not None:
                after = float(vision.stamps_ns[k] - vision.stamps_ns[at]) / 1e9
                break
        found[fault] = after
    return found


def watch(path: Path, cases: int) -> tuple[int, list[dict[str, float]]]:
    """False alarms along a recording, and delays of `cases` faults of each kind."""
    options = RunOptions(vision=DROID, vision_frame="rectified", noise_as_stated=True)
    inputs = open_inputs(path, options)
    vision = inputs.vision.motion(keyframes_of(inputs, inputs.measurable_ns(), 0.2), 0)
    rig = inputs.recording.rig
    settings = tracker_settings(rig, options.imu, scale_walk=TRAJECTORY_SCALE_WALK)
    dog = Watchdog(inputs.T_b_c, *settings)
    rng = np.random.default_rng(0)
    speeds = np.linalg.norm(vision.Ts_ck_ck1[:, :3, 3], axis=1) / (np.diff(vision.stamps_ns) / 1e9)
    moving = np.flatnonzero(speeds > SLOWEST)
    moving = moving[(moving > 50) & (moving < len(speeds) - LATEST["scale"])]
    chosen = set(rng.choice(moving, min(cases, len(moving)), replace=False).tolist())
    alarms, found = 0, []
    for k in range(1, len(vision.stamps_ns)):
        if k - 1 in chosen and dog.is_watching:
            found.append(delays(dog, inputs, vision, k - 1, rng))
        alarms += advanced(dog, inputs, vision, k) is not None
    return alarms, found


def main(root: Path, cases: int) -> None:
    for name in RECORDINGS:
        alarms, found = watch(root / name, cases // 2 if name in DEGRADED else 0)
        print(f"{name}: {alarms} false alarms", flush=True)
        for fault in FAULTS if found else ():
            after = np.array([one[fault] for one in found])
            within = ", ".join(
                f"{(after <= limit).sum()} within {limit:g} s"
                for limit in (2.0, 4.0, 6.0, 10.0)
                if limit <= 0.2 * LATEST[fault]
            )
            print(f"{name}, {fault}: {len(found)} cases, found {within}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100)
