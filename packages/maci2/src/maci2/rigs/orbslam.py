"""ORB-SLAM2's and ORB-SLAM3's settings, read in all versions and written for ORB-SLAM3.

IMU.T_b_c1, before version 1.0 Tbc, is our T_b_c of the left camera; Stereo.T_c1_c2, before Tlr,
the pose of the right camera in the left one. Camera.bf is focal length times baseline. Where the
file has LEFT.K and RIGHT.K, images are rectified with them while ORB-SLAM runs: these are the
cameras that took the images, and Camera.* the rectified ones.

ORB-SLAM3 reads matrices as floats (dt: f); the text carries all digits all the same.
"""

import math
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from maci2.errors import CalibrationError
from maci2.geometry import se3, se3_inv
from maci2.rigs.parts import (
    FISHEYE,
    FOCAL,
    RADTAN,
    AnyNoise,
    RigParts,
    StatedNoise,
    make_camera,
    unknown_model,
)
from maci2.rigs.recognition import identify
from maci2.rigs.yaml_files import (
    OpencvMatrix,
    load_yaml,
    opencv_yaml,
    require_unambiguous,
    rigid_transform,
    rotation,
    shown,
)
from maci2.sensors.rig_types import Camera, DistortionModel, Rig
from maci2.types import Array

_NOISE = ("IMU.NoiseGyro", "IMU.NoiseAcc", "IMU.GyroWalk", "IMU.AccWalk")


def read_orbslam(path: Path) -> RigParts:
    """Cameras, their extrinsics if there is an IMU, and its noise."""
    data = load_yaml(path, "ORB-SLAM3's configuration")
    settings = _Settings(data, path)
    T_b_c1 = settings.pose("IMU.T_b_c1", "Tbc")
    return RigParts(
        identify(data).name,
        path,
        settings.cameras(np.eye(4) if T_b_c1 is None else T_b_c1),
        extrinsics_known=T_b_c1 is not None,
        time_offset_s=settings.number("maci2.time_offset", 0.0),
        noise=settings.noise(),
    )


class _Settings:
    """Settings of a file by key; key names differ between versions."""

    def __init__(self, data: dict[str, Any], path: Path) -> None:
        self.data, self.path = data, path
        kinds = {"pinhole": "PinHole", "kannalabrandt8": "KannalaBrandt8", "rectified": "Rectified"}
        stated = str(data.get("Camera.type", "PinHole"))
        kind = kinds.get(stated.lower())
        if kind is None:
            raise CalibrationError(
                f"{path}: Camera.type is {shown(stated)}, needed PinHole, KannalaBrandt8 or "
                "Rectified."
            )
        self.kind = kind
        self.left = "Camera1." if "Camera1.fx" in data else "Camera."

    def number(self, key: str, default: float | None = None) -> float:
        """Number stored under a key."""
        require_unambiguous(self.data, key, self.path)
        value = self.data.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            found = "missing" if value is None else shown(value)
            raise CalibrationError(f"{self.path}: key '{key}' is {found}, needed a number; add it.")
        if not math.isfinite(value):
            raise CalibrationError(f"{self.path}: key '{key}' is {value}, needed a finite number.")
        return float(value)

    def matrix(self, key: str, rows: int, cols: int) -> Array | None:
        """OpenCV matrix; an extra row 0, 0, 0, 1 not counted in `rows: 3` is accepted."""
        if key not in self.data:
            return None
        require_unambiguous(self.data, key, self.path)
        value = self.data[key]
        stated = value.get("data") if isinstance(value, dict) else value
        numbers: list[float] = stated if isinstance(stated, list) else []
        # Whole numbers of any length are let in by YAML, and overflow where they become floats.
        good = all(isinstance(n, int | float) and abs(n) < 1e300 for n in numbers)
        if good and len(numbers) == 16 and rows == 3 and numbers[12:] == [0, 0, 0, 1]:
            numbers = numbers[:12]
        if not good or len(numbers) != rows * cols:
            raise CalibrationError(
                f"{self.path}: {key} needs a matrix of {rows}x{cols} numbers; copy all of them."
            )
        return np.array(numbers, dtype=np.float64).reshape(rows, cols)

    def pose(self, *keys: str) -> Array | None:
        """Transform stored under the first of the names that the file has."""
        key = next((key for key in keys if key in self.data), None)
        if key is None:
            return None
        T = self.matrix(key, 3, 4)
        return None if T is None else rigid_transform(T, self.path, key)

    def noise(self) -> AnyNoise | None:
        """IMU noise, without the rate if it is missing; None for a file without IMU."""
        if not any(key in self.data for key in _NOISE):
            return None
        stated = StatedNoise(*(self.number(key) for key in _NOISE))
        rate = "IMU.Frequency"
        return stated.at_rate(self.number(rate) if rate in self.data else None)

    def cameras(self, T_b_c1: Array) -> tuple[Camera, ...]:
        """One camera, or two if the file has a stereo baseline."""
        if "LEFT.K" in self.data and "RIGHT.K" in self.data:
            return self._unrectified(T_b_c1)
        left = self._camera(self.left, T_b_c1)
        T_c1_c2 = self.pose("Stereo.T_c1_c2", "Tlr")
        if T_c1_c2 is not None and "Camera2.fx" in self.data:
            return left, self._camera("Camera2.", T_b_c1 @ T_c1_c2)
        baseline = self._baseline(left)
        if baseline is None:
            return (left,)
        T_b_c2 = T_b_c1 @ se3(np.eye(3), np.array([baseline, 0.0, 0.0]))
        return left, self._camera(self.left, T_b_c2)

    def _baseline(self, left: Camera) -> float | None:
        """Baseline of a rectified pair [m]; None for one camera and for a depth camera, whose
        baseline belongs to no second image."""
        if "RGBD.DepthMapFactor" in self.data or "DepthMapFactor" in self.data:
            return None
        if "Stereo.b" in self.data:
            return self.number("Stereo.b")
        bf = self.number("Camera.bf", 0.0)
        if bf < 0.0:
            raise CalibrationError(
                f"{self.path}: key 'Camera.bf' is {bf:g}, needed baseline times focal length, more "
                "than 0 (0 for one camera)."
            )
        return bf / float(left.intrinsics[0]) or None

    def _camera(self, prefix: str, T_b_c: Array) -> Camera:
        """Camera from named numbers, or from the matrix K of images that are not rectified yet."""
        where, size = f"{self.path}", "Camera."
        fisheye = self.kind == "KannalaBrandt8"
        K = self.matrix(f"{prefix}K", 3, 3)
        if K is None:
            focal = [self.number(prefix + name) for name in FOCAL]
            names = {"KannalaBrandt8": FISHEYE, "PinHole": RADTAN}.get(self.kind, ())
            lens = [self.number(prefix + name, None if fisheye else 0.0) for name in names]
        else:
            where += f": {prefix[:-1]}"
            focal = [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]
            stated = self.data.get(f"{prefix}D")
            D = stated.get("data") if isinstance(stated, dict) else None
            matrix = self.matrix(f"{prefix}D", 1, len(D) if isinstance(D, list) else 5)
            lens = [] if matrix is None else matrix[0].tolist()
            size = prefix if f"{prefix}width" in self.data else size
        model: DistortionModel = "equidistant" if fisheye else "radtan"
        resolution = round(self.number(f"{size}width")), round(self.number(f"{size}height"))
        rate_hz = self.number("Camera.fps") if "Camera.fps" in self.data else math.nan
        return make_camera(where, focal, lens, model, resolution, T_b_c, rate_hz=rate_hz)

    def _unrectified(self, T_b_c1: Array) -> tuple[Camera, Camera]:
        """Cameras before rectification; P of the right one contains the baseline."""
        left_R, right_R = self.matrix("LEFT.R", 3, 3), self.matrix("RIGHT.R", 3, 3)
        P = self.matrix("RIGHT.P", 3, 4)
        if left_R is None or right_R is None or P is None or P[0, 0] == 0.0:
            raise CalibrationError(
                f"{self.path}: LEFT.R, RIGHT.R or RIGHT.P is missing beside LEFT.K; add it."
            )
        R_cr_c1 = rotation(left_R, self.path, "LEFT.R")
        R_cr_c2 = rotation(right_R, self.path, "RIGHT.R")
        p_cr_c2 = np.array([-P[0, 3] / P[0, 0], 0.0, 0.0])
        T_c1_c2 = se3(R_cr_c1.T @ R_cr_c2, R_cr_c1.T @ p_cr_c2)
        return self._camera("LEFT.", T_b_c1), self._camera("RIGHT.", T_b_c1 @ T_c1_c2)


CONFIG = "stereo_inertial.yaml"
MONOCULAR_CONFIG = "monocular_inertial.yaml"
ASSUMED_RATE_HZ = 20
"""Frame rate if the calibration lacks it; ORB-SLAM3 requires one."""

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
    left = rig.cameras[0]
    entries: dict[str, Any] = {"File.version": "1.0", "Camera.type": kind}
    for number, camera in enumerate(rig.cameras, start=1):
        lens = FISHEYE if kind == "KannalaBrandt8" else RADTAN[: len(camera.distortion)]
        names = [f"Camera{number}.{name}" for name in (*FOCAL, *lens)]
        values = [*camera.intrinsics.tolist(), *camera.distortion.tolist()]
        entries |= dict(zip(names, values, strict=True))
    entries |= {"Camera.width": left.resolution[0], "Camera.height": left.resolution[1]}
    if math.isnan(left.rate_hz):
        note = f"The source does not state a frame rate; {ASSUMED_RATE_HZ} is assumed."
        entries |= {"# fps": note, "Camera.fps": ASSUMED_RATE_HZ}
    else:
        # ORB-SLAM3 accepts whole numbers only.
        entries["Camera.fps"] = round(left.rate_hz)
    entries["Camera.RGB"] = 1
    if len(rig.cameras) == 2:
        T_c1_c2 = se3_inv(left.T_b_c) @ rig.cameras[1].T_b_c
        entries |= {"Stereo.ThDepth": 60.0, "Stereo.T_c1_c2": OpencvMatrix(T_c1_c2, "f")}
    entries |= {
        "IMU.T_b_c1": OpencvMatrix(left.T_b_c, "f"),
        **dict(zip(_NOISE, astuple(rig.imu)[:4], strict=True)),
        "IMU.Frequency": rig.imu.rate_hz,
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
    kinds = {"equidistant": "KannalaBrandt8", "radtan": "PinHole", "none": "PinHole"}
    for camera in rig.cameras:
        pinhole = camera.camera_model == "pinhole" and camera.distortion_model in kinds
        if not pinhole or len(camera.distortion) > 5:
            remedy = "pinhole-radtan or pinhole-equidistant"
            raise unknown_model(camera, rig.source, "ORB-SLAM3", remedy)
    stated = [kinds[camera.distortion_model] for camera in rig.cameras]
    if len(set(stated)) > 1:
        models = " and ".join(camera.distortion_model for camera in rig.cameras)
        raise CalibrationError(
            f"{rig.source}: the cameras are {models}; ORB-SLAM3 needs one model for both."
        )
    return stated[0]
