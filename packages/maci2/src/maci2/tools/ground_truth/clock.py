"""Ground truth checked by itself and against the gyroscope's clock.

Motion capture is stamped by a machine of its own, and two clocks run apart: on EuRoC's V2_03 from
2 ms early to 6 ms late within a hundred seconds. One offset for a whole recording is therefore not
enough; it is measured along it, from rotations alone.

A jump is a step over which position moves by more than its own velocity explains (EuRoC's machine
hall: the tracker was lost and found again).
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.imu.rotation_rates import RotationSource, match_rates
from maci2.sensors import GroundTruth, ImuSamples, truth_at
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
    # Middles of stretches are moved inwards where the recording begins or ends.
    first_ns = max(int(truth.stamps_ns[0]), int(imu.stamps_ns[0])) + HALF_NS
    last_ns = min(int(truth.stamps_ns[-1]), int(imu.stamps_ns[-1])) - HALF_NS
    count = max(round((end_ns - start_ns) / NS / EVERY_S), 1) + 1
    middles_ns = start_ns + np.linspace(0, end_ns - start_ns, count).astype(np.int64)
    found = []
    for middle_ns in np.unique(np.maximum(np.minimum(middles_ns, last_ns), first_ns)).tolist():
        low_ns, high_ns = middle_ns - HALF_NS, middle_ns + HALF_NS
        near = truth.part((truth.stamps_ns >= low_ns) & (truth.stamps_ns <= high_ns))
        samples = imu.between(
            max(low_ns, int(imu.stamps_ns[0])), min(high_ns, int(imu.stamps_ns[-1]))
        )
        source = RotationSource(truth.source, "truth", near.stamps_ns, near.Ts_w_b, np.eye(4))
        match = match_rates(source, samples)
        if match is not None and match.comparable:
            found.append((middle_ns, match.offset_s, match.std_offset_s))
    if not found:
        return None
    stamps_ns, offsets_s, stds_s = zip(*found, strict=True)
    return TruthClock(np.array(stamps_ns), np.array(offsets_s), np.array(stds_s))


def on_imu_clock(truth: GroundTruth, clock: TruthClock) -> GroundTruth:
    """The truth at its own timestamps, now read on the IMU's clock; a few fall off at ends and
    gaps."""
    moved_ns = truth.stamps_ns + clock.offsets_ns(truth.stamps_ns)
    after = np.searchsorted(moved_ns, truth.stamps_ns)
    inside = (after > 0) & (after < len(truth))
    after = np.clip(after, 1, len(truth) - 1)
    known = inside & (moved_ns[after] - moved_ns[after - 1] < MAX_GAP_S * NS)
    return truth_at(replace(truth, stamps_ns=moved_ns), truth.stamps_ns[known], MAX_GAP_S)


JUMP_M = 0.002
"""Largest disagreement of position and velocity over one truth step [m]. Ordinary steps of EuRoC
disagree by 0.0002 m to 0.0008 m, the jumps by 0.005 m to 0.13 m."""


def truth_jumps(truth: GroundTruth, limit_m: float = JUMP_M) -> Mask:
    """(n - 1,) steps over which position and velocity disagree by more than `limit_m`."""
    t = (truth.stamps_ns - truth.stamps_ns[0]) / NS
    p, v = truth.Ts_w_b[:, :3, 3], truth.v_w
    dt = np.diff(t)[:, None]
    acc = np.gradient(v, t, axis=0)
    # Trapezoid with end correction: exact for motion of constant jerk.
    moved = 0.5 * dt * (v[1:] + v[:-1]) - dt**2 / 12.0 * np.diff(acc, axis=0)
    return np.asarray(np.linalg.norm(np.diff(p, axis=0) - moved, axis=1) > limit_m)
