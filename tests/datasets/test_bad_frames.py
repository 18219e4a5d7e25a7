"""One bad image costs that image: truncated, missing, of another size or unreadable ones are
skipped and counted by everything that looks at images."""

import logging
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from bag_files import recording_items, write_items
from maci2.cli.app import app
from maci2.datasets import open_recording
from maci2.datasets.frames import stereo_frames
from maci2.errors import CalibrationError, DatasetError, ImageError
from maci2.live import OnlineConfig, OnlineInitializer
from maci2.live.replay import replay
from maci2.tools.diagnostics.diagnose import examine_path
from maci2.vision.odometry import StereoOdometry, even_keyframes, measure_all


def shrink(path):
    path.write_bytes(cv2.imencode(".png", np.zeros((9, 9), np.uint8))[1].tobytes())


DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:2000]),
    "missing": Path.unlink,
    "another size": shrink,
    "no image": lambda path: path.write_bytes(b"hello"),
    "empty": lambda path: path.write_bytes(b""),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


def images(folder, camera=0):
    return sorted((folder / "mav0" / f"cam{camera}" / "data").glob("*.png"))


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_bad_keyframe_costs_its_relative_poses_and_says_why(rendered_copy, damage):
    recording = open_recording(rendered_copy)
    bad = images(rendered_copy, 1)[4]
    DAMAGE[damage](bad)
    odometry = StereoOdometry(stereo_frames(recording), recording.rig)
    poses = measure_all(odometry, even_keyframes(odometry.stamps_ns, 0.2)[:6])
    assert [bool(pose.reason) for pose in poses] == [False, True, True, False, False]
    assert str(bad) in poses[1].reason


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_bad_image_between_keyframes_costs_nothing(rendered_copy, damage):
    recording = open_recording(rendered_copy)
    DAMAGE[damage](images(rendered_copy)[3])
    odometry = StereoOdometry(stereo_frames(recording), recording.rig)
    poses = measure_all(odometry, even_keyframes(odometry.stamps_ns, 0.2)[:5])
    assert not any(pose.reason for pose in poses)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_init_calibrate_and_evaluate_go_on_past_a_bad_frame(rendered_copy, tmp_path):
    DAMAGE["truncated"](images(rendered_copy)[6])
    DAMAGE["missing"](images(rendered_copy, 1)[12])
    for command in ("init", "calibrate"):
        words = ("--vision", "images", "--window", 2.5, "--keyframes", 10)
        output = run(command, rendered_copy, *words).output
        assert "verdict" in output, output
    words = ("--vision", "images", "--window", 2, "-o", tmp_path / "out")
    assert run("evaluate", rendered_copy, *words).exit_code == 0
    output = run("vo", rendered_copy, "-o", tmp_path / "poses.npz").output
    assert "4 of them not measured" in output
    assert "truncated" in output


def test_a_replay_skips_bad_pairs_and_counts_them(rendered_copy, caplog):
    recording = open_recording(rendered_copy)
    for number in (5, 9):
        DAMAGE["truncated"](images(rendered_copy)[number])
    with (
        caplog.at_level(logging.WARNING),
        OnlineInitializer(recording.rig, OnlineConfig(2.0, 8)) as online,
    ):
        replayed = replay(recording, online, 100.0)
    assert len(replayed.unusable) == 2
    assert len(replayed.stereo_s) == len(images(rendered_copy)) - 2
    assert "2 of 30 stereo pairs cannot be used" in caplog.text


def test_images_all_of_another_size_are_a_wrong_calibration(rendered_copy):
    for path in images(rendered_copy):
        shrink(path)
    with pytest.raises(CalibrationError, match="the image is 9x9, the calibration is for 752x480"):
        stereo_frames(open_recording(rendered_copy))


def test_images_that_are_all_unreadable_are_an_error(rendered_copy):
    for path in images(rendered_copy, 1):
        path.write_bytes(b"")
    with pytest.raises(DatasetError, match="truncated") as raised:
        stereo_frames(open_recording(rendered_copy))
    assert not isinstance(raised.value, ImageError)


@pytest.mark.parametrize("damage", DAMAGE)
def test_check_finds_every_bad_image_wherever_it_is(rendered_copy, damage):
    for number in (0, 17, 29):
        DAMAGE[damage](images(rendered_copy)[number] if number < 29 else images(rendered_copy)[-1])
    diagnosis = examine_path(rendered_copy)
    assert "warn  images: cam0: images cannot be used: found 3 of 30" in diagnosis.first_line
    assert diagnosis.usable
    left = next(f.text for f in diagnosis.findings if f.text.startswith("cam0: 27 of 30"))
    assert "from 0.10 to 2.80 s" in left


def test_check_says_from_when_to_when_images_exist(rendered):
    texts = [finding.text for finding in examine_path(rendered).findings]
    stamps_ns = open_recording(rendered).camera_stamps_ns[1]
    assert (
        f"cam1: 30 of 30 listed images can be used, from 0.00 to 2.90 s ({stamps_ns[0]} to "
        f"{stamps_ns[-1]} ns)" in texts
    )


def test_bad_images_of_a_bag_are_left_out_and_counted(rendered, tmp_path):
    recording = open_recording(rendered)
    mav0 = rendered / "mav0"

    def pixels(camera, stamp_ns):
        image = cv2.imread(str(mav0 / f"cam{camera}" / "data" / f"{stamp_ns}.png"), 0)
        is_bad = camera == 0 and stamp_ns == recording.camera_stamps_ns[0][7]
        return image[:100] if is_bad else image

    from maci2.rigs import write_rig

    bag = write_items(
        tmp_path / "flight.bag", "ros1", lambda writer: recording_items(writer, recording, pixels)
    )
    write_rig(tmp_path / "rig", recording.rig, "kalibr")
    read = open_recording(bag, tmp_path / "rig")
    assert len(read.camera_stamps_ns[0]) == 29
    assert "left: 1 images cannot be used and are rejected" in read.warnings[0]
    assert "message 8: the image is 752x100, the calibration is for 752x480" in read.warnings[0]
    assert len(stereo_frames(read)) == 29


def test_an_empty_truth_folder_is_no_truth(small_copy):
    folder = small_copy("euroc_mini")
    shutil.rmtree(folder / "mav0/state_groundtruth_estimate0")
    (folder / "mav0/state_groundtruth_estimate0").mkdir()
    assert list(open_recording(folder).truths) == ["state_groundtruth_other"]


def test_every_list_of_images_is_read_once(rendered_copy, monkeypatch):
    """Each camera's csv was once parsed by the reader and again for the names in it."""
    from maci2.datasets import tables

    read, seen = tables.read_lines, []
    monkeypatch.setattr(tables, "read_lines", lambda path, *a: seen.append(path) or read(path, *a))
    renamed = rendered_copy / "mav0" / "cam0" / "data.csv"
    renamed.write_text(renamed.read_text().replace(".png", "_left.png"))
    for path in images(rendered_copy):
        path.rename(path.with_name(f"{path.stem}_left.png"))
    frames = stereo_frames(open_recording(rendered_copy))
    assert frames.left(3).shape == (480, 752)
    assert sorted(path.parent.name for path in seen if "cam" in path.parent.name) == [
        "cam0",
        "cam1",
    ]
