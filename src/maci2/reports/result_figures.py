"""Pictures of a result: velocity, residuals, excitation, biases."""

import numpy as np

from maci2.estimation import Posterior, VIState
from maci2.imu import ImuMeasurements
from maci2.reports.bar_charts import bars
from maci2.reports.html import figure
from maci2.reports.normalized_residuals import normalized_residuals, visual_sigmas
from maci2.reports.svg import Series, chart
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
    rates = [Series(axis, time_s, gyro[:, i]) for i, axis in enumerate(AXES)]
    forces = [Series(axis, time_s, acc[:, i]) for i, axis in enumerate(AXES)]
    return figure(
        chart(rates, "time [s]", "angular rate [deg/s]"), "Angular rate in the window."
    ) + figure(chart(forces, "time [s]", "specific force [m/s²]"), "Specific force in the window.")


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
