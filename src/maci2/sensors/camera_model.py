"""Lens models both ways: pixel to direction and point to pixel."""

import cv2
import numpy as np

from maci2.sensors.types import Camera
from maci2.types import Array

NEWTON_STEPS = 20
MAX_FISHEYE_ANGLE = 2.2
"""[rad] Beyond this no fisheye sees."""


def pixel_grid(resolution: tuple[int, int]) -> Array:
    """(h * w, 2) centres of all pixels, row by row."""
    width, height = resolution
    u, v = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    return np.column_stack([u.ravel(), v.ravel()])


def directions(camera: Camera, uv: Array) -> Array:
    """(n, 3) unit vectors in the camera frame that the pixels look along."""
    fx, fy, cx, cy = camera.intrinsics
    xy = (uv - [cx, cy]) / [fx, fy]
    if camera.distortion_model == "equidistant":
        return _fisheye_directions(xy, camera.distortion)
    if camera.distortion_model == "radtan":
        K = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
        stop = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 100, 1e-12)
        xy = cv2.undistortPoints(uv.reshape(-1, 1, 2), K, camera.distortion, criteria=stop)
        xy = xy.reshape(-1, 2)
    rays = np.column_stack([xy, np.ones(len(xy))])
    return rays / np.linalg.norm(rays, axis=1, keepdims=True)


def project(camera: Camera, p_c: Array) -> Array:
    """(n, 2) pixels of points in the camera frame; NaN for points that the lens cannot see."""
    fx, fy, cx, cy = camera.intrinsics
    with np.errstate(divide="ignore", invalid="ignore"):
        if camera.distortion_model == "equidistant":
            xy = _fisheye_project(p_c, camera.distortion)
        else:
            xy = p_c[:, :2] / p_c[:, 2:]
            if camera.distortion_model == "radtan":
                xy = _radtan(xy, camera.distortion)
            xy[p_c[:, 2] <= 0.0] = np.nan
    return xy * [fx, fy] + [cx, cy]


def _radtan(xy: Array, distortion: Array) -> Array:
    k1, k2, p1, p2 = distortion
    x, y = xy[:, 0], xy[:, 1]
    r2 = x * x + y * y
    radial = 1.0 + r2 * (k1 + r2 * k2)
    return np.column_stack(
        [
            x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x),
            y * radial + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y,
        ]
    )


def _bent(theta: Array, distortion: Array) -> Array:
    k1, k2, k3, k4 = distortion
    t2 = theta * theta
    return theta * (1.0 + t2 * (k1 + t2 * (k2 + t2 * (k3 + t2 * k4))))


def _fisheye_project(p_c: Array, distortion: Array) -> Array:
    across = np.hypot(p_c[:, 0], p_c[:, 1])
    theta = np.arctan2(across, p_c[:, 2])
    scale = np.where(across > 0.0, _bent(theta, distortion) / across, 1.0 / p_c[:, 2])
    xy = p_c[:, :2] * scale[:, None]
    xy[theta > MAX_FISHEYE_ANGLE] = np.nan
    return xy


def _fisheye_directions(xy: Array, distortion: Array) -> Array:
    radius = np.linalg.norm(xy, axis=1)
    k1, k2, k3, k4 = distortion
    theta = radius.copy()
    for _ in range(NEWTON_STEPS):
        t2 = theta * theta
        slope = 1.0 + t2 * (3.0 * k1 + t2 * (5.0 * k2 + t2 * (7.0 * k3 + t2 * 9.0 * k4)))
        step = (_bent(theta, distortion) - radius) / np.maximum(slope, 0.1)
        theta = np.clip(theta - step, 0.0, MAX_FISHEYE_ANGLE)
    unit = np.divide(xy, radius[:, None], out=np.zeros_like(xy), where=radius[:, None] > 0.0)
    return np.column_stack([unit * np.sin(theta)[:, None], np.cos(theta)])
