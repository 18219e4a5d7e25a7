"""What every command owes a user: help without holes, early errors, JSON and nothing else."""

import inspect
import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from maci2.cli.app import app
from maci2.datasets import write_euroc
from maci2.simulation import SimulationConfig, simulate

COMMANDS = typer.main.get_command(app).commands
READING = {
    "check": (), "vo": (), "init": (), "live": (), "track": (), "calibrate": (), "evaluate": (),
    "noise": (), "imu-report": (), "vo-report": (), "report": (), "truth": ("-o", "out"),
    "watch": ("--odometry", "odometry.txt"), "convert": ("out", "--to", "kalibr"),
}  # fmt: skip
"""Commands that read something, with what else they need."""

TRUTH = ("--vision", "truth:0.05,0.003")
ANSWERS = {
    "model": ("euroc",),
    "init": ("RECORDING", *TRUTH),
    "check": ("RECORDING",),
    "calibrate": ("RECORDING", *TRUTH),
    "evaluate": ("RECORDING", *TRUTH, "--stride", "5", "--jobs", "1"),
    "convert": ("RECORDING", "OUT", "--to", "kalibr"),
    "truth": ("RECORDING", "-o", "OUT"),
    "simulate": ("OUT", "--duration", "3"),
}
"""Commands that answer within a second, and how."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walk") / "walk"
    write_euroc(simulate(SimulationConfig(duration_s=8.0, seed=3)), folder)
    return folder


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_all_that_is_written_about_a_command_and_its_options(name):
    text = "".join(invoke(name, "--help").output.split())
    command = COMMANDS[name]
    told = [inspect.cleandoc(command.help or "")]
    told += [option.help for option in command.params if getattr(option, "help", None)]
    for words in told:
        assert "".join(words.split()) in text, words
    assert len(told) > 1


def test_the_list_of_commands_says_a_whole_sentence_of_each(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = invoke("--help").output.partition("Commands:")[2].splitlines()
    told = {words[0]: line for line in lines if (words := line.split())}
    assert set(told) == set(COMMANDS)
    assert all(line.rstrip()[-1] in ".?" and "..." not in line for line in told.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json(name):
    [option] = [option for option in COMMANDS[name].params if option.name == "json"]
    assert "- prints it" in option.help


def test_every_command_that_reads_is_in_the_list_above():
    named = {"sequence", "sequences", "folders", "source"}
    reading = {
        name
        for name, command in COMMANDS.items()
        if any(option.name in named and option.required for option in command.params)
    }
    assert reading - {"noise", "truth"} == set(READING) - {"noise", "truth"}


def test_a_missing_recording_is_told_before_anything_heavy_is_loaded(tmp_path):
    code = f"""
import sys
from typer.testing import CliRunner
from maci2.cli.app import app
from maci2.errors import DatasetError
for name, words in {READING!r}.items():
    run = CliRunner().invoke(app, [name, "missing/place", *words])
    assert isinstance(run.exception, DatasetError), (name, run.output, run.exception)
    assert "missing/place: no such file or folder" in str(run.exception), name
assert not {{"numba", "scipy", "cv2", "polars"}} & set(sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", ANSWERS)
def test_json_on_the_standard_output_is_alone_there(name, recording, tmp_path):
    places = {"RECORDING": recording, "OUT": tmp_path / "out"}
    words = [places.get(word, word) for word in ANSWERS[name]]
    run = invoke("--quiet", name, *words, "--json", "-")
    assert run.exit_code == 0, run.output
    assert isinstance(json.loads(run.stdout), dict)
    to_file = tmp_path / "result.json"
    if name not in ("truth", "simulate"):
        assert invoke(name, *words, "--json", to_file).exit_code == 0
        assert set(json.loads(to_file.read_text())) == set(json.loads(run.stdout))
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("name", ["init", "calibrate", "track", "vo", "live"])
def test_a_target_that_rerun_cannot_write_is_told_before_the_work(name, recording):
    run = CliRunner().invoke(app, [name, str(recording), "--rerun", "x.html"])
    assert "ends in .rrd" in str(run.exception)


def test_rerun_says_what_it_wrote(recording, tmp_path):
    pytest.importorskip("rerun")
    file = tmp_path / "init.rrd"
    run = invoke("init", recording, *TRUTH, "--rerun", file)
    assert f"wrote {file}" in run.output
    assert file.is_file()


def test_the_shell_completes_commands_and_options(tmp_path):
    def completed(words):
        environment = {"_MACI2_COMPLETE": "complete_bash", "COMP_WORDS": words,
                       "COMP_CWORD": str(len(words.split()) - 1)}  # fmt: skip
        run = CliRunner().invoke(app, env=environment, prog_name="maci2")
        return run.output.split()

    assert completed("maci2 cal") == ["calibrate"]
    assert "--vision-std" in completed("maci2 init --vision-s")
