"""The measurements of a problem as arrays for the kernels: samples integrated at the present biases
and clocks, covariances as whitening matrices."""

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, TypeVar, get_args

import numpy as np

from maci2.errors import MeasurementError
from maci2.estimator.problem import (
    CAMERA_CLOCK,
    GYRO_SCALE,
    MOTION,
    ORIENTATION_CLOCK,
    POSITION_CLOCK,
    SHARED,
    STATE,
    CameraMotions,
    GaussianPrior,
    Indices,
    Loss,
    LossKind,
    MarkerMeasurements,
    Problem,
    Shared,
    States,
    shared_parameters,
    shared_prior,
)
from maci2.geometry.gaussian import chi2_quantile, chi2_significance, square_root_information
from maci2.geometry.se3 import so3_log_stack
from maci2.imu import ALPHA, BETA, GAMMA, NO_VERTICAL, ImuMeasurements, Rule, VerticalPrior
from maci2.imu.preintegration import MAX_GAP_PERIODS, integrate_segments
from maci2.types import NS, Array, Stamps

USUAL_SAMPLES = 200
"""Samples, the first ones, whose median step is the usual one."""

SCALE_STEP = 1e-4
"""Change of a gyroscope's scale for the central difference of the integrated motion."""


_LOSSES = get_args(LossKind)

Stack = TypeVar("Stack", bound=tuple[Any, ...])


class Spans(NamedTuple):
    """IMU motion over m stretches of time, each with the biases it was integrated with."""

    dt: Array
    """(m,) [s]"""
    gamma: Array
    """(m, 3, 3) rotation from the start of a span to its end."""
    beta: Array
    """(m, 3) velocity change without gravity, in the first frame [m/s]."""
    alpha: Array
    """(m, 3) position change without gravity and initial velocity, in the first frame [m]."""
    cov: Array
    """(m, 9, 9) order [gamma, beta, alpha]."""
    by_bias: Array
    """(m, 9, 6) derivative by gyroscope and accelerometer bias."""
    bias: Array
    """(m, 6) gyroscope and accelerometer bias taken off the samples [rad/s, m/s^2]."""
    reading: Array
    """(m, 6) angular rate and specific force as read at the end of a span [rad/s, m/s^2]; (0, 6)
    where nothing is carried beyond it."""
    by_scale: Array
    """(m, 9, 3) derivative by the gyroscope's scale; (0, 9, 3) where that is known."""
    gyro_scale: Array
    """(m, 3) scale errors with which the samples were integrated; (0, 3) where that is known."""


class Motions(NamedTuple):
    """m motions of the camera; see `CameraMotions`."""

    state: Indices
    """(m,) first state, rising."""
    span: Indices
    """(m,) relative poses of each, q at most."""
    Ts_ck_ck1: Array
    """(m, q, 4, 4)"""
    white: Array
    """(m, 6 q, 6 q) W with W'W = cov^-1 in the upper left of the relative poses of each."""
    loss: Array
    """(m, 2) which loss, and its limit in standard deviations."""


class Timed(NamedTuple):
    """m measurements, each of one state carried to its own instant; sorted by state."""

    at_state: Indices
    """(m,) state."""
    spans: Spans
    """Spans from the state to the timestamp, with its clock's offset as it was when integrated."""
    anchor: Array
    """(m,) that offset [s]."""
    elapsed: Array
    """(m,) timestamp less the clock's origin [s]."""
    value: Array
    """(m, 3, 1) positions p_w_m, or (m, 3, 3) rotations R_w_m."""
    white: Array
    """(m, 3, 3) W with W'W = cov^-1."""
    loss: Array
    """(m, 2) which loss, and its limit in standard deviations."""


class Markers(NamedTuple):
    """Poses of a tracked marker."""

    positions: Timed
    orientations: Timed


class StackedPriors(NamedTuple):
    """Gaussian priors on one state and the shared parameters each; see `GaussianPrior`."""

    at_state: Indices
    states: States
    shared: Shared
    """Of each prior: arrays with one more dimension in front."""
    info: Array
    """(m, 39, 39)"""
    eta: Array
    """(m, 39)"""
    constant: Array
    """(m,)"""


class Measurements(NamedTuple):
    """Everything measured or known, but for markers."""

    spans: Spans
    """(n - 1,) IMU motion between neighbours."""
    white: Array
    """(n - 1, s, s) of it; zero where the IMU has a gap."""
    motions: Motions
    instant: Spans
    """(n,) spans of no length: angular rate and specific force at each state; (0,) where all states
    are at the camera's instants."""
    vertical: VerticalPrior
    priors: StackedPriors


def rows_of(stack: Stack, rows: Any) -> Stack:
    """Some rows of all arrays in a stack."""
    parts = (rows_of(v, rows) if isinstance(v, tuple) else v[rows] for v in stack)
    return type(stack)(*parts)


def joined(stacks: Sequence[Stack]) -> Stack:
    """Stacks of one kind behind each other; empty ones are left out."""
    stacks = [stack for stack in stacks if len(stack[0])] or stacks
    if len(stacks) == 1:
        return stacks[0]
    columns = zip(*stacks, strict=True)
    parts = (joined(v) if isinstance(v[0], tuple) else np.concatenate(v) for v in columns)
    return type(stacks[0])(*parts)


def assemble(
    problem: Problem, states: States, shared: Shared, before: Measurements | None = None
) -> Measurements:
    """Everything measured, linearized where the biases and clocks now are.

    `before` are the measurements of the first states, as assembled earlier: their IMU motion is
    taken from there, at the biases it was integrated with.
    """
    before = before or with_motion_only(problem, NO_SPANS)
    imu, stamps_ns, bias = problem.imu, problem.stamps_ns, _biases(states)
    spans, white, instant = before.spans, before.white, NO_SPANS
    known = len(white)
    if known < len(stamps_ns) - 1:
        gyro_scale = shared.scalars[GYRO_SCALE] if problem.free.gyro_scale else None
        starts_ns, ends_ns = stamps_ns[known:-1], stamps_ns[known + 1 :]
        new = integrate_spans(imu, starts_ns, ends_ns, bias[known:-1], problem.rule, gyro_scale)
        new_white = _imu_weights(problem, new)
        # Across a gap of the samples only the biases are connected.
        new_white[_across_gaps(imu, stamps_ns[known:], problem.longest_span_s), :MOTION] = 0.0
        spans, white = joined([spans, new]), np.concatenate([white, new_white])
    if problem.free.camera_clock or shared.scalars[CAMERA_CLOCK] != 0.0:
        later = slice(len(before.instant.dt), None)
        new_ns = stamps_ns[later]
        new = integrate_spans(imu, new_ns, new_ns, bias[later], with_reading=True)
        instant = joined([before.instant, new])
    vertical = problem.vertical or NO_VERTICAL
    return Measurements(
        spans, white, _motions(problem), instant, vertical, stack_priors(problem.priors)
    )


def assemble_markers(problem: Problem, states: States, shared: Shared) -> Markers | None:
    """Poses of the marker that fall between the first and the last state, with samples integrated
    to their instants; None where there are none."""
    if problem.positions is None and problem.orientations is None:
        return None
    return Markers(
        _timed(problem, problem.positions, states, shared, POSITION_CLOCK),
        _timed(problem, problem.orientations, states, shared, ORIENTATION_CLOCK),
    )


def with_motion_only(problem: Problem, spans: Spans) -> Measurements:
    """Integrated motion of the IMU as earlier measurements of the whole problem."""
    white = _imu_weights(problem, spans)
    return Measurements(spans, white, NO_MOTIONS, NO_SPANS, NO_VERTICAL, NO_PRIORS)


def integrate_spans(
    imu: ImuMeasurements,
    starts_ns: Stamps,
    ends_ns: Stamps,
    bias: Array,
    rule: Rule = "midpoint",
    gyro_scale: Array | None = None,
    with_reading: bool = False,
) -> Spans:
    """Integrate the samples over each span [start, end]; `bias` (m, 6) is taken off.

    With `gyro_scale` (3,) angular rates are scaled by one plus that, and the derivative by it is
    made by central differences; `reading` is made where something is carried beyond a span.
    """
    m = len(starts_ns)
    if m == 0:
        return NO_SPANS

    def integrated(gyro_scale: Array | None) -> tuple[Array, ...]:
        samples = imu
        if gyro_scale is not None:
            samples, gyro = copy(imu), imu.gyro * (1.0 + gyro_scale)
            object.__setattr__(samples, "gyro", gyro)  # which is not checked again
        return integrate_segments(samples, starts_ns, ends_ns, bias, rule == "midpoint")

    reading, by_scale, scale = NO_SPANS[-3:]
    if gyro_scale is not None:
        by_scale, scale = np.empty((m, 9, 3)), np.tile(gyro_scale, (m, 1))
        for axis, step in enumerate(SCALE_STEP * np.eye(3)):
            low, high = integrated(gyro_scale - step), integrated(gyro_scale + step)
            by_scale[:, :, axis] = _difference(low, high) / (2.0 * SCALE_STEP)
    if with_reading:
        after = np.clip(np.searchsorted(imu.stamps_ns, ends_ns), 1, len(imu.stamps_ns) - 1)
        before_ns = imu.stamps_ns[after - 1]
        share = ((ends_ns - before_ns) / (imu.stamps_ns[after] - before_ns))[:, None]
        earlier, later = (np.hstack([imu.gyro[at], imu.acc[at]]) for at in (after - 1, after))
        reading = earlier + share * (later - earlier)
    return Spans._make([*integrated(gyro_scale), bias, reading, by_scale, scale])


def _difference(low: tuple[Array, ...], high: tuple[Array, ...]) -> Array:
    """(m, 9) change of integrated motion, gamma on the right."""
    turned = so3_log_stack(np.swapaxes(low[1], 1, 2) @ high[1])
    return np.hstack([turned, high[2] - low[2], high[3] - low[3]])


def _biases(states: States) -> Array:
    bias = np.empty((len(states.v_w), 6))
    bias[:, :3], bias[:, 3:] = states.bias_gyro, states.bias_acc
    return bias


def _imu_weights(problem: Problem, spans: Spans) -> Array:
    """(m, s, s) W with W'W = cov^-1 of each span, with the walk of the biases where they walk."""
    s, cov = problem.state_size, spans.cov
    if not len(cov):
        return np.zeros((0, s, s))
    if s == STATE:
        cov = walking_covariance(spans, *problem.walks)
    elif problem.imu_weights == "identity":
        cov = np.tile(np.eye(9), (len(spans.dt), 1, 1))
    elif problem.imu_weights == "blocks":
        cov = np.zeros_like(spans.cov)
        for block in (GAMMA, BETA, ALPHA):
            cov[:, block, block] = spans.cov[:, block, block]
    white = square_root_information(cov)
    return white if problem.inflation == 1.0 else white / np.sqrt(problem.inflation)


_POWERS = np.repeat([[1, 0], [2, 1], [3, 2], [0, 0], [0, 0]], 3, axis=0).T
_PRODUCTS = 1.0 / (_POWERS[:, :, None] + _POWERS[:, None, :] + 1.0)
"""(2, 15) powers of the remaining time with which each row answers a walking gyroscope and
accelerometer bias, and (2, 15, 15) integrals of their products."""


def walking_covariance(spans: Spans, walk_gyro: float, walk_acc: float) -> Array:
    """(m, 15, 15) of preintegrated motion and bias change together, order [gamma, beta, alpha,
    gyro bias, acc bias].

    A bias that walks within a span acts on velocity for the rest of it, on position for the square
    of that: rows have powers of the remaining time, and the integral of a product of two powers is
    1 / (their sum + 1).
    """
    m = len(spans.dt)
    cov = np.zeros((m, STATE, STATE))
    cov[:, :9, :9] = spans.cov
    for sensor, walk in enumerate((walk_gyro, walk_acc)):
        response = np.zeros((m, STATE, 3))
        response[:, :9] = spans.by_bias[:, :, 3 * sensor : 3 * sensor + 3]
        response[:, 9 + 3 * sensor : 12 + 3 * sensor] = np.eye(3)
        variance = (walk**2 * spans.dt)[:, None, None]
        cov += variance * _PRODUCTS[sensor] * (response @ np.swapaxes(response, 1, 2))
    return cov


def _across_gaps(imu: ImuMeasurements, stamps_ns: Stamps, longest_span_s: float) -> Array:
    """(n - 1,) spans in which samples are missing, or that are longer than the limit."""
    if stamps_ns[0] < imu.stamps_ns[0] or stamps_ns[-1] > imu.stamps_ns[-1]:
        raise MeasurementError(
            f"{imu.source}: the IMU covers {imu.stamps_ns[0]}..{imu.stamps_ns[-1]} ns but the "
            f"problem needs {stamps_ns[0]}..{stamps_ns[-1]} ns; drop states outside the IMU "
            "samples."
        )
    first = np.searchsorted(imu.stamps_ns, stamps_ns[:-1], side="right") - 1
    last = np.searchsorted(imu.stamps_ns, stamps_ns[1:])
    steps_ns = np.diff(imu.stamps_ns[first[0] : last[-1] + 1])
    # Segments of `reduceat` end where the next begins, which leaves out a step across a state.
    longest_ns = np.maximum.reduceat(steps_ns, first - first[0])
    longest_ns = np.maximum(longest_ns, steps_ns[last - 1 - first[0]])
    usual_ns = np.median(np.diff(imu.stamps_ns[:USUAL_SAMPLES]))
    far = stamps_ns[1:] - stamps_ns[:-1] > longest_span_s * NS
    return np.asarray(far | (longest_ns > MAX_GAP_PERIODS * usual_ns))


def _loss(loss: Loss, count: int, span: int = 1) -> Array:
    """(count, 2) kind and limit; of a motion of several relative poses at the same quantile."""
    limit = loss.limit
    if span > 1 and loss.kind != "none":
        beyond = chi2_significance(6, loss.limit**2)
        limit = chi2_quantile(6 * span, 1.0 - beyond) ** 0.5
    return np.full((count, 2), (_LOSSES.index(loss.kind), limit))


def _motions(problem: Problem) -> Motions:
    """The motions of all stacks, by their first state."""
    last = len(problem.stamps_ns) - 1
    stacks = [stack for stack in problem.camera if len(stack.index)]
    if not stacks:
        return NO_MOTIONS
    for stack in stacks:
        if stack.index[0] < 0 or stack.index[-1] + stack.span > last:
            raise MeasurementError(
                f"a motion of the camera over {stack.span + 1} keyframes reaches beyond the "
                f"{last + 1} states; drop it, or add the states that it spans."
            )
    most = max(stack.span for stack in stacks)
    parts = [_padded(stack, most, problem.inflation) for stack in stacks]
    if len(parts) == 1:
        return parts[0]
    motions = joined(parts)
    return rows_of(motions, np.argsort(motions.state, kind="stable"))


def _padded(stack: CameraMotions, most: int, inflation: float) -> Motions:
    """A stack with room for the largest number of relative poses."""
    m, q = len(stack.index), stack.span
    Ts_ck_ck1 = np.ascontiguousarray(stack.Ts_ck_ck1, dtype=np.float64).reshape(m, q, 4, 4)
    white = square_root_information(stack.covs)
    if inflation != 1.0:
        white /= np.sqrt(inflation)
    if q < most:
        Ts_ck_ck1 = np.pad(Ts_ck_ck1, ((0, 0), (0, most - q), (0, 0), (0, 0)))
        room = (0, 6 * (most - q))
        white = np.pad(white, ((0, 0), room, room))
    index = np.asarray(stack.index, dtype=np.int64)
    return Motions(index, np.full(m, q), Ts_ck_ck1, white, _loss(stack.loss, m, q))


def _timed(
    problem: Problem,
    measured: MarkerMeasurements | None,
    states: States,
    shared: Shared,
    clock: slice,
) -> Timed:
    """Measurements that fall between the first and the last state, integrated to their instants."""
    if measured is None:
        return NOTHING_TIMED
    offset, drift = shared.scalars[clock]
    elapsed = (measured.stamps_ns - problem.clock_origin_ns) / NS
    anchor_ns = np.rint(NS * (offset + drift * elapsed))
    instants_ns = measured.stamps_ns + anchor_ns.astype(np.int64)
    inside = (instants_ns >= problem.stamps_ns[0]) & (instants_ns <= problem.stamps_ns[-1])
    if not inside.any():
        return NOTHING_TIMED
    instants_ns = instants_ns[inside]
    index = np.searchsorted(problem.stamps_ns, instants_ns, side="right") - 1
    starts_ns, bias = problem.stamps_ns[index], _biases(states)[index]
    return Timed(
        index,
        integrate_spans(problem.imu, starts_ns, instants_ns, bias, with_reading=True),
        anchor_ns[inside] / NS,
        elapsed[inside],
        np.ascontiguousarray(measured.values[inside]).reshape(len(index), 3, -1),
        square_root_information(measured.covs[inside]),
        _loss(measured.loss, len(index)),
    )


def _empty(*shape: int) -> Array:
    return np.zeros((0, *shape))


_NO_INDEX = np.zeros(0, np.int64)
_SHAPES = ((), (3, 3), (3,), (3,), (9, 9), (9, 6), (6,), (6,), (9, 3), (3,))
NO_SPANS = Spans(*(_empty(*shape) for shape in _SHAPES))
NO_MOTIONS = Motions(_NO_INDEX, _NO_INDEX, _empty(1, 4, 4), _empty(6, 6), _empty(2))
NOTHING_TIMED = Timed(
    _NO_INDEX, NO_SPANS, _empty(), _empty(), _empty(3, 1), _empty(3, 3), _empty(2)
)


def stack_priors(priors: tuple[GaussianPrior, ...]) -> StackedPriors:
    """The priors in one stack."""
    if not priors:
        return NO_PRIORS
    return joined(
        [
            StackedPriors(
                np.array([prior.index]),
                prior.state,
                Shared(*(values[None] for values in prior.shared)),
                prior.info[None],
                prior.eta[None],
                np.array([prior.constant], dtype=np.float64),
            )
            for prior in priors
        ]
    )


NO_PRIORS = rows_of(stack_priors((shared_prior(shared_parameters(), np.ones(SHARED)),)), slice(0))
NO_MARKERS = Markers(NOTHING_TIMED, NOTHING_TIMED)
