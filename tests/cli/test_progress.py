"""Progress on the terminal: drawn there, and nowhere else."""

import io
import sys

import pytest
from typer.testing import CliRunner

from maci2.cli import app as module
from maci2.cli.app import app
from maci2.cli.command import progress_bar, show_progress
from maci2_lab.cli import COMMANDS as LAB


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def progress_wanted():
    show_progress(True)
    yield
    show_progress(True)


COMMANDS = {command.__name__: command for command in (*module.COMMANDS, *LAB)}


def drawn(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar() as on_progress:
        on_progress("compiling kernels", 3, 12)
    return stream.getvalue()


def test_a_terminal_shows_what_is_being_done(monkeypatch):
    assert "compiling kernels" in drawn(monkeypatch, Terminal())


def test_the_first_thing_drawn_has_a_word(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("calibrate"):
        assert "calibrate" in terminal.getvalue()


def test_a_pipe_gets_nothing(monkeypatch):
    assert drawn(monkeypatch, io.StringIO()) == ""


def test_quiet_shows_nothing(monkeypatch):
    show_progress(False)
    assert drawn(monkeypatch, Terminal()) == ""


def test_a_bar_inside_a_bar_takes_its_place(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar() as outer:
        outer("init", 0, 0)
        with progress_bar() as inner:
            inner("compiling kernels", 1, 2)
        outer("init", 0, 0)
    assert "compiling kernels" in terminal.getvalue()


def test_help_keeps_what_is_in_square_brackets():
    text = " ".join(CliRunner().invoke(app, ["init", "--help"]).output.split())
    assert "[s]" in text
    assert "[default: 0.1]" in text


def test_shell_completion_can_be_installed():
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).output


def test_every_job_that_a_command_needs_exists():
    from maci2.jit.fill import JOBS

    named = {job for command in COMMANDS.values() for job in command.jobs("images")}
    assert {"initialize", "odometry", "chain", "baselines"} <= named <= set(JOBS)


@pytest.mark.parametrize(
    ("name", "vision", "tracks_images"),
    [
        ("calibrate", "", True),
        ("calibrate", "images", True),
        ("calibrate", "truth:0.05,0.003", False),
        ("check", "", False),
        ("check", "images", True),
        ("track", "", True),
    ],
)
def test_the_kernels_of_odometry_are_compiled_only_where_images_are_tracked(
    name, vision, tracks_images
):
    assert ("odometry" in COMMANDS[name].jobs(vision)) == tracks_images
