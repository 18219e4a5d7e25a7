"""Width of the edges of an image, which defocus and motion blur increase and noise does not."""

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.sensors.stereo import Image

_CELL = 16
"""Side of the cells that give one edge each [px of the half-size image]."""

_REACH = 31
"""Length over which the step across an edge is measured [px of the half-size image]."""

_STRONGEST = 4
"""One in this many cells is used; cells without texture have no edge."""

_Plane = NDArray[np.float32]


def edge_widths(image: Image) -> tuple[float, float]:
    """Typical widths of the strongest edges across columns and across rows [px].

    The step in brightness over its steepest slope: about 6 px for a sharp image, 2.5 times the
    standard deviation of a strong blur; at half size, where pixel noise is averaged away. NaN where
    the image is too small to say.
    """
    half = cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    grey = np.asarray(cv2.GaussianBlur(half.astype(np.float32), (0, 0), 0.7), np.float32)
    slope_u = np.abs(grey[1:-1, 2:] - grey[1:-1, :-2]) / 2.0
    slope_v = np.abs(grey[2:, 1:-1] - grey[:-2, 1:-1]) / 2.0
    inner, along = grey[1:-1, 1:-1], np.ones((1, _REACH), np.uint8)
    return _width(slope_u, _step(inner, along)), _width(slope_v, _step(inner, along.T))


def _step(grey: _Plane, reach: NDArray[np.uint8]) -> _Plane:
    return np.asarray(cv2.dilate(grey, reach) - cv2.erode(grey, reach), np.float32)


def _width(slope: _Plane, step: _Plane) -> float:
    slopes, steps = _cells(slope), _cells(step)
    if len(slopes) == 0:
        return math.nan
    steepest = slopes.argmax(axis=1)[:, None]
    best = np.take_along_axis(slopes, steepest, axis=1)[:, 0]
    across = np.take_along_axis(steps, steepest, axis=1)[:, 0]
    strongest = np.argsort(-best)[: max(len(best) // _STRONGEST, 1)]
    # Twice: pixels of the half-size image are two of the image.
    return float(2.0 * np.median(across[strongest] / np.maximum(best[strongest], 0.1)))


def _cells(plane: _Plane) -> _Plane:
    """(cells, pixels of a cell)."""
    rows, columns = plane.shape[0] // _CELL, plane.shape[1] // _CELL
    whole = plane[: rows * _CELL, : columns * _CELL].reshape(rows, _CELL, columns, _CELL)
    return whole.swapaxes(1, 2).reshape(rows * columns, _CELL * _CELL)
