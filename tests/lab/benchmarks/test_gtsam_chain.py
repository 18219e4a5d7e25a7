"""GTSAM's CombinedImuFactor as an oracle of the chain: same factors, same optimum."""

import numpy as np
import pytest

from capture_cases import state_errors
from maci2.datasets import open_recording
from maci2.estimator.problem import States, shared_parameters
from maci2.estimator.solver import covariance, solve
from maci2.simulation import SimulationConfig, simulate


def solve_chain_with_gtsam(problem, states):
    """Their optimum of the same measurements and its cost: marker poses and IMU."""
    from maci2_lab.benchmarks.gtsam_chain import gtsam_chain, symbols
    from maci2_lab.benchmarks.gtsam_problem import gtsam_optimise

    values, cost = gtsam_optimise(*gtsam_chain(problem, states))
    X, V, B = symbols()
    n = len(states.v_w)
    biases = [values.atConstantBias(B(k)) for k in range(n)]
    found = States(
        np.array([values.atPose3(X(k)).matrix() for k in range(n)]),
        np.array([values.atVector(V(k)) for k in range(n)]),
        np.array([bias.gyroscope() for bias in biases]),
        np.array([bias.accelerometer() for bias in biases]),
    )
    return found, cost


def assert_same_optimum(problem, states):
    solution = solve(problem, states, shared_parameters())
    theirs, cost = solve_chain_with_gtsam(problem, states)
    # Their preintegration adds up rotation vectors, a rule of first order.
    assert cost == pytest.approx(solution.cost, rel=1e-3)
    std = np.sqrt(np.einsum("kii->ki", covariance(solution).states))
    assert np.abs(state_errors(theirs, solution.states) / std).max() < 0.03


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
