"""Warm-up: each part of the product run once on little data, so that its kernels are compiled or
loaded.

Run before the first sensor speaks or the first solution is timed, and by `maci2 compile`.
"""

import tempfile
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np

from maci2.calibration import calibrate
from maci2.consistency import initialize
from maci2.geometry.se3 import so3_exp_stack
from maci2.imu import ImuMeasurements, raw_model
from maci2.jit import seldom
from maci2.sensors import ImuNoise, ImuSamples
from maci2.sensors.stereo import StereoPair
from maci2.types import GRAVITY_W, NS, Mat4
from maci2.vision import RelativePoses, pose_noise

STEPS = 5
"""Relative poses in a window: as short as a window can be."""


@lru_cache(maxsize=1)
def initialize_once() -> None:
    """Initialize a short window."""
    imu, vision, T_b_c = _short_window()
    initialize(imu, vision, T_b_c)


@lru_cache(maxsize=1)
def calibrate_once() -> None:
    """Calibrate on a short window."""
    imu, vision, _ = _short_window()
    calibrate(imu, vision)


@lru_cache(maxsize=1)
def smooth_once() -> None:
    """Smooth a short window, and append a keyframe to it."""
    from maci2.odometry import FixedLagSmoother

    imu, vision, T_b_c = _short_window()
    first = vision.part(0, STEPS - 1)
    with seldom("initialize"):
        result = initialize(imu, first, T_b_c)
    smoother = FixedLagSmoother(imu, first, result, T_b_c, (1e-5, 1e-3))
    stamp_ns = int(vision.stamps_ns[-1])
    smoother.add(imu, stamp_ns, vision.Ts_ck_ck1[-1], vision.covs_T_ck_ck1[-1])


@lru_cache(maxsize=1)
def track_once() -> None:
    """Track images of noise over a window."""
    from maci2.simulation import SimulationConfig, simulate
    from maci2.vision.odometry import KeyframeTracker

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
    from maci2.simulation import SimulationConfig, simulate
    from maci2.simulation.rendering.images import RenderConfig, render_recording

    with tempfile.TemporaryDirectory() as folder:
        recording = simulate(SimulationConfig(duration_s=2.0))
        small = tuple(
            replace(camera, intrinsics=camera.intrinsics / 8.0, resolution=(94, 60))
            for camera in recording.rig.cameras
        )
        recording = replace(recording, rig=replace(recording.rig, cameras=small))
        render_recording(recording, Path(folder) / "room", RenderConfig(duration_s=0.1))


@lru_cache(maxsize=1)
def _short_window() -> tuple[ImuMeasurements, RelativePoses, Mat4]:
    """Two seconds of an IMU with a camera that swings about two axes, in closed form."""
    t_s, across = np.arange(401)[:, None] / 200.0, np.array([0.3, -0.2, 0.1])
    yaw, roll = 0.6 * np.sin(3.0 * t_s), 0.5 * np.sin(5.0 * t_s)
    yaw_rate, roll_rate = 1.8 * np.cos(3.0 * t_s), 2.5 * np.cos(5.0 * t_s)
    rate_b = np.hstack([roll_rate, yaw_rate * np.sin(roll), yaw_rate * np.cos(roll)])
    Rs_w_b = so3_exp_stack(yaw * np.eye(3)[2]) @ so3_exp_stack(roll * np.eye(3)[0])
    Ts_w_b = np.tile(np.eye(4), (len(t_s), 1, 1))
    Ts_w_b[:, :3, :3], Ts_w_b[:, :3, 3] = Rs_w_b, np.cos(4.0 * t_s) * across
    force_w = -16.0 * np.cos(4.0 * t_s) * across - GRAVITY_W
    force_b = np.einsum("nji,nj->ni", Rs_w_b, force_w)
    stamps_ns = NS + np.arange(len(t_s)) * (NS // 200)
    noise = ImuNoise(2e-4, 2e-3, 2e-5, 3e-3, 200.0)
    imu = raw_model(ImuSamples(stamps_ns, rate_b, force_b), noise)
    T_b_c = np.eye(4)
    T_b_c[:3, :3] = so3_exp_stack(np.array([[1.2, -1.2, 1.2]]))[0]
    Ts_w_c = Ts_w_b[50 : 51 + 50 * STEPS : 50] @ T_b_c
    vision = RelativePoses(
        stamps_ns[50 : 51 + 50 * STEPS : 50].copy(),
        np.linalg.inv(Ts_w_c[:-1]) @ Ts_w_c[1:],
        np.tile(pose_noise(0.05, 0.003), (STEPS, 1, 1)),
    )
    return imu, vision, T_b_c
