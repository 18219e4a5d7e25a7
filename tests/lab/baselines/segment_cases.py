"""Segments with a known truth, and the equations of motion written down once more."""

from dataclasses import replace

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from helpers import Window, exact_window, simulated_window
from maci2.imu import Preintegrated, preintegrate
from maci2.types import Array
from maci2_lab.baselines import Segment

G = 9.81


def segment_of(window: Window) -> Segment:
    stamps_ns = window.vision.stamps_ns
    imu = window.imu.between(int(stamps_ns[0]), int(stamps_ns[-1]))
    return Segment(imu, imu, imu, window.vision, window.truth.T_b_c)


def exact_segment(kind="drone", seed=0, **choices) -> tuple[Segment, Window]:
    """Noiseless; biases zero where nothing else is said."""
    choices = {"bias_gyro": (0.0, 0.0, 0.0), "bias_acc": (0.0, 0.0, 0.0), **choices}
    window = exact_window(kind, "midpoint", seed, **choices)
    return segment_of(window), window


def noisy_segment(seed=0, kind="drone", **changes) -> Segment:
    """Vision with 0.05 deg and 3 mm a step, data-sheet noise, both biases."""
    return segment_of(simulated_window(kind, seed, **changes))


def preintegrated(segment: Segment, gyro_bias=None, acc_bias=None) -> Preintegrated:
    return preintegrate(segment.raw, segment.stamps_ns, gyro_bias, acc_bias)


def poses(segment: Segment) -> tuple[Array, Array, Array]:
    """R_c0_b, p_c0_c and R_c0_b p_b_c of every keyframe, multiplied out here."""
    T_c0_c, T_c_b = np.eye(4), np.linalg.inv(segment.T_b_c)
    Rs, ps = [T_c_b[:3, :3]], [np.zeros(3)]
    for T in segment.vision.Ts_ck_ck1:
        T_c0_c = T_c0_c @ T
        Rs.append(T_c0_c[:3, :3] @ T_c_b[:3, :3])
        ps.append(T_c0_c[:3, 3])
    Rs, ps = np.array(Rs), np.array(ps)
    return Rs, ps, Rs @ segment.T_b_c[:3, 3]


def motion_residuals(segment, pre, gravity_c0, velocity_b, scale=1.0) -> Array:
    """(m, 6) how far each step's end is from where velocity, gravity and IMU carry it, in c0.

    Equal weights are the same in every frame, so these have the norm of the rivals' residuals.
    """
    Rs, p_c, lever = poses(segment)
    p, out = scale * p_c - lever, []
    for k, dt in enumerate(pre.dt):
        v, v_next = Rs[k] @ velocity_b[k], Rs[k + 1] @ velocity_b[k + 1]
        p_next = p[k] + v * dt + 0.5 * gravity_c0 * dt**2 + Rs[k] @ pre.alpha[k]
        v_end = v + gravity_c0 * dt + Rs[k] @ pre.beta[k]
        out.append(np.concatenate([p[k + 1] - p_next, v_next - v_end]))
    return np.array(out)


def on_sphere(angles: Array) -> Array:
    """Gravity from azimuth and elevation."""
    azimuth, elevation = angles
    level = np.cos(elevation)
    return G * np.array([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)])


def angles_of(gravity: Array) -> Array:
    return np.array(
        [np.arctan2(gravity[1], gravity[0]), np.arcsin(gravity[2] / np.linalg.norm(gravity))]
    )


def brute_alignment(segment, pre, gravity_guess, with_scale) -> tuple[Array, Array, float]:
    """Gravity on the sphere, velocities and scale by a general solver with numeric derivatives."""
    n = len(segment.stamps_ns)

    def residuals(x):
        scale = x[-1] if with_scale else 1.0
        velocity_b = x[2 : 2 + 3 * n].reshape(n, 3)
        return motion_residuals(segment, pre, on_sphere(x[:2]), velocity_b, scale).ravel()

    start = np.concatenate([angles_of(gravity_guess), np.zeros(3 * n), [1.0] * with_scale])
    found = least_squares(residuals, start, jac="3-point", xtol=1e-15, ftol=1e-15, gtol=1e-15).x
    return on_sphere(found[:2]), found[2 : 2 + 3 * n].reshape(n, 3), float(found[-1])


def rotation_vectors(segment, pre) -> Array:
    """(m, 3) Log(gamma' R_k' R_k+1) by scipy."""
    Rs, _, _ = poses(segment)
    errors = [pre.gamma[k].T @ Rs[k].T @ Rs[k + 1] for k in range(len(pre.dt))]
    return Rotation.from_matrix(np.array(errors)).as_rotvec()


def scaled_translation(segment: Segment, factor: float) -> Segment:
    """The same segment with the camera's translations multiplied."""
    Ts = segment.vision.Ts_ck_ck1.copy()
    Ts[:, :3, 3] *= factor
    return replace(segment, vision=replace(segment.vision, Ts_ck_ck1=Ts))


def with_acc(segment: Segment, acc: Array) -> Segment:
    """The same segment with other accelerometer samples."""
    return replace(segment, raw=replace(segment.raw, acc=acc))
