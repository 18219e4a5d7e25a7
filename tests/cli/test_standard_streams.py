"""A standard output that is full, closed or not UTF-8: an answer or an error, never a traceback."""

import os
import subprocess
import sys

import pytest

ARGUMENTS = [sys.executable, "-m", "maci2.cli", "model"]


def run(redirection="", **environment):
    words = " ".join(f"'{word}'" for word in ARGUMENTS)
    return subprocess.run(
        ["bash", "-c", f"{words} {redirection}"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("words", ["", "--json -"])
def test_a_full_output_is_one_line_and_no_success(words):
    done = run(f"{words} >/dev/full")
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: the standard output cannot be written (no space left")
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_error():
    done = run("| head -1")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_without_a_standard_error_the_answer_is_there():
    assert run("2>&-").stdout == run().stdout != ""


def test_letters_that_the_terminal_does_not_have_cost_those_letters():
    script = (
        "from maci2.cli.command import usable_streams\n"
        "with usable_streams():\n    print('1 \\u2500 2')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1 ? 2\n")


INTERRUPTED = """
import os, signal, sys
from maci2.cli.app import main

def interrupt(event, details):
    if event == "open" and str(details[0]).endswith("SHA256SUMS"):
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["maci2", "model"]
sys.addaudithook(interrupt)
main()
"""


def test_ctrl_c_is_one_line_and_the_code_of_shells():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.splitlines()) == (130, ["interrupted"])
