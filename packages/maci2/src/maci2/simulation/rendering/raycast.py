"""Rays cast into a scene of boxes: distance, surface and brightness.

An image is cut into tiles, and every tile first lists the boxes that its rays may meet. Tiles do
not depend on each other, so any number of threads gives the same image.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maci2.jit import kernel
from maci2.simulation.rendering.scene import (
    LEVEL_SIDES,
    LEVELS,
    TEXELS_PER_METRE,
    Scene,
    Surfaces,
)
from maci2.types import Array

Ray = tuple[float, float, float]

compiled = kernel(fastmath=True, nogil=True)
dissolved = kernel(fastmath=True, forceinline=True)
"""Decorator of functions called for every ray: a call would copy all arguments."""

LEVEL_ENDS = np.cumsum(LEVEL_SIDES**2)
LEVEL_STARTS, FLOATS = LEVEL_ENDS - LEVEL_SIDES**2, int(LEVEL_ENDS[-1])
"""Numbers of a texture before each level of its pyramid, and in all of them."""

SIDE = int(LEVEL_SIDES[0])


@dissolved
def _texel(textures: NDArray[np.float32], base: int, level: int, s: float, t: float) -> float:
    """Bilinear sample of one level, wrapping around."""
    side = SIDE >> level
    scale = 1.0 / (1 << level)
    s = s * scale - 0.5
    t = t * scale - 0.5
    i, j = math.floor(s), math.floor(t)
    a, b = s - i, t - j
    i0, j0 = int(i) & (side - 1), int(j) & (side - 1)
    i1, j1 = (i0 + 1) & (side - 1), (j0 + 1) & (side - 1)
    start = base + LEVEL_STARTS[level]
    top = (1.0 - a) * textures[start + j0 * side + i0] + a * textures[start + j0 * side + i1]
    low = (1.0 - a) * textures[start + j1 * side + i0] + a * textures[start + j1 * side + i1]
    return (1.0 - b) * top + b * low


@dissolved
def _tile(texture: int, varied: int, count: int, s: float, t: float) -> int:
    """Index of the texture at (s, t) of a face. From `varied` on every tile takes another one by a
    hash of its place: a wall that repeated itself every 1.7 m would fool any matcher."""
    if texture < varied:
        return texture
    place = 73856093 * math.floor(s / SIDE) ^ 19349663 * math.floor(t / SIDE)
    return varied + (texture + place) % (count - varied)


TILE = 16
"""[px] Side of the tiles."""

SAMPLES = 3
"""Rays per pixel and axis where two surfaces meet."""


class Boxes(NamedTuple):
    """Boxes as a camera sees them, the room first, then the nearest first."""

    in_scene: NDArray[np.int64]
    """(n,) which box of the scene it is."""

    Rs_box_c: Array
    origins: Array
    """(n, 3) the camera in the frame of each box."""

    half_sizes: Array
    gaps: Array
    """(n,) [m] No ray meets the box nearer than this."""


class Picture(NamedTuple):
    """Rays of a camera, the scene about it, and what each ray meets."""

    rays: Array
    """(rows, columns, 3) unit directions in the camera frame."""

    pixel_angle: float
    """[rad] Between neighbouring pixels: textures are filtered to that size."""

    boxes: Boxes
    surfaces: Surfaces
    listed: NDArray[np.int64]
    """(tile rows, tile columns, n) boxes that rays of a tile may meet, as places in `boxes`, the
    nearest first."""

    counts: NDArray[np.int64]
    """(tile rows, tile columns) how many of them."""

    distance: Array
    """(rows, columns) [m]"""

    surface: NDArray[np.int32]
    """(rows, columns) six times the box of the scene, plus its face."""

    brightness: NDArray[np.float32]
    """(rows, columns)"""


def empty_picture(rays: Array, pixel_angle: float, scene: Scene, T_w_c: Array, t: float) -> Picture:
    """The picture of a scene at time t [s], to be filled in by `cast`."""
    Rs_box_w = np.swapaxes(scene.Rs_w_box, 1, 2)
    origins = np.einsum("nij,nj->ni", Rs_box_w, T_w_c[:3, 3] - scene.centers_at(t))
    gaps = np.linalg.norm(np.maximum(np.abs(origins) - scene.half_sizes, 0.0), axis=1)
    gaps[0] = 0.0
    order = np.concatenate([[0], 1 + np.argsort(gaps[1:], kind="stable")])
    Rs_box_c = Rs_box_w @ T_w_c[:3, :3]
    boxes = Boxes(order, Rs_box_c[order], origins[order], scene.half_sizes[order], gaps[order])
    shape = rays.shape[:2]
    tiles = -(-shape[0] // TILE), -(-shape[1] // TILE)
    return Picture(
        rays,
        pixel_angle,
        boxes,
        scene.surfaces,
        listed=np.empty((*tiles, len(gaps)), np.int64),
        counts=np.empty(tiles, np.int64),
        distance=np.empty(shape),
        surface=np.empty(shape, np.int32),
        brightness=np.empty(shape, np.float32),
    )


@dissolved
def _turned(Rs: Array, n: int, ray: Ray) -> Ray:
    return (
        Rs[n, 0, 0] * ray[0] + Rs[n, 0, 1] * ray[1] + Rs[n, 0, 2] * ray[2],
        Rs[n, 1, 0] * ray[0] + Rs[n, 1, 1] * ray[1] + Rs[n, 1, 2] * ray[2],
        Rs[n, 2, 0] * ray[0] + Rs[n, 2, 1] * ray[1] + Rs[n, 2, 2] * ray[2],
    )


@dissolved
def _slab(boxes: Boxes, n: int, i: int, d: float, larger: float) -> tuple[float, float]:
    """Distances at which a ray passes the two planes across axis i of box n."""
    inv = 1.0 / (d if abs(d) > 1e-12 else 1e-12)
    middle, half = -boxes.origins[n, i] * inv, abs((boxes.half_sizes[n, i] + larger) * inv)
    return middle - half, middle + half


@dissolved
def _through(boxes: Boxes, n: int, direction: Ray, larger: float) -> tuple[Ray, Ray]:
    """Distances at which a ray enters and leaves box n, by axis; `larger` [m] on all sides."""
    x0, x1 = _slab(boxes, n, 0, direction[0], larger)
    y0, y1 = _slab(boxes, n, 1, direction[1], larger)
    z0, z1 = _slab(boxes, n, 2, direction[2], larger)
    return (x0, y0, z0), (x1, y1, z1)


@dissolved
def _face(at: Ray, end: float, direction: Ray, beyond: bool) -> int:
    """The face through which a ray goes at `end`, one of `at`."""
    axis = 0 if at[0] == end else 1 if at[1] == end else 2
    d = direction[0] if axis == 0 else direction[1] if axis == 1 else direction[2]
    return 2 * axis + ((d < 0.0) != beyond)


@dissolved
def nearest(
    ray: Ray, boxes: Boxes, listed: NDArray[np.int64], count: int
) -> tuple[float, int, int, Ray]:
    """Distance, box and face that a unit ray of the camera frame meets first among `listed`, and
    the ray's direction in the frame of that box."""
    turned = _turned(boxes.Rs_box_c, 0, ray)
    # The room is seen from within: its far side is what the ray meets.
    _, leave = _through(boxes, 0, turned, 0.0)
    best, box = min(leave[0], leave[1], leave[2]), 0
    face = _face(leave, best, turned, True)
    for k in range(1, count):
        n = listed[k]
        if boxes.gaps[n] > best:
            break
        direction = _turned(boxes.Rs_box_c, n, ray)
        enters, leaves = _through(boxes, n, direction, 0.0)
        enter = max(enters[0], enters[1], enters[2])
        if enter < min(leaves[0], leaves[1], leaves[2]) and 0.0 < enter < best:
            best, box, turned = enter, n, direction
            face = _face(enters, enter, direction, False)
    return best, box, face, turned


@compiled
def _list_boxes(rays: Array, boxes: Boxes, margin: float, listed: NDArray[np.int64]) -> int:
    """List the boxes that rays of one tile may meet; how many.

    No ray is farther than `spread` from the middle one at a distance of 1 m, so that the middle ray
    meets a box that is made larger by as much as they spread at its far end.
    """
    rows, columns = rays.shape[0], rays.shape[1]
    middle = rays[rows // 2, columns // 2]
    least = 1.0
    for v in range(rows):
        for u in range(columns):
            ray = rays[v, u]
            least = min(least, ray[0] * middle[0] + ray[1] * middle[1] + ray[2] * middle[2])
    spread = math.sqrt(max(2.0 - 2.0 * least, 0.0)) + margin
    listed[0] = 0
    count = 1
    for n in range(1, len(boxes.gaps)):
        square, reach = 0.0, 0.0
        for i in range(3):
            square += boxes.origins[n, i] ** 2
            reach += boxes.half_sizes[n, i] ** 2
        far_end = math.sqrt(square) + math.sqrt(reach)
        direction = _turned(boxes.Rs_box_c, n, (middle[0], middle[1], middle[2]))
        enters, leaves = _through(boxes, n, direction, far_end * spread)
        leave = min(leaves[0], leaves[1], leaves[2])
        if max(enters[0], enters[1], enters[2]) < leave and leave > 0.0:
            listed[count] = n
            count += 1
    return count


@dissolved
def _brightness(picture: Picture, distance: float, box: int, face: int, direction: Ray) -> float:
    """Brightness where a ray ends, filtered to the size of the pixel there; `direction` is the
    ray's in the frame of the box."""
    surfaces, boxes = picture.surfaces, picture.boxes
    origin = (boxes.origins[box, 0], boxes.origins[box, 1], boxes.origins[box, 2])
    box = boxes.in_scene[box]
    normal = face // 2
    i, j = (normal + 1) % 3, (normal + 2) % 3
    s = (origin[i] + distance * direction[i]) * TEXELS_PER_METRE + surfaces.shifts[box, face, 0]
    t = (origin[j] + distance * direction[j]) * TEXELS_PER_METRE + surfaces.shifts[box, face, 1]
    slant = max(abs(direction[normal]), 0.05)
    footprint = distance * picture.pixel_angle * TEXELS_PER_METRE / math.sqrt(slant)
    level = min(max(math.log2(max(footprint, 1e-6)), 0.0), LEVELS - 1.001)
    lower = int(level)
    count = len(surfaces.textures) // FLOATS
    base = _tile(surfaces.faces[box, face], surfaces.varied, count, s, t) * FLOATS
    fine = _texel(surfaces.textures, base, lower, s, t)
    coarse = _texel(surfaces.textures, base, lower + 1, s, t)
    return surfaces.shades[box, face] * (fine + (level - lower) * (coarse - fine))


@compiled
def cast(picture: Picture, first: int, last: int) -> None:
    """Fill in what the rays of tile rows from `first` to before `last` meet."""
    rays, boxes = picture.rays, picture.boxes
    rows, columns = rays.shape[0], rays.shape[1]
    for i in range(first, last):
        for j in range(picture.counts.shape[1]):
            v0, v1 = i * TILE, min((i + 1) * TILE, rows)
            u0, u1 = j * TILE, min((j + 1) * TILE, columns)
            listed = picture.listed[i, j]
            count = _list_boxes(rays[v0:v1, u0:u1], boxes, picture.pixel_angle, listed)
            picture.counts[i, j] = count
            for v in range(v0, v1):
                for u in range(u0, u1):
                    ray = rays[v, u, 0], rays[v, u, 1], rays[v, u, 2]
                    d, box, face, turned = nearest(ray, boxes, listed, count)
                    picture.distance[v, u] = d
                    picture.surface[v, u] = 6 * boxes.in_scene[box] + face
                    picture.brightness[v, u] = _brightness(picture, d, box, face, turned)


@compiled
def smooth_edges(picture: Picture, first: int, last: int) -> None:
    """Pixels where two surfaces meet become the mean of 3x3 rays, in the same tile rows."""
    surface = picture.surface
    rows, columns = surface.shape
    for v in range(max(first * TILE, 1), min(last * TILE, rows - 1)):
        for u in range(1, columns - 1):
            here = surface[v, u]
            if (
                surface[v, u - 1] == here
                and surface[v, u + 1] == here
                and surface[v - 1, u] == here
                and surface[v + 1, u] == here
            ):
                continue
            listed = picture.listed[v // TILE, u // TILE]
            count = picture.counts[v // TILE, u // TILE]
            total = 0.0
            for a in range(SAMPLES):
                for b in range(SAMPLES):
                    du = 0.5 * ((a + 0.5) / SAMPLES - 0.5)
                    dv = 0.5 * ((b + 0.5) / SAMPLES - 0.5)
                    ray = _between(picture.rays, v, u, dv, du)
                    d, box, face, turned = nearest(ray, picture.boxes, listed, count)
                    total += _brightness(picture, d, box, face, turned)
            picture.brightness[v, u] = total / (SAMPLES * SAMPLES)


@dissolved
def _between(rays: Array, v: int, u: int, dv: float, du: float) -> Ray:
    """The ray of pixel (v, u) moved by parts of the way across its neighbours."""
    here, left, right = rays[v, u], rays[v, u - 1], rays[v, u + 1]
    above, below = rays[v - 1, u], rays[v + 1, u]
    return (
        here[0] + du * (right[0] - left[0]) + dv * (below[0] - above[0]),
        here[1] + du * (right[1] - left[1]) + dv * (below[1] - above[1]),
        here[2] + du * (right[2] - left[2]) + dv * (below[2] - above[2]),
    )
