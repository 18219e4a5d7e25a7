"""Windows that follow each other without a break, preintegrated together."""

from typing import NamedTuple

import numpy as np

from maci2.types import Array, Mask, Stamps
from maci2.vision import RelativePoses


class Run(NamedTuple):
    """W windows of m relative poses each; every window begins where the one before it ends."""

    stamps_ns: Stamps
    """(W m + 1,) keyframes."""

    Ts_ck_ck1: Array
    """(W, m, 4, 4)"""

    covs_T_ck_ck1: Array
    """(W, m, 6, 6)"""

    measured: Mask
    """(W, m) which relative poses vision measured."""

    def stacked(self, values: Array) -> Array:
        """(W, m, ...) from (W m, ...)."""
        return values.reshape(*self.measured.shape, *values.shape[1:])


def runs_of(windows: list[RelativePoses]) -> list[Run]:
    """The same windows as runs, in the order of time; windows of which nothing was measured say
    nothing and are dropped."""
    ordered = sorted(windows, key=lambda window: int(window.stamps_ns[0]))
    groups: list[list[RelativePoses]] = []
    for window in ordered:
        if window.measured.sum() < 2:
            continue
        last = groups[-1][-1] if groups else None
        if last is not None and _follows(last, window):
            groups[-1].append(window)
        else:
            groups.append([window])
    return [_run(group) for group in groups]


def _follows(before: RelativePoses, after: RelativePoses) -> bool:
    return len(before) == len(after) and before.stamps_ns[-1] == after.stamps_ns[0]


def _run(group: list[RelativePoses]) -> Run:
    starts = [window.stamps_ns[:-1] for window in group]
    return Run(
        np.concatenate([*starts, group[-1].stamps_ns[-1:]]),
        np.array([window.Ts_ck_ck1 for window in group]),
        np.array([window.covs_T_ck_ck1 for window in group]),
        np.array([window.measured for window in group]),
    )
