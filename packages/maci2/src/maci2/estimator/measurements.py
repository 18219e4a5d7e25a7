"""The measurements of a problem as arrays for the kernels: samples integrated at the present biases
and clocks, covariances as whitening matrices."""

from copy import copy
from typing import NamedTuple

import numpy as np

from maci2.errors import MeasurementError
from maci2.estimator.factors import Spans
from maci2.estimator.normal_equations import CAUCHY, HUBER, NO_LOSS
from maci2.estimator.problem import (
    CAMERA_CLOCK_AT,
    GYRO_SCALE_AT,
    MOTION,
    ORIENTATION_CLOCK_AT,
    POSITION_CLOCK_AT,
    SHARED,
    STATE,
    CameraMotions,
    GaussianPrior,
    Indices,
    Loss,
    MarkerOrientations,
    MarkerPositions,
    Problem,
    Shared,
    States,
)
from maci2.geometry.gaussian import chi2_quantile, chi2_significance, square_root_information
from maci2.geometry.so3 import so3_log
from maci2.imu import ALPHA, BETA, GAMMA, NO_VERTICAL, ImuMeasurements, Rule, VerticalPrior
from maci2.imu.preintegration import MAX_GAP_PERIODS, integrate_segments
from maci2.jit import kernel
from maci2.types import NS, Array, Stamps

_LOSSES = {"none": NO_LOSS, "huber": HUBER, "cauchy": CAUCHY}

USUAL_SAMPLES = 200
"""Samples, the first ones, whose median step is the usual one."""

SCALE_STEP = 1e-4
"""Change of a gyroscope's scale for the central difference of the integrated motion."""


class Motions(NamedTuple):
    """m motions of the camera; see `CameraMotions`."""

    state: Indices
    """(m,) first state, rising."""
    span: Indices
    """(m,) q, relative poses of each."""
    at: Indices
    """(m,) place of its first one in `Ts_ck_ck1`."""
    Ts_ck_ck1: Array
    """(sum of q, 4, 4)"""
    white: Array
    """(m, d, d) of which the upper left (6 q, 6 q) is W with W'W = cov^-1."""
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
    """(2,) which loss, and its limit in standard deviations."""


class Markers(NamedTuple):
    """Poses of a tracked marker."""

    positions: Timed
    orientations: Timed


class StackedPriors(NamedTuple):
    """Gaussian priors on one state and the shared parameters each; see `GaussianPrior`."""

    at_state: Indices
    states: States
    R_w_g: Array
    T_b_c: Array
    T_b_m: Array
    scalars: Array
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


def assemble(
    problem: Problem, states: States, shared: Shared, before: Measurements | None = None
) -> Measurements:
    """Everything measured, linearized where the biases and clocks now are.

    `before` are the measurements of the first states, as assembled earlier: their IMU motion is
    taken from there, at the biases it was integrated with.
    """
    stamps_ns = problem.stamps_ns
    bias = _biases(states)
    known = 0 if before is None else len(before.white)
    new_ns = stamps_ns[known:]
    spans, white = NO_SPANS, np.zeros((0, problem.state_size, problem.state_size))
    if len(new_ns) > 1:
        gyro_scale = shared.scalars[GYRO_SCALE_AT] if problem.free.gyro_scale else None
        spans = integrate_spans(
            problem.imu, new_ns[:-1], new_ns[1:], bias[known:-1], problem.rule, gyro_scale
        )
        white = _imu_weights(problem, spans)
        # Across a gap of the samples only the biases are connected.
        white[_across_gaps(problem.imu, new_ns, problem.longest_span_s), :MOTION] = 0.0
    with_clock = problem.free.camera_clock or shared.scalars[CAMERA_CLOCK_AT] != 0.0
    new_ns, new_bias = (stamps_ns[:0], bias[:0]) if not with_clock else (stamps_ns, bias)
    first = 0
    if before is not None and with_clock:
        first = len(before.instant.dt)
        new_ns, new_bias = new_ns[first:], new_bias[first:]
    instant = integrate_spans(problem.imu, new_ns, new_ns, new_bias, with_reading=True)
    if before is not None:
        white = np.concatenate([before.white, white]) if len(white) else before.white
        spans = _joined(before.spans, spans)
        if with_clock:
            instant = _joined(before.instant, instant)
    return Measurements(
        spans,
        white,
        _motions(problem),
        instant,
        problem.vertical or NO_VERTICAL,
        stack_priors(problem.priors),
    )


def assemble_markers(problem: Problem, states: States, shared: Shared) -> Markers | None:
    """Poses of the marker that fall between the first and the last state, with samples integrated
    to their instants; None where there are none."""
    if problem.positions is None and problem.orientations is None:
        return None
    return Markers(
        _timed(problem, problem.positions, states, shared, POSITION_CLOCK_AT),
        _timed(problem, problem.orientations, states, shared, ORIENTATION_CLOCK_AT),
    )


def with_motion_only(problem: Problem, spans: Spans) -> Measurements:
    """Integrated motion of the IMU as earlier measurements of the whole problem."""
    return Measurements(
        spans, _imu_weights(problem, spans), NO_MOTIONS, NO_SPANS, NO_VERTICAL, stack_priors(())
    )


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
    reading, by_scale, scale = np.zeros((0, 6)), np.zeros((0, 9, 3)), np.zeros(3)
    if gyro_scale is not None:
        by_scale = np.empty((m, 9, 3))
        for axis, step in enumerate(SCALE_STEP * np.eye(3)):
            low, high = (
                _integrated(imu, starts_ns, ends_ns, bias, rule, gyro_scale + way * step)
                for way in (-1.0, 1.0)
            )
            by_scale[:, :, axis] = _difference(low, high) / (2.0 * SCALE_STEP)
        scale = np.array(gyro_scale)
    dt, gamma, beta, alpha, cov, by_bias = _integrated(
        imu, starts_ns, ends_ns, bias, rule, gyro_scale
    )
    if with_reading:
        after = np.clip(np.searchsorted(imu.stamps_ns, ends_ns), 1, len(imu.stamps_ns) - 1)
        before_ns = imu.stamps_ns[after - 1]
        share = ((ends_ns - before_ns) / (imu.stamps_ns[after] - before_ns))[:, None]
        earlier, later = (np.hstack([imu.gyro[at], imu.acc[at]]) for at in (after - 1, after))
        reading = earlier + share * (later - earlier)
    return Spans(dt, gamma, beta, alpha, cov, by_bias, bias, reading, by_scale, scale)


def _integrated(
    imu: ImuMeasurements,
    starts_ns: Stamps,
    ends_ns: Stamps,
    bias: Array,
    rule: Rule,
    gyro_scale: Array | None,
) -> tuple[Array, ...]:
    if gyro_scale is not None:
        imu = copy_with_gyro(imu, imu.gyro * (1.0 + gyro_scale))
    return integrate_segments(imu, starts_ns, ends_ns, bias, rule == "midpoint")


def copy_with_gyro(imu: ImuMeasurements, gyro: Array) -> ImuMeasurements:
    """The samples with other angular rates, which are not checked again."""
    changed = copy(imu)
    object.__setattr__(changed, "gyro", gyro)
    return changed


def _difference(low: tuple[Array, ...], high: tuple[Array, ...]) -> Array:
    """(m, 9) change of integrated motion, gamma on the right."""
    turned = [so3_log(np.ascontiguousarray(a.T @ b)) for a, b in zip(low[1], high[1], strict=True)]
    return np.hstack([np.array(turned), high[2] - low[2], high[3] - low[3]])


def _biases(states: States) -> Array:
    bias = np.empty((len(states.v_w), 6))
    bias[:, :3], bias[:, 3:] = states.bias_gyro, states.bias_acc
    return bias


def _joined(spans: Spans, further: Spans) -> Spans:
    if not len(further.dt):
        return spans
    joined = (np.concatenate(values) for values in zip(spans[:-1], further[:-1], strict=True))
    return Spans._make([*joined, further.gyro_scale])


def cut(spans: Spans, part: slice) -> Spans:
    """Some of the spans."""
    return Spans._make([*(values[part] for values in spans[:-1]), spans.gyro_scale])


def _imu_weights(problem: Problem, spans: Spans) -> Array:
    """(m, s, s) W with W'W = cov^-1 of each span, with the walk of the biases where they walk."""
    cov = spans.cov
    if problem.state_size == STATE:
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
    longest_ns = longest_steps(imu.stamps_ns, stamps_ns)
    some_ns = imu.stamps_ns[:USUAL_SAMPLES]
    usual_ns = np.median(some_ns[1:] - some_ns[:-1])
    far = stamps_ns[1:] - stamps_ns[:-1] > longest_span_s * NS
    return np.asarray(far | (longest_ns > MAX_GAP_PERIODS * usual_ns))


@kernel
def longest_steps(samples_ns: Stamps, stamps_ns: Stamps) -> Stamps:
    """(n - 1,) longest step between two samples in each span between neighbouring timestamps."""
    longest_ns = np.zeros(len(stamps_ns) - 1, dtype=np.int64)
    for k in range(len(longest_ns)):
        i = np.searchsorted(samples_ns, stamps_ns[k], side="right") - 1
        while i < len(samples_ns) - 1 and samples_ns[i] < stamps_ns[k + 1]:
            longest_ns[k] = max(longest_ns[k], samples_ns[i + 1] - samples_ns[i])
            i += 1
    return longest_ns


def _loss(loss: Loss, span: int = 1) -> Array:
    """(2,) kind and limit; of a motion of several relative poses at the same quantile."""
    limit = loss.limit
    if span > 1 and loss.kind != "none":
        beyond = chi2_significance(6, loss.limit**2)
        limit = chi2_quantile(6 * span, 1.0 - beyond) ** 0.5
    return np.array([_LOSSES[loss.kind], limit], dtype=np.float64)


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
    if len(stacks) == 1:
        return _stacked(stacks[0], stacks[0].span, problem.inflation)
    most = max(stack.span for stack in stacks)
    parts = [_stacked(stack, most, problem.inflation) for stack in stacks]
    at, shifted = 0, []
    for part in parts:
        shifted.append(part._replace(at=part.at + at))
        at += len(part.Ts_ck_ck1)
    state, span, at_pose, Ts, white, loss = (
        np.concatenate(values) for values in zip(*shifted, strict=True)
    )
    order = np.argsort(state, kind="stable")
    return Motions(state[order], span[order], at_pose[order], Ts, white[order], loss[order])


def _stacked(stack: CameraMotions, most: int, inflation: float) -> Motions:
    m, span = len(stack.index), stack.span
    white = square_root_information(stack.covs)
    if inflation != 1.0:
        white /= np.sqrt(inflation)
    if most > span:
        room = np.zeros((m, 6 * most, 6 * most))
        room[:, : 6 * span, : 6 * span] = white
        white = room
    loss = np.empty((m, 2))
    loss[:] = _loss(stack.loss, span)
    return Motions(
        np.asarray(stack.index, dtype=np.int64),
        np.full(m, span),
        span * np.arange(m),
        np.ascontiguousarray(stack.Ts_ck_ck1, dtype=np.float64).reshape(m * span, 4, 4),
        white,
        loss,
    )


def _timed(
    problem: Problem,
    measured: MarkerPositions | MarkerOrientations | None,
    states: States,
    shared: Shared,
    clock: int,
) -> Timed:
    """Measurements that fall between the first and the last state, integrated to their instants."""
    if measured is None:
        return NOTHING_TIMED
    if isinstance(measured, MarkerPositions):
        stamps_ns, value, covs = measured.stamps_ns, measured.p_w_m[:, :, None], measured.covs
    else:
        stamps_ns, value, covs = measured.stamps_ns, measured.Rs_w_m, measured.covs
    elapsed = (stamps_ns - problem.clock_origin_ns) / NS
    anchor_ns = np.rint(NS * (shared.scalars[clock] + shared.scalars[clock + 2] * elapsed))
    instants_ns = stamps_ns + anchor_ns.astype(np.int64)
    inside = (instants_ns >= problem.stamps_ns[0]) & (instants_ns <= problem.stamps_ns[-1])
    instants_ns = instants_ns[inside]
    index = np.searchsorted(problem.stamps_ns, instants_ns, side="right") - 1
    return Timed(
        index,
        integrate_spans(
            problem.imu,
            problem.stamps_ns[index],
            instants_ns,
            _biases(states)[index],
            with_reading=True,
        ),
        anchor_ns[inside] / NS,
        elapsed[inside],
        np.ascontiguousarray(value[inside]),
        square_root_information(covs[inside]) if inside.any() else np.zeros((0, 3, 3)),
        _loss(measured.loss),
    )


_SHAPES = ((), (3, 3), (3,), (3,), (9, 9), (9, 6), (6,), (6,), (9, 3))
NO_SPANS = Spans._make([*(np.zeros((0, *shape)) for shape in _SHAPES), np.zeros(3)])
_NO_INDEX = np.zeros(0, np.int64)
NO_MOTIONS = Motions(
    _NO_INDEX, _NO_INDEX, _NO_INDEX, np.zeros((0, 4, 4)), np.zeros((0, 6, 6)), np.zeros((0, 2))
)
NOTHING_TIMED = Timed(
    np.zeros(0, np.int64),
    NO_SPANS,
    np.zeros(0),
    np.zeros(0),
    np.zeros((0, 3, 1)),
    np.zeros((0, 3, 3)),
    _loss(Loss()),
)


def stack_priors(priors: tuple[GaussianPrior, ...]) -> StackedPriors:
    """The priors in one stack."""
    size = STATE + SHARED
    if not priors:
        return StackedPriors(
            np.zeros(0, np.int64),
            States(np.zeros((0, 4, 4)), np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3))),
            np.zeros((0, 3, 3)), np.zeros((0, 4, 4)), np.zeros((0, 4, 4)), np.zeros((0, 10)),
            np.zeros((0, size, size)), np.zeros((0, size)), np.zeros(0),
        )  # fmt: skip
    if len(priors) == 1:
        (prior,) = priors
        return StackedPriors._make(
            [
                np.array([prior.index]),
                prior.state,
                *(values[None] for values in prior.shared),
                prior.info[None],
                prior.eta[None],
                np.array([prior.constant]),
            ]
        )
    states = (np.concatenate(parts) for parts in zip(*(p.state for p in priors), strict=True))
    shared = (np.array(values) for values in zip(*(p.shared for p in priors), strict=True))
    return StackedPriors._make(
        [
            np.array([p.index for p in priors], dtype=np.int64),
            States(*states),
            *shared,
            np.array([p.info for p in priors]),
            np.array([p.eta for p in priors]),
            np.array([p.constant for p in priors], dtype=np.float64),
        ]
    )
