"""A device that stands still: recognised, and answered with what rest tells."""

from dataclasses import replace

import numpy as np

from maci2.gaussian import nees
from maci2.lie import se3_log
from maci2.vision import RelativePoses, pose_noise

STILL_CHI2 = 2.0
"""Chi-square per degree of freedom of relative poses, up to which noise explains them."""

STILL_STD_M = 0.01
"""Steps less certain than this show nothing."""

REST_STD = (0.005, 0.0005)
"""Motion of a stationary device [deg, m] from keyframe to keyframe."""


def is_still(motion: RelativePoses) -> bool:
    """Every step is no more than noise, and the noise is small."""
    xi = np.array([se3_log(T) for T in motion.Ts_ck_ck1])
    covs = motion.covs_T_ck_ck1
    small = np.sqrt(np.trace(covs[:, :3, :3], axis1=1, axis2=2)).max() < STILL_STD_M
    return bool(small and nees(xi, covs).mean() / 6.0 < STILL_CHI2)


def at_rest(motion: RelativePoses) -> RelativePoses:
    """The same keyframes, with the knowledge that nothing moved."""
    steps = len(motion) - 1
    return replace(
        motion,
        Ts_ck_ck1=np.tile(np.eye(4), (steps, 1, 1)),
        covs_T_ck_ck1=np.tile(pose_noise(*REST_STD), (steps, 1, 1)),
    )
