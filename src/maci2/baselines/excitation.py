"""Excitation gate of DRT's public driver, which also classifies the windows of the tables."""

import numpy as np

from maci2.baselines.segment import Segment
from maci2.imu import preintegrate

GATE_SHARE = 0.005
"""Fraction of the norm of gravity by which the mean specific force must differ from it."""


def is_excited(segment: Segment) -> bool:
    """Whether the mean specific force differs from the norm of gravity by more than 0.5 %, over the
    window and in all intervals except at most one."""
    zero = np.zeros(3)
    pre = preintegrate(segment.raw, segment.stamps_ns, zero, zero)
    force = pre.beta / pre.dt[:, None]
    norms = np.linalg.norm(force, axis=1)
    stationary = np.abs(norms / segment.gravity_norm - 1.0) < GATE_SHARE
    mean = np.linalg.norm(force.mean(axis=0)) / segment.gravity_norm
    return bool(abs(mean - 1.0) > GATE_SHARE and stationary.sum() <= 1)
