"""Simulated recordings with relative poses drawn from their own covariance, for tracking."""

from dataclasses import dataclass, replace

import numpy as np

from maci2.calibration_prior import EXACT
from maci2.consistency import initialize
from maci2.estimator.initialize import camera_motions
from maci2.estimator.smoother import chain_problem as problem_of_chain
from maci2.estimator.smoother import world_states
from maci2.estimator.solver import solve
from maci2.estimator.visual_noise import TIME_CONSTANT_S, drift_step
from maci2.geometry import so3_exp
from maci2.imu import ImuMeasurements, datasheet_model
from maci2.sensors import GroundTruth, truth_at
from maci2.simulation import SimulationConfig, simulate
from maci2.types import Array, Stamps
from maci2.vision import RelativePoses, pose_noise, poses_from_truth
from maci2.vision.odometry import even_keyframes


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


GOOD_NOISE = (0.006, 0.0004)
"""Of relative poses [deg, m]: good images, which a slow error shows against."""


def wobbling(ride, std_deg: float, seed: int):
    """The ride as vision sees it that rotates slowly against the body."""
    rng, vision = np.random.default_rng(seed), ride.vision
    w = np.concatenate([rng.standard_normal(3), rng.standard_normal(3) / TIME_CONSTANT_S])
    Ts_b_seen = np.tile(np.eye(4), (len(vision), 1, 1))
    for k, dt in enumerate([0.0, *np.diff(vision.stamps_ns) / 1e9]):
        by_w, noise = drift_step(dt)
        w = by_w @ w + np.linalg.cholesky(noise + 1e-18 * np.eye(6)) @ rng.standard_normal(6)
        Ts_b_seen[k, :3, :3] = so3_exp(np.deg2rad(std_deg) * w[:3])
    Ts_c_seen = np.linalg.inv(ride.T_b_c) @ Ts_b_seen @ ride.T_b_c
    Ts = np.linalg.inv(Ts_c_seen[:-1]) @ vision.Ts_ck_ck1 @ Ts_c_seen[1:]
    return replace(ride, vision=replace(vision, Ts_ck_ck1=Ts))


def first_guess(ride):
    return world_states(initialize(ride.imu, ride.vision, ride.T_b_c), ride.T_b_c)


def chain_problem(ride, guess, calibration=EXACT):
    """The ride's chain; its world begins with the guess."""
    camera = camera_motions(ride.vision, np.arange(len(ride.vision) - 1))
    return problem_of_chain(ride.imu, ride.vision, camera, guess, ride.walks, calibration)


def chain_of(ride, guess, calibration=EXACT):
    """The ride's chain, solved."""
    return solve(chain_problem(ride, guess, calibration), *guess)
