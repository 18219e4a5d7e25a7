"""Rendered keyframes with the exact error of every match: what the network learns from."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maci2.geometry import se3_inv, so3_exp
from maci2.geometry.se3 import stack_poses
from maci2.sensors.stereo import Image
from maci2.simulation.recording import MEMS_NOISE, LensKind, simulated_rig
from maci2.simulation.rendering.difficulty import Difficulty, exposure_gain
from maci2.simulation.rendering.scene import random_scene
from maci2.simulation.rendering.view import View
from maci2.simulation.trajectory import MotionKind, Trajectory, random_trajectory
from maci2.types import Array
from maci2.vision.keyframe import Keyframe, keyframe, match_keyframes
from maci2.vision.rectify import Rectification, rectify
from maci2.vision.relative_poses import PredictedRotation
from maci2.vision.two_frame import Matches, PinholePair

KINDS: tuple[MotionKind, ...] = ("handheld", "drone", "static")
STEPS = 6
"""Relative poses rendered in each scene."""

STEP_RANGE_S = (0.01, 0.3)
"""Shortest and longest time between two keyframes."""

PREDICTION_STD = 0.01
"""[rad] Error of the predicted rotation that matching starts from, per axis: a gyroscope's bias."""


@dataclass(frozen=True)
class RenderedMatches:
    """Matches of two keyframes with their true errors and the true motion."""

    scene: int
    """Scene it comes from: scenes, not matches, are held out."""

    inputs: NDArray[np.float32]
    """(n, INPUTS) what the network reads."""

    errors: Array
    """(n, 4) of (u1, v1, d0, d1) [px]."""

    matches: Matches
    camera: PinholePair
    T_ck_ck1: Array
    """True motion of the rectified left camera."""

    predicted: PredictedRotation | None = None
    """Prediction that matching began from."""


def random_difficulty(rng: np.random.Generator) -> Difficulty:
    """Random difficulty, between a good camera in daylight and a poor one in the dark; every kind
    of degradation is absent in some rooms and strong in others."""

    def sometimes(share: float, low: float, high: float) -> float:
        return float(rng.uniform(low, high)) if rng.random() < share else 0.0

    return Difficulty(
        light=float(np.exp(rng.uniform(np.log(0.03), np.log(2.0)))),
        read_noise=float(rng.uniform(0.4, 2.5)),
        pattern_noise=float(rng.uniform(0.1, 1.0)),
        lens_blur_px=float(rng.uniform(0.4, 1.2)) + sometimes(0.2, 0.0, 2.0),
        exposure_s=sometimes(0.6, 0.001, 0.02),
        exposure_change=sometimes(0.4, 0.0, 0.4),
        vignetting=float(rng.uniform(0.0, 0.5)),
        plain_walls=sometimes(0.5, 0.0, 0.6),
        repetition=sometimes(0.4, 0.0, 0.4),
        moving_boxes=int(sometimes(0.6, 1.0, 9.0)),
        darkness=sometimes(0.25, 0.2, 0.8),
        exposure_jumps=sometimes(0.3, 0.1, 1.0),
        rain=sometimes(0.2, 50.0, 600.0),
    )


def render_matches(
    scenes: int, seed: int, on_scene: Callable[[], None] = lambda: None
) -> list[RenderedMatches]:
    """Matches in `scenes` random rooms, with random cameras, lights and motions."""
    rendered = []
    for scene in range(scenes):
        rendered += _scene_matches(scene, np.random.default_rng((seed, scene)))
        on_scene()
    return rendered


def _scene_matches(scene: int, rng: np.random.Generator) -> list[RenderedMatches]:
    lens: LensKind = "fisheye" if rng.random() < 0.2 else "pinhole"
    rig = simulated_rig(lens, 20.0, MEMS_NOISE)
    difficulty = random_difficulty(rng)
    trajectory = random_trajectory(KINDS[int(rng.choice(3, p=[0.5, 0.35, 0.15]))], rng)
    times = _times(rng)
    path_w = trajectory.at(np.linspace(times[0], times[-1], 60)).p_w_b
    room = random_scene(path_w, difficulty, rng)
    views = [View(room, camera, difficulty, i) for i, camera in enumerate(rig.cameras)]
    rectification = rectify(rig)
    frames = [
        keyframe(rectification, *_render_pair(views, trajectory, t, rng)) for t in times.tolist()
    ]
    return [
        _matches(
            scene, frames[k : k + 2], views[0], rectification, trajectory, times[k : k + 2], rng
        )
        for k in range(STEPS)
        if not frames[k].blank and not frames[k + 1].blank
    ]


def _render_pair(
    views: list[View], trajectory: Trajectory, t: float, rng: np.random.Generator
) -> list[Image]:
    difficulty = views[0].difficulty
    gain = exposure_gain(difficulty, rng)
    T_w_b, T_w_b_later = _poses(trajectory, np.array([t, t + 0.5 * difficulty.shutter_s]))
    return [
        view.render(T_w_b @ view.camera.T_b_c, t, gain, rng, T_w_b_later @ view.camera.T_b_c)
        for view in views
    ]


def _matches(
    scene: int,
    frames: list[Keyframe],
    view: View,
    rectification: Rectification,
    trajectory: Trajectory,
    times: Array,
    rng: np.random.Generator,
) -> RenderedMatches:
    Ts_w_cr = _poses(trajectory, times) @ rectification.T_b_cr
    # The rendered rig is exact: no median of row errors is to be taken out.
    first = replace(frames[0], row_offset=0.0)
    T_ck_ck1 = se3_inv(Ts_w_cr[0]) @ Ts_w_cr[1]
    R_ck_ck1 = so3_exp(PREDICTION_STD * rng.standard_normal(3)) @ T_ck_ck1[:3, :3]
    predicted = PredictedRotation(R_ck_ck1, PREDICTION_STD**2 * np.eye(3))
    found = match_keyframes(first, [], frames[1], rectification, predicted)
    errors = match_errors(
        found.matches, view, rectification, Ts_w_cr[0], times[0], Ts_w_cr[1], times[1]
    )
    return RenderedMatches(
        scene, found.features.inputs, errors, found.matches, rectification, T_ck_ck1, predicted
    )


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
