"""Camera models: pixel to direction and point to pixel.

A pixel is focal length times a distorted plane point plus principal point. The models differ in
how a point reaches the plane (pinhole, omni, ds, eucm) and in how the plane is distorted (radtan,
equidistant, fov).
"""

import cv2
import numpy as np

from maci2.sensors.rig_types import Camera
from maci2.types import Array

NEWTON_STEPS = 20
MAX_FISHEYE_ANGLE = 2.2
"""Largest angle that a fisheye lens sees [rad]."""

MIN_FOV_PARAMETER = 1e-6
"""Angle below which the fov model is a pinhole [rad]."""


def pixel_grid(resolution: tuple[int, int]) -> Array:
    """(h * w, 2) centres of all pixels, row by row."""
    width, height = resolution
    u, v = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    return np.column_stack([u.ravel(), v.ravel()])


def central_focal(camera: Camera) -> Array:
    """(2,) pixels per radian at the optical axis: focal length of an equivalent pinhole."""
    scale = 1.0
    if camera.camera_model in ("omni", "ds"):
        scale = 1.0 / (1.0 + camera.model_parameters[0])
    if camera.distortion_model == "fov" and camera.distortion[0] > MIN_FOV_PARAMETER:
        scale *= 2.0 * np.tan(camera.distortion[0] / 2.0) / camera.distortion[0]
    return np.asarray(camera.intrinsics[:2] * scale)


def directions(camera: Camera, uv: Array) -> Array:
    """(n, 3) rays of pixels, unit vectors in the camera frame; NaN if no ray reaches one."""
    fx, fy, cx, cy = camera.intrinsics
    xy = (uv - [cx, cy]) / [fx, fy]
    if camera.distortion_model == "equidistant":
        return _fisheye_directions(xy, camera.distortion)
    with np.errstate(divide="ignore", invalid="ignore"):
        if camera.distortion_model == "radtan":
            K = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
            stop = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 100, 1e-12)
            points = np.ascontiguousarray(uv, np.float64).reshape(-1, 1, 2)
            xy = cv2.undistortPoints(points, K, camera.distortion, criteria=stop).reshape(-1, 2)
        elif camera.distortion_model == "fov":
            xy = _fov_undistorted(xy, float(camera.distortion[0]))
        rays = _lifted(camera, xy)
    return rays / np.linalg.norm(rays, axis=1, keepdims=True)


def project(camera: Camera, p_c: Array) -> Array:
    """(n, 2) pixels of points in the camera frame; NaN for points that the lens cannot see."""
    fx, fy, cx, cy = camera.intrinsics
    with np.errstate(divide="ignore", invalid="ignore"):
        if camera.distortion_model == "equidistant":
            xy = _fisheye_project(p_c, camera.distortion)
        else:
            xy, visible = _plane_points(camera, p_c)
            if camera.distortion_model == "radtan":
                xy = _radtan(xy, camera.distortion)
            elif camera.distortion_model == "fov":
                xy = _fov_distorted(xy, float(camera.distortion[0]))
            xy[np.logical_not(visible)] = np.nan
    return xy * [fx, fy] + [cx, cy]


def _plane_points(camera: Camera, p_c: Array) -> tuple[Array, Array]:
    """Points on the plane before distortion, and whether the model can see them."""
    x, y, z = p_c.T
    r2 = x * x + y * y
    if camera.camera_model == "pinhole":
        depth, visible = z, z > 0.0
    elif camera.camera_model == "eucm":
        alpha, beta = camera.model_parameters
        bent = np.sqrt(beta * r2 + z * z)
        depth, visible = alpha * bent + (1.0 - alpha) * z, z > -_edge(alpha) * bent
    else:
        xi, alpha = _double_sphere(camera)
        distance = np.sqrt(r2 + z * z)
        moved = xi * distance + z
        depth = alpha * np.sqrt(r2 + moved * moved) + (1.0 - alpha) * moved
        edge = _edge(alpha)
        lowest = -(edge + xi) / np.sqrt(2.0 * edge * xi + xi * xi + 1.0)
        if camera.camera_model == "omni":
            lowest = -(xi if xi <= 1.0 else 1.0 / xi)
        visible = z > lowest * distance
    return p_c[:, :2] / depth[:, None], visible


def _double_sphere(camera: Camera) -> tuple[float, float]:
    """xi and alpha of ds; the unified model (omni) is the one with alpha 0."""
    xi, alpha = (*camera.model_parameters, 0.0)[:2]
    return xi, alpha


def _edge(alpha: float) -> float:
    """View behind the camera that the second sphere allows; 0 for a pinhole."""
    return float(alpha / (1.0 - alpha) if alpha <= 0.5 else (1.0 - alpha) / alpha)


def _lifted(camera: Camera, xy: Array) -> Array:
    """(n, 3) rays through undistorted points of the plane, of any length."""
    r2 = (xy * xy).sum(axis=1)
    if camera.camera_model == "pinhole":
        return np.column_stack([xy, np.ones(len(xy))])
    if camera.camera_model == "eucm":
        alpha, beta = camera.model_parameters
        return np.column_stack([xy, _second_sphere(beta * r2, alpha)])
    xi, alpha = _double_sphere(camera)
    mz = _second_sphere(r2, alpha)
    scale = (mz * xi + np.sqrt(mz * mz + (1.0 - xi * xi) * r2)) / (mz * mz + r2)
    return np.column_stack([xy * scale[:, None], mz * scale - xi])


def _second_sphere(r2: Array, alpha: float) -> Array:
    root = np.sqrt(1.0 - (2.0 * alpha - 1.0) * r2)
    return np.asarray((1.0 - alpha * alpha * r2) / (alpha * root + 1.0 - alpha))


def _radtan(xy: Array, distortion: Array) -> Array:
    k1, k2, p1, p2 = distortion[:4]
    k3, k4, k5, k6 = [*distortion[4:], 0.0, 0.0, 0.0, 0.0][:4]
    x, y = xy[:, 0], xy[:, 1]
    r2 = x * x + y * y
    radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
    radial = radial / (1.0 + r2 * (k4 + r2 * (k5 + r2 * k6)))
    return np.column_stack(
        [
            x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x),
            y * radial + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y,
        ]
    )


def _fov_distorted(xy: Array, w: float) -> Array:
    if w < MIN_FOV_PARAMETER:
        return xy
    radius, slope = np.linalg.norm(xy, axis=1), 2.0 * np.tan(w / 2.0)
    return _stretched(xy, radius, np.arctan(radius * slope) / w, slope / w)


def _fov_undistorted(xy: Array, w: float) -> Array:
    if w < MIN_FOV_PARAMETER:
        return xy
    radius, slope = np.linalg.norm(xy, axis=1), 2.0 * np.tan(w / 2.0)
    angle = np.where(radius * w < np.pi / 2.0, radius * w, np.nan)
    return _stretched(xy, radius, np.tan(angle) / slope, w / slope)


def _stretched(xy: Array, radius: Array, new_radius: Array, at_zero: float) -> Array:
    """Points moved along their radius, by the factor `at_zero` in the middle."""
    return xy * np.where(radius > 1e-8, new_radius / radius, at_zero)[:, None]


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
