"""Everything compiled and loaded before the first sensor speaks."""

import cv2
import numpy as np

from maci2.estimation import initialize
from maci2.imu import raw_model
from maci2.pipeline.online.keyframes import KeyframeTracker
from maci2.sensors import ImuSamples, Rig
from maci2.sensors.stereo import StereoPair
from maci2.tracking.zero_motion import at_rest
from maci2.types import NS
from maci2.vision import RelativePoses
from maci2.vision.predicted_rotation import RotationPredictor, no_prediction


def tracked_noise(
    rig: Rig,
    window_s: float,
    keyframes: int,
    predict_rotation: RotationPredictor = no_prediction,
    solve: bool = True,
) -> KeyframeTracker:
    """A tracker that has already seen (and solved) a window, of noise, and forgotten it."""
    tracker = KeyframeTracker(rig, window_s, keyframes, predict_rotation)
    rng = np.random.default_rng(0)
    width, height = rig.cameras[0].resolution
    noise = rng.integers(0, 255, (height, width), dtype=np.uint8)
    image = cv2.GaussianBlur(noise, (0, 0), 2.0).astype(np.uint8)
    # One pair more than keyframes: the one before it is decided by then, however timestamps round.
    spacing_ns = window_s * NS / (keyframes - 1)
    for k in range(keyframes + 1):
        # Noise contradicts any calibration, which three keyframes in a row may not.
        left = np.zeros_like(image) if k % 3 == 2 else image
        tracker.add(StereoPair(NS + round(spacing_ns * k), left, np.roll(left, -8, axis=1)))
    vision = tracker.window()
    assert vision is not None
    if solve:
        _solve_noise(tracker, vision, rig, window_s, rng)
    tracker.clear()
    return tracker


def _solve_noise(
    tracker: KeyframeTracker,
    vision: RelativePoses,
    rig: Rig,
    window_s: float,
    rng: np.random.Generator,
) -> None:
    times_ns = np.arange(0, round(2.0 * (1.0 + window_s) * NS), 5_000_000, dtype=np.int64)
    gyro = 0.01 * rng.standard_normal((len(times_ns), 3))
    acc = np.array([0.0, 0.0, 9.81]) + 0.01 * rng.standard_normal((len(times_ns), 3))
    samples = ImuSamples(times_ns, gyro, acc, "warm-up")
    initialize(raw_model(samples, rig.imu), at_rest(vision), tracker.T_b_c)
