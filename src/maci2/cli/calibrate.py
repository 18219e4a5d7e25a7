"""`maci2 calibrate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.printing import command_line, print_table, print_verdict, sigmas, vector, write_json

if TYPE_CHECKING:
    from maci2.estimation import CalibrationResult
    from maci2.pipeline.prepare import Inputs

DEFAULT_WINDOW_S = 30.0


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
    window: Annotated[
        float | None,
        typer.Option(
            help="length of the window [s]  [default: 30, or the whole recording if shorter]"
        ),
    ] = None,
    start: opt.Start = 0.0,
    time_offset: opt.TimeOffset = True,
    truth: opt.Truth = "",
    acc_bias_prior: opt.AccBiasPrior = None,
    acc_bias_std: opt.AccBiasStd = None,
    rig: opt.RigFile = None,
    imu_rate: opt.ImuRate = None,
    imu_noise: opt.ImuNoiseText = "",
    t_b_c: opt.Extrinsics = "",
    topics: opt.Topics = "",
    seed: opt.Seed = 0,
    report: opt.Report = None,
    rerun: opt.Rerun = "",
    json: opt.Json = None,
) -> None:
    """Where the camera sits on the IMU, from motion alone: no target, no guess.

    Exit code 1 when the verdict is `failed`; the YAML is then not written.
    """
    from maci2.pipeline.offline import calibrate_recording, calibration_keyframes

    window_s = DEFAULT_WINDOW_S if window is None else window
    options = opt.run_options(
        vision=vision,
        imu=imu,
        vision_frame=vision_frame,
        vision_std=vision_std,
        vision_scale_std=vision_scale_std,
        keyframes=keyframes or calibration_keyframes(window_s),
        window_s=window_s,
        start_s=start,
        time_offset=time_offset,
        truth=truth,
        acc_bias_prior=acc_bias_prior,
        acc_bias_std=acc_bias_std,
        rig=rig,
        given=opt.given(imu_rate, imu_noise, t_b_c),
        topics=topics,
        seed=seed,
    )
    from maci2.pipeline.results_json import calibration_json

    may_be_shorter = window is None and keyframes == 0
    inputs, result = calibrate_recording(sequence, options, may_be_shorter)
    write_json(json, calibration_json(inputs, result))
    print_calibration(inputs, result)
    if rerun:
        from maci2.reports.rerun_viewer import Viewer

        Viewer(rerun, "calibrate").show_calibration(result)
    if result.verdict.status == "failed":
        raise typer.Exit(1)
    if result.state is None:
        return
    from maci2.pipeline.prepare import recalibrated_rig

    calibrated = recalibrated_rig(inputs, result.state.T_b_c, result.report.time_offset_s)
    if output is not None:
        from maci2.rigs import write_camchain

        write_camchain(output, calibrated)
        typer.echo(f"wrote {output}")
    if report is not None:
        from maci2.files import write_atomically
        from maci2.reports.calibration_page import calibration_page

        write_atomically(report, calibration_page(inputs, result, calibrated, command_line()))
        typer.echo(f"wrote {report}")


def print_calibration(inputs: "Inputs", result: "CalibrationResult") -> None:
    """Extrinsics of the left camera with 1-sigma, beside the given ones where there are any."""
    if result.state is not None and result.posterior is not None:
        rows = [*_extrinsics_rows(inputs, result), *_offset_row(inputs, result)]
        columns = ["extrinsics", "estimate", "1-sigma", "from the given"]
        if not inputs.recording.rig.extrinsics_known:
            columns, rows = columns[:3], [row[:3] for row in rows]
        print_table(
            f"T_b_c0 (c0: left camera, b: IMU), {len(result.state.stamps_ns)} keyframes, solved in "
            f"{result.report.solve_ms:.0f} ms",
            columns,
            rows,
        )
    print_verdict(result.verdict)


def _extrinsics_rows(inputs: "Inputs", result: "CalibrationResult") -> list[tuple[str, ...]]:
    """Rotation and translation as the YAML has them.

    A rectified camera is rotated about its own origin, so its uncertainty about the IMU's axes is
    that of the camera itself.
    """
    import numpy as np

    from maci2.lie import so3_log
    from maci2.pipeline.prepare import recalibrated_rig
    from maci2.pipeline.results_json import calibration_errors, stds

    assert result.state is not None
    assert result.posterior is not None
    rotation_deg, translation = calibration_errors(result, inputs.T_b_c)
    std = stds(result.posterior.T_b_c)
    T_b_c0 = recalibrated_rig(inputs, result.state.T_b_c).cameras[0].T_b_c
    phi_deg = np.rad2deg(so3_log(np.ascontiguousarray(T_b_c0[:3, :3])))
    return [
        (
            "rotation [deg]",
            vector(phi_deg, 3),
            sigmas(np.rad2deg(std[3:6]), 3),
            f"{rotation_deg:.3f} deg",
        ),
        (
            "translation [m]",
            vector(T_b_c0[:3, 3]),
            sigmas(std[0:3]),
            f"{1e3 * translation:.1f} mm",
        ),
    ]


def _offset_row(inputs: "Inputs", result: "CalibrationResult") -> list[tuple[str, ...]]:
    """The time offset where it was estimated, and how far it is from the stated one."""
    report = result.report
    if report.std_time_offset_s == 0.0:
        return []
    further_ms, std_ms = 1e3 * report.time_offset_s, 1e3 * report.std_time_offset_s
    offset_ms = 1e3 * inputs.recording.rig.time_offset_s + further_ms
    return [("time offset [ms]", f"{offset_ms:+.2f}", f"{std_ms:.2f}", f"{further_ms:+.2f} ms")]
