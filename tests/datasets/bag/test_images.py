"""Encodings of ROS images, against grey values worked out by hand."""

from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from bag_files import BagFile
from maci2.datasets.images import grey_image, require_size
from maci2.errors import DatasetError, ImageError

# Grey of pure red, green and blue (ITU-R BT.601), rounded.
RED, GREEN, BLUE = 76, 150, 29


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    return BagFile(tmp_path_factory.mktemp("bag") / "x.bag", "ros1")


def grey(bag, pixels, encoding, **how):
    return grey_image(bag.image("/cam", 1, pixels, encoding, **how).content, "x.bag, /cam")


def flat(*values):
    return np.broadcast_to(np.array(values, np.uint8), (6, 8, len(values)))


def test_mono8_is_unchanged_and_row_padding_is_skipped(bag):
    pixels = np.arange(48, dtype=np.uint8).reshape(6, 8)
    np.testing.assert_array_equal(grey(bag, pixels, "mono8"), pixels)
    np.testing.assert_array_equal(grey(bag, pixels, "8UC1", padding=5), pixels)


@pytest.mark.parametrize(("order", "bigendian"), [("<u2", 0), (">u2", 1)])
def test_of_mono16_the_upper_8_bits_are_kept_in_both_byte_orders(bag, order, bigendian):
    pixels = (np.arange(48).reshape(6, 8) * 1000).astype(order)
    found = grey(bag, pixels, "mono16", bigendian=bigendian)
    np.testing.assert_array_equal(found, np.arange(48).reshape(6, 8) * 1000 // 256)


@pytest.mark.parametrize(
    ("encoding", "pixel", "expected"),
    [
        ("bgr8", (0, 0, 255), RED),
        ("bgr8", (255, 0, 0), BLUE),
        ("rgb8", (255, 0, 0), RED),
        ("rgb8", (0, 0, 255), BLUE),
        ("rgba8", (0, 255, 0, 9), GREEN),
        ("bgra8", (255, 0, 0, 9), BLUE),
        ("yuv422", (128, 200), 200),
        ("yuv422_yuy2", (200, 128), 200),
    ],
)
def test_colours_become_their_grey(bag, encoding, pixel, expected):
    found = grey(bag, flat(*pixel), encoding)
    assert found.shape == (6, 8)
    np.testing.assert_allclose(found, expected, atol=1)


def mosaic(pattern: str, colour: str, kind=np.uint8) -> np.ndarray:
    """What a sensor with this pattern of its upper left 2x2 pixels reads from one pure colour."""
    tile = np.array([letter == colour for letter in pattern]).reshape(2, 2)
    return (np.tile(tile, (6, 6)) * np.iinfo(kind).max).astype(kind)


@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
@pytest.mark.parametrize(("colour", "expected"), [("r", RED), ("g", GREEN), ("b", BLUE)])
def test_a_mosaic_is_read_by_the_order_of_its_first_pixels(bag, pattern, colour, expected):
    eight = grey(bag, mosaic(pattern, colour), f"bayer_{pattern}8")
    sixteen = grey(bag, mosaic(pattern, colour, np.uint16), f"bayer_{pattern}16")
    # Borders are extrapolated.
    np.testing.assert_allclose(eight[2:-2, 2:-2], expected, atol=2)
    np.testing.assert_array_equal(sixteen, eight)


def compressed(image, suffix, form):
    data = cv2.imencode(suffix, image)[1]
    return SimpleNamespace(format=form, data=data)


def test_compressed_images_are_decoded():
    ramp = np.tile(np.arange(0, 240, 4, dtype=np.uint8), (40, 1))
    found = grey_image(compressed(ramp, ".png", "mono8; png compressed "), "x")
    np.testing.assert_array_equal(found, ramp)
    found = grey_image(compressed(ramp, ".jpg", "jpeg"), "x")
    assert np.abs(found.astype(int) - ramp).max() < 6
    blue = np.ascontiguousarray(flat(255, 0, 0))
    found = grey_image(compressed(blue, ".png", "bgr8; png compressed bgr8"), "x")
    np.testing.assert_allclose(found, BLUE, atol=1)


def test_a_compressed_mosaic_is_still_one():
    found = grey_image(compressed(mosaic("rggb", "r"), ".png", "bayer_rggb8; png compressed"), "x")
    np.testing.assert_allclose(found[2:-2, 2:-2], RED, atol=2)


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
def test_a_truncated_image_is_refused(suffix, share):
    image = np.random.default_rng(0).integers(0, 255, (40, 60), dtype=np.uint8)
    whole = compressed(image, suffix, suffix)
    whole.data = whole.data[: int(share * len(whole.data))]
    with pytest.raises(DatasetError, match=r"bag, /cam, format .*: is truncated: "):
        grey_image(whole, "bag, /cam")


def test_an_image_shorter_than_it_says_is_refused(bag):
    content = bag.image("/cam", 1, np.zeros((6, 8), np.uint8)).content
    short = SimpleNamespace(**{**vars(content), "height": 7, "encoding": "mono8"})
    with pytest.raises(DatasetError, match="48 bytes in rows of 8 cannot hold 8x7 pixels"):
        grey_image(short, "x")


def test_another_size_than_the_calibrations_is_named():
    with pytest.raises(ImageError, match="the image is 8x6, the calibration is for 6x8"):
        require_size(np.zeros((6, 8), np.uint8), (6, 8), "x")
