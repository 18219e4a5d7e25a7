"""Figures of states and results: velocity, residuals, excitation, biases."""

import numpy as np

from maci2.errors import MeasurementError
from maci2.estimator import Posterior, SolverConfig, VIState
from maci2.estimator.initialize import window_at
from maci2.estimator.residuals import whitened_factors
from maci2.estimator.solver import CAMERA, IMU, covariance
from maci2.geometry import se3_inv, se3_log
from maci2.imu import ImuMeasurements
from maci2.report.charts import Series, bars, chart
from maci2.report.html import figure
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


LEAST_LEFT = 0.02
"""Fraction of a residual's variance below which the estimate merely follows the measurement."""

CONFIG = SolverConfig(tracked_vertical=False)


def normalized_residuals(
    state: VIState, vision: RelativePoses, imu: ImuMeasurements, inflation: float = 1.0
) -> Array:
    """(n - 1,) ratio of the root mean square of all residuals between two keyframes to its
    expectation; NaN if that is zero. `inflation` is the factor on the variances."""
    solution = window_at(imu, vision, state, CONFIG, inflation)
    squares, redundancy, counts = np.zeros((3, len(state.stamps_ns) - 1))
    try:
        posterior = covariance(solution)
    except MeasurementError:
        return np.full(len(squares), np.nan)
    for kind in (IMU, CAMERA):
        factors = whitened_factors(solution, posterior, kind)
        measured = vision.measured[factors.index] | (kind == IMU)
        index = factors.index[measured]
        np.add.at(squares, index, np.sum(factors.white[measured] ** 2, axis=1))
        np.add.at(redundancy, index, factors.redundancy[measured].sum(axis=1))
        np.add.at(counts, index, factors.white.shape[1])
    known = redundancy > LEAST_LEFT * counts
    return np.sqrt(np.where(known, squares / np.where(known, redundancy, 1.0), np.nan))


def visual_sigmas(state: VIState, vision: RelativePoses) -> Array:
    """(n - 1, 2) root mean square of the translation's and the rotation's residual, in the stated
    standard deviations."""
    Ts_c0_c = state.Ts_c0_b @ state.T_b_c
    residuals = np.array(
        [
            se3_log(np.ascontiguousarray(T_ck_ck1 @ se3_inv(T_c0_ck1) @ T_c0_ck))
            for T_ck_ck1, T_c0_ck, T_c0_ck1 in zip(
                vision.Ts_ck_ck1, Ts_c0_c[:-1], Ts_c0_c[1:], strict=True
            )
        ]
    )
    squares = residuals**2 / np.diagonal(vision.covs_T_ck_ck1, axis1=1, axis2=2)
    return np.asarray(np.sqrt(squares.reshape(-1, 2, 3).mean(axis=2)))
