"""Images: decoding of files and of ROS messages to grey after checks, and files named by time.

Decoders return half an image for a truncated file, and take the memory that its header asks for:
the first and last bytes are checked before.
"""

import re
import struct
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.datasets.tables import unit_of, whole_ns
from maci2.errors import DatasetError, ImageError
from maci2.sensors.stereo import Image
from maci2.types import Stamps

PNG_BEGIN = b"\x89PNG\r\n\x1a\n"
PNG_END = b"IEND\xaeB`\x82"
JPEG_BEGIN = b"\xff\xd8"
JPEG_END = b"\xff\xd9"
JPEG_SIZE_MARKS = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG segments that state the size."""

HEAD_BYTES = 1 << 16
"""Number of bytes that contain the size; previews and comments may precede it in a JPEG."""

TAIL_BYTES = 64
"""Number of bytes that contain the end mark; some cameras append a few bytes."""

MAX_PIXELS = 1 << 26
"""Largest image [px]: 67 million pixels, more than any camera of a rig."""


def image_size(content: bytes) -> tuple[int, int] | None:
    """Width and height of an image from its first bytes; None if they are not an image."""
    if content.startswith(PNG_BEGIN) and len(content) >= 24:
        return struct.unpack_from(">II", content, 16)
    if content.startswith(JPEG_BEGIN):
        return _jpeg_size(content)
    if content.startswith(b"BM") and len(content) >= 26:
        width, height = struct.unpack_from("<ii", content, 18)
        # Negative heights are stored from the top.
        return width, abs(height)
    pnm = re.match(rb"P[2356]\s+(?:#[^\n]*\n\s*)*(\d{1,9})\s+(\d{1,9})\s", content)
    return (int(pnm[1]), int(pnm[2])) if pnm else None


def image_fault(
    head: bytes, tail: bytes, length: int, resolution: tuple[int, int] | None = None
) -> str:
    """Fault of an image visible in its first and last bytes; empty if there is none. Without
    `resolution` any size is accepted."""
    size = image_size(head)
    if length == 0:
        return "is truncated: it has no bytes"
    is_png = head.startswith(PNG_BEGIN[: len(head)])
    if (is_png and not tail.endswith(PNG_END)) or (
        head.startswith(JPEG_BEGIN) and JPEG_END not in tail
    ):
        return f"is truncated: {length} bytes and no end mark"
    if size is None:
        return f"is not a readable image: {length} bytes that are not PNG, JPEG, BMP or PNM"
    if not 0 < size[0] * size[1] <= MAX_PIXELS:
        return (
            f"is not a readable image: it states {size[0]}x{size[1]} pixels, needed at most "
            f"{MAX_PIXELS}"
        )
    return size_fault(size, resolution)


def size_fault(size: tuple[int, int], resolution: tuple[int, int] | None) -> str:
    """Message about an image whose size differs from the calibrated one; empty if it does not."""
    if resolution is None or size == tuple(resolution):
        return ""
    width, height = resolution
    return (
        f"the image is {size[0]}x{size[1]}, the calibration is for {width}x{height}; it belongs to "
        "another rig or to another image size. Use the calibration of these images."
    )


def decode_image(content: bytes, place: str, flags: int = cv2.IMREAD_UNCHANGED) -> NDArray:
    """Pixels of an image, decoded with OpenCV's flags; `place` names it in errors."""
    fault = image_fault(content[:HEAD_BYTES], content[-TAIL_BYTES:], len(content))
    if not fault and content.startswith(PNG_BEGIN) and not _png_is_intact(content):
        fault = f"is damaged: the checksums of its {len(content)} bytes are wrong"
    if fault:
        raise ImageError(f"{place}: {fault}; copy or record it again.")
    try:
        pixels = cv2.imdecode(np.frombuffer(content, np.uint8), flags)
    except cv2.error:
        pixels = None
    if pixels is None or pixels.dtype not in (np.uint8, np.uint16):
        raise ImageError(
            f"{place}: is not a readable image: {len(content)} bytes; copy or record it again."
        )
    return np.asarray(pixels)


def upper_8_bits(pixels: NDArray) -> NDArray[np.uint8]:
    """8-bit pixels; of 16 bits the upper 8."""
    return (pixels >> 8).astype(np.uint8) if pixels.dtype.itemsize == 2 else pixels


def _jpeg_size(content: bytes) -> tuple[int, int] | None:
    """Find the segment that states the size."""
    place = 2
    while place + 9 <= len(content) and content[place] == 0xFF:
        mark, length, _, height, width = struct.unpack_from(">BHBHH", content, place + 1)
        if mark in JPEG_SIZE_MARKS:
            return width, height
        # A mark may be padded with any number of 0xFF.
        place += 1 if mark == 0xFF else 2 + length
    return None


def _png_is_intact(content: bytes) -> bool:
    """True if every chunk has the right length and checksum."""
    place = len(PNG_BEGIN)
    while place + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, place)
        end = place + 8 + length
        if end + 4 > len(content):
            return False
        body = memoryview(content)[place + 4 : end]
        if (zlib.crc32(body),) != struct.unpack_from(">I", content, end):
            return False
        if content[place + 4 : place + 8] == b"IEND":
            return True
        place = end + 4
    return False


_BAYER = {
    "rggb": cv2.COLOR_BayerRGGB2GRAY, "bggr": cv2.COLOR_BayerBGGR2GRAY,
    "gbrg": cv2.COLOR_BayerGBRG2GRAY, "grbg": cv2.COLOR_BayerGRBG2GRAY,
}  # fmt: skip
_LAYOUTS: dict[str, tuple[int, int, int | None]] = {
    "mono8": (1, 1, None), "8UC1": (1, 1, None), "mono16": (1, 2, None), "16UC1": (1, 2, None),
    "bgr8": (3, 1, cv2.COLOR_BGR2GRAY), "rgb8": (3, 1, cv2.COLOR_RGB2GRAY),
    "bgra8": (4, 1, cv2.COLOR_BGRA2GRAY), "rgba8": (4, 1, cv2.COLOR_RGBA2GRAY),
    "yuv422": (2, 1, cv2.COLOR_YUV2GRAY_UYVY), "yuv422_yuy2": (2, 1, cv2.COLOR_YUV2GRAY_YUY2),
    **{f"bayer_{name}8": (1, 1, code) for name, code in _BAYER.items()},
    **{f"bayer_{name}16": (1, 2, code) for name, code in _BAYER.items()},
}  # fmt: skip
"""Encodings of ROS: channels, bytes of one, and OpenCV's conversion to grey."""


def grey_image(content: Any, place: str) -> Image:
    """Decode an Image or CompressedImage to 8-bit grey; `place` names the message."""
    read = _from_raw if hasattr(content, "encoding") else _from_compressed
    try:
        return read(content, place)
    except cv2.error as error:
        raise ImageError(f"{place}: cannot be made grey ({error.err}).") from None


def require_size(image: NDArray, resolution: tuple[int, int], place: str) -> None:
    """Raise unless the image has the calibrated size."""
    fault = size_fault(image.shape[::-1], resolution)
    if fault:
        raise ImageError(f"{place}: {fault}")


def message_fault(content: Any, resolution: tuple[int, int] | None) -> str:
    """Fault of an image message, found without decoding it; empty if there is none. Without
    `resolution`, any size is accepted."""
    if hasattr(content, "encoding"):
        size = (int(content.width), int(content.height))
        return _raw_fault(content) or size_fault(size, resolution)
    head, tail = bytes(content.data[:HEAD_BYTES]), bytes(content.data[-TAIL_BYTES:])
    damage = image_fault(head, tail, len(content.data))
    if damage:
        return f"{damage}; the message is damaged"
    return image_fault(head, tail, len(content.data), resolution)


def _raw_fault(content: Any) -> str:
    if content.encoding not in _LAYOUTS:
        return (
            f"encoding '{content.encoding}' is not known; known are {', '.join(_LAYOUTS)}. Convert "
            "the images, or choose another topic with --topics."
        )
    channels, depth, _ = _LAYOUTS[content.encoding]
    height, width, step = int(content.height), int(content.width), int(content.step)
    row = width * channels * depth
    if not 0 < height * width <= MAX_PIXELS or step < row or len(content.data) < height * step:
        return (
            f"{len(content.data)} bytes in rows of {step} cannot hold {width}x{height} pixels of "
            f"{content.encoding}, needed {height} rows of at least {row}; the message is damaged."
        )
    return ""


def _from_raw(content: Any, place: str) -> Image:
    fault = _raw_fault(content)
    if fault:
        raise ImageError(f"{place}: {fault}")
    channels, depth, to_grey = _LAYOUTS[content.encoding]
    height, width, step = int(content.height), int(content.width), int(content.step)
    rows = np.frombuffer(content.data, np.uint8, height * step).reshape(height, step)
    rows = np.ascontiguousarray(rows[:, : width * channels * depth])
    kind = np.dtype(f"{'>' if content.is_bigendian else '<'}u{depth}")
    return _to_grey(rows.view(kind).reshape(height, width, channels), to_grey)


def _from_compressed(content: Any, place: str) -> Image:
    image = decode_image(bytes(content.data), f"{place}, format '{content.format}'")
    if image.ndim == 2:
        # A mosaic stays one under compression: "bayer_rggb8; png compressed".
        encoding = content.format.partition(";")[0].strip()
        channels, _, to_grey = _LAYOUTS.get(encoding, (1, 1, None))
        return _to_grey(image[:, :, None], to_grey if channels == 1 else None)
    return _to_grey(image, cv2.COLOR_BGR2GRAY if image.shape[2] == 3 else cv2.COLOR_BGRA2GRAY)


def _to_grey(pixels: NDArray, code: int | None) -> Image:
    """(h, w, channels) of 8 or 16 bits -> (h, w) of 8."""
    pixels = upper_8_bits(pixels)
    if code is None:
        return np.ascontiguousarray(pixels[:, :, 0])
    return np.asarray(cv2.cvtColor(pixels, code), dtype=np.uint8)


IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".pgm", ".bmp", ".tif", ".tiff")
PAIRS = (
    ("left", "right"), ("cam0", "cam1"), ("infra1", "infra2"), ("infrared_1", "infrared_2"),
    ("fisheye1", "fisheye2"), ("fisheye_1", "fisheye_2"), ("image_0", "image_1"), ("cam1", "cam2"),
)  # fmt: skip
"""Words that distinguish the two cameras of a pair, in order of preference."""

RATE_HZ = (0.5, 400.0)
"""Plausible frame rates [Hz]."""

_TIME = re.compile(r"\d+(?:\.\d+)?")


def image_files(folder: Path) -> list[Path]:
    """Image files of a folder."""
    files = (file for file in folder.iterdir() if file.suffix.lower() in IMAGE_SUFFIXES)
    return sorted(file for file in files if file.is_file())


def read_image_names(folder: Path) -> tuple[Stamps, dict[int, str]]:
    """Timestamps of all images of a folder, and their file names by timestamp; the unit is the one
    that gives a plausible rate."""
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
    return stamps_ns, names


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
