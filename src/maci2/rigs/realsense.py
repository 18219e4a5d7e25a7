"""Factory calibration of a RealSense, as `rs-enumerate-devices -c` prints it.

`Extrinsic from A To B` takes points of A to B. Infrared images are rectified on the device.
"""

import re
from pathlib import Path

import numpy as np

from maci2.errors import CalibrationError
from maci2.lie import se3, se3_inv
from maci2.rigs.chain import in_first_camera
from maci2.rigs.lens import make_camera
from maci2.rigs.parts import RigParts
from maci2.rigs.yaml_schema import rigid_transform
from maci2.rigs.yaml_text import read_text
from maci2.sensors.rig_types import Camera, DistortionModel
from maci2.types import Array

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
    T_b_c0 = next((T for name in IMU_STREAMS if (T := transforms.get((pair[0], name))) is not None),
                  None)  # fmt: skip
    place = np.eye(4) if T_b_c0 is None else T_b_c0
    poses = (place, place @ se3_inv(T_c1_c0))
    cameras = tuple(
        _camera(lenses[name, size], size, T_b_c, f"{path}: {name}")
        for name, T_b_c in zip(pair, poses, strict=True)
    )
    tool = f"RealSense factory calibration ({size[0]}x{size[1]})"
    known = T_b_c0 is not None
    return RigParts(tool, path, cameras if known else in_first_camera(cameras), known)


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
            T = se3(np.array(numbers[:9]).reshape(3, 3), np.array(numbers[9:]))
            key = f"Extrinsic from {here} To {there}"
            transforms[here, there] = rigid_transform(T.tolist(), path, key)
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
    if model == "equidistant" and not any(lens[4:]):
        lens = lens[:4]
    return make_camera(where, focal, lens, model, size, T_b_c)
