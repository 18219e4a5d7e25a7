"""Gravity, velocities and biases from a short window: the paper's Fig. 4, both workflows."""

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maci2.estimation.config import SolverConfig
from maci2.estimation.initial_guess import start_values
from maci2.estimation.levenberg_marquardt import Variables
from maci2.estimation.outlier_rejection import inlier_poses, resolved, suspicious, without
from maci2.estimation.premises import Premises, window_premises
from maci2.estimation.results import InitResult, Posterior, SolveReport, VIState
from maci2.estimation.rotation_alignment import RotationAlignment, align_rotations
from maci2.estimation.time_offset import on_imu_clock, solve_with_offset
from maci2.estimation.verdict import InitLimits, judge_initialization, require_window
from maci2.imu import ImuMeasurements, preintegrate
from maci2.types import Array
from maci2.vision import RelativePoses


def initialize(
    imu: ImuMeasurements,
    vision: RelativePoses,
    T_b_c: Array,
    config: SolverConfig | None = None,
    limits: InitLimits | None = None,
    premises: Premises | None = None,
) -> InitResult:
    """Estimate gravity, velocities, biases and poses over the keyframes of `vision`.

    Workflow (a), learned IMU: `imu` holds corrected samples with learned variances and a narrow
    prior of what bias is left. Workflow (b), raw IMU: data-sheet variances, gyroscope bias unknown.
    `T_b_c` is the pose in the body of the camera frame that `vision` speaks of. `premises` is what
    has been seen of the constants so far (`PremiseEvidence`); without it the window tests what it
    can.
    """
    began = time.perf_counter()
    config = config or SolverConfig()
    require_window(imu, vision)

    vision, offset_s = on_imu_clock(imu, vision, config)
    found = _solve(imu, vision, T_b_c, config, offset_s)
    if config.robust and suspicious(found.report):
        agreeing = inlier_poses(imu, vision, T_b_c, config)
        again = _solve(imu, without(vision, agreeing), T_b_c, config, offset_s)
        if resolved(found.report, again.report, agreeing, vision.measured):
            found = again.with_rejected(agreeing)

    premises = premises or window_premises(imu, found.vision, T_b_c, config.rule)
    report = replace(found.report, solve_ms=1e3 * (time.perf_counter() - began))
    return judge_initialization(
        found.state,
        found.posterior,
        report,
        found.vision,
        found.rotations,
        imu.bias_prior,
        limits or InitLimits(),
        premises,
        config.gravity_norm,
    )


class _Solved(NamedTuple):
    """An answer and what it was found from."""

    vision: RelativePoses
    rotations: RotationAlignment
    state: VIState
    posterior: Posterior | None
    report: SolveReport

    def with_rejected(self, agreeing: NDArray[np.bool_]) -> "_Solved":
        return self._replace(report=replace(self.report, rejected=int(np.sum(~agreeing))))


def _solve(
    imu: ImuMeasurements, vision: RelativePoses, T_b_c: Array, config: SolverConfig, offset_s: float
) -> _Solved:
    """Gyroscope bias from rotations, start values in closed form, then all together (Eq. 9)."""
    prior = imu.bias_prior
    pre = preintegrate(imu, vision.stamps_ns, prior.mean_gyro, prior.mean_acc, config.rule)
    rotations = align_rotations(pre, vision, T_b_c[:3, :3], prior, False)
    bias_gyro = rotations.bias_gyro if config.estimate_gyro_bias else prior.mean_gyro
    pre = preintegrate(imu, vision.stamps_ns, bias_gyro, prior.mean_acc, config.rule)

    Ts_c0_b, v_b, g_c0 = start_values(pre, vision, T_b_c, config.gravity_norm)
    start = Variables(Ts_c0_b, v_b, g_c0, bias_gyro, prior.mean_acc, np.ascontiguousarray(T_b_c))
    solution = solve_with_offset(
        imu, vision, pre, start, config, extrinsics=False, coarse_s=offset_s
    )
    return _Solved(vision, rotations, *solution)
