"""A simulated device that moves for half a minute, and windows of what its sensors measured."""

from dataclasses import dataclass, replace

import numpy as np

from helpers import keyframe_stamps
from maci2.consistency import Evidence, MeasuredConstants
from maci2.geometry import se3_exp
from maci2.imu import ImuMeasurements, datasheet_model
from maci2.simulation import SimulationConfig, simulate
from maci2.types import Array
from maci2.vision import RelativePoses, pose_noise, poses_from_truth

STEPS, STEP_S = 9, 0.25


@dataclass(frozen=True)
class Device:
    """Measurements of one recording."""

    imu: ImuMeasurements
    windows: list[RelativePoses]
    T_b_c: Array

    def constants(self, T_nominal: Array | None = None) -> MeasuredConstants:
        evidence = Evidence(self.T_b_c if T_nominal is None else T_nominal)
        evidence.add(self.imu, self.windows)
        constants = evidence.constants()
        assert constants is not None
        return constants

    def with_axes(self, gyro: Array, acc: Array) -> "Device":
        """The same device with its IMU mounted or wired otherwise."""
        imu = replace(
            self.imu,
            gyro=np.ascontiguousarray(self.imu.gyro @ gyro.T),
            acc=np.ascontiguousarray(self.imu.acc @ acc.T),
        )
        return replace(self, imu=imu)

    def with_scale(self, scale: float) -> "Device":
        windows = []
        for window in self.windows:
            Ts = window.Ts_ck_ck1.copy()
            Ts[:, :3, 3] *= scale
            windows.append(replace(window, Ts_ck_ck1=Ts))
        return replace(self, windows=windows)

    def with_outliers(self, share: float, seed: int) -> "Device":
        rng = np.random.default_rng(seed)
        windows = []
        for window in self.windows:
            Ts = window.Ts_ck_ck1.copy()
            for k in np.flatnonzero(rng.random(len(Ts)) < share):
                Ts[k] = se3_exp(np.append(rng.normal(0, 0.3, 3), rng.normal(0, 0.1, 3))) @ Ts[k]
            windows.append(replace(window, Ts_ck_ck1=Ts))
        return replace(self, windows=windows)


def device(
    seed: int = 0, kind: str = "handheld", windows: int = 12, noise: float = 1.0, **changes
) -> Device:
    """Noise exactly as stated; `noise` multiplies what the camera draws only."""
    config = SimulationConfig(
        kind=kind, duration_s=windows * STEPS * STEP_S + 1.0, seed=seed, bias_walk=False
    )
    recording = simulate(replace(config, **changes))
    T_b_c = recording.rig.cameras[0].T_b_c
    stamps_ns = keyframe_stamps(recording, 0.2, windows * STEPS, STEP_S)
    cov = pose_noise(0.05, 0.003)
    drawn = []
    for index in range(windows):
        keyframes_ns = stamps_ns[index * STEPS : (index + 1) * STEPS + 1]
        poses = poses_from_truth(
            recording.truth(), keyframes_ns, T_b_c, noise**2 * cov, (seed, index)
        )
        drawn.append(replace(poses, covs_T_ck_ck1=np.tile(cov, (STEPS, 1, 1))))
    return Device(datasheet_model(recording.imu, recording.rig.imu), drawn, T_b_c)
