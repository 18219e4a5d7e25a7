"""Report of `maci2 check -o`: the main finding, all findings, sensors and plots."""

from html import escape

import numpy as np

from maci2.datasets.frames import stereo_frames
from maci2.diagnostics.diagnosis import IMAGE_COLUMNS, SENSOR_COLUMNS, Diagnosis
from maci2.errors import ImageError, Maci2Error
from maci2.reports.html import Section, figure, findings_list, page, side_by_side, table
from maci2.reports.rig_drawing import rig_drawing
from maci2.reports.svg import Series, chart, picture
from maci2.reports.track_picture import embedded
from maci2.sensors import Recording
from maci2.types import NS, Array, Stamps

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
