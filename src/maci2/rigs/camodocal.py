"""Camera files of VINS-Mono and VINS-Fusion, as the library camodocal writes them.

PINHOLE: k1 k2 p1 p2. KANNALA_BRANDT: k2 to k5 are the four coefficients that Kalibr calls
equidistant, mu mv u0 v0 are fx fy cx cy. MEI: the unified model, gamma1 gamma2 are fx fy.
"""

from pathlib import Path
from typing import Any

import numpy as np
from pydantic import PositiveInt

from maci2.errors import CalibrationError
from maci2.rigs.lens import make_camera
from maci2.rigs.parts import RigParts
from maci2.rigs.yaml_schema import OpenSchema, load_yaml, validate
from maci2.sensors.rig_types import Camera
from maci2.types import Array

_PROJECTION = {
    "PINHOLE": ("fx", "fy", "cx", "cy"),
    "PINHOLE_FULL": ("fx", "fy", "cx", "cy"),
    "KANNALA_BRANDT": ("mu", "mv", "u0", "v0"),
    "MEI": ("gamma1", "gamma2", "u0", "v0"),
}
_DISTORTION = ("k1", "k2", "p1", "p2")
_FULL = ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")
_FISHEYE = ("k2", "k3", "k4", "k5")


class _CameraKeys(OpenSchema):
    model_type: str
    image_width: PositiveInt
    image_height: PositiveInt
    distortion_parameters: dict[str, float] | None = None
    projection_parameters: dict[str, float] | None = None
    mirror_parameters: dict[str, float] | None = None


def read_camera_file(path: Path) -> RigParts:
    """Rig with the single camera of a file."""
    data = load_yaml(path, "a camera of VINS-Fusion")
    camera = camodocal_camera(data, path, np.eye(4))
    return RigParts("VINS camera file (camodocal)", path, (camera,), extrinsics_known=False)


def camodocal_camera(data: dict[str, Any], path: Path, T_b_c: Array, topic: str = "") -> Camera:
    """Camera from the keys of a camera file or of VINS-Mono's configuration."""
    keys = validate(_CameraKeys, data, path)
    kind = keys.model_type.upper()
    if kind not in _PROJECTION:
        raise CalibrationError(
            f"{path}: model_type is '{keys.model_type[:40]}', needed one of "
            f"{', '.join(_PROJECTION)}. Calibrate with one of them."
        )
    focal = _numbers(keys.projection_parameters, _PROJECTION[kind], path, "projection_parameters")
    size = (keys.image_width, keys.image_height)
    if kind == "KANNALA_BRANDT":
        lens = _numbers(keys.projection_parameters, _FISHEYE, path, "projection_parameters")
        return make_camera(path, focal, lens, "equidistant", size, T_b_c, topic=topic)
    names = _FULL if kind == "PINHOLE_FULL" else _DISTORTION
    lens = _numbers(keys.distortion_parameters, names, path, "distortion_parameters")
    if kind == "MEI":
        xi = _numbers(keys.mirror_parameters, ("xi",), path, "mirror_parameters")
        return make_camera(
            path, focal, lens, "radtan", size, T_b_c,
            camera_model="omni", model_parameters=xi, topic=topic,
        )  # fmt: skip
    return make_camera(path, focal, lens, "radtan", size, T_b_c, topic=topic)


def camodocal_entries(camera: Camera, name: str) -> dict[str, Any]:
    """Keys and values of a camera file; raises for models that VINS-Fusion does not know."""
    focal, lens = camera.intrinsics.tolist(), camera.distortion.tolist()
    kind = _kind(camera, name)
    entries: dict[str, Any] = {
        "model_type": kind,
        "camera_name": name.removesuffix(".yaml"),
        "image_width": camera.resolution[0],
        "image_height": camera.resolution[1],
    }
    projection = dict(zip(_PROJECTION[kind], focal, strict=True))
    if kind == "KANNALA_BRANDT":
        return entries | {
            "projection_parameters": dict(zip(_FISHEYE, lens, strict=True)) | projection
        }
    if kind == "MEI":
        entries["mirror_parameters"] = {"xi": float(camera.model_parameters[0])}
    names = _FULL if kind == "PINHOLE_FULL" else _DISTORTION
    lens += [0.0] * (len(names) - len(lens))
    entries["distortion_parameters"] = dict(zip(names, lens, strict=True))
    return entries | {"projection_parameters": projection}


def _kind(camera: Camera, name: str) -> str:
    if camera.camera_model == "pinhole" and camera.distortion_model == "equidistant":
        return "KANNALA_BRANDT"
    long = len(camera.distortion) > 4
    if camera.camera_model == "pinhole" and camera.distortion_model in ("radtan", "none"):
        return "PINHOLE_FULL" if long else "PINHOLE"
    if camera.camera_model == "omni" and not long:
        return "MEI"
    raise CalibrationError(
        f"{name}: the camera model is {camera.camera_model} with distortion "
        f"'{camera.distortion_model}' ({len(camera.distortion)} coefficients), which VINS-Fusion "
        "does not know; calibrate with pinhole-radtan, pinhole-equidistant or omni-radtan."
    )


def _numbers(
    group: dict[str, float] | None, names: tuple[str, ...], path: Path, key: str
) -> list[float]:
    if group is None:
        raise CalibrationError(f"{path}: key '{key}' is missing; add it.")
    for name in names:
        if name not in group:
            raise CalibrationError(f"{path}: key '{key}.{name}' is missing; add it.")
    return [group[name] for name in names]
