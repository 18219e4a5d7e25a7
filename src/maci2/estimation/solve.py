"""Solver: measurements and an initial guess give state, posterior and report."""

from dataclasses import replace

import numpy as np
from scipy.special import chdtri

from maci2.estimation.config import SolverConfig
from maci2.estimation.levenberg_marquardt import (
    Covariances,
    Measurements,
    Priors,
    Unknowns,
    Variables,
    gravity_basis,
    optimize,
)
from maci2.estimation.problem import CLOCK_STD_S, SCALE_STD
from maci2.estimation.results import Posterior, SolveReport, VIState
from maci2.gaussian import square_root_information, symmetrize
from maci2.imu import (
    ALPHA,
    BETA,
    GAMMA,
    BiasPrior,
    ImuMeasurements,
    Preintegrated,
    preintegrate,
    rates_at_keyframes,
)
from maci2.lie import se3_adj, se3_inv
from maci2.vision import RelativePoses

RELINEARIZE_ABOVE = 1e-9
"""Second-order error of the bias correction [rad] above which samples are integrated anew."""

RELINEARIZE_FREED_ABOVE = 1e-7
"""The same where constants are freed to be tested: a thousandth of a gyroscope's noise over a
relative pose."""

MAX_ROUNDS = 8
"""Solutions before the rest is left as it is."""

VISUAL_LIMIT = 4.74
"""Root of the 99.9 % quantile of chi-square with 6 degrees of freedom: a visual step this far off
is more likely an outlier than noise."""

SETTLED = 1.05
"""Chi-square per degree of freedom at which measurements weighed down are left as they are."""

CHI2_LEVEL = 0.999
"""Chi-square above this quantile says that the stated noise is too small."""


def solve(
    imu: ImuMeasurements,
    vision: RelativePoses,
    pre: Preintegrated,
    start: Variables,
    config: SolverConfig,
    extrinsics: bool,
    constants: bool = False,
) -> tuple[VIState, Posterior | None, SolveReport]:
    """Minimise Eq. 9, and again where the first answer shows that its premises did not hold.

    A bias beyond the reach of first-order correction: integrate anew. Chi-square too large: the
    measurements are noisier than stated, weigh them down; priors, which nothing has contradicted,
    keep their weight. `constants` frees the scale of vision and the time offset, too.
    """
    unknowns = Unknowns(
        config.gravity_on_sphere,
        config.estimate_gyro_bias,
        config.estimate_acc_bias,
        extrinsics,
        constants,
    )
    priors = joint_priors(imu.bias_prior, config, vision.std_scale)
    dof = _degrees_of_freedom(len(pre.dt), priors, unknowns)
    x, iterations, inflation, chi_square = start, 0, 1.0, np.nan
    for _ in range(MAX_ROUNDS):
        measurements = joint_measurements(vision, pre, config, inflation)
        if constants:
            measurements = measurements._replace(rates=rates_at_keyframes(imu, pre))
        optimum, cov = optimize(measurements, priors, unknowns, x, config.max_iterations, True)
        x, iterations = optimum.x, iterations + optimum.iterations
        if inflation == 1.0:
            chi_square = optimum.cost
        if not (optimum.converged and np.isfinite(optimum.cost)):
            break
        turn = np.linalg.norm(x.bg - pre.bias_gyro) * pre.dt.max()
        if 0.5 * turn**2 > (RELINEARIZE_FREED_ABOVE if constants else RELINEARIZE_ABOVE):
            pre = preintegrate(imu, vision.stamps_ns, x.bg, x.ba, config.rule)
        elif optimum.cost > (chdtri(dof, 1.0 - CHI2_LEVEL) if inflation == 1.0 else SETTLED * dof):
            inflation *= optimum.cost / dof
        else:
            break
    report = SolveReport(optimum.converged, chi_square, dof, iterations, 0.0, inflation)
    if constants and cov.positive:
        report = _with_constants(report, x, cov)
    state = _state(x, imu, vision)
    return state, _posterior(x, cov, unknowns) if cov.positive else None, report


def _with_constants(report: SolveReport, x: Variables, cov: Covariances) -> SolveReport:
    std_inverse, std_offset_s = np.sqrt(np.diag(cov.border)[15:17])
    return replace(
        report,
        scale=1.0 / x.inverse_scale,
        std_scale=float(std_inverse) / x.inverse_scale**2,
        time_offset_s=x.offset_s,
        std_time_offset_s=float(std_offset_s),
    )


def _state(x: Variables, imu: ImuMeasurements, vision: RelativePoses) -> VIState:
    """The solution with the biases of the raw sensor: residual and what the IMU model removed."""
    stamps_ns = vision.stamps_ns
    removed_gyro, removed_acc = imu.removed_bias(int(stamps_ns[0]), int(stamps_ns[-1]))
    return VIState(
        stamps_ns,
        x.Ts_c0_b,
        x.v_b,
        x.g_c0,
        x.bg + removed_gyro,
        x.ba + removed_acc,
        x.T_b_c,
        removed_gyro,
        removed_acc,
    )


def joint_measurements(
    vision: RelativePoses, pre: Preintegrated, config: SolverConfig, inflation: float
) -> Measurements:
    cov = pre.cov
    if config.imu_identity:
        cov = np.tile(np.eye(9), (len(pre.dt), 1, 1))
    elif not config.imu_cross_terms:
        cov = np.zeros_like(pre.cov)
        for block in (GAMMA, BETA, ALPHA):
            cov[:, block, block] = pre.cov[:, block, block]
    white_imu = square_root_information(inflation * cov)
    # Velocity and position residuals have the other sign than the errors that cov describes: the
    # blocks that tie them to rotation change sign (paper_notes, note 15).
    white_imu[:, :, 3:] *= -1.0
    return Measurements(
        vision.Ts_ck_ck1,
        square_root_information(inflation * vision.covs_T_ck_ck1),
        pre.dt,
        pre.gamma,
        pre.beta,
        pre.alpha,
        pre.D_bg,
        pre.D_ba,
        white_imu,
        pre.bias_gyro,
        pre.bias_acc,
        VISUAL_LIMIT if config.robust else np.inf,
        np.empty((0, 6)),
    )


def joint_priors(prior: BiasPrior, config: SolverConfig, std_scale: float = 0.0) -> Priors:
    """`std_scale` is the stated spread of the scale; 0 says nothing of one that is unknown."""
    return Priors(
        prior.mean_gyro,
        prior.std_gyro**-2.0 if config.estimate_gyro_bias else np.zeros(3),
        prior.mean_acc,
        prior.std_acc**-2.0 if config.estimate_acc_bias else np.zeros(3),
        (std_scale or SCALE_STD) ** -2.0,
        CLOCK_STD_S**-2.0,
    )


def _degrees_of_freedom(steps: int, priors: Priors, unknowns: Unknowns) -> int:
    """Residuals and priors less unknowns."""
    known = np.count_nonzero(priors.info_bg) + np.count_nonzero(priors.info_ba)
    shared = (2 if unknowns.sphere else 3) + 6 * unknowns.extrinsics
    shared += 3 * unknowns.bias_gyro + 3 * unknowns.bias_acc
    return int(15 * steps + known - (9 * steps + 3 + shared))


def _posterior(x: Variables, cov: Covariances, unknowns: Unknowns) -> Posterior:
    border, keyframes = cov.border, cov.keyframes
    basis = gravity_basis(x.g_c0, unknowns.sphere)
    poses = keyframes[:, 0:6, 0:6].copy()
    if unknowns.extrinsics:
        # The first pose is the inverse extrinsics: xi_0 = -Ad(T_c_b) xi_bc.
        adj_c_b = se3_adj(se3_inv(x.T_b_c))
        poses[0] = symmetrize(adj_c_b @ border[9:15, 9:15] @ adj_c_b.T)
    else:
        poses[0] = 0.0
    return Posterior(
        gravity_c0=symmetrize(basis @ border[0:3, 0:3] @ basis.T),
        Ts_c0_b=poses,
        velocity_b=keyframes[:, 6:9, 6:9],
        gyro_bias=border[3:6, 3:6] if unknowns.bias_gyro else np.zeros((3, 3)),
        acc_bias=border[6:9, 6:9] if unknowns.bias_acc else np.zeros((3, 3)),
        T_b_c=border[9:15, 9:15] if unknowns.extrinsics else np.zeros((6, 6)),
    )
