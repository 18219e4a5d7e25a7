"""`maci2 demo`: rendering, initialization, calibration and consistency without data."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from maci2.errors import OptionError
from maci2.files import write_atomically, write_json
from maci2.jit import warm_up
from maci2.metrics.nees import Sample, equal_bins, mean_nees, study_consistency
from maci2.metrics.window_errors import state_errors
from maci2.pipeline.offline import (
    CalibratedRecording,
    InitializedRecording,
    calibrate_window,
    calibration_keyframes,
    initialize_window,
)
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import one_window, open_inputs
from maci2.report.charts import binned, row_of, y_equals_x
from maci2.report.drawings import latest_tracks, overview
from maci2.report.estimate_pages import demo_page
from maci2.rigs import write_camchain
from maci2.simulation import SimulationConfig, simulate
from maci2.simulation.rendering.images import RenderConfig, render_recording

RENDERED = SimulationConfig(kind="handheld", duration_s=8.6, camera_rate_hz=10.0)
"""Rendering takes most of the time: as few images as a calibration needs."""

ROOM = "room_"
"""Prefix of the folders of rendered images, before the seed."""

CALIBRATION_S = 8.0
STUDY_WINDOWS = 240
BINS = 6


@dataclass(frozen=True)
class Demo:
    """Results of the demo."""

    folder: Path
    initialization: InitializedRecording
    calibration: CalibratedRecording
    samples: list[Sample]
    nees: dict[str, float]


def run_demo(
    folder: Path, seed: int, on_step: Callable[[str], None] = lambda _: None, command: str = ""
) -> Demo:
    """Render stereo images, initialize and calibrate on them, check the uncertainties, and write
    all results into `folder`. The report quotes `command`."""
    if not _may_write(folder):
        raise OptionError(f"{folder}: is not empty and not a demo's; choose another -o.")
    room = folder / f"{ROOM}{seed}"
    if not room.exists():
        config = RenderConfig(rate_hz=RENDERED.camera_rate_hz, seed=seed)
        render_recording(
            simulate(replace(RENDERED, seed=seed)),
            room,
            config,
            on_pair=lambda done, total: on_step(f"rendering stereo pair {done} of {total}"),
        )
    on_step("following points through the images")
    options = RunOptions(vision="images", seed=seed)
    inputs = open_inputs(room, options)
    images_ns = inputs.candidates_ns()
    start = one_window(images_ns, options.window_s, options.keyframes, 0.5)
    keyframes = calibration_keyframes(CALIBRATION_S)
    whole = one_window(images_ns, CALIBRATION_S, keyframes, 0.3)
    for window in (start, whole):
        # Remembered, so that only the solver is left to do.
        inputs.vision.motion(window.stamps_ns, window.index)
    warm_up("initialize", "calibrate")
    on_step(f"initializing on {options.window_s:g} s of images")
    initialization = initialize_window(inputs, start, options)
    state, posterior = initialization.state, initialization.posterior
    errors = state_errors(inputs, inputs.truth, state, posterior)
    initialization = replace(initialization, errors=errors)
    on_step(f"calibrating on {CALIBRATION_S:g} s of images, with no guess of the extrinsics")
    calibration = calibrate_window(inputs, whole, options)
    on_step(f"comparing sigma with actual error on {STUDY_WINDOWS} windows")
    samples = study_consistency(STUDY_WINDOWS, seed)
    demo = Demo(folder, initialization, calibration, samples, mean_nees(samples))
    _write(demo, command)
    return demo


def _may_write(folder: Path) -> bool:
    """True for a folder that is new or was written by a demo, even an interrupted one."""
    if not folder.exists() or (folder / "report.html").exists():
        return True
    return all(path.name.lstrip(".").startswith(ROOM) for path in folder.iterdir())


def consistency_charts(samples: list[Sample]) -> list[str]:
    """Predicted sigma and actual error of gravity and of velocity, one SVG each."""
    gravity_std = np.array([sample.gravity_std_deg for sample in samples])
    gravity = np.array([sample.errors.gravity_deg for sample in samples])
    velocity_std = np.array([sample.velocity_std for sample in samples])
    velocity = np.array([sample.errors.velocity_rmse for sample in samples])
    return [
        y_equals_x([binned("gravity direction", equal_bins(gravity_std, gravity, BINS))], "deg"),
        y_equals_x([binned("velocity", equal_bins(velocity_std, velocity, BINS))], "m/s"),
    ]


def demo_record(demo: Demo) -> dict[str, Any]:
    """Record that `maci2 demo --json` writes."""
    return {
        "initialization": demo.initialization.to_dict(),
        "calibration": demo.calibration.to_dict(),
        "windows": len(demo.samples),
        "nees": demo.nees,
        "report": str(demo.folder / "report.html"),
    }


def _write(demo: Demo, command: str) -> None:
    record = demo_record(demo)
    write_json(demo.folder / "init.json", record["initialization"])
    write_json(demo.folder / "calibration.json", record["calibration"])
    inputs, rig = demo.calibration.inputs, demo.calibration.rig
    if rig is not None:
        write_camchain(demo.folder / "camchain-imucam.yaml", rig)
    charts = consistency_charts(demo.samples)
    write_atomically(demo.folder / "consistency.svg", row_of(charts))
    html = demo_page(
        demo.initialization, demo.calibration, demo.nees, len(demo.samples), charts, command
    )
    write_atomically(demo.folder / "report.html", html)
    odometry = inputs.vision.odometry
    assert odometry is not None
    tracked = latest_tracks(odometry, int(demo.initialization.window.stamps_ns[-1]))
    picture = overview(tracked, demo.initialization, demo.calibration)
    write_atomically(demo.folder / "overview.svg", picture)
