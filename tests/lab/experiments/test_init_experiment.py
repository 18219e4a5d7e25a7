"""Experiments of several parts: which methods run, on how many windows, what is said of them."""

import json
from dataclasses import replace

import pytest

from maci2.errors import OptionError
from maci2_lab.experiments.catalogue import EUROC_INIT, VBR_INIT, by_methods, find_experiments
from maci2_lab.experiments.experiment import Settings
from maci2_lab.experiments.init_figures import success_over_difficulty
from maci2_lab.experiments.init_tables import PAPER_COLUMN, _order_claim, baseline_claims, label_of
from maci2_lab.experiments.initialization import CombinedExperiment, InitExperiment
from maci2_lab.experiments.methods import DROID, Method
from maci2_lab.experiments.paper_numbers import EUROC
from maci2_lab.experiments.recordings import find_recordings
from maci2_lab.experiments.reproduce import missing_inputs, reproduce
from maci2_lab.parallel import Pool

RAW = Method("maci2, raw IMU", paper_row="MAC-I2 w/o learned IMU")
LINEAR = Method("linear alignment", "linear")
POSES = InitExperiment("poses", "Poses", ("MH_02_easy", "V1_01_easy"), (RAW, LINEAR))
TRACKS = InitExperiment(
    "tracks",
    "Tracks",
    ("MH_02_easy",),
    tuple(
        replace(one, vision="tracks:1")
        for one in (RAW, Method("DRT-t", "drt-t", paper_row="DRT-t"))
    ),
    windows=(2,),
)
BOTH = CombinedExperiment("both", "poses and tracks", (POSES, TRACKS), EUROC)


@pytest.fixture(scope="module")
def done(simulated_root, tmp_path_factory):
    output = tmp_path_factory.mktemp("results")
    return reproduce(BOTH, find_recordings(simulated_root), output, Settings(), Pool(1))


def test_the_summary_has_every_method_once_and_the_paper_beside(done):
    gravity, velocity, success = done.findings.tables[:3]
    assert [line.label for line in gravity.lines] == ["maci2, raw IMU", "linear alignment", "DRT-t"]
    assert gravity.columns == (PAPER_COLUMN, "Poses: truth:0.05,0.003", "Tracks: tracks:1")
    ours, linear, drt = success.lines
    assert [cell.value for cell in ours.cells] == [0.999, 1.0, 1.0]
    assert linear.cells[0].value is None
    assert linear.cells[2].value is None
    assert drt.cells[0].value == 0.633
    assert velocity.lines[0].cells[1].best


def test_tables_and_claims_of_parts_say_whose_they_are(done):
    titles = [table.title for table in done.findings.tables[3:]]
    assert titles[0].startswith("Poses: gravity")
    assert any(title.startswith("Tracks: velocity") for title in titles)


def test_few_windows_are_spread_over_the_recording(simulated_root, done):
    tasks = BOTH.tasks(find_recordings(simulated_root), Settings())
    assert [task.options["windows"] for task in tasks] == [0, 0, 0, 0, 2, 2]
    whole, few = (
        [
            row.index
            for row in BOTH.parts[part].board(_records(done)).rows[method, 2.5, "MH_02_easy"]
        ]
        for part, method in ((0, RAW), (1, TRACKS.methods[0]))
    )
    assert few == [whole[0], whole[-1]]


def _records(done):
    files = sorted((done.folder / "results").glob("*.json"))
    return {file.stem: json.loads(file.read_text()) for file in files}


def test_what_one_part_lacks_is_not_asked_of_another(simulated_root):
    on_droid = replace(POSES, recordings=("MH_02_easy",), methods=(replace(RAW, vision=DROID),))
    lacking = replace(BOTH, parts=(on_droid, replace(TRACKS, recordings=("V1_01_easy",))))
    assert missing_inputs(lacking, find_recordings(simulated_root)) == (
        "MH_02_easy: no visual/droid_stereo_Twc_tum.txt",
    )


def test_rows_of_several_inputs_say_which_they_are_on(done):
    board = POSES.board(_records(done))
    assert label_of(board, RAW) == "maci2, raw IMU"
    both = replace(board, methods=(RAW, replace(RAW, vision=DROID)))
    assert label_of(both, RAW) == "maci2, raw IMU, truth:0.05,0.003"


def test_the_papers_order_is_checked_pair_by_pair():
    rates = {"VINS-Mono": 0.4, "DRT-t": 0.5, "Stereo-NEC": 0.45, "ORB-SLAM3": 0.46}
    claim = _order_claim("here", rates, EUROC)
    assert not claim.holds
    # DRT-t and Stereo-NEC, DRT-t and ORB-SLAM3 differ the other way; the last two not at all.
    assert "in the paper's order in 3 of 5 pairs" in claim.text
    assert "DRT-t 0.500 above Stereo-NEC 0.450" in claim.text
    assert _order_claim("here", {"VINS-Mono": 0.1, "DRT-t": 0.9}, EUROC).holds
    assert _order_claim("here", {"DRT-t": 0.9, "DRT-l": 0.1}, EUROC) is None


def test_a_baseline_that_is_better_is_named(done):
    board = POSES.board(_records(done))
    ours = board.rows[RAW, 2.5, "MH_02_easy"]
    assert all(claim.holds for claim in baseline_claims(board, None)[:1])
    swapped = {
        (RAW if method is LINEAR else LINEAR, stride_s, name): rows
        for (method, stride_s, name), rows in board.rows.items()
    }
    claims = baseline_claims(replace(board, rows=swapped), None)
    assert len(ours) > 1
    [lost] = [claim for claim in claims if "lowest velocity" in claim.text]
    assert not lost.holds
    assert "; linear alignment has" in lost.text


def test_success_over_difficulty_counts_every_window_of_every_method(done):
    board = POSES.board(_records(done))
    figure = success_over_difficulty(board, list(board.methods), RAW.vision)
    for one in figure["series"]:
        assert sum(one["count"]) == len(board.pooled(RAW))
        assert all(0.0 <= success <= 1.0 for success in one["success"])


@pytest.mark.parametrize("name", ["DRT-t", "drt-t", "DRT-t (mono)"])
def test_a_method_is_found_by_its_row_or_its_initializer(name):
    [kept] = by_methods(find_experiments(["euroc-init"]), [name])
    assert {method.initializer for part in kept.parts for method in part.methods} == {"drt-t"}
    assert len(kept.parts) == 5


def test_a_method_that_no_experiment_has_is_told_what_exists():
    with pytest.raises(
        OptionError, match=r"--method drt: no row of euroc-init; choose from .*drt-l"
    ):
        by_methods(find_experiments(["euroc-init"]), ["drt"])


def test_every_row_of_the_papers_tables_is_there_on_every_input():
    for part in EUROC_INIT.parts[1:2]:
        for vision in {method.vision for method in part.methods}:
            rows = {method.paper_row for method in part.methods if method.vision == vision}
            assert set(EUROC.rows) <= rows
    for part in EUROC_INIT.parts[3:]:
        assert set(EUROC.rows) <= {method.paper_row for method in part.methods}
    assert {"VINS-Fusion", "ORB-SLAM3"} <= {one.paper_row for one in VBR_INIT.parts[1].methods}
