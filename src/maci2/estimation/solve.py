"""Solver: measurements and an initial guess give state, posterior and report."""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from maci2.compile import kernel
from maci2.estimation.config import SolverConfig
from maci2.estimation.levenberg_marquardt import (
    DECREMENT,
    TEST_DECREMENT,
    Covariances,
    Optimum,
    optimize,
)
from maci2.estimation.prior_equations import vertical_residual
from maci2.estimation.problem import (
    CLOCK_STD_S,
    SCALE_STD,
    Measurements,
    Priors,
    Unknowns,
    Variables,
)
from maci2.estimation.results import Posterior, SolveReport, VIState
from maci2.gaussian import chi2_quantile, square_roots
from maci2.imu import (
    ALPHA,
    BETA,
    GAMMA,
    NO_VERTICAL,
    ImuMeasurements,
    Preintegrated,
    VerticalPrior,
    integrate_between,
    rates_at_keyframes,
)
from maci2.types import Array
from maci2.vision import RelativePoses

RELINEARIZE_ABOVE = 1e-7
"""Second-order error of the bias correction [rad] above which samples are integrated again: a
thousandth of a gyroscope's noise over a relative pose."""

MAX_ROUNDS = 8
"""Largest number of solves."""

VISUAL_LIMIT = chi2_quantile(6, 0.999) ** 0.5
"""Root of the 99.9 % quantile of chi-square with 6 degrees of freedom: a visual residual beyond it
is more likely an outlier than noise."""

SETTLED = 1.05
"""Chi-square per degree of freedom below which weights are no longer changed."""

CHI2_LEVEL = 0.999
"""Quantile of chi-square above which the stated noise is too small."""


def solve(
    imu: ImuMeasurements,
    vision: RelativePoses,
    pre: Preintegrated,
    start: Variables,
    config: SolverConfig,
    extrinsics: bool,
    constants: bool = False,
) -> tuple[VIState, Posterior | None, SolveReport]:
    """Minimize Eq. 9, and solve again if the first solution shows that an assumption did not hold.

    A bias beyond the reach of first-order correction: integrate anew. Chi-square too large: the
    measurements are noisier than stated, weigh them down; priors, which nothing has contradicted,
    keep their weight. `constants` frees the scale of vision and the time offset, too: squares
    then, for robust losses would take the scale's error for outliers, and more steps, for what a
    window hardly shows lies at the end of a long valley.
    """
    unknowns = unknowns_of(config, extrinsics, constants)
    priors = joint_priors(imu, int(vision.stamps_ns[0]), config, vision.std_scale)
    dof = _degrees_of_freedom(len(pre.dt), priors, unknowns)
    steps, least_decrement = config.max_iterations, DECREMENT
    if constants:
        steps, least_decrement = 4 * steps, TEST_DECREMENT
    x, iterations, inflation, chi_square = start, 0, 1.0, np.nan
    vertical_chi2 = None
    for _ in range(MAX_ROUNDS):
        measurements = joint_measurements(vision, pre, config, inflation)
        if constants:
            rates = rates_at_keyframes(imu, pre)
            measurements = measurements._replace(visual_limit=np.inf, rates=rates)
        optimum, cov = optimize(measurements, priors, unknowns, x, steps, least_decrement, True)
        x, iterations = optimum.x, iterations + optimum.iterations
        if inflation == 1.0:
            chi_square = optimum.cost
            vertical_chi2 = _vertical_chi2(priors, optimum, cov, unknowns, dof)
        if not (optimum.converged and math.isfinite(optimum.cost)):
            break
        moved_bg = x.bg - pre.bias_gyro
        if 0.5 * (moved_bg @ moved_bg) * pre.dt.max() ** 2 > RELINEARIZE_ABOVE:
            pre = integrate_between(imu, vision.stamps_ns, x.bg, x.ba, config.rule)
        elif optimum.cost > (_largest_chi2(dof) if inflation == 1.0 else SETTLED * dof):
            inflation *= optimum.cost / dof
        else:
            break
    report = SolveReport(
        optimum.converged,
        chi_square,
        dof,
        iterations,
        0.0,
        inflation,
        vertical_chi2=vertical_chi2,
    )
    if constants and cov.positive:
        report = _with_constants(report, x, cov)
    state = _state(x, imu, vision)
    return state, _posterior(cov, unknowns) if cov.positive else None, report


def unknowns_of(
    config: SolverConfig, extrinsics: bool = False, constants: bool = False
) -> Unknowns:
    """Unknowns of the joint problem that a configuration leaves free."""
    return Unknowns(
        config.gravity_on_sphere,
        config.estimate_gyro_bias,
        config.estimate_acc_bias,
        extrinsics,
        constants,
    )


def _vertical_chi2(
    priors: Priors, optimum: Optimum, cov: Covariances, unknowns: Unknowns, dof: int
) -> float | None:
    """Squared distance of the vertical from what all else tells; None where there is none.

    With the derivative J of its whitened residual r and the posterior P, which has used it, r is
    spread as I - J P J' is. Where the others alone are noisier than stated, their part of the
    distance is.
    """
    if priors.vertical is NO_VERTICAL or not cov.positive:
        return None
    r, J = vertical_residual(priors.vertical, optimum.x, unknowns)
    columns = 15 if unknowns.extrinsics else 9
    J = J[:, :columns]
    left = np.eye(2) - J @ cov.border[:columns, :columns] @ J.T
    squared = float(r @ np.linalg.solve(left, r))
    return squared / max(1.0, (optimum.cost - squared) / max(dof - 2, 1))


def _with_constants(report: SolveReport, x: Variables, cov: Covariances) -> SolveReport:
    return replace(
        report,
        scale=1.0 / x.inverse_scale,
        std_scale=math.sqrt(cov.border[15, 15]) / x.inverse_scale**2,
        time_offset_s=x.offset_s,
        std_time_offset_s=math.sqrt(cov.border[16, 16]),
    )


@lru_cache(maxsize=64)
def _largest_chi2(dof: int) -> float:
    return chi2_quantile(dof, CHI2_LEVEL)


def _state(x: Variables, imu: ImuMeasurements, vision: RelativePoses) -> VIState:
    """Solution with the biases of the raw sensor, including what the IMU model removed."""
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
    white_visual, white_imu, positive = _whitening(vision.covs_T_ck_ck1, cov, inflation)
    if not positive:
        raise np.linalg.LinAlgError("a covariance is not positive definite")
    return Measurements(
        vision.Ts_ck_ck1,
        white_visual,
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


@kernel
def _whitening(covs_T: Array, covs_imu: Array, inflation: float) -> tuple[Array, Array, bool]:
    """W with W' W = (inflation cov)^-1 for both kinds of residuals, and whether they exist."""
    visual, imu = np.zeros(covs_T.shape), np.zeros(covs_imu.shape)
    positive = square_roots(covs_T, visual) and square_roots(covs_imu, imu)
    factor = 1.0 / math.sqrt(inflation)
    for k in range(len(imu)):
        for i in range(6):
            for j in range(6):
                visual[k, i, j] *= factor
        for i in range(9):
            for j in range(9):
                # Velocity and position residuals have the other sign than the errors that cov
                # describes: the blocks that tie them to rotation change sign (paper_notes, note
                # 15).
                imu[k, i, j] *= factor if j < 3 else -factor
    return visual, imu, positive


def joint_priors(
    imu: ImuMeasurements, start_ns: int, config: SolverConfig, std_scale: float = 0.0
) -> Priors:
    """Priors of a window that begins at `start_ns`; `std_scale` is the stated one, 0 for an unknown
    scale."""
    prior = imu.bias_prior
    return Priors(
        prior.mean_gyro,
        prior.info_gyro if config.estimate_gyro_bias else np.zeros(3),
        prior.mean_acc,
        prior.info_acc if config.estimate_acc_bias else np.zeros(3),
        (std_scale or SCALE_STD) ** -2.0,
        CLOCK_STD_S**-2.0,
        tracked_vertical(imu, start_ns, config) or NO_VERTICAL,
    )


def tracked_vertical(
    imu: ImuMeasurements, start_ns: int, config: SolverConfig
) -> VerticalPrior | None:
    """The vertical where a window begins, from the samples before it; None where it is not known,
    or not to be used."""
    return imu.vertical_at(start_ns) if config.tracked_vertical else None


def _degrees_of_freedom(steps: int, priors: Priors, unknowns: Unknowns) -> int:
    """Degrees of freedom: residuals and priors minus unknowns."""
    known = np.count_nonzero(priors.info_bg) + np.count_nonzero(priors.info_ba)
    known += 0 if priors.vertical is NO_VERTICAL else 2
    shared = (2 if unknowns.sphere else 3) + 6 * unknowns.extrinsics
    shared += 3 * unknowns.bias_gyro + 3 * unknowns.bias_acc
    return int(15 * steps + known - (9 * steps + 3 + shared))


def _posterior(cov: Covariances, unknowns: Unknowns) -> Posterior:
    border = cov.border
    return Posterior(
        gravity_c0=cov.gravity_c0,
        Ts_c0_b=cov.Ts_c0_b,
        velocity_b=cov.velocity_b,
        gyro_bias=border[3:6, 3:6] if unknowns.bias_gyro else np.zeros((3, 3)),
        acc_bias=border[6:9, 6:9] if unknowns.bias_acc else np.zeros((3, 3)),
        T_b_c=border[9:15, 9:15] if unknowns.extrinsics else np.zeros((6, 6)),
    )
