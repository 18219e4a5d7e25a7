"""Images alone: visual odometry needs no IMU, in a folder or a bag."""

import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from bag_files import IMU, recording_items, write_items
from maci2.cli.app import app
from maci2.datasets import open_recording
from maci2.datasets.frames import read_image, stereo_frames
from maci2.datasets.open import open_images
from maci2.errors import CalibrationError, DatasetError
from maci2.rigs import write_rig


def test_vo_needs_no_imu(rendered_copy, tmp_path):
    shutil.rmtree(rendered_copy / "mav0" / "imu0")
    words = ["vo", str(rendered_copy), "-o", str(tmp_path / "poses.npz"), "--interval", "1"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0
    with np.load(tmp_path / "poses.npz") as file:
        assert len(file["stamps_ns"]) == 2


def test_images_alone_are_those_of_the_whole_recording(rendered):
    whole, images = open_recording(rendered), open_images(rendered)
    assert images.name == whole.name
    np.testing.assert_array_equal(images.camera_stamps_ns, whole.camera_stamps_ns)
    np.testing.assert_array_equal(images.rig.cameras[1].T_b_c, whole.rig.cameras[1].T_b_c)
    assert images.rig.exact == whole.rig.exact


def test_a_bag_without_imu_has_images(rendered, tmp_path):
    recording = open_recording(rendered)

    def pixels(camera, stamp_ns):
        path = rendered / "mav0" / f"cam{camera}" / "data" / f"{stamp_ns}.png"
        return read_image(path, recording.rig.cameras[0].resolution)

    def make(bag):
        items = recording_items(bag, recording, pixels)
        return (item for item in items if item.content.__msgtype__ != IMU)

    bag = write_items(tmp_path / "flight.bag", "ros1", make)
    write_rig(tmp_path / "rig", recording.rig, "kalibr")
    frames = stereo_frames(open_images(bag, tmp_path / "rig"))
    assert len(frames) == 30
    np.testing.assert_array_equal(frames.left(4), pixels(0, int(frames.stamps_ns[4])))
    with pytest.raises(CalibrationError, match="name that of its cameras with --rig"):
        open_images(bag)


def test_what_has_no_images_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="no such file or folder"):
        open_images(tmp_path / "absent")
    with pytest.raises(DatasetError, match="folder is empty"):
        open_images(tmp_path)
