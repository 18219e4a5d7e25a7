"""The two packages: one version, and commands of the lab with and without it."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import maci2
from maci2.cli.app import HOOK, LAB

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {
    name: tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]
    for name in ("maci2", "maci2-lab")
}
WITHOUT_LAB = """
import importlib.metadata, sys
found = importlib.metadata.entry_points
def without_lab(**query):
    return () if query.get("group", "").startswith("maci2.") else found(**query)
importlib.metadata.entry_points = without_lab
from maci2.cli.app import main
sys.argv[0] = "maci2"
main()
"""


def run_without_lab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_LAB, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
        check=False,
    )


def test_both_packages_have_one_version():
    lab = PROJECTS["maci2-lab"]
    assert lab["version"] == maci2.__version__
    assert lab["dependencies"][0] == f"maci2=={maci2.__version__}"


def test_both_packages_have_the_licence():
    for name in PROJECTS:
        assert (ROOT / "packages" / name / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_every_command_of_the_lab_is_installed():
    points = {point.name: point for point in entry_points(group=HOOK)}
    assert set(LAB) <= set(points)
    for name in LAB:
        assert points[name].load().__name__.replace("_", "-") == name


def test_without_the_lab_its_commands_say_how_to_install_it():
    for name in sorted(LAB):
        result = run_without_lab(name, "SEQ", "--json", "out.json")
        assert result.returncode == 2, name
        assert "maci2-lab" in result.stderr, name
        assert re.search(r"pip install \S*maci2-lab", result.stderr), name


def test_without_the_lab_the_library_s_commands_are_there():
    result = run_without_lab("--help")
    assert result.returncode == 0
    for name in ("demo", "check", "init", "calibrate", "track", "evaluate"):
        assert re.search(rf"\b{name}\b", result.stdout), name
