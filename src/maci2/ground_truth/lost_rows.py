"""Rows that a tracker wrote after it had lost the body: one pose again and again, while the body
rotates."""

from dataclasses import replace

import numpy as np

from maci2.ground_truth.capture import Capture
from maci2.ground_truth.registration import Registration
from maci2.imu.rotation_rates import MIN_RATE
from maci2.sensors import ImuSamples
from maci2.types import NS

SHORTEST_S = 0.1
"""A pose repeated for less is a slow tracker, read out fast."""


def without_lost_rows(capture: Capture, found: Registration, imu: ImuSamples) -> Capture:
    """The capture without them; they are named in `lost_ns`."""
    if capture.Rs_w_m is None:
        return capture
    poses = np.hstack([capture.p_w_m, capture.Rs_w_m.reshape(-1, 9)])
    changes = np.r_[True, (poses[1:] != poses[:-1]).any(axis=1)]
    firsts = np.flatnonzero(changes)
    lasts = np.r_[firsts[1:], len(poses)] - 1
    lost = np.zeros(len(poses), dtype=bool)
    speed = np.linalg.norm(imu.gyro - found.bias_gyro, axis=1)
    on_imu_ns = capture.stamps_ns + round(found.offset_s * NS)
    for first, last in zip(firsts, lasts, strict=True):
        if on_imu_ns[last] - on_imu_ns[first] >= SHORTEST_S * NS:
            during = speed[slice(*np.searchsorted(imu.stamps_ns, on_imu_ns[[first, last]]))]
            lost[first : last + 1] = len(during) > 0 and np.median(during) > MIN_RATE
    if not lost.any():
        return capture
    claims = capture.claims
    if claims is not None:
        claims = claims.part(~np.isin(claims.stamps_ns, capture.stamps_ns[lost]))
    return replace(
        capture,
        stamps_ns=capture.stamps_ns[~lost],
        p_w_m=capture.p_w_m[~lost],
        Rs_w_m=capture.Rs_w_m[~lost],
        claims=claims,
        lost_ns=capture.stamps_ns[lost],
    )


def lost_rows_in_words(capture: Capture) -> str:
    """How many rows there were and from when on; empty without any."""
    if not len(capture.lost_ns):
        return ""
    at_s = (capture.lost_ns[0] - capture.stamps_ns[0]) / NS
    return (
        f"{len(capture.lost_ns)} rows repeat one pose while the body rotates (tracking lost?), "
        f"from {at_s:.1f} s on"
    )
