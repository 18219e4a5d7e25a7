"""The page: numbers in it, nothing fetched, nothing broken in a browser."""

import re
import shutil
from dataclasses import replace
from html import unescape

import pytest

from browser import faults, needs_chromium
from maci2.errors import DatasetError
from maci2_lab.experiments.catalogue import EUROC_INIT, EXPERIMENTS
from maci2_lab.experiments.experiment import Settings
from maci2_lab.experiments.recordings import find_recordings
from maci2_lab.experiments.reproduce import reproduce
from maci2_lab.experiments.store import FORMAT, read_result, write_result
from maci2_lab.parallel import Pool
from maci2_lab.reports.experiments_page import build_page, experiment_figure, read_runs

COMMAND = "maci2 reproduce euroc-init pose"


@pytest.fixture(scope="module")
def results(simulated_root, tmp_path_factory):
    output = tmp_path_factory.mktemp("results")
    found = find_recordings(simulated_root)
    # Rows on tracks are like the others, and take longer: two of them do.
    poses, tracks = (replace(part, strides_s=(2.5,), windows=()) for part in EUROC_INIT.parts[:2])
    few = replace(EUROC_INIT, parts=(poses, tracks.by_methods(["maci2", "drt-t"])))
    for experiment in (few, replace(EXPERIMENTS["pose"], strides_s=(2.5,))):
        reproduce(experiment, found, output, Settings(), Pool(1))
    return output


def test_every_number_of_every_table_stands_in_the_page(results):
    runs = read_runs([results])
    page = build_page(runs, COMMAND)
    cells = [unescape(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", page)]
    for run in runs:
        for table in run.findings.tables:
            assert f"<h3>{table.title}</h3>" in page
            for line in table.lines:
                assert all(cell.text() in cells for cell in line.cells)


def test_the_page_fetches_nothing(results):
    page = build_page(read_runs([results]), COMMAND)
    assert not re.search(r"(src|href)=['\"]?(https?:)?//", page)
    assert "<script" not in page
    assert COMMAND in page
    assert "missing: MH_04_difficult: no such recording" in page


def test_a_verdict_is_text_whatever_it_says(results):
    runs = read_runs([results])
    figure = next(one for one in runs[0].findings.figures if one["kind"] == "along")
    figure["series"][0]["verdict"][0] = "</title><script>alert(1)</script>"
    assert "&lt;script&gt;alert(1)" in build_page(runs, COMMAND)
    assert "<script" not in build_page(runs, COMMAND)


def test_two_runs_of_one_experiment_are_labelled_by_their_folders(results, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(results / "pose", other / "pose")
    index = other / "pose" / "experiment.json"
    write_result(index, read_result(index) | {"settings": {"seed": 7, "limit_s": 20.0}})
    runs = read_runs([results / "pose", other / "pose"])
    assert runs[0].label != runs[1].label
    page = build_page(runs, COMMAND)
    assert "seed 0, limit_s 20.0" in page
    assert "seed 7, limit_s 20.0" in page


def test_results_of_another_version_are_drawn_and_say_so(results, tmp_path):
    shutil.copytree(results / "pose", tmp_path / "pose")
    index = tmp_path / "pose" / "experiment.json"
    write_result(index, read_result(index) | {"version": "0.0.1"})
    assert "Run by version 0.0.1" in build_page(read_runs([tmp_path]), COMMAND)


def test_a_truncated_result_is_named_with_what_to_do(results, tmp_path):
    shutil.copytree(results / "pose", tmp_path / "pose")
    broken = next((tmp_path / "pose" / "results").iterdir())
    broken.write_bytes(broken.read_bytes()[:100])
    with pytest.raises(DatasetError, match=rf"{broken.name}: is missing, damaged.*reproduce"):
        read_runs([tmp_path])


def test_another_format_and_a_folder_without_results_are_refused(results, tmp_path):
    with pytest.raises(
        DatasetError, match=r"neither it nor its subfolders contain experiment\.json"
    ):
        read_runs([tmp_path])
    shutil.copytree(results / "pose", tmp_path / "pose")
    index = tmp_path / "pose" / "experiment.json"
    write_result(index, read_result(index) | {"format": FORMAT + 97})
    with pytest.raises(DatasetError, match=f"result format {FORMAT + 97}, needed {FORMAT}"):
        read_runs([tmp_path])


@needs_chromium
def test_a_browser_shows_every_figure_without_an_error_and_without_clipping(results, tmp_path):
    runs = read_runs([results])
    page = build_page(runs, COMMAND)
    assert faults({"experiments": page}, tmp_path) == []
    figures = sum(len(run.findings.figures) for run in runs)
    assert page.count("<figure") == figures
    assert page.count("<svg") >= figures


def test_the_experiment_with_rivals_has_every_kind_of_figure(results):
    [run] = read_runs([results / EUROC_INIT.name])
    kinds = {figure["kind"] for figure in run.findings.figures}
    assert kinds == {"distributions", "difficulty", "along", "bins", "ellipses"}


def test_success_is_from_0_to_1_in_every_chart_whatever_the_methods_reach():
    """One chart of methods that all succeed, one of methods that do not, drawn alike."""
    rates = [1.0] * 7 + [0.2] * 3
    series = [
        {"name": f"m{i}", "difficulty": [0.0, 0.4], "success": [rate, rate], "count": [5, 5]}
        for i, rate in enumerate(rates)
    ]
    text = experiment_figure({"kind": "difficulty", "unit": "share", "series": series})
    charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    first = [re.search(r'<polyline points="([^"]*)"', chart)[1] for chart in charts]
    assert len(charts) == 2
    assert first[0] == first[1]
    assert all({">0<", ">0.5<", ">1<"} <= set(re.findall(r">[\d.]+<", chart)) for chart in charts)


def test_every_kind_of_figure_stands_values_that_are_missing():
    missing = {"name": "a", "values": [None, 1.0, 2.0], "time_s": [0.0, 1.0], "error": [None, 0.1],
               "verdict": ["x", "y"], "position": [None, None], "predicted": [None, 1.0],
               "actual": [1.0, None], "count": [1, 2], "rms": [None, 1.0], "difficulty": [0.0, 0.2],
               "success": [None, 1.0]}  # fmt: skip
    for kind, parts in (
        ("distributions", {"groups": [missing, {"name": "b", "values": []}]}),
        ("along", {"series": [missing]}),
        ("bins", {"series": [missing]}),
        ("growth", {"series": [missing]}),
        ("difficulty", {"series": [missing]}),
    ):
        svg = experiment_figure({"kind": kind, "unit": "deg", "title": kind, **parts})
        assert "<svg" in svg
        assert "nan" not in svg
    for kind, parts in (
        ("distributions", {"groups": [{"name": "b", "values": [None]}]}),
        ("along", {"series": []}),
        ("bins", {"series": []}),
        ("ellipses", {"points": []}),
    ):
        text = experiment_figure({"kind": kind, "unit": "deg", "title": kind, **parts})
        assert text.startswith("<p>No")
