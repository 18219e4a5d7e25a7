"""Reading stereo images: pairs, and everything that can be wrong with a file."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from maci2.datasets import open_recording
from maci2.datasets.frames import read_image, stereo_frames
from maci2.errors import DatasetError

PNG = cv2.imencode(".png", np.arange(600, dtype=np.uint8).reshape(20, 30))[1].tobytes()


def test_a_good_image_reads_as_it_was_written(tmp_path):
    (tmp_path / "1.png").write_bytes(PNG)
    assert read_image(tmp_path / "1.png", (30, 20))[0, 7] == 7


def test_deep_images_keep_their_upper_bits(tmp_path):
    deep = np.full((20, 30), 0x1234, np.uint16)
    (tmp_path / "1.png").write_bytes(cv2.imencode(".png", deep)[1].tobytes())
    assert read_image(tmp_path / "1.png", (30, 20))[0, 0] == 0x12


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (PNG[:-8], "truncated"),
        (b"", "truncated"),
        (b"not an image" + PNG[-12:], "not a readable image"),
        (cv2.imencode(".png", np.zeros((20, 31), np.uint8))[1].tobytes(), "is 31x20.*30x20"),
    ],
)
def test_a_bad_image_is_named(tmp_path, content, message):
    path = tmp_path / "1.png"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=message) as found:
        read_image(path, (30, 20))
    assert str(path) in str(found.value)


def test_a_missing_image_names_the_list_it_stands_in(tmp_path):
    with pytest.raises(DatasetError, match=r"data\.csv but missing"):
        read_image(tmp_path / "data" / "1.png", (30, 20))


def test_frames_pair_by_stamp_and_count_what_has_no_partner(rendered):
    recording = open_recording(rendered)
    left, right = recording.camera_stamps_ns
    names = {stamp_ns + 200_000: f"{stamp_ns}.png" for stamp_ns in right.tolist()}
    late = replace(recording, camera_stamps_ns=(left, right[1:] + 200_000), image_names=({}, names))
    frames = stereo_frames(late)
    assert len(frames) == len(left) - 1
    assert frames.unpaired == 1
    np.testing.assert_array_equal(frames.stamps_ns, left[1:])
    with pytest.raises(DatasetError, match="no stereo pair at 17 ns"):
        frames.index_of(17)


def test_cameras_on_different_clocks_have_no_pairs(rendered):
    recording = open_recording(rendered)
    left, right = recording.camera_stamps_ns
    with pytest.raises(DatasetError, match="no left image has a right one"):
        stereo_frames(replace(recording, camera_stamps_ns=(left, right + 10**12)))


def test_a_recording_that_lists_stamps_only_says_so(small_files):
    with pytest.raises(DatasetError, match="no images; the recording lists their timestamps only"):
        stereo_frames(open_recording(small_files / "euroc_mini"))


def test_one_camera_is_not_stereo(rendered):
    recording = open_recording(rendered)
    alone = replace(recording, rig=replace(recording.rig, cameras=recording.rig.cameras[:1]))
    with pytest.raises(DatasetError, match="stereo needs cam0 and cam1"):
        stereo_frames(alone)
