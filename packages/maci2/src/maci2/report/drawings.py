"""Drawings of rigs, paths and images with their tracked points."""

import base64
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.errors import ImageError
from maci2.estimator import VIState
from maci2.pipeline.offline import CalibratedRecording, InitializedRecording
from maci2.report.charts import (
    COLORS,
    INK,
    SOFT,
    arrow,
    dots,
    element,
    label,
    picture,
    polyline,
    segment,
    standalone,
)
from maci2.report.html import figure
from maci2.result_output import stds
from maci2.sensors import Rig
from maci2.sensors.rig_types import Camera
from maci2.sensors.stereo import Image
from maci2.types import Array
from maci2.vision.keyframe import keyframe, match_keyframes
from maci2.vision.odometry import StereoOdometry
from maci2.vision.relative_pose import MIN_MATCHES, consensus_pose
from maci2.vision.relative_poses import PredictedRotation

CHARACTER = (7.2, 13.0)
"""Width and height of a character [px]."""

DISTANCES = (11.0, 17.0, 25.0, 34.0)
"""Offsets from an object to the middle of its label, nearest first [px]."""

_ANGLES = 2.0 * np.pi * np.arange(16) / 16
DIRECTIONS = np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])
"""Directions from an object in which its label is tried."""


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
            for direction in DIRECTIONS
            for middle in [anchor + direction * (distance + half * np.abs(direction)).max()]
        ]
        middle = min(candidates, key=lambda candidate: candidate[0])[1]
        self._boxes.append((middle, half))
        style = f"fill: {color}" if color else "font-weight: bold"
        x, y = middle
        return label(x, y + 4.0, text, "middle", class_="halo", style=style)

    def _hidden(self, middle: Array, half: Array) -> float:
        """Cost of a label at a place: what it would cover, or lose beyond the edge."""
        points = np.concatenate(self._lines) if self._lines else np.empty((0, 2))
        covered = float((np.abs(points - middle) < half + 1.0).all(axis=1).sum())
        overlaps = sum(
            bool((np.abs(middle - other) < half + size).all()) for other, size in self._boxes
        )
        outside = bool((middle - half < 0.0).any() or (middle + half > self._size).any())
        return covered + 20.0 * overlaps + 100.0 * outside


WIDTH = 440
LOWEST, HIGHEST = 200.0, 400.0
"""Height of the picture of a path [px]."""

BAR_HEIGHT = 20.0
"""Height of the scale bar with its label [px]."""

VELOCITY_S = 0.5
"""Time over which velocity arrows extend [s]."""

MOST_ARROWS = 16
"""Largest number of arrows; more would hide the path."""


@dataclass(frozen=True)
class View:
    """Parallel projection of points onto a picture."""

    axes: Array
    """(2, 3) axes of the picture, right and down."""

    scale: float
    """Pixels per metre."""

    height: float
    origin: Array
    """(2,) position of the origin [px]."""

    @classmethod
    def on(
        cls, axes: Array, points: Array, margins: tuple[float, float], low: float, high: float
    ) -> "View":
        """View that shows all points as large as they fit between margins, to both sides and above
        and below, in a picture that is as high as needed between `low` and `high`."""
        flat = points @ axes.T
        first, last = flat.min(axis=0), flat.max(axis=0)
        extent = np.maximum(last - first, 1e-3)
        margin = 2.0 * np.array(margins) + [0.0, BAR_HEIGHT]
        scale = float(((np.array([WIDTH, high]) - margin) / extent).min())
        height = max(float(scale * extent[1] + margin[1]), low)
        middle = np.array([WIDTH, height - BAR_HEIGHT]) / 2.0
        return cls(axes, scale, height, middle - scale * (first + last) / 2.0)

    def at(self, points: Array) -> Array:
        """(..., 2) positions of points (..., 3) [px]."""
        return np.asarray(self.origin + self.scale * (points @ self.axes.T))

    def picture(self, body: str) -> str:
        """SVG of a body with a scale bar of a round length in the lower left corner."""
        longest_m = 0.4 * WIDTH / self.scale
        decade = 10.0 ** np.floor(np.log10(longest_m))
        fitting = (decade * factor for factor in (5.0, 2.0, 1.0))
        length_m = next(length_m for length_m in fitting if length_m <= longest_m)
        text = f"{length_m:g} m" if length_m >= 0.1 else f"{1e3 * length_m:g} mm"
        start = np.array([16.0, self.height - 12.0])
        end = start + np.array([self.scale * length_m, 0.0])
        bar = segment(start, end, stroke=INK, stroke_width=3) + label(16, start[1] - 8.0, text)
        return picture(WIDTH, round(self.height), body + bar)


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
    every = max(-(-len(positions) // MOST_ARROWS), 1)
    starts, ends = positions[::every], (positions + VELOCITY_S * velocities)[::every]
    others = np.empty((0, 3)) if beside is None else beside
    shown = np.concatenate([positions, ends, others])
    view = View.on(_axes_of_path(gravity), shown, (44.0, 44.0), LOWEST, HIGHEST)
    places = view.at(positions)
    body = [polyline(view.at(others), SOFT, stroke_width=3)] if len(others) else []
    body.append(polyline(places, INK, stroke_width=2))
    arrows = zip(view.at(starts), view.at(ends), strict=True)
    body += [arrow(start, end, COLORS[0]) for start, end in arrows]
    if every == 1:
        body.append(dots(places, 3.5, INK))
    x, y = places[0]
    rim = {"stroke": INK, "stroke_width": "1.5"}
    body.append(element("circle", cx=x, cy=y, r=5, fill="var(--back)", **rim))
    corner = np.array([18.0, 16.0])
    body.append(arrow(corner, corner + np.array([0.0, 40.0]), COLORS[1]))
    body.append(label(23, 56, "gravity"))
    return view.picture("".join(body))


def _axes_of_path(gravity: Array) -> Array:
    """(2, 3) axes of the picture, right and down: down is gravity, right is the level part of x."""
    down = gravity / np.linalg.norm(gravity)
    level = np.eye(3)[0] - down[0] * down
    if np.linalg.norm(level) < 0.3:
        level = np.eye(3)[2] - down[2] * down
    level = level / np.linalg.norm(level)
    ahead = np.cross(down, level)
    return np.asarray(np.stack([level + 0.35 * ahead, down - 0.2 * ahead]))


RIG_HEIGHT = 400
AXES = (("x", COLORS[1]), ("y", COLORS[2]), ("z", COLORS[0]))

ABOVE = np.array([[0.866, -0.866, 0.0], [0.35, 0.35, -0.94]])
"""(2, 3) axes of the picture, right and down, in the body: from above, in front and to the side."""

EDGES = ((0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4), (4, 1))
"""Edges of a frustum between its corners."""


def rig_drawing(rig: Rig) -> str:
    """SVG with a caption: axes of the body and of every camera, each with its name."""
    names = ["b (IMU)", *(f"c{i}" for i in range(len(rig.cameras)))]
    Ts = np.array([np.eye(4), *(camera.T_b_c for camera in rig.cameras)])
    length_m = 0.4 * float(np.linalg.norm(Ts[1:, :3, 3], axis=1).max()) + 0.01
    origins = Ts[:, :3, 3]
    tips = origins[:, None] + length_m * np.swapaxes(Ts[:, :3, :3], 1, 2)
    frustums = np.array([_frustum(camera, 1.4 * length_m) for camera in rig.cameras])
    shown = np.concatenate([part.reshape(-1, 3) for part in (origins, tips, frustums)])
    view = View.on(ABOVE, shown, (30.0, 35.0), RIG_HEIGHT, RIG_HEIGHT)
    labels = Labels(WIDTH, RIG_HEIGHT)
    lines, arrows, letters, words = [], [], [], []
    for corners in view.at(frustums):
        for a, b in EDGES:
            faint = {"stroke": SOFT, "stroke_width": 1, "opacity": "0.7"}
            lines.append(segment(corners[a], corners[b], **faint))
    frames = list(zip(names, view.at(origins), view.at(tips), strict=True))
    for _, origin, ends in frames:
        for (_, color), end in zip(AXES, ends, strict=True):
            arrows.append(arrow(origin, end, color))
            labels.avoid(origin, end)
    for corners in view.at(frustums):
        for corner in corners[1:]:
            labels.avoid(corners[0], corner)
    for _, origin, ends in frames:
        for (axis, color), end in zip(AXES, ends, strict=True):
            letters.append(labels.place(end, axis, end - origin, color))
    for name, origin, ends in frames:
        words.append(labels.place(origin, name, origin - ends.mean(axis=0)))
    return figure(
        view.picture("".join([*lines, *arrows, *letters, *words])),
        "Axes of each frame: x red, y green, z blue. A camera looks along its z axis; its frustum "
        "is grey.",
    )


def _frustum(camera: Camera, depth_m: float) -> Array:
    """(5, 3) corners of the frustum in the body: the centre, then the image corners at a depth."""
    width, height = camera.resolution
    fx, fy, cx, cy = camera.intrinsics[:4]
    corners = [(0, 0), (width, 0), (width, height), (0, height)]
    # A wide lens has no pinhole corners: what is beyond 60 degrees is cut.
    rays = np.clip((np.array(corners) - [cx, cy]) / [fx, fy], -1.7, 1.7)
    points = depth_m * np.vstack([np.zeros(3), np.column_stack([rays, np.ones(4)])])
    return np.asarray(points @ camera.T_b_c[:3, :3].T + camera.T_b_c[:3, 3])


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

    @classmethod
    def without_points(cls, image: Image) -> "TrackedImage":
        """Image into which no point could be tracked."""
        return cls(image, np.empty((0, 2)), np.empty((0, 2)), np.empty(0))


def tracked_image(odometry: StereoOdometry, first_ns: int, second_ns: int) -> TrackedImage:
    """Match two keyframes again, for display: the inliers of the measured motion."""
    frames = odometry.frames
    indices = [frames.index_of(int(stamp)) for stamp in (first_ns, second_ns)]
    try:
        pairs = [frames.pair(index) for index in indices]
    except ImageError:
        return TrackedImage.without_points(np.zeros((1, 1), np.uint8))
    first, second = (keyframe(odometry.rectification, pair.left, pair.right) for pair in pairs)
    measured = odometry.relative_pose(*indices)
    if measured.reason:
        return TrackedImage.without_points(second.left)
    camera = odometry.rectification
    rotation = PredictedRotation(measured.T_ck_ck1[:3, :3], measured.cov_T_ck_ck1[3:, 3:])
    found = match_keyframes(first, [], second, camera, rotation)
    if len(found.matches) < MIN_MATCHES:
        return TrackedImage.without_points(second.left)
    cov = odometry.model(found.features)
    inlier = consensus_pose(found.matches, cov, camera, rotation).weights > 0.0
    sigma_px = np.sqrt(np.trace(cov[inlier, :2, :2], axis1=1, axis2=2))
    return TrackedImage(second.left, found.matches.uv0[inlier], found.matches.uv1[inlier], sigma_px)


def latest_tracks(odometry: StereoOdometry, stamp_ns: int) -> TrackedImage:
    """Image at a timestamp, with its points and their positions one image before."""
    index = odometry.frames.index_of(int(stamp_ns))
    before_ns = int(odometry.stamps_ns[max(index - 1, 0)])
    return tracked_image(odometry, before_ns, stamp_ns)


def sigma_colors(sigma_px: Array) -> NDArray[np.uint8]:
    """(n, 3) colours from cyan, most certain, to orange, five times less certain."""
    if not len(sigma_px):
        return np.empty((0, 3), dtype=np.uint8)
    share = np.clip((sigma_px / _best(sigma_px) - 1.0) / (LEAST_SURE - 1.0), 0.0, 1.0)
    return np.asarray(SURE + share[:, None] * (UNSURE - SURE)).astype(np.uint8)


def _best(sigma_px: Array) -> float:
    """Standard deviation of the most certain matches of an image [px]."""
    return float(np.quantile(sigma_px, 0.05))


def track_figure(tracked: TrackedImage) -> str:
    """Image with its points and a legend of their colours."""
    if not len(tracked.sigma_px):
        return figure(track_picture(tracked), "No point could be tracked into this image.", True)
    best = _best(tracked.sigma_px)
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
    return element("image", width=width, height=height, href=f"data:image/jpeg;base64,{text}")


def track_picture(tracked: TrackedImage) -> str:
    """SVG of the image with a line for every match."""
    height, width = tracked.image.shape
    return picture(width, height, _tracks(tracked))


def _tracks(tracked: TrackedImage) -> str:
    body = [embedded(tracked.image)]
    colors = [f"rgb({r},{g},{b})" for r, g, b in sigma_colors(tracked.sigma_px)]
    for start, end, color in zip(tracked.uv0, tracked.uv1, colors, strict=True):
        body.append(segment(start, end, stroke=color, stroke_width="1.5"))
        body.append(dots(end[None], 2, color))
    return "".join(body)


OVERVIEW_WIDTH, OVERVIEW_HEIGHT = 1060, 380
IMAGE_WIDTH = 520
HEADING, CELL = "font-size: 16px; font-weight: bold", "font-size: 14px"
"""Styles of texts in the overview."""


def overview(
    tracked: TrackedImage, initialization: InitializedRecording, calibration: CalibratedRecording
) -> str:
    """A stand-alone SVG of one initialization and one calibration."""
    scaled = f"translate(16 44) scale({IMAGE_WIDTH / tracked.image.shape[1]:.4f})"
    left, middle, right = 570, 880, OVERVIEW_WIDTH - 16
    parts = [
        label(16, 28, "stereo images and IMU samples", style=HEADING),
        element("g", _tracks(tracked), transform=scaled),
        label(left, 28, "states with uncertainty", style=HEADING),
        label(middle, 64, "estimate", "end", class_="soft", style=CELL),
        label(right, 64, "1-sigma", "end", class_="soft", style=CELL),
    ]
    for i, (name, estimate, sigma) in enumerate(_rows(initialization, calibration)):
        y = 98 + 44 * i
        parts += [
            segment(np.array([left, y - 24]), np.array([right, y - 24]), class_="axis"),
            label(left, y, name, style=CELL),
            label(middle, y, estimate, "end", style=CELL),
            label(right, y, sigma, "end", style=CELL),
        ]
    return standalone(OVERVIEW_WIDTH, OVERVIEW_HEIGHT, "".join(parts))


def _rows(
    initialization: InitializedRecording, calibration: CalibratedRecording
) -> list[tuple[str, str, str]]:
    """Quantity, estimate and one standard deviation, as text."""

    rows = []
    state, posterior = initialization.state, initialization.posterior
    if state is not None and posterior is not None:
        angle = f"{initialization.gravity_std_deg:.2f} deg"
        rows.append(("gravity [m/s²]", _numbers(state.gravity_c0, 2), angle))
        for name, values, cov, scale, digits in (
            ("velocity [m/s]", state.velocity_b[-1], posterior.velocity_b[-1], 1.0, 3),
            ("gyroscope bias [mrad/s]", state.gyro_bias, posterior.gyro_bias, 1e3, 1),
            ("accelerometer bias [m/s²]", state.acc_bias, posterior.acc_bias, 1.0, 3),
        ):
            std = _numbers(scale * stds(cov), digits)
            rows.append((name, _numbers(scale * values, digits), std))
    if calibration.rig is not None and calibration.posterior is not None:
        std_p, std_R = np.split(stds(calibration.posterior.T_b_c), 2)
        position_mm = 1e3 * calibration.rig.cameras[0].T_b_c[:3, 3]
        rows.append(("camera on the IMU [mm]", _numbers(position_mm, 1), _numbers(1e3 * std_p, 1)))
        rows.append(("its rotation [deg]", "", _numbers(np.rad2deg(std_R), 3)))
    return rows


def _numbers(values: Array, digits: int) -> str:
    return "  ".join(f"{value:.{digits}f}" for value in values)
