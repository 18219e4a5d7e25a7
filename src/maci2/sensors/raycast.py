"""Casting rays into a scene of boxes: distance, surface and brightness, in parallel over rows."""

import math

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from maci2.gaussian import Array
from maci2.sensors.scene import LEVELS, TEXELS_PER_METRE, TEXTURE_SIDE, texture_floats

FLOATS = texture_floats()
LEVEL_START = np.concatenate(
    [[0], np.cumsum([(TEXTURE_SIDE >> level) ** 2 for level in range(LEVELS)])[:-1]]
).astype(np.int64)
SIDE = TEXTURE_SIDE
RUN = 32
"""Neighbouring pixels that share one list of boxes in sight."""

SAMPLES = 3
"""Rays per pixel and axis where two surfaces meet."""


@njit(cache=True, fastmath=True)
def _turn(Rs_box_c: Array, n: int, ray: Array, axis: Array) -> None:
    """The ray's direction in the frame of box n."""
    for i in range(3):
        axis[i] = (
            Rs_box_c[n, i, 0] * ray[0] + Rs_box_c[n, i, 1] * ray[1] + Rs_box_c[n, i, 2] * ray[2]
        )


@njit(cache=True, fastmath=True)
def _in_sight(
    rays: Array, Rs_box_c: Array, origins: Array, half_sizes: Array, listed: NDArray[np.int64]
) -> int:
    """List the boxes that a run of neighbouring rays may meet; how many."""
    middle = rays[len(rays) // 2]
    spread = 1.0
    for ray in (rays[0], rays[-1]):
        spread = min(spread, ray[0] * middle[0] + ray[1] * middle[1] + ray[2] * middle[2])
    spread_angle = math.acos(max(min(spread, 1.0), -1.0)) + 1e-3
    axis = np.empty(3)
    count = 0
    for n in range(len(half_sizes)):
        square = origins[n, 0] ** 2 + origins[n, 1] ** 2 + origins[n, 2] ** 2
        reach = half_sizes[n, 0] ** 2 + half_sizes[n, 1] ** 2 + half_sizes[n, 2] ** 2
        if n > 0 and square > reach:
            _turn(Rs_box_c, n, middle, axis)
            ahead = -(origins[n, 0] * axis[0] + origins[n, 1] * axis[1] + origins[n, 2] * axis[2])
            angle = math.acos(max(min(ahead / math.sqrt(square), 1.0), -1.0))
            if angle > spread_angle + math.asin(math.sqrt(reach / square)):
                continue
        listed[count] = n
        count += 1
    return count


@njit(cache=True, fastmath=True)
def nearest(
    ray: Array,
    Rs_box_c: Array,
    origins: Array,
    half_sizes: Array,
    listed: NDArray[np.int64],
    axis: Array,
) -> tuple[float, int, int]:
    """Distance, box and face that a unit ray of the camera frame meets first among `listed`.

    `origins` (n, 3) is the camera in the frame of each box. `axis` comes back as the ray's
    direction in the frame of the box that was met.
    """
    best, box, face = math.inf, 0, 0
    for n in listed:
        _turn(Rs_box_c, n, ray, axis)
        enter, leave = -math.inf, math.inf
        enter_face, leave_face = 0, 0
        for i in range(3):
            d = axis[i]
            if abs(d) < 1e-12:
                d = 1e-12
            inv = 1.0 / d
            a = (-half_sizes[n, i] - origins[n, i]) * inv
            b = (half_sizes[n, i] - origins[n, i]) * inv
            near_face, far_face = 2 * i, 2 * i + 1
            if a > b:
                a, b = b, a
                near_face, far_face = far_face, near_face
            if a > enter:
                enter, enter_face = a, near_face
            if b < leave:
                leave, leave_face = b, far_face
        if n == 0:
            # The room is seen from within: its far side is what the ray meets.
            best, face = leave, leave_face
        elif enter < leave and 0.0 < enter < best:
            best, box, face = enter, n, enter_face
    _turn(Rs_box_c, box, ray, axis)
    return best, box, face


@njit(cache=True, fastmath=True)
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
    start = base + LEVEL_START[level]
    top = (1.0 - a) * textures[start + j0 * side + i0] + a * textures[start + j0 * side + i1]
    low = (1.0 - a) * textures[start + j1 * side + i0] + a * textures[start + j1 * side + i1]
    return (1.0 - b) * top + b * low


@njit(cache=True)
def _tile(texture: int, varied: int, count: int, s: float, t: float) -> int:
    """Which texture lies at (s, t) of a face. From `varied` on every tile takes another one by a
    hash of its place: a wall that repeated itself every 1.7 m would fool any matcher."""
    if texture < varied:
        return texture
    place = 73856093 * math.floor(s / SIDE) ^ 19349663 * math.floor(t / SIDE)
    return varied + (texture + place) % (count - varied)


@njit(cache=True, fastmath=True)
def shade(
    distance: float,
    box: int,
    face: int,
    origins: Array,
    axis: Array,
    pixel_angle: float,
    varied: int,
    faces: NDArray[np.int64],
    shades: Array,
    shifts: Array,
    textures: NDArray[np.float32],
) -> float:
    """Brightness where a ray ends, filtered to the size of the pixel there."""
    normal = face // 2
    i, j = (normal + 1) % 3, (normal + 2) % 3
    s = (origins[box, i] + distance * axis[i]) * TEXELS_PER_METRE + shifts[box, face, 0]
    t = (origins[box, j] + distance * axis[j]) * TEXELS_PER_METRE + shifts[box, face, 1]
    slant = max(abs(axis[normal]), 0.05)
    footprint = distance * pixel_angle * TEXELS_PER_METRE / math.sqrt(slant)
    level = min(max(math.log2(max(footprint, 1e-6)), 0.0), LEVELS - 1.001)
    lower = int(level)
    base = _tile(faces[box, face], varied, len(textures) // FLOATS, s, t) * FLOATS
    fine = _texel(textures, base, lower, s, t)
    coarse = _texel(textures, base, lower + 1, s, t)
    return shades[box, face] * (fine + (level - lower) * (coarse - fine))


@njit(cache=True, fastmath=True, parallel=True)
def cast(
    rays: Array,
    Rs_box_c: Array,
    origins: Array,
    half_sizes: Array,
    pixel_angle: float,
    varied: int,
    faces: NDArray[np.int64],
    shades: Array,
    shifts: Array,
    textures: NDArray[np.float32],
) -> tuple[Array, NDArray[np.int32], NDArray[np.float32]]:
    """Distance [m], surface and brightness of every ray (rows, columns, 3) of one camera.

    `origins` (n, 3) is the camera in the frame of each box.
    """
    rows, columns = rays.shape[0], rays.shape[1]
    distance = np.empty((rows, columns))
    surface = np.empty((rows, columns), dtype=np.int32)
    brightness = np.empty((rows, columns), dtype=np.float32)
    for v in prange(rows):
        axis = np.empty(3)
        listed = np.empty(len(half_sizes), dtype=np.int64)
        count = 0
        for u in range(columns):
            if u % RUN == 0:
                run = rays[v, u : min(u + RUN, columns)]
                count = _in_sight(run, Rs_box_c, origins, half_sizes, listed)
            d, box, face = nearest(rays[v, u], Rs_box_c, origins, half_sizes, listed[:count], axis)
            distance[v, u] = d
            surface[v, u] = 6 * box + face
            brightness[v, u] = shade(
                d, box, face, origins, axis, pixel_angle, varied, faces, shades, shifts, textures
            )
    return distance, surface, brightness


@njit(cache=True, fastmath=True, parallel=True)
def smooth_edges(
    brightness: NDArray[np.float32],
    surface: NDArray[np.int32],
    rays: Array,
    Rs_box_c: Array,
    origins: Array,
    half_sizes: Array,
    pixel_angle: float,
    varied: int,
    faces: NDArray[np.int64],
    shades: Array,
    shifts: Array,
    textures: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Pixels where two surfaces meet, averaged over 3x3 rays."""
    rows, columns = surface.shape
    out = brightness.copy()
    for v in prange(1, rows - 1):
        axis = np.empty(3)
        ray = np.empty(3)
        listed = np.empty(len(half_sizes), dtype=np.int64)
        for u in range(1, columns - 1):
            here = surface[v, u]
            if (
                surface[v, u - 1] == here
                and surface[v, u + 1] == here
                and surface[v - 1, u] == here
                and surface[v + 1, u] == here
            ):
                continue
            total = 0.0
            near = rays[v, u - 1 : u + 2]
            count = _in_sight(near, Rs_box_c, origins, half_sizes, listed)
            for a in range(SAMPLES):
                for b in range(SAMPLES):
                    du = (a + 0.5) / SAMPLES - 0.5
                    dv = (b + 0.5) / SAMPLES - 0.5
                    for i in range(3):
                        ray[i] = (
                            rays[v, u, i]
                            + 0.5 * du * (rays[v, u + 1, i] - rays[v, u - 1, i])
                            + 0.5 * dv * (rays[v + 1, u, i] - rays[v - 1, u, i])
                        )
                    d, box, face = nearest(ray, Rs_box_c, origins, half_sizes, listed[:count], axis)
                    total += shade(
                        d,
                        box,
                        face,
                        origins,
                        axis,
                        pixel_angle,
                        varied,
                        faces,
                        shades,
                        shifts,
                        textures,
                    )
            out[v, u] = total / (SAMPLES * SAMPLES)
    return out
