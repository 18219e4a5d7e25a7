"""Real images that show nothing, or a thing that moves along, for a while: no divergence, an error
that sigma covers, and the truth about it."""

import shutil

import cv2
import numpy as np
import pytest

from maci2.api import track_recording
from maci2.datasets import open_recording
from maci2.datasets.frames import image_paths
from maci2.metrics.track_errors import track_errors
from maci2.pipeline.track_recording import raw_biases
from maci2.types import NS

pytestmark = pytest.mark.dataset

FROM_S = 3.2


def black(image, camera, pattern):
    return np.zeros_like(image)


def box(share):
    """A textured box that moves along with the rig and hides a share of the width; 0.5 m away."""

    def change(image, camera, pattern):
        height, width = image.shape
        left, right = int(0.5 * (1.0 - share) * width), int(0.5 * (1.0 + share) * width)
        shift = 50 * (1 - 2 * camera)
        begin, end = max(left + shift, 0), min(right + shift, width)
        changed = image.copy()
        changed[:, begin:end] = pattern[:height, begin - shift + 200 : end - shift + 200]
        return changed

    return change


def degraded(source, folder, duration_s, change):
    """A copy of a recording whose images from FROM_S on are changed for a while."""
    shutil.copytree(source, folder)
    recording = open_recording(folder)
    rng = np.random.default_rng(0)
    pattern = cv2.resize(rng.integers(0, 255, (150, 350), dtype=np.uint8), (1400, 600))
    for camera in range(2):
        since_s = (recording.camera_stamps_ns[0] - recording.camera_stamps_ns[0][0]) / NS
        for path, t in zip(image_paths(recording, camera), since_s, strict=True):
            if FROM_S <= t < FROM_S + duration_s:
                image = change(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE), camera, pattern)
                path.unlink()
                path.write_bytes(cv2.imencode(".png", image)[1].tobytes())
    return folder


@pytest.fixture
def track_of(data_root, tmp_path):
    def run(duration_s, change):
        folder = degraded(
            data_root / "euroc" / "MH_01_clip", tmp_path / "degraded", duration_s, change
        )
        # Positions of the published ground truth are some milliseconds late.
        tracked = track_recording(folder, vision="images", truth=("audited",))
        states = tracked.at_images
        since_s = (np.array([s.stamp_ns for s in states]) - tracked.vision.stamps_ns[0]) / NS
        errors = track_errors(
            states, raw_biases(tracked.inputs, states)[0], tracked.inputs.truth, tracked.origins
        )
        return tracked, since_s, errors

    return run


def require_covered(errors):
    """Errors over all states, the degraded ones included, as large as their covariance says."""
    assert errors.nees["velocity"] < 2.0
    assert errors.nees["position"] < 2.0
    assert np.nanmax(errors.nees_over_time["velocity"]) < 5.0
    assert np.nanmax(errors.nees_over_time["position"]) < 5.0


@pytest.mark.parametrize("duration_s", [1.0, 2.0])
def test_a_blackout_is_bridged_and_sigma_grows_with_the_error(track_of, duration_s):
    tracked, since_s, errors = track_of(duration_s, black)
    health = np.array([state.health for state in tracked.at_images])
    dark = (since_s > FROM_S + 0.2) & (since_s < FROM_S + duration_s - 0.05)
    assert set(health[dark]) == {"bridging"}
    assert set(health[since_s > FROM_S + duration_s + 0.5]) == {"tracking"}
    assert {state.segment for state in tracked.at_images} == {0}
    sigma = np.array([np.sqrt(np.trace(s.cov[6:9, 6:9])) for s in tracked.at_images])
    assert sigma[dark][-1] > 1.5 * sigma[since_s < FROM_S][-1]
    require_covered(errors)
    assert errors.ate_m < 0.02


def test_after_three_seconds_of_darkness_it_says_that_it_is_lost(track_of):
    tracked, since_s, errors = track_of(4.0, black)
    health = np.array([state.health for state in tracked.at_images])
    assert "lost" not in health[since_s < FROM_S + 2.9]
    assert set(health[(since_s > FROM_S + 3.4) & (since_s < FROM_S + 3.9)]) == {"lost"}
    require_covered(errors)


@pytest.mark.parametrize("share", [0.4, 0.75])
def test_a_box_that_moves_along_does_not_carry_the_track_with_it(track_of, share):
    _, _, errors = track_of(2.0, box(share))
    require_covered(errors)
    assert errors.ate_m < 0.03
