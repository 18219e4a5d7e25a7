"""Stereo images of a recording, read from disk one pair at a time."""

import re
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.boundary import require_type
from maci2.datasets.bag.frames import bag_frames
from maci2.datasets.bag.images import PNG_END
from maci2.datasets.euroc import camera_folders, mav0_of
from maci2.errors import DatasetError
from maci2.sensors.stereo import (
    MAX_PAIR_SKEW_NS,
    Frames,
    Image,
    StereoPair,
    pair_at,
    pair_stamps,
)
from maci2.sensors.types import Recording
from maci2.types import Stamps


@dataclass(frozen=True)
class FolderFrames:
    """The stereo pairs of a EuRoC-layout folder."""

    stamps_ns: Stamps
    """(n,) of the left images that have a right one, strictly increasing."""

    left_files: tuple[Path, ...]
    right_files: tuple[Path, ...]

    resolution: tuple[int, int]
    """Width, height [px] that the calibration is made for."""

    unpaired: int = 0
    """Images of either camera without a partner; cameras drop frames."""

    @property
    def source(self) -> str:
        return str(self.left_files[0].parent)

    def __len__(self) -> int:
        return len(self.stamps_ns)

    def index_of(self, stamp_ns: int) -> int:
        """Position of the pair with exactly this stamp."""
        return pair_at(self, stamp_ns)

    def left(self, index: int) -> Image:
        """The left image alone: following points needs no right one."""
        return read_image(self.left_files[index], self.resolution)

    def pair(self, index: int) -> StereoPair:
        """Both images."""
        right = read_image(self.right_files[index], self.resolution)
        return StereoPair(int(self.stamps_ns[index]), self.left(index), right)


def stereo_frames(recording: Recording) -> Frames:
    """The stereo pairs of a recording, folder or bag; raises where there are none to read."""
    require_type(recording, Recording, "recording", "as open_recording(path) gives it")
    if recording.bag is not None:
        return bag_frames(recording)
    return folder_frames(recording)


def folder_frames(recording: Recording) -> FolderFrames:
    """The stereo pairs of a EuRoC-layout folder."""
    folders = camera_folders(mav0_of(recording.path))
    if len(folders) < 2 or len(recording.rig.cameras) < 2:
        raise DatasetError(
            f"{recording.path}: has {len(folders)} camera folders and "
            f"{len(recording.rig.cameras)} calibrated cameras; stereo needs cam0 and cam1."
        )
    _require_images(folders[0])
    _require_images(folders[1])
    left_ns, right_ns = recording.camera_stamps_ns[0], recording.camera_stamps_ns[1]
    left, right = pair_stamps(left_ns, right_ns)
    if len(left) == 0:
        raise DatasetError(
            f"{recording.path}: no left image has a right one: cam0 covers {left_ns[0]}.."
            f"{left_ns[-1]} ns, cam1 {right_ns[0]}..{right_ns[-1]} ns, and no stamps agree within "
            f"{MAX_PAIR_SKEW_NS / 1e6:g} ms. Check that both cameras are on one clock."
        )
    shift_ns = recording.camera_shift_ns
    names_left = _file_names(folders[0], left_ns - shift_ns)
    names_right = _file_names(folders[1], right_ns - shift_ns)
    return FolderFrames(
        left_ns[left],
        tuple(names_left[i] for i in left),
        tuple(names_right[i] for i in right),
        recording.rig.cameras[0].resolution,
        len(left_ns) + len(right_ns) - 2 * len(left),
    )


def read_image(path: Path, resolution: tuple[int, int]) -> Image:
    """A grey image of 8 bits; deeper ones keep their upper 8 bits."""
    if not path.is_file():
        raise DatasetError(
            f"{path}: listed in {path.parent.parent / 'data.csv'} but missing; unpack it again or "
            "remove its line."
        )
    content = path.read_bytes()
    # Decoders return half an image for a truncated file.
    if path.suffix.lower() == ".png" and not content.endswith(PNG_END):
        raise DatasetError(
            f"{path}: truncated, {len(content)} bytes and no end mark; copy the file again."
        )
    image = _decode(content)
    if image is None:
        raise DatasetError(
            f"{path}: {len(content)} bytes that are no readable image; copy the file again."
        )
    if image.dtype == np.uint16:
        image = (image >> 8).astype(np.uint8)
    height, width = image.shape
    if (width, height) != tuple(resolution):
        raise DatasetError(
            f"{path}: is {width}x{height}, the calibration of the left camera is for "
            f"{resolution[0]}x{resolution[1]}; left and right images and calibration must have one "
            "size. Use the calibration that belongs to these images."
        )
    return image


def _decode(content: bytes) -> NDArray | None:
    try:
        return cv2.imdecode(
            np.frombuffer(content, np.uint8), cv2.IMREAD_GRAYSCALE | cv2.IMREAD_ANYDEPTH
        )
    except cv2.error:
        return None


def _file_names(folder: Path, stamps_ns: Stamps) -> list[Path]:
    """Files that data.csv names, else stamp.png."""
    names = {}
    for line in (folder / "data.csv").read_text(encoding="utf-8").splitlines():
        found = re.match(r"\s*(\d+)\s*,\s*([^,\s]+)", line)
        if found:
            names[int(found[1])] = found[2]
    return [folder / "data" / names.get(int(stamp), f"{int(stamp)}.png") for stamp in stamps_ns]


def _require_images(folder: Path) -> None:
    files = folder / "data"
    if not files.is_dir() or next(files.iterdir(), None) is None:
        raise DatasetError(
            f"{files}: no images; the recording lists their stamps only. Unpack the images, or use "
            "--vision trajectory:FILE or truth:... instead."
        )
