"""Factory calibrations of devices: OAK (DepthAI), ZED, RealSense, and cameras in ROS.

RealSense's is the listing of `rs-enumerate-devices -c`: `Extrinsic from A To B` takes points of A
to B, and infrared images are rectified on the device.
"""

import configparser
import math
import re
from pathlib import Path
from typing import Annotated, Any

import cv2
import numpy as np
from pydantic import AliasChoices, BeforeValidator, Field, PositiveInt

from maci2.errors import CalibrationError
from maci2.geometry import se3, se3_inv
from maci2.rigs.kalibr import DISTORTION_NAMES
from maci2.rigs.parts import FISHEYE, FOCAL, RADTAN, RigParts, make_camera
from maci2.rigs.yaml_files import (
    Matrix3,
    OpenSchema,
    load_yaml,
    read_text,
    rigid_transform,
    validate,
)
from maci2.sensors.rig_types import Camera, DistortionModel
from maci2.types import Array

OAK_LEFT_RIGHT = (1, 2)
"""Sockets of the stereo pair if the file does not name them."""

ZED_SIZES = {"HD": (1280, 720), "FHD": (1920, 1080), "2K": (2208, 1242), "VGA": (672, 376)}
"""Image sizes of a ZED in order of preference."""

NO_SOCKET = -1


class _Translation(OpenSchema):
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0


class _Extrinsics(OpenSchema):
    rotationMatrix: list[list[float]] = Field(default_factory=list)
    toCameraSocket: int = NO_SOCKET
    translation: _Translation = _Translation()


class _OakCamera(OpenSchema):
    cameraType: int | str = 0
    distortionCoeff: list[float] = Field(default_factory=list)
    extrinsics: _Extrinsics = _Extrinsics()
    intrinsicMatrix: Matrix3
    width: PositiveInt
    height: PositiveInt


class _Pair(OpenSchema):
    leftCameraSocket: int = NO_SOCKET
    rightCameraSocket: int = NO_SOCKET


def _pairs(cameras: Any) -> Any:
    """Pairs of socket and camera, from a list or from a mapping."""
    return list(cameras.items()) if isinstance(cameras, dict) else cameras


class _Oak(OpenSchema):
    cameraData: Annotated[list[tuple[int, _OakCamera]], BeforeValidator(_pairs)]
    imuExtrinsics: _Extrinsics = _Extrinsics()
    stereoRectificationData: _Pair = _Pair()


def _data(matrix: Any) -> Any:
    """Numbers of a matrix that may state its size beside them."""
    return matrix.get("data", matrix) if isinstance(matrix, dict) else matrix


class _CameraInfo(OpenSchema):
    image_width: PositiveInt = Field(validation_alias=AliasChoices("image_width", "width"))
    image_height: PositiveInt = Field(validation_alias=AliasChoices("image_height", "height"))
    camera_matrix: Matrix3 = Field(validation_alias=AliasChoices("camera_matrix", "K", "k"))
    distortion_model: str = "plumb_bob"
    distortion: Annotated[list[float], BeforeValidator(_data)] = Field(
        [], validation_alias=AliasChoices("distortion_coefficients", "D", "d")
    )


def read_depthai(path: Path) -> RigParts:
    """Cameras of an OAK: left, right, then the others. An extrinsic takes points of this camera to
    toCameraSocket, in cm; without one for the IMU the extrinsics are unknown."""
    oak = validate(_Oak, load_yaml(path, "a calibration of DepthAI"), path)
    cameras = dict(oak.cameraData)
    calibrated = [s for s, c in cameras.items() if c.intrinsicMatrix[0][0] > 0.0]
    pair = oak.stereoRectificationData
    stereo = (pair.leftCameraSocket, pair.rightCameraSocket)
    first = stereo if set(stereo) <= set(calibrated) else OAK_LEFT_RIGHT
    order = [s for s in first if s in calibrated]
    order += sorted(s for s in calibrated if s not in first)
    if not order:
        raise CalibrationError(
            f"{path}: OAK (DepthAI) calibration without any calibrated camera: all intrinsics are "
            "zero. Calibrate the cameras first."
        )
    edges = {s: (c.extrinsics.toCameraSocket, _extrinsic(c.extrinsics, path, f"cameraData.{s}"))
             for s, c in cameras.items()}  # fmt: skip
    Ts_root_c = _poses(order[0], edges)
    for socket in order:
        if socket not in Ts_root_c:
            raise CalibrationError(
                f"{path}: OAK camera {socket} is not placed beside camera {order[0]}: its "
                "extrinsics are missing (all zeros); calibrate the stereo pair."
            )
    T_c_b = _extrinsic(oak.imuExtrinsics, path, "imuExtrinsics")
    imu_socket = oak.imuExtrinsics.toCameraSocket
    known, T_b_root = False, np.eye(4)
    if T_c_b is not None and imu_socket in Ts_root_c:
        known, T_b_root = True, se3_inv(Ts_root_c[imu_socket] @ T_c_b)
    made = tuple(
        _oak_camera(cameras[s], f"{path}: cameraData.{s}", T_b_root @ Ts_root_c[s]) for s in order
    )
    return RigParts("OAK (DepthAI) calibration", path, made, extrinsics_known=known)


def _extrinsic(extrinsics: _Extrinsics, path: Path, key: str) -> Array | None:
    """T_to_this [m]; None if missing or all zeros."""
    rows = extrinsics.rotationMatrix
    if extrinsics.toCameraSocket == NO_SOCKET or not any(any(row) for row in rows):
        return None
    t = extrinsics.translation
    if [len(row) for row in rows] != [3, 3, 3]:
        raise CalibrationError(f"{path}: rotationMatrix of {key} needs 3x3 numbers.")
    return rigid_transform(np.column_stack([rows, 0.01 * np.array([t.x, t.y, t.z])]), path, key)


def _poses(root: int, edges: dict[int, tuple[int, Array | None]]) -> dict[int, Array]:
    """Poses of all cameras that extrinsics link to the root, in its frame."""
    Ts_root_c = {root: np.eye(4)}
    for _ in edges:
        for here, (there, T_there_here) in edges.items():
            if T_there_here is None:
                continue
            if there in Ts_root_c and here not in Ts_root_c:
                Ts_root_c[here] = Ts_root_c[there] @ T_there_here
            elif here in Ts_root_c and there not in Ts_root_c:
                Ts_root_c[there] = Ts_root_c[here] @ se3_inv(T_there_here)
    return Ts_root_c


def _oak_camera(camera: _OakCamera, where: str, T_b_c: Array) -> Camera:
    fisheye = str(camera.cameraType).lower() in ("1", "fisheye")
    lens = camera.distortionCoeff
    if not fisheye and any(lens[8:]):
        raise CalibrationError(
            f"{where}: distortionCoeff has thin-prism or tilt coefficients, needed 0; calibrate "
            "with the eight of the rational model."
        )
    (fx, _, cx), (_, fy, cy) = camera.intrinsicMatrix[:2]
    size = (camera.width, camera.height)
    model: DistortionModel = "equidistant" if fisheye else "radtan"
    return make_camera(where, [fx, fy, cx, cy], lens, model, size, T_b_c)


def read_camera_info(path: Path) -> RigParts:
    """One camera from a ROS CameraInfo, without a pose."""
    info = validate(_CameraInfo, load_yaml(path, "a ROS CameraInfo"), path)
    name = info.distortion_model.lower() or "none"
    model = DISTORTION_NAMES.get(name)
    if model is None:
        raise CalibrationError(
            f"{path}: distortion_model is '{name[:40]}', needed one of plumb_bob, "
            "rational_polynomial, equidistant."
        )
    (fx, _, cx), (_, fy, cy) = info.camera_matrix[:2]
    size = (info.image_width, info.image_height)
    camera = make_camera(path, [fx, fy, cx, cy], info.distortion, model, size, np.eye(4))
    return RigParts("ROS CameraInfo", path, (camera,), extrinsics_known=False)


def read_zed(path: Path) -> RigParts:
    """Stereo pair of a ZED at the first image size in its file; lengths are in mm."""
    conf = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        conf.read_string(read_text(path, "a factory calibration of a ZED"))
    except configparser.Error as error:
        problem = " ".join(str(error).split())[:120]
        raise CalibrationError(f"{path}: ZED factory calibration: {problem}") from error
    sections = {name.upper(): conf[name] for name in conf.sections()}
    size = next((size for size in ZED_SIZES if f"LEFT_CAM_{size}" in sections), "")
    if not size or f"RIGHT_CAM_{size}" not in sections or "STEREO" not in sections:
        raise CalibrationError(
            f"{path}: ZED factory calibration without LEFT_CAM_HD, RIGHT_CAM_HD and STEREO; "
            "download the file of your serial number again."
        )
    T_c0_c1 = _zed_baseline(sections["STEREO"], size, path)
    left = _zed_camera(sections[f"LEFT_CAM_{size}"], size, np.eye(4), path)
    right = _zed_camera(sections[f"RIGHT_CAM_{size}"], size, T_c0_c1, path)
    tool = f"ZED factory calibration ({size})"
    return RigParts(tool, path, (left, right), extrinsics_known=False)


def _zed_baseline(stereo: Any, size: str, path: Path) -> Array:
    """Pose of the right camera in the left one."""
    angles = [_ini_number(stereo, f"{key}_{size}", path) for key in ("RX", "CV", "RZ")]
    R_c1_c0 = np.asarray(cv2.Rodrigues(np.array(angles))[0], np.float64)
    offset_mm = [_ini_number(stereo, "Baseline", path)]
    offset_mm += [
        _ini_number(stereo, key if key in stereo else f"{key}_{size}", path, 0.0)
        for key in ("TY", "TZ")
    ]
    # The file has the right camera's place with the sign of the left one's.
    T_c1_c0 = se3(R_c1_c0, -1e-3 * np.array(offset_mm))
    return rigid_transform(se3_inv(T_c1_c0), path, "STEREO")


def _zed_camera(section: Any, size: str, T_b_c: Array, path: Path) -> Camera:
    focal = [_ini_number(section, key, path) for key in FOCAL]
    # Wide lenses have k1 to k4 of a fisheye, and no tangential coefficients.
    fisheye = "k4" in section and "p1" not in section
    lens = [_ini_number(section, key, path, 0.0) for key in (FISHEYE if fisheye else RADTAN)]
    model: DistortionModel = "equidistant" if fisheye else "radtan"
    return make_camera(path, focal, lens, model, ZED_SIZES[size], T_b_c)


def _ini_number(section: Any, key: str, path: Path, default: float | None = None) -> float:
    text = section.get(key)
    if text is None and default is not None:
        return default
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise CalibrationError(
            f"{path}: ZED factory calibration: [{section.name}] {key} is {str(text)[:40]}, needed "
            "a number."
        )
    return value


PAIRS = (("Infrared 1", "Infrared 2"), ("Fisheye 1", "Fisheye 2"))
"""Names of the stereo pair: D400 series, T265."""

SIZES = ((848, 480), (848, 800), (640, 480), (1280, 720))
"""Image sizes in order of preference; the listing has intrinsics for each size of the device."""

IMU_STREAMS = ("Gyro", "Accel")

_NUMBER = r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
_INTRINSIC = re.compile(r'Intrinsic of "([^"]+)"[^\n]*\n((?:[ \t]+\S[^\n]*\n?)+)')
_EXTRINSIC = re.compile(r'Extrinsic from "([^"]+)"\s+To\s+"([^"]+)"\s*:([^"]*?)(?=Extrinsic|$)')
_FIELD = re.compile(r"^\s*([A-Za-z]+)\s*:\s*(.*?)\s*$", re.MULTILINE)
_MODELS: dict[str, DistortionModel] = {
    "none": "none", "brown conrady": "radtan", "modified brown conrady": "radtan",
    "kannala brandt4": "equidistant",
}  # fmt: skip


def read_realsense(path: Path) -> RigParts:
    """Stereo pair at one image size, with extrinsics if the listing states them."""
    text = read_text(path, "the listing of rs-enumerate-devices -c")
    lenses = {(name, size): fields for name, size, fields in _intrinsics(text)}
    pair = next((pair for pair in PAIRS if any(name == pair[0] for name, _ in lenses)), None)
    if pair is None:
        raise CalibrationError(f"{path}: the intrinsics of Infrared 1 or Fisheye 1 are missing.")
    sizes = [size for name, size in lenses if name == pair[0] and (pair[1], size) in lenses]
    size = next((size for size in (*SIZES, *sizes) if size in sizes), None)
    if size is None:
        raise CalibrationError(
            f"{path}: {pair[1]} has no intrinsics at an image size of {pair[0]}; list the device "
            "again with rs-enumerate-devices -c."
        )
    transforms = _extrinsics(text, path)
    T_c1_c0 = transforms.get(pair)
    if T_c1_c0 is None or not np.any(T_c1_c0[:3, 3]):
        raise CalibrationError(
            f"{path}: the baseline is missing (Extrinsic from {pair[0]} To {pair[1]}, with a "
            "translation that is not 0); update librealsense and list the device again."
        )
    stated = [transforms[pair[0], name] for name in IMU_STREAMS if (pair[0], name) in transforms]
    T_b_c0 = stated[0] if stated else np.eye(4)
    cameras = tuple(
        _camera(lenses[name, size], size, T_b_c, f"{path}: {name}")
        for name, T_b_c in zip(pair, (T_b_c0, T_b_c0 @ se3_inv(T_c1_c0)), strict=True)
    )
    tool = f"RealSense factory calibration ({size[0]}x{size[1]})"
    return RigParts(tool, path, cameras, extrinsics_known=bool(stated))


def _intrinsics(text: str) -> list[tuple[str, tuple[int, int], dict[str, str]]]:
    """Stream, image size and fields of every block with a size."""
    blocks = []
    for name, lines in _INTRINSIC.findall(text):
        fields = dict(_FIELD.findall(lines))
        if fields.get("Width", "").isdecimal() and fields.get("Height", "").isdecimal():
            blocks.append((name, (int(fields["Width"]), int(fields["Height"])), fields))
    return blocks


def _extrinsics(text: str, path: Path) -> dict[tuple[str, str], Array]:
    """T_to_from by the two names."""
    transforms = {}
    for here, there, block in _EXTRINSIC.findall(text):
        numbers = [float(number) for number in re.findall(_NUMBER, block)[:12]]
        if len(numbers) == 12:
            T = np.column_stack([np.reshape(numbers[:9], (3, 3)), numbers[9:]])
            key = f"Extrinsic from {here} To {there}"
            transforms[here, there] = rigid_transform(T, path, key)
    return transforms


def _camera(fields: dict[str, str], size: tuple[int, int], T_b_c: Array, where: str) -> Camera:
    try:
        focal = [float(fields[key]) for key in ("Fx", "Fy", "PPX", "PPY")]
        lens = [float(number) for number in fields.get("Coeffs", "").split()]
    except (KeyError, ValueError) as error:
        raise CalibrationError(f"{where}: Fx, Fy, PPX, PPY or Coeffs is not a number.") from error
    name = fields.get("Distortion", "None").lower()
    # Without coefficients all models are alike; the device's own names for it vary.
    model = _MODELS.get(name) if any(lens) else "none"
    if model is None:
        raise CalibrationError(
            f"{where}: distortion '{name[:40]}' has no closed form here, needed one of "
            f"{', '.join(_MODELS)}; calibrate the cameras with Kalibr."
        )
    return make_camera(where, focal, lens, model, size, T_b_c)
