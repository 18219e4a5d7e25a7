"""Made-up rooms and streets to look at: boxes with textures, inside a box seen from within.

Textures have 300 texels a metre, right for rooms. A street is therefore a model of itself, eight
times smaller (`Scene.scale`): the camera sees the same, and a house has features of a house's size.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.geometry import so3_exp
from maci2.simulation.rendering.difficulty import Difficulty
from maci2.types import Array

TEXTURE_SIDE = 512
"""[texels]; a power of two, so that every level of the pyramid halves it exactly."""

LEVELS = 8
LEVEL_SIDES = TEXTURE_SIDE >> np.arange(LEVELS)
"""[texels] of each level of a texture's pyramid."""

TEXTURES = 10
TEXELS_PER_METRE = 300.0
CLEARANCE = 0.7
"""[m] Between the camera's path and any box."""

COVER_PERIOD_S = 2.5
COVER_DISTANCE, COVER_HALF_SIZE, COVER_SWAY = 1.8, 0.9, 0.15
"""[m] Of the crate that hides the scene: its centre before the camera, and its motion there."""


class Surfaces(NamedTuple):
    """Appearance of the faces of n boxes."""

    varied: int
    """Textures from here on change from tile to tile; those before are plain or repeat."""

    faces: NDArray[np.int64]
    """(n, 6) texture of each face."""

    shades: Array
    """(n, 6) how bright each face is lit, 0..1."""

    shifts: Array
    """(n, 6, 2) where on the texture each face begins [texels]."""

    textures: NDArray[np.float32]
    """All textures with their pyramids, flat."""


@dataclass(frozen=True)
class Scene:
    """Boxes and their textures. The first box is the room, seen from inside."""

    centers: Array
    """(n, 3) in the world [m] at time zero."""

    Rs_w_box: Array
    """(n, 3, 3)"""

    half_sizes: Array
    """(n, 3) [m]"""

    velocities: Array
    """(n, 3) [m/s] of boxes that sway: position = center + velocity * sin(rate t) / rate."""

    rate: float
    """[rad/s] of all swaying."""

    surfaces: Surfaces

    scale: float = 1.0
    """Metres of the world that are one metre of the scene."""

    cover: tuple[Array, Array] | None = None
    """Times (m,) [s] and places (m, 3) of the last box, where it goes its own way."""

    def centers_at(self, t: float) -> Array:
        """(n, 3) where the boxes are at time t [s]."""
        centers = self.centers + self.velocities * (np.sin(self.rate * t) / self.rate)
        if self.cover is not None:
            times, places = self.cover
            centers[-1] = [np.interp(t, times, places[:, axis]) for axis in range(3)]
        return centers


def with_cover(scene: Scene, times: Array, Ts_w_c: Array, share: float) -> Scene:
    """A crate that goes along with the camera, close before it for a share of every
    `COVER_PERIOD_S` and out of sight for the rest."""
    hides = (times % COVER_PERIOD_S) < share * COVER_PERIOD_S
    sway = COVER_SWAY * np.column_stack([np.sin(2.1 * times), np.cos(1.7 * times)])
    ahead = np.where(hides, COVER_DISTANCE, -20.0)
    p_c = np.column_stack([sway, ahead])
    places = np.einsum("nij,nj->ni", Ts_w_c[:, :3, :3], p_c) + Ts_w_c[:, :3, 3]
    surfaces = scene.surfaces
    # Textured like the surfaces that have the most to see.
    face = np.full((1, 6), TEXTURES - 1 if surfaces.varied < TEXTURES else 0)
    return replace(
        scene,
        centers=np.vstack([scene.centers, places[:1]]),
        Rs_w_box=np.concatenate([scene.Rs_w_box, np.eye(3)[None]]),
        half_sizes=np.vstack([scene.half_sizes, np.full((1, 3), COVER_HALF_SIZE)]),
        velocities=np.vstack([scene.velocities, np.zeros((1, 3))]),
        surfaces=surfaces._replace(
            faces=np.vstack([surfaces.faces, face]),
            shades=np.vstack([surfaces.shades, np.full((1, 6), 0.9)]),
            shifts=np.concatenate([surfaces.shifts, np.zeros((1, 6, 2))]),
        ),
        cover=(times, places),
    )


def random_scene(
    path_w: Array, difficulty: Difficulty, rng: np.random.Generator, boxes: int = 40
) -> Scene:
    """A room around the path (m, 3) with boxes standing clear of it."""
    low, high = path_w.min(axis=0), path_w.max(axis=0)
    margin = rng.uniform(1.5, 3.5, size=(2, 3))
    low, high = low - margin[0], high + margin[1]
    placed = [(0.5 * (low + high), np.eye(3), 0.5 * (high - low))]
    for _ in range(40 * boxes):
        if len(placed) == boxes + 1:
            break
        half = rng.uniform(0.08, 0.6, size=3)
        if rng.random() < 0.4:
            # A bar: long and thin, so that much of the image is near an edge of depth.
            half = np.array([rng.uniform(0.5, 1.5), *rng.uniform(0.02, 0.08, size=2)])
        center = rng.uniform(low, high)
        distance = np.linalg.norm(path_w[::4] - center, axis=1).min()
        if distance > CLEARANCE + np.linalg.norm(half):
            placed.append((center, so3_exp(rng.normal(0.0, 0.7, size=3)), half))
    velocities = np.zeros((len(placed), 3))
    moving = rng.permutation(np.arange(1, len(placed)))[: difficulty.moving_boxes]
    velocities[moving] = rng.normal(0.0, 0.6, size=(len(moving), 3))
    centers, Rs_w_box, half_sizes = map(np.array, zip(*placed, strict=True))
    surfaces = _surfaces(len(placed), difficulty, rng)
    return Scene(centers, Rs_w_box, half_sizes, velocities, 2.0, surfaces)


def _surfaces(
    boxes: int, difficulty: Difficulty, rng: np.random.Generator, sky: bool = False
) -> Surfaces:
    """Random surfaces, plain and repeating ones as the difficulty asks; a `sky` is plain, and
    nothing else where no wall is."""
    plain = max(difficulty.plain_walls, 1.0 / TEXTURES if sky else 0.0)
    flat, varied = [], TEXTURES
    for index in range(TEXTURES):
        share = (index + 0.5) / TEXTURES
        if share < plain:
            image = _plain(rng)
        elif share < plain + difficulty.repetition:
            image = _repeating(rng)
        else:
            image = dead_leaves(rng)
            varied = min(varied, index)
        flat.append(_pyramid(image))
    first = varied if sky and difficulty.plain_walls == 0.0 else 0
    faces = rng.integers(first, TEXTURES, size=(boxes, 6))
    if sky:
        faces[0, SKY_FACE] = 0
    return Surfaces(
        varied,
        faces,
        shades=rng.uniform(0.55, 1.0, size=(boxes, 6)),
        shifts=rng.uniform(0.0, TEXTURE_SIDE, size=(boxes, 6, 2)),
        textures=np.concatenate(flat),
    )


def dead_leaves(rng: np.random.Generator, leaves: int = 900) -> NDArray[np.float32]:
    """Opaque shapes of power-law size over each other: has the edges, corners, flat parts and
    spectrum of photographs. Wraps around at its borders."""
    side = TEXTURE_SIDE
    image = np.full((side, side), rng.uniform(0.3, 0.7), np.float32)
    contrast = rng.uniform(0.2, 1.0)
    smallest = rng.uniform(2.0, 8.0)
    for radius in np.sort(smallest / rng.uniform(0.03, 1.0, size=leaves))[::-1].tolist():
        center = rng.uniform(0, side, size=2)
        grey = min(max(0.5 + contrast * rng.normal(0.0, 0.25), 0.02), 1.0)
        corners = int(rng.integers(3, 7))
        angles = rng.uniform(0.0, 2.0 * np.pi, size=corners)
        angles.sort()
        spokes = radius * rng.uniform(0.5, 1.3, size=corners)
        outline = np.empty((corners, 2))
        np.multiply(np.cos(angles), spokes, out=outline[:, 0])
        np.multiply(np.sin(angles), spokes, out=outline[:, 1])
        round_shape = rng.random() < 0.3
        # A shape across a border is drawn again on the other side.
        reach = float(np.abs(outline).max())
        for du in _wraps(center[0], reach):
            for dv in _wraps(center[1], reach):
                at = center + np.array([du, dv])
                if round_shape:
                    cv2.circle(image, at.astype(int).tolist(), max(int(radius * 0.8), 1), grey, -1)
                else:
                    cv2.fillPoly(image, [np.rint(outline + at).astype(np.int32)], grey)
    grain = cv2.GaussianBlur(
        rng.normal(0.0, 1.0, (side, side)).astype(np.float32), (0, 0), rng.uniform(0.6, 3.0)
    )
    image += rng.uniform(0.0, 0.06) * grain / grain.std()
    return np.clip(cv2.GaussianBlur(image, (0, 0), 0.7), 0.0, 1.0)


def _wraps(at: float, reach: float) -> list[float]:
    shifts = [0.0]
    if at < reach:
        shifts.append(TEXTURE_SIDE)
    if at > TEXTURE_SIDE - reach:
        shifts.append(-TEXTURE_SIDE)
    return shifts


def _plain(rng: np.random.Generator) -> NDArray[np.float32]:
    grain = cv2.GaussianBlur(
        rng.normal(0.0, 1.0, (TEXTURE_SIDE, TEXTURE_SIDE)).astype(np.float32), (0, 0), 8.0
    )
    return (rng.uniform(0.3, 0.8) + 0.01 * grain / grain.std()).astype(np.float32)


def _repeating(rng: np.random.Generator) -> NDArray[np.float32]:
    """Tiles: a checkerboard whose period divides the texture."""
    tile = int(rng.choice([16, 32, 64]))
    at = np.arange(TEXTURE_SIDE) // tile % 2
    dark, bright = np.sort(rng.uniform(0.2, 0.9, size=2))
    image = np.where(at[:, None] ^ at[None, :], bright, dark).astype(np.float32)
    return cv2.GaussianBlur(image, (0, 0), 1.0)


def _pyramid(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each level the mean of 2x2 of the one below, flat one after the other."""
    levels = [image]
    for side in LEVEL_SIDES[1:]:
        levels.append(levels[-1].reshape(side, 2, side, 2).mean(axis=(1, 3)))
    return np.concatenate([level.ravel() for level in levels]).astype(np.float32)


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

STREET_CLEARANCE = 2.8
"""[m] Between the camera's path and any box; of a vehicle's centre at the same time."""

TRIALS = 20
"""Random places tried for each box."""


class _Street:
    """Boxes along a path (m, 3) that is driven at times (m,) [s], level, z up, clear of it."""

    def __init__(self, times: Array, path_w: Array, rng: np.random.Generator) -> None:
        self.times, self.path_w, self.rng = times, path_w, rng
        self.speed = np.linalg.norm(path_w[-1] - path_w[0]) / (times[-1] - times[0])
        self.road = float(path_w[:, 2].mean()) - CAMERA_HEIGHT
        low, high = path_w.min(axis=0) - FARTHEST, path_w.max(axis=0) + FARTHEST
        low[2], high[2] = self.road, self.road + SKY
        # Center, yaw, half size and velocity of each box; the first is what closes the view.
        self.boxes = [(0.5 * (low + high), 0.0, 0.5 * (high - low), np.zeros(3))]

    def place(
        self,
        half: Array,
        aside: tuple[float, float],
        ahead: tuple[float, float] = (-20.0, 60.0),
        speeds: tuple[float, float] = (0.0, 0.0),
        direction: float = 0.0,
    ) -> None:
        """Place a box at random beside the path and along it, clear of all of it; or none after
        some trials.

        A vehicle has a `direction`: 1 goes ahead of the camera at `speeds` over the camera's, on
        its right; -1 meets it, on its left.
        """
        rng, times, path_w = self.rng, self.times, self.path_w
        for _ in range(TRIALS):
            k = int(rng.integers(len(path_w) - 1))
            step = (path_w[k + 1] - path_w[k]) * np.array([1.0, 1.0, 0.0])
            heading = step / max(float(np.linalg.norm(step)), 1e-9)
            across = np.array([-heading[1], heading[0], 0.0])
            if direction == 0.0:
                side, velocity, facing = rng.choice([-1.0, 1.0]), np.zeros(3), heading
                reach = float(np.linalg.norm(half[:2]))
            else:
                velocity = direction * rng.uniform(*speeds) * self.speed * heading
                side, facing, reach = -direction, velocity, 0.0
            center = path_w[k] + side * rng.uniform(*aside) * across
            center = center + rng.uniform(*ahead) * heading
            center = center - velocity * np.sin(RATE * times[k]) / RATE
            center[2] = self.road + half[2]
            there = center + velocity * (np.sin(RATE * times) / RATE)[:, None]
            away = np.linalg.norm((there - path_w)[:, :2], axis=1).min()
            if away > STREET_CLEARANCE + reach:
                yaw = float(np.arctan2(facing[1], facing[0]))
                self.boxes.append((center, yaw, half, velocity))
                return


def street_scene(
    times: Array, path_w: Array, difficulty: Difficulty, rng: np.random.Generator
) -> Scene:
    """A street along a path (m, 3) that is driven at these times (m,) [s], level, z up."""
    street, vehicle = _Street(times, path_w, rng), np.array(VEHICLE_HALF)
    for _ in range(HOUSES):
        street.place(rng.uniform([3.0, 3.0, 3.0], [8.0, 8.0, 9.0]), (10.0, 30.0))
    for _ in range(POLES):
        street.place(np.array([0.15, 0.15, rng.uniform(1.0, 3.0)]), (4.0, 9.0))
    for _ in range(PARKED):
        street.place(vehicle, (4.0, 7.0))
    for number in range(VEHICLES):
        if number % 2 == 0:
            street.place(vehicle, (3.0, 4.5), (5.0, 40.0), (0.6, 1.2), direction=-1.0)
        else:
            street.place(vehicle, (0.0, 3.5), (12.0, 30.0), (0.7, 1.2), direction=1.0)
    centers, yaws, half_sizes, velocities = map(np.array, zip(*street.boxes, strict=True))
    return Scene(
        centers / SCALE,
        np.array([so3_exp(np.array([0.0, 0.0, yaw])) for yaw in yaws]),
        half_sizes / SCALE,
        velocities / SCALE,
        RATE,
        _surfaces(len(centers), difficulty, rng, sky=True),
        SCALE,
    )
