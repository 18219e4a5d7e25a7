"""What several tests share: finite differences, random poses, windows with a known truth."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.stats import chi2

from maci2.estimator import CalibrationResult, InitResult, VIState
from maci2.geometry import se3, se3_exp, se3_inv, se3_log, so3_exp
from maci2.geometry.gaussian import nees
from maci2.imu import BiasPrior, ImuMeasurements, Rule, datasheet_model
from maci2.sensors import Camera, ImuSamples, Recording
from maci2.sensors.rig_types import ImuIntrinsics
from maci2.simulation import MotionKind, SimulationConfig, simulate
from maci2.types import GRAVITY_W, NS, Array, Stamps
from maci2.vision import RelativePoses, pose_noise, poses_from_truth

REGIMES = {  # scale of rho [m], angle [rad]
    "generic": (1.0, 0.8),
    "tiny rotation": (1.0, 1e-7),
    "no rotation": (1.0, 0.0),
    "large rotation": (1.0, 2.5),
}


def unchecked(instance, **changes):
    """A copy of a dataclass with fields changed past its checks: for files that hold a fault."""
    made = copy.copy(instance)
    for name, value in changes.items():
        object.__setattr__(made, name, value)
    return made


def unit_vector(rng: np.random.Generator) -> Array:
    v = rng.standard_normal(3)
    return v / np.linalg.norm(v)


def twist(rng: np.random.Generator, metres: float, angle: float) -> Array:
    """[rho, phi] with a rho of about `metres` and a phi of exactly `angle`."""
    return np.concatenate([metres * rng.standard_normal(3), angle * unit_vector(rng)])


def random_poses(count: int, regime: str, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [se3_exp(twist(rng, *REGIMES[regime])) for _ in range(count)]


def numerical_jacobian(function: Callable[[Array], Array], dim: int, step: float = 1e-5) -> Array:
    """Central differences at zero, extrapolated to fourth order.

    With h = 1e-5 the plain formula errs by h^2 f''' / 6, about 1e-10, and rounds by 1e-16 / h.
    """
    columns = []
    for i in range(dim):
        e = np.zeros(dim)
        e[i] = step
        fine = (function(e) - function(-e)) / (2.0 * step)
        coarse = (function(2.0 * e) - function(-2.0 * e)) / (4.0 * step)
        columns.append((4.0 * fine - coarse) / 3.0)
    return np.stack(columns, axis=-1)


def chi_square_band(dof: int, count: int) -> tuple[float, float]:
    """Where the mean of `count` independent NEES of `dof` lies in 99.9 % of all experiments."""
    low, high = chi2.ppf([0.0005, 0.9995], dof * count) / count
    return float(low), float(high)


@dataclass(frozen=True)
class Window:
    """Measurements and the state they came from."""

    imu: ImuMeasurements
    vision: RelativePoses
    truth: VIState


def state_from_world(
    stamps_ns: Stamps, Ts_w_b: Array, v_w: Array, bias_gyro: Array, bias_acc: Array, T_b_c: Array
) -> VIState:
    """The truth in the words of the estimator: everything in the first camera frame."""
    T_c0_w = se3_inv(Ts_w_b[0] @ T_b_c)
    return VIState(
        stamps_ns=stamps_ns,
        Ts_c0_b=T_c0_w @ Ts_w_b,
        velocity_b=np.einsum("kji,kj->ki", Ts_w_b[:, :3, :3], v_w),
        gravity_c0=T_c0_w[:3, :3] @ GRAVITY_W,
        gyro_bias=bias_gyro,
        acc_bias=bias_acc,
        T_b_c=T_b_c,
    )


def keyframe_stamps(recording: Recording, start_s: float, steps: int, step_s: float) -> Stamps:
    """Image timestamps from `start_s` after the first image on."""
    images = recording.camera_stamps_ns[0]
    wanted = images[0] + np.rint((start_s + step_s * np.arange(steps + 1)) * NS).astype(np.int64)
    stamps_ns = images[np.searchsorted(images, wanted - 1_000_000)]
    assert (np.abs(stamps_ns - wanted) < 1_000_000).all(), "no image at some keyframe"
    return stamps_ns


def simulated_window(
    kind: MotionKind = "handheld",
    seed: int = 0,
    steps: int = 9,
    step_s: float = 0.25,
    std_deg: float = 0.05,
    std_m: float = 0.003,
    bias_prior: BiasPrior | None = None,
    noise_scale: float = 1.0,
    **changes: object,
) -> Window:
    """A window with noise exactly as declared; `noise_scale` multiplies what vision draws only.

    Biases stay, and the measurements say so, unless `bias_walk` is asked for; the truth then has
    those of the last keyframe.
    """
    config = SimulationConfig(
        kind=kind, duration_s=steps * step_s + 0.5, seed=seed, bias_walk=False, bias_gyro_std=0.05
    )
    config = replace(config, **changes)
    recording = simulate(config)
    stamps_ns = keyframe_stamps(recording, 0.2, steps, step_s)
    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    cov_pose = pose_noise(std_deg, std_m)
    drawn = poses_from_truth(truth, stamps_ns, T_b_c, noise_scale**2 * cov_pose, (seed, 1))
    rows = np.searchsorted(truth.stamps_ns, stamps_ns)
    imu = datasheet_model(recording.imu, recording.rig.imu, bias_prior)
    if not config.bias_walk:
        imu = replace(imu, walk_gyro=0.0, walk_acc=0.0)
    return Window(
        imu=imu,
        vision=replace(drawn, covs_T_ck_ck1=np.tile(cov_pose, (steps, 1, 1))),
        truth=state_from_world(
            stamps_ns,
            truth.Ts_w_b[rows],
            truth.v_w[rows],
            truth.bias_gyro[rows[-1]],
            truth.bias_acc[rows[-1]],
            T_b_c,
        ),
    )


@dataclass(frozen=True)
class Steps:
    """Integration steps between two timestamps: how long, and the readings that hold."""

    dt: Array
    gyro: Array
    acc: Array


def integration_steps(imu: ImuMeasurements, start_ns: int, end_ns: int, rule: Rule) -> Steps:
    """The samples' own periods, cut at both ends; readings are interpolated to where each is read:
    the left end of its step (euler) or the middle (midpoint)."""
    inside = (imu.stamps_ns > start_ns) & (imu.stamps_ns < end_ns)
    edges_ns = np.concatenate([[start_ns], imu.stamps_ns[inside], [end_ns]])
    # Relative to the start, else float64 loses nanoseconds.
    edges, at = (edges_ns - start_ns) / NS, (imu.stamps_ns - start_ns) / NS
    read = 0.5 * (edges[:-1] + edges[1:]) if rule == "midpoint" else edges[:-1]
    return Steps(
        dt=np.diff(edges),
        gyro=np.stack([np.interp(read, at, axis) for axis in imu.gyro.T], axis=1),
        acc=np.stack([np.interp(read, at, axis) for axis in imu.acc.T], axis=1),
    )


def dead_reckon(
    steps: Steps, T_w_b: Array, v_w: Array, gravity_w: Array, rule: Rule
) -> tuple[Array, Array]:
    """Pose and velocity after all steps, sample by sample in the world frame."""
    R_w_b, p_w_b, v_w = T_w_b[:3, :3], T_w_b[:3, 3], v_w
    for dt, omega, force in zip(steps.dt, steps.gyro, steps.acc, strict=True):
        R_at = R_w_b @ so3_exp(0.5 * dt * omega) if rule == "midpoint" else R_w_b
        a_w = R_at @ force + gravity_w
        p_w_b = p_w_b + dt * v_w + 0.5 * dt**2 * a_w
        v_w = v_w + dt * a_w
        R_w_b = R_w_b @ so3_exp(dt * omega)
    return se3(R_w_b, p_w_b), v_w


def exact_window(
    kind: MotionKind,
    rule: Rule,
    seed: int,
    steps: int = 9,
    step_s: float = 0.25,
    bias_gyro: tuple[float, float, float] = (0.03, -0.02, 0.04),
    bias_acc: tuple[float, float, float] = (0.05, -0.08, 0.02),
    offset_ns: int = 1_300_000,
) -> Window:
    """A noiseless window whose truth is the samples themselves, dead-reckoned by the same rule: it
    has no discretisation error. Stated noise is small, and the prior knows the accelerometer bias,
    so that no prior pulls."""
    recording = simulate(
        SimulationConfig(
            kind=kind, duration_s=steps * step_s + 0.5, seed=seed, bias_walk=False,
            white_noise=False, bias_gyro=bias_gyro, bias_gyro_std=0.0, bias_acc=bias_acc,
            bias_acc_std=0.0, camera_offset_ns=offset_ns,
        )
    )  # fmt: skip
    imu = datasheet_model(recording.imu, recording.rig.imu, BiasPrior(mean_acc=np.array(bias_acc)))
    imu = replace(
        imu, var_gyro=1e-6 * imu.var_gyro, var_acc=1e-6 * imu.var_acc, walk_gyro=0.0, walk_acc=0.0
    )
    clean = replace(imu, gyro=imu.gyro - bias_gyro, acc=imu.acc - bias_acc)
    stamps_ns = keyframe_stamps(recording, 0.2, steps, step_s)
    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    row = int(np.searchsorted(truth.stamps_ns, stamps_ns[0]))
    poses, velocities = [truth.Ts_w_b[row]], [truth.v_w[row]]
    for start_ns, end_ns in pairwise(stamps_ns):
        segment = integration_steps(clean, start_ns, end_ns, rule)
        T_w_b, v_w = dead_reckon(segment, poses[-1], velocities[-1], GRAVITY_W, rule)
        poses.append(T_w_b)
        velocities.append(v_w)
    state = state_from_world(
        stamps_ns, np.array(poses), np.array(velocities), np.array(bias_gyro),
        np.array(bias_acc), T_b_c,
    )  # fmt: skip
    Ts_c0_c = state.Ts_c0_b @ T_b_c
    Ts_ck_ck1 = np.array([se3_inv(T) for T in Ts_c0_c[:-1]]) @ Ts_c0_c[1:]
    covs = np.tile(1e-12 * np.eye(6), (steps, 1, 1))
    return Window(imu, RelativePoses(stamps_ns, Ts_ck_ck1, covs), state)


def pose_errors(estimate: Array, truth: Array) -> Array:
    """(n, 6) left, [rho, phi]: truth = Exp(error) estimate."""
    return np.array([se3_log(a @ se3_inv(b)) for a, b in zip(truth, estimate, strict=True)])


def across(vector: Array) -> Array:
    """(3, 2) orthonormal directions across a vector."""
    return np.linalg.svd(vector[None, :])[2][1:].T


def nees_per_dof(result: InitResult | CalibrationResult, truth: VIState) -> dict[str, float]:
    """Normalised error squared per degree of freedom; keyframes are averaged."""
    state, posterior = result.state, result.posterior
    assert state is not None, result.verdict
    assert posterior is not None, result.verdict
    U = across(state.gravity_c0)
    poses = pose_errors(state.Ts_c0_b, truth.Ts_c0_b)[1:]
    scores = {
        "gravity": nees(
            U.T @ (truth.gravity_c0 - state.gravity_c0), U.T @ posterior.gravity_c0 @ U
        ) / 2.0,
        "velocity": nees(truth.velocity_b - state.velocity_b, posterior.velocity_b) / 3.0,
        "gyro bias": nees(truth.gyro_bias - state.gyro_bias, posterior.gyro_bias) / 3.0,
        "acc bias": nees(truth.acc_bias - state.acc_bias, posterior.acc_bias) / 3.0,
        "poses": nees(poses, posterior.Ts_c0_b[1:]) / 6.0,
        "chi-square": result.report.cost / result.report.dof,
    }  # fmt: skip
    if posterior.T_b_c.any():
        error = pose_errors(state.T_b_c[None], truth.T_b_c[None])[0]
        scores["extrinsics"] = nees(error, posterior.T_b_c) / 6.0
    return {name: float(np.mean(score)) for name, score in scores.items()}


def resized(camera: Camera, size: tuple[int, int]) -> Camera:
    """A camera with the same view and an image of another size."""
    scale = np.array(size) / np.array(camera.resolution)
    return replace(camera, resolution=size, intrinsics=camera.intrinsics * np.tile(scale, 2))


def raw_readings(samples: ImuSamples, intrinsics: ImuIntrinsics) -> ImuSamples:
    """Readings of an IMU with these intrinsics where an ideal one would read `samples`."""
    T_gyro = intrinsics.M_gyro @ intrinsics.R_gyro_b
    T_acc = intrinsics.M_acc @ intrinsics.R_acc_b
    gyro = samples.gyro @ T_gyro.T + samples.acc @ intrinsics.g_sensitivity.T
    return replace(
        samples,
        gyro=gyro + intrinsics.offset_gyro,
        acc=samples.acc @ T_acc.T + intrinsics.offset_acc,
    )


def scaled(vision: RelativePoses, scale: float) -> RelativePoses:
    """The same motion scaled together with its noise."""
    Ts_ck_ck1, covs = vision.Ts_ck_ck1.copy(), vision.covs_T_ck_ck1.copy()
    Ts_ck_ck1[:, :3, 3] *= scale
    covs[:, :3, :] *= scale
    covs[:, :, :3] *= scale
    return replace(vision, Ts_ck_ck1=Ts_ck_ck1, covs_T_ck_ck1=covs)
