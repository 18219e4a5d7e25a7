"""Commands as a user types them, on a simulated recording."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from maci2.cli.app import app, main
from maci2.datasets import open_recording, write_euroc
from maci2.errors import Maci2Error
from maci2.simulation import SimulationConfig, simulate

TRUTH = "truth:0.05,0.003"


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("recordings") / "hand"
    write_euroc(simulate(SimulationConfig(duration_s=22.0, seed=5)), folder)
    return folder


@pytest.fixture
def damaged(recording, tmp_path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(recording, tmp_path / "damaged"))


def run(*words) -> str:
    """Output of a command that must succeed."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def error_of(monkeypatch, capsys, *words) -> str:
    """Message of a command that must fail the way a user sees it: one paragraph, exit code 2."""
    monkeypatch.setattr(sys, "argv", ["maci2", *(str(word) for word in words)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_help_names_every_command_without_loading_the_numerical_code():
    script = (
        "import sys; sys.argv = ['maci2', '--help']\n"
        "from maci2.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "heavy = {'numba', 'scipy', 'numpy', 'polars', 'cv2', 'torch'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert "heavy: []" in output
    for command in ("demo", "check", "simulate", "init", "calibrate", "evaluate", "bench"):
        assert command in output


def test_init_writes_every_key_and_true_errors_within_its_uncertainty(recording, tmp_path):
    file = tmp_path / "init.json"
    output = run("init", recording, "--vision", TRUTH, "--start", 2, "--json", file)
    assert "verdict: ok" in output
    record = json.loads(file.read_text())
    keys = "status reasons start_ns stamps_ns gravity_c0 gravity_std_deg velocity_b velocity_std"
    keys += " gyro_bias gyro_bias_std acc_bias acc_bias_std T_c0_b cost dof iterations solve_ms"
    assert set(keys.split()) <= set(record)
    assert np.shape(record["T_c0_b"]) == (10, 4, 4)
    assert record["errors"]["gravity_deg"] < 4 * record["gravity_std_deg"]
    assert record["errors"]["velocity_rmse"] < 0.05


def test_calibrate_takes_all_of_a_recording_shorter_than_its_window(recording, monkeypatch, capsys):
    assert "keyframes" in run("calibrate", recording, "--vision", TRUTH)
    refused = error_of(
        monkeypatch, capsys, *("calibrate", recording, "--vision", TRUTH, "--window", 30)
    )
    assert "no window of 30 s" in refused


def test_calibrate_needs_no_guess_and_writes_a_file_that_reads_back(recording, tmp_path):
    file, chain = tmp_path / "calibration.json", tmp_path / "camchain-imucam.yaml"
    run(
        *("calibrate", recording, "--vision", TRUTH, "--window", 20),
        *("--json", file, "-o", chain),
    )
    record = json.loads(file.read_text())
    assert record["status"] == "ok"
    assert record["errors"]["rotation_deg"] <= 0.05
    assert record["errors"]["translation_m"] <= 0.003
    assert abs(record["time_offset_s"]) < 4.0 * record["time_offset_std_s"] < 0.002
    assert yaml.safe_load(chain.read_text())["cam0"]["timeshift_cam_imu"] == record["time_offset_s"]
    T_cam_imu = np.array(yaml.safe_load(chain.read_text())["cam0"]["T_cam_imu"])
    np.testing.assert_allclose(np.linalg.inv(T_cam_imu), record["T_b_c"], atol=1e-12)
    again = open_recording(recording, chain).rig.cameras
    own = open_recording(recording).rig.cameras
    np.testing.assert_allclose(
        np.linalg.inv(again[1].T_b_c) @ again[0].T_b_c,
        np.linalg.inv(own[1].T_b_c) @ own[0].T_b_c,
        atol=1e-12,
    )


def test_evaluate_counts_every_window_and_gives_the_same_bytes_twice(recording, tmp_path):
    for folder in ("one", "two"):
        run("evaluate", recording, "--vision", TRUTH, "-o", tmp_path / folder, "--seed", 3)
    rows = [json.loads((tmp_path / f / "rows.json").read_text())["rows"] for f in ("one", "two")]
    for row in (*rows[0], *rows[1]):
        row.pop("solve_ms")
    assert rows[0] == rows[1]
    summary = json.loads((tmp_path / "one" / "summary.json").read_text())
    found = summary["sequences"]["hand"]
    assert found["segments"] == len(rows[0]) == 8
    assert found["success_rate"] == 1.0
    assert sum(found["verdicts"][key]["count"] for key in ("ok", "weak", "failed")) == 8
    assert summary["protocol"]["seed"] == 3
    assert summary["average"]["gravity_deg"] == pytest.approx(found["gravity_deg"])


def test_evaluate_gives_the_same_answer_with_two_workers(recording, tmp_path):
    second = Path(shutil.copytree(recording, tmp_path / "other"))
    for jobs in (1, 2):
        run(
            *("evaluate", recording, second, "--vision", TRUTH, "--jobs", jobs),
            *("--json", tmp_path / f"{jobs}.json"),
        )
    one, two = (json.loads((tmp_path / f"{jobs}.json").read_text()) for jobs in (1, 2))
    assert one["sequences"]["other"]["gravity_deg"] == two["sequences"]["other"]["gravity_deg"]
    assert one["sequences"]["hand"]["nees"] == two["sequences"]["hand"]["nees"]


def test_paper_mode_and_a_known_bias_change_what_is_estimated(recording, tmp_path):
    run("init", recording, "--vision", TRUTH, "--paper", "--json", tmp_path / "paper.json")
    paper = json.loads((tmp_path / "paper.json").read_text())
    assert paper["acc_bias"] == [0.0, 0.0, 0.0]
    assert paper["acc_bias_std"] == [0.0, 0.0, 0.0]
    run(
        *("init", recording, "--vision", TRUTH, "--acc-bias-prior", "0.1,-0.2,0.3"),
        *("--acc-bias-std", "1e-6", "--json", tmp_path / "known.json"),
    )
    known = json.loads((tmp_path / "known.json").read_text())
    np.testing.assert_allclose(known["acc_bias"], [0.1, -0.2, 0.3], atol=1e-5)


def test_simulate_writes_a_recording_that_check_finds_sound(tmp_path):
    run("simulate", tmp_path / "drone", "--motion", "drone", "--duration", 8, "--seed", 2)
    output = run("check", tmp_path / "drone", "--json", tmp_path / "health.json")
    assert "ERROR" not in output
    assert json.loads((tmp_path / "health.json").read_text())["findings"]


def write_camera_path(recording, path, late_s=0.0):
    """What an odometry would give: the truth at the camera's timestamps, in TUM format."""
    from scipy.spatial.transform import Rotation

    opened = open_recording(recording)
    truth, stamps_ns = opened.truth(), opened.camera_stamps_ns[0]
    at = np.searchsorted(truth.stamps_ns, stamps_ns)
    Ts_w_c = truth.Ts_w_b[at] @ opened.rig.cameras[0].T_b_c
    quats_xyzw = Rotation.from_matrix(Ts_w_c[:, :3, :3]).as_quat()
    rows = np.hstack([(stamps_ns / 1e9 + late_s)[:, None], Ts_w_c[:, :3, 3], quats_xyzw])
    np.savetxt(path, rows, fmt="%.9f")


def test_check_says_first_what_is_wrong_and_writes_json_and_a_page(recording, tmp_path):
    write_camera_path(recording, tmp_path / "late.txt", late_s=0.02)
    command = ("check", recording, "--vision", f"trajectory:{tmp_path / 'late.txt'}")
    files = ("--json", tmp_path / "health.json", "-o", tmp_path / "page.html")
    result = CliRunner().invoke(app, [str(word) for word in (*command, *files)])
    assert result.exit_code == 1
    first = result.output.splitlines()[0]
    assert first.startswith("ERROR  vision: camera-IMU time offset: found -20.0")
    finding = json.loads((tmp_path / "health.json").read_text())["findings"][0]
    assert finding["level"] == "error"
    assert finding["fault"] == "camera-IMU time offset"
    assert finding["needed"] == "within 3 ms"
    assert finding["remedy"].startswith("Add -20.0")
    page = (tmp_path / "page.html").read_text()
    assert finding["text"] in page
    assert "http" not in page
    findings = json.loads((tmp_path / "health.json").read_text())["findings"]
    assert page.count("<li><b class=") == len(findings)


def test_check_takes_measured_steps_and_finds_nothing_wrong(recording, tmp_path):
    from maci2.datasets import read_trajectory
    from maci2.vision import pose_noise, poses_from_trajectory, save_relative_poses

    write_camera_path(recording, tmp_path / "path.txt")
    path = read_trajectory(tmp_path / "path.txt")
    steps = poses_from_trajectory(path, path.stamps_ns, pose_noise(0.05, 0.003), "camera")
    save_relative_poses(tmp_path / "steps.npz", steps)
    output = run("check", recording, "--vision", f"measurements:{tmp_path / 'steps.npz'}")
    assert output.splitlines()[0].startswith("ok  hand: nothing to fix.")
    assert "camera-IMU time offset" in output
    assert "extrinsics agree with the motion" in output


def test_check_of_a_file_that_cannot_be_read_is_a_finding_not_a_crash(damaged, tmp_path):
    (damaged / "mav0" / "imu0" / "data.csv").write_text("#timestamp [ns],w_RS_S_x\n")
    files = ["--json", str(tmp_path / "health.json"), "-o", str(tmp_path / "page.html")]
    result = CliRunner().invoke(app, ["check", str(damaged), *files])
    assert result.exit_code == 1
    assert result.output.startswith("ERROR  reading: ")
    assert json.loads((tmp_path / "health.json").read_text())["usable"] is False
    assert "not usable" in (tmp_path / "page.html").read_text()


def test_check_of_a_folder_that_does_not_exist_is_an_error(monkeypatch, capsys, tmp_path):
    assert "no such file or folder" in error_of(monkeypatch, capsys, "check", tmp_path / "none")


def test_demo_prints_estimate_sigma_and_error_and_writes_its_report(tmp_path):
    output = run("demo", "-o", tmp_path / "demo")
    for word in ("1-sigma", "true error", "verdict: ok", "NEES", "report.html"):
        assert word in output
    written = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"report.html", "init.json", "calibration.json", "camchain-imucam.yaml"} <= written


def test_a_window_without_rotation_cannot_calibrate_and_says_which_axes(tmp_path):
    write_euroc(
        simulate(SimulationConfig(kind="straight", duration_s=12.0, seed=1)), tmp_path / "straight"
    )
    file = tmp_path / "c.json"
    result = CliRunner().invoke(
        app,
        [
            *("calibrate", str(tmp_path / "straight"), "--vision", TRUTH),
            *("--window", "10", "--json", str(file), "-o", str(tmp_path / "chain.yaml")),
        ],
    )
    record = json.loads(file.read_text())
    assert record["status"] in ("weak", "failed")
    assert result.exit_code == (1 if record["status"] == "failed" else 0)
    reasons = " ".join(record["reasons"])
    for axis in "xyz":
        assert f"position along the IMU's {axis} axis" in reasons
    assert "too little rotation about" in reasons
    assert (tmp_path / "chain.yaml").exists() == (record["status"] != "failed")


def edit_imu(folder: Path, change) -> None:
    """Rewrite the IMU file's rows, [stamp, gyro, acc] as text."""
    file = folder / "mav0" / "imu0" / "data.csv"
    header, *lines = file.read_text().splitlines()
    rows = change([line.split(",") for line in lines])
    file.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n")


def scaled(columns, factor):
    def change(rows):
        for row in rows:
            for column in columns:
                row[column] = repr(float(row[column]) * factor)
        return rows

    return change


def gap(rows):
    return rows[:600] + rows[700:]


def without_gravity(rows):
    """What a device that removes gravity reports: the motion's own acceleration, here none."""
    rng = np.random.default_rng(0)
    for row in rows:
        row[4:7] = [repr(float(value)) for value in rng.normal(size=3) * 0.3]
    return rows


GYRO, ACC = (1, 2, 3), (4, 5, 6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (scaled(GYRO, 57.29578), ("deg/s", "rad/s")),
        (scaled(ACC, 1 / 9.81), ("g", "9.81")),
        (scaled(ACC, 0.5), ("9.81",)),
        (scaled(ACC, 2.0), ("9.81",)),
        (without_gravity, ("Gravity", "9.81")),
        (lambda rows: rows[:50] + rows[49:], ("stamp", "imu0")),
        (lambda rows: [rows[1], rows[0], *rows[2:]], ("stamp", "imu0")),
        (lambda rows: [[rows[0][0], *["nan"] * 6], *rows[1:]], ("imu0", "line 2")),
        (lambda rows: [], ("imu0",)),
    ],
    ids=[
        "gyroscope in deg/s",
        "accelerometer in g",
        "reads 5 at rest",
        "reads 20 at rest",
        "gravity already removed",
        "duplicate timestamp",
        "unsorted timestamps",
        "NaN",
        "empty",
    ],
)
def test_bad_imu_data_is_one_clear_message_and_exit_code_two(
    damaged, monkeypatch, capsys, change, words
):
    edit_imu(damaged, change)
    message = error_of(monkeypatch, capsys, "init", damaged, "--vision", TRUTH)
    assert message.startswith("error: ")
    assert "Traceback" not in message
    for word in words:
        assert word in message, message


def test_a_gap_inside_the_window_names_stamp_and_length(damaged, monkeypatch, capsys):
    edit_imu(damaged, gap)
    message = error_of(monkeypatch, capsys, "init", damaged, "--vision", TRUTH, "--start", 1.5)
    assert "no IMU sample for 505.0 ms after timestamp" in message
    assert "25.0 ms is allowed" in message


def test_evaluate_counts_windows_with_a_gap_as_failures(damaged, tmp_path):
    edit_imu(damaged, gap)
    run("evaluate", damaged, "--vision", TRUTH, "-o", tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "rows.json").read_text())["rows"]
    failed = [row for row in rows if row["status"] == "failed"]
    assert len(failed) == 1
    assert "no IMU sample" in failed[0]["reasons"][0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("init", "{recording}"), "--vision is needed: where camera motion comes from"),
        (("init", "{recording}"), "Choose one of images[:COVARIANCE] | truth:ROT_DEG,TRANS_M"),
        (("init", "{recording}", "--vision", "magic"), "choose one of images"),
        (("init", "nowhere", "--vision", TRUTH), "nowhere: no such file or folder"),
        (("init", "{recording}", "--vision", TRUTH, "--imu", "mine"), "mine: neither a bundled"),
        (("init", "{recording}", "--vision", TRUTH, "--window", "100"), "no window of 100 s"),
        (("init", "{recording}", "--vision", TRUTH, "--keyframes", "3"), "--keyframes is 3"),
        (("init", "{recording}", "--vision", "trajectory:no.txt"), "no.txt: no such file in"),
        (("init", "{recording}", "--vision", TRUTH, "--rig", "no.yaml"), "no.yaml"),
        (("evaluate", "{recording}", "--vision", "measurements:no.npz"), "no.npz: no such file"),
        (("init", "{recording}", "--vision", TRUTH, "--window", "nan"), "--window is nan"),
        (("init", "{recording}", "--vision", TRUTH, "--window", "inf"), "--window is inf"),
        (("init", "{recording}", "--vision", TRUTH, "--start", "1e300"), "--start is 1e+300"),
        (("init", "{recording}", "--vision", TRUTH, "--seed", "-1"), "--seed is -1"),
        (("evaluate", "{recording}", "--vision", TRUTH, "--stride", "nan"), "--stride is nan"),
        (("calibrate", "{recording}", "--vision", TRUTH, "--window", "nan"), "--window is nan"),
        (("calibrate", "{recording}", "--vision", TRUTH, "--window", "inf"), "--window is inf"),
        (("vo", "{recording}", "--interval", "inf"), "--interval is inf"),
        (("vo", "{recording}", "--interval", "nan"), "--interval is nan"),
        (("vo", "{recording}", "--covariance", "mine"), "--covariance is 'mine'; choose one of"),
        (("reproduce", "--data", "{recording}", "--seed", "-1"), "--seed is -1"),
        (("reproduce", "--data", "{recording}", "--time-limit", "nan"), "--time-limit is nan"),
        (("imu-report", "{recording}", "--bins", "0"), "--bins is 0"),
        (
            ("init", "{recording}", "--vision", TRUTH, "--truth", "vicon0"),
            "--truth names vicon0, which no recording has; ground truths that exist are "
            "state_groundtruth_estimate0",
        ),
        (("evaluate", "{recording}", "--vision", TRUTH, "--truth", "vicon0"), "--truth names vic"),
        (("evaluate", "{recording}", "{recording}", "--vision", TRUTH), "is given 2 times"),
    ],
)
def test_a_bad_option_is_one_clear_message(recording, monkeypatch, capsys, words, message):
    filled = [word.format(recording=recording) for word in words]
    assert message in error_of(monkeypatch, capsys, *filled)


def test_an_unknown_option_is_refused(recording):
    result = CliRunner().invoke(app, ["init", str(recording), "--visoin", TRUTH])
    assert result.exit_code == 2
    assert "visoin" in result.output


def test_ground_truth_on_another_clock_says_so(damaged, monkeypatch, capsys):
    file = damaged / "mav0" / "state_groundtruth_estimate0" / "data.csv"
    header, *lines = file.read_text().splitlines()
    moved = [f"{int(line.split(',', 1)[0]) + 10**12},{line.split(',', 1)[1]}" for line in lines]
    file.write_text("\n".join([header, *moved]) + "\n")
    message = error_of(monkeypatch, capsys, "init", damaged, "--vision", TRUTH)
    assert "overlap" in message
    assert "state_groundtruth_estimate0" in message


def test_measurements_with_a_bad_covariance_are_refused(recording, tmp_path, monkeypatch, capsys):
    stamps = open_recording(recording).camera_stamps_ns[0][:50:5]
    cov = np.stack([np.diag([1e-6] * 5 + [-1e-9])] * 9)
    np.savez(
        tmp_path / "bad.npz",
        stamps_ns=np.stack([stamps[:-1], stamps[1:]], axis=1),
        T_ck_ck1=np.stack([np.eye(4)] * 9),
        cov=cov,
        frame="camera",
        version="0",
    )
    message = error_of(
        monkeypatch, capsys, "init", recording, "--vision", f"measurements:{tmp_path / 'bad.npz'}"
    )
    assert "bad.npz" in message
    assert "not positive definite" in message


def test_every_error_a_user_can_mend_is_of_one_family():
    from maci2 import errors

    kinds = [getattr(errors, name) for name in dir(errors) if name.endswith("Error")]
    assert len(kinds) >= 5
    assert all(issubclass(kind, Maci2Error) for kind in kinds)


def test_reproduce_ends_with_the_path_of_a_report(recording, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(recording, data / "MH_04_difficult")
    output = run("reproduce", "gyro-bias", "--data", data, "-o", tmp_path / "out", "--jobs", 1)
    assert "missing  MH_02_easy: no such recording" in output
    assert "ORB-SLAM3 inertial-only" in output
    assert output.rstrip().endswith(f"wrote {tmp_path / 'out' / 'report.html'}")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Gyroscope bias on all EuRoC recordings" in page
    again = run("report", tmp_path / "out", "-o", tmp_path / "again.html")
    assert "again.html: 1 experiments" in again
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page


def test_an_experiment_that_does_not_exist_is_told_which_do(monkeypatch, capsys, tmp_path):
    message = error_of(monkeypatch, capsys, "reproduce", "table-1", "--data", tmp_path)
    assert "no experiment is called table-1; choose from euroc-init, " in message
    assert "euroc-tracks" in message


def test_two_recordings_of_one_name_are_kept_apart(recording, tmp_path):
    paths = [Path(shutil.copytree(recording, tmp_path / part / "euroc")) for part in ("a", "b")]
    edit_imu(paths[1], lambda rows: rows[: len(rows) // 2])
    run("evaluate", *paths, "--vision", TRUTH, "-o", tmp_path / "out")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert list(summary["sequences"]) == ["a/euroc", "b/euroc"]
    whole, half = (summary["sequences"][name]["segments"] for name in ("a/euroc", "b/euroc"))
    assert (whole, half) == (8, 4)
    rows = json.loads((tmp_path / "out" / "rows.json").read_text())["rows"]
    assert [row["sequence"] for row in rows] == ["a/euroc"] * whole + ["b/euroc"] * half


def test_a_ground_truth_that_one_of_several_recordings_has_may_be_named(recording, tmp_path):
    second = Path(shutil.copytree(recording, tmp_path / "second"))
    truth = second / "mav0" / "state_groundtruth_estimate0"
    truth.rename(second / "mav0" / "state_groundtruth_openvins")
    options = ("--vision", TRUTH, "--truth", "state_groundtruth_openvins")
    run("evaluate", recording, second, *options, "--json", tmp_path / "both.json")
    assert len(json.loads((tmp_path / "both.json").read_text())["sequences"]) == 2


def test_the_old_name_of_baselines_still_works_and_is_not_shown():
    help_text = CliRunner().invoke(app, ["imu-report", "--help"]).output
    assert "--baselines" in help_text
    assert "--rivals" not in help_text
    result = CliRunner().invoke(app, ["imu-report", "nowhere", "--no-rivals"])
    assert "No such option" not in result.output


@pytest.mark.parametrize("name", ["--degrade", "--spoil"])
def test_images_are_degraded_by_the_present_and_by_the_old_option(name, tmp_path):
    assert "--spoil" not in CliRunner().invoke(app, ["simulate", "--help"]).output
    words = ["simulate", str(tmp_path / "seq"), "--images", name, "nonsense=1"]
    result = CliRunner().invoke(app, words)
    assert "nonsense" in str(result.exception)
