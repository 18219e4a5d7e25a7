"""Drawings of rigs, paths and images with their tracked points."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.errors import ImageError
from maci2.estimator import VIState
from maci2.pipeline.offline import CalibratedRecording, InitializedRecording
from maci2.report.charts import COLORS, arrow, picture
from maci2.report.html import figure
from maci2.result_output import stds
from maci2.sensors import Rig
from maci2.sensors.rig_types import Camera
from maci2.sensors.stereo import Frames, Image
from maci2.types import Array
from maci2.vision.keyframe import Keyframe, keyframe, match_keyframes
from maci2.vision.odometry import StereoOdometry
from maci2.vision.relative_pose import MIN_MATCHES, consensus_pose
from maci2.vision.relative_poses import PredictedRotation

CHARACTER = (7.2, 13.0)
"""Width and height of a character [px]."""

DISTANCES = (11.0, 17.0, 25.0, 34.0)
"""Offsets from an object to the middle of its label, nearest first [px]."""

DIRECTIONS = 16


class Labels:
    """Placement of labels beside lines and beside each other."""

    def __init__(self, width: float, height: float) -> None:
        self._size = np.array([width, height])
        self._lines: list[Array] = []
        self._boxes: list[tuple[Array, Array]] = []

    def avoid(self, start: Array, end: Array) -> None:
        """Register a line that labels should not cover."""
        steps = max(int(np.hypot(*(end - start)) / 4.0), 1)
        self._lines.append(start + np.linspace(0.0, 1.0, steps + 1)[:, None] * (end - start))

    def place(self, anchor: Array, text: str, away: Array, color: str = "") -> str:
        """SVG of a label near `anchor`, preferably towards `away`; bold without a colour."""
        half = 0.5 * np.array([CHARACTER[0] * len(text), CHARACTER[1]])
        length = float(np.hypot(*away))
        ahead = away / length if length > 1e-6 else np.array([0.0, 1.0])
        candidates = [
            (self._hidden(middle, half) + distance / 40.0 + 0.5 * (1.0 - ahead @ direction), middle)
            for distance in DISTANCES
            for direction in _directions()
            for middle in [anchor + direction * (distance + half * np.abs(direction)).max()]
        ]
        middle = min(candidates, key=lambda candidate: candidate[0])[1]
        self._boxes.append((middle, half))
        style = f"fill: {color}" if color else "font-weight: bold"
        return (
            f'<text class="halo" x="{middle[0]:.1f}" y="{middle[1] + 4.0:.1f}" '
            f'text-anchor="middle" style="{style}">{escape(text)}</text>'
        )

    def _hidden(self, middle: Array, half: Array) -> float:
        """Cost of a label at a place: what it would cover, or lose beyond the edge."""
        points = np.concatenate(self._lines) if self._lines else np.empty((0, 2))
        covered = float((np.abs(points - middle) < half + 1.0).all(axis=1).sum())
        overlaps = sum(
            bool((np.abs(middle - other) < half + size).all()) for other, size in self._boxes
        )
        outside = bool((middle - half < 0.0).any() or (middle + half > self._size).any())
        return covered + 20.0 * overlaps + 100.0 * outside


def _directions() -> Array:
    angles = 2.0 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    return np.column_stack([np.cos(angles), np.sin(angles)])


WIDTH = 440
LOWEST, HIGHEST = 200.0, 400.0
"""Height of the picture [px]."""

MARGIN = 44.0
VELOCITY_S = 0.5
"""Time over which velocity arrows extend [s]."""

MOST_ARROWS = 16
"""Largest number of arrows; more would hide the path."""


def path_figure(state: VIState) -> str:
    """The body's path over a window, in the first camera's frame."""
    velocity_c0 = np.einsum("kij,kj->ki", state.Ts_c0_b[:, :3, :3], state.velocity_b)
    return figure(
        path_drawing(state.Ts_c0_b[:, :3, 3], velocity_c0, state.gravity_c0), caption("keyframes")
    )


def caption(of: str) -> str:
    """Caption of a path."""
    return (
        f"Path of the IMU over its {of}, with gravity pointing down; the circle marks the "
        f"start. Blue arrows: velocity times {VELOCITY_S:g} s."
    )


def path_drawing(
    positions: Array, velocities: Array, gravity: Array, beside: Array | None = None
) -> str:
    """SVG of positions (n, 3), their velocities and, in grey, another path `beside` them."""
    view = _view(gravity)
    every = max(-(-len(positions) // MOST_ARROWS), 1)
    starts, ends = positions[::every], (positions + VELOCITY_S * velocities)[::every]
    others = np.empty((0, 3)) if beside is None else beside
    flat = np.concatenate([positions, ends, others]) @ view.T
    low, high = flat.min(axis=0), flat.max(axis=0)
    extent = np.maximum(high - low, 1e-3)
    inside = np.array([WIDTH - 2.0 * MARGIN, HIGHEST - 2.0 * MARGIN - 20.0])
    scale = float((inside / extent).min())
    height = max(float(scale * extent[1]) + 2.0 * MARGIN + 20.0, LOWEST)
    middle = np.array([WIDTH / 2.0, height / 2.0 - 4.0])

    def at(points: Array) -> Array:
        return np.asarray(middle + scale * (points @ view.T - (low + high) / 2.0))

    body = [_line(at(others), "var(--soft)", 3.0)] if len(others) else []
    body.append(_line(at(positions), "var(--ink)", 2.0))
    body += [arrow(a, b, COLORS[0]) for a, b in zip(at(starts), at(ends), strict=True)]
    if every == 1:
        body += [_circle(place, 3.0, "var(--ink)") for place in at(positions)]
    body.append(_circle(at(positions[:1])[0], 5.0, "var(--back)"))
    corner = np.array([18.0, 16.0])
    body.append(arrow(corner, corner + np.array([0.0, 40.0]), COLORS[1], "gravity"))
    body.append(scale_bar(scale, height))
    return picture(WIDTH, round(height), "".join(body))


def _view(gravity: Array) -> Array:
    """(2, 3) axes of the picture, right and down: down is gravity, right is the level part of x."""
    down = gravity / np.linalg.norm(gravity)
    level = np.eye(3)[0] - down[0] * down
    if np.linalg.norm(level) < 0.3:
        level = np.eye(3)[2] - down[2] * down
    level = level / np.linalg.norm(level)
    ahead = np.cross(down, level)
    return np.asarray(np.stack([level + 0.35 * ahead, down - 0.2 * ahead]))


def _line(places: Array, color: str, width: float) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width:g}"/>'


def _circle(place: Array, radius: float, fill: str) -> str:
    return (
        f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{radius:g}" fill="{fill}" '
        'stroke="var(--ink)" stroke-width="1.5"/>'
    )


def scale_bar(scale: float, height: float) -> str:
    """Scale bar of a round length in the lower left corner; `scale` in pixels per metre."""
    longest_m = 0.4 * WIDTH / scale
    decade = 10.0 ** np.floor(np.log10(longest_m))
    length_m = next(decade * factor for factor in (5.0, 2.0, 1.0) if decade * factor <= longest_m)
    label = f"{length_m:g} m" if length_m >= 0.1 else f"{1e3 * length_m:g} mm"
    return (
        f'<line x1="16" y1="{height - 12:.1f}" x2="{16 + scale * length_m:.1f}" '
        f'y2="{height - 12:.1f}" stroke="var(--ink)" stroke-width="3"/>'
        f'<text x="16" y="{height - 20:.1f}">{label}</text>'
    )


RIG_HEIGHT = 400
AXES = (("x", COLORS[1]), ("y", COLORS[2]), ("z", COLORS[0]))

VIEW = np.array([[0.866, -0.866, 0.0], [0.35, 0.35, -0.94]])
"""(2, 3) axes of the picture, right and down, in the body: from above, in front and to the side."""


def rig_drawing(rig: Rig) -> str:
    """SVG with a caption: axes of the body and of every camera, each with its name."""
    poses = [("b (IMU)", np.eye(4))]
    poses += [(f"c{i}", camera.T_b_c) for i, camera in enumerate(rig.cameras)]
    length_m = 0.4 * max(float(np.linalg.norm(T[:3, 3])) for _, T in poses[1:]) + 0.01
    points = [T[:3, 3] + length_m * axis for _, T in poses for axis in (*T[:3, :3].T, np.zeros(3))]
    frustums = [_frustum(camera, 1.4 * length_m) for camera in rig.cameras]
    flat = np.concatenate([np.array(points), *frustums]) @ VIEW.T
    low, high = flat.min(axis=0), flat.max(axis=0)
    room = np.array([WIDTH - 60.0, RIG_HEIGHT - 90.0])
    scale = float((room / np.maximum(high - low, 1e-3)).min())
    centre = (low + high) / 2.0

    def at(point: Array) -> Array:
        middle = np.array([WIDTH / 2.0, RIG_HEIGHT / 2.0 - 12.0])
        return np.asarray(middle + scale * (VIEW @ point - centre))

    body = "".join(_frustum_lines(corners, at) for corners in frustums)
    body += _axes([T for _, T in poses], length_m, at)
    body += _names(poses, frustums, length_m, at)
    return figure(
        picture(WIDTH, RIG_HEIGHT, body + scale_bar(scale, RIG_HEIGHT)),
        "Axes of each frame: x red, y green, z blue. A camera looks along its z axis; its frustum "
        "is grey.",
    )


def _frustum(camera: Camera, depth_m: float) -> Array:
    """(5, 3) corners of the frustum in the body: the centre, then the image corners at a depth."""
    width, height = camera.resolution
    fx, fy, cx, cy = camera.intrinsics[:4]
    corners = [(0, 0), (width, 0), (width, height), (0, height)]
    # A wide lens has no pinhole corners: what is beyond 60 degrees is cut.
    rays = [
        (np.clip((u - cx) / fx, -1.7, 1.7), np.clip((v - cy) / fy, -1.7, 1.7)) for u, v in corners
    ]
    points = np.array([(0.0, 0.0, 0.0), *((depth_m * x, depth_m * y, depth_m) for x, y in rays)])
    return np.asarray(points @ camera.T_b_c[:3, :3].T + camera.T_b_c[:3, 3])


def _frustum_lines(corners: Array, at: Callable[[Array], Array]) -> str:
    places = [at(corner) for corner in corners]
    pairs = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4), (4, 1)]
    return "".join(
        f'<line x1="{places[a][0]:.1f}" y1="{places[a][1]:.1f}" x2="{places[b][0]:.1f}" '
        f'y2="{places[b][1]:.1f}" stroke="var(--soft)" stroke-width="1" opacity="0.7"/>'
        for a, b in pairs
    )


def _axes(poses: list[Array], length_m: float, at: Callable[[Array], Array]) -> str:
    return "".join(
        arrow(at(T[:3, 3]), at(T[:3, 3] + length_m * axis), color)
        for T in poses
        for (_, color), axis in zip(AXES, T[:3, :3].T, strict=True)
    )


def _names(
    poses: list[tuple[str, Array]],
    frustums: list[Array],
    length_m: float,
    at: Callable[[Array], Array],
) -> str:
    """Labels of frames and axes, where they cover neither axes nor each other."""
    labels = Labels(WIDTH, RIG_HEIGHT)
    ends = [
        (at(T[:3, 3]), [at(T[:3, 3] + length_m * axis) for axis in T[:3, :3].T]) for _, T in poses
    ]
    for origin, tips in ends:
        for tip in tips:
            labels.avoid(origin, tip)
    for corners in frustums:
        for corner in corners[1:]:
            labels.avoid(at(corners[0]), at(corner))
    parts = [
        labels.place(tip, axis, tip - origin, color)
        for origin, tips in ends
        for (axis, color), tip in zip(AXES, tips, strict=True)
    ]
    parts += [
        labels.place(origin, name, origin - np.mean(tips, axis=0))
        for (name, _), (origin, tips) in zip(poses, ends, strict=True)
    ]
    return "".join(parts)


LEAST_SURE = 5.0
"""Ratio of standard deviations to the image's smallest at which colours saturate."""

SURE, UNSURE = np.array([40.0, 215.0, 255.0]), np.array([255.0, 95.0, 0.0])
"""Colours (r, g, b) of the most and the least certain match: cyan and orange, which colour-blind
readers can distinguish."""

JPEG_QUALITY = 80


@dataclass(frozen=True)
class TrackedImage:
    """Rectified left image, and the positions of its points one keyframe before."""

    image: Image
    uv0: Array
    """(n, 2) positions in the keyframe before [px]."""

    uv1: Array
    """(n, 2) positions in this keyframe [px]."""

    sigma_px: Array
    """(n,) predicted standard deviation of the match, both axes together."""


def tracked_image(odometry: StereoOdometry, first_ns: int, second_ns: int) -> TrackedImage:
    """Match two keyframes again, for display: the inliers of the measured motion."""
    frames = odometry.frames
    indices = [frames.index_of(int(stamp)) for stamp in (first_ns, second_ns)]
    try:
        first, second = (_keyframe(odometry, frames, index) for index in indices)
    except ImageError:
        unread = np.zeros((1, 1), np.uint8)
        return TrackedImage(unread, np.empty((0, 2)), np.empty((0, 2)), np.empty(0))
    nothing = TrackedImage(second.left, np.empty((0, 2)), np.empty((0, 2)), np.empty(0))
    measured = odometry.relative_pose(*indices)
    if measured.reason:
        return nothing
    camera = odometry.rectification
    rotation = PredictedRotation(measured.T_ck_ck1[:3, :3], measured.cov_T_ck_ck1[3:, 3:])
    found = match_keyframes(first, [], second, camera, rotation)
    if len(found.matches) < MIN_MATCHES:
        return nothing
    cov = odometry.model(found.features)
    inlier = consensus_pose(found.matches, cov, camera, rotation).weights > 0.0
    sigma_px = np.sqrt(np.trace(cov[inlier, :2, :2], axis1=1, axis2=2))
    return TrackedImage(second.left, found.matches.uv0[inlier], found.matches.uv1[inlier], sigma_px)


def latest_tracks(odometry: StereoOdometry, stamp_ns: int) -> TrackedImage:
    """Image at a timestamp, with its points and their positions one image before."""
    index = odometry.frames.index_of(int(stamp_ns))
    before_ns = int(odometry.stamps_ns[max(index - 1, 0)])
    return tracked_image(odometry, before_ns, stamp_ns)


def _keyframe(odometry: StereoOdometry, frames: Frames, index: int) -> Keyframe:
    pair = frames.pair(index)
    return keyframe(odometry.rectification, pair.left, pair.right)


def best_sigma_px(sigma_px: Array) -> float:
    """Standard deviation of the most certain matches of an image [px]."""
    return float(np.quantile(sigma_px, 0.05))


def sigma_colors(sigma_px: Array) -> NDArray[np.uint8]:
    """(n, 3) colours from cyan, most certain, to orange, five times less certain."""
    share = np.clip((sigma_px / best_sigma_px(sigma_px) - 1.0) / (LEAST_SURE - 1.0), 0.0, 1.0)
    return np.asarray(SURE + share[:, None] * (UNSURE - SURE)).astype(np.uint8)


def track_figure(tracked: TrackedImage) -> str:
    """Image with its points and a legend of their colours."""
    if not len(tracked.sigma_px):
        return figure(track_picture(tracked), "No point could be tracked into this image.", True)
    best = best_sigma_px(tracked.sigma_px)
    first, last = (",".join(f"{part:.0f}" for part in color) for color in (SURE, UNSURE))
    ramp = (
        f"<p class='ramp'><span>{best:.2f} px</span>"
        f"<i style='background: linear-gradient(to right, rgb({first}), rgb({last}))'></i>"
        f"<span>{LEAST_SURE * best:.2f} px or more</span></p>"
    )
    caption = (
        f"{len(tracked.sigma_px)} points tracked from the previous image, coloured by the "
        "predicted standard deviation of the match."
    )
    return figure(track_picture(tracked) + ramp, caption, wide=True)


def embedded(image: Image) -> str:
    """Image as an SVG element with embedded data."""
    height, width = image.shape
    _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    text = base64.b64encode(data.tobytes()).decode("ascii")
    return f'<image width="{width}" height="{height}" href="data:image/jpeg;base64,{text}"/>'


def track_picture(tracked: TrackedImage) -> str:
    """SVG of the image with a line for every match."""
    height, width = tracked.image.shape
    body = [embedded(tracked.image)]
    nothing = np.empty((0, 3), dtype=np.uint8)
    colors = sigma_colors(tracked.sigma_px) if len(tracked.sigma_px) else nothing
    for (u0, v0), (u1, v1), (r, g, b) in zip(tracked.uv0, tracked.uv1, colors, strict=True):
        color = f"rgb({r},{g},{b})"
        body.append(
            f'<line x1="{u0:.1f}" y1="{v0:.1f}" x2="{u1:.1f}" y2="{v1:.1f}" stroke="{color}" '
            f'stroke-width="1.5"/><circle cx="{u1:.1f}" cy="{v1:.1f}" r="2" fill="{color}"/>'
        )
    return picture(width, height, "".join(body))


OVERVIEW_WIDTH, OVERVIEW_HEIGHT = 1060, 380
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
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {OVERVIEW_WIDTH} {OVERVIEW_HEIGHT}" '
        f'width="{OVERVIEW_WIDTH}" '
        f'font-family="sans-serif" font-size="14" fill="{INK}">'
        f'<rect width="{OVERVIEW_WIDTH}" height="{OVERVIEW_HEIGHT}" fill="white"/>'
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
    left, middle, right = 570, 880, OVERVIEW_WIDTH - 16
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
