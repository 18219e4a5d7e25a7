"""A stated time offset: timestamps move, images stay where they are."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from bag_files import recording_items, write_items
from maci2.datasets import open_recording
from maci2.datasets.frames import stereo_frames
from maci2.rigs import write_rig

OFFSET_S, OFFSET_NS = -0.0213, -21_300_000


@pytest.fixture
def rig_file(rendered, tmp_path):
    rig = replace(open_recording(rendered).rig, time_offset_s=OFFSET_S)
    write_rig(tmp_path / "rig", rig, "kalibr")
    return tmp_path / "rig"


def written_as_bag(folder, path):
    recording = open_recording(folder)

    def pixels(camera, stamp_ns):
        return cv2.imread(str(folder / "mav0" / f"cam{camera}" / "data" / f"{stamp_ns}.png"), 0)

    return write_items(path, "ros1", lambda bag: recording_items(bag, recording, pixels))


@pytest.mark.parametrize("kind", ["folder", "bag"])
def test_camera_stamps_move_to_the_imus_clock_and_images_are_found_all_the_same(
    kind, rendered, rig_file, tmp_path
):
    plain = open_recording(rendered)
    path = rendered if kind == "folder" else written_as_bag(rendered, tmp_path / "flight.bag")
    recording = open_recording(path, rig_file)
    assert recording.camera_shift_ns == OFFSET_NS
    for moved, stamps in zip(recording.camera_stamps_ns, plain.camera_stamps_ns, strict=True):
        np.testing.assert_array_equal(moved, stamps + OFFSET_NS)
    np.testing.assert_array_equal(recording.imu.stamps_ns, plain.imu.stamps_ns)
    pair, same = stereo_frames(recording).pair(3), stereo_frames(plain).pair(3)
    assert pair.stamp_ns == same.stamp_ns + OFFSET_NS
    np.testing.assert_array_equal(pair.left, same.left)
    np.testing.assert_array_equal(pair.right, same.right)


def test_a_recording_can_be_opened_on_the_cameras_own_clock(rendered, rig_file):
    recording = open_recording(rendered, rig_file, clock="camera")
    assert recording.camera_shift_ns == 0
    plain = open_recording(rendered)
    np.testing.assert_array_equal(recording.camera_stamps_ns[0], plain.camera_stamps_ns[0])
    assert stereo_frames(recording).pair(0).stamp_ns == plain.camera_stamps_ns[0][0]


def test_clocks_that_are_hours_apart_meet_where_the_offset_is_stated(rendered, tmp_path):
    recording = open_recording(rendered)
    hours_ns = 7_200_000_000_000
    late = replace(
        recording, camera_stamps_ns=tuple(s + hours_ns for s in recording.camera_stamps_ns)
    )
    bag = write_items(
        tmp_path / "late.bag",
        "ros1",
        lambda writer: recording_items(writer, late, lambda *_: np.zeros((480, 752), np.uint8)),
    )
    write_rig(tmp_path / "rig", replace(recording.rig, time_offset_s=-7200.0), "kalibr")
    found = open_recording(bag, tmp_path / "rig")
    np.testing.assert_array_equal(found.camera_stamps_ns[0], recording.camera_stamps_ns[0])
