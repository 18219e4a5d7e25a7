"""A solution in the words of the paper: poses in the frame of the first camera, by left twists,
velocities in the body, and their covariances.

The problem fixes the first body's pose; the paper's first camera frame is a choice of gauge. With
extrinsics that are free, the first camera moves in the world by T_w_b0 Exp(xi) T_b_c, and all that
is expressed in it moves against that.
"""

from typing import NamedTuple

import numpy as np

from maci2.estimator.problem import (
    CAMERA,
    CAMERA_CLOCK_AT,
    MOTION,
    POSITION,
    ROTATION,
    STATE,
    VELOCITY,
    Indices,
    Shared,
    States,
    shared_parameters,
)
from maci2.estimator.results import Posterior, VIState
from maci2.estimator.solver import Covariance, Solution, at_camera
from maci2.geometry.se3 import se3_adj, se3_inv, se3_mul
from maci2.geometry.so3 import skew
from maci2.imu import ImuMeasurements
from maci2.jit import kernel
from maci2.types import Array, Stamps, Vec3


class InFirstCamera(NamedTuple):
    """Motion and gravity in c0, with covariances."""

    Ts_c0_b: Array
    velocity_b: Array
    gravity_c0: Array
    cov_Ts: Array
    cov_velocity: Array
    cov_gravity: Array


def first_camera_guess(
    Ts_c0_b: Array,
    velocity_b: Array,
    gravity_c0: Array,
    bias_gyro: Vec3,
    bias_acc: Vec3,
    T_b_c: Array,
) -> tuple[States, Shared]:
    """Initial guess of the problem; its world is the first camera's frame."""
    biases = np.empty((2, len(Ts_c0_b), 3))
    biases[0], biases[1] = bias_gyro, bias_acc
    v_w, R_w_g, norm = _level_guess(Ts_c0_b, velocity_b, gravity_c0)
    shared = shared_parameters(R_w_g, T_b_c, gravity_norm=norm)
    return States(np.ascontiguousarray(Ts_c0_b), v_w, biases[0], biases[1]), shared


@kernel
def _level_guess(Ts_c0_b: Array, v_b: Array, g_c0: Array) -> tuple[Array, Array, float]:
    """Velocities (n, 3) in c0, a level frame (3, 3) whose heading has no meaning, and the norm of
    gravity."""
    norm = np.sqrt(g_c0[0] ** 2 + g_c0[1] ** 2 + g_c0[2] ** 2)
    R_w_g, v_w, least = np.empty((3, 3)), np.zeros((len(v_b), 3)), 0
    for i in range(3):
        R_w_g[i, 2] = -g_c0[i] / norm
        if abs(g_c0[i]) < abs(g_c0[least]):
            least = i
    # x is the axis that gravity is farthest from, crossed with up.
    j, k = (least + 1) % 3, (least + 2) % 3
    across = np.sqrt(R_w_g[j, 2] ** 2 + R_w_g[k, 2] ** 2)
    R_w_g[least, 0] = 0.0
    R_w_g[j, 0], R_w_g[k, 0] = -R_w_g[k, 2] / across, R_w_g[j, 2] / across
    for i in range(3):
        m, n = (i + 1) % 3, (i + 2) % 3
        R_w_g[i, 1] = R_w_g[m, 2] * R_w_g[n, 0] - R_w_g[n, 2] * R_w_g[m, 0]
        for at in range(len(v_b)):
            for c in range(3):
                v_w[at, i] += Ts_c0_b[at, i, c] * v_b[at, c]
    return v_w, R_w_g, norm


def state_and_posterior(
    solution: Solution, covariance: Covariance | None, imu: ImuMeasurements, stamps_ns: Stamps
) -> tuple[VIState, Posterior | None]:
    """The paper's state at the keyframes' timestamps, and its covariance where there is one.

    Biases are those of the raw sensor, with what the IMU model removed, at the last keyframe.
    """
    states, shared, columns = solution.states, solution.shared, solution.columns
    if shared.scalars[CAMERA_CLOCK_AT] != 0.0:
        states = at_camera(solution.measurements, states, shared)
    if covariance is None:
        n, b = len(states.v_w), solution.border
        s = solution.problem.state_size
        found = in_first_camera(
            states, shared, columns, np.zeros((n, s, s)), np.zeros((n, s, b)), np.zeros((b, b))
        )
    else:
        found = in_first_camera(
            states, shared, columns, covariance.states, covariance.with_shared, covariance.free
        )
    removed_gyro, removed_acc = imu.removed_bias(int(stamps_ns[0]), int(stamps_ns[-1]))
    state = VIState(
        stamps_ns,
        found.Ts_c0_b,
        found.velocity_b,
        found.gravity_c0,
        states.bias_gyro[-1] + removed_gyro,
        states.bias_acc[-1] + removed_acc,
        shared.T_b_c,
        removed_gyro,
        removed_acc,
    )
    if covariance is None:
        return state, None
    biases = covariance.biases
    if solution.problem.state_size == STATE:
        biases = covariance.states[-1, MOTION:STATE, MOTION:STATE]
    posterior = Posterior(
        found.cov_gravity,
        found.cov_Ts,
        found.cov_velocity,
        biases[:3, :3],
        biases[3:, 3:],
        covariance.of(CAMERA),
    )
    return state, posterior


@kernel
def in_first_camera(
    states: States,
    shared: Shared,
    columns: Indices,
    cov_states: Array,
    cov_with_shared: Array,
    cov_shared: Array,
) -> InFirstCamera:
    """Motion and gravity in the first camera, with covariances (n, 6, 6), (n, 3, 3), (3, 3)."""
    n, s, b = cov_with_shared.shape
    size = s + b
    T_c_b = se3_inv(shared.T_b_c)
    T_c0_w = se3_mul(T_c_b, se3_inv(states.Ts_w_b[0]))
    adj_c_b, adj_c0_w = se3_adj(T_c_b), se3_adj(T_c0_w)
    Ts_c0_b, v_b, g_c0 = np.empty((n, 4, 4)), np.empty((n, 3)), np.zeros(3)
    cov_T, cov_v, cov_g = np.empty((n, 6, 6)), np.empty((n, 3, 3)), np.empty((3, 3))
    A, P, by_left = np.zeros((9, size)), np.empty((size, size)), np.zeros((6, 6))
    out = np.empty((9, 9))
    for i in range(6):
        for j in range(6):
            to = columns[9 + j]
            if to >= 0:
                A[i, s + to] = -adj_c_b[i, j]
    for i in range(b):
        for j in range(b):
            P[s + i, s + j] = cov_shared[i, j]
    for k in range(n):
        T_w_b = states.Ts_w_b[k]
        Ts_c0_b[k] = se3_mul(T_c0_w, T_w_b)
        for i in range(3):
            v_b[k, i] = (
                T_w_b[0, i] * states.v_w[k, 0]
                + T_w_b[1, i] * states.v_w[k, 1]
                + T_w_b[2, i] * states.v_w[k, 2]
            )
        # Left twist of the body in the world: [dp + p x (R phi), R phi].
        for j in range(3):
            x, y, z = T_w_b[0, j], T_w_b[1, j], T_w_b[2, j]
            by_left[3, j], by_left[4, j], by_left[5, j] = x, y, z
            by_left[0, j] = T_w_b[1, 3] * z - T_w_b[2, 3] * y
            by_left[1, j] = T_w_b[2, 3] * x - T_w_b[0, 3] * z
            by_left[2, j] = T_w_b[0, 3] * y - T_w_b[1, 3] * x
            by_left[j, 3 + j] = 1.0
        for i in range(6):
            for j in range(3):
                by_phi, by_p = 0.0, 0.0
                for m in range(6):
                    by_phi += adj_c0_w[i, m] * by_left[m, j]
                    by_p += adj_c0_w[i, m] * by_left[m, 3 + j]
                A[i, j], A[i, 6 + j] = by_phi, by_p
        for i in range(3):
            j, m = (i + 1) % 3, (i + 2) % 3
            A[6 + i, m], A[6 + i, j] = v_b[k, j], -v_b[k, m]
            for c in range(3):
                A[6 + i, 3 + c] = T_w_b[c, i]
        for i in range(s):
            for j in range(s):
                P[i, j] = cov_states[k, i, j]
            for j in range(b):
                P[i, s + j] = P[s + j, i] = cov_with_shared[k, i, j]
        congruent(A, P, out)
        for i in range(6):
            for j in range(6):
                cov_T[k, i, j] = out[i, j]
        for i in range(3):
            for j in range(3):
                cov_v[k, i, j] = out[6 + i, 6 + j]
    G = np.zeros((3, b))
    for i in range(3):
        by_tilt = np.zeros(3)
        for m in range(3):
            g_c0[i] -= shared.scalars[0] * T_c0_w[i, m] * shared.R_w_g[m, 2]
            by_tilt[0] += shared.scalars[0] * T_c0_w[i, m] * shared.R_w_g[m, 1]
            by_tilt[1] -= shared.scalars[0] * T_c0_w[i, m] * shared.R_w_g[m, 0]
            by_tilt[2] -= T_c0_w[i, m] * shared.R_w_g[m, 2]
        for c in range(3):
            if columns[6 + c] >= 0:
                G[i, columns[6 + c]] = by_tilt[c]
    for i in range(3):
        j, m = (i + 1) % 3, (i + 2) % 3
        for c in range(3):
            to = columns[12 + c]
            if to >= 0:
                # The camera's frame rotates by -R_c_b phi.
                G[i, to] = g_c0[j] * T_c_b[m, c] - g_c0[m] * T_c_b[j, c]
    congruent(G, cov_shared, cov_g)
    return InFirstCamera(Ts_c0_b, v_b, g_c0, cov_T, cov_v, cov_g)


@kernel
def congruent(A: Array, P: Array, out: Array) -> None:
    """out = A P A', symmetric."""
    rows, columns = A.shape
    AP = np.empty(columns)
    for i in range(rows):
        for c in range(columns):
            AP[c] = 0.0
        for m in range(columns):
            f = A[i, m]
            if f != 0.0:
                for c in range(columns):
                    AP[c] += f * P[m, c]
        for j in range(i + 1):
            total = 0.0
            for c in range(columns):
                total += AP[c] * A[j, c]
            out[i, j] = out[j, i] = total


def linear_view(solution: Solution) -> tuple[Array, Array]:
    """(n, 9, s) derivative of [T_c0_b (left twist), velocity_b] by each state, and (6, b) of
    [gravity_c0, gyroscope bias] by the shared unknowns, where the extrinsics are known."""
    states, shared, columns = solution.states, solution.shared, solution.columns
    n, s, b = len(states.v_w), solution.problem.state_size, solution.border
    view = in_first_camera(
        states, shared, columns, np.zeros((n, s, s)), np.zeros((n, s, b)), np.zeros((b, b))
    )
    by_state, by_shared = np.zeros((n, 9, s)), np.zeros((6, b))
    R_c0_w = view.Ts_c0_b[0, :3, :3] @ states.Ts_w_b[0, :3, :3].T
    for k in range(n):
        R_c0_b, p_c0_b = view.Ts_c0_b[k, :3, :3], view.Ts_c0_b[k, :3, 3]
        by_state[k, 0:3, ROTATION], by_state[k, 3:6, ROTATION] = skew(p_c0_b) @ R_c0_b, R_c0_b
        by_state[k, 0:3, POSITION] = R_c0_w
        by_state[k, 6:9, ROTATION] = skew(view.velocity_b[k])
        by_state[k, 6:9, VELOCITY] = states.Ts_w_b[k, :3, :3].T
    R_c0_g = R_c0_w @ shared.R_w_g
    norm = shared.scalars[0]
    by_gravity = np.stack([norm * R_c0_g[:, 1], -norm * R_c0_g[:, 0], -R_c0_g[:, 2]], axis=1)
    for place, block, derivative in (
        (slice(6, 9), slice(0, 3), by_gravity),
        (slice(0, 3), slice(3, 6), np.eye(3)),
    ):
        used = columns[place] >= 0
        by_shared[block, columns[place][used]] = derivative[:, used]
    return by_state, by_shared
