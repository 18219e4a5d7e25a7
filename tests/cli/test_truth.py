"""`maci2 truth` on a simulated recording."""

import json

import pytest
from typer.testing import CliRunner

from ground_truth.faulty_truths import TruthFaults, recording_with
from maci2.cli.app import app
from maci2.datasets import write_euroc
from maci2.errors import OptionError


@pytest.fixture(scope="module")
def sequence(tmp_path_factory):
    folder = tmp_path_factory.mktemp("truth") / "flight"
    faults = TruthFaults(std_mm=1.0, std_deg=0.1, position_late_ms=8.0, orientation_late_ms=8.0)
    recording = recording_with(
        faults, seed=12, duration_s=15.0, name="vicon0", velocities=False, every=4
    )
    write_euroc(recording, folder)
    return folder


def test_truth_writes_a_folder_and_says_what_is_wrong(sequence, tmp_path):
    output, record, page = (tmp_path / name for name in ("audited", "audit.json", "audit.html"))
    arguments = ["truth", str(sequence), "--from", "vicon0", "-o", str(output)]
    result = CliRunner().invoke(
        app, [*arguments, "--json", str(record), "--report", str(page)], catch_exceptions=False
    )
    assert result.exit_code == 0
    html = page.read_text(encoding="utf-8")
    assert "What is left of the source" in html
    assert "residual [mm]" in html
    assert "residual [deg]" in html
    assert "ms late" in result.output
    assert (output / "data.csv").is_file()
    assert json.loads(record.read_text(encoding="utf-8"))["rows"] > 1000


def test_truth_does_not_write_into_the_recording(sequence):
    with pytest.raises(OptionError, match="inside the recording"):
        CliRunner().invoke(
            app,
            ["truth", str(sequence), "--from", "vicon0", "-o", str(sequence / "mav0" / "new")],
            catch_exceptions=False,
        )
    assert not (sequence / "mav0" / "new").exists()
