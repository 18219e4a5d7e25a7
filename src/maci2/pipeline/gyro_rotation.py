"""The gyroscope's rotation of the camera, handed to vision as a prediction."""

from dataclasses import dataclass

import numpy as np

from maci2.errors import DatasetError
from maci2.imu import GAMMA, ImuMeasurements, preintegrate
from maci2.types import Array
from maci2.vision.predicted_rotation import PredictedRotation

UNKNOWN_BIAS_STD = 0.1
"""Spread of a MEMS gyroscope's turn-on bias [rad/s], one axis, where nothing is known of it."""

EXTRINSICS_STD = 0.02
"""[rad] How far off the rotation of the camera in the body may be, per axis."""


@dataclass(frozen=True)
class GyroRotation:
    """Rotation of a camera between two timestamps, as the gyroscope measured it."""

    imu: ImuMeasurements
    """Samples, on the clock of the timestamps."""

    T_b_c: Array
    """Pose of the camera in the body."""

    def __call__(self, start_ns: int, end_ns: int) -> PredictedRotation | None:
        """The prediction with its covariance; None where samples are missing."""
        prior = self.imu.between(start_ns, end_ns).bias_prior
        try:
            between = preintegrate(self.imu, np.array([start_ns, end_ns]), prior.mean_gyro)
        except DatasetError:
            return None
        std_bias = np.where(np.isfinite(prior.std_gyro), prior.std_gyro, UNKNOWN_BIAS_STD)
        gamma_D_bg = between.D_bg[0, GAMMA]
        cov = between.cov[0, GAMMA, GAMMA] + gamma_D_bg @ np.diag(std_bias**2) @ gamma_D_bg.T
        R_b_c = self.T_b_c[:3, :3]
        R_ck_ck1 = R_b_c.T @ between.gamma[0] @ R_b_c
        # gamma is perturbed on the right, in body k+1; a left perturbation is one in camera k.
        ck_D_gamma = R_ck_ck1 @ R_b_c.T
        # A rotation e of the extrinsics turns R into Exp(e) R Exp(-e).
        ck_D_extrinsics = np.eye(3) - R_ck_ck1
        cov = ck_D_gamma @ cov @ ck_D_gamma.T
        cov = cov + EXTRINSICS_STD**2 * ck_D_extrinsics @ ck_D_extrinsics.T
        return PredictedRotation(R_ck_ck1, cov + 1e-8 * np.eye(3))
