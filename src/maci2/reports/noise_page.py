"""The page of `maci2 noise --report`: the table, the Allan deviation, what stands out."""

from html import escape

import numpy as np

from maci2.pipeline.imu_noise_check import CHECK_COLUMNS, NoiseCheck, check_rows
from maci2.pipeline.imu_noise_run import MeasuredImu
from maci2.pipeline.imu_noise_text import SENSORS, noise_remarks, noise_rows
from maci2.reports.html import Section, figure, page, side_by_side, table
from maci2.reports.svg import Series, chart
from maci2.types import Array


def noise_page(measured: MeasuredImu, command: str) -> str:
    """HTML of one measurement of noise."""
    names = ", ".join(measured.recordings)
    lead = (
        f"<p>{escape(names)}: {measured.seconds:.0f} s in motion, against "
        f"{escape(measured.source)}.</p>"
    )
    lead += (
        "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in noise_remarks(measured)) + "</ul>"
    )
    columns = ("noise per sqrt(Hz)", "in motion", "1-sigma", "stationary", "roughness", "stated")
    sections = [Section("Densities and random walks", table(columns, noise_rows(measured)))]
    if measured.allan is not None:
        parts = [_allan_figure(measured, sensor) for sensor in range(2)]
        sections.append(Section("Allan deviation without motion", side_by_side(*parts)))
    if measured.checks:
        sections += _check_sections(measured)
    return page(f"IMU noise: {names}", lead, sections, command)


def _check_sections(measured: MeasuredImu) -> list[Section]:
    """Errors over horizons and whether they are white, with both noises."""
    scores = table(CHECK_COLUMNS, check_rows(measured.checks))
    note = (
        "<p>Mean NEES of integration errors per degree of freedom: 1 is consistent, above it the "
        "noise is too small. Only what the reference shows of an error is scored.</p>"
    )
    figures = [
        figure(_whiteness(check), f"{check.recording}, errors over {check.horizon_s:g} s")
        for check in measured.checks
    ]
    return [
        Section("Integration errors over horizons", note + scores),
        Section("Are the errors white? Autocorrelation by lag", side_by_side(*figures)),
    ]


def _whiteness(check: NoiseCheck) -> str:
    lags = np.arange(1.0, len(check.measured.correlation) + 1.0)
    lag_s: Array = np.asarray(check.horizon_s * lags, dtype=np.float64)
    after = check.measured
    series = [
        Series("stated", lag_s, check.stated.correlation),
        Series("measured", lag_s, after.correlation),
        Series("white, + 2 sigma", lag_s, after.expected + 2.0 * after.chance),
        Series("white, - 2 sigma", lag_s, after.expected - 2.0 * after.chance),
    ]
    return chart(series, "lag [s]", "correlation")


def _allan_figure(measured: MeasuredImu, sensor: int) -> str:
    """Allan deviation of one sensor, with the white noise found in motion beside it."""
    allan, estimate = measured.allan, measured.estimate
    assert allan is not None
    name, unit = SENSORS[sensor]
    levels = (estimate.density_gyro, estimate.density_acc)[sensor]
    log_tau = np.log10(allan.tau_s)
    series = [
        Series(f"{'xyz'[axis]}", log_tau, np.log10(allan.deviation[:, 3 * sensor + axis]))
        for axis in range(3)
    ]
    white = np.sqrt(np.mean([level.value**2 for level in levels])) / np.sqrt(allan.tau_s)
    series.append(Series("white noise in motion", log_tau, np.log10(white)))
    svg = chart(series, "log10 averaging time [s]", f"log10 deviation [{unit}]")
    return figure(svg, f"{name}, {allan.seconds:.0f} s without motion")
