"""Writes Kalibr's YAML files."""

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from maci2.errors import CalibrationError
from maci2.files import write_atomically
from maci2.lie import se3_inv
from maci2.rigs.chain import lens_entries, require_four
from maci2.rigs.parts import require_no_offsets
from maci2.sensors.imu_intrinsics import IDENTICAL, lower_triangular
from maci2.sensors.rig_types import ImuIntrinsics, ImuNoise, Rig

_CONVENTION = (
    "T_cam_imu takes points from the IMU (body) frame to the camera frame: p_c = T_cam_imu p_b.",
    "Its inverse T_b_c is the pose of the camera in the body frame.",
    "timeshift_cam_imu [s]: t_imu = t_cam + timeshift_cam_imu.",
)

_INTRINSICS = (
    "With angular rate w and specific force a in the IMU frame, noise and biases aside:",
    "gyro = gyroscopes.M C_gyro_i w + A C_gyro_i a, acc = accelerometers.M a.",
)


def write_camchain(path: Path, rig: Rig, notes: tuple[str, ...] = ()) -> None:
    """Write the cameras as a Kalibr camchain-imucam file, or as a camchain without extrinsics if
    these are unknown; `notes` become comments at its top."""
    write_atomically(path, camchain_text(rig, notes))


def camchain_text(rig: Rig, notes: tuple[str, ...] = ()) -> str:
    """Text of a camchain file."""
    chain: dict[str, dict[str, Any]] = {}
    for number, camera in enumerate(rig.cameras):
        require_four(camera, rig.source, "Kalibr")
        T_c_b = se3_inv(camera.T_b_c)
        entry: dict[str, Any] = {"T_cam_imu": T_c_b.tolist()} if rig.extrinsics_known else {}
        entry |= {
            **lens_entries(camera),
            "resolution": list(camera.resolution),
            "timeshift_cam_imu": rig.time_offset_s,
        }
        if camera.topic:
            entry["rostopic"] = camera.topic
        if number > 0:
            entry["T_cn_cnm1"] = (T_c_b @ rig.cameras[number - 1].T_b_c).tolist()
        chain[f"cam{number}"] = entry
    return _yaml(chain, (*_CONVENTION, *notes))


def write_imu_yaml(path: Path, noise: ImuNoise, intrinsics: ImuIntrinsics | None = None) -> None:
    """Write noise densities, and errors of scale and alignment, as a Kalibr imu.yaml."""
    write_atomically(path, imu_text(noise, intrinsics, str(path)))


def imu_text(noise: ImuNoise, intrinsics: ImuIntrinsics | None, source: str) -> str:
    """Text of an imu.yaml; `source` names the file in errors."""
    entry: dict[str, Any] = {
        "accelerometer_noise_density": noise.density_acc,
        "accelerometer_random_walk": noise.walk_acc,
        "gyroscope_noise_density": noise.density_gyro,
        "gyroscope_random_walk": noise.walk_gyro,
        "update_rate": noise.rate_hz,
    }
    comments = ["Densities and random walks per sqrt(Hz), SI units."]
    if intrinsics is not None:
        entry |= _intrinsics_entries(intrinsics, source)
        comments += _INTRINSICS
    return _yaml({"imu0": entry}, tuple(comments))


def _intrinsics_entries(intrinsics: ImuIntrinsics, source: str) -> dict[str, Any]:
    require_no_offsets(intrinsics, source, "Kalibr")
    M_gyro, R_gyro_b = lower_triangular(intrinsics.M_gyro, intrinsics.R_gyro_b)
    M_acc = intrinsics.M_acc @ intrinsics.R_acc_b
    if np.abs(np.triu(M_acc, 1)).max() > IDENTICAL:
        raise CalibrationError(
            f"{source}: the accelerometer's axes are rotated against the body, and Kalibr's files "
            "put the body frame on the accelerometer; write openvins instead."
        )
    return {
        "model": "scale-misalignment",
        "accelerometers": {"M": np.tril(M_acc).tolist()},
        "gyroscopes": {
            "M": M_gyro.tolist(),
            "C_gyro_i": R_gyro_b.tolist(),
            "A": (intrinsics.g_sensitivity @ R_gyro_b.T).tolist(),
        },
    }


def _yaml(data: dict[str, Any], comments: tuple[str, ...]) -> str:
    head = "".join(f"# {line}\n" for line in comments)
    # Flow style for innermost lists only: one line for each row of a matrix.
    body = yaml.safe_dump(data, default_flow_style=None, sort_keys=False, width=200)
    return head + body
