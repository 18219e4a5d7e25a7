"""Parts that several baselines share: gyroscope bias from rotations, linear rows of velocity and
gravity, least squares with a vector of known norm, and motion integrated from the IMU alone."""

from dataclasses import dataclass

import numpy as np

from maci2.estimator import VIState
from maci2.geometry import so3_exp, so3_jl_inv, so3_jr, so3_log
from maci2.geometry.se3 import stack_poses
from maci2.imu import ALPHA, BETA, GAMMA, Preintegrated, preintegrate
from maci2.types import Array
from maci2_lab.baselines.segment import Segment

SECULAR_ITERATIONS = 100
SECULAR_TOLERANCE = 1e-14


def solve_on_sphere(H: Array, b: Array, part: slice, norm: float) -> Array:
    """Minimizer of x' H x / 2 - b' x subject to |x[part]| = norm; H is positive definite on the
    other unknowns.

    Least squares in which three of the unknowns are a vector of known norm.

    The originals look for the Lagrange multiplier among the roots of a polynomial of degree six.
    Here the other unknowns are eliminated and the multiplier is the one root of the secular
    equation

        sum (q_i' r)^2 / (lambda_i + mu)^2 = norm^2,    mu > -lambda_min

    for which S + mu I is positive: that one is the minimum. A test compares with the polynomial.
    """
    inside = np.zeros(len(b), dtype=bool)
    inside[part] = True
    others = ~inside
    by_part = np.linalg.solve(H[np.ix_(others, others)], H[np.ix_(others, inside)])
    known = np.linalg.solve(H[np.ix_(others, others)], b[others])
    S = H[np.ix_(inside, inside)] - H[np.ix_(inside, others)] @ by_part
    r = b[inside] - H[np.ix_(inside, others)] @ known
    x = np.empty(len(b))
    x[inside] = nearest_on_sphere(0.5 * (S + S.T), r, norm)
    x[others] = known - by_part @ x[inside]
    return x


def nearest_on_sphere(S: Array, r: Array, norm: float) -> Array:
    """Minimizer of g' S g / 2 - r' g subject to |g| = norm."""
    values, Q = np.linalg.eigh(S)
    c = Q.T @ r
    gaps = values - values[0]
    lowest = gaps <= 1e-14 * max(abs(values[-1]), abs(values[0]))
    # At mu = -lambda_min the lowest directions are free; where r does not reach them, the rest
    # may be too short for the sphere, and they fill it up.
    rest = np.where(lowest, 0.0, c) / np.where(lowest, 1.0, gaps)
    if np.linalg.norm(c[lowest]) <= 1e-14 * np.linalg.norm(c) and np.linalg.norm(rest) <= norm:
        filled = rest.copy()
        filled[0] = np.sqrt(norm**2 - rest @ rest)
        return Q @ filled
    shift = _secular_root(c, gaps, norm)
    g = Q @ (c / (gaps + shift))
    return g * (norm / np.linalg.norm(g))


def _secular_root(c: Array, gaps: Array, norm: float) -> float:
    """Solution shift > 0 of |c / (gaps + shift)| = norm by Newton steps on 1 / |.|, which is nearly
    linear and concave; steps that leave the bracket are replaced."""
    low = max(float(np.max(np.abs(c) / norm - gaps)), 0.0)
    high = float(np.linalg.norm(c)) / norm
    shift = low if low > 0.0 else 0.5 * high
    for _ in range(SECULAR_ITERATIONS):
        g = c / (gaps + shift)
        length = float(np.linalg.norm(g))
        if abs(length - norm) <= SECULAR_TOLERANCE * norm or high - low <= SECULAR_TOLERANCE * high:
            break
        if length > norm:
            low = shift
        else:
            high = shift
        slope = float(g @ (g / (gaps + shift))) / length**3
        step = (1.0 / norm - 1.0 / length) / slope
        shift = shift + step if low < shift + step < high else 0.5 * (low + high)
    return shift


SCALE_UNIT = 100.0
"""Factor on the unknown scale, for columns of similar size."""


def raw_motion(
    segment: Segment, gyro_bias: Array | None = None, acc_bias: Array | None = None
) -> Preintegrated:
    """Raw samples between keyframes, preintegrated with these biases removed."""
    return preintegrate(segment.raw, segment.stamps_ns, gyro_bias, acc_bias)


def rotation_errors(gamma: Array, Rs_c0_b: Array) -> Array:
    """(m, 3, 3) rotation residual gamma' R_k' R_k+1."""
    return _transposed(gamma) @ _transposed(Rs_c0_b[:-1]) @ Rs_c0_b[1:]


def logs(rotations: Array) -> Array:
    """(m, 3) rotation vectors."""
    return np.array([so3_log(np.ascontiguousarray(R)) for R in rotations])


def quaternion_vectors(rotations: Array) -> Array:
    """(m, 3) twice the vector part of each unit quaternion: the rotation vector, to first order."""
    phi = logs(rotations)
    half = 0.5 * np.linalg.norm(phi, axis=1, keepdims=True)
    return phi * np.sinc(half / np.pi)


def rotation_errors_D_bias(errors: Array, D_bg: Array, bias: Array) -> Array:
    """(m, 3, 3) derivative of Log(Exp(D b)' gamma' R_k' R_k+1) by the gyroscope bias b, one for
    all steps (3,) or one each (m, 3).

    Exp(-J_r(D b) D db) stands left of the error.
    """
    turns = _times(D_bg, bias)
    return np.array(
        [
            -so3_jl_inv(r) @ so3_jr(turn) @ D
            for r, turn, D in zip(errors, turns, np.ascontiguousarray(D_bg), strict=True)
        ]
    )


def fit_gyro_bias(pre: Preintegrated, errors: Array) -> Array:
    """(3,) least squares of D_bg db = errors with equal weights, one linear solve."""
    D = pre.D_bg[:, GAMMA]
    return np.linalg.solve(np.einsum("kji,kjl->il", D, D), np.einsum("kji,kj->i", D, errors))


def corrected(pre: Preintegrated, bg: Array, ba: Array) -> tuple[Array, Array, Array]:
    """gamma, beta, alpha with biases removed to first order, as a filter's cache gives them; biases
    are common (3,) or one per interval (m, 3)."""
    turns = np.array([so3_exp(phi) for phi in _times(pre.D_bg[:, GAMMA], bg)])
    beta = pre.beta + _times(pre.D_bg[:, BETA], bg) + _times(pre.D_ba[:, BETA], ba)
    alpha = pre.alpha + _times(pre.D_bg[:, ALPHA], bg) + _times(pre.D_ba[:, ALPHA], ba)
    return pre.gamma @ turns, beta, alpha


def motion_rows(
    dt: Array, beta: Array, alpha: Array, Rs_c0_b: Array, steps_c0: Array
) -> tuple[Array, Array]:
    """Rows (6 m, 3 n + 3) of the unknowns [v_0 .. v_n-1, g] and their right sides.

    Shared parts of baselines: gyroscope bias from rotations, linear rows of velocity and gravity.

    With poses given, motion is linear in velocities v_k (each in its body) and gravity g in c0:

        position    dt v_k + dt^2 / 2 R_k' g                 = R_k' (p_k+1 - p_k) - alpha_k
        velocity    R_k' R_k+1 v_k+1 - v_k - dt R_k' g       = beta_k

    `steps_c0` (m, 3) are the known parts of p_k+1 - p_k in c0 [m].
    """
    m = len(dt)
    rows, right = np.zeros((m, 6, 3 * m + 6)), np.empty((m, 6))
    for k in range(m):
        R_bk_c0 = Rs_c0_b[k].T
        here, after = slice(3 * k, 3 * k + 3), slice(3 * k + 3, 3 * k + 6)
        rows[k, 0:3, here] = dt[k] * np.eye(3)
        rows[k, 0:3, -3:] = 0.5 * dt[k] ** 2 * R_bk_c0
        rows[k, 3:6, here] = -np.eye(3)
        rows[k, 3:6, after] = R_bk_c0 @ Rs_c0_b[k + 1]
        rows[k, 3:6, -3:] = -dt[k] * R_bk_c0
        right[k, 0:3] = R_bk_c0 @ steps_c0[k] - alpha[k]
        right[k, 3:6] = beta[k]
    return rows.reshape(6 * m, -1), right.reshape(6 * m)


def scaled_motion_rows(
    pre: Preintegrated, Rs_c0_b: Array, p_c0_c: Array, p_b_c: Array
) -> tuple[Array, Array]:
    """Rows of [v_0 .. v_n-1, g, 100 s]: the body moves by s (p_ck1 - p_ck) minus the lever arm."""
    lever_c0 = -np.diff(Rs_c0_b @ p_b_c, axis=0)
    rows, right = motion_rows(pre.dt, pre.beta, pre.alpha, Rs_c0_b, lever_c0)
    steps_b = np.einsum("kji,kj->ki", Rs_c0_b[:-1], np.diff(p_c0_c, axis=0))
    by_scale = np.concatenate([-steps_b / SCALE_UNIT, np.zeros_like(steps_b)], axis=1)
    return np.column_stack([rows, by_scale.ravel()]), right


def velocities_between(
    pre: Preintegrated, Ts_c0_b: Array, acc_bias: Array, gravity_c0: Array
) -> Array:
    """(n, 3) velocities in c0 from each position row, the last from its velocity row."""
    Rs, p, dt = Ts_c0_b[:, :3, :3], Ts_c0_b[:, :3, 3], pre.dt[:, None]
    _, beta, alpha = corrected(pre, np.zeros(3), acc_bias)
    moved = np.einsum("kij,kj->ki", Rs[:-1], alpha)
    v_c0 = (np.diff(p, axis=0) - moved) / dt - 0.5 * dt * gravity_c0
    return np.vstack([v_c0, v_c0[-1] + pre.dt[-1] * gravity_c0 + Rs[-2] @ beta[-1]])


def tangent_basis(gravity: Array) -> Array:
    """(3, 2) directions perpendicular to gravity: the first towards z, or x if z is parallel."""
    along = gravity / np.linalg.norm(gravity)
    aside = np.array([0.0, 0.0, 1.0])
    if abs(along[2]) == 1.0:
        aside = np.array([1.0, 0.0, 0.0])
    first = aside - along * (along @ aside)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(along, first)], axis=1)


def with_norm(vector: Array, norm: float) -> Array:
    """Vector with the same direction and this norm."""
    return vector * (norm / np.linalg.norm(vector))


def solve_rows(rows: Array, right: Array) -> Array:
    """Least squares through the normal equations, as all of the originals do."""
    return np.asarray(np.linalg.solve(rows.T @ rows, rows.T @ right), dtype=np.float64)


def _times(D: Array, bias: Array) -> Array:
    """(m, 3) products of (m, 3, 3) with one vector or one each."""
    return np.asarray((D @ bias[..., None])[..., 0], np.float64)


def _transposed(rotations: Array) -> Array:
    return np.swapaxes(rotations, -1, -2)


@dataclass(frozen=True)
class IntegratedMotion:
    """Motion from the first keyframe on by the IMU alone, up to initial velocity and gravity; basis
    of methods without poses of vision.


    """

    t: Array
    """(n,) seconds since the first keyframe."""

    Rs_b0_b: Array
    """(n, 3, 3)"""

    beta: Array
    """(n, 3) [m/s]"""

    alpha: Array
    """(n, 3) [m]"""

    def poses(self, v0_b0: Array, gravity_b0: Array) -> Array:
        """(n, 4, 4) T_b0_b for an initial velocity and gravity."""
        t = self.t[:, None]
        return stack_poses(self.Rs_b0_b, v0_b0 * t + 0.5 * gravity_b0 * t**2 + self.alpha)

    def velocities(self, v0_b0: Array, gravity_b0: Array) -> Array:
        """(n, 3) in the first body."""
        return np.asarray(v0_b0 + gravity_b0 * self.t[:, None] + self.beta, np.float64)

    def state(
        self, segment: Segment, v0_b0: Array, gravity_b0: Array, gyro_bias: Array, acc_bias: Array
    ) -> VIState:
        """Integrate the whole window."""
        Ts_b0_b = self.poses(v0_b0, gravity_b0)
        return state_in_b0(
            segment, Ts_b0_b, self.velocities(v0_b0, gravity_b0), gravity_b0, gyro_bias, acc_bias
        )


def integrated(pre: Preintegrated) -> IntegratedMotion:
    """Chain the preintegrated intervals."""
    count = len(pre.dt) + 1
    Rs, beta, alpha = np.empty((count, 3, 3)), np.zeros((count, 3)), np.zeros((count, 3))
    Rs[0] = np.eye(3)
    for k, dt in enumerate(pre.dt):
        Rs[k + 1] = Rs[k] @ pre.gamma[k]
        beta[k + 1] = beta[k] + Rs[k] @ pre.beta[k]
        alpha[k + 1] = alpha[k] + dt * beta[k] + Rs[k] @ pre.alpha[k]
    return IntegratedMotion(np.concatenate([[0.0], np.cumsum(pre.dt)]), Rs, beta, alpha)


def state_in_b0(
    segment: Segment,
    Ts_b0_b: Array,
    v_b0: Array,
    gravity_b0: Array,
    gyro_bias: Array,
    acc_bias: Array,
) -> VIState:
    """Estimate whose world is the first body, in our conventions."""
    T_c_b = np.linalg.inv(segment.T_b_c)
    velocity_b = np.einsum("kji,kj->ki", Ts_b0_b[:, :3, :3], v_b0)
    return segment.state(
        T_c_b[:3, :3] @ gravity_b0, velocity_b, gyro_bias, acc_bias, T_c_b @ Ts_b0_b
    )
