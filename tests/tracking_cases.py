"""Simulated recordings with relative poses drawn from their own covariance, for tracking."""

from dataclasses import dataclass

import numpy as np

from maci2.imu import ImuMeasurements, datasheet_model
from maci2.sensors import GroundTruth, truth_at
from maci2.simulation import SimulationConfig, simulate
from maci2.types import Array, Stamps
from maci2.vision import RelativePoses, pose_noise, poses_from_truth
from maci2.vision.odometry_run import even_keyframes


@dataclass(frozen=True)
class Ride:
    """A simulated recording, ready to be tracked."""

    imu: ImuMeasurements
    vision: RelativePoses
    T_b_c: Array
    walks: tuple[float, float]
    truth: GroundTruth

    def truth_at(self, stamps_ns: Stamps) -> GroundTruth:
        return truth_at(self.truth, stamps_ns, 0.1)


def simulated_ride(seed: int, duration_s: float = 12.0, noise=(0.05, 0.003), kind="handheld"):
    recording = simulate(
        SimulationConfig(kind=kind, duration_s=duration_s, bias_walk=True, seed=seed)
    )
    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    images_ns = recording.camera_stamps_ns[0]
    inside = (images_ns > truth.stamps_ns[0]) & (images_ns < truth.stamps_ns[-1])
    keyframes_ns = even_keyframes(images_ns[inside], 0.2)
    vision = poses_from_truth(truth, keyframes_ns, T_b_c, pose_noise(*noise), seed=(seed,))
    sheet = recording.rig.imu
    imu = datasheet_model(recording.imu, sheet)
    return Ride(imu, vision, T_b_c, (sheet.walk_gyro, sheet.walk_acc), truth)


def without(vision: RelativePoses, from_s: float, to_s: float) -> list[str]:
    """Reasons that call relative poses between two times unmeasured."""
    since_s = (vision.stamps_ns[1:] - vision.stamps_ns[0]) / 1e9
    return ["blackout" if from_s < t < to_s else "" for t in np.asarray(since_s)]
