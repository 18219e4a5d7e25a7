"""Velocity from positions, for truths that do not state it."""

from dataclasses import replace

import numpy as np

from maci2.gaussian import Array
from maci2.sensors.types import NS, GroundTruth, Stamps

HALF_WINDOW_S = 0.1
"""Half the stretch a local polynomial is fitted to [s]."""

DEGREE = 3


def with_velocity(truth: GroundTruth, max_gap_s: float = 0.05) -> GroundTruth:
    """Fill `v_w` with the slope of a local polynomial through the positions.

    NaN within half a window of a gap longer than `max_gap_s` and of both ends.
    """
    period_s = float(np.median(np.diff(truth.stamps_ns))) / NS
    half = max(round(HALF_WINDOW_S / period_s), DEGREE // 2 + 1)
    v_w = np.full((len(truth), 3), np.nan)
    if len(truth) > 2 * half:
        t_s = (truth.stamps_ns - truth.stamps_ns[0]) / NS
        v_w[half:-half] = _slopes(t_s, truth.Ts_w_b[:, :3, 3], half)
        v_w[_near_gap(truth.stamps_ns, half, max_gap_s)] = np.nan
    return replace(truth, v_w=v_w)


def _slopes(t_s: Array, p: Array, half: int) -> Array:
    """Slope at the middle of every window of 2 half + 1 samples, by least squares."""
    width = 2 * half + 1
    times = np.lib.stride_tricks.sliding_window_view(t_s, width)
    centred = times - times[:, half, None]
    # Scaled to about [-1, 1], so that the normal equations stay well conditioned.
    scale = 0.5 * (times[:, -1] - times[:, 0])
    powers = (centred / scale[:, None])[..., None] ** np.arange(DEGREE + 1)
    windows = np.lib.stride_tricks.sliding_window_view(p, width, axis=0).swapaxes(1, 2)
    normal = np.swapaxes(powers, 1, 2) @ powers
    coefficients = np.linalg.solve(normal, np.swapaxes(powers, 1, 2) @ windows)
    return coefficients[:, 1] / scale[:, None]


def _near_gap(stamps_ns: Stamps, half: int, max_gap_s: float) -> np.ndarray:
    """Samples whose window spans a gap."""
    gap = np.diff(stamps_ns) > max_gap_s * NS
    near = np.zeros(len(stamps_ns), dtype=bool)
    for at in np.flatnonzero(gap):
        near[max(at - half + 1, 0) : at + half + 1] = True
    return near
