"""Arrays of a chain problem: samples integrated at the present biases and clock offsets."""

import numpy as np

from maci2.chain.chain_arrays import (
    CAUCHY,
    HUBER,
    NO_LOSS,
    Factors,
    StackedPriors,
    Ties,
    Timed,
)
from maci2.chain.chain_measurements import (
    ChainProblem,
    GaussianPrior,
    Loss,
    MarkerOrientations,
    MarkerPositions,
    Stamps,
)
from maci2.chain.chain_state import (
    BORDER,
    ORIENTATION_CLOCK_AT,
    POSITION_CLOCK_AT,
    STATE,
    Border,
    States,
)
from maci2.chain.propagation import Spans, integrate_spans
from maci2.errors import MeasurementError
from maci2.gaussian import square_root_information
from maci2.imu import ImuMeasurements
from maci2.imu.preintegration import MAX_GAP_PERIODS
from maci2.types import NS, Array

_LOSSES = {"none": NO_LOSS, "huber": HUBER, "cauchy": CAUCHY}


def assemble(
    problem: ChainProblem, states: States, border: Border, before: Factors | None = None
) -> Factors:
    """Everything measured, linearized where the biases and clocks now are.

    `before` are the factors of the chain's first states, as assembled earlier: their ties and
    relative poses are taken from there, at the biases they were integrated with.
    """
    return Factors(
        _ties(problem, states, before.ties if before is not None else None),
        _timed(problem, problem.positions, states, border, POSITION_CLOCK_AT),
        _timed(problem, problem.orientations, states, border, ORIENTATION_CLOCK_AT),
        stack_priors(problem.priors),
    )


def _biases(states: States) -> Array:
    return np.hstack([states.bias_gyro, states.bias_acc])


def _ties(problem: ChainProblem, states: States, before: Ties | None) -> Ties:
    stamps_ns, camera = problem.stamps_ns, problem.camera
    bias = _biases(states)
    known = 0 if before is None else len(before.white)
    new_ns = stamps_ns[known:]
    spans = integrate_spans(problem.imu, new_ns[:-1], new_ns[1:], bias[known:-1])
    white = square_root_information(walking_covariance(spans, problem.walk_gyro, problem.walk_acc))
    # Across a gap of the samples only the biases are tied.
    white[_across_gaps(problem.imu, new_ns, problem.longest_tie_s), :9] = 0.0
    none = camera is None or not len(camera.index)
    known_instants = 0 if before is None else len(before.instant.dt)
    at_ns = stamps_ns[:0] if none else stamps_ns[known_instants:]
    at_bias = bias[known_instants : known_instants + len(at_ns)]
    instant = integrate_spans(problem.imu, at_ns, at_ns, at_bias)
    if before is not None:
        spans, instant = _joined(before.spans, spans), _joined(before.instant, instant)
        white = np.concatenate([before.white, white])
    camera_white = np.zeros((0, STATE, STATE)) if before is None else before.camera_white
    if camera is not None:
        further = _padded(camera.covs[len(camera_white) :])
        camera_white = np.concatenate([camera_white, further])
    return Ties(
        spans,
        white,
        np.zeros((0, 4, 4)) if camera is None else np.ascontiguousarray(camera.Ts_ck_ck1),
        np.zeros(0, np.int64) if camera is None else np.asarray(camera.index, dtype=np.int64),
        camera_white,
        _loss(Loss() if camera is None else camera.loss),
        instant,
    )


def _joined(spans: Spans, further: Spans) -> Spans:
    return Spans(*(np.concatenate(values) for values in zip(spans, further, strict=True)))


def _padded(covs: Array) -> Array:
    """(m, 15, 15) with square roots of information in the upper left corner."""
    white = np.zeros((len(covs), STATE, STATE))
    if len(covs):
        white[:, :6, :6] = square_root_information(covs)
    return white


_POWERS = np.repeat([[1, 0], [2, 1], [3, 2], [0, 0], [0, 0]], 3, axis=0).T
_SHARED = 1.0 / (_POWERS[:, :, None] + _POWERS[:, None, :] + 1.0)
"""(2, 15) powers of the remaining time with which each row answers a walking gyroscope and
accelerometer bias, and (2, 15, 15) integrals of their products."""


def walking_covariance(spans: Spans, walk_gyro: float, walk_acc: float) -> Array:
    """(m, 15, 15) of preintegrated motion and bias change together, order [gamma, beta, alpha,
    gyro bias, acc bias].

    A bias that walks within a span acts on velocity for what is left of it, on position for the
    square of that: rows have powers of the remaining time, and the integral of a product of two
    powers is 1 / (their sum + 1).
    """
    m = len(spans.dt)
    cov = np.zeros((m, STATE, STATE))
    cov[:, :9, :9] = spans.cov
    for sensor, walk in enumerate((walk_gyro, walk_acc)):
        response = np.zeros((m, STATE, 3))
        response[:, :9] = spans.by_bias[:, :, 3 * sensor : 3 * sensor + 3]
        response[:, 9 + 3 * sensor : 12 + 3 * sensor] = np.eye(3)
        variance = (walk**2 * spans.dt)[:, None, None]
        cov += variance * _SHARED[sensor] * (response @ np.swapaxes(response, 1, 2))
    return cov


def _across_gaps(imu: ImuMeasurements, stamps_ns: Stamps, longest_tie_s: float) -> Array:
    """(n - 1,) whether samples are missing between two states, or the states are far apart."""
    steps_ns = np.diff(imu.stamps_ns)
    first = np.searchsorted(imu.stamps_ns, stamps_ns[:-1], side="right") - 1
    last = np.searchsorted(imu.stamps_ns, stamps_ns[1:], side="left")
    if first[0] < 0 or last[-1] >= len(imu.stamps_ns):
        raise MeasurementError(
            f"{imu.source}: the IMU covers {imu.stamps_ns[0]}..{imu.stamps_ns[-1]} ns but the "
            f"chain needs {stamps_ns[0]}..{stamps_ns[-1]} ns; drop states outside the IMU samples."
        )
    longest_ns = np.array([steps_ns[a:b].max() for a, b in zip(first, last, strict=True)])
    far = np.diff(stamps_ns) > longest_tie_s * NS
    return np.asarray(far | (longest_ns > MAX_GAP_PERIODS * np.median(steps_ns)))


def _loss(loss: Loss) -> Array:
    return np.array([_LOSSES[loss.kind], loss.limit], dtype=np.float64)


def _timed(
    problem: ChainProblem,
    measured: MarkerPositions | MarkerOrientations | None,
    states: States,
    border: Border,
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
    anchor_ns = np.rint(NS * (border.scalars[clock] + border.scalars[clock + 2] * elapsed))
    instants_ns = stamps_ns + anchor_ns.astype(np.int64)
    inside = (instants_ns >= problem.stamps_ns[0]) & (instants_ns <= problem.stamps_ns[-1])
    instants_ns = instants_ns[inside]
    index = np.searchsorted(problem.stamps_ns, instants_ns, side="right") - 1
    return Timed(
        index,
        integrate_spans(problem.imu, problem.stamps_ns[index], instants_ns, _biases(states)[index]),
        anchor_ns[inside] / NS,
        elapsed[inside],
        np.ascontiguousarray(value[inside]),
        square_root_information(covs[inside]) if inside.any() else np.zeros((0, 3, 3)),
        _loss(measured.loss),
    )


NOTHING_TIMED = Timed(
    np.zeros(0, np.int64),
    Spans(
        *(np.zeros((0, *shape)) for shape in ((), (3, 3), (3,), (3,), (9, 9), (9, 6), (6,), (6,)))
    ),
    np.zeros(0),
    np.zeros(0),
    np.zeros((0, 3, 1)),
    np.zeros((0, 3, 3)),
    _loss(Loss()),
)
"""Neither positions nor orientations."""


def stack_priors(priors: tuple[GaussianPrior, ...]) -> StackedPriors:
    size = STATE + BORDER
    if not priors:
        return StackedPriors(
            np.zeros(0, np.int64), np.zeros((0, 4, 4)), np.zeros((0, 9)), np.zeros((0, 3, 3)),
            np.zeros((0, 4, 4)), np.zeros((0, 4, 4)), np.zeros((0, 7)), np.zeros((0, size, size)),
            np.zeros((0, size)), np.zeros(0),
        )  # fmt: skip
    rests = [
        np.concatenate([p.state.v_w[0], p.state.bias_gyro[0], p.state.bias_acc[0]]) for p in priors
    ]
    return StackedPriors(
        np.array([p.index for p in priors], dtype=np.int64),
        np.array([p.state.Ts_w_b[0] for p in priors]),
        np.array(rests),
        np.array([p.border.R_w_g for p in priors]),
        np.array([p.border.T_b_c for p in priors]),
        np.array([p.border.T_b_m for p in priors]),
        np.array([p.border.scalars for p in priors]),
        np.array([p.info for p in priors]),
        np.array([p.eta for p in priors]),
        np.array([p.constant for p in priors], dtype=np.float64),
    )
