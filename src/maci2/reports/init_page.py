"""Report of `maci2 init --report`: estimates with uncertainties, then the evidence."""

from html import escape

from maci2.estimation.result_output import stds
from maci2.pipeline.offline import InitializedRecording
from maci2.reports.html import Section, page, side_by_side, table, vector, verdict
from maci2.reports.path_drawing import path_figure
from maci2.reports.result_figures import (
    bias_figure,
    excitation_figure,
    residual_figure,
    velocity_figure,
)
from maci2.reports.track_picture import latest_tracks, track_figure


def init_page(result: InitializedRecording, command: str) -> str:
    """HTML of one initialization."""
    lead = verdict(result.verdict.status, result.verdict.reasons)
    lead += f"{estimate_table(result)}<p>{escape(_what(result))}</p>"
    sections = init_sections(result)
    title = f"Initialization: {result.inputs.recording.name}"
    return page(title, lead, sections, command, options=result.inputs.options.as_dict())


def _what(result: InitializedRecording) -> str:
    stamps_ns, report = result.window.stamps_ns, result.report
    return (
        f"{len(stamps_ns)} keyframes over {(stamps_ns[-1] - stamps_ns[0]) / 1e9:.2f} s from "
        f"{stamps_ns[0]} ns on; camera motion from {result.inputs.source}. Chi-square "
        f"{report.cost:.1f} for {report.dof} degrees of freedom; {report.rejected} relative "
        f"poses rejected; solved in {report.iterations} steps and {report.solve_ms:.1f} ms."
    )


def estimate_table(result: InitializedRecording) -> str:
    """Estimate, 1-sigma and, if there is ground truth, the error."""
    state, posterior, errors = result.state, result.posterior, result.errors
    if state is None or posterior is None:
        return "<p>No state was estimated.</p>"
    last = len(state.stamps_ns) - 1
    rows: list[tuple[str, ...]] = [
        ("gravity in the first camera frame [m/s²]", vector(state.gravity_c0, 4),
         f"{result.gravity_std_deg:.3f} deg"),
        ("velocity of the body at the last keyframe [m/s]", vector(state.velocity_b[last], 4),
         vector(stds(posterior.velocity_b[last]), 4, signed=False)),
        ("gyroscope bias [rad/s]", vector(state.gyro_bias, 5),
         vector(stds(posterior.gyro_bias), 5, signed=False)),
        ("accelerometer bias [m/s²]", vector(state.acc_bias, 4),
         vector(stds(posterior.acc_bias), 4, signed=False)),
    ]  # fmt: skip
    columns = ["state", "estimate (x, y, z)", "1-sigma"]
    if errors is not None:
        columns.append("error")
        shown = (
            f"{errors.gravity_deg:.3f} deg",
            "–"
            if errors.velocity_rmse is None
            else f"{errors.velocity_rmse:.4f} m/s rms over keyframes",
            "–" if errors.gyro_bias_pct is None else f"{errors.gyro_bias_pct:.2f} % of its norm",
            "–",
        )
        rows = [(*row, error) for row, error in zip(rows, shown, strict=True)]
    return table(columns, rows, stacked=True)


def init_sections(result: InitializedRecording) -> list[Section]:
    """Pictures of one initialization."""
    inputs, state, posterior = result.inputs, result.state, result.posterior
    stamps_ns = result.window.stamps_ns
    sections = []
    if state is not None and posterior is not None:
        pictures = side_by_side(path_figure(state), velocity_figure(state, posterior))
        sections.append(Section("Motion", pictures))
    if inputs.vision.odometry is not None and not result.report.time_offset_s:
        tracked = latest_tracks(inputs.vision.odometry, int(stamps_ns[-1]))
        sections.append(Section("Images", track_figure(tracked)))
    if state is not None and posterior is not None:
        imu = inputs.imu.between(int(stamps_ns[0]), int(stamps_ns[-1]))
        parts = [excitation_figure(imu, int(stamps_ns[0]), int(stamps_ns[-1]))]
        if not result.report.time_offset_s:
            vision = inputs.vision.motion(stamps_ns, result.window.index)
            inflation = result.report.inflation
            parts.insert(0, residual_figure(state, vision, imu, inflation))
        parts.append(bias_figure(imu, posterior))
        title = "Residuals, excitation, and what the window added to the prior"
        sections.append(Section(title, side_by_side(*parts)))
    return sections
