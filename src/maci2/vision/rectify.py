"""The rectified camera frame: where the images of a stereo pair share their rows."""

import cv2
import numpy as np

from maci2.errors import CalibrationError
from maci2.gaussian import Array
from maci2.lie import se3_inv
from maci2.sensors import Camera, Rig


def rectified_extrinsics(rig: Rig) -> Array:
    """T_b_cr, pose of the rectified left camera in the body: T_b_c0 with R1 undone.

    Rectification turns the image by R1 = R_cr_c0, so the rectified frame is not the camera's: on
    EuRoC they differ by 0.62 deg.
    """
    if len(rig.cameras) < 2:
        raise CalibrationError(
            f"{rig.source}: has {len(rig.cameras)} camera, rectification needs two; use "
            "--vision-frame camera."
        )
    left, right = rig.cameras[0], rig.cameras[1]
    T_c1_c0 = se3_inv(right.T_b_c) @ left.T_b_c
    # R1 depends on the extrinsics only; distortion moves pixels, not the frame.
    R_cr_c0 = cv2.stereoRectify(
        _camera_matrix(left),
        np.zeros(4),
        _camera_matrix(right),
        np.zeros(4),
        left.resolution,
        np.ascontiguousarray(T_c1_c0[:3, :3]),
        np.ascontiguousarray(T_c1_c0[:3, 3:4]),
        flags=cv2.CALIB_ZERO_DISPARITY,
    )[0]
    T_b_cr = left.T_b_c.copy()
    T_b_cr[:3, :3] = left.T_b_c[:3, :3] @ R_cr_c0.T
    return T_b_cr


def _camera_matrix(camera: Camera) -> Array:
    fx, fy, cx, cy = camera.intrinsics
    return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
