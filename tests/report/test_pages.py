"""Every page, as text and as a browser shows it on a phone, a laptop and a wide screen."""

import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from browser import faults, needs_chromium, show
from maci2.api import initialize_recording
from maci2.cli.app import app
from maci2.datasets import write_euroc
from maci2.demo import run_demo
from maci2.estimator import Verdict
from maci2.report.charts import Series, axis_ticks, chart, nice_ticks
from maci2.report.drawings import Labels
from maci2.report.estimate_pages import init_page
from maci2.report.html import Section, page, table
from maci2.simulation import SimulationConfig, simulate

TRUTH = ("--vision", "truth:0.05,0.003")
COMMANDS = {
    "check": ("check", "flight", "-o"),
    "calibrate": ("calibrate", "walk", *TRUTH, "--report"),
    "track": ("track", "flight", "--report"),
    "track_truth": ("track", "walk", *TRUTH, "--report"),
    "noise": ("noise", "walk", "--report"),
    "truth": ("truth", "walk", "-o", "FOLDER", "--report"),
}
"""Command of each page; the page's path comes last."""

KINDS = ["init", "failed", *COMMANDS]


@pytest.fixture(scope="module")
def pages(rendered, tmp_path_factory):
    """HTML of pages by name, from three seconds of rendered flight and a simulated walk."""
    folder = tmp_path_factory.mktemp("pages")
    write_euroc(simulate(SimulationConfig(duration_s=13.0, seed=3)), folder / "walk")
    paths = {"flight": rendered, "walk": folder / "walk", "FOLDER": folder / "audited"}
    html = {}
    for name, words in COMMANDS.items():
        path = folder / f"{name}.html"
        typed = [str(paths.get(word, word)) for word in (*words, path)]
        run = CliRunner().invoke(app, typed, catch_exceptions=False)
        assert run.exit_code == 0, run.output
        html[name] = path.read_text(encoding="utf-8")
    result = initialize_recording(rendered)
    html["init"] = init_page(result, "maci2 init flight")
    nothing = {"state": None, "posterior": None, "errors": None}
    failed = replace(result, verdict=Verdict("failed", ("no answer",)), **nothing)
    html["failed"] = init_page(failed, "maci2 init flight")
    return html


@pytest.mark.parametrize("name", KINDS)
def test_a_page_is_whole_and_fetches_nothing(pages, name):
    html = pages[name]
    assert html.count("<svg") >= (1 if name == "failed" else 2)
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", html)
    assert not re.search(r"\bnan\b", re.sub(r"base64,[^\"]*", "", html))
    assert "Made by <code>" in html
    assert "numpy" in html


@pytest.mark.parametrize("name", [name for name in KINDS if name != "failed"])
def test_what_was_found_and_how_sure_comes_before_any_picture(pages, name):
    lead = pages[name].partition("</header>")[0]
    assert "<svg" not in lead.partition("<header>")[2]
    words = {"check": "usable", "truth": "1-sigma, one axis"}.get(name, "1-sigma")
    assert words in lead


def test_the_init_page_says_what_was_found_and_how_sure(pages):
    for text in ("verdict: <b>ok</b>", "gyroscope bias [rad/s]", "points tracked", "keyframes"):
        assert text in pages["init"], text
    assert pages["init"].count('<circle cx="') > 50


@needs_chromium
def test_a_browser_shows_every_page_without_an_error_and_without_clipping(pages, tmp_path):
    assert faults(pages, tmp_path) == []


@needs_chromium
def test_the_browser_does_find_what_is_wide_cut_off_or_broken(tmp_path):
    wide = "<div style='width: 700px'>broad</div>"
    cut = "<svg viewBox='0 0 50 50' width='50'><text x='40' y='20'>far too long</text></svg>"
    broken = {"broken": page("broken", wide + cut, [], "", "<script>throw 1</script>")}
    shown, console = show(broken, tmp_path)
    assert shown["broken", 390].wide == ["DIV.null: broad"]
    assert shown["broken", 390].scrolls
    assert shown["broken", 1440].wide == []
    assert shown["broken", 1440].cut == ["text.null: far too long"]
    assert len(console) == 3


@needs_chromium
@pytest.mark.slow
def test_the_demo_and_what_it_shows_in_a_browser(tmp_path):
    run_demo(tmp_path / "demo", seed=1, command="maci2 demo --seed 1")
    html = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert "minus the true one" in html
    assert faults({"demo": html}, tmp_path) == []


def test_text_is_escaped_wherever_it_comes_from():
    rows = table(("<u>", "<q>"), [("<s>", "<p>")], stacked=True)
    options = {"<dt>": "<dd>"}
    html = page("<b>", "", [Section("<i>", rows)], "maci2 init '<a>'", options=options)
    for tag in ("<b>", "<i>", "<u>", "<q>", "<s>", "<p>", "<a>"):
        assert tag not in html.partition("<footer>")[0]
    assert "&lt;dt&gt;" in html


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 10.0, [0, 2, 4, 6, 8, 10]),
        (-0.3, 0.31, [-0.2, 0.0, 0.2]),
        (5.0, 5.4, [5.0, 5.1, 5.2, 5.3, 5.4]),
    ],
)
def test_ticks_are_round_numbers_inside_the_range(low, high, ticks):
    assert nice_ticks(low, high) == pytest.approx(ticks, abs=1e-12)


def test_ticks_of_a_logarithmic_axis_say_the_numbers_themselves():
    assert [text for _, text in axis_ticks(-3.0, 1.0, True)] == ["0.001", "0.01", "0.1", "1", "10"]
    assert [text for _, text in axis_ticks(0.0, 0.75, True)] == ["1", "2", "5"]


def test_a_chart_leaves_out_what_is_not_a_number():
    x = np.arange(4.0)
    svg = chart([Series("a", x, np.array([1.0, np.nan, 2.0, np.inf]))], "x", "y")
    assert "nan" not in svg
    assert "inf" not in svg
    assert len(re.search(r'polyline points="([^"]*)"', svg)[1].split()) == 2
    svg = chart([Series("a", x, np.array([1.0, 0.0, -2.0, 9.0]))], "x", "y", logarithmic=(0, 1))
    assert len(re.search(r'polyline points="([^"]*)"', svg)[1].split()) == 2


def test_names_are_placed_beside_each_other_and_inside_the_picture():
    labels = Labels(200.0, 100.0)
    labels.avoid(np.array([5.0, 50.0]), np.array([195.0, 50.0]))
    anchor = np.array([190.0, 50.0])
    placed = [labels.place(anchor, name, np.array([1.0, 0.0])) for name in ("first", "second")]
    boxes = []
    for svg, name in zip(placed, ("first", "second"), strict=True):
        x, y = (float(re.search(rf'{axis}="([-\d.]+)"', svg)[1]) for axis in "xy")
        half = 3.6 * len(name)
        assert 0.0 <= x - half < x + half <= 200.0
        boxes.append((x - half, x + half, y - 10.5, y + 2.5))
    (left, right, top, bottom), (left2, right2, top2, bottom2) = boxes
    assert right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top
    assert all(bottom <= 50.0 or top >= 50.0 for _, _, top, bottom in boxes)
