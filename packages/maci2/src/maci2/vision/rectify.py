"""Rectification of a stereo pair: its images share their rows.

Stereo matches check the calibration that it was made from: row errors that are smooth over the
image mean swapped cameras, wrong extrinsics or a wrong lens.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.errors import CalibrationError
from maci2.geometry import se3, se3_inv
from maci2.sensors import Camera, Rig
from maci2.sensors.camera_model import central_focal, pixel_grid, project
from maci2.sensors.stereo import Image
from maci2.types import Array
from maci2.validation import as_image
from maci2.vision.two_frame import PinholePair

Map = NDArray[np.float32]

MIN_BASELINE = 1e-3
"""[m] Below this the two cameras of a rig are one."""

EDGE_PX = 2
"""Source pixels at the border that no rectified pixel is taken from."""


MAX_EPIPOLAR_PX = 1.5
"""Median row error of stereo matches above which the calibration may not be the images'."""

MAX_UNEXPLAINED = 0.5
"""Share of the row error that may be no common field, as of points without texture."""

MIN_STEREO_MATCHES = 30
MAX_NEGATIVE = 0.5
"""Share of matches with negative disparity above which the cameras are swapped."""

SOME_NEGATIVE = 0.1
"""Share of them that hardly any rectified pair has, and that is said beside another fault."""


@dataclass(frozen=True)
class Rectification(PinholePair):
    """Ideal pinhole pair made from two real cameras: same rows, same focal length."""

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
    R_cr_c0, R_cr1_c1, baseline = rectifying_rotations(rig)
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
    uv, last = np.stack(maps_left, axis=-1), np.array([width, height]) - 1 - EDGE_PX
    inside = (uv >= EDGE_PX) & (uv <= last)
    return Rectification(
        focal=focal,
        center=center,
        baseline=baseline,
        T_b_cr=rectified_extrinsics(rig),
        resolution=left.resolution,
        maps_left=maps_left,
        maps_right=_maps(right, R_cr1_c1, new),
        mask=np.where(inside.all(axis=-1), 255, 0).astype(np.uint8),
    )


def rectified_extrinsics(rig: Rig) -> Array:
    """T_b_cr, pose of the rectified left camera in the body: T_b_c0 with R1 undone.

    Rectification rotates the image by R1 = R_cr_c0, so the rectified frame is not the camera's: on
    EuRoC they differ by 0.62 deg.
    """
    R_cr_c0, _, _ = rectifying_rotations(rig)
    T_b_c = rig.cameras[0].T_b_c
    return se3(T_b_c[:3, :3] @ R_cr_c0.T, T_b_c[:3, 3])


def rectifying_rotations(rig: Rig) -> tuple[Array, Array, float]:
    """R_cr_c0 and R_cr1_c1, rotations from both cameras to the rectified frame, and the baseline
    [m]."""
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
    K0, K1, no_lens = _camera_matrix(left), _camera_matrix(right), np.zeros(4)
    R_c1_c0, p_c1_c0 = (np.ascontiguousarray(part) for part in (T_c1_c0[:3, :3], T_c1_c0[:3, 3:4]))
    pair = K0, no_lens, K1, no_lens, left.resolution, R_c1_c0, p_c1_c0
    R_cr_c0, R_cr1_c1 = cv2.stereoRectify(*pair, flags=cv2.CALIB_ZERO_DISPARITY)[:2]
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
    lens = cv2.fisheye if camera.distortion_model == "equidistant" else cv2
    u, v = lens.initUndistortRectifyMap(K, camera.distortion, R_cr_c, new, size, cv2.CV_32FC1)
    return np.asarray(u, np.float32), np.asarray(v, np.float32)


def _projected_maps(camera: Camera, R_cr_c: Array, new: Array) -> tuple[Map, Map]:
    """Maps of a model that OpenCV does not know; -1 where the lens cannot see."""
    uv1 = np.column_stack([pixel_grid(camera.resolution), np.ones(np.prod(camera.resolution))])
    uv = project(camera, uv1 @ np.linalg.inv(new).T @ R_cr_c)
    maps = np.where(np.isnan(uv), -1.0, uv).astype(np.float32)
    shape = camera.resolution[::-1]
    return maps[:, 0].reshape(shape), maps[:, 1].reshape(shape)


def _remap(image: Image, maps: tuple[Map, Map]) -> Image:
    found = cv2.remap(image, maps[0], maps[1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(found, np.uint8)


def calibration_fault(left_uv: Array, right_uv: Array) -> str:
    """Contradiction of stereo matches (n, 2) to the calibration of their pair, or to two images of
    one instant; empty if there is none."""
    disparities, rows = (left_uv - right_uv).T
    if len(disparities) < MIN_STEREO_MATCHES:
        return ""
    negative = float((disparities < -0.5).mean())
    if negative > MAX_NEGATIVE:
        return (
            f"{100 * negative:.0f} % of {len(disparities)} stereo matches have negative disparity "
            f"(median {np.median(disparities):.1f} px): left and right look swapped, or the two "
            "images are not of one instant. Exchange cam0 and cam1, images and calibration alike, "
            "or see that both cameras expose together."
        )
    error = float(np.median(np.abs(rows)))
    if error <= MAX_EPIPOLAR_PX:
        return ""
    field, slopes = common_row_error(left_uv, rows)
    if float(np.median(np.abs(rows - field))) > MAX_UNEXPLAINED * error:
        return ""
    remedy = (
        "Give the calibration that belongs to these images, calibrate again, or see that both "
        "cameras expose together."
    )
    if negative > SOME_NEGATIVE:
        remedy += (
            f" {100 * negative:.0f} % of them have negative disparity, too: left and right may be "
            "swapped."
        )
    return (
        f"{len(rows)} stereo matches lie {error:.1f} px off their rows, at most "
        f"{MAX_EPIPOLAR_PX:g} px is usable; {likely_cause(*slopes)}, or the two images are not of "
        f"one instant. {remedy}"
    )


def common_row_error(uv: Array, rows: Array) -> tuple[Array, tuple[float, float, float]]:
    """The part of row errors (n,) that is smooth over the image, and its offset and slopes.

    Points without texture are matched anywhere near their row; a wrong calibration moves all
    points of a region alike, so only what neighbours share counts.
    """
    basis = _smooth_basis(uv, uv.mean(axis=0))
    fit = _least_absolute(basis, rows)
    return basis @ fit, (float(fit[0]), float(fit[1]), float(fit[2]))


def row_error_field(uv: Array, rows: Array, at_uv: Array) -> Array:
    """The smooth part of row errors (n,) found at `uv`, at other points."""
    center = at_uv.mean(axis=0)
    return _smooth_basis(at_uv, center) @ _least_absolute(_smooth_basis(uv, center), rows)


def _smooth_basis(uv: Array, center: Array) -> Array:
    """(n, 6) constant, linear and quadratic terms [100 px]."""
    x, y = ((uv - center) / 100.0).T
    return np.column_stack([np.ones(len(x)), x, y, x * x, x * y, y * y])


def _least_absolute(basis: Array, rows: Array) -> Array:
    """Coefficients with the least sum of absolute errors: half of the points may be wrong."""
    weights = np.ones(len(rows))
    for _ in range(10):
        scale = np.sqrt(weights)
        fit = np.linalg.lstsq(basis * scale[:, None], rows * scale, rcond=None)[0]
        weights = 1.0 / np.maximum(np.abs(rows - basis @ fit), 0.1)
    return np.asarray(fit)


def likely_cause(offset: float, along: float, down: float) -> str:
    """An offset of all rows is a tilt between the cameras, a slope along them a roll."""
    if abs(offset) > abs(along) + abs(down):
        return (
            f"nearly all by {offset:+.1f} px: the cameras are tilted against each other (T_BS) or "
            "cy is wrong"
        )
    if abs(along) > abs(down):
        return (
            f"growing by {along:+.1f} px per 100 px along the row: the cameras are rolled against "
            "each other (T_BS)"
        )
    return (
        f"growing by {down:+.1f} px per 100 px down the image: focal lengths or lens distortion "
        "are wrong"
    )
