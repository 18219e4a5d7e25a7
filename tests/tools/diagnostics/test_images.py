"""Faults put into rendered images one at a time are named in the diagnosis' first line."""

import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from image_faults import IMAGE_FAULTS, held, rewrite

from bag_files import recording_items, write_items
from maci2.datasets import open_recording
from maci2.geometry import so3_exp
from maci2.pipeline.options import CheckOptions
from maci2.report.recording_pages import diagnostics_page
from maci2.rigs import write_rig
from maci2.sensors import truth_at
from maci2.simulation.rendering.images import RenderConfig, scene_for, write_image
from maci2.tools.diagnostics.diagnose import examine, examine_path
from maci2.tools.diagnostics.images import edge_widths


def found_wrong(health):
    return [f"{f.level} {f.what}: {f.text}" for f in health.findings if f.level != "ok"]


@pytest.mark.parametrize("fault", IMAGE_FAULTS)
def test_a_fault_of_the_images_is_named_in_the_first_line(fault, rendered_copy):
    damage, words = IMAGE_FAULTS[fault]
    damage(rendered_copy / "mav0")
    assert words in examine_path(rendered_copy).first_line


def test_nothing_is_found_in_sound_images_and_their_numbers_are_shown(rendered):
    health = examine_path(rendered)
    assert found_wrong(health) == []
    assert health.images is not None
    assert health.images.row_error_px < 0.1
    content = health.as_dict()["images"]
    assert content["places"] in (15, 16)
    assert content["cameras"][0]["edge_px"] == pytest.approx(5.6, abs=0.8)
    page = diagnostics_page(health, None, "maci2 check")
    assert f"at {health.images.places} places" in page


def degraded_rig(recording, change):
    left, right = recording.rig.cameras
    return replace(recording, rig=replace(recording.rig, cameras=(left, change(right))))


def turned(camera, axis, deg):
    T_b_c = camera.T_b_c.copy()
    T_b_c[:3, :3] = T_b_c[:3, :3] @ so3_exp(np.deg2rad(deg) * np.eye(3)[axis])
    return replace(camera, T_b_c=T_b_c)


@pytest.mark.parametrize(
    ("axis", "deg", "cause"),
    [
        (0, 1.0, "the cameras are tilted against each other"),
        (0, -4.0, "the cameras are tilted against each other"),
        (2, 2.0, "the cameras are rolled against each other"),
        (1, 2.0, "rotated against each other about the vertical axis"),
    ],
)
def test_a_wrong_stereo_rotation_is_named_with_its_axis(rendered, axis, deg, cause):
    recording = degraded_rig(open_recording(rendered), lambda camera: turned(camera, axis, deg))
    line = examine(recording).first_line
    assert "stereo: the stereo calibration does not fit the images" in line
    assert cause in line


def test_a_wrong_focal_length_is_named(rendered):
    recording = degraded_rig(
        open_recording(rendered), lambda c: replace(c, intrinsics=c.intrinsics * [1.04, 1.04, 1, 1])
    )
    line = examine(recording).first_line
    assert "the stereo calibration does not fit the images" in line
    assert "focal lengths or lens distortion are wrong" in line


def test_the_row_error_is_the_one_put_in(rendered_copy):
    """Images moved down by 2 px; the new focal length is that of the old one to 0.3 %."""
    shift = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 2.0]])
    rewrite(
        rendered_copy / "mav0",
        (1,),
        lambda image, _: cv2.warpAffine(image, shift, image.shape[::-1], borderMode=1),
    )
    health = examine_path(rendered_copy)
    camera = open_recording(rendered_copy).rig.cameras[1]
    # Distortion is small in the middle of the image only.
    assert health.images.row_error_px == pytest.approx(2.0, rel=0.2)
    assert camera.distortion_model == "radtan"
    assert "tilted" in health.first_line


def test_right_images_from_the_frame_before_are_called_late_with_their_delay(rendered_copy):
    held(rendered_copy / "mav0", 1, lambda n: n - 1 if n else 5)
    line = examine_path(rendered_copy).first_line
    assert "Right images are taken 1 frames earlier than their timestamps say (100 ms)" in line


def test_a_right_camera_that_exposes_late_is_not_taken_for_a_wrong_calibration(rendered_copy):
    """By less than a frame, so that no other image fits: row errors change from pair to pair."""
    recording = open_recording(rendered_copy)
    _, views = scene_for(recording, RenderConfig(rate_hz=10.0, seed=1))
    stamps_ns, T_b_c = recording.camera_stamps_ns[1], recording.rig.cameras[1].T_b_c
    first_ns, last_ns = recording.truth().stamps_ns[[0, -1]]
    taken_ns = np.clip(stamps_ns + 30_000_000, first_ns, last_ns)
    rng = np.random.default_rng(0)
    for stamp_ns, T_w_b in zip(
        stamps_ns, truth_at(recording.truth(), taken_ns, 0.06).Ts_w_b, strict=True
    ):
        image = views[1].render(T_w_b @ T_b_c, 0.0, 1.0, rng, T_w_b @ T_b_c)
        write_image(rendered_copy / "mav0" / "cam1" / "data" / f"{stamp_ns}.png", image)
    line = examine_path(rendered_copy).first_line
    assert "stereo: left and right images are not synchronized" in line
    assert "Rows move from pair to pair" in line


def test_images_of_a_bag_are_looked_at_too(rendered, tmp_path):
    recording = open_recording(rendered)
    mav0, bag = rendered / "mav0", tmp_path / "flight.bag"

    def pixels(camera, stamp_ns):
        return cv2.imread(str(mav0 / f"cam{camera}" / "data" / f"{stamp_ns}.png"), 0)

    write_items(bag, "ros1", lambda writer: recording_items(writer, recording, pixels))
    write_rig(tmp_path / "rig", recording.rig, "kalibr")
    assert examine_path(bag, CheckOptions(rig=tmp_path / "rig")).images == examine(recording).images


@pytest.mark.parametrize("sigma_px", [3.0, 4.0, 6.0])
def test_edges_are_as_wide_as_they_are_blurred(sigma_px):
    """A step blurred by sigma has the slope step / (sqrt(2 pi) sigma)."""
    image = np.full((240, 320), 60, np.uint8)
    image[:, 160:] = 190
    image[120:] = 250 - image[120:]
    wide = np.asarray(cv2.GaussianBlur(image, (0, 0), sigma_px))
    expected = np.sqrt(2.0 * np.pi * (sigma_px**2 + (2.0 * 0.7) ** 2))
    assert edge_widths(wide) == pytest.approx((expected, expected), rel=0.15)


@pytest.mark.dataset
@pytest.mark.parametrize("fault", IMAGE_FAULTS)
def test_a_fault_put_into_real_images_is_named_in_the_first_line(fault, data_root, tmp_path):
    folder = Path(shutil.copytree(data_root / "euroc" / "MH_01_clip", tmp_path / "clip"))
    damage, words = IMAGE_FAULTS[fault]
    damage(folder / "mav0")
    assert words in examine_path(folder).first_line


@pytest.mark.dataset
@pytest.mark.parametrize("name", ["euroc/MH_01_clip", "euroc/MH_01_static_clip"])
def test_no_false_alarm_on_real_images(data_root, name):
    health = examine_path(data_root / name)
    assert [line for line in found_wrong(health) if "windows" not in line] == []
    assert health.images.row_error_px < 0.5
