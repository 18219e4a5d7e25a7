"""`maci2 calibrate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.printing import print_table, print_verdict, sigmas, vector, write_json

if TYPE_CHECKING:
    from maci2.estimation import CalibrationResult
    from maci2.evaluation.inputs import Inputs


def calibrate(
    sequence: opt.Sequence,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Kalibr camchain-imucam YAML to write")
    ] = None,
    vision: opt.Vision = "",
    imu: opt.Imu = "raw",
    vision_frame: opt.VisionFrame = "camera",
    vision_std: opt.VisionStd = None,
    vision_scale_std: opt.VisionScaleStd = None,
    keyframes: Annotated[int, typer.Option(help="keyframes in the window; 0: one every 0.3 s")] = 0,
    window: Annotated[float, typer.Option(help="length of the window [s]")] = 30.0,
    start: opt.Start = 0.0,
    time_offset: opt.TimeOffset = True,
    truth: opt.Truth = "",
    acc_bias_prior: opt.AccBiasPrior = None,
    acc_bias_std: opt.AccBiasStd = None,
    rig: opt.RigFile = None,
    topics: opt.Topics = "",
    seed: opt.Seed = 0,
    json: opt.Json = None,
) -> None:
    """Where the camera sits on the IMU, from motion alone: no target, no guess.

    Exit code 1 when the verdict is `failed`; the YAML is then not written.
    """
    from maci2.evaluation.run import calibrate_once, calibration_keyframes

    options = opt.run_options(
        vision=vision,
        imu=imu,
        vision_frame=vision_frame,
        vision_std=vision_std,
        vision_scale_std=vision_scale_std,
        keyframes=keyframes or calibration_keyframes(window),
        window_s=window,
        start_s=start,
        time_offset=time_offset,
        truth=truth,
        acc_bias_prior=acc_bias_prior,
        acc_bias_std=acc_bias_std,
        rig=rig,
        topics=topics,
        seed=seed,
    )
    from maci2.evaluation.results_json import calibration_json

    inputs, result = calibrate_once(sequence, options)
    write_json(json, calibration_json(inputs, result))
    print_calibration(inputs, result)
    if result.verdict.status == "failed":
        raise typer.Exit(1)
    if output is not None and result.state is not None:
        from maci2.evaluation.inputs import recalibrated_rig
        from maci2.sensors import write_camchain

        rig_found = recalibrated_rig(inputs, result.state.T_b_c)
        offset_s = result.report.time_offset_s if time_offset else None
        write_camchain(output, rig_found, time_offset_s=offset_s)
        typer.echo(f"wrote {output}")


def _offset_row(result: "CalibrationResult") -> list[tuple[str, str, str, str]]:
    """The time offset, where it was estimated."""
    report = result.report
    if report.std_time_offset_s == 0.0:
        return []
    found_ms, std_ms = 1e3 * report.time_offset_s, 1e3 * report.std_time_offset_s
    return [("time offset [ms]", f"{found_ms:+.2f}", f"{std_ms:.2f}", "-")]


def print_calibration(inputs: "Inputs", result: "CalibrationResult") -> None:
    """Extrinsics with 1-sigma, beside the recording's own."""
    import numpy as np

    from maci2.evaluation.metrics import calibration_errors
    from maci2.evaluation.results_json import stds
    from maci2.lie import so3_log

    state, posterior = result.state, result.posterior
    if state is not None and posterior is not None:
        rotation_deg, translation = calibration_errors(result, inputs.T_b_c)
        std = stds(posterior.T_b_c)
        phi_deg = np.rad2deg(so3_log(np.ascontiguousarray(state.T_b_c[:3, :3])))
        print_table(
            f"T_b_c of the {inputs.source.frame} frame, {len(state.stamps_ns)} keyframes, solved "
            f"in {result.report.solve_ms:.0f} ms",
            ("extrinsics", "estimate", "1-sigma", "from the given"),
            [
                (
                    "rotation [deg]",
                    vector(phi_deg, 3),
                    sigmas(np.rad2deg(std[3:6]), 3),
                    f"{rotation_deg:.3f} deg",
                ),
                (
                    "translation [m]",
                    vector(state.T_b_c[:3, 3]),
                    sigmas(std[0:3]),
                    f"{1e3 * translation:.1f} mm",
                ),
                *_offset_row(result),
            ],
        )
    print_verdict(result.verdict)
