"""`maci2 imu-report`: shape of the report, figures, and the numbers promised on real recordings."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from maci2.cli.app import app
from maci2.datasets import open_recording, write_euroc
from maci2.errors import OptionError
from maci2.imu.learned_model import bundled_models, load_imu_model
from maci2.simulation import SimulationConfig, simulate
from maci2_lab.evaluation.imu_report import (
    choose_predictors,
    imu_report,
    model_predictor,
    unlearned_predictor,
)

PARTS = ("rotation", "velocity", "position")


@pytest.fixture(scope="module")
def flight():
    return simulate(SimulationConfig(kind="drone", duration_s=15.0, seed=4, bias_gyro_std=0.0))


@pytest.mark.slow
def test_true_noise_gives_a_nees_of_one():
    """White noise exactly as the data sheet says and no bias: the raw predictor must be right."""
    config = SimulationConfig(
        kind="drone", duration_s=120.0, seed=5, bias_walk=False, bias_gyro_std=0.0, bias_acc_std=0.0
    )
    report = imu_report(
        [simulate(config)], {"raw": unlearned_predictor("datasheet")}, growth_s=(0.25,)
    )
    for part in PARTS:
        assert 0.8 < report["average"]["raw"]["nees"]["0.25"][part] < 1.25


def test_a_report_holds_what_the_design_promises(flight):
    report = imu_report(
        [flight], {"raw": unlearned_predictor("datasheet")}, growth_s=(0.25, 0.5), bins=5
    )
    numbers = report["sequences"][flight.name]["models"]["raw"]
    for quantity in ("nees", "rms"):
        assert set(numbers[quantity]) == {"0.25", "1.0"}
        assert set(numbers[quantity]["0.25"]) == set(PARTS)
    assert set(numbers["growth"]["rms"]) == {"0.25", "0.5"}
    rows = report["bins"]["raw"]["1.0"]["velocity"]
    assert len(rows) == 5
    assert max(row["count"] for row in rows) - min(row["count"] for row in rows) <= 1
    for row in rows:
        assert row["ratio"] == pytest.approx(row["rms"] / row["predicted"])
    json.dumps(report, allow_nan=False)


def test_no_recording_is_an_error():
    with pytest.raises(OptionError, match="no recording given"):
        imu_report([], {"raw": unlearned_predictor("datasheet")})


def test_rivals_stand_beside_the_model(flight):
    chosen = choose_predictors([flight], [], baselines=True)
    assert set(chosen) == {name for name in bundled_models() if name.startswith("euroc")} | {
        "datasheet"
    }
    assert set(choose_predictors([flight], ["tumvi"], baselines=False)) == {"tumvi"}


def test_label_noise_goes_by_the_kind_of_truth():
    predictor = model_predictor(load_imu_model("euroc"))
    assert predictor.labels("V1_03_difficult") == predictor.labels("V2_02_medium")
    assert predictor.labels("MH_02_easy") != predictor.labels("V1_01_easy")
    assert predictor.labels("my_own_flight").std_rotation == 0.0


def test_the_command_writes_report_and_figures(flight, tmp_path):
    pytest.importorskip("matplotlib")
    write_euroc(flight, tmp_path / "flight")
    out = tmp_path / "out"
    arguments = ["imu-report", str(tmp_path / "flight"), "--imu", "euroc-datasheet"]
    # The simulated IMU is mounted differently from EuRoC's, which the model must notice.
    result = CliRunner().invoke(app, [*arguments, "--no-rivals", "-o", str(out)])
    assert isinstance(result.exception, Exception)
    assert "order and signs of the axes" in str(result.exception)


def test_figures_are_drawn(flight, tmp_path):
    pytest.importorskip("matplotlib")
    from maci2_lab.reports.figures import plot_figures

    report = imu_report(
        [flight],
        {"raw": unlearned_predictor("datasheet"), "sheet": unlearned_predictor("datasheet")},
        growth_s=(0.25, 0.5),
    )
    paths = plot_figures(report, tmp_path)
    assert [path.name for path in paths] == [
        "imu_bins_0.25.png",
        "imu_bins_1.0.png",
        "imu_growth.png",
    ]
    assert all(path.stat().st_size > 5000 for path in paths)
    both = plot_figures(report | {"audited": report}, tmp_path)
    assert {path.name for path in both} - {path.name for path in paths} == {
        "imu_bins_0.25_audited.png",
        "imu_bins_1.0_audited.png",
    }


def test_the_command_prints_and_writes_scores_against_both_truths(flight, tmp_path):
    write_euroc(flight, tmp_path / "flight")
    record = tmp_path / "report.json"
    arguments = ["imu-report", str(tmp_path / "flight"), "--imu", "datasheet", "--no-baselines"]
    result = CliRunner().invoke(app, [*arguments, "--json", str(record)], catch_exceptions=False)
    assert result.exit_code == 0
    said = " ".join(result.output.split())
    assert "against the ground truth as published" in said
    assert "against the audited ground truth" in said
    report = json.loads(record.read_text(encoding="utf-8"))
    assert set(report["audited"]["average"]["datasheet"]["nees"]) == {"0.25", "1.0"}


def test_the_model_command_lists_and_prints_cards():
    listed = CliRunner().invoke(app, ["model"])
    assert listed.exit_code == 0
    assert "euroc-paper" in listed.stdout
    card = CliRunner().invoke(app, ["model", "euroc"])
    assert card.exit_code == 0
    assert "trained on      MH_01_easy" in card.stdout


SETS = {
    "euroc": ("euroc", ("MH_02_easy", "MH_04_difficult", "V1_01_easy")),
    "tumvi": ("tumvi", ("dataset-room2_512_16", "dataset-room4_512_16")),
}


@pytest.fixture(scope="module", params=SETS)
def unseen(request, data_root):
    """The report on recordings that no bundled model has seen."""
    folder, names = SETS[request.param]
    recordings = [open_recording(data_root / folder / name) for name in names]
    predictors = choose_predictors(recordings, [], baselines=True)
    return request.param, imu_report(recordings, predictors, audit=True)


def scored(model, report):
    """What a model has to agree with: `tumvi` states velocities after 1 s too wide against audited
    truths."""
    return (report, report["audited"]) if model == "euroc" else (report,)


@pytest.mark.dataset
def test_covariances_are_true_on_unseen_recordings(unseen):
    model, report = unseen
    for against in scored(model, report):
        for h in ("0.25", "1.0"):
            for part in PARTS:
                assert 0.6 < against["average"][model]["nees"][h][part] < 1.6
                for one in against["sequences"].values():
                    assert 0.25 < one["models"][model]["nees"][h][part] < 3.0


@pytest.mark.dataset
def test_rivals_are_overconfident_on_unseen_recordings(unseen):
    model, report = unseen

    def worst(rival):
        found = (one["models"][f"{model}-{rival}"]["nees"] for one in report["sequences"].values())
        return max(nees[h][part] for nees in found for h in nees for part in PARTS)

    assert worst("datasheet") > 10.0
    assert worst("airimu") > 2.5


@pytest.mark.dataset
def test_every_bin_lies_near_the_diagonal_on_unseen_recordings(unseen):
    model, report = unseen
    for against in scored(model, report):
        for parts in against["bins"][model].values():
            for part in PARTS:
                assert len(parts[part]) >= 5
                assert all(0.6 < row["ratio"] < 1.7 for row in parts[part])


@pytest.mark.dataset
def test_integration_over_a_second_beats_raw_and_a_constant(unseen):
    model, report = unseen
    rms = {
        name: np.array(list(one["rms"]["1.0"].values())) for name, one in report["average"].items()
    }
    assert (rms[model] < rms["datasheet"]).all()
    assert (rms[model] < rms[f"{model}-paramnet"]).all()
