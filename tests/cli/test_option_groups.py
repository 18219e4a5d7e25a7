"""Options that belong together."""

import inspect
from dataclasses import MISSING, asdict, fields
from pathlib import Path

import pytest
import typer

import maci2
from maci2.cli.app import app
from maci2.cli.command import command
from maci2.cli.estimate import init
from maci2.errors import OptionError
from maci2.pipeline import options as option_list
from maci2.pipeline.options import InitOptions, Opening, RunOptions

OPENING = {"--rig", "--imu-rate", "--imu-noise", "--T-b-c", "--topics", "--columns"}


def recorder():
    """A command with a group, and the list of what it was called with."""
    calls = []

    @command()
    def open_window(sequence: Path, opening: Opening = Opening(), window: float = 2.5) -> None:
        calls.append((sequence, opening, window))

    return open_window, calls


def test_each_field_of_a_group_is_an_option_where_the_group_stands():
    names = list(inspect.signature(recorder()[0]).parameters)
    group = ["rig", "imu_rate", "imu_noise", "T_b_c", "topics", "columns"]
    assert names == ["sequence", *group, "window"]


def test_a_command_gets_its_groups_whole():
    open_window, calls = recorder()
    opening = Opening(imu_rate=200.0, topics="imu=/a")
    open_window(sequence=Path("seq"), window=1.0, **asdict(opening))
    assert calls == [(Path("seq"), opening, 1.0)]


def test_every_command_that_opens_recordings_takes_all_options_of_opening():
    commands = typer.main.get_command(app).commands
    without = {"train-imu"}
    for name, one in commands.items():
        options = {text for parameter in one.params for text in parameter.opts}
        if "--rig" in options and name not in without:
            assert options >= OPENING, name


def test_groups_become_options_of_a_run():
    choices = {"vision": "truth:0.05,0.003", "acc_bias_prior": "0.1,0,-0.1", "seed": 3}
    options = RunOptions.of(InitOptions(**choices, topics="imu=/imu0"), window_s=4.0)
    assert (options.source.kind, options.acc_bias_prior) == ("truth", (0.1, 0.0, -0.1))
    assert (options.topics, options.window_s, options.seed) == ("imu=/imu0", 4.0, 3)
    with pytest.raises(OptionError, match="--acc-bias-prior"):
        RunOptions.of(InitOptions(acc_bias_prior="0.1"))


CALLS = {
    "init": maci2.initialize_recording,
    "calibrate": maci2.calibrate_recording,
    "check": maci2.check_recording,
    "track": maci2.track_recording,
    "watch": maci2.watch_recording,
}


@pytest.mark.parametrize("command", CALLS)
def test_a_command_and_its_call_have_the_same_options(command):
    group = getattr(option_list, f"{command.capitalize()}Options")
    options = {one.name: one for one in fields(group)}
    call = inspect.signature(CALLS[command]).parameters
    assert next(iter(call)) == "path"
    assert set(call) == {"path", *options}
    defaults = {name: one.default for name, one in options.items() if one.default is not MISSING}
    assert {name: call[name].default for name in defaults} == defaults
    typed = {one.name: one for one in typer.main.get_command(app).commands[command].params}
    assert set(options) <= set(typed)
    for name, one in options.items():
        text = one.metadata["option"].help
        assert typed[name].help == text
        assert text in inspect.getdoc(CALLS[command])


def test_an_option_that_a_call_does_not_have_is_refused_by_name():
    with pytest.raises(TypeError, match="unexpected keyword argument 'stride_s'"):
        maci2.initialize_recording("flight", stride_s=1.0)


def test_help_of_init_lists_all_groups():
    names = list(inspect.signature(init).parameters)
    assert {"vision", "seed", "rig", "topics", "report"} <= set(names)
