"""`maci2 init`."""

from typing import TYPE_CHECKING

import typer

from maci2.cli import options as opt
from maci2.cli.json_output import write_json
from maci2.cli.option_groups import Measuring, Opening, run_options
from maci2.cli.printing import command_line, print_summary, write_report
from maci2.cli.viewing import require_viewer, viewer

if TYPE_CHECKING:
    from maci2.pipeline.offline import InitializedRecording


def init(
    sequence: opt.Sequence,
    measuring: Measuring = Measuring(),
    keyframes: opt.Keyframes = 10,
    window: opt.Window = 2.5,
    start: opt.Start = 0.0,
    paper: opt.Paper = False,
    time_offset: opt.TimeOffset = False,
    trust_rig: opt.TrustRig = False,
    opening: Opening = Opening(),
    report: opt.Report = None,
    rerun: opt.Rerun = "",
    json: opt.Json = None,
) -> None:
    """Estimate gravity, velocities and biases of one window.

    Also poses, and an uncertainty for each. Exit code 1 if the verdict is `failed`. Example: maci2
    init SEQ --start 12 --report init.html
    """
    require_viewer(rerun)
    options = run_options(
        measuring,
        opening,
        keyframes=keyframes,
        window_s=window,
        start_s=start,
        paper=paper,
        time_offset=time_offset,
        trust_rig=trust_rig,
    )
    from maci2.pipeline.offline import initialize_recording
    from maci2.recording_calls.initialize_call import scored

    result = scored(initialize_recording(sequence, options))
    write_json(json, result.to_dict())
    print_summary(result.summary(), result.verdict)
    if report is not None:
        from maci2.reports.init_page import init_page

        write_report(report, init_page(result, options, command_line()))
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
