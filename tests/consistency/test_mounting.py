"""Extrinsics with a stated prior, for motion that does not show all of them."""

import numpy as np
import pytest

from helpers import pose_errors, simulated_window
from maci2.consistency import calibrate
from maci2.errors import OptionError
from maci2.estimator.calibrate import MountingPrior
from maci2.geometry import se3_exp
from maci2.geometry.gaussian import nees
from maci2.pipeline.options import parse_mounting

STD = np.array([0.03] * 3 + [np.deg2rad(2.0)] * 3)


def driven(seed, off=None):
    """A planar drive and its calibration, the prior off by `off` sigmas or by chance."""
    window = simulated_window("planar_yaw", seed, steps=66, step_s=0.3, bias_walk=True)
    error = np.random.default_rng(seed).standard_normal(6) if off is None else np.array(off)
    mounting = MountingPrior(se3_exp(STD * error) @ window.truth.T_b_c, STD)
    return window, mounting, calibrate(window.imu, window.vision, mounting=mounting)


def nees_of(window, result):
    error = pose_errors(result.state.T_b_c[None], window.truth.T_b_c[None])[0]
    return nees(error, result.posterior.T_b_c) / 6.0


def test_sigmas_are_consistent_where_the_prior_holds_what_motion_does_not_show():
    scores = []
    for seed in range(10):
        window, _, result = driven(seed)
        scores.append(nees_of(window, result))
    # Sixty degrees of freedom: the mean is known to 0.18.
    assert 0.4 < np.mean(scores) < 1.7


@pytest.mark.soak
def test_a_hundred_planar_drives_are_consistent():
    assert 0.9 < np.mean([nees_of(*driven(seed)[::2]) for seed in range(1000, 1200)]) < 1.1


def test_the_height_stays_at_the_prior_and_is_named():
    _, mounting, result = driven(3, off=(0.0, 0.0, 1.0, 0.0, 0.0, 0.0))
    said = " ".join(result.verdict.reasons)
    assert "position along the IMU's z axis does not show in this motion" in said
    assert "motion shows" in said
    assert abs(result.state.T_b_c[2, 3] - mounting.T_b_c[2, 3]) < 0.2 * STD[0]
    assert np.sqrt(result.posterior.T_b_c[2, 2]) == pytest.approx(STD[0], rel=0.1)
    assert "contradicted" not in said


@pytest.mark.parametrize("axis", [0, 1, 5])
def test_a_prior_five_sigmas_off_is_reported(axis):
    _, _, result = driven(4, off=5.0 * np.eye(6)[axis])
    assert result.verdict.status == "weak"
    assert any("stated prior is contradicted" in reason for reason in result.verdict.reasons)


def test_without_a_prior_nothing_is_said_of_one():
    window = simulated_window("handheld", 4, steps=40)
    assert not calibrate(window.imu, window.vision).verdict.reasons


@pytest.mark.parametrize(
    ("text", "rotation", "translation"),
    [
        ("2deg,3cm", np.deg2rad(2.0), 0.03),
        ("0.1rad,5mm", 0.1, 0.005),
        ("1e-1deg,0.2m", 0.1 * np.pi / 180.0, 0.2),
    ],
)
def test_standard_deviations_have_units(text, rotation, translation):
    numbers = ",".join(str(value) for value in np.eye(4).ravel())
    stated = parse_mounting(numbers, text)
    assert stated.std_rotation == pytest.approx(rotation)
    assert stated.std_translation == pytest.approx(translation)


@pytest.mark.parametrize(
    "text", ["2,3", "3cm,2deg", "2deg", "2deg,3cm,1m", "0deg,3cm", "2deg,nan m", ""]
)
def test_standard_deviations_without_meaning_are_refused(text):
    numbers = ",".join(str(value) for value in np.eye(4).ravel())
    with pytest.raises(OptionError, match="--prior-std"):
        parse_mounting(numbers, text)


def test_a_standard_deviation_without_a_prior_is_refused():
    assert parse_mounting("", "") is None
    with pytest.raises(OptionError, match="no --prior"):
        parse_mounting("", "2deg,3cm")
