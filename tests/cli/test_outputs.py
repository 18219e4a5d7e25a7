"""Outputs that cannot be written are one clear error, and nothing is destroyed."""

import os
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maci2.cli.app import app
from maci2.datasets import write_euroc
from maci2.errors import DatasetError, OutputError
from maci2.simulation import SimulationConfig, simulate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("outputs") / "walk"
    write_euroc(simulate(SimulationConfig(duration_s=4.0, seed=3)), path)
    return path


def error_of(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(result.exception, OutputError | DatasetError), result.exception
    return str(result.exception)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_json_to_a_device_leaves_the_device_alone(folder):
    assert "/dev/full: is a device" in error_of("check", folder, "--json", "/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_json_to_a_folder_and_below_a_file_is_refused(folder, tmp_path):
    assert "is a folder, needed the name of a file" in error_of("check", folder, "--json", tmp_path)
    (tmp_path / "file").write_text("")
    message = error_of("check", folder, "-o", tmp_path / "file" / "page.html")
    assert "not a directory" in message
    assert "nothing was changed" in message


def test_a_recording_is_not_written_where_it_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    words = ("simulate", tmp_path / "file" / "walk", "--duration", 1)
    assert "cannot be written" in error_of(*words)
    assert "is not an empty folder" in error_of("simulate", tmp_path / "file", "--duration", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_vo_says_before_it_works_that_its_output_cannot_be_written(rendered, tmp_path):
    (tmp_path / "file").write_text("")
    for output, message in (
        (tmp_path, "is a folder"),
        (tmp_path / "file" / "x", "not a directory"),
    ):
        assert message in error_of("vo", rendered, "-o", output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
