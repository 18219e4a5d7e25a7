"""Simulated recordings tracked by a motion-capture system and a camera, with everything known."""

from dataclasses import dataclass, field

import numpy as np

from maci2.estimator.factors import prior_factor
from maci2.estimator.measurements import stack_priors
from maci2.estimator.problem import (
    ORIENTATION_CLOCK,
    POSITION_CLOCK,
    UNKNOWN_STATE,
    CameraMotions,
    Free,
    MarkerMeasurements,
    Problem,
    Shared,
    States,
    Unknowns,
    shared_parameters,
    shared_prior,
    state_prior,
)
from maci2.geometry import se3_exp, se3_inv, so3_exp
from maci2.geometry.se3 import so3_exp_stack, stack_poses
from maci2.imu import datasheet_model
from maci2.sensors import Recording
from maci2.simulation import SimulationConfig, random_trajectory, simulate
from maci2.simulation.trajectory import Trajectory
from maci2.types import NS, Array, Stamps

STD_P, STD_R = 0.002, 0.003
"""Noise of marker positions [m] and orientations [rad]."""

STD_CAMERA = np.array([0.004, 0.004, 0.004, 0.002, 0.002, 0.002])
"""Noise of relative poses [rho, phi]."""


@dataclass(frozen=True)
class Case:
    """A problem, the truth behind it, and a start away from it."""

    problem: Problem
    states: States
    shared: Shared
    start: States
    start_shared: Shared


@dataclass(frozen=True)
class Faults:
    """Constants of the capture system that an estimate has to find."""

    tilt: tuple[float, float] = (0.004, -0.006)
    T_b_m: Array = field(
        default_factory=lambda: se3_exp(np.array([0.05, -0.03, 0.08, 0.02, -0.03, 0.01]))
    )
    log_scale: float = 0.03
    camera_clock_s: float = 0.002
    position_clock_s: float = -0.006
    orientation_clock_s: float = 0.003
    position_drift: float = 3e-5
    orientation_drift: float = -2e-5


def trajectory_of(config: SimulationConfig) -> Trajectory:
    """The exact motion behind `simulate(config)`."""
    stream = np.random.default_rng(np.random.SeedSequence(config.seed).spawn(4)[0])
    return random_trajectory(config.kind, stream)


def poses_at_instants(config: SimulationConfig, stamps_ns: Stamps, shift_s: Array | float) -> Array:
    """Exact body poses at timestamps moved by a clock."""
    motion = trajectory_of(config).at((stamps_ns - config.start_ns) / NS + shift_s)
    return stack_poses(motion.Rs_w_b, motion.p_w_b)


def states_at(recording: Recording, stamps_ns: Stamps, R: Array) -> States:
    """Exact states in a world rotated by R."""
    truth = recording.truth()
    rows = np.searchsorted(truth.stamps_ns, stamps_ns)
    Ts_w_b = truth.Ts_w_b[rows].copy()
    Ts_w_b[:, :3] = R @ Ts_w_b[:, :3]
    v_w = truth.v_w[rows] @ R.T
    return States(Ts_w_b, v_w, truth.bias_gyro[rows].copy(), truth.bias_acc[rows].copy())


def captured_case(
    seed: int,
    duration_s: float = 20.0,
    every: int = 20,
    kind: str = "handheld",
    noise: float = 1.0,
    faults: Faults | None = None,
) -> Case:
    """All unknowns at once: IMU, camera with its clock and scale, marker with two clocks."""
    faults = faults or Faults()
    config = SimulationConfig(kind=kind, duration_s=duration_s, seed=seed, bias_acc_std=0.05)
    recording = simulate(config)
    imu = recording.imu
    stamps_ns = imu.stamps_ns[10:-10:every]
    n, origin_ns = len(stamps_ns), int(stamps_ns[len(stamps_ns) // 2])
    rng = np.random.default_rng(seed + 10_000)
    R_v_w = so3_exp(np.array([*faults.tilt, 0.0]))
    T_b_c = recording.rig.cameras[0].T_b_c
    shared = shared_parameters(
        R_v_w, T_b_c, faults.T_b_m, 9.81, faults.log_scale, faults.camera_clock_s,
        faults.position_clock_s, faults.orientation_clock_s,
    )  # fmt: skip
    shared.scalars[POSITION_CLOCK.stop - 1] = faults.position_drift
    shared.scalars[ORIENTATION_CLOCK.stop - 1] = faults.orientation_drift
    states = states_at(recording, stamps_ns, R_v_w)
    problem = Problem(
        imu=datasheet_model(imu, recording.rig.imu),
        stamps_ns=stamps_ns,
        walk_gyro=recording.rig.imu.walk_gyro,
        walk_acc=recording.rig.imu.walk_acc,
        free=Free(True, False, *[True] * 9),
        camera=(_camera(config, stamps_ns, faults, T_b_c, noise, rng),),
        positions=_positions(config, stamps_ns, origin_ns, faults, R_v_w, noise, rng),
        orientations=_orientations(config, stamps_ns, origin_ns, faults, R_v_w, noise, rng),
        priors=(
            state_prior(0, _one(states), shared, np.r_[np.full(9, np.inf), [0.1] * 3, [1.0] * 3]),
            shared_prior(shared, np.full(24, np.inf)),
        ),
        clock_origin_ns=origin_ns,
    )
    start, start_shared = _away(states, shared, T_b_c, faults, n, rng)
    return Case(problem, states, shared, start, start_shared)


def _one(states: States) -> States:
    return States(*(values[:1] for values in states))


def _away(
    states: States, shared: Shared, T_b_c: Array, faults: Faults, n: int, rng: np.random.Generator
) -> tuple[States, Shared]:
    Ts_w_b = states.Ts_w_b.copy()
    Ts_w_b[:, :3, :3] = Ts_w_b[:, :3, :3] @ so3_exp_stack(0.01 * rng.standard_normal((n, 3)))
    Ts_w_b[:, :3, 3] += 0.01 * rng.standard_normal((n, 3))
    start = States(
        Ts_w_b,
        states.v_w + 0.05 * rng.standard_normal((n, 3)),
        np.zeros((n, 3)),
        np.zeros((n, 3)),
    )
    turned = se3_exp(np.array([0.01, -0.02, 0.01, 0.02, 0.01, -0.01])) @ T_b_c
    return start, shared_parameters(T_b_c=turned)


def _camera(
    config: SimulationConfig,
    stamps_ns: Stamps,
    faults: Faults,
    T_b_c: Array,
    noise: float,
    rng: np.random.Generator,
) -> CameraMotions:
    Ts_w_c = poses_at_instants(config, stamps_ns, faults.camera_clock_s) @ T_b_c
    Ts_c_w = np.array([se3_inv(T) for T in Ts_w_c])
    Ts_ck_ck1 = Ts_c_w[:-1] @ Ts_w_c[1:]
    Ts_ck_ck1[:, :3, 3] *= np.exp(-faults.log_scale)
    errors = noise * STD_CAMERA * rng.standard_normal((len(Ts_ck_ck1), 6))
    measured = np.array([se3_exp(e) @ T for e, T in zip(errors, Ts_ck_ck1, strict=True)])
    covs = np.tile(np.diag(STD_CAMERA**2), (len(measured), 1, 1))
    return CameraMotions(np.arange(len(measured)), measured, covs)


def _marker_poses(
    config: SimulationConfig, stamps_ns: Stamps, shift_s: Array, faults: Faults, R: Array
) -> Array:
    Ts_v_m = poses_at_instants(config, stamps_ns, shift_s) @ faults.T_b_m
    Ts_v_m[:, :3] = R @ Ts_v_m[:, :3]
    return Ts_v_m


def _positions(
    config: SimulationConfig,
    stamps_ns: Stamps,
    origin_ns: int,
    faults: Faults,
    R: Array,
    noise: float,
    rng: np.random.Generator,
) -> MarkerMeasurements:
    at_ns = stamps_ns[1:-1] + 7_000_000
    shift_s = faults.position_clock_s + faults.position_drift * (at_ns - origin_ns) / NS
    p = _marker_poses(config, at_ns, shift_s, faults, R)[:, :3, 3]
    p = p + noise * STD_P * rng.standard_normal(p.shape)
    return MarkerMeasurements(at_ns, p, np.tile(STD_P**2 * np.eye(3), (len(p), 1, 1)))


def _orientations(
    config: SimulationConfig,
    stamps_ns: Stamps,
    origin_ns: int,
    faults: Faults,
    R: Array,
    noise: float,
    rng: np.random.Generator,
) -> MarkerMeasurements:
    at_ns = stamps_ns[1:-1] + 11_000_000
    shift_s = faults.orientation_clock_s + faults.orientation_drift * (at_ns - origin_ns) / NS
    Rs = _marker_poses(config, at_ns, shift_s, faults, R)[:, :3, :3]
    Rs = Rs @ so3_exp_stack(noise * STD_R * rng.standard_normal((len(Rs), 3)))
    return MarkerMeasurements(at_ns, Rs, np.tile(STD_R**2 * np.eye(3), (len(Rs), 1, 1)))


def state_errors(states: States, truth: States) -> Array:
    """(n, 15) estimate less truth in the tangent order of a state."""
    from maci2.geometry.se3 import so3_log_stack

    R, R_true = states.Ts_w_b[:, :3, :3], truth.Ts_w_b[:, :3, :3]
    phi = so3_log_stack(np.swapaxes(R_true, 1, 2) @ R)
    p = states.Ts_w_b[:, :3, 3] - truth.Ts_w_b[:, :3, 3]
    return np.hstack(
        [
            phi,
            states.v_w - truth.v_w,
            p,
            states.bias_gyro - truth.bias_gyro,
            states.bias_acc - truth.bias_acc,
        ]
    )


def shared_errors(shared: Shared, truth: Shared) -> Array:
    """(24,) estimate less truth in the tangent order of shared parameters."""
    prior, J = stack_priors((shared_prior(truth, np.ones(24)),)), np.empty((39, 46))
    prior_factor(prior, 0, Unknowns(UNKNOWN_STATE, shared, Free().columns(), 15, False), J)
    return J[15:, 15]
