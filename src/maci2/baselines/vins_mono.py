"""VINS-Mono complete (Qin et al., T-RO 2018): its own structure from motion, then the alignment.

As released, and with the fault of its refinement fixed. It runs on the window's keyframes (the
original: ten keyframes, the newest frame and all frames between).
"""

from maci2.baselines.segment import Answer, Segment
from maci2.baselines.structure_from_motion import reconstruct
from maci2.baselines.vins import align


def vins_mono(segment: Segment) -> Answer:
    """VINS-Mono as released, with its error."""
    return _initialize(segment, clear_each_time=False)


def vins_mono_fixed(segment: Segment) -> Answer:
    """VINS-Mono as described in its paper."""
    return _initialize(segment, clear_each_time=True)


def _initialize(segment: Segment, clear_each_time: bool) -> Answer:
    structure = reconstruct(segment.tracks)
    if structure.Ts_c0_c is None:
        return Answer(False, structure.reason)
    return align(segment, structure.Ts_c0_c, clear_each_time)
