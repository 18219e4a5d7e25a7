"""Extrinsics over tens of seconds, with biases that wander."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import nees_per_dof, simulated_window
from maci2.consistency import calibrate
from maci2.errors import OptionError
from maci2.estimator import SolverConfig
from maci2.simulation.recording import MEMS_NOISE

RECORDINGS = 100


def scores(count, **changes):
    """Mean NEES and chi-square per degree of freedom of 20 s each, biases walking."""
    results = []
    for seed in range(70_000, 70_000 + count):
        window = simulated_window(
            "handheld", seed, steps=66, step_s=0.3, bias_walk=True, bias_acc_std=0.1, **changes
        )
        results.append(nees_per_dof(calibrate(window.imu, window.vision), window.truth))
    return {name: float(np.mean([r[name] for r in results])) for name in results[0]}


def test_chi_square_and_extrinsics_are_consistent_where_biases_wander():
    found = scores(12)
    # Twelve recordings of 390 residuals know chi-square to 0.02, extrinsics to 0.17.
    assert 0.93 < found["chi-square"] < 1.07
    assert 0.4 < found["extrinsics"] < 1.7
    assert 0.4 < found["gyro bias"] < 1.9


def test_biases_taken_as_constant_would_not_fit():
    # The same recording, measured by somebody who says that biases stay.
    noise = replace(MEMS_NOISE, walk_gyro=1e-4, walk_acc=1e-2)
    window = simulated_window("handheld", 70_001, steps=66, step_s=0.3, bias_walk=True, noise=noise)
    stays = calibrate(replace(window.imu, walk_gyro=0.0, walk_acc=0.0), window.vision)
    wanders = calibrate(window.imu, window.vision)
    assert stays.report.cost > 1.5 * wanders.report.cost
    assert wanders.report.cost < 1.2 * wanders.report.dof


@pytest.mark.soak
def test_a_hundred_calibrations_are_consistent():
    found = scores(RECORDINGS)
    out = {name: score for name, score in found.items() if not 0.9 <= score <= 1.1}
    assert out == {}, found


def test_each_ten_seconds_is_told_and_the_last_stage_is_the_answer():
    window = simulated_window("handheld", 5, steps=80, step_s=0.3)
    result = calibrate(window.imu, window.vision)
    assert [round(stage.seconds) for stage in result.progress] == [10, 20, 24]
    std = np.array([stage.std for stage in result.progress])
    assert (np.diff(std, axis=0) < 0.0).all()
    np.testing.assert_allclose(std[-1], np.sqrt(np.diag(result.posterior.T_b_c)), rtol=1e-6)
    np.testing.assert_allclose(result.progress[-1].moved, 0.0, atol=1e-6)
    # An earlier answer is off by what its sigma admits.
    assert np.abs(result.progress[0].moved / std[0]).max() < 4.0


@pytest.mark.parametrize(("last", "said"), [(0.99, True), (0.5, False)])
def test_the_summary_says_from_when_on_nothing_improved(last, said):
    window = simulated_window("handheld", 5, steps=80, step_s=0.3)
    result = calibrate(window.imu, window.vision)
    first, second, third = result.progress
    progress = (first, second, replace(third, std=last * second.std))
    text = replace(result, progress=progress).summary()
    assert ("after 20 s the standard deviations no longer improved" in text) == said
    assert "largest 1-sigma after 10 s" in text


@pytest.mark.parametrize(
    "changes", [{"gravity_on_sphere": False}, {"estimate_acc_bias": False}, {"rule": "euler"}]
)
def test_choices_that_only_initialization_knows_are_refused(changes):
    window = simulated_window("handheld", 5)
    with pytest.raises(OptionError, match=r"needed .* for `calibrate`"):
        calibrate(window.imu, window.vision, SolverConfig(**changes))


def test_doubt_about_the_camera_frame_widens_the_extrinsics_and_no_length_removes_it():
    window = simulated_window("handheld", 5, steps=40, step_s=0.3)
    exact = calibrate(window.imu, window.vision)
    doubted = calibrate(window.imu, replace(window.vision, std_frame=(0.01, 0.002)))
    added = np.diag(doubted.posterior.T_b_c - exact.posterior.T_b_c)
    # Seen from the body a rotation moves the position by the lever arm, here below 0.1 m.
    np.testing.assert_allclose(added[3:], 0.002**2, rtol=1e-6)
    np.testing.assert_allclose(added[:3], 0.01**2, rtol=0.05)
    np.testing.assert_allclose(doubted.state.T_b_c, exact.state.T_b_c, atol=1e-12)
