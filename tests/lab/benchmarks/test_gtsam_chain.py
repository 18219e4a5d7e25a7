"""GTSAM's CombinedImuFactor as an oracle of the chain: same factors, same optimum."""

import numpy as np
import pytest

from capture_cases import state_errors
from maci2.datasets import open_recording
from maci2.estimator.problem import shared_parameters
from maci2.estimator.solver import covariance, solve
from maci2.simulation import SimulationConfig, simulate


def assert_same_optimum(problem, states):
    from maci2_lab.benchmarks.gtsam_chain import solve_chain_with_gtsam

    solution = solve(problem, states, shared_parameters())
    theirs = solve_chain_with_gtsam(problem, states)
    # Their preintegration adds up rotation vectors, a rule of first order.
    assert theirs.cost == pytest.approx(solution.cost, rel=1e-3)
    std = np.sqrt(np.einsum("kii->ki", covariance(solution).states))
    assert np.abs(state_errors(theirs.states, solution.states) / std).max() < 0.03


def test_gtsam_finds_the_same_optimum_of_a_simulated_recording():
    pytest.importorskip("gtsam")
    from maci2_lab.benchmarks.gtsam_chain import chain_of

    recording = simulate(SimulationConfig(duration_s=6.0, seed=11))
    assert_same_optimum(*chain_of(recording, 100))


@pytest.mark.dataset
def test_gtsam_finds_the_same_optimum_of_a_real_recording(data_root):
    pytest.importorskip("gtsam")
    from maci2_lab.benchmarks.gtsam_chain import chain_of

    recording = open_recording(data_root / "euroc" / "MH_05_difficult")
    assert_same_optimum(*chain_of(recording, 300))
