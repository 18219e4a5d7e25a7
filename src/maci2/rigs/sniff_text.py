"""Recognition of the tool that wrote a file that is neither YAML nor JSON, by its text."""

import re
from pathlib import Path

from maci2.rigs.sniff import FileKind, Keys, identify

_KEY = re.compile(r'^(\s*)(?:- )?"?([A-Za-z_][\w.\-]*)"?\s*:', re.MULTILINE)

_MARKS: tuple[tuple[tuple[str, ...], FileKind], ...] = (
    (
        ("T_ci", "imu0 to cam0"),
        FileKind(
            "Kalibr results text",
            "",
            "the image size is missing and digits are rounded; give the camchain-imucam.yaml that "
            "Kalibr wrote beside it",
        ),
    ),
    (
        ("Camera-system parameters", "projection:"),
        FileKind(
            "Kalibr results text of the cameras",
            "",
            "the image size and the extrinsics are missing; give the camchain.yaml that "
            "Kalibr wrote beside it",
        ),
    ),
    (('Intrinsic of "', "PPX:"), FileKind("RealSense factory calibration", "realsense")),
    (
        ("oST version", "camera matrix"),
        FileKind(
            "ROS camera_calibration text",
            "",
            "the distortion model is missing; give the .yaml that the calibrator wrote beside it",
        ),
    ),
    (
        ("\ncrop\n",),
        FileKind(
            "DSO camera text",
            "",
            "the place of the cameras is missing; give a chain such as the camchain.yaml of "
            "4Seasons",
        ),
    ),
    (
        ("P0: ", "P1: "),
        FileKind(
            "KITTI projection matrices",
            "",
            "the image size and the IMU are missing; write a Kalibr camchain-imucam.yaml",
        ),
    ),
)
"""Phrases that all occur in a kind of file."""


def identify_text(path: Path, text: str) -> FileKind | None:
    """Kind of a file that is neither YAML nor JSON; None if its keys must decide."""
    for marks, kind in _MARKS:
        if all(mark in text for mark in marks):
            return kind
    if path.suffix == ".conf" or "[LEFT_CAM_" in text.upper():
        return FileKind("ZED factory calibration", "zed")
    if text.lstrip().startswith("<"):
        name = "OpenCV XML" if "<opencv_storage>" in text else "XML file, such as a ROS launch file"
        return FileKind(name, "", "needed YAML or JSON; write a Kalibr camchain-imucam.yaml")
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
