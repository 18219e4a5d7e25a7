"""What the documentation shows must run.

Blocks of a page run in their order, in a folder of their own. A comment before a block says what
else is done with it:

    <!-- slow: why -->    runs in the slow tests; here its commands are only parsed
    <!-- parse: why -->   takes hours or needs data that is not here: its commands are only parsed

A block after `<!-- exit 1 -->` shows a fault: its commands run and must end with that code.
Blocks of output (```text) must be what the command before them prints, up to digits and spaces.
"""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import maci2
from maci2.cli.app import app
from maci2_lab.baselines import INITIALIZERS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
BLOCK = re.compile(
    r"(?:^<!-- (slow|parse|exit)(?::| 1) ?[^\n]*-->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S
)
INDENTED_COMMAND = re.compile(r"^ {4}(maci2 [^\n]+)$", re.M)
COMMANDS = typer.main.get_command(app).commands
WITH_FLIGHT = {
    "api/live.md",
    "api/maci2.md",
    "api/recordings.md",
    "api/vision.md",
    "tutorials/initialize.md",
}
SLOW_PAGES = [page for page in PAGES if "<!-- slow:" in (DOCS / page).read_text()]


@dataclass(frozen=True)
class Block:
    mark: str
    """slow, parse, exit, or nothing."""

    language: str
    text: str


def blocks_of(page: str) -> list[Block]:
    return [Block(*found.groups(default="")) for found in BLOCK.finditer((DOCS / page).read_text())]


def commands_of(block: Block) -> list[list[str]]:
    lines = [shlex.split(line, comments=True) for line in block.text.splitlines()]
    return [words for words in lines if words]


def without_numbers(text: str) -> str:
    """Digits and spaces differ between machines; words do not."""
    return re.sub(r"\s+", "", re.sub(r"[+-]?\d[\d.e-]*", "#", text))


class Session:
    """A reader who types what a page says into a terminal, in an empty folder."""

    def __init__(self, monkeypatch, capsys) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        self.names = {"__name__": "page"}
        self.printed = [""]

    def run(self, block: Block) -> None:
        if block.language == "python":
            exec(compile(block.text, "page", "exec"), self.names)
            self.printed.append(self.capsys.readouterr().out)
        elif block.language == "bash":
            code = 1 if block.mark == "exit" else 0
            self.printed.append("".join(self.command(words, code) for words in commands_of(block)))
        elif block.language == "text":
            for line in block.text.splitlines():
                assert without_numbers(line) in without_numbers(self.printed[-1]), line
        else:
            raise AssertionError(f"a block of '{block.language}' is not tested")

    def command(self, words: list[str], code: int) -> str:
        if words[0] == "maci2":
            result = CliRunner().invoke(app, words[1:], catch_exceptions=False)
            assert result.exit_code == code, result.output
            return result.output
        if words[0] == "python":
            self.monkeypatch.setattr(sys, "argv", words[1:])
            runpy.run_path(str(ROOT / words[1]), run_name="__main__")
            return self.capsys.readouterr().out
        check_words(words)
        return ""


def check_words(words: list[str]) -> None:
    """Is it a command that could run? Unknown commands, options, files and extras are not."""
    if words[0] == "maci2":
        assert words[1] in COMMANDS, f"maci2 {words[1]} does not exist"
        COMMANDS[words[1]].make_context(words[1], words[2:])
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file(), words[1]
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M), words[1]
    elif words[:2] == ["pip", "install"]:
        package, extra = re.fullmatch(r"(maci2|maci2-lab)\[(\w+)\]", words[2]).groups()
        project = (ROOT / "packages" / package / "pyproject.toml").read_text()
        assert extra in tomllib.loads(project)["project"]["optional-dependencies"], words[2]
    else:
        # Where the reader is: not for a test.
        assert shlex.join(words) in ("cd maci2", ". .venv/bin/activate"), words


@pytest.fixture
def session(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    known = dict(INITIALIZERS)
    yield Session(monkeypatch, capsys)
    INITIALIZERS.clear()
    INITIALIZERS.update(known)


def parse(block: Block) -> None:
    if block.language == "bash":
        for words in commands_of(block):
            check_words(words)
    elif block.language == "python":
        compile(block.text, "page", "exec")


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_runs(page, session, rendered):
    if page in WITH_FLIGHT:
        # Rendering takes longest; the flight of the other tests stands in for this page's.
        shutil.copytree(rendered, "flight")
    for block in blocks_of(page):
        parse(block) if block.mark in ("slow", "parse") else session.run(block)


@pytest.mark.slow
@pytest.mark.parametrize("page", SLOW_PAGES)
def test_what_a_page_draws_runs_too(page, session):
    for block in blocks_of(page):
        parse(block) if block.mark == "parse" else session.run(block)
    if page == "tutorials/calibrate.md":
        found = re.search(r"ok: ([\d.]+) deg and ([\d.]+) mm", "".join(session.printed))
        assert float(found[1]) < 0.3
        assert float(found[2]) < 6.0


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_stand_alone_are_understood(page):
    """Indented ones, as in pages on experiments: they need recordings and are only parsed."""
    for line in INDENTED_COMMAND.findall((DOCS / page).read_text()):
        # Brackets say that something may be left out.
        check_words(shlex.split(re.sub(r"[][]", "", line), comments=True))


def test_every_page_is_in_the_contents():
    contents = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES:
        assert f": {page}\n" in contents, page


def test_every_public_name_has_a_section_with_an_example():
    sections = {}
    for page in PAGES:
        if page.startswith("api/"):
            code = "".join(b.text for b in blocks_of(page) if b.language == "python")
            for name in re.findall(r"^## (\w+)$", (DOCS / page).read_text(), re.M):
                sections[name] = code
    for name in set(maci2.__all__) - {"__version__"}:
        assert f"maci2.{name}" in sections[name], name


def test_every_question_has_a_section():
    sections = re.findall(r"^## (\d+)\. ", (DOCS / "howto.md").read_text(), re.M)
    assert [int(number) for number in sections] == list(range(1, 21))


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path):
    pytest.importorskip("mkdocs")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", tmp_path],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True,
    )  # fmt: skip
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES)
    fetched = re.compile(r"""<(?:script|img|link)[^>]+(?:src|href)=["']?(?:https?:)?//""")
    for page in pages:
        assert not fetched.search(page.read_text()), page
