"""A rig in perspective: the IMU's and every camera's axes, frustums, and a scale bar."""

from collections.abc import Callable

import numpy as np

from maci2.reports.html import figure
from maci2.reports.labels import Labels
from maci2.reports.path_drawing import scale_bar
from maci2.reports.svg import COLORS, arrow, picture
from maci2.sensors import Rig
from maci2.sensors.rig_types import Camera
from maci2.types import Array

WIDTH, HEIGHT = 440, 400
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
    room = np.array([WIDTH - 60.0, HEIGHT - 90.0])
    scale = float((room / np.maximum(high - low, 1e-3)).min())
    centre = (low + high) / 2.0

    def at(point: Array) -> Array:
        middle = np.array([WIDTH / 2.0, HEIGHT / 2.0 - 12.0])
        return np.asarray(middle + scale * (VIEW @ point - centre))

    body = "".join(_frustum_lines(corners, at) for corners in frustums)
    body += _axes([T for _, T in poses], length_m, at)
    body += _names(poses, frustums, length_m, at)
    return figure(
        picture(WIDTH, HEIGHT, body + scale_bar(scale, HEIGHT)),
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
    labels = Labels(WIDTH, HEIGHT)
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
