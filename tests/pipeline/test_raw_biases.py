"""`gyro_bias` and `acc_bias` are the raw sensor's, whatever an IMU model takes off the samples."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments_root import mounted_as_in_euroc
from maci2.cli.app import app
from maci2.datasets import open_recording, write_euroc
from maci2.imu import raw_model
from maci2.imu.learned_model import load_imu_model
from maci2.pipeline import prepare
from maci2.simulation import SimulationConfig, simulate

OFF_GYRO, OFF_ACC = np.array([0.01, 0.02, -0.015]), np.array([0.05, -0.03, 0.04])
"""What the stand-in of a learned model subtracts."""


def subtracting_model(samples, noise):
    """An IMU model that corrects by a constant, and knows what it leaves as well as raw does."""
    measured = raw_model(samples, noise)
    return replace(
        measured,
        gyro=measured.gyro - OFF_GYRO,
        acc=measured.acc - OFF_ACC,
        removed_gyro=np.tile(OFF_GYRO, (len(samples), 1)),
        removed_acc=np.tile(OFF_ACC, (len(samples), 1)),
        bias_prior=replace(measured.bias_prior, mean_acc=-OFF_ACC),
    )


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings") / "hand"
    write_euroc(simulate(SimulationConfig(duration_s=14.0, seed=5, bias_walk=False)), folder)
    return folder


def biases(tmp_path, *words):
    """Both biases in the JSON of a command, one after the other."""
    options = ("--vision", "truth:0.05,0.003", "--json", tmp_path / "result.json")
    result = CliRunner().invoke(app, [str(word) for word in (*words, *options)])
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "result.json").read_text())
    return np.concatenate([record["gyro_bias"], record["acc_bias"]])


@pytest.mark.parametrize("command", ["init", "calibrate"])
def test_the_json_states_the_bias_of_the_raw_sensor(recording, tmp_path, monkeypatch, command):
    raw = biases(tmp_path, command, recording)
    monkeypatch.setattr(prepare, "find_imu_model", lambda _: subtracting_model)
    corrected = biases(tmp_path, command, recording)
    np.testing.assert_allclose(corrected, raw, atol=1e-5)
    truth = open_recording(recording).truth()
    np.testing.assert_allclose(corrected[:3], truth.bias_gyro.mean(axis=0), atol=0.003)


def test_a_known_accelerometer_bias_is_the_raw_sensors(recording, tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "find_imu_model", lambda _: subtracting_model)
    known = ("--acc-bias-prior", "0.1,-0.2,0.3", "--acc-bias-std", "1e-6")
    found = biases(tmp_path, "init", recording, *known)
    np.testing.assert_allclose(found[3:], [0.1, -0.2, 0.3], atol=1e-5)


def test_a_learned_model_says_what_it_took_off():
    recording = mounted_as_in_euroc(simulate(SimulationConfig(kind="drone", duration_s=4.0)))
    measured = load_imu_model("euroc").measure(recording.imu)
    np.testing.assert_allclose(measured.gyro + measured.removed_gyro, recording.imu.gyro)
    np.testing.assert_allclose(measured.acc + measured.removed_acc, recording.imu.acc)
    first, last = int(measured.stamps_ns[100]), int(measured.stamps_ns[200])
    part = measured.between(first, last)
    gyro, acc = part.removed_bias(first, last)
    np.testing.assert_allclose(
        gyro, (recording.imu.gyro - measured.gyro)[100:201].mean(axis=0), atol=1e-12
    )
    np.testing.assert_allclose(
        acc, (recording.imu.acc - measured.acc)[100:201].mean(axis=0), atol=1e-12
    )


@pytest.mark.dataset
@pytest.mark.parametrize("command", ["init", "calibrate"])
def test_biases_with_a_learned_model_are_near_the_published_ones(data_root, tmp_path, command):
    path = data_root / "euroc" / "V1_02_medium"
    found = biases(tmp_path, command, path, "--imu", "euroc")
    truth = open_recording(path).truth()
    # The published bias is an estimate too; what is left after the model is below 0.001 rad/s.
    np.testing.assert_allclose(found[:3], truth.bias_gyro.mean(axis=0), atol=0.003)
    np.testing.assert_allclose(found[3:], truth.bias_acc.mean(axis=0), atol=0.05)
