"""What the README shows must run."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()


@pytest.mark.dataset
def test_the_python_example_of_the_readme_runs(data_root, capsys):
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    code = code.replace('"MH_02_easy"', repr(str(data_root / "euroc" / "MH_02_easy")))
    code = code.replace("print(", "show(")
    shown = []
    exec(code, {"show": lambda *values: shown.append(values)})
    status, gravity_c0, std_deg = shown[0]
    assert status == "ok"
    assert abs(gravity_c0 @ gravity_c0 - 9.81**2) < 1e-6
    assert 0.0 < std_deg < 1.0


def test_commands_of_the_readme_exist():
    from maci2.cli.app import app

    known = {command.callback.__name__.replace("_", "-") for command in app.registered_commands}
    used = set(re.findall(r"^    maci2 ([a-z-]+)", README, re.MULTILINE))
    assert used
    assert used <= known


def test_every_file_that_the_readme_links_exists():
    root = Path(__file__).resolve().parents[1]
    links = re.findall(r"\]\((docs/[\w./]+)\)", README)
    assert links
    for link in links:
        assert (root / link).is_file(), link
