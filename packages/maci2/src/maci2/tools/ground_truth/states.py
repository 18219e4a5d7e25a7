"""Ground truth on the IMU's clock and at its timestamps, and the stretches in which it is sound.

Motion capture is stamped by a machine of its own, and two clocks run apart: on EuRoC's V2_03 from
2 ms early to 6 ms late within a hundred seconds. One offset for a whole recording is therefore not
enough; it is measured along it, from rotations alone.

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
from maci2.imu.rotation_rates import RotationSource, match_rates
from maci2.sensors import GroundTruth, ImuSamples, truth_at
from maci2.sensors.interpolation import nearest_index
from maci2.types import NS, Array, Mask, Stamps

SPAN_S = 12.0
"""Stretch over which one offset is measured: three blocks, whose scatter is its uncertainty."""

EVERY_S = 6.0
"""Time from the middle of one stretch to that of the next [s]."""

MARGIN_S = 1.0
"""Offsets are looked for this far to either side of a stretch."""

HALF_NS = round((0.5 * SPAN_S + MARGIN_S) * NS)

SIGMAS = 3.0
SMALLEST_S = 2e-4
"""An offset counts when it exceeds both. Simulated ones of zero are found within 0.15 ms."""

MAX_GAP_S = 0.06
"""Poses are not interpolated across longer steps of the truth."""


@dataclass(frozen=True)
class TruthClock:
    """Offsets of a truth's clock along a recording, at least one."""

    stamps_ns: Stamps
    """(n,) middles of the stretches compared, rising."""

    offsets_s: Array
    """(n,) to be added to the truth's timestamps; linear between the middles."""

    stds_s: Array
    """(n,)"""

    @property
    def differs(self) -> bool:
        """Somewhere it is not the IMU's."""
        return bool((np.abs(self.offsets_s) > np.maximum(SMALLEST_S, SIGMAS * self.stds_s)).any())

    def offsets_ns(self, at_ns: Stamps) -> Stamps:
        since_ns = self.stamps_ns[0]
        # Differences first: absolute nanoseconds do not fit into a float.
        offsets_s = np.interp(at_ns - since_ns, self.stamps_ns - since_ns, self.offsets_s)
        return np.round(offsets_s * NS).astype(np.int64)

    def __str__(self) -> str:
        """`2.3 ms early (+- 0.2 ms)`, or from where to where it wanders."""
        low_ms, high_ms = 1e3 * float(self.offsets_s.min()), 1e3 * float(self.offsets_s.max())
        near_ms, far_ms = sorted((abs(low_ms), abs(high_ms)))
        side = "early" if high_ms > 0.0 else "late"
        if low_ms < 0.0 < high_ms:
            text = f"between {-low_ms:.1f} ms late and {high_ms:.1f} ms early"
        elif f"{near_ms:.1f}" == f"{far_ms:.1f}":
            text = f"{far_ms:.1f} ms {side}"
        else:
            text = f"{near_ms:.1f} to {far_ms:.1f} ms {side}"
        std_ms = 1e3 * float(np.sqrt(np.mean(self.stds_s**2)))
        return f"{text} (+- {std_ms:.2f} ms)"


def truth_clock(
    truth: GroundTruth, imu: ImuSamples, start_ns: int, end_ns: int
) -> TruthClock | None:
    """Compare rotations of truth and gyroscope from start to end; None where they do not rotate
    enough, or not alike."""
    found = []
    for middle_ns in _middles(truth, imu, start_ns, end_ns):
        source, samples = _stretch(truth, imu, int(middle_ns))
        match = match_rates(source, samples)
        if match is not None and match.comparable:
            found.append((middle_ns, match.offset_s, match.std_offset_s))
    if not found:
        return None
    stamps_ns, offsets_s, stds_s = zip(*found, strict=True)
    return TruthClock(np.array(stamps_ns), np.array(offsets_s), np.array(stds_s))


def _middles(truth: GroundTruth, imu: ImuSamples, start_ns: int, end_ns: int) -> Stamps:
    """Middles of stretches from start to end, moved inwards where the recording begins or ends."""
    first_ns = max(int(truth.stamps_ns[0]), int(imu.stamps_ns[0])) + HALF_NS
    last_ns = min(int(truth.stamps_ns[-1]), int(imu.stamps_ns[-1])) - HALF_NS
    count = max(round((end_ns - start_ns) / NS / EVERY_S), 1) + 1
    middles_ns = start_ns + np.linspace(0, end_ns - start_ns, count).astype(np.int64)
    return np.unique(np.maximum(np.minimum(middles_ns, last_ns), first_ns))


def _stretch(
    truth: GroundTruth, imu: ImuSamples, middle_ns: int
) -> tuple[RotationSource, ImuSamples]:
    """Rotations of both around a middle, as far as there are any."""
    low_ns, high_ns = middle_ns - HALF_NS, middle_ns + HALF_NS
    inside = (truth.stamps_ns >= low_ns) & (truth.stamps_ns <= high_ns)
    samples = imu.between(max(low_ns, int(imu.stamps_ns[0])), min(high_ns, int(imu.stamps_ns[-1])))
    stamps_ns, Ts_w_b = truth.stamps_ns[inside], truth.Ts_w_b[inside]
    return RotationSource(truth.source, "truth", stamps_ns, Ts_w_b, np.eye(4)), samples


def on_imu_clock(truth: GroundTruth, clock: TruthClock) -> GroundTruth:
    """The truth at its own timestamps, now read on the IMU's clock; a few fall off at ends and
    gaps."""
    moved_ns = truth.stamps_ns + clock.offsets_ns(truth.stamps_ns)
    after = np.searchsorted(moved_ns, truth.stamps_ns)
    inside = (after > 0) & (after < len(truth))
    after = np.clip(after, 1, len(truth) - 1)
    known = inside & (moved_ns[after] - moved_ns[after - 1] < MAX_GAP_S * NS)
    return truth_at(replace(truth, stamps_ns=moved_ns), truth.stamps_ns[known], MAX_GAP_S)


Indices = NDArray[np.int64]

MAX_GAP_PERIODS = 3.5
"""Longest step of the truth that is not a gap, in its own periods."""

JUMP_M = 0.002
"""Largest disagreement of position and velocity over one truth step [m]. Ordinary steps of EuRoC
disagree by 0.0002 m to 0.0008 m, the jumps by 0.005 m to 0.13 m."""

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


def truth_jumps(truth: GroundTruth, limit_m: float = JUMP_M) -> NDArray[np.bool_]:
    """(n - 1,) steps over which position and velocity disagree by more than `limit_m`."""
    t = (truth.stamps_ns - truth.stamps_ns[0]) / NS
    p, v = truth.Ts_w_b[:, :3, 3], truth.v_w
    dt = np.diff(t)[:, None]
    acc = np.gradient(v, t, axis=0)
    # Trapezoid with end correction: exact for motion of constant jerk.
    moved = 0.5 * dt * (v[1:] + v[:-1]) - dt**2 / 12.0 * np.diff(acc, axis=0)
    return np.asarray(np.linalg.norm(np.diff(p, axis=0) - moved, axis=1) > limit_m)


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
