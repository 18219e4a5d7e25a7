"""Jumps of a capture: steps of its rows, all of them, against audited states.

Over a tenth of a second audited states follow the IMU, so what changes there in the difference of
row and state is the row's. A smoothed truth is audited at one row a second; its jumps lie between.
"""

from dataclasses import dataclass, field

import numpy as np

from maci2.estimator.problem import ORIENTATION_CLOCK_AT, POSITION_CLOCK_AT
from maci2.ground_truth.audit_fit import AuditFit
from maci2.ground_truth.capture import Capture
from maci2.lie.stacks import so3_log_stack
from maci2.sensors import GroundTruth, bridged, truth_at
from maci2.types import NS, Array, Stamps

SPAN_S = 0.1
"""Steps are taken over this time."""

MAX_GAP_S = 0.02
SIGMAS = 8.0
"""Size of a jump in standard deviations of ordinary steps; their tails are long."""

LEAST_M, LEAST_RAD = 0.01, np.deg2rad(0.5)
"""Size of a jump."""


@dataclass(frozen=True)
class JumpsOf:
    """Jumps of positions or of orientations."""

    stamps_ns: Stamps = field(default_factory=lambda: np.zeros(0, np.int64))
    """(m,) middles of steps that are jumps, on the source's own clock."""

    sizes: Array = field(default_factory=lambda: np.zeros(0))
    """(m,) [m] or [rad]"""

    @property
    def largest(self) -> float:
        return float(self.sizes.max(initial=0.0))

    @property
    def largest_first_ns(self) -> Stamps:
        """The largest step of each group within a second, the largest group first."""
        groups = np.cumsum(np.r_[0, np.diff(self.stamps_ns) > NS])
        order = np.lexsort((-self.sizes, groups))
        tops = order[np.unique(groups[order], return_index=True)[1]]
        return self.stamps_ns[tops[np.argsort(-self.sizes[tops])]]


@dataclass(frozen=True)
class Jumps:
    """Jumps of a capture."""

    positions: JumpsOf
    orientations: JumpsOf

    @property
    def stamps_ns(self) -> Stamps:
        """(m,) of either kind, rising."""
        return np.union1d(self.positions.stamps_ns, self.orientations.stamps_ns)


def find_jumps(capture: Capture, fit: AuditFit, truth: GroundTruth) -> Jumps:
    """Steps of the capture's rows that audited states do not have."""
    shared = fit.solution.shared
    R_g_w, T_b_m = shared.R_w_g.T, shared.T_b_m
    rows, at = _states(capture, truth, fit, POSITION_CLOCK_AT)
    p_g_m = at.Ts_w_b[:, :3, 3] + at.Ts_w_b[:, :3, :3] @ T_b_m[:3, 3]
    positions = _jumps(capture.stamps_ns[rows], capture.p_w_m[rows] @ R_g_w.T - p_g_m, LEAST_M)
    if capture.Rs_w_m is None:
        return Jumps(positions, JumpsOf())
    rows, at = _states(capture, truth, fit, ORIENTATION_CLOCK_AT)
    Rs_g_m = at.Ts_w_b[:, :3, :3] @ T_b_m[:3, :3]
    apart = so3_log_stack(R_g_w @ capture.Rs_w_m[rows] @ np.swapaxes(Rs_g_m, 1, 2))
    return Jumps(positions, _jumps(capture.stamps_ns[rows], apart, LEAST_RAD))


def _states(
    capture: Capture, truth: GroundTruth, fit: AuditFit, clock_at: int
) -> tuple[Stamps, GroundTruth]:
    """Rows beside which there are audited states, and these."""
    scalars = fit.solution.shared.scalars
    offset_s, drift = scalars[clock_at], scalars[clock_at + 2]
    since_s = (capture.stamps_ns - fit.problem.clock_origin_ns) / NS
    shift_ns = np.rint((offset_s + drift * since_s) * NS).astype(np.int64)
    stamps_ns = capture.stamps_ns + shift_ns
    rows = np.flatnonzero(bridged(truth.stamps_ns, stamps_ns, MAX_GAP_S))
    return rows, truth_at(truth, stamps_ns[rows], MAX_GAP_S)


def _jumps(stamps_ns: Stamps, apart: Array, least: float) -> JumpsOf:
    """Steps of a difference over `SPAN_S` that are far larger than its others."""
    if len(stamps_ns) < 2:
        return JumpsOf()
    k = max(round(SPAN_S * NS / float(np.median(np.diff(stamps_ns)))), 1)
    near = stamps_ns[k:] - stamps_ns[:-k] < 1.5 * SPAN_S * NS
    steps = np.linalg.norm(apart[k:] - apart[:-k], axis=1)[near]
    if not len(steps):
        return JumpsOf()
    # Of a vector with three normal components, the median length is 1.54 sigmas.
    limit = max(least, SIGMAS * float(np.median(steps)) / 1.54)
    far = steps > limit
    middles_ns = stamps_ns[:-k] + (stamps_ns[k:] - stamps_ns[:-k]) // 2
    return JumpsOf(middles_ns[near][far], steps[far])
