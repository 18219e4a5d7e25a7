"""How well two ground truths of one recording agree, whatever worlds and clocks they have."""

from dataclasses import dataclass

import numpy as np

from maci2.lie.stacks import nearest_rotation, so3_log_stack
from maci2.sensors import GroundTruth, truth_at
from maci2.types import NS, nearest_index

MARGIN_S = 0.1
MAX_GAP_S = 0.02
FEWEST = 100
"""Rows in common from which two truths are compared."""


@dataclass(frozen=True)
class Agreement:
    """What is left between two truths after alignment of their worlds."""

    late_s: float
    """How late the other's positions are; zero where clocks were not aligned."""

    position_m: float
    """Root mean square of positions."""

    rotation_deg: float
    """Root mean square of rotations."""


@dataclass(frozen=True)
class Compared:
    """A ground truth of the recording beside audited states."""

    name: str
    fixed: Agreement
    """With clocks as they are."""

    shifted: Agreement
    """With its positions taken earlier by what agrees best."""

    def sentence(self) -> str:
        """Both figures in plain words."""
        side = "earlier" if self.shifted.late_s > 0.0 else "later"
        return (
            f"audited states differ from {self.name} by {self.fixed.rotation_deg:.2f} deg and "
            f"{1e3 * self.fixed.position_m:.1f} mm rms after alignment of the worlds, by "
            f"{1e3 * self.shifted.position_m:.1f} mm with its positions taken "
            f"{1e3 * abs(self.shifted.late_s):.1f} ms {side}"
        )


def compare_with_published(
    audited: GroundTruth, published: dict[str, GroundTruth]
) -> list[Compared]:
    """Every published truth that has rows in common with the audited states."""
    found = []
    for name, theirs in published.items():
        near_ns = audited.stamps_ns[nearest_index(audited.stamps_ns, theirs.stamps_ns)]
        near = np.abs(near_ns - theirs.stamps_ns) < MAX_GAP_S / 2.0 * NS
        if near.sum() >= FEWEST:
            common = theirs.part(near)
            fixed, shifted = (agreement(audited, common, clocks) for clocks in (False, True))
            found.append(Compared(name, fixed, shifted))
    return found


def agreement(ours: GroundTruth, theirs: GroundTruth, align_clocks: bool) -> Agreement:
    """Compare at the other's timestamps; `ours` needs velocities where clocks are aligned."""
    margin_ns = round(MARGIN_S * NS)
    inside = (theirs.stamps_ns > ours.stamps_ns[0] + margin_ns) & (
        theirs.stamps_ns < ours.stamps_ns[-1] - margin_ns
    )
    other = theirs.part(inside)
    own = truth_at(ours, other.stamps_ns, MAX_GAP_S)
    p, v, p_other = own.Ts_w_b[:, :3, 3], own.v_w, other.Ts_w_b[:, :3, 3]
    p, v, p_other = (values - values.mean(axis=0) for values in (p, v, p_other))
    late_s = 0.0
    for _ in range(3):
        R = nearest_rotation((p - late_s * v).T @ p_other)
        apart = p - p_other @ R.T
        if align_clocks:
            late_s = float(np.sum(apart * v) / np.sum(v**2))
            apart = apart - late_s * v
    turns = so3_log_stack(np.swapaxes(own.Ts_w_b[:, :3, :3], 1, 2) @ R @ other.Ts_w_b[:, :3, :3])
    position_m, rotation = (
        float(np.sqrt(np.mean(np.sum(errors**2, axis=1)))) for errors in (apart, turns)
    )
    return Agreement(late_s, position_m, float(np.degrees(rotation)))
