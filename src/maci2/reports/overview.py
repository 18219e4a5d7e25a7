"""Overview picture: images on the left, states with sigma on the right."""

from html import escape

import numpy as np

from maci2.estimation.result_output import stds
from maci2.pipeline.offline import CalibratedRecording, InitializedRecording
from maci2.reports.track_picture import TrackedImage, track_picture
from maci2.types import Array

WIDTH, HEIGHT = 1060, 380
IMAGE_WIDTH = 520
INK, SOFT, LINE = "#1f2328", "#59636e", "#d1d9e0"


def overview(
    tracked: TrackedImage, initialization: InitializedRecording, calibration: CalibratedRecording
) -> str:
    """A stand-alone SVG of one initialization and one calibration."""
    picture = track_picture(tracked).replace("<svg ", '<svg x="16" y="44" ', 1)
    height, width = tracked.image.shape
    shown_height = IMAGE_WIDTH * height // width
    picture = picture.replace(
        f'width="{width}" role="img"', f'width="{IMAGE_WIDTH}" height="{shown_height}"', 1
    )
    rows = _rows(initialization, calibration)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'font-family="sans-serif" font-size="14" fill="{INK}">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        '<text x="16" y="28" font-size="16" font-weight="bold">stereo images and IMU samples</text>'
        f"{picture}{_table(rows)}</svg>\n"
    )


def _rows(
    initialization: InitializedRecording, calibration: CalibratedRecording
) -> list[tuple[str, str, str]]:
    """Quantity, estimate and one standard deviation, as text."""
    rows: list[tuple[str, str, str]] = []
    state, posterior = initialization.state, initialization.posterior
    if state is not None and posterior is not None:
        rows += [
            ("gravity [m/s²]", _numbers(state.gravity_c0, 2),
             f"{initialization.gravity_std_deg:.2f} deg"),
            ("velocity [m/s]", _numbers(state.velocity_b[-1], 3),
             _numbers(stds(posterior.velocity_b[-1]), 3)),
            ("gyroscope bias [mrad/s]", _numbers(1e3 * state.gyro_bias, 1),
             _numbers(1e3 * stds(posterior.gyro_bias), 1)),
            ("accelerometer bias [m/s²]", _numbers(state.acc_bias, 3),
             _numbers(stds(posterior.acc_bias), 3)),
        ]  # fmt: skip
    rig = calibration.rig
    if rig is not None and calibration.posterior is not None:
        std = stds(calibration.posterior.T_b_c)
        position_mm = 1e3 * rig.cameras[0].T_b_c[:3, 3]
        rows += [
            ("camera on the IMU [mm]", _numbers(position_mm, 1), _numbers(1e3 * std[:3], 1)),
            ("its rotation [deg]", "", _numbers(np.rad2deg(std[3:]), 3)),
        ]
    return rows


def _numbers(values: Array, digits: int) -> str:
    return "  ".join(f"{value:.{digits}f}" for value in values)


def _table(rows: list[tuple[str, str, str]]) -> str:
    left, middle, right = 570, 880, WIDTH - 16
    parts = [
        f'<text x="{left}" y="28" font-size="16" font-weight="bold">states with uncertainty</text>',
        f'<text x="{middle}" y="64" text-anchor="end" fill="{SOFT}">estimate</text>',
        f'<text x="{right}" y="64" text-anchor="end" fill="{SOFT}">1-sigma</text>',
    ]
    for i, (name, estimate, sigma) in enumerate(rows):
        y = 98 + 44 * i
        parts.append(
            f'<line x1="{left}" x2="{right}" y1="{y - 24}" y2="{y - 24}" stroke="{LINE}"/>'
            f'<text x="{left}" y="{y}">{escape(name)}</text>'
            f'<text x="{middle}" y="{y}" text-anchor="end">{escape(estimate)}</text>'
            f'<text x="{right}" y="{y}" text-anchor="end">{escape(sigma)}</text>'
        )
    return "".join(parts)
