"""What patches say of the shift between them, against shifts that are known."""

import cv2
import numpy as np
import pytest

from maci2.vision.covariance import (
    EVIDENCE,
    INPUTS,
    MATCHED_SIDE,
    PARTS,
    PATCH_INPUTS,
    RESIDUALS,
    SHIFTS,
    TRACK_SCALARS,
    disparity_evidence,
    normal_parts,
    sample,
    sharpness_change,
    shift_evidence,
)


def texture(seed, side=MATCHED_SIDE + 8):
    """Smooth random grey levels."""
    grey = np.random.default_rng(seed).normal(0.0, 1.0, (side, side)).astype(np.float32)
    grey = cv2.GaussianBlur(grey, (0, 0), 2.0).astype(np.float64)
    return 128.0 + 30.0 * grey / grey.std()


def middle_of(image):
    return np.ascontiguousarray(image[4:-4, 4:-4])


def evidence_of(patch, other):
    parts, middle, evidence = np.empty((PARTS, PARTS, 5)), np.empty(5), np.empty(SHIFTS)
    grey_var = normal_parts(patch, other, parts, middle)
    shift_evidence(parts, middle, grey_var, evidence)
    return evidence


def test_a_patch_is_sampled_between_pixels_and_stays_inside():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (60, 80)).astype(np.uint8)
    patch = np.empty((MATCHED_SIDE, MATCHED_SIDE))
    sample(image, np.array([40.25, 30.5]), patch)
    around = image[20:42, 30:52].astype(float)
    across = 0.75 * around[:, :-1] + 0.25 * around[:, 1:]
    np.testing.assert_allclose(patch, 0.5 * (across[:-1] + across[1:]), atol=1e-9)
    for outside in (-50.0, 500.0):
        sample(image, np.full(2, outside), patch)
        assert (patch >= 0.0).all()
        assert (patch <= 255.0).all()


def test_least_squares_and_parts_state_the_spread_that_noise_makes():
    """Shifts solved from noisy patches spread as both kinds of evidence say."""
    patch, rng = middle_of(texture(1)), np.random.default_rng(2)
    gy, gx = np.gradient(patch)
    gx, gy = gx[1:-1, 1:-1].ravel(), gy[1:-1, 1:-1].ravel()
    A = np.column_stack([gx, gy])
    shifts, stated = [], []
    for _ in range(400):
        other = patch + 4.0 * rng.standard_normal(patch.shape)
        shifts.append(np.linalg.lstsq(A, (patch - other)[1:-1, 1:-1].ravel(), rcond=None)[0])
        stated.append(np.exp(evidence_of(patch, other)[[0, 1, 3, 4]]) ** 2)
    actual, stated = np.var(shifts, axis=0), np.mean(stated, axis=0)
    np.testing.assert_allclose(stated[:2] / actual, 1.0, atol=0.2)
    np.testing.assert_allclose(stated[2:] / actual, 1.0, atol=0.25)


def test_parts_that_move_differently_show_where_residuals_alone_do_not():
    """An edge of depth: the left half moves half a pixel, as large a residual as noise makes."""
    image = texture(3)
    patch = middle_of(image)
    moved = cv2.warpAffine(image, np.array([[1.0, 0, 0.5], [0, 1, 0]]), image.shape[::-1],
                           flags=cv2.INTER_CUBIC)  # fmt: skip
    torn = patch.copy()
    torn[:, : MATCHED_SIDE // 2] = middle_of(moved)[:, : MATCHED_SIDE // 2]
    rng = np.random.default_rng(4)
    noisy = patch + np.std(torn - patch) * rng.standard_normal(patch.shape)
    edge, noise = evidence_of(patch, torn), evidence_of(patch, noisy)
    np.testing.assert_allclose(edge[0], noise[0], atol=0.2)
    assert edge[3] > noise[3] + np.log(2.0)


def test_the_middle_tells_that_it_moved_alone():
    image = texture(5)
    patch = middle_of(image)
    moved = cv2.warpAffine(image, np.array([[1.0, 0, 0.3], [0, 1, 0]]), image.shape[::-1],
                           flags=cv2.INTER_CUBIC)  # fmt: skip
    other, inner = patch.copy(), slice(MATCHED_SIDE // 2 - 4, MATCHED_SIDE // 2 + 5)
    other[inner, inner] = middle_of(moved)[inner, inner]
    evidence = evidence_of(patch, other)
    assert np.exp(evidence[6]) == pytest.approx(0.3, rel=0.3)
    assert np.exp(evidence[7]) < 0.1


def test_disparities_have_the_same_evidence_along_rows():
    patch, rng = middle_of(texture(6)), np.random.default_rng(7)
    parts, middle, evidence = np.empty((PARTS, PARTS, 5)), np.empty(5), np.empty(2)
    gx = np.gradient(patch)[1][1:-1, 1:-1]
    shifts, stated = [], []
    for _ in range(400):
        other = patch + 4.0 * rng.standard_normal(patch.shape)
        shifts.append((gx * (patch - other)[1:-1, 1:-1]).sum() / (gx * gx).sum())
        normal_parts(patch, other, parts, middle)
        disparity_evidence(parts, middle, evidence)
        stated.append(np.exp(evidence[0]) ** 2)
    assert np.mean(stated) / np.var(shifts) == pytest.approx(1.0, abs=0.25)


def test_a_blurred_patch_is_told_from_a_sharp_one():
    image = texture(8)
    parts, back, middle = np.empty((PARTS, PARTS, 5)), np.empty((PARTS, PARTS, 5)), np.empty(5)
    sharp, blurred = middle_of(image), middle_of(cv2.GaussianBlur(image, (0, 0), 2.0))
    normal_parts(sharp, blurred, parts, middle)
    normal_parts(blurred, sharp, back, middle)
    assert sharpness_change(parts, back) < -0.3
    assert sharpness_change(parts, parts) == 0.0


def test_a_gain_and_an_offset_of_brightness_are_no_evidence_against_a_match():
    patch = middle_of(texture(9))
    same, brighter = evidence_of(patch, patch), evidence_of(patch, 1.5 * patch + 10.0)
    np.testing.assert_allclose(np.exp(brighter[:2]), np.exp(same[:2]), atol=0.03)


def test_the_network_reads_what_is_written():
    assert INPUTS == PATCH_INPUTS + RESIDUALS + EVIDENCE + TRACK_SCALARS
