"""Stereo images of a recording, read from disk one pair at a time.

Stereo images of a bag, read one pair at a time, like those of a folder.
"""

import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.datasets.bags import Bag, Message, header_stamp_ns
from maci2.datasets.euroc import camera_folders, mav0_of
from maci2.datasets.images import (
    HEAD_BYTES,
    TAIL_BYTES,
    decode_image,
    grey_image,
    image_fault,
    image_head,
    require_size,
    upper_8_bits,
    wrong_size,
)
from maci2.errors import CalibrationError, DatasetError, ImageError
from maci2.files import read_bytes
from maci2.sensors.stereo import (
    MAX_PAIR_SKEW_NS,
    Frames,
    HasImages,
    Image,
    StereoPair,
    pair_at,
    pair_stamps,
)
from maci2.sensors.types import BagImages
from maci2.types import NS, Stamps

MAX_IMAGE_BYTES = 1 << 28

LOOKED_AT = 8
"""Number of images read before the calibration is called one of another size."""


@dataclass(frozen=True)
class FolderFrames:
    """The stereo pairs of a EuRoC-layout folder."""

    stamps_ns: Stamps
    """(n,) timestamps of left images with a right one, strictly increasing [ns]."""

    left_files: tuple[Path, ...]
    right_files: tuple[Path, ...]

    resolution: tuple[int, int]
    """Width and height of the calibrated images [px]."""

    unpaired: int = 0
    """Number of images of either camera without a partner."""

    @property
    def source(self) -> str:
        return str(self.left_files[0].parent)

    def __len__(self) -> int:
        return len(self.stamps_ns)

    def index_of(self, stamp_ns: int) -> int:
        """Index of the pair with exactly this timestamp."""
        return pair_at(self, stamp_ns)

    def left(self, index: int) -> Image:
        """Left image. Raises ImageError if it cannot be used."""
        return read_image(self.left_files[index], self.resolution)

    def right(self, index: int) -> Image:
        """Right image."""
        return read_image(self.right_files[index], self.resolution)

    def pair(self, index: int) -> StereoPair:
        """Both images. Raises ImageError if one cannot be used."""
        return StereoPair(int(self.stamps_ns[index]), self.left(index), self.right(index))


def stereo_frames(recording: HasImages) -> Frames:
    """Stereo pairs of a recording in a folder or bag; images are read on demand.

    Args:
        recording: a recording from `open_recording`.

    Returns:
        Timestamps of all pairs, and access to the images of one pair at a time.

    Raises:
        DatasetError: there are no stereo images to read.
    """
    if not hasattr(recording, "bag") or not hasattr(recording, "rig"):
        kind = type(recording).__name__
        raise DatasetError(
            f"recording is of the type {kind}, needed a recording from open_recording."
        )
    if recording.bag is not None:
        return bag_frames(recording)
    return folder_frames(recording)


def folder_frames(recording: HasImages) -> FolderFrames:
    """The stereo pairs of a EuRoC-layout folder."""
    folders = image_folders(recording)
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
            f"{left_ns[-1]} ns, cam1 {right_ns[0]}..{right_ns[-1]} ns, and no timestamps agree "
            f"within {MAX_PAIR_SKEW_NS / 1e6:g} ms. Check that both cameras are on one clock."
        )
    left_files, right_files = image_paths(recording, 0), image_paths(recording, 1)
    frames = FolderFrames(
        left_ns[left],
        tuple(left_files[i] for i in left),
        tuple(right_files[i] for i in right),
        recording.rig.cameras[0].resolution,
        len(left_ns) + len(right_ns) - 2 * len(left),
    )
    _require_calibrated_size(frames, recording)
    return frames


def image_folders(recording: HasImages) -> list[Path]:
    """Folder of the images of each camera."""
    if recording.image_folders:
        return list(recording.image_folders)
    return [folder / "data" for folder in camera_folders(mav0_of(recording.path))]


def image_paths(recording: HasImages, camera: int) -> list[Path]:
    """Image files of one camera of a folder, one per timestamp."""
    data = image_folders(recording)[camera]
    names = recording.image_names[camera] if camera < len(recording.image_names) else {}
    stamps_ns = (recording.camera_stamps_ns[camera] - recording.camera_shift_ns).tolist()
    return [data / names.get(stamp_ns, f"{stamp_ns}.png") for stamp_ns in stamps_ns]


def read_image(path: Path, resolution: tuple[int, int]) -> Image:
    """Image as 8-bit grey; deeper ones keep their upper 8 bits. Raises ImageError."""
    if not path.exists():
        raise ImageError(f"{path}: {_missing(path)}")
    content = read_bytes(path, "an image", MAX_IMAGE_BYTES, ImageError)
    # The size stated first: nothing is decoded that cannot be used.
    head = image_head(content[:HEAD_BYTES])
    if head is not None and (head.width, head.height) != tuple(resolution):
        fault = image_fault(content[:HEAD_BYTES], content[-TAIL_BYTES:], len(content))
        raise ImageError(f"{path}: {fault or wrong_size(head.width, head.height, resolution)}")
    pixels = decode_image(content, str(path), cv2.IMREAD_GRAYSCALE | cv2.IMREAD_ANYDEPTH)
    height, width = pixels.shape
    if (width, height) != tuple(resolution):
        raise ImageError(f"{path}: {wrong_size(width, height, resolution)}")
    return upper_8_bits(pixels)


def image_file_fault(path: Path, resolution: tuple[int, int] | None) -> str:
    """Fault of an image file visible in its first and last bytes; empty if there is none. Without
    `resolution` any size is accepted."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES if path.suffix.lower() not in (".png", ".bmp") else 64)
            length = os.fstat(file.fileno()).st_size
            file.seek(max(length - TAIL_BYTES, 0))
            tail = file.read(TAIL_BYTES)
    except FileNotFoundError:
        return _missing(path)
    except (OSError, ValueError) as problem:
        return f"cannot be read ({problem})"
    fault = image_fault(head, tail, length)
    found = image_head(head)
    if fault or found is None or resolution is None:
        return fault
    size = (found.width, found.height)
    return "" if size == tuple(resolution) else wrong_size(*size, resolution)


def image_file_faults(
    paths: list[Path], resolution: tuple[int, int] | None
) -> Iterator[tuple[int, str]]:
    """Index of each unusable image file, and the reason; takes microseconds per file."""
    for number, path in enumerate(paths):
        fault = image_file_fault(path, resolution)
        if fault:
            yield number, fault


def _missing(path: Path) -> str:
    return (
        f"listed in {path.parent.parent / 'data.csv'} but missing; unpack it again or remove its "
        "line."
    )


def _require_images(folder: Path) -> None:
    if not folder.is_dir() or next(folder.iterdir(), None) is None:
        raise DatasetError(
            f"{folder}: no images; the recording lists their timestamps only. Unpack the images; "
            "commands with --vision can do with trajectory:FILE or truth:... instead."
        )


def _require_calibrated_size(frames: FolderFrames, recording: HasImages) -> None:
    """Raise if all images differ in size from the calibration or none can be used; a few unusable
    ones are skipped."""
    for files in (frames.left_files, frames.right_files):
        numbers = np.unique(np.linspace(0, len(files) - 1, LOOKED_AT).astype(int))
        faults = [image_file_fault(files[number], frames.resolution) for number in numbers]
        if not all(faults):
            continue
        kind = (
            CalibrationError if all(" calibration " in fault for fault in faults) else DatasetError
        )
        raise kind(
            f"{files[numbers[0]]}: {faults[0]} (The same holds for all {len(numbers)} images of "
            f"{recording.name} that were looked at.)"
        )


AHEAD_NS = NS
"""Distance beyond which an image is looked up instead of reached by reading on [ns]."""


class _Cursor:
    """Cursor over the messages of one topic; it reads on when going forward."""

    def __init__(self, bag: Bag, topic: str) -> None:
        self._bag, self._topic = bag, topic
        self._stream: Iterator[Message] = iter(())
        self._last_ns = -AHEAD_NS

    def find(self, received_ns: int, stamp_ns: int) -> Any:
        """Message with this receive time and header timestamp; None if there is none."""
        if not 0 < received_ns - self._last_ns <= AHEAD_NS:
            self._stream = self._bag.messages([self._topic], received_ns)
        for message in self._stream:
            self._last_ns = message.received_ns
            if message.received_ns > received_ns:
                return None
            if header_stamp_ns(message.content) == stamp_ns:
                return message.content
        return None


class BagFrames:
    """Stereo pairs of a bag; no image is kept in memory."""

    def __init__(
        self,
        images: BagImages,
        stamps_ns: tuple[Stamps, Stamps],
        resolution: tuple[int, int],
        shift_ns: int = 0,
    ) -> None:
        left, right = pair_stamps(*stamps_ns)
        self.source = str(images.paths[0])
        self.resolution = resolution
        """Width and height of the calibrated images [px]."""
        self.stamps_ns: Stamps = stamps_ns[0][left]
        """(n,) timestamps of left images with a right one, strictly increasing [ns]."""
        self.unpaired = len(stamps_ns[0]) + len(stamps_ns[1]) - 2 * len(left)
        """Number of images of either camera without a partner."""
        self._images = images
        self._stamps_ns = tuple(stamps - shift_ns for stamps in stamps_ns)
        """Header timestamps [ns]."""
        self._at: tuple[NDArray[np.intp], NDArray[np.intp]] = (left, right)
        self._bag: Bag | None = None
        self._cursors: list[_Cursor] = []

    def __len__(self) -> int:
        return len(self.stamps_ns)

    def __iter__(self) -> Iterator[StereoPair]:
        """All pairs in the order of their timestamps."""
        return (self.pair(index) for index in range(len(self)))

    def index_of(self, stamp_ns: int) -> int:
        """Index of the pair with exactly this timestamp."""
        return pair_at(self, stamp_ns)

    def left(self, index: int) -> Image:
        """Left image."""
        return self._image(0, int(self._at[0][index]))

    def right(self, index: int) -> Image:
        """Right image."""
        return self._image(1, int(self._at[1][index]))

    def pair(self, index: int) -> StereoPair:
        """Both images."""
        return StereoPair(int(self.stamps_ns[index]), self.left(index), self.right(index))

    def close(self) -> None:
        """Release the bag's files; the next image opens them again."""
        if self._bag is not None:
            self._bag.close()
            self._bag, self._cursors = None, []

    def _image(self, camera: int, number: int) -> Image:
        if self._bag is None:
            self._bag = Bag(self._images.paths)
            self._cursors = [_Cursor(self._bag, topic) for topic in self._images.topics]
            weakref.finalize(self, self._bag.close)
        topic, stamp_ns = self._images.topics[camera], int(self._stamps_ns[camera][number])
        received_ns = int(self._images.received_ns[camera][number])
        place = f"{self.source}, {topic}, timestamp {stamp_ns} ns"
        content = self._cursors[camera].find(received_ns, stamp_ns)
        if content is None:
            raise DatasetError(f"{place}: the image no longer exists; the bag has changed.")
        image = grey_image(content, place)
        require_size(image, self.resolution, place)
        return image


def bag_frames(recording: HasImages) -> BagFrames:
    """Stereo pairs of a recording in a bag; raises if there are none."""
    images, cameras = recording.bag, recording.rig.cameras
    if images is None or len(images.topics) < 2 or len(cameras) < 2:
        topics = 0 if images is None else len(images.topics)
        raise DatasetError(
            f"{recording.path}: has {topics} image topics and {len(cameras)} calibrated cameras; "
            "stereo needs two of each. Choose with --topics left=/topic,right=/topic."
        )
    left_ns, right_ns = recording.camera_stamps_ns[:2]
    frames = BagFrames(
        images, (left_ns, right_ns), cameras[0].resolution, recording.camera_shift_ns
    )
    if len(frames) == 0:
        raise DatasetError(
            f"{recording.path}: no left image has a right one: {images.topics[0]} covers "
            f"{left_ns[0]}..{left_ns[-1]} ns, {images.topics[1]} {right_ns[0]}..{right_ns[-1]} ns, "
            f"and no timestamps agree within {MAX_PAIR_SKEW_NS / 1e6:g} ms. Check that both "
            "cameras are on one clock."
        )
    return frames
