"""The whole product without data: what `maci2 demo` runs and writes."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from maci2 import __version__
from maci2.errors import OptionError
from maci2.estimation import CalibrationResult
from maci2.evaluation.consistency import Sample, equal_bins, mean_nees, study_consistency
from maci2.evaluation.figures import Panel, y_equals_x
from maci2.evaluation.inputs import Inputs, recalibrated_rig
from maci2.evaluation.options import RunOptions, VisionSource
from maci2.evaluation.results_json import calibration_json, initialization_json
from maci2.evaluation.run import (
    Initialized,
    calibrate_once,
    calibration_keyframes,
    initialize_once,
)
from maci2.files import write_atomically
from maci2.sensors import SimulationConfig, simulate, write_camchain, write_euroc
from maci2.sensors.rendering import RenderConfig, render_recording

IMAGES = VisionSource("images", frame="rectified")
DRAWN = SimulationConfig(kind="drone", duration_s=3.5, camera_rate_hz=10.0)
"""Drawing is what takes time: as many images as an initialization needs."""

MOTION = VisionSource("truth", std=(0.05, 0.003))
CALIBRATION_S = 20.0
STUDY_WINDOWS = 240
BINS = 6


@dataclass(frozen=True)
class Demo:
    """Everything the demo found."""

    folder: Path
    initialized: Initialized
    calibration_inputs: Inputs
    calibration: CalibrationResult
    samples: list[Sample]
    nees: dict[str, float]


def run_demo(folder: Path, seed: int, on_step: Callable[[str], None] = lambda _: None) -> Demo:
    """Initialize on drawn stereo images, calibrate on simulated camera motion, check the
    uncertainties; write it all into `folder`."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "report.html").exists():
        raise OptionError(f"{folder}: is not empty and not a demo's; choose another -o.")
    images, motion = folder / f"images_{seed}", folder / f"motion_{seed}"
    if not images.exists():
        render_recording(
            simulate(replace(DRAWN, seed=seed)),
            images,
            RenderConfig(rate_hz=DRAWN.camera_rate_hz, seed=seed),
            on_pair=lambda done, total: on_step(f"drawing stereo pair {done} of {total}"),
        )
    if not motion.exists():
        write_euroc(simulate(SimulationConfig(duration_s=25.0, seed=seed)), motion)
    on_step("initializing on 2.5 s of images")
    _, initialized = initialize_once(images, RunOptions(IMAGES, start_s=0.5, seed=seed))
    on_step(f"calibrating on {CALIBRATION_S:g} s, with no guess of the extrinsics")
    options = RunOptions(
        MOTION,
        keyframes=calibration_keyframes(CALIBRATION_S),
        window_s=CALIBRATION_S,
        start_s=1.0,
        seed=seed,
    )
    inputs, calibration = calibrate_once(motion, options)
    on_step(f"comparing sigma with actual error on {STUDY_WINDOWS} windows")
    samples = study_consistency(STUDY_WINDOWS, seed)
    demo = Demo(folder, initialized, inputs, calibration, samples, mean_nees(samples))
    _write(demo)
    return demo


def consistency_figure(samples: list[Sample]) -> str:
    """SVG: predicted sigma against actual error, gravity and velocity."""
    gravity_std = np.array([sample.gravity_std_deg for sample in samples])
    gravity = np.array([sample.errors.gravity_deg for sample in samples])
    velocity_std = np.array([sample.velocity_std for sample in samples])
    velocity = np.array([sample.errors.velocity_rmse for sample in samples])
    return y_equals_x(
        [
            Panel("gravity direction", "deg", equal_bins(gravity_std, gravity, BINS)),
            Panel("velocity", "m/s", equal_bins(velocity_std, velocity, BINS)),
        ]
    )


def _write(demo: Demo) -> None:
    init_record = initialization_json(demo.initialized)
    calibration_record = calibration_json(demo.calibration_inputs, demo.calibration)
    write_atomically(demo.folder / "init.json", json.dumps(init_record, indent=2) + "\n")
    write_atomically(
        demo.folder / "calibration.json", json.dumps(calibration_record, indent=2) + "\n"
    )
    if demo.calibration.state is not None:
        rig = recalibrated_rig(demo.calibration_inputs, demo.calibration.state.T_b_c)
        write_camchain(demo.folder / "camchain-imucam.yaml", rig)
    figure = consistency_figure(demo.samples)
    write_atomically(demo.folder / "consistency.svg", figure)
    write_atomically(
        demo.folder / "report.html", _page(init_record, calibration_record, demo.nees, figure)
    )


def _page(
    init: dict[str, Any], calibration: dict[str, Any], nees: dict[str, float], figure: str
) -> str:
    """One self-contained page."""
    scores = "".join(f"<tr><td>{key}</td><td>{value:.2f}</td></tr>" for key, value in nees.items())
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'><title>maci2 demo</title>"
        "<style>body{font:16px/1.5 sans-serif;max-width:44em;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left;"
        "border-bottom:1px solid #ddd}svg{max-width:100%}</style>"
        f"<h1>maci2 {escape(__version__)}: demo</h1>"
        f"<h2>Initialization: {init['status']}</h2>{_errors_table(init['errors'])}"
        f"<h2>Calibration: {calibration['status']}</h2>{_errors_table(calibration['errors'])}"
        f"<h2>Are the uncertainties true?</h2><p>{STUDY_WINDOWS} simulated windows; NEES per "
        f"degree of freedom, 1 is right.</p><table>{scores}</table>{figure}"
        "<p>init.json and calibration.json hold every number with its standard deviation; "
        "camchain-imucam.yaml is the calibration in Kalibr's format.</p></html>\n"
    )


def _errors_table(errors: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(key)}</td><td>{'-' if value is None else f'{value:.4g}'}</td></tr>"
        for key, value in errors.items()
    )
    return f"<table><tr><th>error</th><th></th></tr>{rows}</table>"
