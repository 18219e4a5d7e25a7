"""Images of ROS messages as 8-bit grey images."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.datasets.image_decoding import (
    HEAD_BYTES,
    MAX_PIXELS,
    TAIL_BYTES,
    decode_image,
    image_fault,
    image_head,
    upper_8_bits,
    wrong_size,
)
from maci2.errors import ImageError

Image = NDArray[np.uint8]


@dataclass(frozen=True)
class _Layout:
    """Pixel layout of an encoding, and OpenCV's conversion to grey."""

    channels: int
    depth: type
    to_grey: int | None


_BAYER = {
    "rggb": cv2.COLOR_BayerRGGB2GRAY,
    "bggr": cv2.COLOR_BayerBGGR2GRAY,
    "gbrg": cv2.COLOR_BayerGBRG2GRAY,
    "grbg": cv2.COLOR_BayerGRBG2GRAY,
}
_LAYOUTS = {
    "mono8": _Layout(1, np.uint8, None),
    "8UC1": _Layout(1, np.uint8, None),
    "mono16": _Layout(1, np.uint16, None),
    "16UC1": _Layout(1, np.uint16, None),
    "bgr8": _Layout(3, np.uint8, cv2.COLOR_BGR2GRAY),
    "rgb8": _Layout(3, np.uint8, cv2.COLOR_RGB2GRAY),
    "bgra8": _Layout(4, np.uint8, cv2.COLOR_BGRA2GRAY),
    "rgba8": _Layout(4, np.uint8, cv2.COLOR_RGBA2GRAY),
    "yuv422": _Layout(2, np.uint8, cv2.COLOR_YUV2GRAY_UYVY),
    "yuv422_yuy2": _Layout(2, np.uint8, cv2.COLOR_YUV2GRAY_YUY2),
    **{f"bayer_{name}8": _Layout(1, np.uint8, code) for name, code in _BAYER.items()},
    **{f"bayer_{name}16": _Layout(1, np.uint16, code) for name, code in _BAYER.items()},
}


def grey_image(content: Any, place: str) -> Image:
    """Decode an Image or CompressedImage to 8-bit grey; `place` names the message."""
    read = _from_raw if hasattr(content, "encoding") else _from_compressed
    try:
        return read(content, place)
    except cv2.error as error:
        raise ImageError(f"{place}: cannot be made grey ({error.err}).") from None


def require_size(image: Image, resolution: tuple[int, int], place: str) -> None:
    """Raise unless the image has the calibrated size."""
    height, width = image.shape
    if (width, height) != tuple(resolution):
        raise ImageError(f"{place}: {wrong_size(width, height, resolution)}")


def message_fault(content: Any, resolution: tuple[int, int] | None) -> str:
    """Fault of an image message, found without decoding it; empty if there is none. Without
    `resolution`, any size is accepted."""
    if hasattr(content, "encoding"):
        fault, size = _raw_fault(content), (int(content.width), int(content.height))
    else:
        data = content.data
        first = bytes(data[:HEAD_BYTES])
        fault = image_fault(first, bytes(data[-TAIL_BYTES:]), len(data))
        head = image_head(first)
        size = (head.width, head.height) if head is not None else (0, 0)
        fault = f"{fault}; the message is damaged" if fault else ""
    if not fault and resolution is not None and size != tuple(resolution):
        return wrong_size(*size, resolution)
    return fault


def _raw_fault(content: Any) -> str:
    layout = _LAYOUTS.get(content.encoding)
    if layout is None:
        return (
            f"encoding '{content.encoding}' is not known; known are {', '.join(_LAYOUTS)}. Convert "
            "the images, or choose another topic with --topics."
        )
    height, width, step = int(content.height), int(content.width), int(content.step)
    row = width * layout.channels * np.dtype(layout.depth).itemsize
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
    layout = _LAYOUTS[content.encoding]
    depth = np.dtype(layout.depth)
    height, width, step = int(content.height), int(content.width), int(content.step)
    row = width * layout.channels * depth.itemsize
    rows = np.frombuffer(content.data, np.uint8, height * step).reshape(height, step)[:, :row]
    if content.is_bigendian and depth.itemsize > 1:
        depth = depth.newbyteorder(">")
    pixels = np.ascontiguousarray(rows).view(depth).reshape(height, width, layout.channels)
    return _to_grey(pixels, layout.to_grey)


def _from_compressed(content: Any, place: str) -> Image:
    image = decode_image(bytes(content.data), f"{place}, format '{content.format}'")
    # A mosaic stays one under compression: "bayer_rggb8; png compressed".
    layout = _LAYOUTS.get(content.format.partition(";")[0].strip())
    mosaic = layout is not None and layout.channels == 1 and image.ndim == 2
    if mosaic and layout is not None:
        return _to_grey(image[:, :, None], layout.to_grey)
    if image.ndim == 2:
        return _to_grey(image[:, :, None], None)
    return _to_grey(image, cv2.COLOR_BGR2GRAY if image.shape[2] == 3 else cv2.COLOR_BGRA2GRAY)


def _to_grey(pixels: NDArray, code: int | None) -> Image:
    """(h, w, channels) of 8 or 16 bits -> (h, w) of 8."""
    pixels = upper_8_bits(pixels)
    if code is None:
        return np.ascontiguousarray(pixels[:, :, 0])
    return np.asarray(cv2.cvtColor(pixels, code), dtype=np.uint8)
