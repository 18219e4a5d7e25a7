"""Where an audit begins: states, gravity and the marker's place, from what tracked the body."""

import numpy as np
import scipy

from maci2.estimator.problem import Shared, States, shared_parameters
from maci2.ground_truth.accelerations import AccelerationFit, gyro_rotations
from maci2.ground_truth.capture import Capture
from maci2.ground_truth.registration import Registration
from maci2.lie import se3, so3_exp
from maci2.lie.stacks import nearest_rotation, stack_poses
from maci2.sensors import ImuSamples, poses_at
from maci2.types import GRAVITY_NORM, NS, Array, Stamps

STATE_PERIOD_S = 0.1

WINDOW_S = 4.0
"""Half the stretch over which forces and accelerations are compared to find an orientation."""


def guess_from_poses(
    capture: Capture,
    on_imu_ns: Stamps,
    stamps_ns: Stamps,
    samples: ImuSamples,
    found: Registration,
    T_b_m: Array,
    fit: AccelerationFit | None,
) -> tuple[States, Shared]:
    """Poses by interpolation; gravity and bias from accelerations."""
    assert capture.Rs_w_m is not None
    Ts_w_m = stack_poses(capture.Rs_w_m, capture.p_w_m)
    Ts_w_b = poses_at(on_imu_ns, Ts_w_m, stamps_ns, np.inf) @ np.linalg.inv(T_b_m)
    v_w, a_w = _derivatives(stamps_ns, Ts_w_b[:, :3, 3])
    if fit is None:
        force_w = np.einsum("nij,nj->ni", Ts_w_b[:, :3, :3], _smooth_force(samples, stamps_ns))
        up_w, bias_acc = np.median(force_w - a_w, axis=0), np.zeros(3)
    else:
        up_w, bias_acc = fit.up_w, fit.bias_acc
    biases = (np.tile(bias, (len(v_w), 1)) for bias in (found.bias_gyro, bias_acc))
    return (
        States(Ts_w_b, v_w, *biases),
        shared_parameters(_level(up_w), T_b_m=T_b_m, gravity_norm=GRAVITY_NORM),
    )


def _level(up_w: Array) -> Array:
    """The smallest rotation that takes the z axis to `up_w`."""
    up = up_w / np.linalg.norm(up_w)
    axis = np.cross([0.0, 0.0, 1.0], up)
    sine = np.linalg.norm(axis)
    if sine < 1e-12:
        return np.eye(3) if up[2] > 0.0 else np.diag([1.0, -1.0, -1.0])
    return so3_exp(axis / sine * np.arctan2(sine, up[2]))


def _derivatives(stamps_ns: Stamps, p: Array) -> tuple[Array, Array]:
    """Velocity and acceleration of positions at nearly even timestamps, by local polynomials."""
    window = min(7, len(p) | 1)
    delta = float(np.median(np.diff(stamps_ns))) / NS
    v = scipy.signal.savgol_filter(p, window, 4, deriv=1, delta=delta, axis=0)
    a = scipy.signal.savgol_filter(p, window, 4, deriv=2, delta=delta, axis=0)
    # Across a gap a polynomial means nothing.
    broken = np.flatnonzero(np.diff(stamps_ns) > 1.5 * delta * NS)
    for at in broken:
        near = slice(max(at - 3, 0), at + 5)
        v[near], a[near] = 0.0, np.median(a, axis=0)
    return np.asarray(v), np.asarray(a)


def _smooth_force(samples: ImuSamples, stamps_ns: Stamps) -> Array:
    """Specific force at the states, averaged over a tenth of a second [m/s^2]."""
    width = max(round(STATE_PERIOD_S * samples.rate_hz), 3) | 1
    smooth = scipy.signal.savgol_filter(samples.acc, width, 0, axis=0)
    rows = np.clip(np.searchsorted(samples.stamps_ns, stamps_ns), 0, len(samples) - 1)
    return np.asarray(smooth[rows])


def guess_from_positions(
    capture: Capture,
    on_imu_ns: Stamps,
    stamps_ns: Stamps,
    samples: ImuSamples,
    found: Registration,
    T_b_m: Array,
) -> tuple[States, Shared]:
    """Orientations from the gyroscope, put into a level world by forces and accelerations."""
    fake = np.tile(np.eye(4), (len(capture), 1, 1))
    fake[:, :3, 3] = capture.p_w_m
    p_w = poses_at(on_imu_ns, fake, stamps_ns, np.inf)[:, :3, 3]
    v_w, a_w = _derivatives(stamps_ns, p_w)
    Rs_b0_b = gyro_rotations(samples, found.bias_gyro)
    Rs_b0_b = Rs_b0_b[np.searchsorted(samples.stamps_ns, stamps_ns)]
    force_b0 = np.einsum("nij,nj->ni", Rs_b0_b, _smooth_force(samples, stamps_ns))
    force_w = a_w + np.array([0.0, 0.0, GRAVITY_NORM])
    half = max(round(WINDOW_S * NS / float(np.median(np.diff(stamps_ns)))), 1)
    Rs_w_b = np.empty_like(Rs_b0_b)
    for k in range(len(stamps_ns)):
        near = slice(max(k - half, 0), k + half + 1)
        Rs_w_b[k] = nearest_rotation(force_w[near].T @ force_b0[near]) @ Rs_b0_b[k]
    p_w = p_w - np.einsum("nij,j->ni", Rs_w_b, T_b_m[:3, 3])
    states = States(
        stack_poses(Rs_w_b, p_w),
        v_w,
        np.tile(found.bias_gyro, (len(v_w), 1)),
        np.zeros_like(v_w),
    )
    return states, shared_parameters(T_b_m=se3(np.eye(3), T_b_m[:3, 3].copy()))
