"""Images of a simulated camera, with exact depth and flow beside them."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.geometry import se3_inv
from maci2.jit import kernel
from maci2.sensors.camera_model import directions, pixel_grid, project
from maci2.sensors.rig_types import Camera
from maci2.sensors.stereo import Image
from maci2.simulation.rendering.difficulty import Difficulty
from maci2.simulation.rendering.raycast import Picture, cast, empty_picture, smooth_edges
from maci2.simulation.rendering.scene import Scene
from maci2.types import Array

PARTS_PER_CORE = 4
"""Parts are not equally long to work on."""


def cores() -> int:
    """CPU cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_bands(work: Callable[[int, int], None], rows: int) -> None:
    """Call work(first, last) for parts of the rows until all are done.

    Threads run side by side only in numpy, OpenCV and compiled code that lets go of the
    interpreter's lock.
    """
    parts = min(PARTS_PER_CORE * cores(), rows)
    cuts = [rows * k // parts for k in range(parts + 1)]
    if cores() == 1:
        work(0, rows)
        return
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(work, cuts[:-1], cuts[1:]))


FULL_WELL = 8000.0
"""Electrons of a white pixel in a well-lit room: shot noise of 2.8 grey levels at white."""

BLUR_SAMPLES = 7
COARSE = 4
"""Pixels from one whose motion blur is computed to the next."""


@dataclass(frozen=True)
class Hits:
    """Ends of rays."""

    p_w: Array
    """(n, 3) in the world."""

    box: NDArray[np.int64]
    """(n,) which box was met; 0 is the room."""

    distance: Array
    """(n,) along the ray [m]."""


class View:
    """One camera looking into a scene."""

    def __init__(self, scene: Scene, camera: Camera, difficulty: Difficulty, seed: int):
        self.scene, self.camera, self.difficulty = scene, camera, difficulty
        width, height = camera.resolution
        self._rays = _rays(camera)
        rng = np.random.default_rng((seed, 77))
        self._pattern = difficulty.pattern_noise * rng.standard_normal((height, width))
        across = np.arccos(np.clip(self._rays[..., 2], -1.0, 1.0))
        self._falloff = 1.0 - difficulty.vignetting * (across / across.max()) ** 2

    def render(
        self, T_w_c: Array, t: float, gain: float, rng: np.random.Generator, T_w_c_next: Array
    ) -> Image:
        """The image at pose T_w_c and time t [s]; the camera is at `T_w_c_next` half of
        `shutter_s` later."""
        hard = self.difficulty
        picture = self._cast(self._rays, T_w_c, t, smooth=True)
        brightness = picture.brightness
        if hard.shutter_s > 0.0:
            flow = self._shutter_flow(picture.distance, T_w_c, T_w_c_next)
            if hard.readout_s > 0.0:
                brightness = rolled(brightness, hard.readout_s / hard.shutter_s * flow)
            if hard.exposure_s > 0.0:
                brightness = smeared(brightness, hard.exposure_s / hard.shutter_s * flow)
        if hard.lens_blur_px > 0.0:
            blurred = cv2.GaussianBlur(brightness, (0, 0), hard.lens_blur_px)
            brightness = np.asarray(blurred, np.float32)
        if hard.rain > 0.0:
            brightness = brightness + streaks(brightness.shape, hard.rain, rng)
        return self._expose(brightness, gain, rng)

    def look(self, T_w_c: Array, t: float, rays: Array) -> Hits:
        """Ends of single rays (n, 3), in the camera frame."""
        picture = self._cast(np.ascontiguousarray(rays[:, None]), T_w_c, t)
        p_c = rays * picture.distance
        p_w = p_c @ T_w_c[:3, :3].T + T_w_c[:3, 3]
        return Hits(p_w, (picture.surface[:, 0] // 6).astype(np.int64), picture.distance[:, 0])

    def carried(self, hits: Hits, t: float, T_w_c1: Array, t1: float) -> Array:
        """(n, 3) the same points of the scene in the camera frame at another pose and time."""
        moved = self.scene.centers_at(t1) - self.scene.centers_at(t)
        T_c1_w = se3_inv(T_w_c1)
        return (hits.p_w + moved[hits.box]) @ T_c1_w[:3, :3].T + T_c1_w[:3, 3]

    def _cast(self, rays: Array, T_w_c: Array, t: float, smooth: bool = False) -> Picture:
        """What rays (rows, columns, 3) meet."""
        pixel_angle = 1.0 / float(self.camera.intrinsics[:2].mean())
        picture = empty_picture(rays, pixel_angle, self.scene, T_w_c, t)
        in_bands(partial(cast, picture), len(picture.counts))
        if smooth:
            in_bands(partial(smooth_edges, picture), len(picture.counts))
        return picture

    def _shutter_flow(self, distance: Array, T_w_c: Array, T_w_c1: Array) -> NDArray[np.float32]:
        """Motion of every pixel from one pose to the other [px], from every fourth: only blur
        depends on it."""
        coarse = (slice(2, None, COARSE), slice(2, None, COARSE))
        rays = self._rays[coarse]
        p_c = (rays * distance[coarse][..., None]).reshape(-1, 3)
        T_c1_c = se3_inv(T_w_c1) @ T_w_c
        uv = project(self.camera, p_c)
        moved = project(self.camera, p_c @ T_c1_c[:3, :3].T + T_c1_c[:3, 3]) - uv
        flow = np.nan_to_num(moved).reshape(*rays.shape[:2], 2).astype(np.float32)
        return np.asarray(cv2.resize(flow, self.camera.resolution), np.float32)

    def _expose(
        self, brightness: NDArray[np.float32], gain: float, rng: np.random.Generator
    ) -> Image:
        """Light as grey levels: shot noise, read noise, the sensor's pattern, rounding.

        The camera's automatic gain keeps the picture as bright in dim light: only noise grows.
        """
        hard = self.difficulty
        noise = rng.standard_normal(brightness.shape, dtype=np.float32)
        image = np.empty(brightness.shape, np.uint8)

        def expose_band(first: int, last: int) -> None:
            band = slice(first, last)
            signal = 255.0 * gain * brightness[band] * self._falloff[band]
            shot = 255.0 * signal / (FULL_WELL * hard.light)
            std = np.sqrt(np.maximum(shot, 0.0) + hard.read_noise**2)
            noisy = signal + std * noise[band] + self._pattern[band]
            image[band] = np.clip(np.rint(noisy), 0, 255)

        in_bands(expose_band, len(image))
        return image


def streaks(shape: tuple[int, ...], mean: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Brightness (h, w) that drops before the camera add: `mean` streaks on average."""
    drops = np.zeros(shape, np.float32)
    height, width = shape
    for _ in range(int(rng.poisson(mean))):
        u, v = rng.uniform(0.0, width), rng.uniform(0.0, height)
        length, slant = rng.uniform(6.0, 40.0), rng.normal(0.0, 0.2)
        ends = [(int(u), int(v)), (int(u + slant * length), int(v + length))]
        cv2.line(drops, ends[0], ends[1], float(rng.uniform(0.1, 0.5)), int(rng.integers(1, 3)))
    return np.asarray(cv2.GaussianBlur(drops, (0, 0), 0.7), np.float32)


def _rays(camera: Camera) -> Array:
    """(h, w, 3) the direction of every pixel."""
    width, height = camera.resolution
    grid = pixel_grid(camera.resolution).reshape(height, width, 2)
    rays = np.empty((height, width, 3))

    def turn_band(first: int, last: int) -> None:
        band = directions(camera, grid[first:last].reshape(-1, 2))
        rays[first:last] = band.reshape(-1, width, 3)

    in_bands(turn_band, height)
    return rays


def rolled(image: NDArray[np.float32], flow: NDArray[np.float32]) -> NDArray[np.float32]:
    """The image with its rows exposed one after another, the first one `flow` (h, w, 2) before the
    middle one and the last one `flow` after it."""
    height, width = image.shape
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    share = np.linspace(-1.0, 1.0, height)[:, None]
    from_u = (columns - share * flow[..., 0]).astype(np.float32)
    from_v = (rows - share * flow[..., 1]).astype(np.float32)
    out = cv2.remap(image, from_u, from_v, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(out, np.float32)


def smeared(image: NDArray[np.float32], flow: NDArray[np.float32]) -> NDArray[np.float32]:
    """Mean along each pixel's motion, from minus to plus `flow` (h, w, 2)."""
    out = np.empty_like(image)
    in_bands(lambda first, last: _smear(image, flow, first, last, out), len(image))
    return out


@kernel(fastmath=True, nogil=True)
def _smear(
    image: NDArray[np.float32],
    flow: NDArray[np.float32],
    first: int,
    last: int,
    out: NDArray[np.float32],
) -> None:
    """The same, in rows from `first` to before `last`."""
    rows, columns = image.shape
    for v in range(first, last):
        for u in range(columns):
            du, dv = flow[v, u, 0], flow[v, u, 1]
            total = 0.0
            for k in range(BLUR_SAMPLES):
                s = 2.0 * k / (BLUR_SAMPLES - 1) - 1.0
                x = min(max(u + s * du, 0.0), columns - 1.001)
                y = min(max(v + s * dv, 0.0), rows - 1.001)
                i, j = int(x), int(y)
                a, b = x - i, y - j
                total += (1.0 - b) * ((1.0 - a) * image[j, i] + a * image[j, i + 1]) + b * (
                    (1.0 - a) * image[j + 1, i] + a * image[j + 1, i + 1]
                )
            out[v, u] = total / BLUR_SAMPLES
