"""Simulated recordings whose ground truth has known faults."""

from dataclasses import dataclass, replace

import numpy as np

from capture_cases import trajectory_of
from maci2.datasets.euroc import DEFAULT_TRUTH
from maci2.geometry import so3_exp
from maci2.geometry.se3 import so3_exp_stack, stack_poses
from maci2.sensors import GroundTruth, Recording
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS


@dataclass(frozen=True)
class TruthFaults:
    """What is wrong with a truth; all zero for an exact one."""

    position_late_ms: float = 0.0
    orientation_late_ms: float = 0.0
    drift_ms_per_min: float = 0.0
    """Of the clock of positions, about the middle of the recording."""

    rotation_deg: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The truth's body in the IMU's."""

    tilt_deg: tuple[float, float] = (0.0, 0.0)
    """Level frame in the truth's world."""

    lever_arm_mm: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Position of what was tracked on the IMU."""

    std_mm: float = 0.0
    """White noise of positions."""

    std_deg: float = 0.0
    """White noise of orientations."""


FAULTY = TruthFaults(
    position_late_ms=6.0,
    drift_ms_per_min=2.0,
    rotation_deg=(0.3, -0.3, 0.264),
    tilt_deg=(0.4, -0.3),
    lever_arm_mm=(12.0, -12.0, 10.6),
)
"""Late by 6 ms and drifting, rotated by 0.5 deg, tilted by 0.5 deg, lever arm of 2 cm."""


PUBLISHED = replace(FAULTY, std_mm=0.5, std_deg=0.03)
"""A smoothed truth, believed once a second: between its rows it is the IMU."""

LOUD = 8.0
"""Noise of the IMU over its data sheet's, so that it decides between rows and keyframes."""


def recording_with(
    faults: TruthFaults,
    seed: int,
    duration_s: float = 40.0,
    name: str = DEFAULT_TRUTH,
    velocities: bool = True,
    every: int = 1,
    kind: str = "handheld",
) -> Recording:
    """A simulated recording with a truth that has these faults."""
    config = SimulationConfig(kind=kind, duration_s=duration_s, seed=seed, bias_acc_std=0.05)
    recording = simulate(config)
    stamps_ns = recording.imu.stamps_ns[2:-2:every]
    rng = np.random.default_rng(seed + 777)
    t = (stamps_ns - config.start_ns) / NS
    middle = t[len(t) // 2]
    late_s = 1e-3 * (faults.position_late_ms + faults.drift_ms_per_min * (t - middle) / 60.0)
    trajectory = trajectory_of(config)
    moved = trajectory.at(t - late_s)
    turned = trajectory.at(t - 1e-3 * faults.orientation_late_ms)
    R_v_w = so3_exp(np.radians([*faults.tilt_deg, 0.0]))
    R_b_m = so3_exp(np.radians(np.array(faults.rotation_deg)))
    Rs = R_v_w @ turned.Rs_w_b @ R_b_m
    Rs = Rs @ so3_exp_stack(np.radians(faults.std_deg) * rng.standard_normal((len(t), 3)))
    p = moved.p_w_b + moved.Rs_w_b @ (1e-3 * np.array(faults.lever_arm_mm))
    p = p @ R_v_w.T + 1e-3 * faults.std_mm * rng.standard_normal((len(t), 3))
    nothing = np.full((len(t), 3), np.nan)
    v = moved.v_w @ R_v_w.T if velocities else nothing
    truth = GroundTruth(stamps_ns, stack_poses(Rs, p), v, nothing, nothing, f"simulated {name}")
    return replace(recording, truths={name: truth})


def exact_truth(recording: Recording) -> GroundTruth:
    """The truth behind a recording, whatever `recording_with` made of it."""
    seed = int(recording.name.rpartition("_")[2])
    kind = recording.name.removeprefix("simulated_").rpartition("_")[0]
    duration_s = (recording.imu.stamps_ns[-1] - recording.imu.stamps_ns[0]) / NS
    config = SimulationConfig(kind=kind, duration_s=duration_s, seed=seed, bias_acc_std=0.05)
    truth = simulate(config).truth()
    assert truth is not None
    return truth


def loud(recording):
    """The recording with an IMU whose accelerometer is noisier, and said to be."""
    rig, samples = recording.rig, recording.imu
    noise = replace(rig.imu, density_acc=LOUD * rig.imu.density_acc)
    std = np.sqrt((LOUD**2 - 1.0) * samples.rate_hz) * rig.imu.density_acc
    extra = np.random.default_rng(len(samples)).standard_normal(samples.acc.shape)
    return replace(
        recording,
        imu=replace(samples, acc=samples.acc + std * extra),
        rig=replace(rig, imu=noise),
    )
