"""A command that is killed leaves nothing half written, and goes on to the same bytes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from experiments_root import mounted_as_in_euroc
from maci2.datasets import write_euroc
from maci2.simulation import SimulationConfig, simulate

COMMANDS = (
    "vo", "evaluate", "reproduce", "train-imu", "calibrate", "track", "truth", "noise", "convert",
)  # fmt: skip
SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT")
SCRIPT = Path(__file__).parents[1] / "killing.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("killed")
    for seed, (name, kind) in enumerate((("MH_02_easy", "drone"), ("V1_01_easy", "handheld"))):
        made = simulate(SimulationConfig(kind=kind, duration_s=10.0, seed=seed))
        write_euroc(mounted_as_in_euroc(made), root / "euroc" / name)
    return root


def with_images(folder):
    if not (folder / "images").exists():
        words = ["simulate", str(folder / "images"), "--images", "--duration", "2", "--rate", "8"]
        # Not forked: this process has threads of libraries, which a fork would wait for in vain.
        subprocess.run([sys.executable, "-m", "maci2.cli", *words], check=True)


def killed(folder, command, signal, moments):
    words = [sys.executable, str(SCRIPT), str(folder), command, signal, str(moments), "7"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    outcome = json.loads(done.stdout.splitlines()[-1])
    assert outcome["problems"] == []
    assert outcome["operations"] > 5
    # The last operations may come when all is done; most moments come before.
    assert outcome["killed"] >= moments // 2


@pytest.mark.slow
@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("command", ["evaluate", "calibrate", "track", "convert"])
def test_a_killed_command_goes_on_to_the_same_result(folder, command, signal):
    killed(folder, command, signal, 2)


@pytest.mark.soak
@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("command", COMMANDS)
def test_twenty_moments_of_each_signal(folder, command, signal):
    with_images(folder)
    killed(folder, command, signal, 20)
