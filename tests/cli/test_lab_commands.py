"""Commands of maci2-lab, installed or not."""

import importlib.util

import pytest
import typer
from typer.testing import CliRunner

from maci2.cli import app as module
from maci2.errors import OptionError
from maci2_lab.cli import COMMANDS


def first_line(command):
    return command.help.partition("\n")[0]


def test_the_table_of_the_lab_has_its_commands_with_their_first_lines():
    listed = typer.main.get_command(module.app).commands
    names = [one.__name__.replace("_", "-") for one in COMMANDS]
    assert {name: first_line(listed[name]) for name in names} == module.LAB


def test_without_the_lab_its_commands_name_the_way_to_install_it(monkeypatch):
    monkeypatch.setattr(module, "app", typer.Typer())
    module.add_commands(())
    result = CliRunner().invoke(module.app, ["evaluate", "flight", "--keyframes", "10", "-o", "x"])
    assert isinstance(result.exception, OptionError)
    assert str(result.exception).startswith(
        "maci2 evaluate needs maci2-lab: pip install maci2-lab,"
    )
    text = CliRunner().invoke(module.app, ["reproduce", "--help"]).output
    assert "Run the paper's experiments. Needs `pip install maci2-lab`." in " ".join(text.split())
    assert "init" in typer.main.get_command(module.app).commands


def test_a_package_adds_commands_by_an_entry_point(monkeypatch):
    def weigh() -> None:
        """Weigh a camera."""

    class Point:
        def load(self):
            return weigh

    monkeypatch.setattr(module, "entry_points", lambda group: [Point()] * (group == module.HOOK))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert weigh in tuple(module.further_commands())


@pytest.mark.parametrize("module_name", ["estimate", "examine", "simulate", "setup", "live"])
def test_modules_of_the_product_import_no_command_of_the_lab(module_name):
    from pathlib import Path

    source = Path(module.__file__).with_name(f"{module_name}.py").read_text(encoding="utf-8")
    assert "cli.lab" not in source
