"""Simulated recordings with a marker tracked beside the IMU, for measuring noise."""

from dataclasses import replace

import numpy as np

from maci2.geometry import so3_exp
from maci2.imu import datasheet_model
from maci2.simulation import SimulationConfig, simulate
from maci2.simulation.recording import MEMS_NOISE
from maci2.tools.ground_truth.audit_problem import audit_problem
from maci2.tools.ground_truth.capture import open_capture
from maci2.tools.ground_truth.registration import register
from maci2.tools.imu_noise.estimate import NoiseProblem

STD_P, STD_R = 0.001, 0.001
"""Noise of the tracker [m, rad]."""

TRUE_LEVELS = np.array(
    [MEMS_NOISE.density_gyro] * 3
    + [MEMS_NOISE.density_acc] * 3
    + [MEMS_NOISE.walk_gyro, MEMS_NOISE.walk_acc]
)

WRONG_SHEET = replace(
    MEMS_NOISE,
    density_gyro=3.0 * MEMS_NOISE.density_gyro,
    walk_acc=MEMS_NOISE.walk_acc / 3.0,
)


def tracked_recording(kind, seed, duration_s, vibration=0.0, noise=MEMS_NOISE):
    """A recording and noisy poses of its body; `vibration` [m/s^2] of rotors near 70 Hz, with a
    fiftieth of it in the gyroscope."""
    recording = simulate(SimulationConfig(kind=kind, duration_s=duration_s, seed=seed, noise=noise))
    rng = np.random.default_rng((seed, 1))
    imu = recording.imu
    if vibration:
        t_s = (imu.stamps_ns - imu.stamps_ns[0]) / 1e9
        wander = np.cumsum(0.01 * rng.standard_normal(len(t_s)))
        phase = 2.0 * np.pi * rng.uniform(60.0, 80.0) * t_s + wander
        shaken = np.stack([np.sin(phase + shift) for shift in (0.0, 1.0, 2.0)], axis=1)
        imu = replace(
            imu, acc=imu.acc + vibration * shaken, gyro=imu.gyro + 0.02 * vibration * shaken
        )
        recording = replace(recording, imu=imu)
    capture = open_capture(recording)
    rows = slice(None, None, 10)
    p = capture.p_w_m[rows]
    noisy = p + STD_P * rng.standard_normal(p.shape)
    turned = [R @ so3_exp(STD_R * rng.standard_normal(3)) for R in capture.Rs_w_m[rows]]
    capture = replace(
        capture,
        stamps_ns=capture.stamps_ns[rows],
        p_w_m=noisy,
        Rs_w_m=np.array(turned),
        claims=None,
    )
    return recording, capture


def noise_problem(kind, seed, duration_s, vibration=0.0, noise=MEMS_NOISE):
    recording, capture = tracked_recording(kind, seed, duration_s, vibration, noise)
    imu = datasheet_model(recording.imu, recording.rig.imu)
    start = audit_problem(capture, register(capture, recording.imu), imu, recording)
    return NoiseProblem(start.problem, start.states, start.shared, start.least_factor)
