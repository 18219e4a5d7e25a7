"""Positions later than their orientations: the delay is measured, and no calibration is `ok`."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.calibration.calibrate import calibrate, one_instant, position_delay
from maci2.estimator import SolverConfig
from maci2.estimator.calibrate import NOTHING_KNOWN, solve_from_nothing
from maci2.imu import datasheet_model
from maci2.simulation import SimulationConfig, simulate
from maci2.vision import pose_noise, poses_from_truth

SPACING = 60
"""Rows of the ground truth from keyframe to keyframe, 0.3 s."""


def measurements(seed, delay_s):
    """IMU and camera motion of a recording whose positions are of `delay_s` before."""
    made = simulate(SimulationConfig(kind="handheld", duration_s=22.0, seed=seed))
    truth = made.truth()
    Ts_w_b, t_s = truth.Ts_w_b.copy(), 1e-9 * (truth.stamps_ns - truth.stamps_ns[0])
    for axis in range(3):
        Ts_w_b[:, axis, 3] = np.interp(t_s - delay_s, t_s, truth.Ts_w_b[:, axis, 3])
    stamps_ns = truth.stamps_ns[100:-20:SPACING]
    vision = poses_from_truth(
        replace(truth, Ts_w_b=Ts_w_b),
        stamps_ns,
        made.rig.cameras[0].T_b_c,
        pose_noise(0.05, 0.003),
        (seed,),
    )
    imu = datasheet_model(made.imu, made.rig.imu)
    return imu.between(int(stamps_ns[0]), int(stamps_ns[-1])), vision


def delay_of(imu, vision):
    config = SolverConfig()
    solved, _, _ = solve_from_nothing(imu, vision, NOTHING_KNOWN, config)
    return position_delay(imu, solved.solution)


@pytest.mark.parametrize("delay_s", [0.0, 0.012, -0.02])
def test_a_delay_is_measured_within_its_sigma(delay_s):
    away = []
    for seed in range(4):
        found = delay_of(*measurements(seed, delay_s))
        assert found.std_s < 0.005
        away.append((found.delay_s - delay_s) / found.std_s)
    # Four squares of standard normal numbers: beyond 18.5 once in a thousand times.
    assert np.sum(np.square(away)) < 18.5


def test_late_positions_are_never_ok_and_sound_ones_are():
    sound = calibrate(*measurements(0, 0.0)).verdict
    assert sound.status == "ok"
    assert not any("late against" in reason for reason in sound.reasons)
    late = calibrate(*measurements(0, 0.03)).verdict
    assert late.status == "weak"
    [reason] = [reason for reason in late.reasons if "late against its orientations" in reason]
    assert 20.0 < float(reason.split("positions are ")[1].split()[0]) < 40.0


def test_a_delay_that_cannot_be_told_is_no_reason():
    assert one_instant(None).status == "ok"
