"""The excitation gate of DRT, on motions whose excitation is known."""

from dataclasses import replace

import numpy as np

from helpers import simulated_window
from maci2_lab.baselines import Segment
from maci2_lab.baselines.segment import is_excited


def segment_of(kind, seed=1):
    window = simulated_window(kind, seed)
    return Segment(window.imu, window.imu, window.imu, window.vision, window.truth.T_b_c)


def test_a_shaken_device_passes_the_gate():
    assert is_excited(segment_of("handheld"))


def test_a_device_at_rest_does_not():
    segment = segment_of("handheld")
    still = np.tile([0.0, 0.0, 9.81], (len(segment.raw.acc), 1))
    raw = replace(segment.raw, acc=still, gyro=np.zeros_like(still))
    assert not is_excited(replace(segment, raw=raw))


def test_a_force_half_a_percent_off_gravity_is_the_limit():
    segment = segment_of("handheld")
    for share, passes in ((0.004, False), (0.006, True)):
        force = np.tile([0.0, 0.0, 9.81 * (1.0 + share)], (len(segment.raw.acc), 1))
        raw = replace(segment.raw, acc=force, gyro=np.zeros_like(force))
        assert is_excited(replace(segment, raw=raw)) is passes
