"""Brightness of a surface where a ray meets it, from its texture."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maci2.compile import kernel
from maci2.simulation.rendering.scene import (
    LEVELS,
    TEXELS_PER_METRE,
    TEXTURE_SIDE,
    texture_floats,
)
from maci2.types import Array

Ray = tuple[float, float, float]

compiled = kernel(fastmath=True, nogil=True)
dissolved = kernel(fastmath=True, forceinline=True)
"""Decorator of functions called for every ray: a call would copy all arguments."""

FLOATS = texture_floats()
LEVEL_START = np.concatenate(
    [[0], np.cumsum([(TEXTURE_SIDE >> level) ** 2 for level in range(LEVELS)])[:-1]]
).astype(np.int64)
SIDE = TEXTURE_SIDE


class Surfaces(NamedTuple):
    """What faces of boxes look like; see `Scene`."""

    pixel_angle: float
    """[rad] Between neighbouring pixels: textures are filtered to that size."""

    varied: int
    faces: NDArray[np.int64]
    shades: Array
    shifts: Array
    textures: NDArray[np.float32]


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
    start = base + LEVEL_START[level]
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


@dissolved
def shade(
    surfaces: Surfaces, box: int, face: int, origin: Ray, direction: Ray, distance: float
) -> float:
    """Brightness where a ray ends, filtered to the size of the pixel there.

    `origin` and `direction` are the ray's in the frame of the box.
    """
    normal = face // 2
    i, j = (normal + 1) % 3, (normal + 2) % 3
    s = (origin[i] + distance * direction[i]) * TEXELS_PER_METRE + surfaces.shifts[box, face, 0]
    t = (origin[j] + distance * direction[j]) * TEXELS_PER_METRE + surfaces.shifts[box, face, 1]
    slant = max(abs(direction[normal]), 0.05)
    footprint = distance * surfaces.pixel_angle * TEXELS_PER_METRE / math.sqrt(slant)
    level = min(max(math.log2(max(footprint, 1e-6)), 0.0), LEVELS - 1.001)
    lower = int(level)
    count = len(surfaces.textures) // FLOATS
    base = _tile(surfaces.faces[box, face], surfaces.varied, count, s, t) * FLOATS
    fine = _texel(surfaces.textures, base, lower, s, t)
    coarse = _texel(surfaces.textures, base, lower + 1, s, t)
    return surfaces.shades[box, face] * (fine + (level - lower) * (coarse - fine))
