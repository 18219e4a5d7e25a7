"""Points worth following: spread over the image, where a match is well determined."""

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.sensors.stereo import Image
from maci2.types import Array

BLOCK = 7
"""Side of the patch whose gradients decide [px]."""


def candidates(
    image: Image, mask: NDArray[np.uint8], count: int, spacing: int, margin: int
) -> Array:
    """(n, 2) the best-determined point of every cell, strongest first, at most `count`.

    The smaller eigenvalue of the structure tensor is the inverse of the worst variance a match can
    have, so its maximum over a cell is the minimum of the uncertainty that can be told beforehand.
    """
    strength = cv2.cornerMinEigenVal(image, BLOCK, ksize=3)
    strength[mask == 0] = 0.0
    strength[:margin], strength[-margin:] = 0.0, 0.0
    strength[:, :margin], strength[:, -margin:] = 0.0, 0.0
    peaks = cv2.dilate(strength, np.ones((spacing // 2 + 1, spacing // 2 + 1), np.uint8))
    strength[strength < peaks] = 0.0
    rows, columns = strength.shape[0] // spacing, strength.shape[1] // spacing
    cells = strength[: rows * spacing, : columns * spacing]
    cells = cells.reshape(rows, spacing, columns, spacing).swapaxes(1, 2)
    flat = cells.reshape(rows, columns, spacing * spacing)
    best = flat.argmax(axis=2)
    value = np.take_along_axis(flat, best[..., None], axis=2)[..., 0]
    v = np.arange(rows)[:, None] * spacing + best // spacing
    u = np.arange(columns)[None, :] * spacing + best % spacing
    order = np.argsort(-value.ravel(), kind="stable")
    order = order[value.ravel()[order] > 0.0][:count]
    return np.column_stack([u.ravel()[order], v.ravel()[order]]).astype(np.float64)


def spread(uv: Array, uncertainty: Array, count: int, radius: float) -> NDArray[np.intp]:
    """Non-minimum suppression: keep the least uncertain points, none within `radius` of a better
    one, at most `count`; indices, best first."""
    kept: list[int] = []
    taken = np.zeros(len(uv), dtype=bool)
    for index in np.argsort(uncertainty, kind="stable"):
        if taken[index]:
            continue
        kept.append(int(index))
        if len(kept) == count:
            break
        taken |= ((uv - uv[index]) ** 2).sum(axis=1) < radius * radius
    return np.array(kept, dtype=np.intp)
