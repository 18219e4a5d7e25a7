"""The excitation gate of DRT's public driver: which windows it would not even have tried."""

import numpy as np

from maci2.baselines import Segment
from maci2.imu import preintegrate

SHARE = 0.005
"""Of gravity's norm."""


def is_excited(segment: Segment) -> bool:
    """Mean specific force differs from gravity's norm by more than 0.5 %, over the window and in
    all intervals but one at most."""
    zero = np.zeros(3)
    pre = preintegrate(segment.raw, segment.stamps_ns, zero, zero)
    force = pre.beta / pre.dt[:, None]
    at_rest = np.abs(np.linalg.norm(force, axis=1) / segment.gravity_norm - 1.0) < SHARE
    mean = np.linalg.norm(force.mean(axis=0)) / segment.gravity_norm
    return bool(abs(mean - 1.0) > SHARE and at_rest.sum() <= 1)
