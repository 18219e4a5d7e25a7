"""Warm-up of the baselines, since compiling may exceed the time limit of a window."""

from functools import lru_cache

import numpy as np

from maci2.baselines import INITIALIZERS, Segment
from maci2.imu import datasheet_model
from maci2.simulation import SimulationConfig, simulate
from maci2.vision import pose_noise, poses_from_truth

COMPILED = ("maci2", "maci2-paper", "orbslam3", "analytic", "vins", "kimera")
"""Methods that together call every kernel."""


@lru_cache(maxsize=1)
def compare_once() -> None:
    """Initialize a short simulated window by every method."""
    recording = simulate(SimulationConfig(duration_s=3.0))
    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    assert truth is not None
    stamps_ns = recording.camera_stamps_ns[0][np.arange(2, 52, 5)]
    vision = poses_from_truth(truth, stamps_ns, T_b_c, pose_noise(0.05, 0.003), (0,))
    imu = datasheet_model(recording.imu, recording.rig.imu)
    imu = imu.between(int(stamps_ns[0]), int(stamps_ns[-1]))
    segment = Segment(imu, imu, imu, vision, T_b_c)
    for name in COMPILED:
        INITIALIZERS[name](segment)
