"""`maci2 init`."""

from typing import TYPE_CHECKING

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.printing import command_line, print_summary, write_report
from maci2.cli.viewing import require_viewer, viewer
from maci2.pipeline.option_list import InitOptions

if TYPE_CHECKING:
    from maci2.pipeline.offline import InitializedRecording


def init(
    sequence: opt.Sequence,
    options: InitOptions = InitOptions(),
    report: opt.Report = None,
    rerun: opt.Rerun = "",
    json: opt.Json = None,
) -> None:
    """Estimate gravity, velocities and biases of one window.

    Also poses, and an uncertainty for each. Exit code 1 if the verdict is `failed`. Example: maci2
    init SEQ --start 12 --report init.html
    """
    require_viewer(rerun)
    from maci2.recording_calls.initialize_call import initialize_recording

    result = initialize_recording(sequence, **vars(options))
    write_json(json, result.to_dict())
    print_summary(result.summary(), result.verdict)
    if report is not None:
        from maci2.reports.init_page import init_page

        write_report(report, init_page(result, command_line()))
    if rerun:
        show(rerun, result)
    if result.verdict.status == "failed":
        raise typer.Exit(1)


def show(target: str, result: "InitializedRecording") -> None:
    """Show the window with Rerun."""
    inputs, window = result.inputs, result.window
    with viewer(target, "init") as shown:
        shown.show_initialization(result)
        if result.state is not None and result.report.time_offset_s is None:
            vision = inputs.vision.motion(window.stamps_ns, window.index)
            shown.show_residuals(result.state, vision)
            if inputs.vision.odometry is not None:
                shown.show_tracks(inputs.vision.odometry, window.stamps_ns)
