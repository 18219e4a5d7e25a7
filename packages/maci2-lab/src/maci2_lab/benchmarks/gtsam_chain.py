"""A chain solved and timed with GTSAM: CombinedImuFactor and marker priors."""

from typing import Any

import numpy as np

from maci2.estimator.problem import (
    MarkerMeasurements,
    Problem,
    States,
    shared_parameters,
    state_prior,
)
from maci2.estimator.solver import evaluated, optimized
from maci2.geometry import so3_exp
from maci2.imu import datasheet_model
from maci2.sensors import Recording, truth_at
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS, Array
from maci2_lab.benchmarks.gtsam_problem import alternate, gtsam_optimise, import_gtsam

MARKER_STD = 0.01
"""Standard deviation of marker positions [m] and orientations [rad]."""


def chain_of(recording: Recording, count: int, every: int = 10) -> tuple[Problem, States]:
    """A chain along a recording's ground truth, with marker poses at every state, and its start."""
    truth, imu = recording.truth(), recording.imu
    assert truth is not None
    first = int(np.searchsorted(imu.stamps_ns, truth.stamps_ns[0])) + every
    stamps_ns = imu.stamps_ns[first : first + count * every : every]
    at = truth_at(truth, stamps_ns, 0.1)
    n = len(stamps_ns)
    biases = [
        np.tile(np.nan_to_num(column).mean(axis=0), (n, 1))
        for column in (at.bias_gyro, at.bias_acc)
    ]
    states = States(at.Ts_w_b, at.v_w, *biases)
    covs = np.tile(MARKER_STD**2 * np.eye(3), (n, 1, 1))
    std = np.r_[np.full(9, np.inf), np.full(6, 0.1)]
    first_state = States(*(values[:1] for values in states))
    problem = Problem(
        imu=datasheet_model(imu, recording.rig.imu),
        stamps_ns=stamps_ns,
        walk_gyro=recording.rig.imu.walk_gyro,
        walk_acc=recording.rig.imu.walk_acc,
        positions=MarkerMeasurements(stamps_ns, at.Ts_w_b[:, :3, 3], covs),
        orientations=MarkerMeasurements(
            stamps_ns, np.ascontiguousarray(at.Ts_w_b[:, :3, :3]), covs
        ),
        priors=(state_prior(0, first_state, shared_parameters(), std),),
    )
    return problem, states


def time_chains(repeats: int = 3) -> tuple[float, float, float]:
    """Median times of Levenberg-Marquardt [ms], on one core and from the same initial guess: on
    1000 states, by GTSAM on the same, and on 10 000 states."""
    recording = simulate(SimulationConfig(kind="drone", duration_s=520.0, seed=3))
    short, long = chain_of(recording, 1000), chain_of(recording, 10_000)
    start, start_long = (evaluated(*chain, shared_parameters()) for chain in (short, long))
    theirs = gtsam_chain(*short)
    ours_ms, gtsam_ms = alternate(
        (lambda: optimized(start), lambda: gtsam_optimise(*theirs)), repeats
    )
    (long_ms,) = alternate((lambda: optimized(start_long),), repeats)
    return ours_ms, gtsam_ms, long_ms


def symbols() -> tuple[Any, Any, Any]:
    """Functions that give the keys of pose, velocity and biases of a state."""
    shorthand = import_gtsam().symbol_shorthand
    return shorthand.X, shorthand.V, shorthand.B


def gtsam_chain(problem: Problem, states: States) -> tuple[Any, Any]:
    """Their graph and values; markers must be at the states' own timestamps, world level."""
    gtsam = import_gtsam()
    X, V, B = symbols()
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    stamps_ns = problem.stamps_ns
    for k in range(len(stamps_ns)):
        bias = gtsam.imuBias.ConstantBias(states.bias_acc[k], states.bias_gyro[k])
        values.insert(X(k), gtsam.Pose3(states.Ts_w_b[k]))
        values.insert(V(k), states.v_w[k])
        values.insert(B(k), bias)
        if k < len(stamps_ns) - 1:
            measured = _preintegrated(problem, int(stamps_ns[k]), int(stamps_ns[k + 1]), bias)
            graph.add(
                gtsam.CombinedImuFactor(X(k), V(k), X(k + 1), V(k + 1), B(k), B(k + 1), measured)
            )
    _add_markers(problem, graph)
    _add_bias_prior(problem, graph)
    return graph, values


def _add_markers(problem: Problem, graph: Any) -> None:
    gtsam = import_gtsam()
    X = symbols()[0]
    positions, orientations = problem.positions, problem.orientations
    if positions is not None:
        at = np.searchsorted(problem.stamps_ns, positions.stamps_ns)
        for k, p, cov in zip(at, positions.values, positions.covs, strict=True):
            noise = gtsam.noiseModel.Gaussian.Covariance(cov)
            graph.add(gtsam.PoseTranslationPrior3D(X(int(k)), gtsam.Point3(p), noise))
    if orientations is not None:
        at = np.searchsorted(problem.stamps_ns, orientations.stamps_ns)
        for k, R, cov in zip(at, orientations.values, orientations.covs, strict=True):
            noise = gtsam.noiseModel.Gaussian.Covariance(cov)
            graph.add(gtsam.PoseRotationPrior3D(X(int(k)), gtsam.Rot3(R), noise))


def _add_bias_prior(problem: Problem, graph: Any) -> None:
    """The first state's biases; ours [gyro, acc], theirs [acc, gyro]."""
    gtsam = import_gtsam()
    B = symbols()[2]
    for prior in problem.priors:
        precisions = np.diag(prior.info)[[12, 13, 14, 9, 10, 11]]
        mean = gtsam.imuBias.ConstantBias(prior.state.bias_acc[0], prior.state.bias_gyro[0])
        noise = gtsam.noiseModel.Diagonal.Precisions(precisions)
        graph.add(gtsam.PriorFactorConstantBias(B(prior.index), mean, noise))


def _preintegrated(problem: Problem, start_ns: int, end_ns: int, bias: Any) -> Any:
    """Their preintegration of the midpoint rule, between two timestamps of samples.

    They hold a sample from its start; the mean of both ends, with the force rotated by half of the
    step, gives them what our rule sums.
    """
    gtsam = import_gtsam()
    imu = problem.imu
    first, last = np.searchsorted(imu.stamps_ns, [start_ns, end_ns])
    period = float(np.diff(imu.stamps_ns[first : last + 1]).mean()) / NS
    params = gtsam.PreintegrationCombinedParams(np.array([0.0, 0.0, -9.81]))
    params.setGyroscopeCovariance(np.diag(imu.var_gyro[first]) * period)
    params.setAccelerometerCovariance(np.diag(imu.var_acc[first]) * period)
    params.setIntegrationCovariance(np.zeros((3, 3)))
    params.setBiasAccCovariance(problem.walk_acc**2 * np.eye(3))
    params.setBiasOmegaCovariance(problem.walk_gyro**2 * np.eye(3))
    measured = gtsam.PreintegratedCombinedMeasurements(params, bias)
    for i in range(first, last):
        dt = float(imu.stamps_ns[i + 1] - imu.stamps_ns[i]) / NS
        rate, force = _middle(imu.gyro, i), _middle(imu.acc, i)
        turned = bias.accelerometer() + so3_exp(0.5 * dt * (rate - bias.gyroscope())) @ (
            force - bias.accelerometer()
        )
        measured.integrateMeasurement(turned, rate, dt)
    return measured


def _middle(samples: Array, i: int) -> Array:
    return 0.5 * (samples[i] + samples[i + 1])
