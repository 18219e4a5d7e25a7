"""Figures of results; matplotlib comes with the extra `report`."""

from typing import TYPE_CHECKING

import numpy as np

from maci2.errors import MeasurementError, OptionError
from maci2.estimation.result_output import stds
from maci2.types import NS, Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from maci2.estimator.results import CalibrationResult, InitResult

AXES = "xyz"


def plot_initialization(result: "InitResult") -> "Figure":
    """Velocity over the window, gravity and biases, each with its 2-sigma band."""
    state, posterior = result.state, result.posterior
    if state is None or posterior is None:
        raise _nothing_to_plot(result)
    figure = _figure(10.0, 3.4)
    velocity, gravity, gyro, acc = figure.subplots(1, 4, width_ratios=(3, 1, 1, 1))
    t_s = (state.stamps_ns - state.stamps_ns[0]) / NS
    for i, axis in enumerate(AXES):
        value, std = state.velocity_b[:, i], stds(posterior.velocity_b)[:, i]
        (line,) = velocity.plot(t_s, value, marker=".", label=axis)
        velocity.fill_between(
            t_s, value - 2.0 * std, value + 2.0 * std, alpha=0.25, color=line.get_color(), lw=0
        )
    velocity.set(title="velocity_b [m/s]", xlabel="time [s]")
    velocity.legend()
    _bars(gravity, "gravity_c0 [m/s^2]", state.gravity_c0, stds(posterior.gravity_c0))
    _bars(gyro, "gyro bias [rad/s]", state.gyro_bias, stds(posterior.gyro_bias))
    _bars(acc, "acc bias [m/s^2]", state.acc_bias, stds(posterior.acc_bias))
    figure.suptitle(f"initialization: {result.verdict.status}; bands and bars are 2 sigma")
    return figure


def plot_calibration(result: "CalibrationResult") -> "Figure":
    """Standard deviations of the extrinsics, per axis of the IMU."""
    if result.state is None or result.posterior is None:
        raise _nothing_to_plot(result)
    figure = _figure(7.0, 3.4)
    translation, rotation = figure.subplots(1, 2)
    std = stds(result.posterior.T_b_c)
    position = result.state.T_b_c[:3, 3]
    _bars(translation, "camera in the IMU frame [m]", position, std[0:3])
    rotation.bar(list(AXES), np.rad2deg(std[3:6]))
    rotation.set(title="1-sigma of the rotation [deg]")
    figure.suptitle(f"calibration: {result.verdict.status}; error bars are 2 sigma")
    return figure


def _bars(axes: "Axes", title: str, values: Array, std: Array) -> None:
    axes.errorbar(list(AXES), values, yerr=2.0 * std, fmt="o", capsize=4)
    axes.axhline(0.0, color="0.7", lw=0.8)
    axes.set(title=title)


def _figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise OptionError(
            "plot() needs matplotlib, which is not installed: pip install 'maci2[report]'."
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def _nothing_to_plot(result: "InitResult | CalibrationResult") -> MeasurementError:
    reasons = "; ".join(result.verdict.reasons)
    return MeasurementError(f"no state to plot, the verdict is {result.verdict.status}: {reasons}.")
