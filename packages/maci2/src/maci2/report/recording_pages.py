"""Reports about recordings: `maci2 check`, `truth` and `noise`."""

from html import escape

import numpy as np

from maci2.datasets.frames import stereo_frames
from maci2.errors import ImageError, Maci2Error
from maci2.geometry.se3 import so3_log_stack
from maci2.report.charts import Series, chart, picture, ranges
from maci2.report.drawings import caption, embedded, path_drawing, rig_drawing
from maci2.report.figures import bands, components, every_nth, spreads
from maci2.report.html import Section, figure, findings_list, page, side_by_side, table
from maci2.sensors import GroundTruth, Recording, truth_at
from maci2.tools.diagnostics.diagnosis import IMAGE_COLUMNS, SENSOR_COLUMNS, Diagnosis
from maci2.tools.ground_truth.audit import AuditedTruth
from maci2.tools.imu_noise.consistency import CHECK_COLUMNS, NoiseCheck, check_rows
from maci2.tools.imu_noise.run import SENSORS, MeasuredImu, noise_remarks, noise_rows
from maci2.types import GRAVITY_NORM, NS, Array, Stamps

TRIES = 20
"""Number of unreadable stereo pairs after which none is shown."""

POINTS = 900
"""Largest number of points of a line; more cannot be distinguished."""


def diagnostics_page(diagnosis: Diagnosis, recording: Recording | None, command: str) -> str:
    """HTML of a diagnosis; plots are omitted if the recording cannot be opened."""
    usable = "usable" if diagnosis.usable else "not usable"
    advice = diagnosis.first_line.partition(" ")[2].strip()
    lead = f"<p class='first {diagnosis.findings[0].level}'><b>{usable}</b>. {escape(advice)}</p>"
    sections = [Section("Findings", findings_list(diagnosis.findings)), _sensors(diagnosis)]
    if recording is not None:
        sections += [_rig(recording), _samples(recording), _timing(recording)]
    return page(f"Check: {diagnosis.name}", lead, sections, command)


def _rig(recording: Recording) -> Section:
    """Drawing of the rig, and the first images."""
    parts = [rig_drawing(recording.rig)] if recording.rig.extrinsics_known else []
    pair = _first_pair(recording)
    if pair:
        parts.append(figure(pair, "First stereo pair that can be read, left above right."))
    return Section("Rig and images", side_by_side(*parts))


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
    body = table(
        ("sensor", *SENSOR_COLUMNS),
        [(name, *timing.cells()) for name, timing in diagnosis.sensors],
        stacked=True,
    )
    if diagnosis.images is not None:
        cameras = enumerate(diagnosis.images.cameras)
        body += f"<h3>Images, at {diagnosis.images.places} places of the recording</h3>" + table(
            ("camera", *IMAGE_COLUMNS),
            [(f"cam{i}", *camera.cells()) for i, camera in cameras],
            stacked=True,
        )
    return Section("Sensors", body)


def _timing(recording: Recording) -> Section:
    """Intervals between samples, which show gaps, jitter and drops."""
    start_ns = int(recording.imu.stamps_ns[0])
    parts = [
        figure(_steps("IMU", recording.imu.stamps_ns, start_ns), "IMU: from sample to sample.")
    ]
    for i, stamps_ns in enumerate(recording.camera_stamps_ns):
        if len(stamps_ns) > 1:
            svg = _steps(f"cam{i}", stamps_ns, start_ns)
            parts.append(figure(svg, f"cam{i}: from image to image."))
    return Section("Timing", side_by_side(*parts))


def _steps(name: str, stamps_ns: Stamps, start_ns: int) -> str:
    time_s = (stamps_ns[1:] - start_ns) / NS
    step_ms = np.diff(stamps_ns) / 1e6
    kept = _largest_of_each_part(step_ms)
    return chart(
        [Series(name, time_s[kept], step_ms[kept])], "time [s]", "step [ms]", from_zero=True
    )


def _largest_of_each_part(values: Array) -> np.ndarray:
    """Indices of at most POINTS values, the largest of each part."""
    parts = np.array_split(np.arange(len(values)), min(POINTS, len(values)))
    return np.array([part[np.argmax(values[part])] for part in parts])


def _samples(recording: Recording) -> Section:
    imu = recording.imu
    every = max(len(imu) // POINTS, 1)
    time_s = (imu.stamps_ns[::every] - imu.stamps_ns[0]) / NS
    gyro = [Series(a, time_s, np.rad2deg(imu.gyro[::every, i])) for i, a in enumerate("xyz")]
    acc = [Series(a, time_s, imu.acc[::every, i]) for i, a in enumerate("xyz")]
    return Section(
        "IMU samples",
        side_by_side(
            figure(chart(gyro, "time [s]", "angular rate [deg/s]"), "Gyroscope."),
            figure(chart(acc, "time [s]", "specific force [m/s²]"), "Accelerometer."),
        ),
    )


MAX_GAP_S = 0.1
UNIT_SUFFIX = {"deg": "_deg", "mm": "_mm", "ms": "_ms", "ms/min": "_ms_per_min"}
"""Suffixes of the constants' names that repeat their unit."""


def truth_page(audit: AuditedTruth, recording: Recording, command: str) -> str:
    """HTML of one audit; the audited ground truth is taken from the recording."""
    worst = {finding.level for finding in audit.findings}
    level = "error" if "error" in worst else "warn" if "warn" in worst else "ok"
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
        sections.insert(
            2, Section("Published minus audited states", _differences(audit, published))
        )
    return page(f"Ground truth: {recording.name}, {audit.name}", lead, sections, command)


def _known_to(audit: AuditedTruth) -> str:
    """Typical and largest standard deviations of the states."""
    std = np.sqrt(np.einsum("kii->ki", audit.cov_states))
    rows = []
    for name, part, scale, unit in (
        ("orientation", slice(0, 3), 180.0 / np.pi, "deg"),
        ("velocity", slice(3, 6), 1e3, "mm/s"),
        ("position", slice(6, 9), 1e3, "mm"),
        ("gyroscope bias", slice(9, 12), 1e3, "mrad/s"),
        ("accelerometer bias", slice(12, 15), 1e3, "mm/s²"),
    ):
        values = scale * std[:, part]
        numbers = (np.median(values), np.quantile(values, 0.95))
        rows.append((f"{name} [{unit}]", *(f"{number:.3g}" for number in numbers)))
    columns = ("1-sigma, one axis", "median", "95 % below")
    stamps_ns = audit.truth.stamps_ns
    return table(columns, rows, stacked=True) + (
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
    return table(("constant", "value", "1-sigma", "unit", "significant"), rows, stacked=True)


def _differences(audit: AuditedTruth, published: GroundTruth) -> str:
    """Difference between published and audited states over time."""
    truth = audit.truth
    stamps_ns = published.stamps_ns
    inside = (stamps_ns > truth.stamps_ns[0]) & (stamps_ns < truth.stamps_ns[-1])
    rows = np.flatnonzero(inside)[:: every_nth(int(inside.sum()))]
    at = truth_at(truth, stamps_ns[rows], MAX_GAP_S)
    time_s = (stamps_ns[rows] - truth.stamps_ns[0]) / NS
    Rs, Rs_published = at.Ts_w_b[:, :3, :3], published.Ts_w_b[rows, :3, :3]
    rotation = so3_log_stack(np.swapaxes(Rs, 1, 2) @ Rs_published)
    velocity = _in_body(Rs_published, published.v_w[rows]) - _in_body(Rs, at.v_w)
    parts = [
        components(
            time_s, np.rad2deg(rotation), "rotation [deg]", "Orientation, about the body's axes."
        ),
    ]
    if np.isfinite(velocity).any():
        parts.append(
            components(time_s, velocity, "velocity [m/s]", "Velocity, along the body's axes.")
        )
    return side_by_side(*parts)


def _residuals(audit: AuditedTruth) -> list[str]:
    """Residuals over time: audited marker minus the rows used."""
    kinds = (
        (audit.position_residuals, 1e3, "mm", "Positions, along the source's axes."),
        (
            audit.orientation_residuals,
            180.0 / np.pi,
            "deg",
            "Orientations, about the marker's axes.",
        ),
    )
    return [
        components(
            (rows.stamps_ns[:: every_nth(len(rows.stamps_ns))] - rows.stamps_ns[0]) / NS,
            scale * rows.residuals[:: every_nth(len(rows.stamps_ns))],
            f"residual [{unit}]",
            text,
        )
        for rows, scale, unit, text in kinds
        if rows is not None
    ]


def _in_body(Rs: Array, vectors: Array) -> Array:
    return np.asarray(np.einsum("kji,kj->ki", Rs, vectors))


def _states(audit: AuditedTruth) -> str:
    truth, every = audit.truth, every_nth(len(audit.truth))
    time_s = (truth.stamps_ns[::every] - truth.stamps_ns[0]) / NS
    std = np.sqrt(np.einsum("kii->ki", audit.cov_states[::every]))
    down = np.array([0.0, 0.0, -GRAVITY_NORM])
    path = path_drawing(truth.Ts_w_b[::every, :3, 3], truth.v_w[::every], down)
    return side_by_side(
        figure(path, caption("states")),
        spreads(
            time_s, np.rad2deg(std[:, 0:3]), "sigma of orientation [deg]",
            "Standard deviation of the orientation, about the body's axes.",
        ),
        spreads(time_s, 1e3 * std[:, 6:9], "sigma of position [mm]",
                "Standard deviation of the position."),
        spreads(time_s, 1e3 * std[:, 3:6], "sigma of velocity [mm/s]",
                "Standard deviation of the velocity."),
        bands(time_s, truth.bias_gyro[::every], std[:, 9:12], "gyro bias [rad/s]",
              "Gyroscope bias."),
        bands(time_s, truth.bias_acc[::every], std[:, 12:15], "acc bias [m/s²]",
              "Accelerometer bias."),
    )  # fmt: skip


def noise_page(measured: MeasuredImu, command: str) -> str:
    """HTML of one measurement of noise."""
    names = ", ".join(measured.recordings)
    columns = ("noise density", "in motion", "1-sigma", "stationary", "roughness", "stated")
    # On a phone the head of the table is not shown, so each row has its whole unit.
    signs = (("^2", "²"), ("^3", "³"), ("]", "/√Hz]"))
    rows = [[_replaced(cell, signs) for cell in row] for row in noise_rows(measured)]
    lead = table(columns, rows, stacked=True)
    lead += (
        "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in noise_remarks(measured)) + "</ul>"
        f"<p>{escape(names)}: {measured.seconds:.0f} s in motion, against "
        f"{escape(measured.source)}.</p>"
    )
    found = [_density_figure(measured, sensor) for sensor in range(2)]
    sections = [Section("White noise by each method", side_by_side(*found))]
    if measured.allan is not None:
        parts = [_allan_figure(measured, sensor) for sensor in range(2)]
        sections.append(Section("Allan deviation without motion", side_by_side(*parts)))
    if measured.checks:
        sections += _check_sections(measured)
    return page(f"IMU noise: {names}", lead, sections, command)


def _replaced(text: str, signs: tuple[tuple[str, str], ...]) -> str:
    for old, new in signs:
        text = text.replace(old, new)
    return text


def _check_sections(measured: MeasuredImu) -> list[Section]:
    """Integration errors over horizons and their autocorrelation, with both noises."""
    scores = table(CHECK_COLUMNS, check_rows(measured.checks))
    note = (
        "<p>Mean NEES of integration errors per degree of freedom: 1 is consistent, above it the "
        "noise is too small. Only the part of an error that the reference can show is scored.</p>"
    )
    figures = [
        figure(_whiteness(check), f"{check.recording}, errors over {check.horizon_s:g} s")
        for check in measured.checks
    ]
    return [
        Section("Integration errors over horizons", note + scores),
        Section("Autocorrelation of the errors", side_by_side(*figures)),
    ]


def _whiteness(check: NoiseCheck) -> str:
    lags = np.arange(1.0, len(check.measured.correlation) + 1.0)
    lag_s: Array = np.asarray(check.horizon_s * lags, dtype=np.float64)
    after = check.measured
    series = [
        Series("stated", lag_s, check.stated.correlation),
        Series("measured", lag_s, after.correlation),
        Series("white noise, +2 sigma", lag_s, after.expected + 2.0 * after.chance),
        Series("white noise, -2 sigma", lag_s, after.expected - 2.0 * after.chance),
    ]
    return chart(series, "lag [s]", "correlation")


def _density_figure(measured: MeasuredImu, sensor: int) -> str:
    """Noise densities of the axes of one sensor, by all methods."""
    name, unit = SENSORS[sensor]
    axes = np.arange(3.0)
    part = slice(3 * sensor, 3 * sensor + 3)
    levels = (measured.estimate.gyro, measured.estimate.acc)[sensor].axes
    stated = (measured.stated.density_gyro, measured.stated.density_acc)[sensor]
    marks = [
        ("in motion", np.array([level.value for level in levels])),
        ("roughness", measured.high_frequency[part]),
    ]
    if measured.allan is not None:
        marks.append(("stationary", measured.allan.density[part]))
    return figure(
        ranges(
            "xyz",
            [Series(text, axes, np.asarray(values)) for text, values in marks],
            [level.std if level.seen else np.nan for level in levels],
            stated,
            f"density [{unit}/√Hz]".replace("^2", "²"),
        ),
        f"{name.capitalize()}: density of the white noise of each axis. Bars: three standard "
        "deviations; dashed line: data sheet.",
    )


def _allan_figure(measured: MeasuredImu, sensor: int) -> str:
    """Allan deviation of one sensor, with the white noise measured in motion."""
    allan, estimate = measured.allan, measured.estimate
    assert allan is not None
    name, unit = SENSORS[sensor]
    levels = (estimate.gyro, estimate.acc)[sensor].axes
    series = [
        Series(f"{'xyz'[axis]}", allan.tau_s, allan.deviation[:, 3 * sensor + axis])
        for axis in range(3)
    ]
    white = np.sqrt(np.mean([level.value**2 for level in levels])) / np.sqrt(allan.tau_s)
    series.append(Series("white noise in motion", allan.tau_s, white, dashed=True))
    svg = chart(
        series,
        "averaging time [s]",
        f"deviation [{unit}]".replace("^2", "²"),
        logarithmic=(True, True),
    )
    return figure(svg, f"{name.capitalize()}, {allan.seconds:.0f} s without motion.")
