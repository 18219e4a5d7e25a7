"""Stereo device of simulated recordings."""

from typing import Literal, get_args

import numpy as np

from maci2.errors import OptionError
from maci2.lie import se3, se3_exp, so3_exp
from maci2.sensors.rig_types import Camera, ImuNoise, Rig
from maci2.types import Array

LensKind = Literal["pinhole", "fisheye"]


def simulated_rig(lens: LensKind, camera_rate_hz: float, noise: ImuNoise) -> Rig:
    """Two cameras 11 cm apart that look along the body's x axis, and an IMU."""
    if lens not in get_args(LensKind):
        raise OptionError(f"lens is '{lens}'; choose one of {', '.join(get_args(LensKind))}.")
    make = _pinhole if lens == "pinhole" else _fisheye
    T_b_c0 = _left_camera()
    T_c0_c1 = se3_exp(np.array([0.11, 0.0005, -0.0008, 0.004, -0.006, 0.003]))
    cameras = (make(T_b_c0, camera_rate_hz), make(T_b_c0 @ T_c0_c1, camera_rate_hz))
    return Rig(cameras=cameras, imu=noise, source="simulated rig", exact=True)


def _left_camera() -> Array:
    """Extrinsics T_b_c0: looking forward, rotated by a few degrees about every axis so that no part
    of them is zero."""
    # Camera axes (right, down, forward) in body axes (forward, left, up).
    R_b_forward = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    R_forward_c0 = so3_exp(np.array([0.06, -0.04, 0.03]))
    return se3(R_b_forward @ R_forward_c0, np.array([0.065, 0.055, -0.02]))


def _pinhole(T_b_c: Array, rate_hz: float) -> Camera:
    return Camera(
        T_b_c=T_b_c,
        intrinsics=np.array([458.0, 457.0, 372.0, 244.0]),
        distortion=np.array([-0.28, 0.07, 2.0e-4, 2.0e-5]),
        distortion_model="radtan",
        resolution=(752, 480),
        rate_hz=rate_hz,
    )


def _fisheye(T_b_c: Array, rate_hz: float) -> Camera:
    return Camera(
        T_b_c=T_b_c,
        intrinsics=np.array([190.5, 190.5, 255.0, 257.0]),
        distortion=np.array([3.5e-3, 7.0e-4, -2.0e-3, 2.0e-4]),
        distortion_model="equidistant",
        resolution=(512, 512),
        rate_hz=rate_hz,
    )
