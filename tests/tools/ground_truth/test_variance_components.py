"""Noise levels from residuals."""

from dataclasses import replace

import pytest

from capture_cases import captured_case
from maci2.tools.ground_truth.variance_components import solve_with_noise


def test_noise_levels_are_found_from_residuals_whatever_was_stated():
    case = captured_case(seed=8, duration_s=20.0)
    wrong = replace(
        case.problem,
        positions=replace(case.problem.positions, covs=25.0 * case.problem.positions.covs),
        orientations=replace(case.problem.orientations, covs=0.01 * case.problem.orientations.covs),
    )
    found = solve_with_noise(wrong, case.start, case.start_shared)
    assert found.position_factor == pytest.approx(1.0 / 25.0, rel=0.2)
    assert found.orientation_factor == pytest.approx(100.0, rel=0.2)
    assert found.residuals.imu.variance_factor == pytest.approx(1.0, abs=0.1)
    assert found.residuals.camera.variance_factor == pytest.approx(1.0, abs=0.15)
