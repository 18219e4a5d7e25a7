"""`maci2 noise` and what takes its result."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from maci2.cli.app import app
from maci2.datasets.euroc import write_euroc
from maci2.simulation import SimulationConfig, simulate


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noise") / "hand"
    write_euroc(simulate(SimulationConfig(duration_s=15.0, seed=3)), folder)
    return folder


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def test_noise_is_measured_written_and_taken_by_init(recording, tmp_path):
    names = ("noise.json", "imu.yaml", "noise.html", "init.json")
    files = {name: tmp_path / name for name in names}
    text = run(
        *("noise", recording, "--json", files["noise.json"], "-o", files["imu.yaml"]),
        *("--report", files["noise.html"], "--tools", tmp_path / "tools"),
    )
    assert "accelerometer walk" in text
    record = json.loads(files["noise.json"].read_text())
    imu = yaml.safe_load(files["imu.yaml"].read_text())["imu0"]
    assert imu["accelerometer_noise_density"] == pytest.approx(record["density_acc"]["value"])
    assert "White noise by each method" in files["noise.html"].read_text()
    for file in ("openvins/kalibr_imu_chain.yaml", "vins-fusion/stereo_imu_config.yaml"):
        assert (tmp_path / "tools" / file).is_file()
    run(
        *("init", recording, "--vision", "truth:0.05,0.003", "--json", files["init.json"]),
        *("--imu", f"noise:{files['noise.json']}"),
    )
    assert json.loads(files["init.json"].read_text())["status"] == "ok"
