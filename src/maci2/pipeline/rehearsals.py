"""Each part of the product run once on little data: all its kernels compiled, or loaded.

Run before the first sensor speaks or the first solution is timed, and by `maci2 compile`.
"""

import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np

from maci2.calibration import calibrate
from maci2.compile import are_interpreted, fill_aside, seldom
from maci2.compile.mode import jobs_to_fill_aside
from maci2.estimation import initialize
from maci2.imu import ImuMeasurements, raw_model
from maci2.sensors.stereo import StereoPair
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS, Mat4
from maci2.vision import RelativePoses, pose_noise, poses_from_truth

STEPS = 5
"""Relative poses in a window: as short as a window can be."""


def warm_up(*jobs: str) -> None:
    """Load what jobs need, so that no time that is measured holds it.

    Where kernels are interpreted for want of compiled ones, another process compiles from now on.
    """
    if are_interpreted():
        fill_aside(jobs_to_fill_aside())
        return
    for job in jobs:
        _REHEARSALS[job]()


@lru_cache(maxsize=1)
def initialize_once() -> None:
    """Initialize a short simulated window."""
    imu, vision, T_b_c = _short_window()
    initialize(imu, vision, T_b_c)


@lru_cache(maxsize=1)
def calibrate_once() -> None:
    """Calibrate on a short simulated window."""
    imu, vision, _ = _short_window()
    calibrate(imu, vision)


@lru_cache(maxsize=1)
def smooth_once() -> None:
    """Smooth a short simulated window as a chain, and append a keyframe to it."""
    from maci2.tracking import FixedLagSmoother

    imu, vision, T_b_c = _short_window()
    first = vision.part(0, STEPS - 1)
    with seldom("initialize"):
        result = initialize(imu, first, T_b_c)
    smoother = FixedLagSmoother(T_b_c, 1e-5, 1e-3)
    smoother.start(imu, first, result)
    stamp_ns = int(vision.stamps_ns[-1])
    smoother.add(imu, stamp_ns, vision.Ts_ck_ck1[-1], vision.covs_T_ck_ck1[-1])


@lru_cache(maxsize=1)
def track_once() -> None:
    """Track images of noise over a window."""
    from maci2.pipeline.online.initializer import KeyframeTracker

    rig = simulate(SimulationConfig(duration_s=1.0)).rig
    tracker = KeyframeTracker(rig, 2.0, STEPS)
    width, height = rig.cameras[0].resolution
    noise = np.random.default_rng(0).integers(0, 255, (height, width), dtype=np.uint8)
    image = cv2.GaussianBlur(noise, (0, 0), 2.0).astype(np.uint8)
    for k in range(STEPS):
        # Noise contradicts any calibration, which three keyframes in a row may not.
        left = np.zeros_like(image) if k % 3 == 2 else image
        stamp_ns = NS + round(2.0 * NS / (STEPS - 1) * k)
        tracker.add(StereoPair(stamp_ns, left, np.roll(left, -8, axis=1)))
    tracker.so_far()


@lru_cache(maxsize=1)
def render_once() -> None:
    """Render a few stereo pairs and forget them."""
    from maci2.simulation.rendering.recording import RenderConfig, render_recording

    with tempfile.TemporaryDirectory() as folder:
        recording = simulate(SimulationConfig(duration_s=2.0))
        small = tuple(
            replace(camera, intrinsics=camera.intrinsics / 8.0, resolution=(94, 60))
            for camera in recording.rig.cameras
        )
        recording = replace(recording, rig=replace(recording.rig, cameras=small))
        render_recording(recording, Path(folder) / "room", RenderConfig(duration_s=0.1))


_REHEARSALS = {
    "initialize": initialize_once,
    "calibrate": calibrate_once,
    "odometry": track_once,
    "render": render_once,
    "chain": smooth_once,
}


@lru_cache(maxsize=1)
def _short_window() -> tuple[ImuMeasurements, RelativePoses, Mat4]:
    recording = simulate(SimulationConfig(duration_s=2.0))
    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    assert truth is not None
    # Kernels are compiled for arrays of one kind, and every other slice is of another.
    stamps_ns = recording.camera_stamps_ns[0][4 : 5 + 5 * STEPS : 5].copy()
    vision = poses_from_truth(truth, stamps_ns, T_b_c, pose_noise(0.05, 0.003), (0,))
    imu = raw_model(recording.imu, recording.rig.imu)
    return imu.between(int(stamps_ns[0]), int(stamps_ns[-1])), vision, T_b_c
