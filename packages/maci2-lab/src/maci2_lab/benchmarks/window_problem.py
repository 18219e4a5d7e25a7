"""One simulated window as a benchmark problem, for maci2 and in GTSAM's terms."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from maci2.consistency import initialize
from maci2.estimator import SolverConfig
from maci2.estimator.initial_guess import align_rotations, start_values
from maci2.estimator.initialize import solve_window
from maci2.estimator.initialize import window_problem as estimator_problem
from maci2.estimator.results import first_camera_guess
from maci2.estimator.solver import evaluated, optimized
from maci2.geometry import se3_adj, se3_inv
from maci2.imu import ImuMeasurements, datasheet_model, preintegrate
from maci2.simulation import SimulationConfig, simulate
from maci2.types import Array
from maci2.vision import RelativePoses, pose_noise, poses_from_truth
from maci2_lab.benchmarks.gtsam_problem import GtsamProblem

CONFIG = SolverConfig(gravity_on_sphere=False, robust=False, rule="euler")
"""Choices of GTSAM's factors: free gravity vector, Euler integration, no robust loss."""


@dataclass(frozen=True)
class Problem:
    """One simulated window, measured."""

    imu: ImuMeasurements
    vision: RelativePoses
    T_b_c: Array

    def preintegrate(self) -> Any:
        return preintegrate(self.imu, self.vision.stamps_ns, rule=CONFIG.rule)

    def initialize(self) -> Any:
        """State and posterior without the verdict."""
        return solve_window(self.imu, self.vision, self.T_b_c, CONFIG)

    def judge(self) -> Any:
        """The same with the verdict, which frees the rig's constants to test them."""
        return initialize(self.imu, self.vision, self.T_b_c, CONFIG).verdict


def window_problem(keyframes: int, seed: int = 0) -> Problem:
    """A drone's flight; keyframes 0.28 s apart, on IMU timestamps, 56 samples between them: ten of
    them span 2.5 s and 500 samples."""
    duration_s = 0.28 * keyframes + 0.5
    recording = simulate(
        SimulationConfig(
            kind="drone",
            duration_s=duration_s,
            seed=seed,
            camera_rate_hz=25.0,
            camera_offset_ns=0,
            bias_walk=False,
        )
    )
    truth = recording.truth()
    assert truth is not None
    T_b_c = recording.rig.cameras[0].T_b_c
    stamps_ns = recording.camera_stamps_ns[0][: 7 * keyframes : 7]
    vision = poses_from_truth(truth, stamps_ns, T_b_c, pose_noise(0.05, 0.003), (seed,))
    imu = datasheet_model(recording.imu, recording.rig.imu)
    return Problem(imu.between(int(stamps_ns[0]), int(stamps_ns[-1])), vision, T_b_c)


def joint_solve(problem: Problem) -> Callable[[], Any]:
    """Optimization alone, from the same initial guess each time."""
    joint = estimator_problem(problem.imu, problem.vision, CONFIG)
    start = evaluated(joint, *first_camera_guess(*_start(problem)))
    return lambda: optimized(start)


def _start(problem: Problem) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Initial guess: poses and velocities, gravity, biases, extrinsics."""
    prior = problem.imu.bias_prior
    pre = problem.preintegrate()
    bias_gyro = align_rotations(pre, problem.vision, problem.T_b_c[:3, :3], prior, False).bias_gyro
    pre = preintegrate(
        problem.imu, problem.vision.stamps_ns, bias_gyro, prior.mean_acc, CONFIG.rule
    )
    motion = start_values(pre, problem.vision, problem.T_b_c, CONFIG.gravity_norm)
    return *motion, bias_gyro, prior.mean_acc, np.ascontiguousarray(problem.T_b_c)


def gtsam_problem(problem: Problem) -> GtsamProblem:
    """The same window in GTSAM's terms: body motions, velocities in c0."""
    imu, vision, T_b_c = problem.imu, problem.vision, problem.T_b_c
    Ts_c0_b, v_b, g_c0, bias_gyro, bias_acc, _ = _start(problem)
    cuts = np.searchsorted(imu.stamps_ns, vision.stamps_ns)
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    period_s = float(np.diff(imu.stamps_ns).mean()) / 1e9
    Ad = se3_adj(T_b_c)
    return GtsamProblem(
        dts=[np.diff(imu.stamps_ns[part.start : part.stop + 1]) / 1e9 for part in parts],
        gyro=[imu.gyro[part] for part in parts],
        acc=[imu.acc[part] for part in parts],
        psd_gyro=imu.var_gyro[0] * period_s,
        psd_acc=imu.var_acc[0] * period_s,
        Ts_bk_bk1=T_b_c @ vision.Ts_ck_ck1 @ se3_inv(T_b_c),
        cov_Ts_bk_bk1=Ad @ vision.covs_T_ck_ck1 @ Ad.T,
        Ts_c0_b=Ts_c0_b,
        v_c0=np.einsum("kij,kj->ki", Ts_c0_b[:, :3, :3], v_b),
        g_c0=g_c0,
        bias_gyro=bias_gyro,
        bias_acc=bias_acc,
        std_bias_gyro=imu.bias_prior.std_gyro,
        std_bias_acc=imu.bias_prior.std_acc,
    )
