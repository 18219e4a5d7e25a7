"""Rotation of the camera predicted by the gyroscope, as a prior of vision."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maci2.calibration_prior import UNVERIFIED
from maci2.datasets import open_recording
from maci2.errors import DatasetError, Maci2Error
from maci2.geometry import so3_log
from maci2.imu import GAMMA, ImuMeasurements, preintegrate, raw_model
from maci2.rigs import Given
from maci2.sensors import Recording
from maci2.types import NS, Array
from maci2.vision import rectified_extrinsics
from maci2.vision.relative_poses import PredictedRotation, RotationPredictor, no_prediction

WANDER_STD, CROSS_AXIS_STD = 1e-3, 3e-3
"""[rad/s] How far a bias wanders within seconds, and what an axis reads of rates about the others:
errors of a single prediction."""

ENDS = 5
"""Samples whose mean is the rate at a timestamp."""


@dataclass(frozen=True)
class GyroRotation:
    """Rotation of a camera between two timestamps, as the gyroscope measured it."""

    imu: ImuMeasurements
    """Samples that cover the images."""

    T_b_c: Array
    """Pose of the camera in the body."""

    shift_ns: int = 0
    """Nanoseconds added to timestamps of images to convert them to the IMU's clock."""

    def __call__(self, start_ns: int, end_ns: int) -> PredictedRotation | None:
        """The prediction with its covariance; None where samples are missing."""
        stamps_ns = np.array([start_ns, end_ns], dtype=np.int64) + self.shift_ns
        imu = self.imu.between(int(stamps_ns[0]), int(stamps_ns[1]))
        prior = imu.bias_prior
        try:
            between = preintegrate(imu, stamps_ns, prior.mean_gyro)
        except DatasetError:
            return None
        R_b_c = self.T_b_c[:3, :3]
        R_ck_ck1 = R_b_c.T @ between.gamma[0] @ R_b_c
        # gamma is perturbed on the right, in body k+1; a left perturbation is one in camera k.
        ck_D_gamma = R_ck_ck1 @ R_b_c.T
        dt = float(stamps_ns[1] - stamps_ns[0]) / NS
        angle = float(np.linalg.norm(so3_log(R_ck_ck1)))
        own = ck_D_gamma @ between.cov[0, GAMMA, GAMMA] @ ck_D_gamma.T
        own += ((WANDER_STD * dt) ** 2 + (CROSS_AXIS_STD * angle) ** 2 + 1e-8) * np.eye(3)
        for omega_ck in self._rates_at_ends(imu, R_ck_ck1):
            own += UNVERIFIED.camera_jitter_s**2 * np.outer(omega_ck, omega_ck)
        by_shared = self._by_shared(imu, R_ck_ck1, ck_D_gamma @ between.D_bg[0, GAMMA])
        return PredictedRotation(R_ck_ck1, own + by_shared @ by_shared.T, by_shared)

    def _by_shared(self, imu: ImuMeasurements, R_ck_ck1: Array, ck_D_bg: Array) -> Array:
        """(3, 10) derivatives of a prediction by what all of them share: bias, scales, rotation of
        the extrinsics, offset of the clocks, each in units of its standard deviation."""
        prior = imu.bias_prior
        std_bias = np.where(np.isfinite(prior.std_gyro), prior.std_gyro, UNVERIFIED.gyro_bias)
        rates = imu.gyro - prior.mean_gyro
        at_first, at_second = self._rates_at_ends(imu, R_ck_ck1)
        return np.column_stack(
            [
                ck_D_bg * std_bias,
                ck_D_bg * (rates.mean(axis=0) * UNVERIFIED.gyro_scale),
                # A rotation e of the extrinsics turns R into Exp(e) R Exp(-e).
                UNVERIFIED.rotation * (np.eye(3) - R_ck_ck1),
                # Images that are late by t show Exp(-omega_ck t) R Exp(omega_ck1 t).
                UNVERIFIED.camera_clock_s * (at_second - at_first),
            ]
        )

    def _rates_at_ends(self, imu: ImuMeasurements, R_ck_ck1: Array) -> tuple[Array, Array]:
        """Angular rates at both timestamps, expressed in camera k [rad/s]."""
        rates = (imu.gyro - imu.bias_prior.mean_gyro) @ self.T_b_c[:3, :3]
        return rates[:ENDS].mean(axis=0), R_ck_ck1 @ rates[-ENDS:].mean(axis=0)


def rotation_predictor(
    recording: Recording, imu: ImuMeasurements | None = None
) -> RotationPredictor:
    """The gyroscope's prediction for a recording's images; none where the extrinsics are unknown.

    `imu` are the measurements of an IMU model; the raw samples where it is not given.
    """
    rig = recording.rig
    if not rig.extrinsics_known:
        return no_prediction
    shift_ns = round(rig.time_offset_s * NS) - recording.camera_shift_ns
    imu = raw_model(recording.imu, rig.imu) if imu is None else imu
    return GyroRotation(imu, rectified_extrinsics(rig), shift_ns)


def predictor_where_there_is_an_imu(
    path: Path, rig: str | Path | None, topics: str, given: Given
) -> RotationPredictor:
    """The gyroscope's prediction for images stamped by the camera's clock; none where there is no
    IMU, or none that can be read."""
    try:
        recording = open_recording(path, rig, topics, given, clock="camera")
    except Maci2Error:
        return no_prediction
    return rotation_predictor(recording)
