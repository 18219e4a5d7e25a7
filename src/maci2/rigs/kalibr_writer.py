"""Kalibr's YAML written: what its reader, and Kalibr's, understand."""

from pathlib import Path
from typing import Any

import yaml

from maci2.files import write_atomically
from maci2.lie import se3_inv
from maci2.sensors.types import ImuNoise, Rig

_CONVENTION = (
    "T_cam_imu takes points from the IMU (body) frame to the camera frame: p_c = T_cam_imu p_b.",
    "Its inverse T_b_c is the pose of the camera in the body frame.",
    "timeshift_cam_imu [s]: t_imu = t_cam + timeshift_cam_imu.",
)


def write_camchain(path: Path, rig: Rig, notes: tuple[str, ...] = ()) -> None:
    """Write the cameras as a Kalibr camchain-imucam file, or as a camchain where their place on
    the IMU is not known; `notes` become comments at its top."""
    chain: dict[str, dict[str, Any]] = {}
    for number, camera in enumerate(rig.cameras):
        T_c_b = se3_inv(camera.T_b_c)
        entry: dict[str, Any] = {"T_cam_imu": T_c_b.tolist()} if rig.extrinsics_known else {}
        entry |= {
            "camera_model": "pinhole",
            "distortion_coeffs": camera.distortion.tolist(),
            "distortion_model": camera.distortion_model,
            "intrinsics": camera.intrinsics.tolist(),
            "resolution": list(camera.resolution),
            "timeshift_cam_imu": rig.time_offset_s,
        }
        if camera.topic:
            entry["rostopic"] = camera.topic
        if number > 0:
            entry["T_cn_cnm1"] = (T_c_b @ rig.cameras[number - 1].T_b_c).tolist()
        chain[f"cam{number}"] = entry
    _write_yaml(path, chain, (*_CONVENTION, *notes))


def write_imu_yaml(path: Path, noise: ImuNoise) -> None:
    """Write noise densities as a Kalibr imu.yaml."""
    entry = {
        "accelerometer_noise_density": noise.density_acc,
        "accelerometer_random_walk": noise.walk_acc,
        "gyroscope_noise_density": noise.density_gyro,
        "gyroscope_random_walk": noise.walk_gyro,
        "update_rate": noise.rate_hz,
    }
    _write_yaml(path, {"imu0": entry}, ("Densities and random walks per sqrt(Hz), SI units.",))


def _write_yaml(path: Path, data: dict[str, Any], comments: tuple[str, ...]) -> None:
    head = "".join(f"# {line}\n" for line in comments)
    # Flow style for innermost lists only: one line for each row of a matrix.
    body = yaml.safe_dump(data, default_flow_style=None, sort_keys=False, width=200)
    write_atomically(path, head + body)
