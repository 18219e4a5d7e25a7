"""Images from bytes: sizes from their first bytes, faults before anything is decoded."""

import cv2
import numpy as np
import pytest

from maci2.datasets.images import decode_image, image_fault, image_size
from maci2.errors import ImageError

PIXELS = np.random.default_rng(3).integers(0, 255, (20, 30), dtype=np.uint8)
ENCODED = {
    suffix: cv2.imencode(suffix, PIXELS)[1].tobytes() for suffix in (".png", ".jpg", ".bmp", ".pgm")
}


@pytest.mark.parametrize("suffix", ENCODED)
def test_kind_and_size_are_read_from_the_first_bytes(suffix):
    content = ENCODED[suffix]
    assert image_size(content) == (30, 20)
    assert image_fault(content, content[-64:], len(content)) == ""
    shape = decode_image(content, "x").shape
    assert shape[:2] == (20, 30)


def test_a_jpeg_with_a_preview_before_its_size_is_understood():
    preview = b"\xff\xe1" + (4002).to_bytes(2, "big") + bytes(4000)
    content = ENCODED[".jpg"][:2] + preview + ENCODED[".jpg"][2:]
    assert image_size(content)[0] == 30
    assert decode_image(content, "x").shape == (20, 30)


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
@pytest.mark.parametrize("kept", [1, 10, 60, 0.5, 0.95])
def test_a_truncated_image_is_refused(suffix, kept):
    content = ENCODED[suffix]
    short = content[: kept if isinstance(kept, int) else int(kept * len(content))]
    with pytest.raises(ImageError, match=r"x: is (truncated|not a readable image)"):
        decode_image(short, "x")


def test_one_flipped_bit_of_a_png_is_noticed():
    content = bytearray(ENCODED[".png"])
    content[len(content) // 2] ^= 4
    with pytest.raises(ImageError, match="is damaged: the checksums"):
        decode_image(bytes(content), "x")


@pytest.mark.parametrize("suffix", ENCODED)
def test_an_image_that_states_gigabytes_is_refused_before_memory_is_taken(suffix):
    content = ENCODED[suffix]
    places = {".png": (16, "big"), ".jpg": (0, "big"), ".bmp": (18, "little"), ".pgm": (0, "big")}
    place, order = places[suffix]
    huge = content[:place] + (60_000).to_bytes(4, order) * 2 + content[place + 8 :]
    if suffix == ".jpg":
        place = content.index(b"\xff\xc0") + 5
        huge = content[:place] + b"\xea\x60\xea\x60" + content[place + 4 :]
    if suffix == ".pgm":
        huge = content.replace(b"30 20", b"60000 60000")
    with pytest.raises(ImageError, match="it states 60000x60000 pixels"):
        decode_image(huge, "x")


@pytest.mark.parametrize("content", [b"", b"x", b"GIF89a" + bytes(50), b"II*\0" + bytes(50)])
def test_what_is_no_image_of_a_known_kind_is_refused(content):
    with pytest.raises(ImageError, match=r"truncated|not PNG, JPEG, BMP or PNM"):
        decode_image(content, "x")
