"""The commands on images: simulate, vo, vo-report, init."""

import json
from dataclasses import replace

import numpy as np
from typer.testing import CliRunner

from maci2.cli.app import app
from maci2.datasets import open_recording, write_euroc
from maci2.sensors import truth_at
from maci2.simulation import SimulationConfig, simulate


def run(*words) -> str:
    """Output of a command that must succeed."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_simulate_renders_images_that_vo_can_use(tmp_path):
    words = ["simulate", tmp_path / "seq", "--images", "--duration", 0.5, "--rate", 10]
    run(*words, "--difficulty", "hard", "--degrade", "light=0.5", "--motion", "drone")
    assert len(list((tmp_path / "seq" / "mav0" / "cam1" / "data").glob("*.png"))) == 5
    output = run("vo", tmp_path / "seq", "-o", tmp_path / "poses.npz", "--interval", 0.1)
    assert "4 relative poses" in output
    with np.load(tmp_path / "poses.npz") as file:
        assert file["stamps_ns"].shape == (4, 2)
        assert file["T_ck_ck1"].shape == (4, 4, 4)
        assert (np.linalg.eigvalsh(file["cov"]) > 0.0).all()
        assert str(file["frame"]) == "rectified"


def test_simulate_renders_along_a_truth_put_onto_the_imus_clock(tmp_path):
    made = simulate(SimulationConfig(duration_s=16.0, seed=5))
    truth = made.truth()
    early = replace(truth, stamps_ns=truth.stamps_ns - 3_000_000)
    write_euroc(replace(made, truths={"state_groundtruth_estimate0": early}), tmp_path / "early")
    words = ("--along", tmp_path / "early", "--start", 8, "--duration", 0.2, "--rate", 10)
    output = run("simulate", tmp_path / "right", *words)
    assert "early: its ground truth is 3.0 ms early (+- 0.0" in output
    assert "images and ground truth are written on the IMU's clock" in output
    assert "early:" not in run("simulate", tmp_path / "kept", *words, "--keep-clock")

    for name, source, atol in (("right", truth, 0.001), ("kept", early, 1e-6)):
        written = open_recording(tmp_path / name).truth()
        expected = truth_at(source, written.stamps_ns, 0.06)
        # 0.3 ms at 2 m/s and 2 rad/s are 0.6 mm and 0.6 mrad.
        np.testing.assert_allclose(written.Ts_w_b, expected.Ts_w_b, atol=atol)


def test_vo_says_which_steps_it_could_not_measure(rendered_copy, tmp_path):
    import cv2

    black = cv2.imencode(".png", np.zeros((480, 752), np.uint8))[1].tobytes()
    for path in sorted((rendered_copy / "mav0" / "cam0" / "data").iterdir())[:5]:
        path.write_bytes(black)
    output = run("vo", rendered_copy, "-o", tmp_path / "poses.npz")
    assert "3 of them not measured" in output
    assert "the left image shows nothing" in output


def test_vo_report_has_every_key_baselines_and_a_figure(rendered, tmp_path):
    words = ["vo-report", rendered, "--interval", 0.6, "--json", tmp_path / "r.json"]
    output = run(*words, "-o", tmp_path / "figures")
    record = json.loads((tmp_path / "r.json").read_text())["sequences"]["flight"]
    keys = {"steps", "rotation_deg", "translation_m", "nees", "frames_per_second"}
    assert keys | {"beyond_3_sigma", "beyond_5_sigma"} <= set(record)
    assert set(record["nees"]) == {"pose", "rotation", "translation"}
    assert set(record["baselines"]) == {"fixed", "structure", "chi2"}
    assert record["rivals"] == record["baselines"]
    assert "structure" in output
    assert (tmp_path / "figures" / "pose_cov.svg").read_text().startswith("<svg")


def test_init_runs_on_images_and_on_what_vo_wrote(rendered, tmp_path):
    run("init", rendered, "--vision", "images", "--window", 2.4, "--json", tmp_path / "a.json")
    record = json.loads((tmp_path / "a.json").read_text())
    assert record["status"] in ("ok", "weak")
    assert record["errors"]["velocity_rmse"] < 0.1
    run("vo", rendered, "-o", tmp_path / "poses.npz")
    output = run("init", rendered, "--vision", f"measurements:{tmp_path / 'poses.npz'}")
    assert "verdict" in output


def test_the_card_of_the_match_covariance_is_printed():
    assert "no real image" in run("model", "matches")
    assert "matches" in run("model")


def test_init_takes_images_where_no_vision_is_named_and_says_so(rendered, tmp_path, caplog):
    run("init", rendered, "--window", 2.4, "--json", tmp_path / "default.json")
    assert "--vision is not given; camera motion comes from the images of flight" in caplog.text
    caplog.clear()
    run("init", rendered, "--window", 2.4, "--vision", "images", "--json", tmp_path / "named.json")
    assert "--vision is not given" not in caplog.text
    default, named = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("default", "named")
    )
    assert default["gravity_c0"] == named["gravity_c0"]


def test_check_compares_with_motion_measured_from_images(rendered):
    result = CliRunner().invoke(app, ["check", str(rendered), "--vision", "images"])
    assert "no such file" not in result.output
    assert "vision" in result.output
    assert "extrinsics" in result.output


def test_live_takes_the_data_sheets_noise(rendered):
    output = run("live", rendered, "--imu", "datasheet", "--window", 2.0, "--speed", 100)
    assert "verdict" in output


def test_live_writes_one_line_of_json_for_each_result_it_prints(rendered, tmp_path):
    words = (
        "--imu",
        "datasheet",
        "--window",
        2.0,
        "--speed",
        100,
        "--json",
        tmp_path / "live.jsonl",
    )
    output = run("live", rendered, *words)
    records = [json.loads(line) for line in (tmp_path / "live.jsonl").read_text().splitlines()]
    printed = [line for line in output.splitlines() if "gravity_c0" in line]
    assert len(records) == len(printed) > 0
    assert {"status", "gravity_c0", "gravity_std_deg", "acc_bias_std"} <= set(records[0])
    assert f"+- {records[0]['gravity_std_deg']:.3f} deg" in printed[0]


def test_live_carries_on_with_a_state_at_every_image(rendered, tmp_path):
    words = ("--track", "--speed", 100, "--json", tmp_path / "track.jsonl")
    result = CliRunner().invoke(app, [str(word) for word in ("live", rendered, *words)])
    records = [json.loads(line) for line in (tmp_path / "track.jsonl").read_text().splitlines()]
    assert (result.exit_code == 0) == bool(records)
    assert [record["stamp_ns"] for record in records] == sorted({r["stamp_ns"] for r in records})
    for record in records:
        assert record["health"] in ("tracking", "bridging", "lost")
        assert {"T_w_b", "v_w", "std"} <= set(record)
