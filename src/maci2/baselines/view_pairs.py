"""Matches between views, collected from tracks for methods on bearings."""

import numpy as np

from maci2.baselines.epipolar_bias import BearingPairs
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.imu import GAMMA, Preintegrated
from maci2.types import Array, Mask


def neighbouring_pairs(
    tracks: FeatureTracks, pre: Preintegrated, R_b_c: Array, weights: Array | None = None
) -> BearingPairs:
    """Left views of every keyframe and the next; `weights` (m, p) of every point in each pair."""
    both = (tracks.seen[:, :-1] & tracks.seen[:, 1:]).T
    f0, f1 = tracks.bearings[:, :-1].swapaxes(0, 1), tracks.bearings[:, 1:].swapaxes(0, 1)
    return bearing_pairs(f0, f1, both, pre.gamma, pre.D_bg[:, GAMMA], R_b_c, weights)


def bearing_pairs(
    f0: Array,
    f1: Array,
    both: Mask,
    gamma: Array,
    D_bg: Array,
    R_b_c: Array,
    weights: Array | None = None,
) -> BearingPairs:
    """Pairs of bearings (m, p, 3) where `both` (m, p); those of few matches are packed."""
    size = int(both.sum(axis=1).max(initial=1))
    order = np.argsort(~both, axis=1, kind="stable")[:, :size]
    there = np.take_along_axis(both, order, axis=1)
    packed0, packed1 = (
        np.where(there[:, :, None], np.take_along_axis(f, order[:, :, None], axis=1), 0.0)
        for f in (f0, f1)
    )
    packed = there.astype(np.float64)
    if weights is not None:
        packed = np.where(there, np.take_along_axis(weights, order, axis=1), 0.0)
    return BearingPairs(packed0, packed1 @ R_b_c.T, packed, gamma, D_bg, R_b_c.T)
