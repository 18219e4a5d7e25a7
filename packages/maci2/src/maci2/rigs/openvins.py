"""OpenVINS: estimator_config.yaml, and beside it a camera chain and an IMU file like Kalibr's.

Its T_imu_cam takes camera points to the IMU: it is our T_b_c, and the inverse of Kalibr's
T_cam_imu.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from maci2.errors import CalibrationError
from maci2.rigs.kalibr import camera_entry, noise_entries, read_chain, with_imu_file
from maci2.rigs.parts import NOTHING_GIVEN, Given, RigParts, require_no_offsets
from maci2.rigs.yaml_files import OpenSchema, load_yaml, opencv_yaml, validate
from maci2.sensors.corrections import ideal_intrinsics, lower_triangular
from maci2.sensors.rig_types import Rig
from maci2.types import Array

TOOL = "OpenVINS estimator_config"
CONFIG = "estimator_config.yaml"
CAMERAS = "kalibr_imucam_chain.yaml"
IMU = "kalibr_imu_chain.yaml"
GRAVITY = 9.81

_CONVENTION = (
    "OpenVINS. T_imu_cam takes points from the camera frame to the IMU (body) frame:",
    "p_imu = T_imu_cam p_cam; it is the pose of the camera in the IMU frame, and the inverse of",
    "Kalibr's T_cam_imu.",
    "timeshift_cam_imu [s]: t_imu = t_cam + timeshift_cam_imu, one for all cameras.",
)
_IMU_CONVENTION = (
    "OpenVINS. Densities per sqrt(Hz), SI units. With angular rate w and specific force a in the",
    "IMU frame: gyro = Tw R_IMUtoGYRO w + Tg a, acc = Ta R_IMUtoACC a, noise and biases aside.",
)
_INIT = (
    "OpenVINS. init_dyn_bias_g [rad/s] and init_dyn_bias_a [m/s^2] are the biases that",
    "initialization starts from, in the IMU frame: true = reading - bias. gravity_mag [m/s^2].",
    "Extrinsics are in the file of relative_config_imucam, noise in that of relative_config_imu.",
    "What is not here (tracker, updates, state options) is OpenVINS's own and keeps its defaults.",
)


class _Config(OpenSchema):
    relative_config_imucam: str = CAMERAS
    relative_config_imu: str = IMU
    init_dyn_bias_g: tuple[float, float, float] = (0.0, 0.0, 0.0)
    init_dyn_bias_a: tuple[float, float, float] = (0.0, 0.0, 0.0)


def openvins_files(
    folder: Path, rig: Rig, bias_gyro: Array | None = None, bias_acc: Array | None = None
) -> dict[Path, str]:
    """Texts of all three files; known biases become initial values."""
    zero = np.zeros(3)
    imu = {"T_i_b": np.eye(4).tolist(), **noise_entries(rig.imu), **_intrinsics(rig)}
    config = {
        "use_stereo": len(rig.cameras) > 1,
        "max_cameras": len(rig.cameras),
        "gravity_mag": GRAVITY,
        "init_dyn_use": True,
        "init_dyn_bias_g": (zero if bias_gyro is None else bias_gyro).tolist(),
        "init_dyn_bias_a": (zero if bias_acc is None else bias_acc).tolist(),
        "relative_config_imu": IMU,
        "relative_config_imucam": CAMERAS,
    }
    return {
        folder / CONFIG: opencv_yaml(config, _INIT),
        folder / CAMERAS: opencv_yaml(_chain(rig), _CONVENTION),
        folder / IMU: opencv_yaml({"imu0": imu}, _IMU_CONVENTION),
    }


def read_openvins(path: Path, given: Given = NOTHING_GIVEN) -> RigParts:
    """Parts of a rig from an estimator_config.yaml and its two chains."""
    config = validate(_Config, load_yaml(path, "OpenVINS's estimator configuration"), path)
    chain_path = path.parent / config.relative_config_imucam
    parts = read_chain(load_yaml(chain_path, "OpenVINS's camera chain"), chain_path, TOOL)
    if not parts.cameras:
        raise CalibrationError(f"{chain_path}: has no camera; needed cam0, cam1, ...")
    parts = replace(parts, source=path)
    imu = path.parent / config.relative_config_imu
    return with_imu_file(parts, chain_path, given, imu if imu.is_file() else None)


def _chain(rig: Rig) -> dict[str, Any]:
    chain: dict[str, Any] = {}
    for number, camera in enumerate(rig.cameras):
        if camera.camera_model != "pinhole" or camera.distortion_model == "fov":
            raise CalibrationError(
                f"{rig.source}: the camera model is {camera.camera_model} with distortion "
                f"'{camera.distortion_model}', and OpenVINS knows pinhole with radtan or "
                "equidistant alone; write kalibr, or calibrate with one of these."
            )
        chain[f"cam{number}"] = {
            "T_imu_cam": camera.T_b_c.tolist(),
            "cam_overlaps": [other for other in range(len(rig.cameras)) if other != number],
            **camera_entry(rig, number, "OpenVINS"),
            # OpenVINS knows no "none"; without coefficients radtan is the same.
            "distortion_model": camera.distortion_model.replace("none", "radtan"),
        }
    return chain


def _intrinsics(rig: Rig) -> dict[str, Any]:
    """OpenVINS keeps six numbers of Tw and Ta: the lower triangle ("kalibr") or the upper one
    ("rpng"); what is neither is split anew into a triangle and a rotation."""
    found = rig.imu_intrinsics or ideal_intrinsics()
    require_no_offsets(found, rig.source, "OpenVINS")
    model = "kalibr"
    M_gyro, R_gyro_b, M_acc, R_acc_b = found.M_gyro, found.R_gyro_b, found.M_acc, found.R_acc_b
    if not np.tril(M_gyro, -1).any() and not np.tril(M_acc, -1).any() and (M_gyro + M_acc)[0, 1]:
        model = "rpng"
    else:
        M_gyro, R_gyro_b = lower_triangular(M_gyro, R_gyro_b)
        M_acc, R_acc_b = lower_triangular(M_acc, R_acc_b)
    return {
        "model": model,
        "Tw": M_gyro.tolist(),
        "R_IMUtoGYRO": R_gyro_b.tolist(),
        "Ta": M_acc.tolist(),
        "R_IMUtoACC": R_acc_b.tolist(),
        "Tg": found.g_sensitivity.tolist(),
    }
