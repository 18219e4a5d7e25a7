"""Where the camera sits on the IMU, from motion alone: no target, no guess."""

import time
from dataclasses import replace

import numpy as np

from maci2.estimation.gyro import align_rotations, rotation_from_rates
from maci2.estimation.optimize import Variables
from maci2.estimation.solve import solve
from maci2.estimation.start import lever_arm, start_values
from maci2.estimation.state import CalibrationResult, SolverConfig
from maci2.estimation.verdict import CalibrationLimits, judge_calibration, require_window
from maci2.imu import ImuMeasurements, preintegrate
from maci2.lie import se3
from maci2.vision import RelativePoses


def calibrate(
    imu: ImuMeasurements,
    vision: RelativePoses,
    config: SolverConfig | None = None,
    limits: CalibrationLimits | None = None,
) -> CalibrationResult:
    """Estimate the extrinsics T_b_c of the camera that `vision` speaks of, and the rest of the state.

    Rotation first (Eq. 8: it needs neither gravity nor velocities), then the lever arm in closed
    form, then everything jointly (Eq. 9).
    """
    began = time.perf_counter()
    config = config or SolverConfig()
    require_window(imu, vision)

    prior = imu.bias_prior
    pre = preintegrate(imu, vision.stamps_ns, prior.mean_gyro, prior.mean_acc, config.rule)
    R_b_c = rotation_from_rates(pre, vision)
    rough = align_rotations(pre, vision, R_b_c, prior, True)
    pre = preintegrate(imu, vision.stamps_ns, rough.bias_gyro, prior.mean_acc, config.rule)
    aligned = align_rotations(pre, vision, rough.R_b_c, prior, True)

    T_b_c = se3(aligned.R_b_c, lever_arm(pre, vision, aligned.R_b_c, prior))
    Ts_c0_b, v_b, g_c0 = start_values(pre, vision, T_b_c, config.gravity_norm)
    start = Variables(
        Ts_c0_b, v_b, g_c0, aligned.bias_gyro, np.asarray(prior.mean_acc, dtype=float), T_b_c
    )
    state, posterior, report = solve(imu, vision, pre, start, config, extrinsics=True)

    report = replace(report, solve_ms=1e3 * (time.perf_counter() - began))
    return judge_calibration(
        state, posterior, report, vision, aligned, limits or CalibrationLimits()
    )
