"""Speed of vision: the two-frame pose beside numpy and scipy, the network, odometry, renderer."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from scipy.optimize import least_squares

from maci2.datasets import open_recording
from maci2.datasets.frames import stereo_frames
from maci2.geometry import se3_exp, se3_inv
from maci2.pipeline.vision_sources import rotation_predictor
from maci2.simulation import SimulationConfig, simulate
from maci2.simulation.rendering.images import RenderConfig, render_recording
from maci2.types import Array
from maci2.vision.covariance import INPUTS, MatchFeatures
from maci2.vision.odometry import StereoOdometry, even_keyframes, measure_all
from maci2.vision.two_frame import (
    MAX_ITERATIONS,
    ROBUST_FACTOR,
    ROBUST_NORM,
    STEP_TOLERANCE,
    Matches,
    PinholePair,
    points,
)

BENCH_CAMERA = PinholePair(460.0, (375.5, 239.5), 0.11)
RENDERED_S = 2.0


def random_matches(count: int, seed: int = 0) -> tuple[Matches, Array, Array]:
    """Noisy matches of a moving camera, their covariances and the true motion."""
    rng = np.random.default_rng(seed)
    T_ck_ck1 = se3_exp(np.array([0.05, -0.02, 0.08, 0.02, 0.04, -0.01]))
    uv0 = rng.uniform([20.0, 20.0], [730.0, 460.0], size=(count, 2))
    disparity0 = rng.uniform(6.0, 40.0, size=count)
    T_ck1_ck = se3_inv(T_ck_ck1)
    p1 = points(uv0, disparity0, BENCH_CAMERA) @ T_ck1_ck[:3, :3].T + T_ck1_ck[:3, 3]
    seen = np.column_stack(
        [
            p1[:, :2] / p1[:, 2:] * BENCH_CAMERA.focal + BENCH_CAMERA.center,
            disparity0,
            BENCH_CAMERA.focal * BENCH_CAMERA.baseline / p1[:, 2],
        ]
    )
    std = rng.uniform(0.05, 0.3, size=(count, 4))
    seen += std * rng.standard_normal((count, 4))
    covs = std[:, :, None] ** 2 * np.eye(4)
    return Matches(uv0, seen[:, :2], seen[:, 2], seen[:, 3]), covs, T_ck_ck1


def residual_covariances(T: Array, matches: Matches, covs: Array, p0: Array, p1: Array) -> Array:
    """(n, 3, 3) of p0 - T p1, all matches at once."""
    by_pixel = np.zeros((len(p0), 3, 4))
    by_pixel[:, :, :2] = -T[:3, :2] * (p1[:, 2] / BENCH_CAMERA.focal)[:, None, None]
    by_pixel[:, :, 2] = -p0 / matches.disparity0[:, None]
    by_pixel[:, :, 3] = p1 @ T[:3, :3].T / matches.disparity1[:, None]
    return np.asarray(by_pixel @ covs @ np.swapaxes(by_pixel, 1, 2))


def numpy_pose(matches: Matches, covs: Array) -> tuple[Array, Array]:
    """Pose and covariance as `two_frame_pose` finds them, in whole arrays."""
    p0 = points(matches.uv0, matches.disparity0, BENCH_CAMERA)
    p1 = points(matches.uv1, matches.disparity1, BENCH_CAMERA)
    T, H = np.eye(4), np.eye(6)
    for _ in range(MAX_ITERATIONS):
        q = p1 @ T[:3, :3].T + T[:3, 3]
        r = p0 - q
        W = np.linalg.inv(residual_covariances(T, matches, covs, p0, p1))
        J = np.zeros((len(q), 3, 6))
        J[:, range(3), range(3)] = -1.0
        J[:, 0, 4], J[:, 0, 5] = -q[:, 2], q[:, 1]
        J[:, 1, 3], J[:, 1, 5] = q[:, 2], -q[:, 0]
        J[:, 2, 3], J[:, 2, 4] = -q[:, 1], q[:, 0]
        chi2 = np.einsum("ni,nij,nj->n", r, W, r)
        JtW = np.swapaxes(J, 1, 2) @ W / (1.0 + chi2 / ROBUST_NORM**2)[:, None, None]
        H = (JtW @ J).sum(axis=0)
        step = np.linalg.solve(H, -np.einsum("nij,nj->i", JtW, r))
        T = se3_exp(step) @ T
        if step @ H @ step < STEP_TOLERANCE**2:
            break
    return T, np.asarray(ROBUST_FACTOR * np.linalg.inv(H))


def scipy_pose(matches: Matches, covs: Array) -> Array:
    """The same minimum by scipy: weights of the start, Cauchy loss on each component."""
    p0 = points(matches.uv0, matches.disparity0, BENCH_CAMERA)
    p1 = points(matches.uv1, matches.disparity1, BENCH_CAMERA)
    S = residual_covariances(np.eye(4), matches, covs, p0, p1)
    whitening = np.linalg.inv(np.linalg.cholesky(S))

    def residuals(xi: Array) -> Array:
        T = se3_exp(xi)
        r = p0 - p1 @ T[:3, :3].T - T[:3, 3]
        return np.einsum("nij,nj->ni", whitening, r).ravel()

    return se3_exp(least_squares(residuals, np.zeros(6), loss="cauchy", f_scale=ROBUST_NORM).x)


def network_inputs(count: int) -> MatchFeatures:
    """MatchFeatures of `count` matches, any numbers."""
    inputs = np.random.default_rng(0).standard_normal((count, INPUTS)).astype(np.float32)
    return MatchFeatures(inputs, np.ones((count, 3)), np.ones((count, 3)))


@dataclass(frozen=True)
class ImageSpeed:
    """Stereo images processed and rendered per second."""

    frames_a_second: float
    """Taken in by odometry, wall time on all cores."""

    frame_ms: float
    """Processor time of odometry for one of them, all threads together."""

    rendered_a_second: float
    """Rendered pairs, wall time on all cores."""

    def text(self) -> str:
        return (
            f"stereo images of 752x480, keyframes at 5 Hz: odometry {self.frames_a_second:.0f} "
            f"frames a second of wall time, {self.frame_ms:.1f} ms of processor time a frame; "
            f"renderer {self.rendered_a_second:.1f} pairs a second of wall time"
        )


def image_speed() -> ImageSpeed:
    """Render images, then measure all relative poses of their keyframes."""
    with tempfile.TemporaryDirectory() as folder:
        recording = simulate(SimulationConfig(duration_s=RENDERED_S))
        path = Path(folder) / "rendered"
        # Once to compile, once to time.
        render_recording(recording, Path(folder) / "first", RenderConfig(duration_s=0.1))
        began = perf_counter()
        render_recording(recording, path, RenderConfig())
        rendered = len(recording.camera_stamps_ns[0]) / (perf_counter() - began)
        recording = open_recording(path)
        frames, predictor = stereo_frames(recording), rotation_predictor(recording)
        keyframes_ns = even_keyframes(frames.stamps_ns, 0.2)
        StereoOdometry(frames, recording.rig, predict_rotation=predictor).relative_pose(0, 1)
        odometry = StereoOdometry(frames, recording.rig, predict_rotation=predictor)
        began, began_cpu = perf_counter(), process_time()
        measure_all(odometry, keyframes_ns)
        wall_s, cpu_s = perf_counter() - began, process_time() - began_cpu
        return ImageSpeed(len(frames) / wall_s, 1e3 * cpu_s / len(frames), rendered)
