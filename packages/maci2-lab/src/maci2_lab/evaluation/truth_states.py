"""Ground truth at the IMU's timestamps, and the stretches in which it is sound.

Integration errors are taken between two truth states, so a fault of the truth looks like a fault of
the IMU. Three rules, which use the truth only, give where a window may not pass:

- a gap: no truth for more than `MAX_GAP_PERIODS` of its own periods;
- a jump: position moves by more than `JUMP_M` from one truth timestamp to the next beyond what its
  own velocity explains (EuRoC's machine hall: the tracker was lost and found again);
- the ends of a motion-capture run, where the smoothing spline leans on one side only.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import scipy
from numpy.typing import NDArray

from maci2.errors import DatasetError
from maci2.sensors import GroundTruth, ImuSamples
from maci2.sensors.interpolation import nearest_index
from maci2.tools.ground_truth.clock import truth_jumps
from maci2.types import NS, Array, Mask, Stamps

Indices = NDArray[np.int64]

MAX_GAP_PERIODS = 3.5
"""Longest step of the truth that is not a gap, in its own periods."""

STAMP_TOLERANCE_NS = 20_000
"""A truth state belongs to an IMU sample this close to it; at 5 m/s that is 0.1 mm."""

SPLINE_CUTOFF_HZ = 12.0
"""Motion above this is smoothed away from motion capture. Hand-held motion ends below it."""

SPLINE_EDGE_S = 0.1
"""Time not used at both ends of a motion-capture run [s]."""


@dataclass(frozen=True)
class TruthStates:
    """Truth states that coincide with IMU samples, n of them."""

    samples: Indices
    """(n,) index of the IMU sample, rising."""

    Rs_w_b: Array
    """(n, 3, 3)."""

    v_w: Array
    """(n, 3) [m/s]."""

    p_w: Array
    """(n, 3) [m]."""

    run: Indices
    """(n,) number of the unbroken run a state belongs to: no window joins two runs."""

    jumps: int
    """Jumps found; each ends a run."""

    gaps: int
    """Gaps found; each ends a run."""

    def __len__(self) -> int:
        return len(self.samples)

    def at(self, kept: Mask) -> "TruthStates":
        """The states that a mask (n,) keeps."""
        rows = ("samples", "Rs_w_b", "v_w", "p_w", "run")
        return replace(self, **{name: getattr(self, name)[kept] for name in rows})


def truth_states(imu: ImuSamples, truth: GroundTruth | None, name: str) -> TruthStates:
    """The truth at IMU timestamps: as it is where it states velocity, else from a smoothing
    spline."""
    if truth is None or len(truth) < 2:
        raise DatasetError(
            f"{name}: holds no ground truth; errors of integration cannot be measured and nothing "
            "can be trained on it. Give a recording with state_groundtruth_* or mocap0."
        )
    if np.isfinite(truth.v_w).any():
        return _stated(imu, truth)
    return _smoothed(imu, truth)


def _stated(imu: ImuSamples, truth: GroundTruth) -> TruthStates:
    """Truth with its own velocity, at its own timestamps."""
    jumps = truth_jumps(truth)
    breaks = jumps | _gaps(truth.stamps_ns)
    run = np.concatenate([[0], np.cumsum(breaks)])
    samples = nearest_index(imu.stamps_ns, truth.stamps_ns)
    distance_ns = np.abs(imu.stamps_ns[samples] - truth.stamps_ns)
    finite = np.isfinite(truth.v_w).all(1) & np.isfinite(truth.Ts_w_b).all((1, 2))
    use = (distance_ns <= STAMP_TOLERANCE_NS) & finite
    if use.sum() < 2:
        raise DatasetError(
            f"{truth.source}: {int(use.sum())} of {len(truth)} truth timestamps lie within "
            f"{STAMP_TOLERANCE_NS / 1e3:.0f} us of an IMU sample (nearest: "
            f"{distance_ns.min() / 1e6:.3f} ms), needed at least 2; check the clocks."
        )
    return TruthStates(
        samples=samples[use],
        Rs_w_b=truth.Ts_w_b[use, :3, :3],
        v_w=truth.v_w[use],
        p_w=truth.Ts_w_b[use, :3, 3],
        run=run[use],
        jumps=int(jumps.sum()),
        gaps=int((breaks & ~jumps).sum()),
    )


def _gaps(stamps_ns: Stamps) -> NDArray[np.bool_]:
    steps_ns = np.diff(stamps_ns)
    return np.asarray(steps_ns > MAX_GAP_PERIODS * np.median(steps_ns))


def _smoothed(imu: ImuSamples, truth: GroundTruth) -> TruthStates:
    """Poses without velocity: a smoothing spline through each run between gaps."""
    gaps = _gaps(truth.stamps_ns)
    edges = np.concatenate([[0], np.flatnonzero(gaps) + 1, [len(truth)]])
    edge_ns, parts = int(SPLINE_EDGE_S * NS), []
    for number, (first, last) in enumerate(pairwise(edges)):
        start_ns, end_ns = truth.stamps_ns[[first, last - 1]]
        within = (imu.stamps_ns > start_ns + edge_ns) & (imu.stamps_ns < end_ns - edge_ns)
        if within.any():
            inside = np.flatnonzero(within)
            run = np.full(len(inside), number)
            parts.append((inside, *_spline_states(truth, first, last, imu, inside), run))
    if not parts:
        raise DatasetError(
            f"{truth.source}: no stretch of motion capture is longer than {2 * SPLINE_EDGE_S} s "
            "without a gap; nothing can be measured against it."
        )
    samples, Rs_w_b, v_w, p_w, run = map(np.concatenate, zip(*parts, strict=True))
    return TruthStates(samples, Rs_w_b, v_w, p_w, run, jumps=0, gaps=int(gaps.sum()))


def _spline_states(
    truth: GroundTruth, first: int, last: int, imu: ImuSamples, inside: Indices
) -> tuple[Array, Array, Array]:
    """Rotation, velocity and position of one run at the IMU samples `inside`."""
    origin_ns = truth.stamps_ns[first]
    t = (truth.stamps_ns[first:last] - origin_ns) / NS
    query = (imu.stamps_ns[inside] - origin_ns) / NS
    position = _spline(t, truth.Ts_w_b[first:last, :3, 3])
    # Rotation matrices are smoothed entry by entry and brought back to the nearest rotation.
    entries = _spline(t, truth.Ts_w_b[first:last, :3, :3].reshape(-1, 9))(query)
    U, _, Vt = np.linalg.svd(entries.reshape(-1, 3, 3))
    return U @ Vt, np.asarray(position.derivative()(query)), np.asarray(position(query))


def _spline(t: Array, values: Array) -> "scipy.interpolate.BSpline":
    """Cubic smoothing spline; as a filter it halves amplitudes at `SPLINE_CUTOFF_HZ`."""
    period = float(np.median(np.diff(t)))
    stiffness = (2.0 * np.pi * SPLINE_CUTOFF_HZ) ** -4 / period
    return scipy.interpolate.make_smoothing_spline(t, values, lam=stiffness)
