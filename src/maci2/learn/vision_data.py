"""Rendered keyframe steps with the exact error of every match: what the network learns from."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maci2.gaussian import Array
from maci2.lie import se3_inv
from maci2.sensors.difficulty import Difficulty
from maci2.sensors.motion import Trajectory
from maci2.sensors.motion_kinds import MotionKind, random_trajectory
from maci2.sensors.render import View
from maci2.sensors.rotations import stack_poses
from maci2.sensors.scene import random_scene
from maci2.sensors.simulate import MEMS_NOISE
from maci2.sensors.simulated_rig import LensKind, simulated_rig
from maci2.vision.rectify import Rectification, rectify
from maci2.vision.step import keyframe, match_step
from maci2.vision.two_frame import Matches

KINDS: tuple[MotionKind, ...] = ("handheld", "drone", "static")
STEPS = 6
"""Keyframe steps drawn in each scene."""

STEP_RANGE_S = (0.01, 0.25)


@dataclass(frozen=True)
class Samples:
    """Matches with their true errors."""

    inputs: NDArray[np.float32]
    """(n, INPUTS) what the network reads."""

    errors: Array
    """(n, 4) of (u1, v1, d0, d1) [px]."""

    scenes: NDArray[np.int64]
    """(n,) which scene each comes from: scenes, not matches, are held out."""

    steps: NDArray[np.int64]
    """(n,) which step of all."""


def random_difficulty(rng: np.random.Generator) -> Difficulty:
    """From a good camera in daylight to a poor one in the dark."""
    return Difficulty(
        light=float(np.exp(rng.uniform(np.log(0.08), np.log(2.0)))),
        read_noise=float(rng.uniform(0.4, 2.5)),
        pattern_noise=float(rng.uniform(0.1, 1.0)),
        lens_blur_px=float(rng.uniform(0.4, 1.2)),
        exposure_s=float(rng.choice([0.0, rng.uniform(0.001, 0.015)])),
        exposure_change=float(rng.choice([0.0, rng.uniform(0.0, 0.2)])),
        vignetting=float(rng.uniform(0.0, 0.5)),
        plain_walls=float(rng.choice([0.0, rng.uniform(0.0, 0.4)])),
        repetition=float(rng.choice([0.0, rng.uniform(0.0, 0.3)])),
        moving_boxes=int(rng.integers(0, 4)),
    )


def render_samples(scenes: int, seed: int, on_scene: Callable[[], None] = lambda: None) -> Samples:
    """Matches of `scenes` random rooms, cameras, lights and motions."""
    parts = []
    for scene in range(scenes):
        for step, (inputs, errors) in enumerate(_scene_steps((seed, scene))):
            count = len(errors)
            parts.append(
                (inputs, errors, np.full(count, scene), np.full(count, scene * STEPS + step))
            )
        on_scene()
    return Samples(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _scene_steps(seed: tuple[int, int]) -> list[tuple[NDArray[np.float32], Array]]:
    rng = np.random.default_rng(seed)
    lens: LensKind = "fisheye" if rng.random() < 0.2 else "pinhole"
    rig = simulated_rig(lens, 20.0, MEMS_NOISE)
    difficulty = random_difficulty(rng)
    trajectory = random_trajectory(KINDS[int(rng.choice(3, p=[0.5, 0.35, 0.15]))], rng)
    times = _times(rng)
    path_w = trajectory.at(np.linspace(times[0], times[-1], 60)).p_w_b
    scene = random_scene(path_w, difficulty, rng)
    views = [View(scene, camera, difficulty, i) for i, camera in enumerate(rig.cameras)]
    rectification = rectify(rig)
    Ts_w_b = _poses(trajectory, times)
    Ts_w_b_later = _poses(trajectory, times + 0.5 * difficulty.exposure_s)
    frames = []
    for t, T_w_b, T_later in zip(times, Ts_w_b, Ts_w_b_later, strict=True):
        gain = float(np.exp(difficulty.exposure_change * rng.standard_normal()))
        pair = [
            view.draw(T_w_b @ camera.T_b_c, t, gain, rng, T_later @ camera.T_b_c)
            for view, camera in zip(views, rig.cameras, strict=True)
        ]
        frames.append(keyframe(rectification, *pair))
    steps = []
    for k in range(STEPS):
        step = match_step(frames[k], [], frames[k + 1], 0.0)
        errors = match_errors(
            step.matches, views[0], rectification,
            Ts_w_b[k] @ rectification.T_b_cr, float(times[k]),
            Ts_w_b[k + 1] @ rectification.T_b_cr, float(times[k + 1]),
        )  # fmt: skip
        steps.append((step.evidence.inputs, errors))
    return steps


def match_errors(
    matches: Matches,
    view: View,
    rectification: Rectification,
    T_w_cr: Array,
    t: float,
    T_w_cr1: Array,
    t1: float,
) -> Array:
    """(n, 4) errors of (u1, v1, d0, d1) [px] against the point of the scene that lies at uv0."""
    focal, center = rectification.focal, np.array(rectification.center)
    rays = np.column_stack([(matches.uv0 - center) / focal, np.ones(len(matches))])
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    hits = view.look(T_w_cr, t, rays)
    T_cr_w = se3_inv(T_w_cr)
    z0 = hits.p_w @ T_cr_w[2, :3] + T_cr_w[2, 3]
    p1 = view.carried(hits, t, T_w_cr1, t1)
    uv1 = p1[:, :2] / p1[:, 2:] * focal + center
    reach = focal * rectification.baseline
    return np.column_stack(
        [matches.uv1 - uv1, matches.disparity0 - reach / z0, matches.disparity1 - reach / p1[:, 2]]
    )


def _times(rng: np.random.Generator) -> Array:
    low, high = np.log(STEP_RANGE_S)
    gaps = np.exp(rng.uniform(low, high, size=STEPS))
    return rng.uniform(0.0, 20.0) + np.concatenate([[0.0], np.cumsum(gaps)])


def _poses(trajectory: Trajectory, times: Array) -> Array:
    motion = trajectory.at(times)
    return stack_poses(motion.Rs_w_b, motion.p_w_b)
