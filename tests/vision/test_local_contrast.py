"""Local scaling: exposure falls out, texture stays."""

import cv2
import numpy as np
import pytest

from maci2.vision.keyframe import locally_scaled


@pytest.fixture(scope="module")
def texture():
    noise = np.random.default_rng(0).integers(0, 255, (120, 160)).astype(np.uint8)
    smooth = cv2.GaussianBlur(noise, (0, 0), 2.0).astype(np.float64)
    return 60.0 + 30.0 * (smooth - smooth.mean()) / smooth.std()


@pytest.mark.parametrize(("gain", "offset"), [(1.5, 0.0), (0.7, 0.0), (1.0, 40.0), (1.2, -10.0)])
def test_gain_and_offset_of_brightness_fall_out(texture, gain, offset):
    plain = np.clip(texture, 0, 255).astype(np.uint8)
    exposed = np.clip(gain * plain + offset, 0, 255)
    kept = (exposed > 0) & (exposed < 255)
    difference = locally_scaled(exposed.astype(np.uint8)).astype(int) - locally_scaled(plain)
    # The softening of little contrast and rounding leave a few of the 40 grey levels.
    assert np.percentile(np.abs(difference[kept]), 95) <= 6


def test_brightness_that_changes_across_the_image_falls_out_too(texture):
    ramp = np.linspace(0.6, 1.4, texture.shape[1])
    plain = np.clip(texture, 0, 255).astype(np.uint8)
    shaded = np.clip(texture * ramp, 0, 255).astype(np.uint8)
    before = np.abs(shaded.astype(int) - plain).mean()
    after = np.abs(locally_scaled(shaded).astype(int) - locally_scaled(plain)).mean()
    assert after < 0.4 * before


def test_an_image_without_texture_stays_flat():
    np.testing.assert_array_equal(locally_scaled(np.full((60, 80), 77, np.uint8)), 128)
