"""`check` needs no calibration: what can be looked at without one is looked at."""

import pytest
from typer.testing import CliRunner

from bag_files import recording_items, write_items
from maci2.cli.app import app
from maci2.datasets import open_recording, write_euroc
from maci2.simulation import SimulationConfig, simulate
from maci2.tools.diagnostics.diagnose import examine_path


@pytest.fixture(scope="module")
def recording():
    return simulate(SimulationConfig(duration_s=12.0, seed=10))


def test_a_bag_without_rig_is_checked_as_far_as_possible(recording, tmp_path):
    bag = write_items(tmp_path / "walk.bag", "ros1", lambda bag: recording_items(bag, recording))
    diagnosis = examine_path(bag)
    assert diagnosis.first_line.startswith("warn  calibration: ")
    assert "name it with --rig" in diagnosis.first_line
    assert diagnosis.imu.samples == len(recording.imu)
    assert diagnosis.usable
    result = CliRunner().invoke(app, ["check", str(bag)], catch_exceptions=False)
    assert result.exit_code == 0
    assert f"{len(recording.imu)} samples" in result.output


def test_faults_of_the_imu_are_found_without_a_rig(recording, tmp_path):
    def make(bag):
        imu = recording.imu
        for stamp_ns, gyro, acc in zip(imu.stamps_ns, imu.gyro, imu.acc, strict=True):
            yield bag.imu("/imu0", stamp_ns, gyro, acc / 9.81)

    diagnosis = examine_path(write_items(tmp_path / "walk.bag", "ros1", make))
    assert "looks like g" in diagnosis.first_line
    assert not diagnosis.usable


@pytest.mark.parametrize("damage", ["missing", "impossible"])
def test_a_folder_whose_calibration_cannot_be_used_is_checked_all_the_same(
    recording, tmp_path, damage
):
    folder = tmp_path / "walk"
    write_euroc(recording, folder)
    file = folder / "mav0" / "cam0" / "sensor.yaml"
    if damage == "missing":
        file.unlink()
    else:
        file.write_text(file.read_text().replace("intrinsics: [", "intrinsics: [1000"))
    diagnosis = examine_path(folder)
    assert diagnosis.first_line.startswith("ERROR  calibration: ")
    assert "cam0" in diagnosis.first_line
    assert diagnosis.windows == examine_path_of(recording, tmp_path).windows


def examine_path_of(recording, tmp_path):
    write_euroc(recording, tmp_path / "sound")
    assert open_recording(tmp_path / "sound")
    return examine_path(tmp_path / "sound")
