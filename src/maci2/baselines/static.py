"""Static initialization: the device is assumed to be stationary, as in OKVIS2 (in Basalt from one
sample).

Gravity is opposite to the mean accelerometer between the first two keyframes, velocity and both
biases are zero, poses are vision's. It accepts everything: it shows what "just start" costs.
"""

import numpy as np

from maci2.baselines.alignment import with_norm
from maci2.baselines.segment import Answer, Segment


def static(segment: Segment) -> Answer:
    """Gravity opposite to the mean specific force."""
    inside = (segment.raw.stamps_ns >= segment.stamps_ns[0]) & (
        segment.raw.stamps_ns <= segment.stamps_ns[1]
    )
    force_b = segment.raw.acc[inside].mean(axis=0)
    Ts_c0_b = segment.Ts_c0_b()
    gravity_c0 = with_norm(-Ts_c0_b[0, :3, :3] @ force_b, segment.gravity_norm)
    zeros = np.zeros(3)
    state = segment.state(gravity_c0, np.zeros((len(Ts_c0_b), 3)), zeros, zeros, Ts_c0_b)
    return Answer(True, "", state)
