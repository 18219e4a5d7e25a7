"""Point maps of keyframes in the first camera's frame, from stereo depth."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maci2.feature_tracks.tracks import FeatureTracks
from maci2.types import Array, Mask

CELLS = 10
"""Cells across the image and down."""

MIN_CONFIDENCE = 1.2


@dataclass(frozen=True)
class PointMap:
    """m points, each of one keyframe's map."""

    keyframe: NDArray[np.intp]
    """(m,) keyframe of each point."""

    xy: Array
    """(m, 2) normalized coordinates in the left camera of that keyframe."""

    depth: Array
    """(m,) depths in that camera [m]."""

    X_c0: Array
    """(m, 3) points in the first camera [m]."""

    confidence: Array
    """(m,) confidences, above 1."""

    def __len__(self) -> int:
        return len(self.keyframe)

    def take(self, which: Mask) -> "PointMap":
        """Some of the points."""
        return PointMap(
            self.keyframe[which],
            self.xy[which],
            self.depth[which],
            self.X_c0[which],
            self.confidence[which],
        )


def stereo_point_map(tracks: FeatureTracks, Ts_c0_c: Array) -> PointMap:
    """Most certain depth in every cell of every keyframe, transformed to the first camera."""
    confidence = 1.0 + 0.1 * tracks.depths / np.sqrt(tracks.var_depths)
    usable = np.nan_to_num(confidence) >= MIN_CONFIDENCE
    parts = [
        (k, points)
        for k in range(len(Ts_c0_c))
        if len(points := _best_in_cells(tracks.xy[:, k], confidence[:, k], usable[:, k]))
    ]
    if not parts:
        nothing = np.empty(0)
        return PointMap(
            np.empty(0, dtype=np.intp), np.empty((0, 2)), nothing, np.empty((0, 3)), nothing
        )
    k = np.concatenate([np.full(len(points), number) for number, points in parts])
    points = np.concatenate([points for _, points in parts])
    xy, depth = tracks.xy[points, k], tracks.depths[points, k]
    in_camera = np.column_stack([xy * depth[:, None], depth])
    X_c0 = np.einsum("mij,mj->mi", Ts_c0_c[k, :3, :3], in_camera) + Ts_c0_c[k, :3, 3]
    return PointMap(k, xy, depth, X_c0, confidence[points, k])


def _best_in_cells(xy: Array, confidence: Array, usable: Mask) -> NDArray[np.intp]:
    """Indices of the most confident point in each cell of a grid over the points."""
    indices = np.flatnonzero(usable)
    if len(indices) == 0:
        return indices
    low, high = xy[indices].min(axis=0), xy[indices].max(axis=0)
    cells = np.floor(CELLS * (xy[indices] - low) / np.maximum(high - low, 1e-9))
    cells = np.clip(cells, 0, CELLS - 1).astype(np.intp)
    number = CELLS * cells[:, 1] + cells[:, 0]
    by_confidence = np.lexsort((-confidence[indices], number))
    _, first = np.unique(number[by_confidence], return_index=True)
    return np.sort(indices[by_confidence[first]])
