"""Residuals of every measurement, with their derivatives.

Each function writes r and its derivatives into rows of J. Of s unknowns per state (15, or 9 where
biases are shared) and q + 1 states that a factor touches, the columns are

    [ state k (s) .. state k + q (s) | r | shared biases (6) | gravity (3) | what it shares else ]

where gravity has two tilts and its norm. The last part is the gyroscope's scale (3) for the IMU;
T_b_c (6), clock and scale of vision for the camera; T_b_m (6), clock and its drift for a marker.
"""

import math

import numpy as np

from maci2.estimator.measurements import (
    Markers,
    Measurements,
    Motions,
    Spans,
    StackedPriors,
    Timed,
)
from maci2.estimator.problem import CAMERA as CAMERA_POSE
from maci2.estimator.problem import (
    CAMERA_CLOCK,
    GRAVITY_NORM,
    GYRO_SCALE,
    MOTION,
    ORIENTATION_CLOCK,
    POSITION_CLOCK,
    SCALARS,
    SCALE,
    SHARED,
    STATE,
    Indices,
    Shared,
    Unknowns,
)
from maci2.estimator.problem import GRAVITY as TILT
from maci2.estimator.problem import MARKER as MARKER_POSE
from maci2.geometry.se3 import se3_adj, se3_inv, se3_jl_inv, se3_jr_inv, se3_log, se3_mul
from maci2.geometry.so3 import (
    half_cot_over,
    multiply,
    norm3,
    one_minus_cos_over,
    polynomial,
    product,
    product_t,
    sin_over,
    skew,
    so3_jr_inv,
    so3_log,
    t_minus_sin_over,
)
from maci2.imu import VerticalPrior
from maci2.jit import kernel
from maci2.types import Array

IMU, CAMERA, POSITIONS, ORIENTATIONS, PRIORS = range(5)
"""Kinds of factor, whose costs are kept apart."""

BIASES, GRAVITY, OWN = 1, 7, 10
"""Columns after those of the states, counted from the residual's: shared biases, gravity, and what
a kind of factor shares besides."""

CLOCK = OWN + 6
"""Column of the clock of a camera or marker, after its pose."""

IMU_TAIL, CAMERA_TAIL, MARKER_TAIL, PRIOR_TAIL = OWN + 3, OWN + 8, OWN + 8, BIASES + 6 + SHARED
"""Columns from the residual on."""

AXES = np.eye(3)

CARRIED = 19
"""Columns of the derivative of a state at another instant: state (15), gravity (3), instant (1)."""


def _shared_unknowns() -> Indices:
    gravity = [*range(6), *(6 + np.r_[TILT, GRAVITY_NORM])]
    rows = (
        [*gravity, *(6 + np.r_[GYRO_SCALE])],
        [*gravity, *(6 + np.r_[CAMERA_POSE, CAMERA_CLOCK, SCALE])],
        [*gravity, *(6 + np.r_[MARKER_POSE, POSITION_CLOCK])],
        [*gravity, *(6 + np.r_[MARKER_POSE, ORIENTATION_CLOCK])],
        [*range(6 + SHARED)],
    )
    return np.array([row + [-1] * (6 + SHARED - len(row)) for row in rows])


SHARED_UNKNOWNS = _shared_unknowns()
"""(5, 30) place in `Free.columns` of the shared unknown of each column after the residual's, for
each kind of factor; -1 where there are no more."""


@kernel
def places(columns: Indices, kind: int, is_carried: bool = True) -> Indices:
    """(2, u) columns of a kind of factor, counted from its residual's, whose shared unknowns are
    free, and these unknowns. Only motion of the IMU and states carried by it depend on biases and
    gravity."""
    place, u = np.empty((2, SHARED_UNKNOWNS.shape[1]), dtype=np.int64), 0
    for i in range(0 if is_carried else OWN - 1, SHARED_UNKNOWNS.shape[1]):
        unknown = SHARED_UNKNOWNS[kind, i]
        if unknown >= 0 and columns[unknown] >= 0:
            place[0, u], place[1, u] = 1 + i, columns[unknown]
            u += 1
    return place[:, :u].copy()


@kernel
def corrected(spans: Spans, k: int, unknowns: Unknowns, index: int, out: Array) -> None:
    """Rows of `out`: rotation vector by which changes of biases and scale since the integration
    move gamma; beta and alpha with these changes, to first order."""
    bg, ba = unknowns.states.bias_gyro, unknowns.states.bias_acc
    by_bias = spans.by_bias[k]
    for i in range(3):
        out[0, i], out[1, i], out[2, i] = 0.0, spans.beta[k, i], spans.alpha[k, i]
        for j in range(3):
            d_bg, d_ba = bg[index, j] - spans.bias[k, j], ba[index, j] - spans.bias[k, 3 + j]
            out[0, i] += by_bias[i, j] * d_bg
            out[1, i] += by_bias[3 + i, j] * d_bg + by_bias[3 + i, 3 + j] * d_ba
            out[2, i] += by_bias[6 + i, j] * d_bg + by_bias[6 + i, 3 + j] * d_ba
            if len(spans.by_scale) > 0:
                scale = unknowns.shared.scalars[GYRO_SCALE.start + j]
                for row in range(3):
                    by_scale = spans.by_scale[k, 3 * row + i, j]
                    out[row, i] += by_scale * (scale - spans.gyro_scale[k, j])


@kernel
def add_block(A: Array, B: Array, factor: float, J: Array, row: int, col: int) -> None:
    """J[row : row + 3, col : col + 3] += factor A B, of their upper left 3x3."""
    for i in range(3):
        for j in range(3):
            total = A[i, 0] * B[0, j] + A[i, 1] * B[1, j] + A[i, 2] * B[2, j]
            J[row + i, col + j] += factor * total


@kernel
def add_block_t(A: Array, B: Array, factor: float, J: Array, row: int, col: int) -> None:
    """J[row : row + 3, col : col + 3] += factor A' B, of their upper left 3x3."""
    for i in range(3):
        for j in range(3):
            total = A[0, i] * B[0, j] + A[1, i] * B[1, j] + A[2, i] * B[2, j]
            J[row + i, col + j] += factor * total


@kernel
def add_cross_columns(R: Array, a: Array, factor: float, J: Array, row: int, col: int) -> None:
    """J[row : row + 3, col : col + 3] += factor R [a]x."""
    for i in range(3):
        for j in range(3):
            k, m = (j + 1) % 3, (j + 2) % 3
            J[row + i, col + j] += factor * (R[i, k] * a[m] - R[i, m] * a[k])


@kernel
def imu_factor(spans: Spans, k: int, unknowns: Unknowns, J: Array) -> None:
    """Motion between neighbours less the preintegrated one, in b_k (Eqs. 12-14); s rows.

    r_gamma = Log(gamma' R_bk_bk1)
    r_beta  = R_bk_w (v_k1 - v_k - g dt) - beta
    r_alpha = R_bk_w (p_k1 - p_k - v_k dt - g dt^2 / 2) - alpha

    and, of states with biases of their own, the change of the biases.
    """
    states, shared, s = unknowns.states, unknowns.shared, unknowns.size
    T_w_bk, T_w_bk1 = states.Ts_w_b[k], states.Ts_w_b[k + 1]
    v_k, v_k1, bg, ba = states.v_w[k], states.v_w[k + 1], states.bias_gyro, states.bias_acc
    R_w_g, gravity, dt = shared.R_w_g, shared.scalars[GRAVITY_NORM], spans.dt[k]
    # One array for all that is small: making them one by one takes longer than filling them.
    small = np.zeros((9, 3, 3))
    turn, beta, alpha = small[0, 0], small[0, 1], small[0, 2]
    dv, dp, dv_b, dp_b = small[1, 0], small[1, 1], small[2, 0], small[2, 1]
    step, by_turn, J_r_inv, R_bk1_bk, by_phi_k = small[3], small[4], small[5], small[6], small[7]
    corrected(spans, k, unknowns, k, small[0])
    rotation_and_jacobian(turn, step, small[8])
    add_block_t(T_w_bk1, T_w_bk, 1.0, R_bk1_bk, 0, 0)
    # gamma' R_bk_bk1, as the transpose of (R_bk1_bk gamma)'.
    multiply(spans.gamma[k], step, by_turn)
    multiply(R_bk1_bk, by_turn, step)
    phi = so3_log(step)
    for i in range(3):
        phi[i] = -phi[i]
    polynomial(phi, 0.5, half_cot_over(norm3(phi)), J_r_inv)
    multiply(J_r_inv, R_bk1_bk, by_phi_k)
    # J_l^-1 is the transpose of J_r^-1.
    by_turn.fill(0.0)
    add_block_t(J_r_inv, small[8], 1.0, by_turn, 0, 0)
    r = 2 * s
    bias, g, scale = (MOTION if s == STATE else r + BIASES), r + GRAVITY, r + OWN
    for i in range(s):
        for j in range(r + IMU_TAIL):
            J[i, j] = 0.0
    for i in range(3):
        g_i = -gravity * R_w_g[i, 2]
        dv[i] = v_k1[i] - v_k[i] - dt * g_i
        dp[i] = T_w_bk1[i, 3] - T_w_bk[i, 3] - dt * v_k[i] - 0.5 * dt * dt * g_i
    for i in range(3):
        for j in range(3):
            dv_b[i] += T_w_bk[j, i] * dv[j]
            dp_b[i] += T_w_bk[j, i] * dp[j]
    for i in range(3):
        J[i, r], J[3 + i, r], J[6 + i, r] = phi[i], dv_b[i] - beta[i], dp_b[i] - alpha[i]
        for j in range(3):
            R_ij = T_w_bk[j, i]
            J[i, j], J[i, s + j] = -by_phi_k[i, j], J_r_inv[i, j]
            J[3 + i, 3 + j], J[3 + i, s + 3 + j] = -R_ij, R_ij
            J[6 + i, 3 + j], J[6 + i, 6 + j], J[6 + i, s + 6 + j] = -dt * R_ij, -R_ij, R_ij
            for row in (3, 6):
                J[row + i, bias + j] = -spans.by_bias[k, row + i, j]
                J[row + i, bias + 3 + j] = -spans.by_bias[k, row + i, 3 + j]
            # Gravity moves by (y axis, -x axis) of the level frame, and along its -z axis.
            J[3 + i, g] -= dt * gravity * R_ij * R_w_g[j, 1]
            J[3 + i, g + 1] += dt * gravity * R_ij * R_w_g[j, 0]
            J[3 + i, g + 2] += dt * R_ij * R_w_g[j, 2]
        for c in range(g, g + 3):
            J[6 + i, c] = 0.5 * dt * J[3 + i, c]
    add_block(by_turn, spans.by_bias[k], -1.0, J, 0, bias)
    add_cross_columns(AXES, dv_b, 1.0, J, 3, 0)
    add_cross_columns(AXES, dp_b, 1.0, J, 6, 0)
    if s == STATE:
        for i in range(3):
            J[9 + i, r], J[12 + i, r] = bg[k + 1, i] - bg[k, i], ba[k + 1, i] - ba[k, i]
            J[9 + i, 9 + i] = J[12 + i, 12 + i] = -1.0
            J[9 + i, 24 + i] = J[12 + i, 27 + i] = 1.0
    if len(spans.by_scale) > 0:
        add_block(by_turn, spans.by_scale[k], -1.0, J, 0, scale)
        for row in range(3, 9):
            for j in range(3):
                J[row, scale + j] = -spans.by_scale[k, row, j]


@kernel
def carry(
    spans: Spans, k: int, unknowns: Unknowns, index: int, s: float, T_s: Array, J: Array
) -> None:
    """Pose at `s` seconds after the end of span k of a state, and its derivative J (6, 19).

    A measurement with its own clock belongs to the instant (timestamp + offset). Samples are
    integrated to the instant that the present offset gives, once; what the offset moves after that
    is bridged with the angular rate and specific force there, to second order, and gives the
    derivative by the offset. Rows [phi, p] as in a state; columns: see `CARRIED`.
    """
    states, shared = unknowns.states, unknowns.shared
    T_w_b, v_w, by_bias = states.Ts_w_b[index], states.v_w[index], spans.by_bias[k]
    R_w_g, gravity, dt = shared.R_w_g, shared.scalars[GRAVITY_NORM], spans.dt[k]
    # One array for all that is small: making them one by one takes longer than filling them.
    small = np.zeros((12, 3, 3))
    turn, beta, alpha = small[0, 0], small[0, 1], small[0, 2]
    rate, force, angle = small[1, 0], small[1, 1], small[1, 2]
    step, gamma_D, gamma, R0 = small[2], small[3], small[4], small[5]
    R_s, R_s_D, gamma_t, by_bg = small[6], small[7], small[8], small[9]
    lever, turned = small[10], small[11]
    corrected(spans, k, unknowns, index, small[0])
    rotation_and_jacobian(turn, step, gamma_D)
    multiply(spans.gamma[k], step, gamma)
    multiply(T_w_b, gamma, R0)
    for i in range(3):
        rate[i] = spans.reading[k, i] - states.bias_gyro[index, i]
        force[i] = spans.reading[k, 3 + i] - states.bias_acc[index, i]
        angle[i] = rate[i] * s
        for j in range(3):
            gamma_t[i, j] = gamma[j, i]
    rotation_and_jacobian(angle, R_s, R_s_D)
    multiply(R0, R_s, T_s)
    J.fill(0.0)
    # Rotation, by the state's rotation and gyroscope bias.
    multiply(gamma_D, by_bias, by_bg)
    add_block_t(R_s, gamma_t, 1.0, J, 0, 0)
    add_block_t(R_s, by_bg, 1.0, J, 0, 9)
    # Position, by the biases.
    for bias in (0, 3):
        for i in range(3):
            for j in range(3):
                lever[i, j] = by_bias[6 + i, bias + j] + s * by_bias[3 + i, bias + j]
        add_block(T_w_b, lever, 1.0, J, 3, 9 + bias)
    for i in range(3):
        a0, v0 = 0.0, v_w[i]
        g_i = -gravity * R_w_g[i, 2]
        p0 = T_w_b[i, 3] + dt * v_w[i] + 0.5 * dt * dt * g_i
        for j in range(3):
            a0 += R0[i, j] * force[j]
            v0 += T_w_b[i, j] * beta[j]
            p0 += T_w_b[i, j] * alpha[j]
            J[i, 9 + j] -= s * R_s_D[i, j]
            J[3 + i, 12 + j] -= 0.5 * s * s * R0[i, j]
        a0 += g_i
        v0 += dt * g_i
        T_s[i, 3] = p0 + s * v0 + 0.5 * s * s * a0
        J[i, 18] = rate[i]
        J[3 + i, 18] = v0 + s * a0
        J[3 + i, 3 + i] = dt + s
        J[3 + i, 6 + i] = 1.0
        # Gravity moves by (y axis, -x axis) of the level frame, and along its -z axis.
        fall = 0.5 * (dt + s) * (dt + s)
        J[3 + i, 15] = fall * gravity * R_w_g[i, 1]
        J[3 + i, 16] = -fall * gravity * R_w_g[i, 0]
        J[3 + i, 17] = -fall * R_w_g[i, 2]
    # Position by the state's rotation: R alpha, s R beta and s^2/2 R0 force all rotate with it.
    for i in range(3):
        alpha[i] += s * beta[i]
    add_cross_columns(T_w_b, alpha, -1.0, J, 3, 0)
    add_cross_columns(R0, force, -0.5 * s * s, turned, 0, 0)
    add_block(turned, gamma_t, 1.0, J, 3, 0)
    add_block(turned, by_bg, 1.0, J, 3, 9)
    T_s[3, 0] = T_s[3, 1] = T_s[3, 2] = 0.0
    T_s[3, 3] = 1.0


@kernel
def rotation_and_jacobian(phi: Array, R: Array, J_r: Array) -> None:
    """R = Exp(phi) and its right Jacobian, without new arrays."""
    t = norm3(phi)
    half = one_minus_cos_over(t)
    polynomial(phi, sin_over(t), half, R)
    polynomial(phi, -half, t_minus_sin_over(t), J_r)


@kernel
def _through_carried(
    by_pose: Array, carried: Array, s: int, state: int, r: int, row: int, J: Array
) -> None:
    """Rows of J by a state, gravity and the instant, from derivatives by the carried pose [phi, p].
    `state` is the state's first column."""
    for i in range(len(by_pose)):
        for c in range(CARRIED):
            total = 0.0
            for n in range(6):
                total += by_pose[i, n] * carried[n, c]
            if c < s:
                J[row + i, state + c] += total
            elif c < 18:
                J[row + i, r + BIASES + c - MOTION] += total
            else:
                J[row + i, r + CLOCK] += total


@kernel
def between(T_a_b: Array, T_a_c: Array, T_b_c: Array) -> None:
    """T_b_c of two poses."""
    for i in range(3):
        T_b_c[i, 3] = T_b_c[3, i] = 0.0
        for j in range(3):
            T_b_c[i, 3] += T_a_b[j, i] * (T_a_c[j, 3] - T_a_b[j, 3])
            T_b_c[i, j] = (
                T_a_b[0, i] * T_a_c[0, j] + T_a_b[1, i] * T_a_c[1, j] + T_a_b[2, i] * T_a_c[2, j]
            )
    T_b_c[3, 3] = 1.0


@kernel
def camera_factor(motions: Motions, instant: Spans, i: int, unknowns: Unknowns, J: Array) -> None:
    """Measured motion i of the camera against that of its states (Eq. 10); rows [rho, phi] in
    vision's unit for each of its relative poses.

    r = Log(T_ck_ck1 (S T_c_b T_bk_w T_w_bk1 T_b_c)^-1)

    where S shrinks the translation to vision's unit: measured times inverse predicted, so that r is
    the left error whose covariance vision states. States are carried to the camera's instants,
    unless they all are there.
    """
    shared, s, k, count = unknowns.shared, unknowns.size, motions.state[i], motions.span[i]
    T_b_c, T_c_b, r = shared.T_b_c, se3_inv(shared.T_b_c), (count + 1) * s
    clock_s, shrink = shared.scalars[CAMERA_CLOCK], math.exp(-shared.scalars[SCALE])
    ends = 2 if len(instant.dt) > 0 else 0
    carried_Ts, carried = np.empty((ends, 4, 4)), np.empty((ends, 6, CARRIED))
    by_twist, by_pose, difference = np.empty((6, 6)), np.empty((6, 6)), np.empty((4, 4))
    for first in range(count):
        for end in range(ends):
            at = k + first + end
            carry(instant, at, unknowns, at, clock_s, carried_Ts[end], carried[end])
        Ts_w_b = carried_Ts if ends > 0 else unknowns.states.Ts_w_b[k + first : k + first + 2]
        between(Ts_w_b[0], Ts_w_b[1], difference)
        T_ck_bk1 = se3_mul(T_c_b, difference)
        predicted = se3_mul(T_ck_bk1, T_b_c)
        for n in range(3):
            predicted[n, 3] *= shrink
        measured = motions.Ts_ck_ck1[i, first]
        for m in range(3):
            difference[m, 3] = measured[m, 3]
            for n in range(3):
                difference[m, n] = (
                    measured[m, 0] * predicted[n, 0]
                    + measured[m, 1] * predicted[n, 1]
                    + measured[m, 2] * predicted[n, 2]
                )
                difference[m, 3] -= difference[m, n] * predicted[n, 3]
        error = se3_log(difference)
        J_r_inv, row = se3_jr_inv(error), 6 * first
        for m in range(6):
            for c in range(r + CAMERA_TAIL):
                J[row + m, c] = 0.0
            J[row + m, r] = error[m]
            for n in range(3):
                J[row + m, r + CLOCK + 1] += J_r_inv[m, n] * predicted[n, 3]
        for end in range(2):
            # By a twist [rho, phi] of the body, seen from camera k; rho is R' dp.
            sign, state, T_w_b = 1.0 - 2.0 * end, s * (first + end), Ts_w_b[end]
            adj = se3_adj(T_ck_bk1 if end else T_c_b)
            _shrunk_product(J_r_inv, shrink, adj, sign, by_twist)
            for m in range(6):
                for j in range(6):
                    J[row + m, r + OWN + j] += by_twist[m, j]
                for j in range(3):
                    by_pose[m, j], by_pose[m, 3 + j] = by_twist[m, 3 + j], 0.0
                    for n in range(3):
                        by_pose[m, 3 + j] += by_twist[m, n] * T_w_b[j, n]
                    if ends == 0:
                        J[row + m, state + j] = by_pose[m, j]
                        J[row + m, state + 6 + j] = by_pose[m, 3 + j]
            if ends > 0:
                _through_carried(by_pose, carried[end], s, state, r, row, J)


@kernel
def _shrunk_product(A: Array, shrink: float, B: Array, sign: float, out: Array) -> None:
    """out = sign A S B, where S shrinks rho; A and B are [[X, Y], [0, X]]."""
    for i in range(3):
        for j in range(3):
            diagonal, above = 0.0, 0.0
            for k in range(3):
                diagonal += A[i, k] * B[k, j]
                above += shrink * A[i, k] * B[k, 3 + j] + A[i, 3 + k] * B[k, j]
            out[i, j], out[3 + i, 3 + j] = sign * shrink * diagonal, sign * diagonal
            out[i, 3 + j], out[3 + i, j] = sign * above, 0.0


@kernel
def moved_clock(timed: Timed, kind: int, i: int, shared: Shared) -> float:
    """Movement of the clock's offset since samples were integrated [s]."""
    clock = POSITION_CLOCK.start if kind == POSITIONS else ORIENTATION_CLOCK.start
    return shared.scalars[clock] + shared.scalars[clock + 1] * timed.elapsed[i] - timed.anchor[i]


@kernel
def marker_factor(
    kind: int,
    value: Array,
    elapsed: float,
    unknowns: Unknowns,
    T_w_b: Array,
    carried: Array,
    J: Array,
) -> None:
    """Position of the marker on the carried state less the measured one, in w, or rotation from the
    measured marker to that on the carried state, in the marker; 3 rows.

    r = p_w_b + R_w_b p_b_m - p_w_m
    r = Log(R_m_w R_w_b R_b_m)
    """
    T_b_m, s, by_pose = unknowns.shared.T_b_m, unknowns.size, np.zeros((3, 6))
    for row in range(3):
        for c in range(s + MARKER_TAIL):
            J[row, c] = 0.0
    if kind == POSITIONS:
        p_b_m = T_b_m[:3, 3].copy()
        add_cross_columns(T_w_b, p_b_m, -1.0, by_pose, 0, 0)
        for row in range(3):
            by_pose[row, 3 + row] = 1.0
            J[row, s] = T_w_b[row, 3] - value[row, 0]
            for j in range(3):
                J[row, s] += T_w_b[row, j] * p_b_m[j]
                J[row, s + OWN + j] = T_w_b[row, j]
    else:
        phi = so3_log(product_t(value, product(T_w_b, T_b_m)))
        J_r_inv = so3_jr_inv(phi)
        for row in range(3):
            J[row, s] = phi[row]
            for j in range(3):
                for n in range(3):
                    by_pose[row, j] += J_r_inv[row, n] * T_b_m[j, n]
    _through_carried(by_pose, carried, s, 0, s, 0, J)
    for row in range(3):
        J[row, s + CLOCK + 1] = elapsed * J[row, s + CLOCK]
        for j in range(3):
            # A rotation of the marker about the body's origin is one of the carried body.
            J[row, s + OWN + 3 + j] = by_pose[row, j]


@kernel
def vertical_factor(prior: VerticalPrior, unknowns: Unknowns, J: Array) -> None:
    """Gravity at the first state against the vertical of earlier samples, whitened; 2 rows, and a
    third of zeros.

    r = W [g x down_b, b - b_tracked], with g the unit vector of gravity in the body.
    """
    states, s, W = unknowns.states, unknowns.size, prior.white
    bias, D = MOTION if s == STATE else s + BIASES, skew(prior.down_b)
    R_b_g = product_t(states.Ts_w_b[0], unknowns.shared.R_w_g)
    # g is -z of the level frame; it moves by g x phi with the body, by (y, -x) with the tilts.
    up_b = R_b_g[:, 2].copy()
    by_phi, by_axis = product(D, skew(up_b)), product(D, R_b_g)
    for row in range(3):
        for c in range(s + IMU_TAIL):
            J[row, c] = 0.0
    for row in range(2):
        for n in range(3):
            J[row, s] += W[row, n] * by_axis[n, 2]
            J[row, s] += W[row, 3 + n] * (states.bias_gyro[0, n] - prior.bias[n])
            J[row, s] += W[row, 6 + n] * (states.bias_acc[0, n] - prior.bias[3 + n])
            J[row, s + GRAVITY] -= W[row, n] * by_axis[n, 1]
            J[row, s + GRAVITY + 1] += W[row, n] * by_axis[n, 0]
            for c in range(3):
                J[row, c] += W[row, n] * by_phi[n, c]
        for n in range(6):
            J[row, bias + n] = W[row, 3 + n]


@kernel
def prior_factor(priors: StackedPriors, i: int, unknowns: Unknowns, J: Array) -> None:
    """Coordinates of a state and the shared parameters about the means of prior i; 39 rows [state,
    shared parameters], of which the first columns of J are (39, s + 31)."""
    states, shared, s = unknowns.states, unknowns.shared, unknowns.size
    mean, mean_shared, k = priors.states, priors.shared, priors.at_state[i]
    T_w_b, mean_T_w_b, r, own = states.Ts_w_b[k], mean.Ts_w_b[i], s, s + BIASES + 6
    bias = MOTION if s == STATE else s + BIASES
    for row in range(STATE + SHARED):
        for c in range(s + PRIOR_TAIL):
            J[row, c] = 0.0
    phi = so3_log(product_t(mean_T_w_b, T_w_b))
    J_r_inv = so3_jr_inv(phi)
    for a in range(3):
        J[a, r] = phi[a]
        J[3 + a, r] = states.v_w[k, a] - mean.v_w[i, a]
        J[6 + a, r] = T_w_b[a, 3] - mean_T_w_b[a, 3]
        J[9 + a, r] = states.bias_gyro[k, a] - mean.bias_gyro[i, a]
        J[12 + a, r] = states.bias_acc[k, a] - mean.bias_acc[i, a]
        J[3 + a, 3 + a] = J[6 + a, 6 + a] = J[9 + a, bias + a] = J[12 + a, bias + 3 + a] = 1.0
        for b in range(3):
            J[a, b] = J_r_inv[a, b]
    for a in range(SCALARS):
        J[STATE + a, r] = shared.scalars[a] - mean_shared.scalars[i, a]
        J[STATE + a, own + a] = 1.0
    # Down in the mean's level frame: (-y, x, -1) for a small tilt (x, y).
    M, tilt = product_t(mean_shared.R_w_g[i], shared.R_w_g), TILT.start
    row, column = STATE + tilt, own + tilt
    J[row, r], J[row + 1, r] = -M[1, 2], M[0, 2]
    J[row, column], J[row + 1, column] = M[1, 1], -M[0, 1]
    J[row, column + 1], J[row + 1, column + 1] = -M[1, 0], M[0, 0]
    for is_marker in (False, True):
        T = shared.T_b_m if is_marker else shared.T_b_c
        mean_T = mean_shared.T_b_m[i] if is_marker else mean_shared.T_b_c[i]
        first = MARKER_POSE.start if is_marker else CAMERA_POSE.start
        xi = se3_log(se3_mul(T, se3_inv(mean_T)))
        J_l_inv = se3_jl_inv(xi)
        for a in range(6):
            J[STATE + first + a, r] = xi[a]
            for b in range(6):
                J[STATE + first + a, own + first + b] = J_l_inv[a, b]


@kernel
def factor(
    measurements: Measurements,
    markers: Markers | None,
    kind: int,
    i: int,
    unknowns: Unknowns,
    J: Array,
) -> tuple[int, int, Array]:
    """Rows of any factor, by its kind and number; its numbers of states and rows, and W with
    W'W = cov^-1."""
    if kind == IMU:
        imu_factor(measurements.spans, i, unknowns, J)
        return 2, unknowns.size, measurements.white[i]
    motions = measurements.motions
    if kind == CAMERA:
        camera_factor(motions, measurements.instant, i, unknowns, J)
    elif markers is not None:
        timed = markers.positions if kind == POSITIONS else markers.orientations
        T_w_b, carried = np.empty((4, 4)), np.empty((6, CARRIED))
        moved = moved_clock(timed, kind, i, unknowns.shared)
        carry(timed.spans, i, unknowns, timed.at_state[i], moved, T_w_b, carried)
        marker_factor(kind, timed.value[i], timed.elapsed[i], unknowns, T_w_b, carried, J)
        return 1, 3, timed.white[i]
    return motions.span[i] + 1, 6 * motions.span[i], motions.white[i]
