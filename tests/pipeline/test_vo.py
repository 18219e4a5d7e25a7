"""Odometry over a recording: interrupted, resumed, and not resumed with other settings."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.datasets import open_recording
from maci2.errors import OptionError
from maci2.pipeline.options import VoOptions
from maci2.pipeline.vo import run_vo, settings_of
from maci2.rigs import write_rig
from maci2.vision import odometry
from maci2.vision.odometry import StereoOdometry

OPTIONS = VoOptions(interval_s=0.5)


class Interrupted(Exception):
    """Stands in for a user who presses Ctrl-C."""


@pytest.fixture
def measured(monkeypatch):
    """Counts the relative poses that are measured, and saves after each."""
    calls = []
    relative_pose = StereoOdometry.relative_pose
    monkeypatch.setattr(odometry, "SAVE_EVERY", 1)
    monkeypatch.setattr(
        StereoOdometry,
        "relative_pose",
        lambda self, a, b: calls.append((a, b)) or relative_pose(self, a, b),
    )
    return calls


def interrupted_after_two(path, output, options):
    def stop(done, _):
        # Told before the save of this pose.
        if done == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        run_vo(path, output, options, stop)


def arrays(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def test_an_interrupted_run_goes_on_where_it_ended(rendered, tmp_path, measured):
    whole = run_vo(rendered, tmp_path / "whole.npz", OPTIONS)
    count = len(whole.poses)
    interrupted_after_two(rendered, tmp_path / "parts.npz", OPTIONS)
    measured.clear()
    run_vo(rendered, tmp_path / "parts.npz", OPTIONS)
    assert len(measured) == count - 2
    first, second = arrays(tmp_path / "whole.npz"), arrays(tmp_path / "parts.npz")
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    assert not (tmp_path / "parts.npz.unfinished").exists()


def other_rig(recording, folder):
    cameras = recording.rig.cameras
    moved = replace(cameras[0], intrinsics=cameras[0].intrinsics * [1.0, 1.0, 1.0, 1.001])
    write_rig(folder, replace(recording.rig, cameras=(moved, *cameras[1:])), "kalibr")
    return folder


@pytest.mark.parametrize("what", ["covariance", "rig", "version"])
def test_a_run_with_other_settings_starts_anew_and_says_so(
    rendered, tmp_path, measured, monkeypatch, caplog, what
):
    output = tmp_path / "poses.npz"
    interrupted_after_two(rendered, output, OPTIONS)
    options = OPTIONS
    if what == "covariance":
        options = replace(OPTIONS, covariance="fixed")
    elif what == "rig":
        options = replace(OPTIONS, rig=other_rig(open_recording(rendered), tmp_path / "rig"))
    else:
        monkeypatch.setattr(odometry, "__version__", "0.0.1")
    measured.clear()
    result = run_vo(rendered, output, options)
    assert len(measured) == len(result.poses)
    assert "other options, rig, weights or version; starting anew" in caplog.text


def test_settings_differ_by_what_is_in_a_file_not_by_its_name(rendered, tmp_path):
    rig = open_recording(rendered).rig
    for name, content in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).write_bytes(content)
    a, b, c = (settings_of(VoOptions(weights=tmp_path / name), rig) for name in "abc")
    assert a == b
    assert a != c
    assert settings_of(OPTIONS, rig) == settings_of(OPTIONS, replace(rig, source="elsewhere"))


def test_timestamps_of_the_file_are_those_of_the_images_whatever_the_rig_states(rendered, tmp_path):
    recording = open_recording(rendered)
    write_rig(tmp_path / "rig", replace(recording.rig, time_offset_s=0.02), "kalibr")
    options = replace(OPTIONS, rig=tmp_path / "rig")
    run_vo(rendered, tmp_path / "poses.npz", options)
    stamps_ns = arrays(tmp_path / "poses.npz")["stamps_ns"]
    assert np.isin(stamps_ns, recording.camera_stamps_ns[0]).all()


def test_weights_that_cannot_be_read_are_named(rendered, tmp_path):
    with pytest.raises(OptionError, match=r"--weights .*nowhere"):
        settings_of(VoOptions(weights=tmp_path / "nowhere"), open_recording(rendered).rig)
