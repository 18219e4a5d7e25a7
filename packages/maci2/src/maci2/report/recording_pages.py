"""Reports about recordings: `maci2 check`, `truth` and `noise`."""

from collections.abc import Iterator
from html import escape

import numpy as np

from maci2.datasets.frames import stereo_frames
from maci2.errors import ImageError, Maci2Error
from maci2.findings import LEVELS
from maci2.geometry.se3 import so3_log_stack
from maci2.report.charts import (
    POINTS,
    WITH_BANDS,
    Series,
    chart,
    components,
    every_nth,
    imu_figures,
    picture,
    ranges,
    seconds,
)
from maci2.report.drawings import caption, embedded, path_drawing, rig_drawing
from maci2.report.html import (
    Section,
    bullets,
    figure,
    findings_list,
    page,
    side_by_side,
    table,
)
from maci2.result_output import stds
from maci2.sensors import GroundTruth, Recording, truth_at
from maci2.tools.diagnostics.diagnosis import IMAGE_COLUMNS, SENSOR_COLUMNS, Diagnosis
from maci2.tools.ground_truth.audit import AuditedTruth
from maci2.tools.imu_noise.consistency import CHECK_COLUMNS, NoiseCheck, check_rows
from maci2.tools.imu_noise.run import (
    SENSORS,
    AllanDeviation,
    MeasuredImu,
    noise_remarks,
    noise_rows,
)
from maci2.types import GRAVITY_NORM, NS, Array

TRIES = 20
"""Number of unreadable stereo pairs after which none is shown."""


def diagnostics_page(diagnosis: Diagnosis, recording: Recording | None, command: str) -> str:
    """HTML of a diagnosis; plots are omitted if the recording cannot be opened."""
    usable = "usable" if diagnosis.usable else "not usable"
    advice = diagnosis.first_line.partition(" ")[2].strip()
    lead = f"<p class='first {diagnosis.findings[0].level}'><b>{usable}</b>. {escape(advice)}</p>"
    sections = [Section("Findings", findings_list(diagnosis.findings)), _sensors(diagnosis)]
    if recording is not None:
        drawn = [rig_drawing(recording.rig)] if recording.rig.extrinsics_known else []
        pair = _first_pair(recording)
        if pair:
            drawn.append(figure(pair, "First stereo pair that can be read, left above right."))
        samples = imu_figures(recording.imu, "Gyroscope.", "Accelerometer.")
        sections += [
            Section("Rig and images", side_by_side(*drawn)),
            Section("IMU samples", side_by_side(samples)),
            Section("Timing", side_by_side(*_timing(recording))),
        ]
    return page(f"Check: {diagnosis.name}", lead, sections, command)


def _first_pair(recording: Recording) -> str:
    """SVG of both images; empty without images."""
    try:
        frames = stereo_frames(recording)
    except Maci2Error:
        return ""
    for index in range(min(len(frames), TRIES)):
        try:
            pair = frames.pair(index)
        except ImageError:
            continue
        both = np.vstack([pair.left, pair.right])
        return picture(both.shape[1], both.shape[0], embedded(both))
    return ""


def _sensors(diagnosis: Diagnosis) -> Section:
    rows = [(name, *timing.cells()) for name, timing in diagnosis.sensors]
    body = table(("sensor", *SENSOR_COLUMNS), rows)
    if diagnosis.images is not None:
        rows = [(f"cam{i}", *camera.cells()) for i, camera in enumerate(diagnosis.images.cameras)]
        body += f"<h3>Images, at {diagnosis.images.places} places of the recording</h3>"
        body += table(("camera", *IMAGE_COLUMNS), rows)
    return Section("Sensors", body)


def _timing(recording: Recording) -> Iterator[str]:
    """Intervals between samples, which show gaps, jitter and drops."""
    start_ns = int(recording.imu.stamps_ns[0])
    cameras = [(f"cam{i}", "image", stamps) for i, stamps in enumerate(recording.camera_stamps_ns)]
    for name, what, stamps_ns in [("IMU", "sample", recording.imu.stamps_ns), *cameras]:
        if len(stamps_ns) < 2:
            continue
        step_ms = np.diff(stamps_ns) / 1e6
        # The largest of each part: a line with fewer points would miss the gaps.
        parts = np.array_split(np.arange(len(step_ms)), min(POINTS, len(step_ms)))
        kept = np.array([part[np.argmax(step_ms[part])] for part in parts])
        series = Series(name, seconds(stamps_ns[1:], start_ns)[kept], step_ms[kept])
        svg = chart([series], "time [s]", "step [ms]", from_zero=True)
        yield figure(svg, f"{name}: from {what} to {what}.")


MAX_GAP_S = 0.1
UNIT_SUFFIX = {"deg": "_deg", "mm": "_mm", "ms": "_ms", "ms/min": "_ms_per_min"}
"""Suffixes of the constants' names that repeat their unit."""


def truth_page(audit: AuditedTruth, recording: Recording, command: str) -> str:
    """HTML of one audit; the audited ground truth is taken from the recording."""
    level = min((finding.level for finding in audit.findings), key=LEVELS.index, default="ok")
    text = audit.findings[0].text if audit.findings else "no contradiction to the IMU"
    if len(audit.findings) > 1:
        text += f"; {len(audit.findings)} findings in all"
    lead = f"<p class='first {level}'>{escape(text)}</p>{_known_to(audit)}"
    sections = [
        Section("Findings", findings_list(audit.findings)),
        Section("Constants of the source", _constants(audit)),
        Section("Residuals of the source", side_by_side(*_residuals(audit))),
        Section("States", _states(audit)),
    ]
    published = recording.truths.get(audit.name)
    if published is not None:
        differences = _differences(audit, published)
        sections.insert(2, Section("Published minus audited states", differences))
    return page(f"Ground truth: {recording.name}, {audit.name}", lead, sections, command)


def _known_to(audit: AuditedTruth) -> str:
    """Typical and largest standard deviations of the states."""
    rows = []
    for (name, scale, unit), std in zip(
        (
            ("orientation", 180.0 / np.pi, "deg"),
            ("velocity", 1e3, "mm/s"),
            ("position", 1e3, "mm"),
            ("gyroscope bias", 1e3, "mrad/s"),
            ("accelerometer bias", 1e3, "mm/s²"),
        ),
        np.split(stds(audit.cov_states), 5, axis=1),
        strict=True,
    ):
        numbers = scale * np.median(std), scale * np.quantile(std, 0.95)
        rows.append((f"{name} [{unit}]", *(f"{number:.3g}" for number in numbers)))
    stamps_ns = audit.truth.stamps_ns
    return table(("1-sigma, one axis", "median", "95 % below"), rows) + (
        f"<p>{len(stamps_ns)} states over {(stamps_ns[-1] - stamps_ns[0]) / NS:.1f} s, at the "
        f"IMU's samples. Chi-square {audit.chi_square:.0f} for {audit.dof} degrees of freedom; "
        f"{len(audit.jumps_ns)} rows of the source contradict the IMU.</p>"
    )


def _constants(audit: AuditedTruth) -> str:
    rows = [
        (
            name.removesuffix(UNIT_SUFFIX.get(constant.unit, "")).replace("_", " "),
            f"{constant.value:+.4g}",
            f"{constant.std:.2g}",
            constant.unit.replace("^2", "²"),
            "yes" if constant.significant else "no",
        )
        for name, constant in audit.constants.items()
    ]
    return table(("constant", "value", "1-sigma", "unit", "significant"), rows)


def _differences(audit: AuditedTruth, published: GroundTruth) -> str:
    """Difference between published and audited states over time."""
    truth = audit.truth
    stamps_ns = published.stamps_ns
    inside = (stamps_ns > truth.stamps_ns[0]) & (stamps_ns < truth.stamps_ns[-1])
    rows = np.flatnonzero(inside)[:: every_nth(int(inside.sum()))]
    at = truth_at(truth, stamps_ns[rows], MAX_GAP_S)
    time_s = seconds(stamps_ns[rows], int(truth.stamps_ns[0]))
    R_w_b, R_w_p = at.Ts_w_b[:, :3, :3], published.Ts_w_b[rows, :3, :3]
    turned_deg = np.rad2deg(so3_log_stack(np.swapaxes(R_w_b, 1, 2) @ R_w_p))
    about = "Orientation, about the body's axes."
    parts = [components(time_s, turned_deg, "rotation [deg]", about)]
    velocity = _in_body(R_w_p, published.v_w[rows]) - _in_body(R_w_b, at.v_w)
    if np.isfinite(velocity).any():
        along = "Velocity, along the body's axes."
        parts.append(components(time_s, velocity, "velocity [m/s]", along))
    return side_by_side(*parts)


def _in_body(Rs: Array, vectors: Array) -> Array:
    return np.asarray(np.einsum("kji,kj->ki", Rs, vectors))


def _residuals(audit: AuditedTruth) -> Iterator[str]:
    """Residuals over time: audited marker minus the rows used."""
    for rows, scale, unit, text in (
        (audit.position_residuals, 1e3, "mm", "Positions, along the source's axes."),
        (audit.orientation_residuals, 180.0 / np.pi, "deg",
         "Orientations, about the marker's axes."),
    ):  # fmt: skip
        if rows is not None:
            shown = slice(None, None, every_nth(len(rows.stamps_ns)))
            time_s = seconds(rows.stamps_ns[shown], int(rows.stamps_ns[0]))
            yield components(time_s, scale * rows.residuals[shown], f"residual [{unit}]", text)


def _states(audit: AuditedTruth) -> str:
    shown = np.arange(len(audit.truth)) % every_nth(len(audit.truth)) == 0
    truth, std = audit.truth.part(shown), stds(audit.cov_states[shown])
    time_s = seconds(truth.stamps_ns, int(truth.stamps_ns[0]))
    down = np.array([0.0, 0.0, -GRAVITY_NORM])
    path = path_drawing(truth.Ts_w_b[:, :3, 3], truth.v_w, down)
    spreads = [
        components(time_s, scale * std[:, part], f"sigma of {label}", text, from_zero=True)
        for part, scale, label, text in (
            (slice(0, 3), 180.0 / np.pi, "orientation [deg]",
             "Standard deviation of the orientation, about the body's axes."),
            (slice(6, 9), 1e3, "position [mm]", "Standard deviation of the position."),
            (slice(3, 6), 1e3, "velocity [mm/s]", "Standard deviation of the velocity."),
        )
    ]  # fmt: skip
    biases = [
        components(time_s, values, label, f"{sensor} bias. {WITH_BANDS}", 3.0 * std[:, part])
        for values, part, label, sensor in (
            (truth.bias_gyro, slice(9, 12), "gyro bias [rad/s]", "Gyroscope"),
            (truth.bias_acc, slice(12, 15), "acc bias [m/s²]", "Accelerometer"),
        )
    ]
    return side_by_side(figure(path, caption("states")), *spreads, *biases)


def noise_page(measured: MeasuredImu, command: str) -> str:
    """HTML of one measurement of noise."""
    names = ", ".join(measured.recordings)
    columns = ("noise density", "in motion", "1-sigma", "stationary", "roughness", "stated")
    # On a phone the head of the table is not shown, so each row has its whole unit.
    signs = (("^2", "²"), ("^3", "³"), ("]", "/√Hz]"))
    rows = [[_replaced(cell, signs) for cell in row] for row in noise_rows(measured)]
    lead = (
        f"{table(columns, rows)}{bullets(noise_remarks(measured))}"
        f"<p>{escape(names)}: {measured.seconds:.0f} s in motion, against "
        f"{escape(measured.source)}.</p>"
    )
    densities = [_density_figure(measured, sensor) for sensor in range(2)]
    sections = [Section("White noise by each method", side_by_side(*densities))]
    if measured.allan is not None:
        parts = [_allan_figure(measured, measured.allan, sensor) for sensor in range(2)]
        sections.append(Section("Allan deviation without motion", side_by_side(*parts)))
    if measured.checks:
        note = (
            "<p>Mean NEES of integration errors per degree of freedom: 1 is consistent, above it "
            "the noise is too small. Only the part of an error that the reference can show is "
            "scored.</p>"
        )
        scores = table(CHECK_COLUMNS, check_rows(measured.checks), stacked=False)
        sections += [
            Section("Integration errors over horizons", note + scores),
            Section(
                "Autocorrelation of the errors",
                side_by_side(*(_whiteness(check) for check in measured.checks)),
            ),
        ]
    return page(f"IMU noise: {names}", lead, sections, command)


def _replaced(text: str, signs: tuple[tuple[str, str], ...]) -> str:
    for old, new in signs:
        text = text.replace(old, new)
    return text


def _whiteness(check: NoiseCheck) -> str:
    after, before = check.measured, check.stated
    lag_s = check.horizon_s * np.arange(1.0, len(after.correlation) + 1.0)
    series = [
        Series("stated", lag_s, before.correlation),
        Series("measured", lag_s, after.correlation),
        Series("white noise, +2 sigma", lag_s, after.expected + 2.0 * after.chance),
        Series("white noise, -2 sigma", lag_s, after.expected - 2.0 * after.chance),
    ]
    text = f"{check.recording}, errors over {check.horizon_s:g} s"
    return figure(chart(series, "lag [s]", "correlation"), text)


def _density_figure(measured: MeasuredImu, sensor: int) -> str:
    """Noise densities of the axes of one sensor, by all methods."""
    name, unit = SENSORS[sensor]
    axes, part = np.arange(3.0), slice(3 * sensor, 3 * sensor + 3)
    levels = (measured.estimate.gyro, measured.estimate.acc)[sensor].axes
    stated = (measured.stated.density_gyro, measured.stated.density_acc)[sensor]
    marks = [
        Series("in motion", axes, np.array([level.value for level in levels])),
        Series("roughness", axes, measured.high_frequency[part]),
    ]
    if measured.allan is not None:
        marks.append(Series("stationary", axes, measured.allan.density[part]))
    std = [level.std if level.seen else np.nan for level in levels]
    label = f"density [{unit}/√Hz]".replace("^2", "²")
    text = (
        f"{name.capitalize()}: density of the white noise of each axis. Bars: three standard "
        "deviations; dashed line: data sheet."
    )
    return figure(ranges("xyz", marks, std, stated, label), text)


def _allan_figure(measured: MeasuredImu, allan: AllanDeviation, sensor: int) -> str:
    """Allan deviation of one sensor, with the white noise measured in motion."""
    name, unit = SENSORS[sensor]
    levels = (measured.estimate.gyro, measured.estimate.acc)[sensor].axes
    deviations = allan.deviation[:, 3 * sensor : 3 * sensor + 3].T
    series = [Series(axis, allan.tau_s, d) for axis, d in zip("xyz", deviations, strict=True)]
    white = np.sqrt(np.mean([level.value**2 for level in levels])) / np.sqrt(allan.tau_s)
    series.append(Series("white noise in motion", allan.tau_s, white, dashed=True))
    label = f"deviation [{unit}]".replace("^2", "²")
    svg = chart(series, "averaging time [s]", label, logarithmic=(True, True))
    return figure(svg, f"{name.capitalize()}, {allan.seconds:.0f} s without motion.")
