"""Kalibr's files: camera chains with extrinsics, IMU noise, and their names.

Kalibr's T_cam_imu takes IMU points to the camera; our T_b_c is its inverse.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from maci2.errors import CalibrationError
from maci2.rigs.chain import read_chain
from maci2.rigs.imu_file import imu_entries, read_imu_file
from maci2.rigs.parts import NOTHING_GIVEN, Given, RigParts, assemble
from maci2.rigs.sniff import identify
from maci2.rigs.yaml_schema import load_yaml
from maci2.sensors.rig_types import Camera, ImuNoise, Rig
from maci2.types import NS, Stamps

CAMCHAIN_NAMES = ("camchain-imucam.yaml", "kalibr_imucam_chain.yaml", "camchain.yaml")
IMU_NAMES = ("imu_config.yaml", "imu.yaml", "kalibr_imu_chain.yaml")

_CAMCHAIN_PATTERNS = ("*imucam*.y*ml", "*camchain*.y*ml", "*cam*chain*.y*ml")
_IMU_PATTERNS = ("imu*.y*ml", "*imu*.y*ml")


def read_rig(path: Path, given: Given = NOTHING_GIVEN) -> Rig:
    """Read a rig from a folder with a camchain and an IMU file, or from a camchain with the IMU
    file beside it.

    A camchain without T_cam_imu, as Kalibr's camera calibration writes it, gives a rig whose
    extrinsics are not known; one without an IMU file a rig whose noise is not known. Kalibr does
    not say the frame rate: it is NaN.
    """
    return assemble(read_kalibr(path, given), given)


def read_kalibr(path: Path, given: Given = NOTHING_GIVEN) -> RigParts:
    """Parts of a rig from a camchain and the IMU file in the same folder."""
    camchain = find_camchain(path) if path.is_dir() else path
    data = load_yaml(camchain, "a Kalibr camchain")
    parts = read_chain(data, camchain, identify(data).name)
    if not parts.cameras:
        raise CalibrationError(
            f"{camchain}: {identify(data).name} has no camera; needed cam0, cam1, ... of a Kalibr "
            "camchain."
        )
    # Some people keep both in one file.
    own = camchain if any("gyroscope_noise_density" in imu for imu in imu_entries(data)) else None
    return with_imu_file(parts, camchain, given, own)


def with_imu_file(
    parts: RigParts, camchain: Path, given: Given, imu: Path | None = None
) -> RigParts:
    """Parts with noise and intrinsics of the IMU file `imu`, else of the one next to the
    camchain."""
    try:
        imu = find_imu_file(camchain) if imu is None else imu
        if imu is None:
            return parts
        noise, intrinsics = read_imu_file(imu)
    except CalibrationError:
        if given.noise is None:
            raise
        return parts
    return replace(parts, noise=noise, intrinsics=intrinsics)


def read_camchain(path: Path) -> tuple[Camera, ...]:
    """The cameras cam0, cam1, ... of a camchain-imucam file."""
    parts = read_chain(load_yaml(path, "a Kalibr camchain"), path, "Kalibr camchain")
    if not parts.extrinsics_known:
        raise CalibrationError(
            f"{path}: cam0 has no T_cam_imu; needed for cam0, and T_cam_imu or T_cn_cnm1 for the "
            "others. Use the file that Kalibr's camera-IMU calibration or `maci2 calibrate` wrote "
            "(camchain-imucam)."
        )
    return parts.cameras


def read_imu_yaml(path: Path) -> ImuNoise:
    """IMU noise from an imu.yaml, with the top key `imu0` or without."""
    noise = read_imu_file(path)[0]
    if not isinstance(noise, ImuNoise):
        raise CalibrationError(f"{path}: key 'update_rate' is missing; add it.")
    return noise


def with_frame_rates(rig: Rig, stamps_ns: tuple[Stamps, ...]) -> Rig:
    """Camera rate, which Kalibr's files do not state; recordings show it by their timestamps."""
    cameras = list(rig.cameras)
    for number, stamps in enumerate(stamps_ns[: len(cameras)]):
        if np.isnan(cameras[number].rate_hz) and len(stamps) > 1:
            rate_hz = NS / float(np.median(np.diff(stamps)))
            cameras[number] = replace(cameras[number], rate_hz=rate_hz)
    return replace(rig, cameras=tuple(cameras))


def find_camchain(folder: Path) -> Path:
    """The only camera chain of a folder; one with extrinsics is preferred."""
    for name in CAMCHAIN_NAMES:
        if (folder / name).is_file():
            return folder / name
    for pattern in _CAMCHAIN_PATTERNS:
        files = sorted(folder.glob(pattern))
        if len(files) == 1:
            return files[0]
        if files:
            raise CalibrationError(
                f"{folder}: holds {', '.join(file.name for file in files)}; name the one file to "
                "read."
            )
    raise CalibrationError(
        f"{folder}: no single file to read; found none, needed one of {', '.join(CAMCHAIN_NAMES)} "
        "or Kalibr's own DATE-camchain-imucam.yaml, or a configuration of OpenVINS, VINS-Fusion "
        "or ORB-SLAM3. Name the file."
    )


def find_imu_file(camchain: Path) -> Path | None:
    """The IMU file that belongs to a camchain: by its name, else the only one in the folder."""
    folder = camchain.parent
    for part in ("camchain-imucam", "imucam_chain", "camchain"):
        other = "imu_chain" if part == "imucam_chain" else "imu"
        named = folder / camchain.name.replace(part, other)
        if part in camchain.name and named.is_file():
            return named
    for name in IMU_NAMES:
        if (folder / name).is_file() and _is_imu_file(folder / name):
            return folder / name
    for pattern in _IMU_PATTERNS:
        files = [file for file in sorted(folder.glob(pattern)) if _is_imu_file(file)]
        if files:
            # Of several nobody knows which one took the recording: noise stays unknown.
            return files[0] if len(files) == 1 else None
    return None


def _is_imu_file(path: Path) -> bool:
    try:
        return identify(load_yaml(path, "the noise of an IMU")).reader == "imu"
    except CalibrationError:
        return False
