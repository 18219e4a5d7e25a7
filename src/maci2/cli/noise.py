"""`maci2 noise`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import command_line, write_report
from maci2.errors import OptionError
from maci2.pipeline.option_list import Opening

if TYPE_CHECKING:
    from maci2.noise.run import MeasuredImu
    from maci2.pipeline.options import RunOptions


@dataclass(frozen=True)
class Reference:
    """Motion that the IMU is compared with."""

    vision: Annotated[
        str,
        typer.Option(
            help="compare the IMU with camera motion (images, trajectory:FILE, measurements:FILE) "
            "instead of ground truth"
        ),
    ] = ""
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="motion capture or ground truth to compare with: vicon0, leica0, the name of a "
            "ground truth, or trajectory:FILE  [default: the first ground truth found]",
        ),
    ] = ""
    vision_frame: opt.VisionFrame = "camera"
    vision_std: opt.VisionStd = None
    vision_scale_std: opt.VisionScaleStd = None


def noise(
    sequences: opt.Sequences,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Kalibr imu.yaml to write"),
    ] = None,
    reference: Reference = Reference(),
    tools: Annotated[
        Path | None,
        typer.Option(help="folder for calibration files of all other tools, with this noise"),
    ] = None,
    test: Annotated[
        list[Path] | None,
        typer.Option(
            help="recording to score integration errors on, with the noise of the data sheet and "
            "with the measured noise; may be given several times  [default, with --report or "
            "--json: the recordings themselves]"
        ),
    ] = None,
    window: Annotated[
        float, typer.Option(help="length of the part of each recording to use [s]")
    ] = 60.0,
    start: opt.Start = 0.0,
    opening: Opening = Opening(),
    report: opt.Report = None,
    json: opt.Json = None,
) -> None:
    """Measure the noise of an IMU from recordings in motion.

    Estimates noise densities and random walks with standard deviations, by maximum likelihood over
    all states, and compares them with the Allan deviation of a section without motion, the
    roughness of the samples and the data sheet. Use the JSON with `--imu noise:FILE`.
    """
    from maci2.noise.run import measure_noise, noise_record

    options = _vision_options(reference, opening, window, start)
    checked = report is not None or json is not None
    measured = measure_noise(
        sequences, options, reference.source, window, opening.open, test or (), checked
    )
    write_json(json, noise_record(measured))
    print_noise(measured)
    if output is not None:
        from maci2.rigs.kalibr import write_imu_yaml

        write_imu_yaml(output, measured.estimate.pooled(measured.stated.rate_hz), None)
        typer.echo(f"wrote {output}")
    if tools is not None:
        from maci2.noise.run import write_tools

        for path in write_tools(measured, tools):
            typer.echo(f"wrote {path}")
    if report is not None:
        from maci2.reports.noise_page import noise_page

        write_report(report, noise_page(measured, command_line()))


def _vision_options(
    reference: Reference, opening: Opening, window_s: float, start_s: float
) -> "RunOptions | None":
    """Options of the camera motion to compare with; None if it is ground truth."""
    if reference.vision:
        from maci2.pipeline.options import RunOptions

        return RunOptions.of(
            opening,
            vision=reference.vision,
            vision_frame=reference.vision_frame,
            vision_std=reference.vision_std,
            vision_scale_std=reference.vision_scale_std,
            window_s=window_s,
            start_s=start_s,
        )
    if start_s != 0.0:
        raise OptionError(
            f"--start is {start_s:g}, but without --vision the middle of the recording is compared "
            "with motion capture or ground truth; give --window alone."
        )
    return None


def print_noise(measured: "MeasuredImu") -> None:
    """Print the noise by all methods, and the findings."""
    from maci2.noise.run import noise_remarks, noise_rows
    from maci2.text_tables import table_text

    columns = ["noise per sqrt(Hz)", "in motion", "1-sigma", "stationary", "roughness", "stated"]
    title = f"{', '.join(measured.recordings)}: {measured.seconds:.0f} s against {measured.source}"
    typer.echo(table_text(title, columns, noise_rows(measured)))
    for remark in noise_remarks(measured):
        typer.echo(remark)
    if measured.checks:
        from maci2.noise.consistency import CHECK_COLUMNS, check_rows

        title = "NEES of integration errors per degree of freedom, 1 is ideal"
        typer.echo(table_text(title, CHECK_COLUMNS, check_rows(measured.checks)))
