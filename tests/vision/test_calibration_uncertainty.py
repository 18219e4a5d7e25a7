"""What all points share: absent where calibration is exact, small at rest, growing with motion."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.geometry import se3_exp, se3_inv, se3_log
from maci2.vision.covariance import (
    EXACT_CALIBRATION,
    CalibrationUncertainty,
    calibration_covariance,
)

REST = np.eye(4)
MOVED = se3_exp(np.array([0.06, 0.01, 0.0, 0.01, 0.0, 0.035]))


def stds(T, dt, px):
    """Translation [mm], rotation [deg]."""
    std = np.sqrt(np.diag(calibration_covariance(CalibrationUncertainty(), T, dt, px)))
    return 1e3 * std[0], np.rad2deg(std[3])


def test_an_exact_calibration_has_none():
    assert not calibration_covariance(EXACT_CALIBRATION, MOVED, 0.2, 40.0).any()
    assert EXACT_CALIBRATION.scale == 0.0


def test_gentle_flight_has_the_floor_that_is_documented():
    millimetres, degrees = stds(REST, 0.2, 40.0)
    assert millimetres == pytest.approx(0.16, abs=0.01)
    assert degrees == pytest.approx(0.013, abs=0.001)


def test_at_rest_little_remains():
    millimetres, degrees = stds(REST, 0.2, 0.03)
    assert millimetres == pytest.approx(0.1, abs=0.01)
    assert degrees == pytest.approx(0.005, abs=0.0005)


def test_it_is_the_spread_of_poses_whose_camera_frame_and_timestamps_are_off():
    dt, rng = 0.2, np.random.default_rng(3)
    stated = CalibrationUncertainty(offset_s=0.0, rest_rotation=0.0, rest_translation=0.0)
    twist = se3_log(MOVED) / dt
    std = np.repeat([stated.lever, stated.rotation], 3)
    errors = []
    for _ in range(4000):
        T_c_off = se3_exp(std * rng.standard_normal(6))
        begins_s, ends_s = stated.jitter_s * rng.standard_normal(2)
        off = se3_exp(-begins_s * twist) @ MOVED @ se3_exp(ends_s * twist)
        off = se3_inv(T_c_off) @ off @ T_c_off
        errors.append(se3_log(np.ascontiguousarray(off @ se3_inv(MOVED))))
    sampled = np.cov(np.array(errors).T)
    cov = calibration_covariance(stated, MOVED, dt, 40.0)
    scale = np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
    # Of 4000 samples a correlation is known to 0.016 at worst, a variance to 2.2 %.
    np.testing.assert_allclose(sampled / scale, cov / scale, atol=0.1)


def test_the_common_scale_is_no_part_of_a_single_pose():
    other = replace(CalibrationUncertainty(), scale=0.5)
    np.testing.assert_array_equal(
        calibration_covariance(other, MOVED, 0.2, 40.0),
        calibration_covariance(CalibrationUncertainty(), MOVED, 0.2, 40.0),
    )
