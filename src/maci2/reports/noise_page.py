"""Report of `maci2 noise --report`: the table, the Allan deviation, remarks."""

from html import escape

import numpy as np

from maci2.noise.consistency import CHECK_COLUMNS, NoiseCheck, check_rows
from maci2.noise.run import SENSORS, MeasuredImu, noise_remarks, noise_rows
from maci2.reports.bar_charts import ranges
from maci2.reports.html import Section, figure, page, side_by_side, table
from maci2.reports.svg import Series, chart
from maci2.types import Array


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
    levels = (measured.estimate.density_gyro, measured.estimate.density_acc)[sensor]
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
    levels = (estimate.density_gyro, estimate.density_acc)[sensor]
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
