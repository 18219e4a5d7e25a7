"""Images of ROS messages as grey images of 8 bits."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.errors import CalibrationError, DatasetError

Image = NDArray[np.uint8]

PNG_BEGIN = b"\x89PNG"
PNG_END = b"IEND\xaeB`\x82"
JPEG_BEGIN = b"\xff\xd8"
JPEG_END = b"\xff\xd9"


@dataclass(frozen=True)
class _Layout:
    """How an encoding stores a pixel, and OpenCV's way from there to grey."""

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
    """An Image or CompressedImage in grey; of 16 bits the upper 8 are kept. `place` says which
    message it is."""
    if hasattr(content, "encoding"):
        return _from_raw(content, place)
    return _from_compressed(content, place)


def require_size(image: Image, resolution: tuple[int, int], place: str) -> None:
    """Raise unless the image has the size that the calibration is made for."""
    height, width = image.shape
    if (width, height) != tuple(resolution):
        raise CalibrationError(
            f"{place}: the image is {width}x{height}, the calibration is for "
            f"{resolution[0]}x{resolution[1]}; it belongs to another rig or to another image size. "
            "Use the calibration of these images."
        )


def _from_raw(content: Any, place: str) -> Image:
    layout = _LAYOUTS.get(content.encoding)
    if layout is None:
        raise DatasetError(
            f"{place}: encoding '{content.encoding}' is not known; known are "
            f"{', '.join(_LAYOUTS)}. Convert the images, or choose another topic with --topics."
        )
    depth = np.dtype(layout.depth)
    height, width, step = int(content.height), int(content.width), int(content.step)
    row = width * layout.channels * depth.itemsize
    if height < 1 or width < 1 or step < row or len(content.data) < height * step:
        raise DatasetError(
            f"{place}: {len(content.data)} bytes in rows of {step} cannot hold {width}x{height} "
            f"pixels of {content.encoding}, needed {height} rows of at least {row}; the message is "
            "damaged."
        )
    rows = np.frombuffer(content.data, np.uint8, height * step).reshape(height, step)[:, :row]
    if content.is_bigendian and depth.itemsize > 1:
        depth = depth.newbyteorder(">")
    pixels = np.ascontiguousarray(rows).view(depth).reshape(height, width, layout.channels)
    return _to_grey(pixels, layout.to_grey)


def _from_compressed(content: Any, place: str) -> Image:
    data = bytes(content.data)
    cut = (data.startswith(PNG_BEGIN) and not data.endswith(PNG_END)) or (
        data.startswith(JPEG_BEGIN) and JPEG_END not in data[-64:]
    )
    image = None if cut else _decode(data)
    if image is None:
        raise DatasetError(
            f"{place}: {len(data)} bytes of format '{content.format}' that are no complete image; "
            "the message is damaged, or not JPEG or PNG."
        )
    # A mosaic stays one under compression: "bayer_rggb8; png compressed".
    layout = _LAYOUTS.get(content.format.partition(";")[0].strip())
    mosaic = layout is not None and layout.channels == 1 and image.ndim == 2
    if mosaic and layout is not None:
        return _to_grey(image[:, :, None], layout.to_grey)
    if image.ndim == 2:
        return _to_grey(image[:, :, None], None)
    return _to_grey(image, cv2.COLOR_BGR2GRAY if image.shape[2] == 3 else cv2.COLOR_BGRA2GRAY)


def _decode(data: bytes) -> NDArray | None:
    try:
        return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        return None


def _to_grey(pixels: NDArray, code: int | None) -> Image:
    """(h, w, channels) of 8 or 16 bits -> (h, w) of 8."""
    if pixels.dtype.itemsize == 2:
        pixels = (pixels >> 8).astype(np.uint8)
    if code is None:
        return np.ascontiguousarray(pixels[:, :, 0])
    return np.asarray(cv2.cvtColor(pixels, code), dtype=np.uint8)
