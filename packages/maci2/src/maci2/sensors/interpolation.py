"""Interpolation of poses (rotation along the geodesic, position linear or cubic Hermite), and
velocities from positions for ground truths without velocity."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maci2.errors import DatasetError
from maci2.geometry.se3 import so3_exp_stack, so3_log_stack, stack_poses
from maci2.sensors.types import GroundTruth
from maci2.types import NS, Array, Mask, Stamps

ROUNDING_NS = 1_000
"""Tolerance within which a query is at a timestamp [ns]; trajectories state seconds as text."""

HALF_WINDOW_S = 0.1
"""Half the length of a local polynomial [s]."""

DEGREE = 3
"""Degree of that polynomial."""


@dataclass(frozen=True)
class _Brackets:
    """Neighbouring samples of each query, and the position between them."""

    before: Stamps
    after: Stamps
    step_s: Array
    fraction: Array
    """Fraction of the interval: 0 at `before`, 1 at `after`."""


def poses_at(
    stamps_ns: Stamps,
    Ts: Array,
    query_ns: Stamps,
    max_gap_s: float,
    velocities: Array | None = None,
    source: str = "trajectory",
) -> Array:
    """Poses (m, 4, 4) at the query timestamps.

    With `velocities` (n, 3), the derivative of the positions, positions are cubic where these are
    finite, else linear. Raises for a query outside the timestamps or inside a gap above
    `max_gap_s`.
    """
    at = _brackets(stamps_ns, query_ns, max_gap_s, source)
    R_before = Ts[at.before, :3, :3]
    phi = so3_log_stack(np.swapaxes(R_before, 1, 2) @ Ts[at.after, :3, :3])
    R = R_before @ so3_exp_stack(at.fraction[:, None] * phi)
    p = _lerp(Ts[:, :3, 3], at)
    if velocities is not None:
        cubic = _hermite(Ts[:, :3, 3], velocities, at)
        p = np.where(np.isfinite(cubic), cubic, p)
    return stack_poses(R, p)


def truth_at(truth: GroundTruth, query_ns: Stamps, max_gap_s: float) -> GroundTruth:
    """Ground truth at other timestamps: poses as in `poses_at`, velocity and biases linear."""
    query_ns = np.asarray(query_ns, dtype=np.int64)
    at = _brackets(truth.stamps_ns, query_ns, max_gap_s, truth.source)
    poses = poses_at(truth.stamps_ns, truth.Ts_w_b, query_ns, max_gap_s, truth.v_w, truth.source)
    linear: dict[str, Any] = {
        name: _lerp(getattr(truth, name), at) for name in ("v_w", "bias_gyro", "bias_acc")
    }
    return replace(truth, stamps_ns=query_ns, Ts_w_b=poses, **linear)


def bridged(stamps_ns: Stamps, query_ns: Stamps, max_gap_s: float) -> Mask:
    """(m,) whether queries lie inside the timestamps and in no gap above `max_gap_s`."""
    after = np.clip(np.searchsorted(stamps_ns, query_ns, side="left"), 0, len(stamps_ns) - 1)
    before = np.maximum(after - 1, 0)
    short = stamps_ns[after] - stamps_ns[before] <= max_gap_s * NS
    inside = (query_ns >= stamps_ns[0]) & (query_ns <= stamps_ns[-1])
    away_ns = np.minimum(stamps_ns[after] - query_ns, query_ns - stamps_ns[before])
    return np.asarray(inside & (short | (away_ns <= ROUNDING_NS)))


def _brackets(stamps_ns: Stamps, query_ns: Stamps, max_gap_s: float, source: str) -> _Brackets:
    query_ns = np.asarray(query_ns, dtype=np.int64)
    outside = (query_ns < stamps_ns[0]) | (query_ns > stamps_ns[-1])
    if outside.any():
        raise DatasetError(
            f"{source}: covers {stamps_ns[0]}..{stamps_ns[-1]} ns but a pose is needed at "
            f"{query_ns[outside][0]} ns ({int(outside.sum())} of {len(query_ns)} timestamps are "
            "outside); choose a window inside it."
        )
    after = np.searchsorted(stamps_ns, query_ns, side="left")
    exact = stamps_ns[after] == query_ns
    # A query on a timestamp needs no neighbour: it may lie at the edge of a gap.
    before = np.where(exact, after, after - 1)
    in_gap = stamps_ns[after] - stamps_ns[before] > max_gap_s * NS
    before = np.where(in_gap & (stamps_ns[after] - query_ns <= ROUNDING_NS), after, before)
    after = np.where(in_gap & (query_ns - stamps_ns[before] <= ROUNDING_NS), before, after)
    step_s = (stamps_ns[after] - stamps_ns[before]) / NS
    if (step_s > max_gap_s).any():
        at = int(np.argmax(step_s > max_gap_s))
        raise DatasetError(
            f"{source}: a pose is needed at {query_ns[at]} ns inside a gap of {step_s[at]:.3f} s "
            f"after timestamp {stamps_ns[before[at]]} ns; gaps of at most {max_gap_s:.3f} s are "
            "bridged. Choose a window that does not touch the gap."
        )
    elapsed_s = (query_ns - stamps_ns[before]) / NS
    fraction = np.divide(elapsed_s, step_s, out=np.zeros(len(step_s)), where=step_s > 0)
    return _Brackets(before, after, step_s, fraction)


def _lerp(values: Array, at: _Brackets) -> Array:
    u = at.fraction[:, None]
    return (1.0 - u) * values[at.before] + u * values[at.after]


def _hermite(p: Array, v: Array, at: _Brackets) -> Array:
    u, h = at.fraction[:, None], at.step_s[:, None]
    return (
        (1.0 + 2.0 * u) * (1.0 - u) ** 2 * p[at.before]
        + u**2 * (3.0 - 2.0 * u) * p[at.after]
        + h * u * (1.0 - u) ** 2 * v[at.before]
        - h * u**2 * (1.0 - u) * v[at.after]
    )


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


def nearest_index(stamps_ns: Stamps, query_ns: Stamps | Array) -> NDArray[np.intp]:
    """Index of the timestamp nearest to each query; the earlier one of two equally near.

    `stamps_ns` is increasing and not empty.
    """
    after = np.clip(np.searchsorted(stamps_ns, query_ns), 1, max(len(stamps_ns) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(stamps_ns) - 1)
    earlier = np.abs(query_ns - stamps_ns[before]) <= np.abs(stamps_ns[after] - query_ns)
    return np.where(earlier, before, after)
