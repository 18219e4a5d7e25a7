"""Inputs that hold too little: one error each, and never a quiet success."""

import sys

import pytest
from typer.testing import CliRunner

from maci2.cli.app import app
from maci2.datasets import write_euroc
from maci2.errors import DatasetError, Maci2Error, OptionError, OutputError
from maci2.simulation import SimulationConfig, simulate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("poor")
    recording = simulate(SimulationConfig(kind="drone", duration_s=6.0, seed=1))
    write_euroc(recording, root / "flight")
    (root / "loop").symlink_to(root / "loop")
    start_s = recording.imu.stamps_ns[0] / 1e9
    for name, count in (("two.txt", 2), ("frozen.txt", 120)):
        rows = [f"{start_s + 0.05 * k:.9f} 1 2 3 0 0 0 1" for k in range(count)]
        (root / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return root


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_a_watchdog_that_never_began_says_so(folder):
    watched = run("watch", folder / "flight", "--odometry", folder / "frozen.txt")
    assert watched.exit_code == 1
    assert "nothing at all was watched" in " ".join(watched.output.split())


def test_a_trajectory_of_two_poses_cannot_be_tracked(folder):
    with pytest.raises(DatasetError, match="needed two"):
        run("track", folder / "flight", "--vision", f"trajectory:{folder / 'two.txt'}")


@pytest.mark.parametrize(
    "words",
    [
        ("truth", "-o", "audited"),
        ("check",),
        ("noise",),
        ("evaluate", "--vision", "truth:0.05,0.003"),
        ("init", "--vision", "truth:0.05,0.003"),
    ],
)
def test_a_loop_of_links_is_an_error_like_any_other(folder, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    command, *options = words
    with pytest.raises(Maci2Error):
        run(command, folder / "loop", *options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("track", "--vision", "truth:0.05,0.003", "--lag", "nan"),
        ("track", "--vision", "truth:0.05,0.003", "--lag", "inf"),
        ("track", "--vision", "truth:0.05,0.003", "--lag", "-1"),
        ("noise", "--start", "nan"),
        ("noise", "--start", "2"),
    ],
)
def test_an_option_that_means_nothing_is_refused_by_name(folder, words):
    command, *options = words
    with pytest.raises(OptionError, match=options[-2]):
        run(command, folder / "flight", *options)


@pytest.mark.parametrize("words", ["1e300,0,0", "0,0,50"])
def test_a_bias_as_large_as_gravity_is_refused(folder, words):
    with pytest.raises(OptionError, match="--acc-bias-prior is"):
        run("init", folder / "flight", "--vision", "truth:0.05,0.003", "--acc-bias-prior", words)


def test_a_folder_given_as_a_trajectory_is_called_one(folder):
    with pytest.raises(DatasetError, match="a folder, not a file"):
        run("init", folder / "flight", "--vision", f"trajectory:{folder}")


def test_a_trajectory_in_milliseconds_is_told_so(folder, tmp_path):
    file = tmp_path / "ms.txt"
    file.write_text("1700000000000 0 0 0 0 0 0 1\n1700000000050 0 0 0 0 0 0 1\n", encoding="utf-8")
    with pytest.raises(DatasetError, match="looks like milliseconds"):
        run("init", folder / "flight", "--vision", f"trajectory:{file}")


def test_a_prior_that_is_no_pose_is_the_priors_fault(folder):
    words = ("--vision", "truth:0.05,0.003", "--prior", "0,0,0", "--prior-std", "2deg,3cm")
    with pytest.raises(OptionError, match="--prior has 3 numbers"):
        run("calibrate", folder / "flight", *words)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("train-imu", "nothing"), "no such recipe"),
        (("train-imu", "euroc", "--epochs", "-1"), "--epochs, --held-out-epochs is -1"),
        (("train-imu", "euroc", "--threads", "0"), "--threads is 0"),
        (("train-imu", "euroc", "--model", "mine"), "--model mine"),
        (("train-imu", "euroc", "-o", "/proc/euroc.onnx"), "cannot be written"),
        (("train-vision", "--scenes", "0"), "--scenes is 0"),
        (("train-vision", "-o", "/proc/matches.onnx"), "cannot be written"),
    ],
)
def test_a_training_that_cannot_end_well_is_refused_before_torch_is_loaded(
    monkeypatch, words, found
):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(Maci2Error, match=found):
        run(*words)


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_a_file_that_cannot_be_written_is_told_before_the_work(folder, monkeypatch, option):
    monkeypatch.setattr("maci2.api.initialize_recording", None)
    with pytest.raises(OutputError, match="cannot be written"):
        run("init", folder / "flight", "--vision", "truth:0.05,0.003", option, "/proc/none")


def test_options_of_the_watchdog_are_called_by_their_names(folder):
    words = ("watch", folder / "flight", "--odometry", folder / "frozen.txt")
    for option, value in (("--interval", "0"), ("--sigmas", "-1"), ("--odometry-std", "a,b")):
        with pytest.raises(OptionError, match=option):
            run(*words, option, value)


def test_live_options_are_called_by_their_names(folder):
    for option, value in (("--window", "-1"), ("--keyframes", "2"), ("--speed", "0")):
        with pytest.raises(OptionError, match=option):
            run("live", folder / "flight", option, value)


def test_a_watchdog_with_too_few_poses_says_how_many_it_needs(folder):
    words = ("watch", folder / "flight", "--odometry", folder / "frozen.txt", "--interval", "2")
    watched = run(*words)
    assert watched.exit_code == 1
    assert "needed five or more in each 2.5 s" in " ".join(watched.output.split())


def test_a_ground_truth_that_no_recording_has_is_not_replaced_by_another(folder):
    """Errors against another ground truth than the one asked for would be taken for those."""
    with pytest.raises(OptionError, match="--truth names vicon, which no recording has"):
        run("track", folder / "flight", "--vision", "truth:0.05,0.003", "--truth", "vicon")


@pytest.mark.parametrize(
    "words",
    [
        ("track", "--vision", "truth:0.05,0.003", "-o"),
        ("watch", "--odometry", "frozen.txt", "-o"),
        ("noise", "--tools"),
        ("evaluate", "--vision", "truth:0.05,0.003", "-o"),
    ],
)
def test_a_file_given_as_a_folder_to_write_into_is_told_before_the_work(folder, words):
    command, *options = words
    with pytest.raises(OutputError, match=r"frozen.txt: is a file, needed a folder"):
        run(command, folder / "flight", *options, folder / "frozen.txt" / "inside")


def test_two_results_are_not_written_to_one_file(folder, tmp_path):
    path = tmp_path / "noise.json"
    with pytest.raises(OptionError, match="one would replace the other"):
        run("noise", folder / "flight", "--json", path, "-o", path)
    assert not path.exists()


def test_noise_does_not_count_a_recording_twice(folder):
    again = folder / "flight" / ".." / "flight"
    with pytest.raises(OptionError, match="is given twice"):
        run("noise", folder / "flight", again)


def test_a_capture_that_stands_still_beside_a_gyroscope_that_rotates_is_refused(tmp_path):
    recording = simulate(SimulationConfig(kind="drone", duration_s=10.0, seed=1))
    write_euroc(recording, tmp_path / "flight")
    start_s = recording.imu.stamps_ns[0] / 1e9
    rows = [f"{start_s + 0.05 * k:.9f} 1 2 3 0 0 0 1" for k in range(190)]
    (tmp_path / "frozen.txt").write_text("\n".join(rows) + "\n")
    source = f"trajectory:{tmp_path / 'frozen.txt'}"
    with pytest.raises(DatasetError, match="its orientations do not change, while the gyroscope"):
        run("truth", tmp_path / "flight", "--from", source, "-o", tmp_path / "audited")
    assert not (tmp_path / "audited").exists()


def test_an_experiment_of_which_nothing_can_be_run_is_no_success(folder, tmp_path):
    with pytest.raises(DatasetError, match="holds none of the recordings"):
        run("reproduce", "track", "--data", folder, "-o", tmp_path / "results")
