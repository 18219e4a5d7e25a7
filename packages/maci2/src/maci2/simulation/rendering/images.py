"""Recordings with images, rendered along a simulated motion or a recording's ground truth."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import cv2
import numpy as np

from maci2.datasets.euroc import write_euroc
from maci2.errors import DatasetError, OptionError
from maci2.files import whole_folder
from maci2.sensors.interpolation import truth_at
from maci2.sensors.stereo import Image
from maci2.sensors.types import GroundTruth, Recording
from maci2.simulation.rendering.difficulty import EASY, Difficulty, exposure_gain
from maci2.simulation.rendering.scene import Scene, random_scene, street_scene, with_cover
from maci2.simulation.rendering.view import View
from maci2.types import NS, Array, Stamps

MAX_TRUTH_GAP_S = 0.06
BLACKOUT_LEVEL = 2.0
"""[grey levels] Mean of a frame that is blacked out; noise stays."""


SceneKind = Literal["room", "street"]


@dataclass(frozen=True)
class RenderConfig:
    """Choices of rendering."""

    difficulty: Difficulty = EASY
    seed: int = 0
    rate_hz: float = 20.0
    """Images taken from those that the recording has timestamps for."""

    start_s: float = 0.0
    duration_s: float = np.inf
    """Part of the recording to render, from its first usable image."""

    scene: SceneKind = "room"
    """Kind of scene: a room around the path, or a street along it."""

    def __post_init__(self) -> None:
        if self.scene not in get_args(SceneKind):
            raise OptionError(
                f"scene is '{self.scene}'; choose one of {', '.join(get_args(SceneKind))}."
            )


def render_recording(
    recording: Recording,
    folder: Path,
    config: RenderConfig,
    truth_name: str = "",
    on_pair: Callable[[int, int], None] = lambda done, total: None,
) -> Recording:
    """Write the recording with images of a made-up scene along its own truth, in EuRoC layout.

    IMU and truth are the recording's own, cut to the part that is rendered with a second around it.
    The folder appears when the last image is rendered.
    """
    truth = recording.truth((truth_name,) if truth_name else ())
    if truth is None or len(recording.rig.cameras) < 2:
        raise DatasetError(
            f"{recording.path}: rendering needs a ground truth and two calibrated cameras."
        )
    stamps_ns = stamps_to_render(recording, truth, config)
    cut = _cut(recording, truth, stamps_ns)
    with whole_folder(folder) as unfinished, ThreadPoolExecutor(2) as writers:
        write_euroc(cut, unfinished)
        cameras = [unfinished / "mav0" / f"cam{index}" / "data" for index in range(2)]
        for camera in cameras:
            camera.mkdir(parents=True, exist_ok=True)
        # One pair is written while the next is rendered.
        being_written: Iterator[None] = iter(())
        for done, pair in enumerate(rendered_pairs(cut, config)):
            list(being_written)
            files = [camera / f"{int(stamps_ns[done])}.png" for camera in cameras]
            being_written = writers.map(write_image, files, pair)
            on_pair(done + 1, len(stamps_ns))
        list(being_written)
    return replace(cut, path=folder)


def scene_for(recording: Recording, config: RenderConfig) -> tuple[Scene, list[View]]:
    """The scene around a recording's truth, and its cameras looking into it."""
    truth = next(iter(recording.truths.values()))
    thinned = slice(None, None, max(len(truth) // 200, 1))
    path_w = truth.Ts_w_b[thinned, :3, 3]
    times = (truth.stamps_ns - recording.camera_stamps_ns[0][0]) / NS
    rng = np.random.default_rng((config.seed, 1))
    if config.scene == "street":
        scene = street_scene(times[thinned], path_w, config.difficulty, rng)
    else:
        scene = random_scene(path_w, config.difficulty, rng)
    if config.difficulty.covered > 0.0 and config.scene == "room":
        Ts_w_c = truth.Ts_w_b @ recording.rig.cameras[0].T_b_c
        scene = with_cover(scene, times, Ts_w_c, config.difficulty.covered)
    views = [
        View(scene, camera, config.difficulty, 2 * config.seed + index)
        for index, camera in enumerate(recording.rig.cameras[:2])
    ]
    return scene, views


def rendered_pairs(recording: Recording, config: RenderConfig) -> Iterator[list[Image]]:
    """Left and right image of every timestamp."""
    hard = config.difficulty
    truth = next(iter(recording.truths.values()))
    stamps_ns = recording.camera_stamps_ns[0]
    scene, views = scene_for(recording, config)
    later_ns = np.minimum(stamps_ns + round(0.5 * hard.shutter_s * NS), truth.stamps_ns[-1])
    Ts_w_b = truth_at(truth, stamps_ns, MAX_TRUTH_GAP_S).Ts_w_b
    Ts_later = truth_at(truth, later_ns, MAX_TRUTH_GAP_S).Ts_w_b
    rng = np.random.default_rng((config.seed, 2))
    black = rng.random(len(stamps_ns)) < hard.blackout
    for k, stamp_ns in enumerate(stamps_ns):
        gain = exposure_gain(hard, rng)
        gain = BLACKOUT_LEVEL / 255.0 if black[k] else gain
        t = (int(stamp_ns) - int(stamps_ns[0])) / NS
        pair = []
        for view in views:
            T_w_c, T_later = (
                _in_scene(T_w_b @ view.camera.T_b_c, scene) for T_w_b in (Ts_w_b[k], Ts_later[k])
            )
            pair.append(view.render(T_w_c, t, gain, rng, T_later))
        yield pair


def _in_scene(T_w_c: Array, scene: Scene) -> Array:
    """A camera's pose in metres of the scene."""
    T = T_w_c.copy()
    T[:3, 3] /= scene.scale
    return T


def write_image(path: Path, image: Image) -> None:
    """A PNG. Noise does not repeat itself: to look for repetitions takes time and saves nothing."""
    how = [cv2.IMWRITE_PNG_COMPRESSION, 1]
    how += [cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_HUFFMAN_ONLY]
    path.write_bytes(cv2.imencode(".png", image, how)[1].tobytes())


def stamps_to_render(recording: Recording, truth: GroundTruth, config: RenderConfig) -> Stamps:
    """Image timestamps to render: inside IMU and truth, thinned to the rate asked for."""
    stamps = recording.camera_stamps_ns[0]
    first = max(int(truth.stamps_ns[0]), int(recording.imu.stamps_ns[0]))
    last = min(int(truth.stamps_ns[-1]), int(recording.imu.stamps_ns[-1]))
    stamps = stamps[(stamps >= first) & (stamps <= last)]
    if len(stamps) < 2:
        raise DatasetError(f"{recording.path}: images, IMU and truth have no common time.")
    start = int(stamps[0]) + round(config.start_s * NS)
    end = start + config.duration_s * NS
    stamps = stamps[(stamps >= start) & (stamps <= end)]
    if len(stamps) < 2:
        raise DatasetError(
            f"{recording.path}: no images from {config.start_s:g} s on for {config.duration_s:g} s."
        )
    period = float(np.median(np.diff(stamps))) / NS
    return stamps[:: max(round(1.0 / (config.rate_hz * period)), 1)]


def _cut(recording: Recording, truth: GroundTruth, stamps_ns: Stamps) -> Recording:
    """The recording around these images, with one truth and two cameras."""
    low, high = int(stamps_ns[0]) - NS, int(stamps_ns[-1]) + NS
    imu = recording.imu
    inside = (imu.stamps_ns >= low) & (imu.stamps_ns <= high)
    known = (truth.stamps_ns >= low) & (truth.stamps_ns <= high)
    samples = {name: getattr(imu, name)[inside] for name in ("stamps_ns", "gyro", "acc")}
    return replace(
        recording,
        imu=replace(imu, **samples),
        rig=replace(recording.rig, cameras=recording.rig.cameras[:2], exact=True),
        camera_stamps_ns=(stamps_ns, stamps_ns.copy()),
        truths={"state_groundtruth_estimate0": truth.part(known)},
    )
