"""What visual covariances show, from rows written by hand."""

from maci2_lab.experiments.covariances import visual_findings
from maci2_lab.experiments.recordings import find_recordings


def row(model, pose):
    bins = [{"predicted": 1.0, "actual": 1.1, "count": 6}]
    return {
        "model": model,
        "steps": 37,
        "unmeasured": 1,
        "rotation_deg": 0.026,
        "translation_m": 0.00135,
        "nees": {"pose": pose, "rotation": 0.6, "translation": 0.9},
        "bins": {"rotation": bins, "translation": bins},
    }


def findings(pose):
    rows = [row("learned", pose), row("fixed", 60.0)]
    return visual_findings([{"task": {"recording": "MH_01_clip"}, "rows": rows}])


def test_models_stand_beside_each_other_in_millimetres():
    [table] = findings(0.8).tables
    learned, fixed = table.lines
    assert learned.cells[3].text() == "1.35"
    assert fixed.cells[4].text() == "60.00"
    assert {figure["kind"] for figure in findings(0.8).figures} == {"bins"}


def test_the_statement_holds_only_for_covariances_that_are_true():
    assert [claim.holds for claim in findings(0.8).claims] == [True]
    assert [claim.holds for claim in findings(2.7).claims] == [False]


def test_a_recording_without_rows_shows_nothing():
    nothing = visual_findings([{"task": {"recording": "MH_02_easy"}, "rows": []}])
    assert nothing.tables == []
    assert nothing.claims == []


def test_vbr_folders_are_found_under_the_papers_names(tmp_path):
    folder = tmp_path / "vbr" / "campus_train0"
    folder.mkdir(parents=True)
    (folder / "campus_train0_00.bag").touch()
    (folder / "vbr_calib.yaml").touch()
    assert set(find_recordings(tmp_path).by_name) == {"campus0"}
