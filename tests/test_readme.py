"""What the README shows must run."""

import json
import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()


@pytest.mark.dataset
def test_the_python_example_of_the_readme_runs(data_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    assert len(code.splitlines()) <= 12
    code = code.replace('"MH_02_easy"', repr(str(data_root / "euroc" / "MH_02_easy")))
    shown = []
    exec(code.replace("print(", "show("), {"show": lambda *values: shown.append(values)})
    (status, reasons), (gravity_c0, *_), *_, (summary,) = shown
    assert status == "ok"
    assert reasons == ()
    assert abs(gravity_c0 @ gravity_c0 - 9.81**2) < 1e-6
    assert "verdict: ok" in summary
    assert json.loads((tmp_path / "init.json").read_text())["status"] == "ok"


def test_commands_of_the_readme_exist():
    from maci2.cli.app import app

    known = {command.callback.__name__.replace("_", "-") for command in app.registered_commands}
    used = set(re.findall(r"^(?:    |\|.*`)maci2 ([a-z][a-z-]+)", README, re.MULTILINE))
    assert used
    assert used <= known


def test_every_file_that_the_readme_links_exists():
    root = Path(__file__).resolve().parents[1]
    links = re.findall(r"\]\((docs/[\w./]+)\)", README)
    assert links
    for link in links:
        assert (root / link).is_file(), link
