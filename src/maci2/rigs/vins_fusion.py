"""VINS-Fusion written: one file with body_T_cam0, body_T_cam1 and IMU noise, one file per camera.

body_T_cam0 is our T_b_c. Its acc_n and gyr_n are standard deviations of single samples, acc_w and
gyr_w of a bias step divided by the sample's period: density times the square root of the rate.
"""

import math
from pathlib import Path
from typing import Any

from maci2.errors import CalibrationError
from maci2.rigs.camodocal import camodocal_entries
from maci2.rigs.opencv_yaml import opencv_matrix, opencv_yaml
from maci2.sensors.rig_types import ImuNoise, Rig

CONFIG = "stereo_imu_config.yaml"
_CONVENTION = (
    "VINS-Fusion, camera and IMU part. body_T_cam0 takes points from the camera frame to the body",
    "(IMU) frame: p_body = body_T_cam0 p_cam; it is the pose of the camera in the body frame, and",
    "the inverse of Kalibr's T_cam_imu.",
    "acc_n [m/s^2], gyr_n [rad/s]: standard deviation of one sample, density * sqrt(rate).",
    "acc_w, gyr_w: standard deviation of a bias step over the sample's period.",
    "td [s]: image clock + td = IMU clock.",
    "Topics that are not here and the tracker's settings are yours to add.",
)
_CAMERA = (
    "VINS-Fusion, one camera, in pixels. PINHOLE: k1 k2 p1 p2. KANNALA_BRANDT: k2 to k5 are the",
    "four coefficients that Kalibr calls equidistant, mu mv u0 v0 are fx fy cx cy. MEI: the",
    "unified model, which Kalibr calls omni.",
)


def vins_fusion_files(folder: Path, rig: Rig) -> dict[Path, str]:
    """The configuration and one file per camera."""
    if len(rig.cameras) > 2:
        raise CalibrationError(
            f"{rig.source}: has {len(rig.cameras)} cameras, and VINS-Fusion's files hold at most "
            "two; write kalibr or openvins, which hold all."
        )
    names = [f"cam{number}.yaml" for number in range(len(rig.cameras))]
    cameras = {
        folder / name: opencv_yaml(camodocal_entries(camera, name), _CAMERA)
        for name, camera in zip(names, rig.cameras, strict=True)
    }
    width, height = rig.cameras[0].resolution
    config: dict[str, Any] = {"imu": 1, "num_of_cam": len(rig.cameras)}
    for number, camera in enumerate(rig.cameras):
        if camera.topic:
            config[f"image{number}_topic"] = camera.topic
    config |= {f"cam{number}_calib": name for number, name in enumerate(names)}
    config |= {"image_width": width, "image_height": height, "estimate_extrinsic": 0}
    for number, camera in enumerate(rig.cameras):
        config[f"body_T_cam{number}"] = opencv_matrix(camera.T_b_c)
    config["td"] = float(rig.time_offset_s)
    return {folder / CONFIG: opencv_yaml(config | _noise_entries(rig.imu), _CONVENTION), **cameras}


def _noise_entries(noise: ImuNoise) -> dict[str, Any]:
    root = math.sqrt(noise.rate_hz)
    return {
        "acc_n": float(noise.density_acc * root),
        "gyr_n": float(noise.density_gyro * root),
        "acc_w": float(noise.walk_acc * root),
        "gyr_w": float(noise.walk_gyro * root),
        "g_norm": 9.81,
        "# densities": "What acc_n to gyr_w were made from, as Kalibr states it; VINS-Fusion does "
        "not read these.",
        "imu_rate": float(noise.rate_hz),
        "acc_noise_density": float(noise.density_acc),
        "gyr_noise_density": float(noise.density_gyro),
        "acc_random_walk": float(noise.walk_acc),
        "gyr_random_walk": float(noise.walk_gyro),
    }
