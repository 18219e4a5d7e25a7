"""Initializers that run on the same segments: maci2's own and baselines implemented from their
equations.

Adding one is a file and a line in `INITIALIZERS` (docs/own_initializer.md).
"""

from dataclasses import replace
from functools import partial

import numpy as np

from maci2.errors import OptionError
from maci2.estimator import VIState
from maci2_lab.baselines.closed_forms import (
    EUROC_ACC_BIAS,
    analytic,
    const_bias,
    kimera,
    linear,
    static,
)
from maci2_lab.baselines.drt import drt_loose, drt_pnec, drt_tight
from maci2_lab.baselines.ff_back_end import ff_back_end
from maci2_lab.baselines.maci2 import (
    maci2,
    maci2_identity_imu,
    maci2_paper,
    maci2_raw,
    maci2_two_frame,
)
from maci2_lab.baselines.openvins import EUROC_GUESS, NO_GUESS, openvins_dynamic, openvins_static
from maci2_lab.baselines.orbslam3 import orbslam3, orbslam3_full, stereo_nec
from maci2_lab.baselines.segment import Answer, Initializer, Segment, make_segment, with_stage_times
from maci2_lab.baselines.sqrtvins import sqrtvins
from maci2_lab.baselines.vins import vins, vins_fixed, vins_mono, vins_mono_fixed
from maci2_lab.baselines.vins_fusion import vins_fusion

INITIALIZERS: dict[str, Initializer] = {
    "maci2": maci2,
    "maci2-raw": maci2_raw,
    "maci2-paper": maci2_paper,
    "maci2-identity-imu": maci2_identity_imu,
    "maci2-two-frame": maci2_two_frame,
    "const-bias": const_bias(EUROC_ACC_BIAS),
    "linear": linear,
    "vins": vins,
    "vins-fixed": vins_fixed,
    "orbslam3": orbslam3,
    "analytic": analytic,
    "kimera": kimera,
    "static": static,
    "vins-mono": vins_mono,
    "vins-mono-fixed": vins_mono_fixed,
    "drt-t": drt_tight,
    "drt-l": drt_loose,
    "drt-pnec": drt_pnec,
    "stereo-nec": stereo_nec,
    "orbslam3-full": orbslam3_full,
    "vins-fusion": vins_fusion,
    "sqrtvins-mono": partial(sqrtvins, stereo=False, guess=NO_GUESS),
    "sqrtvins-mono-guess": partial(sqrtvins, stereo=False, guess=EUROC_GUESS),
    "sqrtvins-stereo": partial(sqrtvins, stereo=True, guess=NO_GUESS),
    "sqrtvins-stereo-guess": partial(sqrtvins, stereo=True, guess=EUROC_GUESS),
    "ff-back-end": partial(ff_back_end, guess=NO_GUESS),
    "ff-back-end-guess": partial(ff_back_end, guess=EUROC_GUESS),
    "openvins-static": openvins_static,
    "openvins-linear": partial(openvins_dynamic, guess=NO_GUESS, iterations=0),
    "openvins": partial(openvins_dynamic, guess=NO_GUESS),
    "openvins-guess": partial(openvins_dynamic, guess=EUROC_GUESS),
}

__all__ = [
    "INITIALIZERS",
    "Answer",
    "Initializer",
    "Segment",
    "find_initializer",
    "make_segment",
    "run_initializer",
]


def find_initializer(name: str) -> Initializer:
    """Initializer of this name; the error lists what exists."""
    if name not in INITIALIZERS:
        raise OptionError(
            f"'{name}' is no initializer; choose from {', '.join(sorted(INITIALIZERS))}."
        )
    return INITIALIZERS[name]


def run_initializer(initializer: Initializer, segment: Segment) -> Answer:
    """Answer of an initializer; a singular system, NaN or a missing state becomes a rejection."""
    try:
        answer, stages = with_stage_times(lambda: initializer(segment))
        answer = replace(answer, stages=stages)
    except np.linalg.LinAlgError as error:
        return Answer(False, f"the window does not determine the state ({error})")
    if answer.state is None:
        return replace(answer, accepted=False)
    broken = _not_finite(answer.state)
    if broken:
        return Answer(False, f"the answer's {broken} is NaN or infinite", stages=stages)
    return answer


def _not_finite(state: VIState) -> str:
    """Name of the first field that is not finite."""
    for name in ("gravity_c0", "velocity_b", "gyro_bias", "acc_bias", "Ts_c0_b"):
        if not np.isfinite(getattr(state, name)).all():
            return name
    return ""
