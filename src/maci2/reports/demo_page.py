"""Report of `maci2 demo`: initialization, calibration, and consistency."""

from maci2.pipeline.offline import CalibratedRecording, InitializedRecording
from maci2.reports.calibration_page import calibration_sections, extrinsics_table
from maci2.reports.html import Section, figure, page, table, verdict
from maci2.reports.init_page import estimate_table, init_sections

STATES = {
    "gravity": "gravity direction",
    "velocity": "velocity",
    "pose": "poses",
    "gyro_bias": "gyroscope bias",
}


def demo_page(
    initialization: InitializedRecording,
    calibration: CalibratedRecording,
    nees: dict[str, float],
    windows: int,
    consistency_svg: str,
    command: str,
) -> str:
    """HTML of a whole demo."""
    first, second = initialization.verdict, calibration.verdict
    lead = (
        "<p class='lead'>A stereo camera and an IMU were simulated in a synthetic room, and "
        "initialized and calibrated from their images and samples alone. Their true states are "
        "known, so every estimate is shown with its stated uncertainty and its actual error.</p>"
        f"<h3>Initialization, 2.5 s</h3>{verdict(first.status, first.reasons)}"
        f"{estimate_table(initialization)}"
        f"<h3>Calibration without initial guess</h3>{verdict(second.status, second.reasons)}"
        f"{extrinsics_table(calibration, 'true one')}"
    )
    rows = [(STATES.get(name, name), f"{value:.2f}") for name, value in nees.items()]
    consistency = table(
        ("state", "NEES per degree of freedom, 1 is consistent"), rows, stacked=True
    ) + figure(
        consistency_svg,
        f"Predicted standard deviation against actual error on {windows} simulated windows, in "
        "equally filled bins; on the dashed line they are equal.",
    )
    sections = [
        *init_sections(initialization),
        *calibration_sections(calibration),
        Section("Does the stated uncertainty equal the actual error?", consistency),
        Section(
            "Files",
            "<p><code>init.json</code> and <code>calibration.json</code> hold every number with "
            "its standard deviation; <code>camchain-imucam.yaml</code> is the calibration in "
            "Kalibr's format.</p>",
        ),
    ]
    return page("maci2 demo", lead, sections, command)
