"""ORB-SLAM3's inertial-only optimization for stereo (Campos et al., ICRA 2020 and T-RO 2021).

Poses are vision's and fixed, scale is 1. Unknown are velocities, one bias of each sensor and the
direction of gravity. The bias priors have information 1e2 (gyroscope) and 1e5 (accelerometer) about
zero: the second pins the accelerometer bias. Weights are preintegration's with the data sheet's
noise. The visual-inertial bundle adjustment that follows needs landmarks and is left out.

Gates, in terms of a window: a map is created only where the mean acceleration changes by 0.5 m/s^2
from one image to the next; ten keyframes and one second are needed; and the last two steps between
keyframes must cover 2 cm together. ORB-SLAM3 waits for the first before it takes its first
keyframe; here a window passes if that happens anywhere in it.
"""

from typing import NamedTuple

import numpy as np

from maci2.baselines.alignment import (
    corrected,
    logs,
    raw_motion,
    rotation_errors,
    rotation_errors_D_bias,
)
from maci2.baselines.segment import Answer, Segment
from maci2.imu import ALPHA, BETA, GAMMA, Preintegrated, preintegrate
from maci2.lie import skew, so3_exp
from maci2.types import NS, Array

INFO_GYRO_BIAS = 1e2
INFO_ACC_BIAS = 1e5
"""Information of the priors about zero, per axis."""

MIN_EIGENVALUE = 1e-12
"""Smallest eigenvalue of an information matrix; smaller ones are set to zero."""

FIRST_DAMPING = 1e3
MAX_ITERATIONS = 200
MAX_TRIALS = 10
STEP_TOLERANCE = 1e-10

MIN_ACC_CHANGE = 0.5
"""[m/s^2]"""
IMAGE_PERIOD_NS = 50_000_000
"""Period of the cameras that ORB-SLAM3 is used with [ns]."""
MIN_KEYFRAMES = 10
MIN_DURATION_S = 1.0
MIN_TRAVEL = 0.02
"""[m]"""

DOWN = np.array([0.0, 0.0, -1.0])


class Unknowns(NamedTuple):
    """Unknowns of the optimization; gravity is R_c0_g DOWN times its norm."""

    v_c0: Array
    bias_gyro: Array
    bias_acc: Array
    R_c0_g: Array

    def moved(self, step: Array) -> "Unknowns":
        """State after a step, order [velocities, gyro bias, acc bias, two angles of gravity]."""
        tilt = np.array([step[-2], step[-1], 0.0])
        return Unknowns(
            self.v_c0 + step[:-8].reshape(-1, 3),
            self.bias_gyro + step[-8:-5],
            self.bias_acc + step[-5:-2],
            self.R_c0_g @ so3_exp(tilt),
        )


def orbslam3(segment: Segment) -> Answer:
    """Inertial-only optimization, then its gates."""
    pre, Ts_c0_b = raw_motion(segment), segment.Ts_c0_b()
    x = optimize(pre, Ts_c0_b, start(pre, Ts_c0_b), segment.gravity_norm)
    velocity_b = np.einsum("kji,kj->ki", Ts_c0_b[:, :3, :3], x.v_c0)
    gravity_c0 = segment.gravity_norm * x.R_c0_g @ DOWN
    state = segment.state(gravity_c0, velocity_b, x.bias_gyro, x.bias_acc, Ts_c0_b)
    reason = rejection(segment)
    return Answer(not reason, reason, state)


def start(pre: Preintegrated, Ts_c0_b: Array) -> Unknowns:
    """Initial guess: gravity from summed velocity changes, velocities from differences."""
    down = -np.einsum("kij,kj->i", Ts_c0_b[:-1, :3, :3], pre.beta)
    down /= np.linalg.norm(down)
    axis, cosine = np.cross(DOWN, down), float(DOWN @ down)
    sine = float(np.linalg.norm(axis))
    # Straight up or down leaves no axis; any level one rotates as well.
    axis = axis / sine if sine > 0.0 else np.array([1.0, 0.0, 0.0])
    v_c0 = np.diff(Ts_c0_b[:, :3, 3], axis=0) / pre.dt[:, None]
    return Unknowns(
        np.vstack([v_c0, v_c0[-1]]),
        np.zeros(3),
        np.zeros(3),
        so3_exp(axis * np.arctan2(sine, cosine)),
    )


def optimize(pre: Preintegrated, Ts_c0_b: Array, x: Unknowns, gravity_norm: float) -> Unknowns:
    """Levenberg-Marquardt with g2o's rule for the damping."""
    info = informations(pre.cov)
    H, b, cost = _linearize(pre, Ts_c0_b, x, gravity_norm, info)
    damping, growth = FIRST_DAMPING, 2.0
    for _ in range(MAX_ITERATIONS):
        for _ in range(MAX_TRIALS):
            step = _damped_step(H, b, damping)
            tried = x.moved(step)
            H_new, b_new, cost_new = _linearize(pre, Ts_c0_b, tried, gravity_norm, info)
            gain = (cost - cost_new) / float(step @ (damping * step + b) + 1e-3)
            if gain > 0.0:
                break
            damping, growth = damping * growth, 2.0 * growth
        else:
            return x
        x, H, b, cost = tried, H_new, b_new, cost_new
        damping, growth = damping * float(np.clip(1 - (2 * gain - 1) ** 3, 1 / 3, 2 / 3)), 2.0
        if np.abs(step).max() < STEP_TOLERANCE:
            return x
    return x


def _damped_step(H: Array, b: Array, damping: float) -> Array:
    return np.asarray(np.linalg.solve(H + damping * np.eye(len(b)), b), dtype=np.float64)


def informations(covs: Array) -> Array:
    """(m, 9, 9) inverse covariances, without directions of negligible information."""
    values, vectors = np.linalg.eigh(np.linalg.inv(covs))
    values = np.where(values < MIN_EIGENVALUE, 0.0, values)
    return (vectors * values[:, None, :]) @ np.swapaxes(vectors, 1, 2)


def residuals(pre: Preintegrated, Ts_c0_b: Array, x: Unknowns, gravity_norm: float) -> Array:
    """(m, 9) of rotation, velocity and position, in this order."""
    Rs, p, dt = Ts_c0_b[:, :3, :3], Ts_c0_b[:, :3, 3], pre.dt[:, None]
    gravity_c0 = gravity_norm * x.R_c0_g @ DOWN
    gamma, beta, alpha = corrected(pre, x.bias_gyro, x.bias_acc)
    dv = np.diff(x.v_c0, axis=0) - dt * gravity_c0
    dp = np.diff(p, axis=0) - dt * x.v_c0[:-1] - 0.5 * dt**2 * gravity_c0
    into_body = np.swapaxes(Rs[:-1], 1, 2)
    return np.concatenate(
        [
            logs(rotation_errors(gamma, Rs)),
            (into_body @ dv[:, :, None])[:, :, 0] - beta,
            (into_body @ dp[:, :, None])[:, :, 0] - alpha,
        ],
        axis=1,
    )


def jacobians(
    pre: Preintegrated, Ts_c0_b: Array, x: Unknowns, gravity_norm: float, errors: Array
) -> Array:
    """(m, 9, 3 n + 8) derivatives of the residuals by the step of `Unknowns.moved`.

    `errors` (m, 3) are the residuals of rotation.
    """
    m = len(pre.dt)
    k, dt = np.arange(m), pre.dt[:, None, None]
    into_body = np.swapaxes(Ts_c0_b[:-1, :3, :3], 1, 2)
    by_velocity = np.zeros((m, 9, m + 1, 3))
    by_velocity[k, BETA, k], by_velocity[k, BETA, k + 1] = -into_body, into_body
    by_velocity[k, ALPHA, k] = -dt * into_body
    by_gyro = -pre.D_bg
    by_gyro[:, GAMMA] = rotation_errors_D_bias(errors, pre.D_bg[:, GAMMA], x.bias_gyro)
    # R Exp(t) DOWN = R DOWN - R [DOWN]x t.
    gravity_D_tilt = -gravity_norm * (x.R_c0_g @ skew(DOWN))[:, :2]
    by_tilt = np.zeros((m, 9, 2))
    by_tilt[:, BETA] = -dt * into_body @ gravity_D_tilt
    by_tilt[:, ALPHA] = -0.5 * dt**2 * into_body @ gravity_D_tilt
    return np.concatenate([by_velocity.reshape(m, 9, -1), by_gyro, -pre.D_ba, by_tilt], axis=2)


def _linearize(
    pre: Preintegrated, Ts_c0_b: Array, x: Unknowns, gravity_norm: float, info: Array
) -> tuple[Array, Array, float]:
    """Normal equations: H, negative gradient and cost."""
    r = residuals(pre, Ts_c0_b, x, gravity_norm)
    J = jacobians(pre, Ts_c0_b, x, gravity_norm, np.ascontiguousarray(r[:, GAMMA]))
    weighed = info @ J
    H = np.tensordot(J, weighed, axes=([0, 1], [0, 1]))
    b = -np.tensordot(weighed, r, axes=([0, 1], [0, 1]))
    cost = float(np.einsum("ki,kij,kj->", r, info, r))
    for bias, at, strength in (
        (x.bias_gyro, slice(-8, -5), INFO_GYRO_BIAS),
        (x.bias_acc, slice(-5, -2), INFO_ACC_BIAS),
    ):
        H[at, at] += strength * np.eye(3)
        b[at] -= strength * bias
        cost += strength * float(bias @ bias)
    return H, b, cost


def rejection(segment: Segment) -> str:
    """Reason why a gate rejects the window; empty if all accept it."""
    duration_s = float(segment.stamps_ns[-1] - segment.stamps_ns[0]) / NS
    if len(segment.stamps_ns) < MIN_KEYFRAMES:
        return f"{len(segment.stamps_ns)} keyframes, needed {MIN_KEYFRAMES}"
    if duration_s < MIN_DURATION_S:
        return f"{duration_s:.2f} s of keyframes, needed {MIN_DURATION_S:g}"
    change = acceleration_change(segment)
    if change < MIN_ACC_CHANGE:
        return (
            f"not enough acceleration: it changes by {change:.2f} m/s^2 from image to image, "
            f"needed {MIN_ACC_CHANGE:g}"
        )
    steps = np.diff(segment.Ts_c0_c()[-3:, :3, 3], axis=0)
    travel = float(np.linalg.norm(steps, axis=1).sum())
    if travel < MIN_TRAVEL:
        return f"not enough motion: {travel:.3f} m in the last two steps, needed {MIN_TRAVEL:g}"
    return ""


def acceleration_change(segment: Segment) -> float:
    """Largest change of the mean specific force from one image period to the next [m/s^2]."""
    images_ns = np.arange(segment.stamps_ns[0], segment.stamps_ns[-1], IMAGE_PERIOD_NS)
    pre = preintegrate(segment.raw, images_ns)
    return float(np.linalg.norm(np.diff(pre.beta / pre.dt[:, None], axis=0), axis=1).max())
