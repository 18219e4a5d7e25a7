"""What all points share: absent where calibration is exact, small at rest, growing with motion."""

import numpy as np
import pytest

from maci2.lie import se3_exp
from maci2.vision.calibration_uncertainty import (
    EXACT_CALIBRATION,
    CalibrationUncertainty,
    calibration_covariance,
)

REST = np.eye(4)
MOVED = se3_exp(np.array([0.06, 0.0, 0.0, 0.0, 0.0, 0.035]))


def stds(T, dt, px):
    """Translation [mm], rotation [deg]."""
    std = np.sqrt(np.diag(calibration_covariance(CalibrationUncertainty(), T, dt, px)))
    return 1e3 * std[0], np.rad2deg(std[3])


def test_an_exact_calibration_has_none():
    assert not calibration_covariance(EXACT_CALIBRATION, MOVED, 0.2, 40.0).any()


def test_gentle_flight_has_the_floor_that_is_documented():
    millimetres, degrees = stds(REST, 0.2, 40.0)
    assert millimetres == pytest.approx(0.8, abs=0.02)
    assert degrees == pytest.approx(0.014, abs=0.001)


def test_at_rest_little_remains():
    millimetres, degrees = stds(REST, 0.2, 0.03)
    assert millimetres == pytest.approx(0.1, abs=0.01)
    assert degrees == pytest.approx(0.005, abs=0.0005)


def test_it_grows_with_motion_and_is_isotropic():
    cov = calibration_covariance(CalibrationUncertainty(), MOVED, 0.2, 40.0)
    np.testing.assert_allclose(cov, np.diag(np.diag(cov)))
    far = calibration_covariance(CalibrationUncertainty(), MOVED @ MOVED @ MOVED, 0.2, 120.0)
    assert (np.diag(far) > np.diag(cov)).all()
    # Half a percent of the motion, and 0.5 ms at both ends of it.
    extra = np.diag(cov) - np.diag(
        calibration_covariance(CalibrationUncertainty(), REST, 0.2, 40.0)
    )
    share = 0.005**2 + 2.0 * (0.0005 / 0.2) ** 2
    np.testing.assert_allclose(extra[[0, 3]], [share * 0.06**2, share * 0.035**2], rtol=1e-6)
