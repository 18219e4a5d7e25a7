"""Made-up streets to drive through: far houses, poles, parked and moving vehicles.

Textures have 300 texels a metre, right for rooms. A street is therefore a model of itself, eight
times smaller (`Scene.scale`): the camera sees the same, and a house has features of a house's size.
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.lie import so3_exp
from maci2.simulation.rendering.image_difficulty import Difficulty
from maci2.simulation.rendering.scene import TEXTURE_SIDE, TEXTURES, Scene, scene_textures
from maci2.types import Array

SCALE = 8.0
CAMERA_HEIGHT, SKY = 1.6, 25.0
"""[m] Of the camera above the road, and of what closes the view above."""

SKY_FACE = 5
"""Face of the room above, seen from within."""

FARTHEST = 60.0
"""[m] From the path to the ends of the world."""

HOUSES, POLES, PARKED, VEHICLES = 40, 40, 24, 8
VEHICLE_HALF = (2.1, 0.9, 0.75)
"""[m]"""

RATE = 0.02
"""[rad/s] Boxes sway as v sin(rate t) / rate: so slowly that vehicles keep their velocity."""

CLEARANCE = 2.8
"""[m] Between the camera's path and any box; of a vehicle's centre at the same time."""

TRIALS = 20
"""Random places tried for each box."""


@dataclass
class _Boxes:
    """Boxes that have been placed so far."""

    centers: list[Array]
    yaws: list[float]
    half_sizes: list[Array]
    velocities: list[Array]

    def add(self, center: Array, yaw: float, half: Array, velocity: Array | None = None) -> None:
        self.centers.append(center)
        self.yaws.append(yaw)
        self.half_sizes.append(half)
        self.velocities.append(np.zeros(3) if velocity is None else velocity)


def street_scene(
    times: Array, path_w: Array, difficulty: Difficulty, rng: np.random.Generator
) -> Scene:
    """A street along a path (m, 3) that is driven at these times (m,) [s], level, z up."""
    road = float(path_w[:, 2].mean()) - CAMERA_HEIGHT
    low, high = path_w.min(axis=0) - FARTHEST, path_w.max(axis=0) + FARTHEST
    low[2], high[2] = road, road + SKY
    boxes = _Boxes([0.5 * (low + high)], [0.0], [0.5 * (high - low)], [np.zeros(3)])
    for _ in range(HOUSES):
        half = rng.uniform([3.0, 3.0, 3.0], [8.0, 8.0, 9.0])
        _stand(boxes, path_w, road, half, (10.0, 30.0), rng)
    for _ in range(POLES):
        _stand(boxes, path_w, road, np.array([0.15, 0.15, rng.uniform(1.0, 3.0)]), (4.0, 9.0), rng)
    for _ in range(PARKED):
        _stand(boxes, path_w, road, np.array(VEHICLE_HALF), (4.0, 7.0), rng)
    for number in range(VEHICLES):
        _drive(boxes, times, path_w, road, oncoming=number % 2 == 0, rng=rng)
    return _as_scene(boxes, difficulty, rng)


def _stand(
    boxes: _Boxes,
    path_w: Array,
    road: float,
    half: Array,
    aside: tuple[float, float],
    rng: np.random.Generator,
) -> None:
    """Place a box beside the path, along it, clear of all of it; or none after some trials."""
    for _ in range(TRIALS):
        k = int(rng.integers(len(path_w) - 1))
        heading = _heading(path_w, k)
        across = np.array([-heading[1], heading[0], 0.0]) * rng.choice([-1.0, 1.0])
        center = path_w[k] + rng.uniform(*aside) * across + rng.uniform(-20.0, 60.0) * heading
        center[2] = road + half[2]
        away = np.linalg.norm(path_w[:, :2] - center[:2], axis=1).min()
        if away > CLEARANCE + np.linalg.norm(half[:2]):
            boxes.add(center, float(np.arctan2(heading[1], heading[0])), half)
            return


def _drive(
    boxes: _Boxes,
    times: Array,
    path_w: Array,
    road: float,
    oncoming: bool,
    rng: np.random.Generator,
) -> None:
    """Place a vehicle that meets the camera, or one that goes ahead of it at a speed of its own."""
    speed = np.linalg.norm(path_w[-1] - path_w[0]) / (times[-1] - times[0])
    for _ in range(TRIALS):
        k = int(rng.integers(len(path_w) - 1))
        heading = _heading(path_w, k)
        across = np.array([-heading[1], heading[0], 0.0])
        if oncoming:
            velocity = -rng.uniform(0.6, 1.2) * speed * heading
            place = path_w[k] + rng.uniform(3.0, 4.5) * across + rng.uniform(5.0, 40.0) * heading
        else:
            velocity = rng.uniform(0.7, 1.2) * speed * heading
            place = path_w[k] - rng.uniform(0.0, 3.5) * across + rng.uniform(12.0, 30.0) * heading
        center = place - velocity * np.sin(RATE * times[k]) / RATE
        there = center + velocity * (np.sin(RATE * times) / RATE)[:, None]
        away = np.linalg.norm((there - path_w)[:, :2], axis=1).min()
        if away > CLEARANCE:
            center[2] = road + VEHICLE_HALF[2]
            yaw = float(np.arctan2(velocity[1], velocity[0]))
            boxes.add(center, yaw, np.array(VEHICLE_HALF), velocity)
            return


def _heading(path_w: Array, k: int) -> Array:
    """Unit direction of travel in the plane."""
    step = (path_w[k + 1] - path_w[k]) * np.array([1.0, 1.0, 0.0])
    return np.asarray(step / max(float(np.linalg.norm(step)), 1e-9), np.float64)


def _as_scene(boxes: _Boxes, difficulty: Difficulty, rng: np.random.Generator) -> Scene:
    count = len(boxes.centers)
    # The first texture is plain at least: the sky.
    plain = max(difficulty.plain_walls, 1.0 / TEXTURES)
    textures, varied = scene_textures(replace(difficulty, plain_walls=plain), rng)
    faces = rng.integers(varied if difficulty.plain_walls == 0.0 else 0, TEXTURES, size=(count, 6))
    faces[0, SKY_FACE] = 0
    return Scene(
        centers=np.array(boxes.centers) / SCALE,
        Rs_w_box=np.array([so3_exp(np.array([0.0, 0.0, yaw])) for yaw in boxes.yaws]),
        half_sizes=np.array(boxes.half_sizes) / SCALE,
        velocities=np.array(boxes.velocities) / SCALE,
        rate=RATE,
        faces=faces,
        varied=varied,
        shades=rng.uniform(0.55, 1.0, size=(count, 6)),
        shifts=rng.uniform(0.0, TEXTURE_SIDE, size=(count, 6, 2)),
        textures=textures,
        scale=SCALE,
    )
