"""Stereo images of a recording in a folder or a bag, read one pair at a time."""

import os
import weakref
from collections.abc import Iterator
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
    image_size,
    require_size,
    upper_8_bits,
)
from maci2.errors import CalibrationError, DatasetError, ImageError
from maci2.files import read_bytes
from maci2.sensors.stereo import MAX_PAIR_SKEW_NS, Frames, Image, pair_stamps
from maci2.sensors.types import ImageRecording
from maci2.types import NS

MAX_IMAGE_BYTES = 1 << 28

LOOKED_AT = 8
"""Number of images read before the calibration is called one of another size."""

AHEAD_NS = NS
"""Distance beyond which an image is looked up instead of reached by reading on [ns]."""


def stereo_frames(recording: ImageRecording) -> Frames:
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
    _require_two_cameras(recording)
    left_ns, right_ns = recording.camera_stamps_ns[:2]
    left, right = pair_stamps(left_ns, right_ns)
    if len(left) == 0:
        names = ("cam0", "cam1") if recording.bag is None else recording.bag.topics
        raise DatasetError(
            f"{recording.path}: no left image has a right one: {names[0]} covers {left_ns[0]}.."
            f"{left_ns[-1]} ns, {names[1]} {right_ns[0]}..{right_ns[-1]} ns, and no timestamps "
            f"agree within {MAX_PAIR_SKEW_NS / 1e6:g} ms. Check that both cameras are on one clock."
        )
    resolution = recording.rig.cameras[0].resolution
    unpaired = len(left_ns) + len(right_ns) - 2 * len(left)
    if recording.bag is not None:
        bag = _BagReader(recording, (left, right))
        return Frames(left_ns[left], bag.source, resolution, unpaired, bag.read, bag.close)
    left_files, right_files = image_paths(recording, 0), image_paths(recording, 1)
    files = [[left_files[i] for i in left], [right_files[i] for i in right]]
    _require_calibrated_size(files, resolution, recording.name)
    return Frames(
        left_ns[left],
        str(files[0][0].parent),
        resolution,
        unpaired,
        lambda camera, index: read_image(files[camera][index], resolution),
    )


def _require_two_cameras(recording: ImageRecording) -> None:
    """Raise unless there are images and calibrations of two cameras."""
    bag, calibrated = recording.bag, len(recording.rig.cameras)
    if bag is None:
        folders = image_folders(recording)
        if len(folders) < 2 or calibrated < 2:
            raise DatasetError(
                f"{recording.path}: has {len(folders)} camera folders and {calibrated} calibrated "
                "cameras; stereo needs cam0 and cam1."
            )
        for folder in folders[:2]:
            if not folder.is_dir() or next(folder.iterdir(), None) is None:
                raise DatasetError(
                    f"{folder}: no images; the recording lists their timestamps only. Unpack the "
                    "images; commands with --vision can do with trajectory:FILE or truth:... "
                    "instead."
                )
    elif len(bag.topics) < 2 or calibrated < 2:
        raise DatasetError(
            f"{recording.path}: has {len(bag.topics)} image topics and {calibrated} calibrated "
            "cameras; stereo needs two of each. Choose with --topics left=/topic,right=/topic."
        )


def image_folders(recording: ImageRecording) -> list[Path]:
    """Folder of the images of each camera."""
    if recording.image_folders:
        return list(recording.image_folders)
    return [folder / "data" for folder in camera_folders(mav0_of(recording.path))]


def image_paths(recording: ImageRecording, camera: int) -> list[Path]:
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
    head, tail = content[:HEAD_BYTES], content[-TAIL_BYTES:]
    if image_size(head) not in (None, tuple(resolution)):
        raise ImageError(f"{path}: {image_fault(head, tail, len(content), resolution)}")
    pixels = decode_image(content, str(path), cv2.IMREAD_GRAYSCALE | cv2.IMREAD_ANYDEPTH)
    require_size(pixels, resolution, str(path))
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
    return image_fault(head, tail, length, resolution)


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


def _require_calibrated_size(
    cameras: list[list[Path]], resolution: tuple[int, int], name: str
) -> None:
    """Raise if all images differ in size from the calibration or none can be used; a few unusable
    ones are skipped."""
    for files in cameras:
        numbers = np.unique(np.linspace(0, len(files) - 1, LOOKED_AT).astype(int))
        faults = [image_file_fault(files[number], resolution) for number in numbers]
        if not all(faults):
            continue
        other_size = all(" calibration " in fault for fault in faults)
        kind = CalibrationError if other_size else DatasetError
        raise kind(
            f"{files[numbers[0]]}: {faults[0]} (The same holds for all {len(numbers)} images of "
            f"{name} that were looked at.)"
        )


class _BagReader:
    """Images of a bag by camera and index of the pair; none is kept in memory."""

    def __init__(
        self, recording: ImageRecording, pairs: tuple[NDArray[np.intp], NDArray[np.intp]]
    ) -> None:
        assert recording.bag is not None
        self.source = str(recording.bag.paths[0])
        self._recording, self._images, self._pairs = recording, recording.bag, pairs
        self._bag: Bag | None = None
        self._streams: dict[int, Iterator[Message]] = {}
        self._last_ns: dict[int, int] = {}

    def read(self, camera: int, index: int) -> Image:
        """Image; raises ImageError if it cannot be used."""
        number = self._pairs[camera][index]
        # Messages are found by the timestamps of their headers.
        stamps_ns = self._recording.camera_stamps_ns[camera]
        stamp_ns = int(stamps_ns[number]) - self._recording.camera_shift_ns
        place = f"{self.source}, {self._images.topics[camera]}, timestamp {stamp_ns} ns"
        content = self._find(camera, int(self._images.received_ns[camera][number]), stamp_ns)
        if content is None:
            raise DatasetError(f"{place}: the image no longer exists; the bag has changed.")
        image = grey_image(content, place)
        require_size(image, self._recording.rig.cameras[0].resolution, place)
        return image

    def _find(self, camera: int, received_ns: int, stamp_ns: int) -> Any:
        """Message with this receive time and header timestamp, by reading on when going forward;
        None if there is none."""
        if self._bag is None:
            self._bag = Bag(self._images.paths)
            weakref.finalize(self, self._bag.close)
        ahead_ns = received_ns - self._last_ns.get(camera, received_ns)
        if not 0 < ahead_ns <= AHEAD_NS:
            topic = self._images.topics[camera]
            self._streams[camera] = self._bag.messages([topic], received_ns)
        for message in self._streams[camera]:
            self._last_ns[camera] = message.received_ns
            if message.received_ns > received_ns:
                return None
            if header_stamp_ns(message.content) == stamp_ns:
                return message.content
        return None

    def close(self) -> None:
        """Release the bag's files; the next image opens them again."""
        if self._bag is not None:
            self._bag.close()
            self._bag, self._last_ns = None, {}
