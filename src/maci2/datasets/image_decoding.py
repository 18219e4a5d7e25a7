"""Decoding of PNG, JPEG, BMP and PNM images, after checks.

Decoders return half an image for a truncated file, and take the memory that its header asks for.
"""

import re
import zlib
from dataclasses import dataclass
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.errors import ImageError

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

Kind = Literal["PNG", "JPEG", "BMP", "PNM"]


@dataclass(frozen=True)
class ImageHead:
    """Kind and size of an image."""

    kind: Kind
    width: int
    height: int


def image_head(content: bytes) -> ImageHead | None:
    """Kind and size of an image from its first bytes; None if they are not an image."""
    if content.startswith(PNG_BEGIN) and len(content) >= 24:
        return ImageHead("PNG", _big(content[16:20]), _big(content[20:24]))
    if content.startswith(JPEG_BEGIN):
        return _jpeg_head(content)
    if content.startswith(b"BM") and len(content) >= 26:
        width, height = (
            int.from_bytes(content[k : k + 4], "little", signed=True) for k in (18, 22)
        )
        # Negative heights are stored from the top.
        return ImageHead("BMP", width, abs(height))
    pnm = re.match(rb"P[2356]\s+(?:#[^\n]*\n\s*)*(\d{1,9})\s+(\d{1,9})\s", content)
    return ImageHead("PNM", int(pnm[1]), int(pnm[2])) if pnm else None


def image_fault(head: bytes, tail: bytes, length: int) -> str:
    """Fault of an image visible in its first and last bytes; empty if there is none."""
    found = image_head(head)
    if length == 0:
        return "is truncated: it has no bytes"
    if head.startswith(PNG_BEGIN[: len(head)]) and not tail.endswith(PNG_END):
        return f"is truncated: {length} bytes and no end mark"
    if head.startswith(JPEG_BEGIN) and JPEG_END not in tail:
        return f"is truncated: {length} bytes and no end mark"
    if found is None:
        return f"is not a readable image: {length} bytes that are not PNG, JPEG, BMP or PNM"
    if not 0 < found.width * found.height <= MAX_PIXELS:
        return (
            f"is not a readable image: it states {found.width}x{found.height} pixels, needed at "
            f"most {MAX_PIXELS}"
        )
    return ""


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


def wrong_size(width: int, height: int, resolution: tuple[int, int]) -> str:
    """Message about an image whose size differs from the calibrated one."""
    return (
        f"the image is {width}x{height}, the calibration is for {resolution[0]}x{resolution[1]}; "
        "it belongs to another rig or to another image size. Use the calibration of these images."
    )


def _jpeg_head(content: bytes) -> ImageHead | None:
    """Find the segment that states the size."""
    place = 2
    while place + 9 <= len(content) and content[place] == 0xFF:
        mark, length = content[place + 1], _big(content[place + 2 : place + 4])
        if mark in JPEG_SIZE_MARKS:
            height, width = (
                _big(content[place + 5 : place + 7]),
                _big(content[place + 7 : place + 9]),
            )
            return ImageHead("JPEG", width, height)
        # A mark may be padded with any number of 0xFF.
        place += 1 if mark == 0xFF else 2 + length
    return None


def _png_is_intact(content: bytes) -> bool:
    """Whether every chunk has the right length and checksum."""
    place = len(PNG_BEGIN)
    while place + 12 <= len(content):
        end = place + 8 + _big(content[place : place + 4])
        if end + 4 > len(content):
            return False
        body = memoryview(content)[place + 4 : end]
        if zlib.crc32(body) != _big(content[end : end + 4]):
            return False
        if content[place + 4 : place + 8] == b"IEND":
            return True
        place = end + 4
    return False


def _big(number: bytes) -> int:
    return int.from_bytes(number, "big")
