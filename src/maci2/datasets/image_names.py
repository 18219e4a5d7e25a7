"""Image files named by time: `1403636579763555584.png`, `left_1520530308.194.jpg`."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maci2.datasets.time_units import unit_of, whole_ns
from maci2.errors import DatasetError
from maci2.types import Stamps

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".pgm", ".bmp", ".tif", ".tiff")
PAIRS = (
    ("left", "right"), ("cam0", "cam1"), ("infra1", "infra2"), ("infrared_1", "infrared_2"),
    ("fisheye1", "fisheye2"), ("fisheye_1", "fisheye_2"), ("image_0", "image_1"), ("cam1", "cam2"),
)  # fmt: skip
"""Words that distinguish the two cameras of a pair, in order of preference."""

RATE_HZ = (0.5, 400.0)
"""Plausible frame rates [Hz]."""

_TIME = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class ImageFolder:
    """Images of one camera in order of time."""

    folder: Path
    stamps_ns: Stamps
    names: dict[int, str]
    """File name of each timestamp."""


def image_files(folder: Path) -> list[Path]:
    """Image files of a folder."""
    files = (file for file in folder.iterdir() if file.suffix.lower() in IMAGE_SUFFIXES)
    return sorted(file for file in files if file.is_file())


def read_image_names(folder: Path) -> ImageFolder:
    """Timestamps of all images of a folder; the unit is the one that gives a plausible rate."""
    files = image_files(folder)
    texts = [_time_in(file) for file in files]
    values = np.array([float(text) for text in texts])
    numbered = all("." not in text for text in texts) and np.ptp(values) <= 2 * len(files)
    if len(files) > 2 and numbered:
        raise DatasetError(
            f"{folder}: images are numbered ({files[0].name}, {files[1].name}), their timestamps "
            f"are missing; name them by time, or write {folder.parent / 'data.csv'} with "
            "timestamp [ns] and filename."
        )
    unit = "ns" if len(files) < 2 else unit_of(texts, "images", str(folder), RATE_HZ)
    stamps_ns = whole_ns(texts, unit)
    order = np.argsort(stamps_ns, kind="stable")
    stamps_ns = stamps_ns[order]
    twice = np.flatnonzero(np.diff(stamps_ns) == 0)
    if len(twice):
        k = int(order[twice[0] + 1])
        raise DatasetError(f"{files[k]}: another image has the same timestamp; remove one of them.")
    names = {int(stamp_ns): files[k].name for stamp_ns, k in zip(stamps_ns, order, strict=True)}
    return ImageFolder(folder, stamps_ns, names)


def _time_in(file: Path) -> str:
    """Longest number in a name."""
    numbers = _TIME.findall(file.stem)
    if not numbers:
        raise DatasetError(
            f"{file}: its name holds no timestamp; name images by time, or write data.csv with "
            "timestamp [ns] and filename beside their folder."
        )
    return max(numbers, key=len)


def camera_image_folders(path: Path) -> list[Path]:
    """Image folders of the left and the right camera, or of one camera; empty without."""
    inside = [entry for entry in sorted(path.iterdir()) if entry.is_dir()]
    folders = [sub for entry in inside for sub in (entry, entry / "data") if sub.is_dir()]
    filled = [folder for folder in folders if image_files(folder)]
    for pair in PAIRS:
        found = [_named(filled, word, path) for word in pair]
        if all(len(one) == 1 for one in found):
            return [one[0] for one in found]
    if image_files(path):
        return [path]
    if len(filled) > 1:
        names = ", ".join(str(folder.relative_to(path)) for folder in filled)
        raise DatasetError(
            f"{path}: {len(filled)} image folders whose names do not distinguish left from right: "
            f"{names}. Call them left and right."
        )
    return filled


def _named(folders: list[Path], word: str, path: Path) -> list[Path]:
    return [f for f in folders if word in str(f.relative_to(path)).lower()]
