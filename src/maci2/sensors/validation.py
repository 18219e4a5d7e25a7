"""Formal checks of samples; messages name the place, the value found and the value needed.

What the samples mean physically is checked in `plausibility`.
"""

import numpy as np

from maci2.errors import DatasetError
from maci2.sensors.types import GroundTruth, ImuSamples
from maci2.types import NS, Array, Stamps

GAP_PERIODS = 5.0
"""Multiple of the median period beyond which an interval is a gap with missing samples."""


def require_increasing(stamps_ns: Stamps, source: str, lines: Stamps) -> None:
    """Raise at the first timestamp that does not come after the one before it."""
    steps = np.diff(stamps_ns)
    if (steps > 0).all():
        return
    at = int(np.argmax(steps <= 0)) + 1
    back_s = -steps[at - 1] / NS
    jumped = back_s > GAP_PERIODS * float(np.median(np.abs(steps))) / NS and (steps < 0).sum() == 1
    fault, by = ("a duplicate of", "") if back_s == 0 else ("earlier than", f", by {back_s:.4f} s")
    remedy = (
        "The clock was set back: cut the recording there, and stamp by a monotonic clock."
        if jumped
        else "Sort the file by timestamp and remove duplicates."
    )
    raise DatasetError(
        f"{source}, line {lines[at]}: timestamp {stamps_ns[at]} ns is {fault} timestamp "
        f"{stamps_ns[at - 1]} ns on the line before{by} ({int((steps <= 0).sum())} such places); "
        f"timestamps must increase strictly. {remedy}"
    )


def require_finite(values: Array, names: list[str], source: str, lines: Stamps) -> None:
    """Raise at the first row of `values` (n, k) with NaN or infinity."""
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    row = int(np.argmax(bad.any(axis=1)))
    column = int(np.argmax(bad[row]))
    raise DatasetError(
        f"{source}, line {lines[row]}: {names[column]} is {values[row, column]} "
        f"({int(bad.any(axis=1).sum())} of {len(values)} rows hold NaN or infinity); every entry "
        "must be finite. Remove these rows or repair the recording."
    )


def require_count(found: int, needed: int, source: str) -> None:
    """Raise if there are fewer than `needed` samples."""
    if found == 0:
        raise DatasetError(
            f"{source}: the file holds no samples, needed at least {needed}; "
            "the recording is empty. Record again or unpack it again."
        )
    if found < needed:
        raise DatasetError(
            f"{source}: found {found} samples, needed at least {needed}; use a longer recording."
        )


def gaps(stamps_ns: Stamps) -> Stamps:
    """Indices i such that samples are missing between timestamps i and i + 1."""
    steps = np.diff(stamps_ns)
    if len(steps) == 0:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(steps > GAP_PERIODS * np.median(steps)).astype(np.int64)


def require_overlap(truth: GroundTruth, imu: ImuSamples) -> None:
    """Raise if ground truth and IMU do not overlap in time."""
    start_ns = max(int(truth.stamps_ns[0]), int(imu.stamps_ns[0]))
    end_ns = min(int(truth.stamps_ns[-1]), int(imu.stamps_ns[-1]))
    if end_ns > start_ns:
        return
    raise DatasetError(
        f"{truth.source}: ground truth covers {truth.stamps_ns[0]}..{truth.stamps_ns[-1]} ns but "
        f"the IMU ({imu.source}) covers {imu.stamps_ns[0]}..{imu.stamps_ns[-1]} ns: no overlap, "
        f"apart by {(start_ns - end_ns) / NS:.3f} s. Both must be on one clock: use the ground "
        "truth of this recording, or correct its time offset."
    )
