"""Options that belong together."""

import inspect
from dataclasses import asdict
from pathlib import Path

import pytest
import typer

from maci2.cli.app import app
from maci2.cli.init import init
from maci2.cli.option_groups import Measuring, Opening, run_options, spread
from maci2.errors import OptionError

OPENING = {"--rig", "--imu-rate", "--imu-noise", "--T-b-c", "--topics", "--columns"}


def recorder():
    """A command with a group, and the list of what it was called with."""
    calls = []

    def command(sequence: Path, opening: Opening = Opening(), window: float = 2.5) -> None:
        calls.append((sequence, opening, window))

    return spread(command), calls


def test_each_field_of_a_group_is_an_option_where_the_group_stands():
    names = list(inspect.signature(recorder()[0]).parameters)
    group = ["rig", "imu_rate", "imu_noise", "t_b_c", "topics", "columns"]
    assert names == ["sequence", *group, "window"]


def test_a_command_gets_its_groups_whole():
    command, calls = recorder()
    opening = Opening(imu_rate=200.0, topics="imu=/a")
    command(sequence=Path("seq"), window=1.0, **asdict(opening))
    assert calls == [(Path("seq"), opening, 1.0)]


def test_every_command_that_opens_recordings_takes_all_options_of_opening():
    commands = typer.main.get_command(app).commands
    without = {"train-imu"}
    for name, one in commands.items():
        options = {text for parameter in one.params for text in parameter.opts}
        if "--rig" in options and name not in without:
            assert options >= OPENING, name


def test_groups_become_options_of_a_run():
    measuring = Measuring(vision="truth:0.05,0.003", acc_bias_prior="0.1,0,-0.1", seed=3)
    options = run_options(measuring, Opening(topics="imu=/imu0"), window_s=4.0)
    assert (options.vision.kind, options.acc_bias_prior) == ("truth", (0.1, 0.0, -0.1))
    assert (options.topics, options.window_s, options.seed) == ("imu=/imu0", 4.0, 3)
    with pytest.raises(OptionError, match="--acc-bias-prior"):
        run_options(Measuring(acc_bias_prior="0.1"), Opening())


def test_help_of_init_lists_both_groups():
    names = list(inspect.signature(spread(init)).parameters)
    assert {"vision", "seed", "rig", "topics", "report"} <= set(names)
