"""`maci2 convert` as a user types it."""

import json
import sys

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from maci2.cli.app import app, main
from maci2.datasets import open_recording
from maci2.rigs import TOOLS, read_any_rig


def run(*words) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def error_of(monkeypatch, capsys, *words) -> str:
    monkeypatch.setattr(sys, "argv", ["maci2", *(str(word) for word in words)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_a_calibration_goes_through_every_tool_and_back(small_files, tmp_path):
    source = small_files / "kalibr" / "camchain.yaml"
    given = read_any_rig(source)
    step = source
    for tool in ("openvins", "vins-fusion", "orbslam3", "kalibr"):
        output = run("convert", step, tmp_path / tool, "--to", tool)
        assert f"wrote {tmp_path / tool}" in output
        step = tmp_path / tool
    again = read_any_rig(step)
    assert again.imu == given.imu
    for camera, first in zip(again.cameras, given.cameras, strict=True):
        np.testing.assert_allclose(camera.T_b_c, first.T_b_c, rtol=0, atol=5e-15)
        np.testing.assert_array_equal(camera.intrinsics, first.intrinsics)
        np.testing.assert_array_equal(camera.distortion, first.distortion)


def test_the_tool_that_wrote_the_file_is_named(small_files, tmp_path):
    output = run("convert", small_files / "kalibr" / "camchain.yaml", tmp_path, "--to", "openvins")
    assert (
        "read Kalibr camchain-imucam: 2 cameras, camera-IMU extrinsics known, IMU noise known"
        in (output)
    )


def test_a_recordings_own_calibration_is_converted(small_files, tmp_path):
    run("convert", small_files / "euroc_mini", tmp_path / "out", "--to", "vins-fusion")
    own = open_recording(small_files / "euroc_mini").rig
    again = read_any_rig(tmp_path / "out")
    np.testing.assert_array_equal(again.cameras[0].T_b_c, own.cameras[0].T_b_c)


def test_openvins_starts_from_the_biases_that_init_found(small_files, tmp_path):
    found = tmp_path / "init.json"
    found.write_text(json.dumps({"gyro_bias": [0.1, 0.2, 0.3], "acc_bias": [1.0, 2.0, 3.0]}))
    source, out = small_files / "kalibr" / "camchain.yaml", tmp_path / "out"
    run("convert", source, out, "--to", "openvins", "--biases", found)
    text = (out / "estimator_config.yaml").read_text().replace("%YAML:1.0", "")
    assert yaml.safe_load(text)["init_dyn_bias_g"] == [0.1, 0.2, 0.3]


def test_what_cannot_be_converted_says_why(small_files, tmp_path, monkeypatch, capsys):
    source, out = small_files / "kalibr" / "camchain.yaml", tmp_path / "out"
    message = error_of(monkeypatch, capsys, "convert", source, out, "--to", "basalt")
    assert f"--to is 'basalt'; choose one of {', '.join(TOOLS)}" in message
    message = error_of(monkeypatch, capsys, "convert", tmp_path / "no", out, "--to", "kalibr")
    assert "no such file or folder" in message
    damaged = tmp_path / "init.json"
    damaged.write_text("{}")
    options = ("--to", "openvins", "--biases", damaged)
    assert "with gyro_bias and acc_bias" in error_of(
        monkeypatch, capsys, "convert", source, out, *options
    )
    options = ("--to", "orbslam3", "--biases", damaged)
    assert "have no place for them" in error_of(
        monkeypatch, capsys, "convert", source, out, *options
    )
    assert not out.exists()
