"""Recognition of the tool that wrote a calibration file, by keys or phrases that only its files
have."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Keys = dict[str, Any]
CAMERA_KEY = re.compile(r"cam(\d+)")


@dataclass(frozen=True)
class FileKind:
    """A kind of calibration file, and its reader if there is one."""

    name: str
    """Tool, version if it matters, and file, for messages."""

    reader: str = ""
    """Reader in `maci2.rigs.convert`; empty if the file has no cameras."""

    missing: str = ""
    """For kinds without a reader: what the file lacks and which file to give instead."""


def identify(data: Keys) -> FileKind:
    """Kind of file with these keys."""
    for belongs, kind in _KINDS:
        if belongs(data):
            return kind(data) if callable(kind) else kind
    shown = ", ".join(list(data)[:5]) or "none"
    return FileKind(
        "unknown tool",
        missing=f"its keys ({shown}) are of no tool known here; known are Kalibr, OpenVINS, "
        "VINS-Mono, VINS-Fusion, ORB-SLAM2, ORB-SLAM3, MSCKF-VIO, Basalt, OAK, RealSense, ZED, ROS "
        "CameraInfo and 4Seasons. Write a Kalibr camchain-imucam.yaml",
    )


def identify_text(path: Path, text: str) -> FileKind | None:
    """Kind of a file that is neither YAML nor JSON; None if its keys must decide."""
    for marks, kind in _MARKS:
        if all(mark in text for mark in marks):
            return kind
    if path.suffix == ".conf" or "[LEFT_CAM_" in text.upper():
        return FileKind("ZED factory calibration", "zed")
    if text.lstrip().startswith("<"):
        name = "OpenCV XML" if "<opencv_storage>" in text else "XML file, such as a ROS launch file"
        return FileKind(name, missing=f"needed YAML or JSON; {_WRITE_CAMCHAIN}")
    return None


def identify_lines(text: str) -> FileKind:
    """Kind of a YAML or JSON file that cannot be parsed, by the keys in its lines."""
    lines = [(len(indent), key) for indent, key in _KEY.findall(text)]
    top = min((indent for indent, _ in lines), default=0)
    keys: Keys = {}
    under: Keys = {}
    for indent, key in lines:
        if indent == top:
            under = keys.setdefault(key, {})
        else:
            under[key] = None
    return identify(keys)


_KEY = re.compile(r'^(\s*)(?:- )?"?([A-Za-z_][\w.\-]*)"?\s*:', re.MULTILINE)
_NOT_READ = "this tool is not read here"
_GIVE_CAMCHAIN = "give the calibration of the cameras, such as Kalibr's camchain-imucam.yaml"
_WRITE_CAMCHAIN = "write a Kalibr camchain-imucam.yaml"


def _settings(name: str, missing: str) -> FileKind:
    return FileKind(name, missing=f"{missing}; {_GIVE_CAMCHAIN}")


def _within(key: str, kind: type) -> Callable[[Keys], bool]:
    return lambda data: isinstance(data.get(key), kind)


def _has(*keys: str) -> Callable[[Keys], bool]:
    return lambda data: all(key in data for key in keys)


def _any(*keys: str) -> Callable[[Keys], bool]:
    return lambda data: any(key in data for key in keys)


def _begins(prefix: str) -> Callable[[Keys], bool]:
    return lambda data: any(key.startswith(prefix) for key in data)


def _chain_entries(data: Keys) -> list[Keys]:
    return [v for k, v in data.items() if CAMERA_KEY.fullmatch(k) and isinstance(v, dict)]


def _is_chain(data: Keys) -> bool:
    marks = {"intrinsics", "camera_model", "T_cam_imu", "T_imu_cam"}
    return any(marks & set(entry) for entry in _chain_entries(data))


def _chain_kind(data: Keys) -> FileKind:
    keys = {key for entry in _chain_entries(data) for key in entry} | set(data)
    if "T_imu_body" in keys:
        return FileKind("MSCKF-VIO camera chain", "kalibr")
    if "T_imu_cam" in keys:
        return FileKind("OpenVINS imucam chain", "kalibr")
    if any(key.startswith("T_cam1_cam") for key in keys):
        return FileKind("4Seasons camera chain", "kalibr")
    return FileKind(f"Kalibr camchain{'-imucam' if 'T_cam_imu' in keys else ''}", "kalibr")


def _imu_kind(data: Keys) -> FileKind:
    entry = data.get("imu0", data)
    openvins = isinstance(entry, dict) and any(key in entry for key in ("Tw", "Ta", "R_IMUtoGYRO"))
    name = "OpenVINS IMU chain" if openvins else "Kalibr IMU file"
    missing = f"cameras are missing; {_GIVE_CAMCHAIN}, and this file with --imu-noise"
    return FileKind(name, "imu", missing)


def _orbslam_kind(data: Keys) -> FileKind:
    if any(key.startswith("Camera1.") for key in data) or "File.version" in data:
        rectified = data.get("Camera.type") == "Rectified"
        return FileKind(f"ORB-SLAM3{' Rectified' if rectified else ''} settings", "orbslam")
    old = "Camera.type" in data or "Tbc" in data or any(key.startswith("IMU.") for key in data)
    return FileKind(f"ORB-SLAM{'3 (before version 1.0)' if old else '2'} settings", "orbslam")


def _basalt_kind(data: Keys) -> FileKind:
    keys = set(data["value0"])
    if "intrinsics" in keys:
        return FileKind("Basalt calibration", "basalt")
    if any(key.startswith("config.") for key in keys):
        return _settings("Basalt settings", "these hold no calibration")
    return _settings("Basalt file", "cameras are missing in it")


def _node(data: Keys) -> str:
    """Name of the ROS 2 node whose parameters these are; empty if they are not."""
    return next((k for k, v in data.items() if isinstance(v, dict) and "ros__parameters" in v), "")


def _is_realsense_settings(data: Keys) -> bool:
    # The RealSense viewer nests settings one level deeper.
    inner = data.get("parameters")
    keys = data | (inner if isinstance(inner, dict) else {})
    return any(key.startswith(("param-", "aux-param-")) for key in keys)


def _is_camera_list(data: Keys) -> bool:
    cameras = data.get("cameras")
    first = cameras[0] if isinstance(cameras, list) and cameras else None
    return isinstance(first, dict) and "camera" in first


_KINDS: tuple[tuple[Callable[[Keys], bool], Any], ...] = (
    (_within("value0", dict), _basalt_kind),
    (_has("cameraData"), FileKind("OAK (DepthAI) calibration", "depthai")),
    (_has("board_config"),
     _settings("OAK (DepthAI) board description", "measured intrinsics are missing in it")),
    (_within("imus", list), _settings("RealSense IMU calibration", "cameras are missing in it")),
    (_begins("controls-"), _settings("RealSense settings", "these hold no calibration")),
    (_is_realsense_settings, _settings("RealSense settings", "these hold no calibration")),
    (_any("in_left", "in_left_map", "in_accel"), _settings("MYNT EYE parameters", _NOT_READ)),
    (_any("Camera.T_BC0", "IMU.sigma_g"), _settings("R-VIO settings", _NOT_READ)),
    (_begins("Camera1."), _orbslam_kind),
    (_any("Camera.fx", "File.version", "IMU.T_b_c1"), _orbslam_kind),
    (_any("cam0_calib", "body_T_cam0", "num_of_cam"), FileKind("VINS-Fusion settings", "vins")),
    (lambda data: "model_type" in data and _any("imu_topic", "acc_n", "extrinsicRotation")(data),
     FileKind("VINS-Mono settings", "vins")),
    (_has("model_type"), FileKind("VINS camera file (camodocal)", "camodocal")),
    (_any("relative_config_imucam", "relative_config_imu"),
     FileKind("OpenVINS estimator_config", "openvins")),
    (_has("init_window_time", "max_clones"), FileKind("OpenVINS estimator_config", "openvins")),
    (_is_chain, _chain_kind),
    (_any("imu0", "accelerometer_noise_density", "gyroscope_noise_density"), _imu_kind),
    (_has("camera_matrix"), FileKind("ROS CameraInfo", "camera_info")),
    (_has("K", "D"), FileKind("ROS CameraInfo message", "camera_info")),
    (_has("k", "d", "distortion_model"), FileKind("ROS 2 CameraInfo message", "camera_info")),
    (lambda data: bool(_node(data)),
     lambda data: _settings(f"ROS 2 parameters of {_node(data)}",
                            "these are settings of a node, a calibration is missing")),
    (_has("sensor_type", "T_BS"),
     FileKind("EuRoC sensor.yaml", "", "one sensor alone; give the recording's folder instead")),
    (_within("Camera", dict), _settings("stella_vslam or OpenVSLAM settings", _NOT_READ)),
    (_has("target_type"), _settings("Kalibr target", "this describes the calibration board")),
    (_has("camera_id", "T_BS"), _settings("Kimera-VIO camera", _NOT_READ)),
    (_has("T_cam_imu", "resolution_width"), _settings("LARVIO settings", _NOT_READ)),
    (_has("Gyr", "Acc"), _settings("imu_utils result", "cameras are missing in it")),
    (_is_camera_list, _settings("SVO, ROVIO or maplab camera list", _NOT_READ)),
    (lambda data: "cameras" in data and _any("imu_params", "imu_parameters")(data),
     _settings("OKVIS settings", _NOT_READ)),
    (_within("cameras", list), _settings("list of cameras", _NOT_READ)),
    (_any("M1", "cameraMatrix1", "K1"),
     _settings("OpenCV stereo calibration", "the image size and the IMU are missing")),
    (_any("acc_n", "gyr_n", "imu_topic"), FileKind("VINS settings", "",
     "the cameras are missing (cam0_calib or model_type); give the whole configuration")),
)  # fmt: skip
"""Tests in order of application, each with the kind of file or a function that determines it."""

_MARKS: tuple[tuple[tuple[str, ...], FileKind], ...] = (
    (("T_ci", "imu0 to cam0"), FileKind("Kalibr results text", "",
     "the image size is missing and digits are rounded; give the camchain-imucam.yaml that Kalibr "
     "wrote beside it")),
    (("Camera-system parameters", "projection:"), FileKind("Kalibr results text of the cameras", "",
     "the image size and the extrinsics are missing; give the camchain.yaml that Kalibr wrote "
     "beside it")),
    (('Intrinsic of "', "PPX:"), FileKind("RealSense factory calibration", "realsense")),
    (("oST version", "camera matrix"), FileKind("ROS camera_calibration text", "",
     "the distortion model is missing; give the .yaml that the calibrator wrote beside it")),
    (("\ncrop\n",), FileKind("DSO camera text", "",
     "the place of the cameras is missing; give a chain such as the camchain.yaml of 4Seasons")),
    (("P0: ", "P1: "), FileKind("KITTI projection matrices", "",
     f"the image size and the IMU are missing; {_WRITE_CAMCHAIN}")),
)  # fmt: skip
"""Phrases that all occur in a kind of file."""
