"""`maci2 truth` on a simulated recording."""

import json
import shutil

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner

from maci2.cli.app import app
from maci2.datasets import write_euroc
from maci2.errors import Maci2Error, OptionError
from tools.ground_truth.faulty_truths import TruthFaults, recording_with


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
    assert "Residuals of the source" in html
    assert "residual [mm]" in html
    assert "residual [deg]" in html
    assert "ms late" in result.output
    assert (output / "data.csv").is_file()
    written = json.loads(record.read_text(encoding="utf-8"))
    assert written["rows"] > 1000
    # The recording holds nothing but the capture.
    assert written["compared"] == []


def test_truth_does_not_write_into_the_recording(sequence):
    with pytest.raises(OptionError, match="inside the recording"):
        CliRunner().invoke(
            app,
            ["truth", str(sequence), "--from", "vicon0", "-o", str(sequence / "mav0" / "new")],
            catch_exceptions=False,
        )
    assert not (sequence / "mav0" / "new").exists()


def inverted(rows):
    """Poses of the world in the body."""
    R_m_w = Rotation.from_quat(rows[:, 4:8], scalar_first=True).inv()
    return np.c_[
        rows[:, :1], -R_m_w.apply(rows[:, 1:4]), R_m_w.as_quat(scalar_first=True), rows[:, 8:]
    ]


def rotated(rows):
    """The marker mounted 90 deg about its own z axis."""
    R_w_m = Rotation.from_quat(rows[:, 4:8], scalar_first=True)
    R_w_m = R_w_m * Rotation.from_euler("z", 90.0, degrees=True)
    return np.c_[rows[:, :4], R_w_m.as_quat(scalar_first=True), rows[:, 8:]]


FAULTS = {
    "numbers of quaternions in the order x, y, z, w": (
        lambda rows: rows[:, [0, 1, 2, 3, 5, 6, 7, 4]],
        "if the quaternions are in the order x, y, z, w",
    ),
    "inverted poses": (inverted, "if the poses are inverted (world in body)"),
    "millimetres": (
        lambda rows: np.c_[rows[:, :1], 1e3 * rows[:, 1:4], rows[:, 4:]],
        "millimetres",
    ),
    "a marker rotated by 90 deg": (rotated, "orientation rotated by 90."),
    "a clock off by seconds": (
        lambda rows: np.c_[rows[:, :1] + 37e8, rows[:, 1:]],
        "position 3.708",
    ),
    "rows of the first three seconds alone": (
        lambda rows: rows[rows[:, 0] < rows[0, 0] + 3e9],
        "an audit needs at least 8 s of both",
    ),
}
"""What is done to the rows of a capture, and what has to be said of it."""


def audit_of(rows, folder, sequence):
    """What the command says of a recording whose capture has other rows."""
    copy = folder / "flight"
    shutil.copytree(sequence, copy)
    file = copy / "mav0" / "vicon0" / "data.csv"
    header = ",".join(file.read_text(encoding="utf-8").splitlines()[0].split(",")[:8])
    lines = [f"{int(row[0])},{','.join(map(repr, row[1:].tolist()))}" for row in rows]
    file.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    arguments = ["truth", str(copy), "--from", "vicon0", "-o", str(folder / "out")]
    result = CliRunner().invoke(app, arguments)
    # The command line prints the message of such an error and ends with 1.
    assert result.exception is None or isinstance(result.exception, Maci2Error)
    return f"{result.output} {result.exception}"


def captured_rows(sequence):
    return np.loadtxt(sequence / "mav0" / "vicon0" / "data.csv", delimiter=",")[:, :8]


@pytest.mark.parametrize("fault", FAULTS)
def test_truth_names_what_is_wrong_with_a_file(fault, sequence, tmp_path):
    change, expected = FAULTS[fault]
    assert expected in audit_of(change(captured_rows(sequence)), tmp_path, sequence)


@pytest.mark.parametrize("turned", [False, True])
def test_a_trajectory_in_the_other_order_is_told_which_order_it_is_in(turned, sequence, tmp_path):
    rows = rotated(captured_rows(sequence)) if turned else captured_rows(sequence)
    file = tmp_path / "wxyz.txt"
    lines = [f"{row[0] / 1e9:.9f} {' '.join(map(repr, row[1:].tolist()))}" for row in rows]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(Maci2Error) as raised:
        CliRunner().invoke(
            app,
            ["truth", str(sequence), "--from", f"trajectory:{file}", "-o", str(tmp_path / "out")],
            catch_exceptions=False,
        )
    assert "the quaternions are in the order w, x, y, z" in str(raised.value)
    # Turned, the body is nowhere near its place, and an inverse would fit as well.
    assert ("or the poses are inverted" in str(raised.value)) == turned


def test_truth_refuses_the_capture_of_another_recording(sequence, tmp_path):
    other = recording_with(
        TruthFaults(), seed=13, duration_s=15.0, name="vicon0", velocities=False, every=4
    )
    write_euroc(other, tmp_path / "other")
    rows = captured_rows(tmp_path / "other")
    assert "both are of one recording" in audit_of(rows, tmp_path, sequence)


def test_truth_says_about_which_axis_a_recording_without_rotation_tells_nothing(tmp_path):
    still = recording_with(
        TruthFaults(std_mm=1.0, std_deg=0.1),
        seed=9,
        name="vicon0",
        velocities=False,
        every=4,
        kind="static",
        duration_s=15.0,
    )
    write_euroc(still, tmp_path / "still")
    said = audit_of(captured_rows(tmp_path / "still"), tmp_path, tmp_path / "still")
    assert "rotation of the marker about the body's axis (" in said
