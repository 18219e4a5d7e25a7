"""An initialized window as a chain: its states in a level world, and what is known of them."""

import numpy as np

from maci2.chain import Border, GaussianPrior, States, make_border
from maci2.chain.chain_state import BORDER, STATE
from maci2.estimation import InitResult
from maci2.imu import BiasPrior
from maci2.lie import so3_exp
from maci2.types import GRAVITY_NORM, NS, Array, Mat4, Stamps, Vec3

WINDOW_S = 2.5
"""Length of the window that tracking starts from."""

GAUGE_STD = (1e-4, 1e-4)
"""Prior of the first body's position [m] and heading [rad]: far below what is measured."""


def window_start(keyframes_ns: Stamps, last: int) -> int | None:
    """First keyframe of the window that ends at keyframe `last`; None before there is one."""
    first = int(np.searchsorted(keyframes_ns, keyframes_ns[last] - round(WINDOW_S * NS)))
    shortest_ns = 0.9 * WINDOW_S * NS
    if first > 0 and keyframes_ns[last] - keyframes_ns[first] <= shortest_ns:
        first -= 1  # keyframes that do not divide the window: rather one more than none at all
    long_enough = keyframes_ns[last] - keyframes_ns[first] > shortest_ns
    return first if long_enough and last - first >= 4 else None


def world_states(result: InitResult, T_b_c: Mat4) -> tuple[States, Border]:
    """An initialized window in a level world that begins at its first body."""
    state = result.state
    assert state is not None
    down = state.gravity_c0 / np.linalg.norm(state.gravity_c0)
    R_w_c0 = _rotation_between(down, np.array([0.0, 0.0, -1.0]))
    Ts_w_b = state.Ts_c0_b.copy()
    Ts_w_b[:, :3, :3] = R_w_c0 @ state.Ts_c0_b[:, :3, :3]
    positions = state.Ts_c0_b[:, :3, 3] @ R_w_c0.T
    Ts_w_b[:, :3, 3] = positions - positions[0]
    n = len(Ts_w_b)
    states = States(
        np.ascontiguousarray(Ts_w_b),
        np.einsum("kij,kj->ki", Ts_w_b[:, :3, :3], state.velocity_b),
        np.tile(state.gyro_bias_residual, (n, 1)),
        np.tile(state.acc_bias_residual, (n, 1)),
    )
    scale = result.report.scale
    return states, make_border(
        T_b_c=T_b_c, gravity_norm=GRAVITY_NORM, log_scale=float(np.log(scale)) if scale else 0.0
    )


def gauge_prior(states: States, border: Border) -> GaussianPrior:
    """Position and heading of the first body, which nothing measures."""
    info = np.zeros((STATE + BORDER, STATE + BORDER))
    # Heading is the rotation about the world's z axis, seen in the body.
    up_b = states.Ts_w_b[0, 2, :3]
    info[0:3, 0:3] = np.outer(up_b, up_b) / GAUGE_STD[1] ** 2
    info[6:9, 6:9] = np.eye(3) / GAUGE_STD[0] ** 2
    first = States(*(values[:1] for values in states))
    return GaussianPrior(0, first, border, info)


def bias_prior(prior: BiasPrior, states: States, border: Border) -> GaussianPrior:
    """What the IMU model knows of the biases that are left, at the first state."""
    info = np.zeros((STATE + BORDER, STATE + BORDER))
    info[range(9, 15), range(9, 15)] = np.concatenate([prior.std_gyro, prior.std_acc]) ** -2.0
    first = States(states.Ts_w_b[:1], states.v_w[:1], prior.mean_gyro[None], prior.mean_acc[None])
    return GaussianPrior(0, first, border, info)


def _rotation_between(a: Vec3, b: Vec3) -> Array:
    """The shortest rotation that takes direction a to direction b."""
    axis = np.cross(a, b)
    sine, cosine = float(np.linalg.norm(axis)), float(a @ b)
    if sine < 1e-12:
        if cosine > 0.0:
            return np.eye(3)
        axis = np.cross(a, np.eye(3)[int(np.argmin(np.abs(a)))])
        return np.asarray(so3_exp(np.pi * axis / np.linalg.norm(axis)))
    return np.asarray(so3_exp(np.arctan2(sine, cosine) * axis / sine))
