"""The chain that an audit solves: states along the IMU, a tracked marker, and a first guess."""

import math
from dataclasses import dataclass

import numpy as np

from maci2.errors import DatasetError
from maci2.estimator.problem import (
    Free,
    Loss,
    MarkerOrientations,
    MarkerPositions,
    Problem,
    Shared,
    States,
    shared_prior,
    state_prior,
)
from maci2.gaussian import chi2_quantile
from maci2.ground_truth.accelerations import AccelerationFit, fit_accelerations
from maci2.ground_truth.audit_guess import (
    STATE_PERIOD_S,
    guess_from_poses,
    guess_from_positions,
)
from maci2.ground_truth.capture import Capture
from maci2.ground_truth.registration import Registration
from maci2.imu import ImuMeasurements
from maci2.lie.stacks import so3_log_stack
from maci2.sensors import ImuNoise, ImuSamples, Rig
from maci2.types import NS, Array, Mask, Stamps

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
    """What the chain needs, and a place to begin."""

    problem: Problem
    states: States
    shared: Shared
    least_factor: float
    """Least variance of rows over the first one."""

    least_imu_factors: Array
    """(4,) least variance of gyroscope and accelerometer axes over the expected one: that of the
    data sheet."""

    accelerations: AccelerationFit | None
    """What the positions' second differences say; None where only positions were tracked."""

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
    shared.scalars[3:5] = found.offset_s
    rows = _thinned(capture, rows_hz)
    positions, orientations = _measurements(capture, rows)
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
    """Mean of the prior of shared parameters: the marker where it was stated to be."""
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


def _thinned(capture: Capture, rows_hz: float | None) -> Mask:
    """Rows that are used: the first of every slot."""
    rate_hz = rows_hz or (SMOOTHED_HZ if capture.smoothed else MAX_CAPTURE_HZ)
    slots = (capture.stamps_ns - capture.stamps_ns[0]) * rate_hz // NS
    return np.r_[True, np.diff(slots.astype(np.int64)) > 0]


def _measurements(
    capture: Capture, rows: Mask
) -> tuple[MarkerPositions, MarkerOrientations | None]:
    stamps_ns, loss = capture.stamps_ns[rows], Loss("huber", LIMIT)
    eye = np.tile(np.eye(3), (len(stamps_ns), 1, 1))
    positions = MarkerPositions(stamps_ns, capture.p_w_m[rows], FIRST_STD_P**2 * eye, loss)
    if capture.Rs_w_m is None:
        return positions, None
    Rs_w_m = np.ascontiguousarray(capture.Rs_w_m[rows])
    return positions, MarkerOrientations(stamps_ns, Rs_w_m, FIRST_STD_R**2 * eye, loss)
