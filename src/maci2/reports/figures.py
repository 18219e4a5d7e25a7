"""Figures of states and results: velocity, residuals, excitation, biases."""

from typing import NamedTuple

import numpy as np

from maci2.estimation import Posterior, VIState
from maci2.estimation.residuals import BA, BG, COLUMNS, XI_BC, G, imu_residual, visual_residual
from maci2.imu import ImuMeasurements, preintegrate
from maci2.reports.charts import Series, bars, chart
from maci2.reports.html import figure
from maci2.types import NS, Array, Stamps
from maci2.vision import RelativePoses

AXES = "xyz"


def seconds(stamps_ns: Stamps, start_ns: int) -> Array:
    """Time since a start [s]."""
    return np.asarray((stamps_ns - start_ns) / NS, dtype=np.float64)


def velocity_figure(state: VIState, posterior: Posterior) -> str:
    """Velocity over time with three standard deviations."""
    time_s = seconds(state.stamps_ns, int(state.stamps_ns[0]))
    std = np.sqrt(np.diagonal(posterior.velocity_b, axis1=1, axis2=2))
    series = [
        Series(f"{axis}", time_s, state.velocity_b[:, i], 3.0 * std[:, i])
        for i, axis in enumerate(AXES)
    ]
    return figure(
        chart(series, "time [s]", "velocity [m/s]"),
        "Velocity of the body, each in its own body frame, with three standard deviations.",
    )


def residual_figure(
    state: VIState, vision: RelativePoses, imu: ImuMeasurements, inflation: float = 1.0
) -> str:
    """Residuals in units of their expected standard deviation."""
    time_s = seconds(state.stamps_ns[1:], int(state.stamps_ns[0]))
    found = normalized_residuals(state, vision, imu, inflation)
    series = [
        Series("vision and IMU", time_s, found, marks=True),
        Series("expected", time_s, np.ones(len(time_s)), dashed=True),
    ]
    return figure(
        chart(series, "time [s]", "residual / expected", from_zero=True),
        "Root mean square of all residuals between two keyframes, over what the stated noise "
        "leaves of them after the fit: about 1 where noise is as stated.",
    )


def visual_residual_figure(state: VIState, vision: RelativePoses) -> str:
    """Residuals of relative poses, in their own standard deviations."""
    time_s = seconds(state.stamps_ns[1:], int(state.stamps_ns[0]))
    sigmas = np.where(vision.measured[:, None], visual_sigmas(state, vision), np.nan)
    series = [
        Series("translation", time_s, sigmas[:, 0], marks=True),
        Series("rotation", time_s, sigmas[:, 1], marks=True),
        Series("stated noise", time_s, np.ones(len(time_s)), dashed=True),
    ]
    return figure(
        chart(series, "time [s]", "residual [sigma]", from_zero=True),
        "Residual of each relative pose, root mean square over three axes, in its own standard "
        "deviations: about 1, or less where the estimate follows the camera.",
    )


def excitation_figure(imu: ImuMeasurements, start_ns: int, end_ns: int) -> str:
    """Angular rate and specific force inside the window, which make states observable."""
    inside = (imu.stamps_ns >= start_ns) & (imu.stamps_ns <= end_ns)
    step = max(int(inside.sum()) // 600, 1)
    time_s = seconds(imu.stamps_ns[inside][::step], start_ns)
    gyro = np.rad2deg(imu.gyro[inside][::step])
    acc = imu.acc[inside][::step]
    return components(
        time_s, gyro, "angular rate [deg/s]", "Angular rate in the window."
    ) + components(time_s, acc, "specific force [m/s²]", "Specific force in the window.")


def bias_figure(imu: ImuMeasurements, posterior: Posterior) -> str:
    """Standard deviations of the biases before and after the window."""
    prior = imu.bias_prior
    after_gyro = np.sqrt(np.diag(posterior.gyro_bias))
    after_acc = np.sqrt(np.diag(posterior.acc_bias))
    figures = []
    if np.isfinite(prior.std_gyro).all():
        pairs = 1e3 * np.column_stack([prior.std_gyro, after_gyro])
        svg = bars(AXES, pairs, ("prior", "posterior"), "1-sigma [mrad/s]")
        figures.append(figure(svg, "Gyroscope bias: 1-sigma before and after the window."))
    pairs = np.column_stack([prior.std_acc, after_acc])
    svg = bars(AXES, pairs, ("prior", "posterior"), "1-sigma [m/s²]")
    figures.append(figure(svg, "Accelerometer bias: 1-sigma before and after the window."))
    return "".join(figures)


POINTS = 700
"""Largest number of points of a line."""


def every_nth(count: int) -> int:
    """Stride that leaves at most `POINTS` of this many."""
    return max(-(-count // POINTS), 1)


def bands(time_s: Array, values: Array, std: Array, label: str, caption: str) -> str:
    """Three components over time, each with three standard deviations."""
    series = [Series(a, time_s, values[:, i], 3.0 * std[:, i]) for i, a in enumerate(AXES)]
    return figure(chart(series, "time [s]", label), f"{caption} Bands: three standard deviations.")


def spreads(time_s: Array, std: Array, label: str, caption: str) -> str:
    """Standard deviations of three components over time."""
    series = [Series(a, time_s, std[:, i]) for i, a in enumerate(AXES)]
    return figure(chart(series, "time [s]", label, from_zero=True), caption)


def components(time_s: Array, values: Array, label: str, caption: str) -> str:
    """Three components over time."""
    series = [Series(a, time_s, np.asarray(values[:, i])) for i, a in enumerate(AXES)]
    return figure(chart(series, "time [s]", label), caption)


PER_STATE = 9
"""Number of unknowns of a keyframe: pose and velocity."""

LEAST_LEFT = 0.02
"""Fraction of a residual's variance below which the estimate merely follows the measurement."""


class _Whitened(NamedTuple):
    """Residual and derivatives of one measurement, in its own standard deviations."""

    r: Array
    J: Array
    """Derivatives by pose and velocity of keyframes k and k + 1, gravity and both biases."""


def normalized_residuals(
    state: VIState, vision: RelativePoses, imu: ImuMeasurements, inflation: float = 1.0
) -> Array:
    """(n - 1,) ratio of the root mean square of all residuals between two keyframes to its
    expectation; NaN if that is zero. `inflation` is the factor on the variances."""
    n, free = len(state.stamps_ns), _free_directions(state)
    both = zip(_visual(state, vision), _inertial(state, imu), strict=True)
    steps = [_scaled(_joined(*pair), inflation) for pair in both]
    rows = [_spread_out(step, k, n) @ free for k, step in enumerate(steps)]
    information = free.T @ np.diag(_prior_information(n, imu)) @ free
    information += sum(row.T @ row for row in rows)
    P = np.linalg.pinv(information, hermitian=True)
    return np.array(
        [_ratio(step.r, row @ P @ row.T) for step, row in zip(steps, rows, strict=True)]
    )


def _joined(one: _Whitened, other: _Whitened) -> _Whitened:
    return _Whitened(np.concatenate([one.r, other.r]), np.concatenate([one.J, other.J]))


def visual_sigmas(state: VIState, vision: RelativePoses) -> Array:
    """(n - 1, 2) root mean square of the translation's and the rotation's residual, in the stated
    standard deviations."""
    residuals, _ = _visual_residuals(state, vision)
    squares = residuals**2 / np.diagonal(vision.covs_T_ck_ck1, axis1=1, axis2=2)
    return np.asarray(np.sqrt(squares.reshape(-1, 2, 3).mean(axis=2)))


def _ratio(r: Array, followed: Array) -> float:
    left = 1.0 - float(np.trace(followed)) / len(r)
    return float(np.sqrt(r @ r / len(r) / left)) if left > LEAST_LEFT else np.nan


def _scaled(one: _Whitened, inflation: float) -> _Whitened:
    return _Whitened(one.r / np.sqrt(inflation), one.J / np.sqrt(inflation))


def _visual_residuals(state: VIState, vision: RelativePoses) -> tuple[Array, Array]:
    """(n - 1, 6) and (n - 1, 6, 33)."""
    steps = len(vision.Ts_ck_ck1)
    residuals, derivatives = np.empty((steps, 6)), np.zeros((steps, 6, COLUMNS))
    for k, T_ck_ck1 in enumerate(vision.Ts_ck_ck1):
        visual_residual(
            np.ascontiguousarray(T_ck_ck1), state.Ts_c0_b[k], state.Ts_c0_b[k + 1], state.T_b_c,
            residuals[k], derivatives[k],
        )  # fmt: skip
    return residuals, derivatives


def _visual(state: VIState, vision: RelativePoses) -> list[_Whitened]:
    residuals, derivatives = _visual_residuals(state, vision)
    used = vision.measured
    whitened = map(_whitened, residuals, derivatives, vision.covs_T_ck_ck1)
    return [one if used[k] else _scaled(one, np.inf) for k, one in enumerate(whitened)]


def _inertial(state: VIState, imu: ImuMeasurements) -> list[_Whitened]:
    residual_gyro, residual_acc = state.gyro_bias_residual, state.acc_bias_residual
    pre = preintegrate(imu, state.stamps_ns, residual_gyro, residual_acc)
    zero, whitened = np.zeros(3), []
    for k in range(len(pre.dt)):
        r, J = np.empty(9), np.zeros((9, COLUMNS))
        imu_residual(
            float(pre.dt[k]), pre.gamma[k], pre.beta[k], pre.alpha[k], pre.D_bg[k], pre.D_ba[k],
            state.Ts_c0_b[k], state.velocity_b[k], state.Ts_c0_b[k + 1], state.velocity_b[k + 1],
            state.gravity_c0, zero, zero, r, J,
        )  # fmt: skip
        whitened.append(_whitened(r, J, pre.cov[k]))
    return whitened


def _whitened(r: Array, J: Array, cov: Array) -> _Whitened:
    L = np.linalg.cholesky(cov)
    return _Whitened(np.linalg.solve(L, r), np.linalg.solve(L, J[:, : XI_BC.start]))


def _spread_out(one: _Whitened, k: int, n: int) -> Array:
    """Derivatives by all states, gravity and biases."""
    row = np.zeros((len(one.r), PER_STATE * n + 9))
    row[:, PER_STATE * k : PER_STATE * (k + 2)] = one.J[:, : G.start]
    row[:, PER_STATE * n :] = one.J[:, G.start : BA.stop]
    return row


def _prior_information(n: int, imu: ImuMeasurements) -> Array:
    information = np.zeros(PER_STATE * n + 9)
    shift = PER_STATE * n - G.start
    information[BG.start + shift : BG.stop + shift] = imu.bias_prior.std_gyro**-2.0
    information[BA.start + shift : BA.stop + shift] = imu.bias_prior.std_acc**-2.0
    return information


def _free_directions(state: VIState) -> Array:
    """Columns of free unknowns: the first pose is fixed, and gravity keeps its norm."""
    n = len(state.stamps_ns)
    size = PER_STATE * n + 9
    down = state.gravity_c0 / np.linalg.norm(state.gravity_c0)
    level = np.linalg.svd(down[None, :])[2][1:].T
    free = np.zeros((size, size - 7))
    places = [i for i in range(6, size) if not 0 <= i - PER_STATE * n < 3]
    free[places, np.arange(len(places))] = 1.0
    free[PER_STATE * n : PER_STATE * n + 3, len(places) :] = level
    return free
