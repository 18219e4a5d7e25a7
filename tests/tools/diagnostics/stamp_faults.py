"""Faults of timestamps."""

from dataclasses import replace

import numpy as np
from degrading import Degraded, Draw, lines_of, with_cameras, with_imu, with_truth, without_samples

from maci2.types import NS, Stamps


def _inside(rng: Draw, stamps_ns: Stamps) -> int:
    """A place in the middle half."""
    return int(rng.integers(len(stamps_ns) // 4, 3 * len(stamps_ns) // 4))


def gap(s: Degraded, rng: Draw) -> Degraded:
    n = len(s.recording.imu)
    at, length = int(rng.integers(n // 4, n // 2)), int(rng.integers(20, 400))
    return without_samples(s, np.r_[0:at, at + length : n])


def imu_samples_dropped(s: Degraded, rng: Draw) -> Degraded:
    keep = rng.uniform(size=len(s.recording.imu)) > rng.uniform(0.04, 0.15)
    return without_samples(s, np.flatnonzero(keep))


def duplicate_stamps(s: Degraded, rng: Draw) -> Degraded:
    at = int(rng.integers(100, 1000))
    return replace(
        s, edit=lambda mav0: lines_of(
            mav0 / "imu0" / "data.csv", lambda lines: [*lines[:at], lines[at - 1], *lines[at:]]
        )
    )  # fmt: skip


def out_of_order(s: Degraded, rng: Draw) -> Degraded:
    at = int(rng.integers(20, 150))
    return replace(
        s, edit=lambda mav0: lines_of(
            mav0 / "cam0" / "data.csv",
            lambda lines: [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]],
        )
    )  # fmt: skip


def not_a_number(s: Degraded, rng: Draw) -> Degraded:
    at = int(rng.integers(20, 1500))

    def put_nan(lines: list[str]) -> list[str]:
        fields = lines[at].split(",")
        fields[4] = "nan"
        return [*lines[:at], ",".join(fields), *lines[at + 1 :]]

    return replace(s, edit=lambda mav0: lines_of(mav0 / "imu0" / "data.csv", put_nan))


def clock_jump(s: Degraded, rng: Draw) -> Degraded:
    stamps_ns = s.recording.imu.stamps_ns.copy()
    stamps_ns[_inside(rng, stamps_ns) :] += round(rng.choice([2.0, 37.0, 3600.0]) * NS)
    return with_imu(s, stamps_ns=stamps_ns)


def clock_set_back(s: Degraded, rng: Draw) -> Degraded:
    stamps_ns = s.recording.imu.stamps_ns.copy()
    stamps_ns[_inside(rng, stamps_ns) :] -= round(rng.uniform(0.5, 100.0) * NS)
    return with_imu(s, stamps_ns=stamps_ns)


def different_clocks(s: Degraded, rng: Draw) -> Degraded:
    start_ns = s.recording.camera_stamps_ns[0][0] - round(rng.uniform(1.0, 5000.0) * NS)
    return with_cameras(s, *(c - start_ns for c in s.recording.camera_stamps_ns))


def microseconds(s: Degraded, rng: Draw) -> Degraded:
    s = with_cameras(s, *(c // 1000 for c in s.recording.camera_stamps_ns))
    [truth] = s.recording.truths.values()
    s = with_truth(s, stamps_ns=truth.stamps_ns // 1000)
    return with_imu(s, stamps_ns=s.recording.imu.stamps_ns // 1000)


def imu_jitter(s: Degraded, rng: Draw) -> Degraded:
    stamps_ns = s.recording.imu.stamps_ns
    late_ns = rng.uniform(0.0, rng.uniform(0.3, 0.9), len(stamps_ns)) * 5e6
    return with_imu(s, stamps_ns=stamps_ns + late_ns.astype(np.int64))


def left_right_offset(s: Degraded, rng: Draw) -> Degraded:
    left, right = s.recording.camera_stamps_ns
    offset_s = rng.choice([-1.0, 1.0]) * rng.uniform(0.002, 0.02)
    return with_cameras(s, left, right + round(offset_s * NS))


def unpaired_frames(s: Degraded, rng: Draw) -> Degraded:
    """The right camera fires on its own: not offset, just not together."""
    left, right = s.recording.camera_stamps_ns
    share = rng.uniform(0.1, 0.4)
    alone = rng.uniform(size=len(right)) < share
    return with_cameras(s, left, right + np.where(alone, 4_000_000, 0))


def dropped_frames(s: Degraded, rng: Draw) -> Degraded:
    left, right = s.recording.camera_stamps_ns
    keep = rng.uniform(size=len(left)) > rng.uniform(0.06, 0.2)
    return with_cameras(s, left[keep], right[keep])
