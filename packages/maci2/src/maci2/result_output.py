"""Results as text for the terminal, as records for `--json`, and as figures.

Figures need matplotlib, which comes with the extra `report`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from maci2.errors import MeasurementError, OptionError
from maci2.files import finite_or_none
from maci2.geometry import so3_log
from maci2.text_tables import sigmas, table_text, vector
from maci2.types import NS, Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from maci2.estimator.results import (
        CalibrationResult,
        CalibrationStage,
        InitResult,
        Posterior,
        SolveReport,
        Verdict,
        VIState,
    )

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""Value of a JSON file."""

Record = dict[str, Json]

NOTHING_IMPROVED = 1.1
"""Factor on the final standard deviations within which a stage counts as final."""


def stds(cov: Array) -> Array:
    """Square roots of the diagonal, for one covariance or a stack."""
    return np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))


def verdict_text(verdict: "Verdict") -> str:
    """Status, reasons and constants taken as given, one per line."""
    lines = [f"verdict: {verdict.status}", *(f"  - {why}" for why in verdict.reasons)]
    return "\n".join([*lines, *(f"  - taken as given: {what}" for what in verdict.taken_as_given)])


def initialization_text(result: "InitResult", errors: Mapping[str, str] | None = None) -> str:
    """Estimate, 1-sigma and, if in `errors`, the true error, side by side.

    Keys of `errors` are gravity, velocity, gyro_bias and acc_bias.
    """
    state, posterior = result.state, result.posterior
    if state is None or posterior is None:
        return verdict_text(result.verdict)
    last = f"velocity_b{len(state.stamps_ns) - 1} [m/s]"
    angle = f"{result.gravity_std_deg:.3f} deg"
    rows = {"gravity": ("gravity_c0 [m/s^2]", vector(state.gravity_c0), angle)}
    for key, label, value, cov in (
        ("velocity", last, state.velocity_b[-1], posterior.velocity_b[-1]),
        ("gyro_bias", "gyro bias [rad/s]", state.gyro_bias, posterior.gyro_bias),
        ("acc_bias", "acc bias [m/s^2]", state.acc_bias, posterior.acc_bias),
    ):
        rows[key] = (label, vector(value), sigmas(stds(cov)))
    seconds = float(state.stamps_ns[-1] - state.stamps_ns[0]) / NS
    title = (
        f"{len(state.stamps_ns)} keyframes, {seconds:.2f} s, solved in "
        f"{result.report.solve_ms:.1f} ms"
    )
    table = _estimates(title, "state", rows, "true error", errors or {})
    return f"{table}\n{verdict_text(result.verdict)}"


def calibration_text(
    result: "CalibrationResult",
    T_b_c: Array | None = None,
    given: Mapping[str, str] | None = None,
    nominal_offset_s: float = 0.0,
) -> str:
    """Extrinsics with 1-sigma and, if in `given`, the difference from the given ones.

    `T_b_c` is shown instead of the result's own, where that belongs to a rectified image. Keys of
    `given` are rotation and translation.
    """
    if result.state is None or result.posterior is None:
        return verdict_text(result.verdict)
    shown = result.state.T_b_c if T_b_c is None else T_b_c
    std, report = stds(result.posterior.T_b_c), result.report
    phi_deg = np.rad2deg(so3_log(np.ascontiguousarray(shown[:3, :3])))
    rows = {
        "rotation": ("rotation [deg]", vector(phi_deg, 3), sigmas(np.rad2deg(std[3:6]), 3)),
        "translation": ("translation [m]", vector(shown[:3, 3]), sigmas(std[0:3])),
    }
    differences = dict(given or {})
    if report.time_offset_s is not None and report.std_time_offset_s is not None:
        offset_ms = 1e3 * (nominal_offset_s + report.time_offset_s)
        std_ms = 1e3 * report.std_time_offset_s
        rows["offset"] = ("time offset [ms]", f"{offset_ms:+.2f}", f"{std_ms:.2f}")
        if given:
            differences["offset"] = f"{1e3 * report.time_offset_s:+.2f} ms"
    title = (
        f"T_b_c0 (c0: left camera, b: IMU), {len(result.state.stamps_ns)} keyframes, solved in "
        f"{report.solve_ms:.0f} ms"
    )
    table = _estimates(title, "extrinsics", rows, "difference", differences)
    return "\n".join([table, *progress_lines(result.progress), verdict_text(result.verdict)])


def _estimates(
    title: str, name: str, rows: Mapping[str, Sequence[str]], other: str, others: Mapping[str, str]
) -> str:
    """Table of estimates with a further column `other`, if there is anything in it."""
    columns, cells = [name, "estimate", "1-sigma"], list(rows.values())
    if others:
        columns.append(other)
        cells = [(*row, others.get(key, "-")) for key, row in rows.items()]
    return table_text(title, columns, cells)


def progress_lines(progress: "tuple[CalibrationStage, ...]") -> list[str]:
    """Progress over the stages of a calibration; empty with a single stage."""
    if len(progress) < 2:
        return []
    shown = [progress[i] for i in np.unique(np.linspace(0, len(progress) - 1, 6).astype(int))]
    sigmas_text = "; ".join(
        f"{stage.seconds:.0f} s: {np.rad2deg(stage.std[3:].max()):.3f} deg, "
        f"{1e3 * stage.std[:3].max():.1f} mm"
        for stage in shown
    )
    lines = [f"largest 1-sigma after {sigmas_text}"]
    last = progress[-1]
    enough = [stage for stage in progress if (stage.std <= NOTHING_IMPROVED * last.std).all()]
    if len(progress) - progress.index(enough[0]) > 1:
        lines.append(f"after {enough[0].seconds:.0f} s the standard deviations no longer improved")
    return lines


def initialization_record(result: "InitResult", nominal_offset_s: float = 0.0) -> Record:
    """Record of `maci2 init --json` without `errors`; `nominal_offset_s`, the rig's own time
    offset, is included in the estimated one."""
    state, posterior, record = result.state, result.posterior, _verdict_record(result.verdict)
    if state is not None and posterior is not None:
        record |= {
            "start_ns": int(state.stamps_ns[0]),
            "stamps_ns": state.stamps_ns.tolist(),
            "gravity_c0": state.gravity_c0.tolist(),
            "gravity_std_deg": result.gravity_std_deg,
            "velocity_b": state.velocity_b.tolist(),
            "velocity_std": stds(posterior.velocity_b).tolist(),
            **_bias_record(state, posterior),
            "T_c0_b": state.Ts_c0_b.tolist(),
        }
    return record | report_record(result.report, nominal_offset_s)


def calibration_record(result: "CalibrationResult", nominal_offset_s: float = 0.0) -> Record:
    """Record of `maci2 calibrate --json` without `errors`."""
    state, posterior, record = result.state, result.posterior, _verdict_record(result.verdict)
    if state is not None and posterior is not None:
        record |= {
            "T_b_c": state.T_b_c.tolist(),
            "std": stds(posterior.T_b_c).tolist(),
            **_bias_record(state, posterior),
            "progress": [
                {"seconds": s.seconds, "std": s.std.tolist(), "moved": s.moved.tolist()}
                for s in result.progress
            ],
        }
    return record | report_record(result.report, nominal_offset_s)


def _bias_record(state: "VIState", posterior: "Posterior") -> Record:
    return {
        "gyro_bias": state.gyro_bias.tolist(),
        "gyro_bias_std": stds(posterior.gyro_bias).tolist(),
        "acc_bias": state.acc_bias.tolist(),
        "acc_bias_std": stds(posterior.acc_bias).tolist(),
    }


def report_record(report: "SolveReport", nominal_offset_s: float = 0.0) -> Record:
    """Record of the optimization; quantities that were not estimated have no key."""
    record: Record = {}
    if nominal_offset_s != 0.0:
        record["stated_time_offset_s"] = nominal_offset_s
    if report.scale is not None:
        record |= {"vision_scale": report.scale, "vision_scale_std": report.std_scale}
    if report.time_offset_s is not None:
        record["time_offset_s"] = nominal_offset_s + report.time_offset_s
        record["time_offset_std_s"] = report.std_time_offset_s
    return record | {
        "cost": finite_or_none(report.cost),
        "dof": report.dof,
        "inflation": report.inflation,
        "rejected": report.rejected,
        "set_aside": report.rejected,  # the name it had in version 0.1
        "iterations": report.iterations,
        "solves": report.solves,
        "solve_ms": report.solve_ms,
    }


def _verdict_record(verdict: "Verdict") -> Record:
    return {
        "status": verdict.status,
        "reasons": list(verdict.reasons),
        "taken_as_given": list(verdict.taken_as_given),
    }


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
