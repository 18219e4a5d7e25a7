"""Derivatives of an estimate by the errors of the IMU measurements.

Whoever compares an estimate with a ground truth that was made with the same IMU needs it: errors of
the samples that both have used do not show in the difference.
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.compile import kernel
from maci2.estimation.config import SolverConfig
from maci2.estimation.prior_equations import vertical_residual
from maci2.estimation.problem import Measurements, Priors, Variables, gravity_basis
from maci2.estimation.residuals import (
    BA,
    BG,
    COLUMNS,
    XI_BC,
    XI_K,
    G,
    imu_residual,
    visual_residual,
)
from maci2.estimation.results import InitResult
from maci2.estimation.scale import scaled
from maci2.estimation.solve import joint_measurements, joint_priors, unknowns_of
from maci2.imu import ImuMeasurements, preintegrate
from maci2.types import Array
from maci2.vision import RelativePoses

KEYFRAME = 9
"""Number of unknowns of a keyframe: pose and velocity."""

SHARED = XI_BC.start - G.start
"""Number of shared unknowns: gravity and two biases; the scale of vision follows them."""

SIGN = np.array([1.0] * 3 + [-1.0] * 6)
"""Derivative of an IMU residual by the measured motion."""


@dataclass(frozen=True)
class ImuGains:
    """Derivatives of an estimate by the errors of m preintegrated measurements between its n
    keyframes, order [gamma, beta, alpha]."""

    gravity_c0: Array
    """(m, 3, 9)"""

    Ts_c0_b: Array
    """(m, n, 6, 9) left perturbation, order [rho, phi]."""

    velocity_b: Array
    """(m, n, 3, 9)"""

    gyro_bias: Array
    """(m, 3, 9)"""

    cov_imu: Array
    """(m, 9, 9) covariance of those errors, as the estimate weighted them."""


def imu_gains(
    imu: ImuMeasurements, vision: RelativePoses, result: InitResult, config: SolverConfig
) -> ImuGains | None:
    """Gains of a window at its solution; None without a solution, or if keyframes were dropped for
    a clock offset."""
    state, report = result.state, result.report
    if state is None or result.posterior is None or len(state.stamps_ns) != len(vision.stamps_ns):
        return None
    vision = replace(vision, stamps_ns=state.stamps_ns)
    if report.vertical_rejected:
        config = replace(config, tracked_vertical=False)
    if report.scale is not None:
        vision = scaled(vision, report.scale)
    bg, ba = state.gyro_bias_residual, state.acc_bias_residual
    pre = preintegrate(imu, state.stamps_ns, bg, ba, config.rule)
    measurements = joint_measurements(vision, pre, config, report.inflation)
    x = Variables(state.Ts_c0_b, state.velocity_b, state.gravity_c0, bg, ba, state.T_b_c)
    r, J = _derivatives(measurements, x)
    basis = gravity_basis(x.g_c0, config.gravity_on_sphere)
    priors = joint_priors(imu, int(state.stamps_ns[0]), config)
    of_vertical = vertical_residual(priors.vertical, x, unknowns_of(config))[1][:, :SHARED]
    full = _all_columns(J, basis, measurements)
    gains = _solve(measurements, r, full, priors, of_vertical, config, vision)
    n = len(state.stamps_ns)
    of_keyframes = gains[:, : KEYFRAME * n].reshape(-1, n, KEYFRAME, 9)
    of_shared = gains[:, KEYFRAME * n :]
    return ImuGains(
        basis @ of_shared[:, 0:3],
        of_keyframes[:, :, 0:6],
        of_keyframes[:, :, 6:9],
        of_shared[:, 3:6],
        report.inflation * pre.cov,
    )


@kernel
def _derivatives(m: Measurements, x: Variables) -> tuple[Array, Array]:
    """(m, 15) visual and inertial residuals between keyframes and (m, 15, 33) their derivatives."""
    steps, zero = len(m.dt), np.zeros(3)
    r, J = np.zeros((steps, 15)), np.zeros((steps, 15, COLUMNS))
    for k in range(steps):
        T_k, T_k1 = x.Ts_c0_b[k], x.Ts_c0_b[k + 1]
        visual_residual(m.Ts_ck_ck1[k], T_k, T_k1, x.T_b_c, r[k, :6], J[k, :6])
        imu_residual(
            m.dt[k],
            m.gamma[k],
            m.beta[k],
            m.alpha[k],
            m.D_bg[k],
            m.D_ba[k],
            T_k,
            x.v_b[k],
            T_k1,
            x.v_b[k + 1],
            x.g_c0,
            zero,
            zero,
            r[k, 6:],
            J[k, 6:],
        )
    return r, J


def _all_columns(J: Array, basis: Array, m: Measurements) -> Array:
    """(m, 15, N) derivatives by all unknowns: keyframes, gravity, biases, scale of vision."""
    steps = len(J)
    first_shared = KEYFRAME * (steps + 1)
    J[0, :, XI_K] = 0.0  # gauge: the first camera is the origin
    full = np.zeros((steps, 15, first_shared + SHARED + 1))
    for k in range(steps):
        full[k, :, KEYFRAME * k : KEYFRAME * (k + 2)] = J[k, :, : G.start]
    full[:, :, first_shared : first_shared + 3] = J[:, :, G] @ basis
    full[:, :, first_shared + 3 : first_shared + 6] = J[:, :, BG]
    full[:, :, first_shared + 6 : first_shared + 9] = J[:, :, BA]
    # A longer measured motion moves its own left end.
    full[:, :3, -1] = m.Ts_ck_ck1[:, :3, 3]
    return full


def _solve(
    m: Measurements,
    r: Array,
    J: Array,
    priors: Priors,
    of_vertical: Array,
    config: SolverConfig,
    vision: RelativePoses,
) -> Array:
    """(m, N, 9) derivatives of all unknowns by the errors of each preintegrated measurement."""
    white_visual, white_imu = m.white_visual @ J[:, :6], m.white_imu @ J[:, 6:]
    lengths = np.linalg.norm(m.white_visual @ r[:, :6, None], axis=(1, 2))
    weights = np.minimum(1.0, m.visual_limit / np.maximum(lengths, 1e-300))
    H = np.einsum("k,kri,krj->ij", weights, white_visual, white_visual)
    H += np.einsum("kri,krj->ij", white_imu, white_imu)
    H[-10:-1, -10:-1] += of_vertical.T @ of_vertical
    scale = vision.std_scale**-2.0 if vision.std_scale > 0.0 else np.inf
    known = np.r_[np.zeros(3), priors.info_bg, priors.info_ba, scale]
    free = np.diag(H) > 0.0
    free[-10:] &= np.isfinite(known) & np.repeat(
        [True, config.estimate_gyro_bias, config.estimate_acc_bias, True], [3, 3, 3, 1]
    )
    at = np.flatnonzero(free)
    H[range(-10, 0), range(-10, 0)] += np.where(np.isfinite(known), known, 0.0)
    pushed = np.swapaxes(white_imu, 1, 2) @ (m.white_imu * SIGN)
    gains = np.zeros_like(pushed)
    gains[:, at] = -np.linalg.solve(H[np.ix_(at, at)], pushed[:, at])
    return gains
