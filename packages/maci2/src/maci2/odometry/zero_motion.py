"""A device that stands still: recognised, and answered with what rest tells."""

from dataclasses import replace

import numpy as np

from maci2.geometry import se3_log
from maci2.geometry.gaussian import nees
from maci2.imu import ImuMeasurements
from maci2.imu.bias_tracker import MAX_STD
from maci2.types import NS
from maci2.vision import RelativePoses, pose_noise

STILL_CHI2 = 2.0
"""Chi-square per degree of freedom of relative poses, up to which noise explains them."""

STILL_STD_M = 0.01
"""Steps less certain than this show nothing."""

REST_STD = (0.005, 0.0005)
"""Motion of a stationary device [deg, m] from keyframe to keyframe."""

QUIET_S = 1.0
"""Time over which an IMU has to read the same: a slow rotation that begins shows in it."""


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


def is_quiet(imu: ImuMeasurements, stamp_ns: int) -> bool:
    """Whether the samples of the last second before a time hardly vary."""
    first_ns = max(stamp_ns - round(QUIET_S * NS), int(imu.stamps_ns[0]))
    recent = imu.between(first_ns, stamp_ns)
    spread = (recent.gyro.std(axis=0).max(), recent.acc.std(axis=0).max())
    return bool(spread[0] < MAX_STD[0] and spread[1] < MAX_STD[1])
