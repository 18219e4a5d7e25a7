"""Real stereo images, as they are and degraded: errors, and covariances against audited ground
truth."""

import shutil

import cv2
import numpy as np
import pytest

from maci2.datasets import open_recording
from maci2.datasets.frames import image_paths
from maci2_lab.evaluation.vo_report import visual_report

pytestmark = pytest.mark.dataset


def darkened(image, index, rng):
    """A quarter of the light, with noise of 2 grey levels."""
    return 0.25 * image + rng.normal(0.0, 2.0, image.shape)


def jumping(image, index, rng):
    """Every fifth image 1.5 times brighter."""
    return image * (1.5 if index % 5 == 0 else 1.0)


def blurred(image, index, rng):
    """Smeared over 5 px along the rows, as by a fast rotation."""
    return cv2.blur(image, (5, 1))


def degraded(source, folder, change):
    """A copy of a recording with all its images changed."""
    shutil.copytree(source, folder)
    recording = open_recording(folder)
    rng = np.random.default_rng(0)
    for camera in range(2):
        for index, path in enumerate(image_paths(recording, camera)):
            image = change(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE).astype(float), index, rng)
            path.unlink()  # it may be a link
            rounded = np.clip(np.rint(image), 0, 255).astype(np.uint8)
            path.write_bytes(cv2.imencode(".png", rounded)[1].tobytes())
    return open_recording(folder)


def scored(recording):
    score = visual_report(recording, 0.2, models=("learned",))["learned"]
    return score.as_dict()


def test_relative_poses_of_the_clip_are_accurate_and_consistent(data_root):
    record = scored(open_recording(data_root / "euroc" / "MH_01_clip"))
    assert record["unmeasured"] == 0
    assert record["rotation_deg"] <= 0.0255
    assert record["translation_m"] <= 0.0014
    audited = record["audited"]["nees"]
    assert 0.5 < audited["pose"] < 1.6
    assert 0.4 < audited["rotation"] < 2.0
    assert 0.4 < audited["translation"] < 2.0


def test_a_camera_that_stands_still_has_the_errors_that_it_states(data_root):
    record = scored(open_recording(data_root / "euroc" / "MH_01_static_clip"))
    assert 0.5 < record["nees"]["pose"] < 1.6


@pytest.mark.parametrize("change", [darkened, jumping, blurred])
def test_degraded_images_are_measured_and_their_covariances_consistent(data_root, tmp_path, change):
    recording = degraded(data_root / "euroc" / "MH_01_clip", tmp_path / "degraded", change)
    record = scored(recording)
    measured, unmeasured = record["steps"], record["unmeasured"]
    assert measured >= 0.95 * (measured + unmeasured)
    assert 0.5 < record["audited"]["nees"]["pose"] < 2.0
