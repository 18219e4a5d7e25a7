"""The page: numbers in it, nothing fetched, nothing broken in a browser."""

import json
import re
import shutil
from dataclasses import replace
from html import unescape

import pytest

from browser import needs_chromium, show
from maci2.errors import DatasetError
from maci2.evaluation.parallel import Pool
from maci2.experiments.catalogue import EUROC_INIT, EXPERIMENTS
from maci2.experiments.experiment import Settings
from maci2.experiments.recordings import find_recordings
from maci2.experiments.reproduce import reproduce
from maci2.reports.experiments_page import build_page
from maci2.reports.runs import read_runs

pytest.importorskip("plotly")


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
    page = build_page(runs)
    cells = [unescape(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", page)]
    for run in runs:
        for table in run.findings.tables:
            assert f"<h3>{table.title}</h3>" in page
            for line in table.lines:
                assert all(cell.text() in cells for cell in line.cells)


def test_the_page_fetches_nothing(results):
    page = build_page(read_runs([results]))
    own = page[: page.index("<script type='application/json'")] + page[page.rindex("<script>") :]
    assert not re.search(r"(src|href)=['\"]?(https?:)?//", own)
    assert "missing: MH_04_difficult: no such recording" in page


def test_a_verdict_cannot_end_the_script_that_carries_it(results):
    runs = read_runs([results])
    figure = next(one for one in runs[0].findings.figures if one["kind"] == "along")
    figure["series"][0]["verdict"][0] = "</script><script>alert(1)</script>"
    assert "</script><script>alert(1)" not in build_page(runs)


def test_two_runs_of_one_experiment_are_labelled_by_their_folders(results, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(results / "pose", other / "pose")
    index = other / "pose" / "experiment.json"
    about = json.loads(index.read_text())
    index.write_text(json.dumps(about | {"settings": {"seed": 7, "limit_s": 20.0}}))
    runs = read_runs([results / "pose", other / "pose"])
    assert runs[0].label != runs[1].label
    page = build_page(runs)
    assert "seed 0, limit_s 20.0" in page
    assert "seed 7, limit_s 20.0" in page


def test_results_of_another_version_are_drawn_and_say_so(results, tmp_path):
    shutil.copytree(results / "pose", tmp_path / "pose")
    index = tmp_path / "pose" / "experiment.json"
    about = json.loads(index.read_text())
    index.write_text(json.dumps(about | {"version": "0.0.1"}))
    assert "Run by version 0.0.1" in build_page(read_runs([tmp_path]))


def test_a_truncated_result_is_named_with_what_to_do(results, tmp_path):
    shutil.copytree(results / "pose", tmp_path / "pose")
    broken = next((tmp_path / "pose" / "results").iterdir())
    broken.write_bytes(broken.read_bytes()[:100])
    with pytest.raises(DatasetError, match=rf"{broken.name}: not a whole result.*reproduce"):
        read_runs([tmp_path])


def test_another_format_and_a_folder_without_results_are_refused(results, tmp_path):
    with pytest.raises(DatasetError, match=r"no experiment\.json in it"):
        read_runs([tmp_path])
    shutil.copytree(results / "pose", tmp_path / "pose")
    index = tmp_path / "pose" / "experiment.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"format": 99}))
    with pytest.raises(DatasetError, match="result format 99, needed 1"):
        read_runs([tmp_path])


@needs_chromium
@pytest.mark.parametrize("width", [390, 1280, 1440])
def test_a_browser_draws_every_figure_without_an_error(results, tmp_path, width):
    runs = read_runs([results])
    seen = show(build_page(runs), tmp_path, width, "#all")
    assert seen.errors == []
    assert seen.wide == ""
    figures = sum(len(run.findings.figures) for run in runs)
    assert seen.dom.count('data-drawn="1"') == figures
    # One plot in each figure, two where errors are shown along a recording.
    along = sum(f["kind"] == "along" for run in runs for f in run.findings.figures)
    assert len(re.findall(r'class="[^"]*js-plotly-plot', seen.dom)) == figures + along
    value = runs[0].findings.tables[0].lines[0].cells[0].text()
    assert value in unescape(seen.dom)


def test_the_experiment_with_rivals_has_every_kind_of_figure(results):
    [run] = read_runs([results / EUROC_INIT.name])
    kinds = {figure["kind"] for figure in run.findings.figures}
    assert kinds == {"distributions", "difficulty", "along", "bins", "ellipses"}
