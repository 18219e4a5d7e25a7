"""The estimation problem of an audit: states along the IMU, a tracked marker, noise levels."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy

from maci2.errors import DatasetError
from maci2.estimator.problem import (
    MARKER,
    ORIENTATION_CLOCK,
    POSITION_CLOCK,
    SHARED,
    Free,
    GaussianPrior,
    Loss,
    MarkerMeasurements,
    Problem,
    Shared,
    States,
    shared_parameters,
    shared_prior,
    state_prior,
)
from maci2.estimator.solver import Covariance, Solution, covariance, solve
from maci2.geometry import so3_exp, so3_log
from maci2.geometry.gaussian import chi2_quantile
from maci2.geometry.se3 import nearest_rotation, stack_poses
from maci2.imu import ImuMeasurements
from maci2.sensors import ImuSamples, Recording, poses_at
from maci2.sensors.interpolation import nearest_index
from maci2.tools.ground_truth.capture import Capture
from maci2.tools.ground_truth.registration import (
    AccelerationFit,
    Registration,
    fit_accelerations,
    gyro_rotations,
)
from maci2.tools.ground_truth.variance_components import (
    Residuals,
    ResidualsByKind,
    solve_with_noise,
)
from maci2.types import GRAVITY_NORM, NS, Array, Mask, Stamps

STATE_PERIOD_S = 0.1

WINDOW_S = 4.0
"""Half the stretch over which forces and accelerations are compared to find an orientation."""


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


def _orientations(stamps_ns: Stamps, samples: ImuSamples, bias_gyro: Array, a_w: Array) -> Array:
    """Orientations (n, 3, 3) from the gyroscope, put into a level world by forces and
    accelerations."""
    Rs_b0_b = gyro_rotations(samples, bias_gyro)
    Rs_b0_b = Rs_b0_b[np.searchsorted(samples.stamps_ns, stamps_ns)]
    force_b0 = np.einsum("nij,nj->ni", Rs_b0_b, _smooth_force(samples, stamps_ns))
    force_w = a_w + np.array([0.0, 0.0, GRAVITY_NORM])
    half = max(round(WINDOW_S * NS / float(np.median(np.diff(stamps_ns)))), 1)
    Rs_w_b = np.empty_like(Rs_b0_b)
    for k in range(len(stamps_ns)):
        near = slice(max(k - half, 0), k + half + 1)
        Rs_w_b[k] = nearest_rotation(force_w[near].T @ force_b0[near]) @ Rs_b0_b[k]
    return Rs_w_b


MAX_CAPTURE_HZ = 50.0
"""Rows of a faster capture are thinned to this rate: what lies between adds nothing but time."""

SMOOTHED_HZ = 1.0
"""Rate for a published truth with velocities: it was smoothed, mostly with the very IMU that audits
it, and agrees with it over short times whatever is wrong. On EuRoC's MH_05 its positions are 3 ms
late by 50 rows a second, 14 by 4, 20 by 2, 21 by 1, and 21 ms against independent vision. With 2
rows, biases of training recordings are half as far again from those of independent vision."""

LEAST_FACTOR, LEAST_FACTOR_SMOOTHED = 3e-4, 7.6e-3
"""Least variance over the first one: 0.09 mm and 0.01 deg for raw rows, 0.44 mm and 0.05 deg for a
smoothed truth, whose slow errors its residuals do not show. With these and the data sheet's bias
walks, accelerometer biases of MH_01, MH_05 and V2_01 agree with those of independent vision to
0.01 m/s^2."""

SHORTEST_S, FEWEST_STATES = 2.0, 5
"""Least that capture and IMU must have in common."""

FAR_MARKER = 0.2
"""Angle from the marker's stated rotation to that of the rates [rad] above which the latter
holds."""

REACH_S = 1.5
"""States are placed within this of a captured row: farther into a gap nothing is known."""

LIMIT = math.sqrt(chi2_quantile(3, 0.999))
"""Huber's limit: root of the 99.9 % quantile of chi-square with 3 degrees of freedom."""

FIRST_STD = {"positions": 0.005, "orientations": 0.01}
"""Noise of positions [m] and orientations [rad] to begin with; the residuals correct it."""

STD_BIAS_GYRO, STD_BIAS_ACC = 0.2, 0.5
"""Prior of the first state's biases [rad/s, m/s^2]."""

STD_LEVER_ARM, STD_STATED_LEVER_ARM = 0.3, 0.03
"""Prior of the marker's place on the body [m]: unknown, or stated (a published truth states zero).
At one row a second the motion says little about it."""

STD_CLOCK_S, STD_DRIFT = 1.0, 1e-3
"""Prior of a clock about the first guess [s], and of its drift [s/s]."""

LEAST_WALK_GYRO, LEAST_WALK_ACC = 1e-6, 1e-5
"""Random walks where a data sheet says none."""


@dataclass(frozen=True)
class AuditProblem:
    """The estimation problem of an audit, and the initial guess."""

    capture: Capture
    problem: Problem
    states: States
    shared: Shared
    least_factor: float
    """Least variance of rows over the first one."""

    least_imu_factors: Array
    """(4,) least variance of gyroscope and accelerometer axes over the expected one: that of the
    data sheet."""

    accelerations: AccelerationFit | None
    """Fit of the positions' second differences; None where only positions were tracked."""


def audit_problem(
    capture: Capture,
    found: Registration,
    imu: ImuMeasurements,
    recording: Recording,
    rows_hz: float | None = None,
    state_period_s: float = STATE_PERIOD_S,
) -> AuditProblem:
    """States every tenth of a second, or as asked, wherever the capture reaches."""
    noise, oriented = recording.rig.imu, capture.Rs_w_m is not None
    stamps_ns = _state_stamps(recording.imu, capture, found.offset_s, state_period_s)
    states, shared, fit = _first_guess(capture, found, recording.imu, stamps_ns)
    rows_hz = rows_hz or (SMOOTHED_HZ if capture.smoothed else MAX_CAPTURE_HZ)
    rows = capture.part(first_of_slots(capture.stamps_ns, rows_hz))
    loss, eye = Loss("huber", LIMIT), np.tile(np.eye(3), (len(rows), 1, 1))
    cov_p, cov_R = (std**2 * eye for std in FIRST_STD.values())
    orientations = None
    if rows.Rs_w_m is not None:
        Rs_w_m = np.ascontiguousarray(rows.Rs_w_m)
        orientations = MarkerMeasurements(rows.stamps_ns, Rs_w_m, cov_R, loss)
    std = np.repeat([np.inf, np.inf, np.inf, STD_BIAS_GYRO, STD_BIAS_ACC], 3)
    prior = state_prior(0, states.part(slice(1)), shared, std)
    problem = Problem(
        imu=imu,
        stamps_ns=stamps_ns,
        walk_gyro=max(noise.walk_gyro, LEAST_WALK_GYRO),
        walk_acc=max(noise.walk_acc, LEAST_WALK_ACC),
        free=Free(
            gravity=True,
            marker_rotation=oriented,
            marker_translation=True,
            position_clock=True,
            position_drift=True,
            orientation_clock=oriented,
            orientation_drift=oriented,
            shared_clock=capture.one_clock,
        ),
        positions=MarkerMeasurements(rows.stamps_ns, rows.p_w_m, cov_p, loss),
        orientations=orientations,
        priors=(prior, _prior_of_capture(shared, capture)),
        clock_origin_ns=int(capture.stamps_ns[len(capture) // 2]),
    )
    least = LEAST_FACTOR_SMOOTHED if capture.smoothed else LEAST_FACTOR
    rate_hz = NS / float(np.median(np.diff(imu.stamps_ns)))
    gyro, acc = rate_hz * noise.density_gyro**2, rate_hz * noise.density_acc**2
    sheet = np.minimum(np.r_[gyro / imu.var_gyro.mean(), acc / imu.var_acc.mean(axis=0)], 1.0)
    return AuditProblem(capture, problem, states, shared, least, sheet, fit)


def _first_guess(
    capture: Capture, found: Registration, samples: ImuSamples, stamps_ns: Stamps
) -> tuple[States, Shared, AccelerationFit | None]:
    """Poses by interpolation, velocities by differentiation; gravity and accelerometer bias from
    accelerations. Where only positions were tracked, orientations are the gyroscope's."""
    T_b_m = capture.T_b_m.copy()
    apart = np.linalg.norm(so3_log(T_b_m[:3, :3].T @ found.R_b_m))
    if capture.Rs_w_m is None:
        T_b_m[:3, :3] = np.eye(3)
    elif found.correlation > 0.0 and apart > FAR_MARKER:
        T_b_m[:3, :3] = found.R_b_m
    Rs_w_m = np.tile(np.eye(3), (len(capture), 1, 1)) if capture.Rs_w_m is None else capture.Rs_w_m
    on_imu_ns = capture.stamps_ns + round(found.offset_s * NS)
    Ts_w_m = poses_at(on_imu_ns, stack_poses(Rs_w_m, capture.p_w_m), stamps_ns, np.inf)
    up_w, bias_acc, fit = np.array([0.0, 0.0, 1.0]), np.zeros(3), None
    if capture.Rs_w_m is None:
        v_w, a_w = _derivatives(stamps_ns, Ts_w_m[:, :3, 3])
        Rs_w_b = _orientations(stamps_ns, samples, found.bias_gyro, a_w)
        Ts_w_b = stack_poses(Rs_w_b, Ts_w_m[:, :3, 3] - Rs_w_b @ T_b_m[:3, 3])
    else:
        Ts_w_b = Ts_w_m @ np.linalg.inv(T_b_m)
        v_w, a_w = _derivatives(stamps_ns, Ts_w_b[:, :3, 3])
        fit = fit_accelerations(capture, found, T_b_m[:3, :3], samples)
        if fit is not None:
            up_w, bias_acc = fit.up_w, fit.bias_acc
        else:
            force_w = np.einsum("nij,nj->ni", Ts_w_b[:, :3, :3], _smooth_force(samples, stamps_ns))
            up_w = np.median(force_w - a_w, axis=0)
    biases = (np.tile(bias, (len(v_w), 1)) for bias in (found.bias_gyro, bias_acc))
    shared = shared_parameters(
        _level(up_w),
        T_b_m=T_b_m,
        position_clock_s=found.offset_s,
        orientation_clock_s=found.offset_s,
    )
    return States(Ts_w_b, v_w, *biases), shared, fit


def _prior_of_capture(shared: Shared, capture: Capture) -> GaussianPrior:
    """The marker where it was stated to be, with any rotation, and clocks near the first guess."""
    T_b_m = shared.T_b_m.copy()
    T_b_m[:3, 3] = capture.T_b_m[:3, 3]
    stated = capture.claims is not None or not np.array_equal(capture.T_b_m, np.eye(4))
    std = np.full(SHARED, np.inf)
    std[MARKER] = np.repeat([STD_STATED_LEVER_ARM if stated else STD_LEVER_ARM, np.pi], 3)
    std[POSITION_CLOCK] = std[ORIENTATION_CLOCK] = STD_CLOCK_S, STD_DRIFT
    return shared_prior(shared._replace(T_b_m=T_b_m), std)


def _state_stamps(
    samples: ImuSamples, capture: Capture, offset_s: float, period_s: float
) -> Stamps:
    """Every so many samples, inside the capture's time and not deep in its gaps."""
    on_imu_ns = capture.stamps_ns + round(offset_s * NS)
    step = max(round(period_s * samples.rate_hz), 1)
    stamps_ns = samples.stamps_ns[step:-step:step]
    inside = (stamps_ns >= on_imu_ns[0]) & (stamps_ns <= on_imu_ns[-1])
    apart_ns = np.abs(on_imu_ns[nearest_index(on_imu_ns, stamps_ns)] - stamps_ns)
    stamps_ns = stamps_ns[inside & (apart_ns < REACH_S * NS)]
    if len(stamps_ns) < max(round(SHORTEST_S / period_s), FEWEST_STATES):
        raise DatasetError(
            f"{capture.source}: {len(stamps_ns) * period_s:.1f} s in common with the IMU, needed "
            f"at least {max(SHORTEST_S, FEWEST_STATES * period_s):g} s. Check the clocks and that "
            "both are of one recording."
        )
    return stamps_ns


def first_of_slots(stamps_ns: Stamps, rate_hz: float) -> Mask:
    """The first row of every slot of time."""
    slots = (stamps_ns - stamps_ns[0]) * rate_hz // NS
    return np.r_[True, np.diff(slots.astype(np.int64)) > 0]


LONGEST_ERROR_S = 5.0
"""Errors that last longer count as constants or as motion."""

FEWEST_BLOCKS = 8
CHANCE = 4.0
"""Standard deviations of a block's variance that chance explains."""

MOST_IMU_FACTOR = 100.0

NEAR = 1.1
"""Factors of the IMU's variances this near to one leave them as they are."""

GYRO, ACC_BY_AXIS = [0, 1, 2], ([3, 6], [4, 7], [5, 8])
"""Rows of an IMU residual that show the noise of the gyroscope, and of each accelerometer axis:
each row is whitened given those before it."""

ROUNDS = 8
"""Noise levels are settled after fewer; later rounds move them by a percent."""


@dataclass(frozen=True)
class NoiseLevel:
    """Scatter of one kind of measurement."""

    std: float
    """Standard deviation of one row and one axis [m] or [rad]."""

    lasting_rows: float
    """Rows over which an error lasts: 1 for white noise. Variances were scaled by it, so that
    posterior covariances count independent errors only."""


@dataclass(frozen=True)
class ImuFactors:
    """Variance of the IMU's errors over what was expected of them, by data sheet and vibration; by
    the data sheet alone for the gyroscope beside a smoothed truth."""

    gyro: float
    acc: tuple[float, float, float]
    """Each axis."""

    @property
    def differ(self) -> bool:
        """Somewhere they are far from one."""
        return bool(np.abs(np.log([self.gyro, *self.acc])).max() > np.log(NEAR))

    def scaled(self, imu: ImuMeasurements) -> ImuMeasurements:
        """The measurements with their variances times the factors."""
        var_gyro, var_acc = self.gyro * imu.var_gyro, np.array(self.acc) * imu.var_acc
        return replace(imu, var_gyro=var_gyro, var_acc=var_acc)


@dataclass(frozen=True)
class AuditFit:
    """The solved chain and what its residuals say."""

    start: AuditProblem
    solution: Solution
    posterior: Covariance
    residuals: ResidualsByKind
    """Residuals with the noise found, errors that last not yet scaled."""

    position: NoiseLevel
    orientation: NoiseLevel | None
    imu_factors: ImuFactors


def fit_audit(start: AuditProblem) -> AuditFit:
    """Noise levels first; then the final solution with errors weighed by how long they last."""
    solve_noise, least = partial(solve_with_noise, max_rounds=ROUNDS), start.least_factor
    first = solve_noise(start.problem, start.states, start.shared, least_factor=least)
    factors = np.array([first.position_factor, first.orientation_factor])
    imu_factors = _imu_factors(first.residuals.imu, start)
    if imu_factors.differ:
        # The IMU is noisier or better than expected: ask for the capture's noise again.
        problem = replace(first.problem, imu=imu_factors.scaled(first.problem.imu))
        states, shared = first.solution.states, first.solution.shared
        first = solve_noise(problem, states, shared, least_factor=least / float(factors.min()))
        factors *= first.position_factor, first.orientation_factor
    problem, levels = first.problem, {}
    for kind, variance in zip(FIRST_STD, factors, strict=True):
        measured = getattr(problem, kind)
        if measured is not None:
            rate_hz = NS / float(np.median(np.diff(measured.stamps_ns)))
            rows = lasting_rows(getattr(first.residuals, kind), rate_hz)
            levels[kind] = NoiseLevel(FIRST_STD[kind] * float(np.sqrt(variance)), rows)
            problem = replace(problem, **{kind: replace(measured, covs=rows * measured.covs)})
    solution = solve(problem, first.solution.states, first.solution.shared)
    position, orientation = levels["positions"], levels.get("orientations")
    posterior, residuals = covariance(solution), first.residuals
    return AuditFit(start, solution, posterior, residuals, position, orientation, imu_factors)


def _imu_factors(residuals: Residuals, start: AuditProblem) -> ImuFactors:
    """Factors that the residuals show, of each sensor or of all together.

    All together beside raw capture: its orientations have errors that last for many rows and would
    pass for the gyroscope's noise.
    """
    if not start.capture.smoothed:
        factor = float(np.clip(residuals.variance_factor, 1.0, MOST_IMU_FACTOR))
        return ImuFactors(factor, (factor, factor, factor))
    shown = [residuals.variance_factor_of(rows) for rows in (GYRO, *ACC_BY_AXIS)]
    known = np.where(np.isfinite(shown), shown, 1.0)
    gyro, x, y, z = np.clip(known, start.least_imu_factors, MOST_IMU_FACTOR).tolist()
    return ImuFactors(gyro, (x, y, z))


def lasting_rows(residuals: Residuals, rate_hz: float) -> float:
    """Over how many rows an error lasts: variance of means of blocks against that of white noise.

    The largest over blocks of up to `LONGEST_ERROR_S`; 1 where chance explains it.
    """
    if not len(residuals.white):
        return 1.0
    white = np.where(residuals.outliers[:, None], 0.0, residuals.white)
    white = white - white.mean(axis=0)
    variance = float(np.mean(white**2))
    longest, length = 1.0, 2
    while length <= LONGEST_ERROR_S * rate_hz and len(white) // length >= FEWEST_BLOCKS:
        count = len(white) // length
        means = white[: count * length].reshape(count, length, -1).mean(axis=1)
        ratio = length * float(np.mean(means**2)) / max(variance, 1e-300)
        chance = CHANCE * np.sqrt(2.0 / (3.0 * count))
        longest = max(longest, ratio if ratio > 1.0 + chance else 1.0)
        length *= 2
    return longest
