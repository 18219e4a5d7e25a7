"""The page of `maci2 noise --report`: the table, the Allan deviation, what stands out."""

from html import escape

import numpy as np

from maci2.pipeline.imu_noise_run import MeasuredImu
from maci2.pipeline.imu_noise_text import SENSORS, noise_remarks, noise_rows
from maci2.reports.html import Section, figure, page, side_by_side, table
from maci2.reports.svg import Series, chart


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
    return page(f"IMU noise: {names}", lead, sections, command)


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
