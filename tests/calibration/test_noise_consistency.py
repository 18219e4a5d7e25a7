"""NEES of integration errors between the states of a chain, with right noise and with wrong."""

import numpy as np
import pytest

from calibration.noise_cases import TRUE_LEVELS, noise_problem
from maci2.calibration.imu_noise import fit_reference_noise
from maci2.calibration.noise_consistency import consistency
from maci2.pipeline.imu_noise_run import measure_noise

TRAINING = ("MH_01_easy", "MH_05_difficult", "V2_01_easy", "V2_03_difficult")


def scored(problem, levels):
    return consistency(problem.problem, fit_reference_noise(problem, levels))


def scores(problems, levels):
    found = [scored(problem, levels) for problem in problems]
    parts = {name: [one.parts[name].nees for one in found] for name in found[0].parts}
    return {name: np.mean(values) for name, values in parts.items()}, found


def test_right_noise_is_consistent_and_a_third_of_it_is_not():
    problems = [noise_problem("handheld", seed, 20.0) for seed in (60, 61)]
    right, found = scores(problems, TRUE_LEVELS)
    # Neighbouring errors go together: some tens of them are independent.
    assert all(0.7 < score < 1.4 for score in right.values()), right
    assert all(0.0 < part.shown < 1.0 for part in found[0].parts.values())
    wrong, _ = scores(problems, TRUE_LEVELS / 3.0)
    assert all(score > 4.0 for score in wrong.values()), wrong
    large, _ = scores(problems, TRUE_LEVELS * 3.0)
    assert all(score < 0.75 for score in large.values()), large


def test_errors_are_as_correlated_as_white_noise_leaves_them():
    found = scored(noise_problem("handheld", 62, 20.0), TRUE_LEVELS)
    assert found.expected[0] > 5.0 * found.chance
    apart = (found.correlation - found.expected) / found.chance
    assert np.sqrt(np.mean(apart**2)) < 2.0, apart


@pytest.mark.dataset
@pytest.mark.slow
def test_noise_of_four_flights_is_consistent_on_another(data_root):
    euroc = data_root / "euroc"
    paths = [euroc / name for name in TRAINING]
    measured = measure_noise(paths, None, test_paths=[euroc / "MH_04_difficult"])
    assert measured.estimate.converged
    for check in measured.checks:
        for name, part in check.measured.parts.items():
            assert 0.6 < part.nees < 1.6, (check.horizon_s, name, part)
        assert all(part.nees > 4.0 for part in check.stated.parts.values())
