"""How far the tracked vertical is off, from audited ground truths."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.geometry import so3_exp
from maci2.imu.bias_tracker import StationaryShift
from maci2_lab.training.imu.data import load_track, with_bias_tracked
from maci2_lab.training.imu.finish import tilt_errors, vertical_spread
from maci2_lab.training.imu.train import turn_on_prior
from tools.ground_truth.faulty_truths import PUBLISHED, recording_with

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def tracks(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        loaded = [
            load_track(recording_with(PUBLISHED, seed, duration_s=40.0), "simulated")
            for seed in (71, 72)
        ]
    prior = turn_on_prior(loaded, [])
    return [with_bias_tracked(track, prior, StationaryShift()) for track in loaded]


def tilted(track, phi_w):
    """The track with a vertical that is off by this much more."""
    vertical = track.vertical
    return replace(track, vertical=replace(vertical, Rs_w_b=so3_exp(phi_w) @ vertical.Rs_w_b))


def test_the_error_of_a_vertical_is_found_with_its_sign(tracks):
    phi_w = np.radians([3.0, -2.0, 0.0])
    sound, wrong = (tilt_errors(one)[0] for one in (tracks[0], tilted(tracks[0], phi_w)))
    # Down turns by the inverse of what turns the attitude.
    np.testing.assert_allclose(wrong - sound, np.tile(-phi_w[:2], (len(sound), 1)), atol=4e-3)
    assert np.degrees(np.sqrt(np.mean(sound**2))) < 0.5


def test_the_spread_is_the_rms_error_of_recordings_widened_for_few(tracks):
    errors = [np.mean(tilt_errors(track)[0] ** 2) for track in tracks]
    # Two recordings of two axes: Student's variance is twice as large.
    assert vertical_spread(tracks) == pytest.approx(np.sqrt(2.0 * np.mean(errors)))


def test_one_recording_says_nothing_of_others(tracks):
    assert vertical_spread(tracks[:1]) is None
    assert vertical_spread([replace(track, vertical=None) for track in tracks]) is None
