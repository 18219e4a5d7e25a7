"""The rectified camera frame: where the images of a stereo pair share their rows."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.boundary import as_image
from maci2.errors import CalibrationError
from maci2.lie import se3_inv
from maci2.sensors import Camera, Rig
from maci2.sensors.camera_model import central_focal, pixel_grid, project
from maci2.sensors.stereo import Image
from maci2.types import Array

Map = NDArray[np.float32]

MIN_BASELINE = 1e-3
"""[m] Below this the two cameras of a rig are one."""

EDGE_PX = 2
"""Source pixels at the border that no rectified pixel is taken from."""


@dataclass(frozen=True)
class Rectification:
    """Ideal pinhole pair made from two real cameras: same rows, same focal length."""

    focal: float
    """[px] of both axes."""

    center: tuple[float, float]
    """cx, cy [px] of both images."""

    baseline: float
    """[m]; depth = focal * baseline / disparity."""

    T_b_cr: Array
    """Pose of the rectified left camera in the body."""

    resolution: tuple[int, int]
    maps_left: tuple[Map, Map]
    maps_right: tuple[Map, Map]

    mask: NDArray[np.uint8]
    """255 where the left image has content."""

    def left(self, image: Image) -> Image:
        """The left image, rectified."""
        return _remap(as_image(image, self.resolution, "the left image"), self.maps_left)

    def right(self, image: Image) -> Image:
        """The right image, rectified."""
        return _remap(as_image(image, self.resolution, "the right image"), self.maps_right)


def rectify(rig: Rig) -> Rectification:
    """Maps that make a rig's first two cameras an ideal pair; any distortion model."""
    R_cr_c0, R_cr1_c1, baseline = _rectifying_rotations(rig)
    left, right = rig.cameras[0], rig.cameras[1]
    if left.resolution != right.resolution:
        raise CalibrationError(
            f"{rig.source}: left is {left.resolution[0]}x{left.resolution[1]}, right "
            f"{right.resolution[0]}x{right.resolution[1]}; needed one size for both cameras."
        )
    width, height = left.resolution
    focal = float(min(central_focal(camera).mean() for camera in (left, right)))
    center = ((width - 1) / 2.0, (height - 1) / 2.0)
    new = np.array([[focal, 0.0, center[0]], [0.0, focal, center[1]], [0.0, 0.0, 1.0]])
    maps_left = _maps(left, R_cr_c0, new)
    return Rectification(
        focal=focal,
        center=center,
        baseline=baseline,
        T_b_cr=_rotated(left.T_b_c, R_cr_c0),
        resolution=left.resolution,
        maps_left=maps_left,
        maps_right=_maps(right, R_cr1_c1, new),
        mask=_content(maps_left, left.resolution),
    )


def rectified_extrinsics(rig: Rig) -> Array:
    """T_b_cr, pose of the rectified left camera in the body: T_b_c0 with R1 undone.

    Rectification rotates the image by R1 = R_cr_c0, so the rectified frame is not the camera's: on
    EuRoC they differ by 0.62 deg.
    """
    R_cr_c0, _, _ = _rectifying_rotations(rig)
    return _rotated(rig.cameras[0].T_b_c, R_cr_c0)


def rectified_pair_rotations(rig: Rig) -> tuple[Array, Array]:
    """R_cr_c0 and R_cr1_c1: rotations from both cameras to the rectified frame."""
    R_cr_c0, R_cr1_c1, _ = _rectifying_rotations(rig)
    return R_cr_c0, R_cr1_c1


def _rotated(T_b_c: Array, R_cr_c: Array) -> Array:
    T_b_cr = T_b_c.copy()
    T_b_cr[:3, :3] = T_b_c[:3, :3] @ R_cr_c.T
    return T_b_cr


def _rectifying_rotations(rig: Rig) -> tuple[Array, Array, float]:
    """R_cr_c0, R_cr1_c1 and the baseline [m]."""
    if len(rig.cameras) < 2:
        raise CalibrationError(
            f"{rig.source}: has {len(rig.cameras)} camera, rectification needs two; use "
            "--vision-frame camera."
        )
    left, right = rig.cameras[0], rig.cameras[1]
    T_c1_c0 = se3_inv(right.T_b_c) @ left.T_b_c
    p_c0_c1 = se3_inv(T_c1_c0)[:3, 3]
    baseline = float(np.linalg.norm(p_c0_c1))
    if baseline < MIN_BASELINE:
        raise CalibrationError(
            f"{rig.source}: cam0 and cam1 are {1e3 * baseline:.3f} mm apart, needed at least "
            f"{1e3 * MIN_BASELINE:g}; check T_BS of both cameras."
        )
    if p_c0_c1[0] < 0.5 * baseline:
        raise CalibrationError(
            f"{rig.source}: cam1 sits at {np.round(p_c0_c1, 4).tolist()} m in cam0, needed to the "
            "right of it (x above 0 and largest): left and right look swapped, or the rig is "
            "vertical. Exchange the two cameras."
        )
    # R1 and R2 depend on the extrinsics only; distortion moves pixels, not the frame.
    R_cr_c0, R_cr1_c1 = cv2.stereoRectify(
        _camera_matrix(left),
        np.zeros(4),
        _camera_matrix(right),
        np.zeros(4),
        left.resolution,
        np.ascontiguousarray(T_c1_c0[:3, :3]),
        np.ascontiguousarray(T_c1_c0[:3, 3:4]),
        flags=cv2.CALIB_ZERO_DISPARITY,
    )[:2]
    return np.asarray(R_cr_c0, np.float64), np.asarray(R_cr1_c1, np.float64), baseline


def _camera_matrix(camera: Camera) -> Array:
    fx, fy, cx, cy = camera.intrinsics
    return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])


def _maps(camera: Camera, R_cr_c: Array, new: Array) -> tuple[Map, Map]:
    """Where each rectified pixel lies in the camera's own image; exact floats, since OpenCV's
    fixed-point maps round to 1/32 px, as much as a good match errs."""
    K, size = _camera_matrix(camera), camera.resolution
    if camera.camera_model != "pinhole" or camera.distortion_model == "fov":
        return _projected_maps(camera, R_cr_c, new)
    if camera.distortion_model == "equidistant":
        found = cv2.fisheye.initUndistortRectifyMap(
            K, camera.distortion, R_cr_c, new, size, cv2.CV_32FC1
        )
    else:
        found = cv2.initUndistortRectifyMap(K, camera.distortion, R_cr_c, new, size, cv2.CV_32FC1)
    return np.asarray(found[0], np.float32), np.asarray(found[1], np.float32)


def _projected_maps(camera: Camera, R_cr_c: Array, new: Array) -> tuple[Map, Map]:
    """Maps of a model that OpenCV does not know; -1 where the lens cannot see."""
    uv1 = np.column_stack([pixel_grid(camera.resolution), np.ones(np.prod(camera.resolution))])
    uv = project(camera, uv1 @ np.linalg.inv(new).T @ R_cr_c)
    maps = np.where(np.isnan(uv), -1.0, uv).astype(np.float32)
    width, height = camera.resolution
    return maps[:, 0].reshape(height, width), maps[:, 1].reshape(height, width)


def _content(maps: tuple[Map, Map], resolution: tuple[int, int]) -> NDArray[np.uint8]:
    width, height = resolution
    inside = (
        (maps[0] >= EDGE_PX)
        & (maps[0] <= width - 1 - EDGE_PX)
        & (maps[1] >= EDGE_PX)
        & (maps[1] <= height - 1 - EDGE_PX)
    )
    return np.where(inside, 255, 0).astype(np.uint8)


def _remap(image: Image, maps: tuple[Map, Map]) -> Image:
    found = cv2.remap(image, maps[0], maps[1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(found, np.uint8)
