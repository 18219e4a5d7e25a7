"""Every page, as text and as a browser shows it on a phone, a laptop and a wide screen."""

import re

import pytest

from browser import needs_chromium, show
from maci2.datasets import open_recording
from maci2.diagnostics.diagnose import examine_path
from maci2.evaluation.protocol import window_errors
from maci2.pipeline.offline import initialize_recording
from maci2.pipeline.options import RunOptions, VisionSource
from maci2.reports.diagnostics_page import diagnostics_page
from maci2.reports.html import Section, page, table
from maci2.reports.init_page import init_page
from maci2.reports.svg import Series, chart, nice_ticks

WIDTHS = [390, 1280, 1440]


@pytest.fixture(scope="module")
def pages(drawn):
    """HTML of pages by name, from three seconds of rendered flight."""
    options = RunOptions(VisionSource("images", frame="rectified"))
    inputs, initialized = initialize_recording(drawn, options)
    errors = window_errors(inputs, initialized)
    return {
        "init": init_page(inputs, initialized, errors, "maci2 init flight --report init.html"),
        "check": diagnostics_page(
            examine_path(drawn), open_recording(drawn), "maci2 check flight -o check.html"
        ),
    }


@pytest.mark.parametrize("name", ["init", "check"])
def test_a_page_holds_everything_and_fetches_nothing(pages, name):
    html = pages[name]
    assert html.count("<svg") >= 4
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", html)
    assert f"maci2 {name} flight" in html


def test_the_init_page_says_what_was_found_and_how_sure(pages):
    for text in ("verdict: <b>ok</b>", "gyroscope bias", "1-sigma", "rad/s", "Points followed"):
        assert text in pages["init"], text
    assert pages["init"].count('<circle cx="') > 50


@needs_chromium
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["init", "check"])
def test_a_browser_shows_a_page_without_an_error_and_without_clipping(pages, name, width, tmp_path):
    shown = show(pages[name], tmp_path, width)
    assert shown.errors == []
    assert shown.wide == ""


def test_text_is_escaped_wherever_it_comes_from():
    html = page("<b>", "", [Section("<i>", table(("<u>",), [("<s>",)]))], "maci2 init '<a>'")
    for tag in ("<b>", "<i>", "<u>", "<s>", "<a>"):
        assert tag not in html


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


def test_a_chart_leaves_out_what_is_not_a_number():
    import numpy as np

    x = np.arange(4.0)
    svg = chart([Series("a", x, np.array([1.0, np.nan, 2.0, np.inf]))], "x", "y")
    assert "nan" not in svg
    assert "inf" not in svg
    assert len(re.search(r'polyline points="([^"]*)"', svg)[1].split()) == 2
