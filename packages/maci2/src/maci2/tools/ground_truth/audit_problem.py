"""The estimation problem of an audit: states along the IMU, a tracked marker, noise levels."""

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy

from maci2.errors import DatasetError
from maci2.estimator.problem import (
    ORIENTATION_CLOCK,
    POSITION_CLOCK,
    Free,
    Loss,
    MarkerOrientations,
    MarkerPositions,
    Problem,
    Shared,
    States,
    shared_parameters,
    shared_prior,
    state_prior,
)
from maci2.estimator.residuals import Residuals, ResidualsByKind, solve_with_noise
from maci2.estimator.solver import Covariance, Solution, covariance, solve
from maci2.geometry import se3, so3_exp
from maci2.geometry.gaussian import chi2_quantile
from maci2.geometry.se3 import nearest_rotation, so3_log_stack, stack_poses
from maci2.imu import ImuMeasurements
from maci2.sensors import ImuNoise, ImuSamples, Rig, poses_at
from maci2.tools.ground_truth.accelerations import (
    AccelerationFit,
    fit_accelerations,
    gyro_rotations,
)
from maci2.tools.ground_truth.capture import Capture
from maci2.tools.ground_truth.registration import Registration
from maci2.types import GRAVITY_NORM, NS, Array, Mask, Stamps

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

REACH_S = 1.5
"""States are placed within this of a captured row: farther into a gap nothing is known."""

LIMIT = math.sqrt(chi2_quantile(3, 0.999))
"""Huber's limit: root of the 99.9 % quantile of chi-square with 3 degrees of freedom."""

FIRST_STD_P, FIRST_STD_R = 0.005, 0.01
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

    sensors_apart: bool
    """Noise of gyroscope and accelerometer axes is looked for apart. Not beside raw capture: its
    orientations have errors that last for many rows and would pass for the gyroscope's noise."""


def audit_problem(
    capture: Capture,
    found: Registration,
    imu: ImuMeasurements,
    samples: ImuSamples,
    rig: Rig,
    rows_hz: float | None = None,
    state_period_s: float = STATE_PERIOD_S,
) -> AuditProblem:
    """States every tenth of a second, or as asked, wherever the capture reaches."""
    on_imu_ns = capture.stamps_ns + round(found.offset_s * NS)
    stamps_ns = _state_stamps(samples, on_imu_ns, capture, state_period_s)
    T_b_m = _marker(capture, found)
    fit = None
    if capture.Rs_w_m is None:
        states, shared = guess_from_positions(capture, on_imu_ns, stamps_ns, samples, found, T_b_m)
    else:
        fit = fit_accelerations(capture, found, T_b_m[:3, :3], samples)
        states, shared = guess_from_poses(capture, on_imu_ns, stamps_ns, samples, found, T_b_m, fit)
    shared.scalars[POSITION_CLOCK.start] = found.offset_s
    shared.scalars[ORIENTATION_CLOCK.start] = found.offset_s
    rows_hz = rows_hz or (SMOOTHED_HZ if capture.smoothed else MAX_CAPTURE_HZ)
    rows = capture.part(first_of_slots(capture.stamps_ns, rows_hz))
    positions, orientations = _measurements(rows)
    first = States(*(values[:1] for values in states))
    std = np.r_[np.full(9, np.inf), [STD_BIAS_GYRO] * 3, [STD_BIAS_ACC] * 3]
    problem = Problem(
        imu=imu,
        stamps_ns=stamps_ns,
        walk_gyro=max(rig.imu.walk_gyro, LEAST_WALK_GYRO),
        walk_acc=max(rig.imu.walk_acc, LEAST_WALK_ACC),
        free=Free(
            gravity=True,
            marker_rotation=capture.Rs_w_m is not None,
            marker_translation=True,
            position_clock=True,
            position_drift=True,
            orientation_clock=capture.Rs_w_m is not None,
            orientation_drift=capture.Rs_w_m is not None,
            shared_clock=capture.one_clock,
        ),
        positions=positions,
        orientations=orientations,
        priors=(
            state_prior(0, first, shared, std),
            shared_prior(_stated(shared, capture), _shared_std(capture)),
        ),
        clock_origin_ns=int(capture.stamps_ns[len(capture) // 2]),
    )
    least = LEAST_FACTOR_SMOOTHED if capture.smoothed else LEAST_FACTOR
    least_imu = _least_imu_factors(imu, rig.imu)
    return AuditProblem(problem, states, shared, least, least_imu, fit, capture.smoothed)


def _least_imu_factors(imu: ImuMeasurements, noise: ImuNoise) -> Array:
    rate_hz = NS / float(np.median(np.diff(imu.stamps_ns)))
    gyro, acc = rate_hz * noise.density_gyro**2, rate_hz * noise.density_acc**2
    return np.minimum(np.r_[gyro / imu.var_gyro.mean(), acc / imu.var_acc.mean(axis=0)], 1.0)


def _stated(shared: Shared, capture: Capture) -> Shared:
    """Mean of the shared's prior: the marker where it was stated to be."""
    T_b_m = shared.T_b_m.copy()
    T_b_m[:3, 3] = capture.T_b_m[:3, 3]
    return shared._replace(T_b_m=T_b_m)


def _shared_std(capture: Capture) -> Array:
    """(24,) standard deviations of that prior; any rotation of the marker."""
    stated = capture.claims is not None or not np.array_equal(capture.T_b_m, np.eye(4))
    lever = STD_STATED_LEVER_ARM if stated else STD_LEVER_ARM
    clock = [STD_CLOCK_S, STD_DRIFT]
    return np.array([*[np.inf] * 11, *[lever] * 3, *[np.pi] * 3, *clock, *clock, *[np.inf] * 3])


def _state_stamps(
    samples: ImuSamples, on_imu_ns: Stamps, capture: Capture, period_s: float
) -> Stamps:
    """Every so many samples, inside the capture's time and not deep in its gaps."""
    step = max(round(period_s * samples.rate_hz), 1)
    stamps_ns = samples.stamps_ns[step:-step:step]
    inside = (stamps_ns >= on_imu_ns[0]) & (stamps_ns <= on_imu_ns[-1])
    after = np.clip(np.searchsorted(on_imu_ns, stamps_ns), 1, len(on_imu_ns) - 1)
    apart_ns = np.minimum(
        np.abs(on_imu_ns[after] - stamps_ns), np.abs(stamps_ns - on_imu_ns[after - 1])
    )
    stamps_ns = stamps_ns[inside & (apart_ns < REACH_S * NS)]
    if len(stamps_ns) < max(round(SHORTEST_S / period_s), FEWEST_STATES):
        raise DatasetError(
            f"{capture.source}: {len(stamps_ns) * period_s:.1f} s in common with the IMU, needed "
            f"at least {max(SHORTEST_S, FEWEST_STATES * period_s):g} s. Check the clocks and that "
            "both are of one recording."
        )
    return stamps_ns


def _marker(capture: Capture, found: Registration) -> Array:
    """T_b_m as stated, its rotation as the rates show it where that is clearly another."""
    T_b_m = capture.T_b_m.copy()
    if capture.Rs_w_m is not None and found.correlation > 0.0:
        apart = so3_log_stack((T_b_m[:3, :3].T @ found.R_b_m)[None])[0]
        if np.linalg.norm(apart) > 0.2:
            T_b_m[:3, :3] = found.R_b_m
    return T_b_m


def first_of_slots(stamps_ns: Stamps, rate_hz: float) -> Mask:
    """The first row of every slot of time."""
    slots = (stamps_ns - stamps_ns[0]) * rate_hz // NS
    return np.r_[True, np.diff(slots.astype(np.int64)) > 0]


def _measurements(rows: Capture) -> tuple[MarkerPositions, MarkerOrientations | None]:
    eye, loss = np.tile(np.eye(3), (len(rows), 1, 1)), Loss("huber", LIMIT)
    positions = MarkerPositions(rows.stamps_ns, rows.p_w_m, FIRST_STD_P**2 * eye, loss)
    if rows.Rs_w_m is None:
        return positions, None
    Rs_w_m = np.ascontiguousarray(rows.Rs_w_m)
    return positions, MarkerOrientations(rows.stamps_ns, Rs_w_m, FIRST_STD_R**2 * eye, loss)


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
        return replace(
            imu, var_gyro=self.gyro * imu.var_gyro, var_acc=np.array(self.acc) * imu.var_acc
        )


@dataclass(frozen=True)
class AuditFit:
    """The solved chain and what its residuals say."""

    problem: Problem
    solution: Solution
    posterior: Covariance
    residuals: ResidualsByKind
    """Residuals with the noise found, errors that last not yet scaled."""

    position: NoiseLevel
    orientation: NoiseLevel | None
    imu_factors: ImuFactors
    accelerations: AccelerationFit | None


def fit_audit(start: AuditProblem) -> AuditFit:
    """Noise levels first; then the final solution with errors weighed by how long they last."""
    problem = start.problem
    first = solve_with_noise(
        problem, start.states, start.shared, max_rounds=ROUNDS, least_factor=start.least_factor
    )
    noise = (first.position_factor, first.orientation_factor)
    imu_factors = _imu_factors(first.residuals.imu, start)
    if imu_factors.differ:
        # The IMU is noisier or better than expected: ask for the capture's noise again.
        first = solve_with_noise(
            replace(first.problem, imu=imu_factors.scaled(first.problem.imu)),
            first.solution.states,
            first.solution.shared,
            max_rounds=ROUNDS,
            least_factor=start.least_factor / min(noise),
        )
        noise = (noise[0] * first.position_factor, noise[1] * first.orientation_factor)
    lasting_p = lasting_rows(first.residuals.positions, _rate(first.problem.positions))
    lasting_r = lasting_rows(first.residuals.orientations, _rate(first.problem.orientations))
    problem = _weighed_down(first.problem, lasting_p, lasting_r)
    solution = solve(problem, first.solution.states, first.solution.shared)
    orientation = None
    if problem.orientations is not None:
        orientation = NoiseLevel(FIRST_STD_R * np.sqrt(noise[1]), lasting_r)
    return AuditFit(
        problem,
        solution,
        covariance(solution),
        first.residuals,
        NoiseLevel(FIRST_STD_P * np.sqrt(noise[0]), lasting_p),
        orientation,
        imu_factors,
        start.accelerations,
    )


def _imu_factors(residuals: Residuals, start: AuditProblem) -> ImuFactors:
    """Factors that the residuals show, of each sensor or of all together."""
    if not start.sensors_apart:
        factor = float(np.clip(residuals.variance_factor, 1.0, MOST_IMU_FACTOR))
        return ImuFactors(factor, (factor, factor, factor))
    shown = [residuals.variance_factor_of(rows) for rows in (GYRO, *ACC_BY_AXIS)]
    known = np.where(np.isfinite(shown), shown, 1.0)
    gyro, x, y, z = np.clip(known, start.least_imu_factors, MOST_IMU_FACTOR).tolist()
    return ImuFactors(gyro, (x, y, z))


def _rate(measured: object) -> float:
    stamps_ns = getattr(measured, "stamps_ns", None)
    return 1.0 if stamps_ns is None else 1e9 / float(np.median(np.diff(stamps_ns)))


def _weighed_down(problem: Problem, by_p: float, by_r: float) -> Problem:
    p, r = problem.positions, problem.orientations
    return replace(
        problem,
        positions=None if p is None else replace(p, covs=by_p * p.covs),
        orientations=None if r is None else replace(r, covs=by_r * r.covs),
    )


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
