"""Faults of images, put into rendered ones file by file."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from maci2.sensors.stereo import Image

Change = Callable[[Image, int], Image]
"""Takes an image and its number."""


def rewrite(mav0: Path, cameras: tuple[int, ...], change: Change) -> None:
    for camera in cameras:
        for number, path in enumerate(sorted((mav0 / f"cam{camera}" / "data").glob("*.png"))):
            image = change(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE), number)
            path.write_bytes(cv2.imencode(".png", image)[1].tobytes())


def scaled(image: Image, factor: float) -> Image:
    return np.clip(factor * image, 0, 255).astype(np.uint8)


def noise(image: Image, number: int, grey: float) -> Image:
    """A covered lens: the sensor's noise about one grey level, brighter towards one side."""
    leak = np.linspace(0.0, 4.0, image.shape[1])[None, :]
    rendered = np.random.default_rng(number).normal(grey, 1.5, image.shape) + leak
    return np.clip(rendered, 0, 255).astype(np.uint8)


def smeared(image: Image, length: int) -> Image:
    return np.asarray(cv2.blur(image, (length, 1)), np.uint8)


def held(mav0: Path, camera: int, hold: Callable[[int], int]) -> None:
    """Image number n becomes a copy of number hold(n)."""
    paths = sorted((mav0 / f"cam{camera}" / "data").glob("*.png"))
    contents = [path.read_bytes() for path in paths]
    for number, path in enumerate(paths):
        path.write_bytes(contents[min(max(hold(number), 0), len(paths) - 1)])


def exchanged(mav0: Path) -> None:
    """Images of left and right exchanged; calibration and timestamps stay."""
    for left in sorted((mav0 / "cam0" / "data").glob("*.png")):
        right = mav0 / "cam1" / "data" / left.name
        first, second = left.read_bytes(), right.read_bytes()
        left.write_bytes(second)
        right.write_bytes(first)


def one_for_both(mav0: Path) -> None:
    for left in sorted((mav0 / "cam0" / "data").glob("*.png")):
        (mav0 / "cam1" / "data" / left.name).write_bytes(left.read_bytes())


IMAGE_FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "lens cap on": (
        lambda mav0: rewrite(mav0, (1,), lambda image, n: noise(image, n, 3.0)),
        "cam1: images are black",
    ),
    "lens covered": (
        lambda mav0: rewrite(mav0, (0,), lambda image, n: noise(image, n, 90.0)),
        "cam0: images show nothing",
    ),
    "some images black": (
        lambda mav0: rewrite(mav0, (0,), lambda i, n: noise(i, n, 2.0) if n % 4 == 0 else i),
        "warn  cam0: images are black",
    ),
    "too dark": (
        lambda mav0: rewrite(mav0, (0, 1), lambda image, n: scaled(image, 0.2)),
        "cam0: images are too dark",
    ),
    "overexposed": (
        lambda mav0: rewrite(mav0, (1,), lambda image, n: scaled(image, 2.6)),
        "cam1: images are overexposed (saturated)",
    ),
    "flicker": (
        lambda mav0: rewrite(mav0, (0, 1), lambda image, n: scaled(image, 1.0 - 0.15 * (n % 2))),
        "cam0: brightness flickers",
    ),
    "left darker": (
        lambda mav0: rewrite(mav0, (0,), lambda image, n: scaled(image, 0.6)),
        "stereo: left and right differ in brightness: found the left images are 1.",
    ),
    "out of focus": (
        lambda mav0: rewrite(mav0, (1,), lambda i, n: np.asarray(cv2.GaussianBlur(i, (0, 0), 4))),
        "cam1: images are blurred",
    ),
    "motion blur": (
        lambda mav0: rewrite(mav0, (0, 1), lambda image, n: smeared(image, 21)),
        "cam0: images are smeared along the rows",
    ),
    "frozen": (lambda mav0: held(mav0, 1, lambda n: 0), "cam1: the image is frozen"),
    "images repeated": (
        lambda mav0: held(mav0, 0, lambda n: n - (n % 5 == 1)),
        "cam0: images are repeated",
    ),
    "one camera for both": (one_for_both, "stereo: left and right are one image"),
    "images swapped": (exchanged, "stereo: left and right images are swapped"),
    "right images late": (
        lambda mav0: held(mav0, 1, lambda n: n + 1),
        "stereo: left and right images are not synchronized",
    ),
    "image cut off": (
        lambda mav0: _cut_off(sorted((mav0 / "cam0" / "data").glob("*.png"))[0]),
        "warn  images: cam0: images cannot be used: found 1 of",
    ),
    "images missing": (
        lambda mav0: [path.unlink() for path in _left_files(mav0)[10:]],
        "ERROR  images: cam0: images cannot be used: found",
    ),
    "one image of another size": (
        lambda mav0: _shrink(_left_files(mav0)[7]),
        "warn  images: cam0: images cannot be used: found 1 of",
    ),
}
"""Name -> how to damage a folder and words that the first line must hold."""


def _left_files(mav0: Path) -> list[Path]:
    return sorted((mav0 / "cam0" / "data").glob("*.png"))


def _shrink(path: Path) -> None:
    half = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)[::2, ::2]
    path.write_bytes(cv2.imencode(".png", half)[1].tobytes())


def _cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:2000])
