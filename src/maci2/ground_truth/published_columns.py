"""Columns that a published ground truth has beside poses: velocities and biases."""

import numpy as np

from maci2.findings import Finding
from maci2.ground_truth.constants import Constant, length_of, scalar_of
from maci2.sensors import GroundTruth, truth_at
from maci2.types import NS, Array, Stamps

NEAR_S = 0.02
"""Rows are compared this close to an audited state."""

FEWEST = 100
BLOCK_S = 10.0
HALF_S = 0.005
"""Audited accelerations are differences of velocity over twice this."""

LEAST_SPEED = 0.1
"""Speed, rms [m/s], below which nothing is said of velocity columns."""

ALIKE = 0.9
"""Cosine between velocity columns and audited velocities above which they are the same motion."""

SCALE = 0.1
"""Largest error of the columns' scale that is not another unit."""


def column_constants(claims: GroundTruth, truth: GroundTruth, R_g_w: Array) -> dict[str, Constant]:
    """Lateness of velocity columns and errors of bias columns, against audited states on the
    same clock; R_g_w takes the columns' world to the level one."""
    constants: dict[str, Constant] = {}
    assert truth.covariance is not None
    both = _at_claims(claims, truth)
    if both is None:
        return constants
    rows, audited = both
    if _rms(audited.v_w) > LEAST_SPEED and not velocity_finding("", claims, truth, R_g_w):
        constants["velocity_late_ms"] = _velocity_lag(claims.v_w[rows], audited, truth)
    cov = truth.covariance.states
    for name, part, unit in (("acc", slice(12, 15), "m/s^2"), ("gyro", slice(9, 12), "rad/s")):
        column = getattr(claims, f"bias_{name}")[rows] - getattr(audited, f"bias_{name}")
        if np.isfinite(column).all():
            constants[f"{name}_bias_column"] = length_of(
                column.mean(axis=0), cov[:, part, part].mean(axis=0), unit
            )
    return constants


def _at_claims(claims: GroundTruth, truth: GroundTruth) -> tuple[Stamps, GroundTruth] | None:
    """Rows that state a velocity, and the audited states there; None where there are too few."""
    margin_ns = round(HALF_S * NS)
    first_ns, last_ns = truth.stamps_ns[0] + margin_ns, truth.stamps_ns[-1] - margin_ns
    inside = (claims.stamps_ns >= first_ns) & (claims.stamps_ns <= last_ns)
    rows = np.flatnonzero(inside & np.isfinite(claims.v_w).all(axis=1))
    at_ns = claims.stamps_ns[rows]
    after = np.clip(np.searchsorted(truth.stamps_ns, at_ns + margin_ns), 0, len(truth) - 1)
    before = np.searchsorted(truth.stamps_ns, at_ns - margin_ns, side="right") - 1
    rows = rows[truth.stamps_ns[after] - truth.stamps_ns[before] < NEAR_S * NS + 2 * margin_ns]
    if len(rows) < FEWEST:
        return None
    return rows, truth_at(truth, claims.stamps_ns[rows], max_gap_s=np.inf)


def _velocity_lag(v_claimed: Array, audited: GroundTruth, truth: GroundTruth) -> Constant:
    """Time by which velocities are late: their error regressed on acceleration.

    The scatter over blocks of ten seconds is the uncertainty.
    """
    half_ns = round(HALF_S * NS)
    later, sooner = (
        truth_at(truth, audited.stamps_ns + shift, max_gap_s=np.inf).v_w
        for shift in (half_ns, -half_ns)
    )
    acc = (later - sooner) / (2.0 * HALF_S)
    # A rotated world is no lag: compare after the best rotation.
    U, _, Vt = np.linalg.svd(audited.v_w.T @ v_claimed)
    error = v_claimed @ (U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt).T - audited.v_w
    elapsed_s = (audited.stamps_ns - audited.stamps_ns[0]) / NS
    count = max(int(elapsed_s[-1] / BLOCK_S), 3)
    blocks = np.array_split(np.arange(len(acc)), count)
    lags = np.array([-np.sum(error[b] * acc[b]) / np.sum(acc[b] ** 2) for b in blocks])
    weights = np.array([np.sum(acc[b] ** 2) for b in blocks])
    weights /= weights.sum()
    lag = float(np.sum(weights * lags))
    scatter = float(np.sum(weights**2 * (lags - lag) ** 2)) * count / (count - 1.0)
    return scalar_of(1e3 * lag, 1e3 * np.sqrt(scatter), "ms", count - 1)


def velocity_finding(
    name: str, claims: GroundTruth, truth: GroundTruth, R_g_w: Array
) -> list[Finding]:
    """Velocity columns that are none: zero, in the body's frame, of another unit or sign."""
    both = _at_claims(claims, truth)
    if both is None:
        return []
    rows, audited = both
    known = np.asarray(np.isfinite(audited.v_w).all(axis=1))
    if known.sum() < FEWEST:
        return []
    rows, audited = rows[known], audited.part(known)
    claimed, v_g = claims.v_w[rows] @ R_g_w.T, audited.v_w
    speed, claimed_speed = _rms(v_g), _rms(claimed)
    if speed < LEAST_SPEED:
        return []
    needed = "needed are velocities of the body in the world [m/s]"
    if claimed_speed < SCALE * speed:
        text = f"velocity columns are {claimed_speed:.2g} m/s rms"
    elif _cosine(claimed, v_g) < -ALIKE:
        text = "velocity columns have the wrong sign"
    elif _cosine(claimed, v_g) < ALIKE:
        v_b = np.einsum("nji,nj->ni", audited.Ts_w_b[:, :3, :3], v_g)
        in_body = _cosine(claims.v_w[rows], v_b) > ALIKE
        text = "velocity columns " + (
            "are in the body's frame"
            if in_body
            else f"do not follow the motion (correlation {_cosine(claimed, v_g):.2f})"
        )
    elif abs(claimed_speed / speed - 1.0) > SCALE:
        text = f"velocity columns are {claimed_speed / speed:.3g} times the velocity"
    else:
        return []
    text += f", while the body moves at {speed:.2f} m/s rms; {needed}"
    return [Finding("warn", name, text, "velocity columns")]


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.sum(values**2, axis=1))))


def _cosine(a: Array, b: Array) -> float:
    norms = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return float(np.sum(a * b)) / max(norms, 1e-12)
