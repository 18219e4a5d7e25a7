"""Segments with feature tracks of known points, noiseless or not."""

from dataclasses import replace

import numpy as np
from segment_cases import segment_of

from helpers import Window, exact_window, simulated_window
from maci2.feature_tracks.simulated_tracks import SimulatedTracker
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.sensors import GroundTruth
from maci2.vision.two_frame import PinholePair
from maci2_lab.baselines import Segment

FOCAL = 460.0


def tracks_of(window: Window, pixel_std: float, seed=0, depths=(1.5, 8.0)) -> FeatureTracks:
    """Tracks of points around a window's true camera."""
    truth = window.truth
    unknown = np.zeros((len(truth.stamps_ns), 3))
    moved = GroundTruth(truth.stamps_ns, truth.Ts_c0_b, unknown, unknown, unknown, "c0")
    camera = PinholePair(FOCAL, (375.5, 239.5), 0.11)
    tracker = SimulatedTracker(camera, (752, 480), truth.T_b_c, pixel_std, depths)
    return tracker.tracks(moved, truth.stamps_ns, (seed,))


def with_tracks(window: Window, pixel_std: float, seed=0) -> Segment:
    tracks = tracks_of(window, pixel_std, seed)
    segment = replace(segment_of(window), find_tracks=lambda: tracks)
    return replace(segment, vision=tracks.relative_poses())


def exact_tracks(kind="drone", seed=0, **choices) -> tuple[Segment, Window]:
    """Noiseless samples and points (to 1e-7 px); biases zero where nothing else is said."""
    choices = {"bias_gyro": (0.0, 0.0, 0.0), "bias_acc": (0.0, 0.0, 0.0), **choices}
    window = exact_window(kind, "midpoint", seed, **choices)
    return with_tracks(window, 1e-7, seed), window


def noisy_tracks(seed=0, kind="drone", pixel_std=1.0, **changes) -> tuple[Segment, Window]:
    """Data-sheet noise, both biases, points with noise."""
    window = simulated_window(kind, seed, **changes)
    return with_tracks(window, pixel_std, seed), window


def moving_points(segment: Segment, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """True rotations and positions of the cameras in c0."""
    Ts_c0_c = window.truth.Ts_c0_b @ segment.T_b_c
    return Ts_c0_c[:, :3, :3], Ts_c0_c[:, :3, 3]
