"""Writer of ORB-SLAM3's settings: one camera or two, baseline and extrinsics.

Its IMU.T_b_c1 is our T_b_c of the left camera, Stereo.T_c1_c2 the pose of the right camera in the
left one. It reads matrices as floats (dt: f); the text carries all digits all the same.
"""

import math
from pathlib import Path
from typing import Any

from maci2.errors import CalibrationError
from maci2.lie import se3_inv
from maci2.rigs.opencv_yaml import opencv_matrix, opencv_yaml
from maci2.sensors.rig_types import Camera, Rig

CONFIG = "stereo_inertial.yaml"
MONOCULAR_CONFIG = "monocular_inertial.yaml"
ASSUMED_RATE_HZ = 20
"""Frame rate if the calibration lacks it; ORB-SLAM3 requires one."""

_FOCAL = ("fx", "fy", "cx", "cy")
_PINHOLE = ("k1", "k2", "p1", "p2", "k3")
_FISHEYE = ("k1", "k2", "k3", "k4")
_CONVENTION = (
    "ORB-SLAM3, camera and IMU part. IMU.T_b_c1 takes points from the left camera to the body, the",
    "IMU: p_b = IMU.T_b_c1 p_c1; it is the pose of the camera in the body frame, and the inverse",
    "of Kalibr's T_cam_imu. Stereo.T_c1_c2 takes points from the right camera to the left one.",
    "IMU noise as densities and random walks per sqrt(Hz), SI units.",
    "maci2.time_offset [s]: t_imu = t_camera + maci2.time_offset. ORB-SLAM3 has none and does not",
    "read it: add it to the timestamps of the images that you give to ORB-SLAM3.",
    "ORBextractor.* and Viewer.* are ORB-SLAM3's own settings and are not here.",
)


def orbslam3_files(folder: Path, rig: Rig) -> dict[Path, str]:
    """Camera and IMU part of a stereo-inertial or monocular-inertial configuration."""
    kind = _kind_of(rig)
    left, noise = rig.cameras[0], rig.imu
    entries: dict[str, Any] = {"File.version": "1.0", "Camera.type": kind}
    for number, camera in enumerate(rig.cameras, start=1):
        lens = _FISHEYE if kind == "KannalaBrandt8" else _PINHOLE[: len(camera.distortion)]
        names = [f"Camera{number}.{name}" for name in (*_FOCAL, *lens)]
        values = [*camera.intrinsics.tolist(), *camera.distortion.tolist()]
        entries |= dict(zip(names, values, strict=True))
    entries |= {"Camera.width": left.resolution[0], "Camera.height": left.resolution[1]}
    entries |= {**_frame_rate(left.rate_hz), "Camera.RGB": 1}
    if len(rig.cameras) == 2:
        T_c1_c2 = se3_inv(left.T_b_c) @ rig.cameras[1].T_b_c
        entries |= {"Stereo.ThDepth": 60.0, "Stereo.T_c1_c2": opencv_matrix(T_c1_c2, "f")}
    entries |= {
        "IMU.T_b_c1": opencv_matrix(left.T_b_c, "f"),
        "IMU.NoiseGyro": float(noise.density_gyro),
        "IMU.NoiseAcc": float(noise.density_acc),
        "IMU.GyroWalk": float(noise.walk_gyro),
        "IMU.AccWalk": float(noise.walk_acc),
        "IMU.Frequency": float(noise.rate_hz),
        "maci2.time_offset": float(rig.time_offset_s),
    }
    path = folder / (CONFIG if len(rig.cameras) == 2 else MONOCULAR_CONFIG)
    return {path: opencv_yaml(entries, _CONVENTION)}


def _kind_of(rig: Rig) -> str:
    """Camera.type of all cameras; raises if ORB-SLAM3's format cannot represent them."""
    sizes = {camera.resolution for camera in rig.cameras}
    if len(rig.cameras) > 2 or len(sizes) > 1:
        raise CalibrationError(
            f"{rig.source}: has {len(rig.cameras)} cameras of {len(sizes)} image sizes; "
            "ORB-SLAM3's file holds one camera, or two of one image size."
        )
    kinds = [_camera_kind(camera, rig.source) for camera in rig.cameras]
    if len(set(kinds)) > 1:
        models = " and ".join(camera.distortion_model for camera in rig.cameras)
        raise CalibrationError(
            f"{rig.source}: the cameras are {models}; ORB-SLAM3 needs one model for both."
        )
    return kinds[0]


def _camera_kind(camera: Camera, source: str) -> str:
    if camera.camera_model == "pinhole" and camera.distortion_model == "equidistant":
        return "KannalaBrandt8"
    known = camera.camera_model == "pinhole" and camera.distortion_model in ("radtan", "none")
    if known and len(camera.distortion) <= 5:
        return "PinHole"
    raise CalibrationError(
        f"{source}: the camera model is {camera.camera_model} with distortion "
        f"'{camera.distortion_model}' ({len(camera.distortion)} coefficients), which ORB-SLAM3 "
        "does not know; calibrate with pinhole-radtan or pinhole-equidistant."
    )


def _frame_rate(rate_hz: float) -> dict[str, Any]:
    """Frame rate, rounded since ORB-SLAM3 accepts whole numbers only."""
    if math.isnan(rate_hz):
        note = f"The source does not state a frame rate; {ASSUMED_RATE_HZ} is assumed."
        return {"# fps": note, "Camera.fps": ASSUMED_RATE_HZ}
    return {"Camera.fps": round(rate_hz)}
