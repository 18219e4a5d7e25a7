"""Feature tracks: what they hold, what stereo says of their depth, and the motion they give."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import chi_square_band
from maci2.errors import MeasurementError
from maci2.feature_tracks.simulated_tracks import POINTS
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.geometry import se3_inv, se3_log
from maci2.geometry.gaussian import nees
from simulated_track_cases import moving_camera

FOCAL, BASELINE = 400.0, 0.1


def two_views() -> FeatureTracks:
    """One point 2 m ahead, seen by both cameras from two places 0.2 m apart; a second one that the
    right camera never sees."""
    xy = np.array([[[0.05, 0.0], [-0.05, 0.0]], [[0.3, 0.1], [np.nan, np.nan]]])
    xy_right = np.full((2, 2, 2), np.nan)
    xy_right[0] = [[0.0, 0.0], [-0.1, 0.0]]
    seen = np.array([[True, True], [True, False]])
    seen_right = np.array([[True, True], [False, False]])
    cov = np.diag([4e-6, 1e-6])
    covs, covs_right = (
        np.where(mask[:, :, None, None], cov, np.nan) for mask in (seen, seen_right)
    )
    stamps_ns = np.array([0, 250_000_000])
    return FeatureTracks(
        stamps_ns, seen, xy, covs, seen_right, xy_right, covs_right, FOCAL, BASELINE
    )


def test_depth_is_baseline_over_disparity_with_the_variance_of_both_observations():
    tracks = two_views()
    np.testing.assert_allclose(tracks.depths[0], [2.0, 2.0])
    # dz = z^2 / b dd = 40 dd; var d = 4e-6 + 4e-6.
    np.testing.assert_allclose(tracks.var_depths[0], 40.0**2 * 8e-6)
    assert np.isnan(tracks.depths[1]).all()


def test_bearings_have_length_one_and_point_at_the_observation():
    tracks = two_views()
    np.testing.assert_allclose(tracks.bearings[0, 0], np.array([0.05, 0.0, 1.0]) / 1.0012492)
    np.testing.assert_allclose(tracks.bearings_right[0, 0], [0.0, 0.0, 1.0])
    assert np.isnan(tracks.bearings[1, 1]).all()


def test_a_point_in_the_right_image_only_is_an_error():
    tracks = two_views()
    with pytest.raises(MeasurementError, match="point 1 is seen in the right image of keyframe 1"):
        replace(tracks, seen_right=np.array([[True, True], [False, True]]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"focal_px": 0.0}, "focal_px is 0.0, needed above 0"),
        ({"baseline": -0.1}, "baseline is -0.1, needed above 0"),
        ({"seen": np.ones((2, 3), dtype=bool)}, r"seen has shape \(2, 3\)"),
        ({"seen": np.ones((2, 2))}, r"seen has shape \(2, 2\) of float64"),
        ({"seen": np.ones((2, 2), dtype=bool)}, "1 observations that count as seen are NaN"),
    ],
)
def test_what_cannot_be_is_told(changes, message):
    with pytest.raises(MeasurementError, match=message):
        replace(two_views(), **changes)


def test_covariances_of_seen_points_must_be_positive_definite():
    tracks = two_views()
    covs = tracks.covs.copy()
    covs[0, 0] = np.diag([1e-6, -1e-6])
    with pytest.raises(MeasurementError, match="covs is not positive definite"):
        replace(tracks, covs=covs)


def test_simulated_points_are_where_the_true_camera_sees_them():
    tracker, truth = moving_camera(pixel_std=1e-9)
    tracks = tracker.tracks(truth, truth.stamps_ns, (3,))
    Ts_w_c = truth.Ts_w_b @ tracker.T_b_c
    assert (tracks.seen.sum(axis=0) == POINTS).all()
    for k in range(len(Ts_w_c) - 1):
        # Depth by stereo in k, carried by the true motion, appears in k + 1 where it was found.
        both = np.isfinite(tracks.depths[:, k]) & tracks.seen[:, k + 1]
        z = tracks.depths[both, k][:, None]
        p = np.hstack([tracks.xy[both, k] * z, z, np.ones_like(z)])
        p = p @ (se3_inv(Ts_w_c[k + 1]) @ Ts_w_c[k]).T
        assert both.sum() > 10
        np.testing.assert_allclose(p[:, :2] / p[:, 2:3], tracks.xy[both, k + 1], atol=1e-7)


def test_the_same_seed_gives_the_same_tracks_and_another_seed_others():
    tracker, truth = moving_camera()
    first, again, other = (tracker.tracks(truth, truth.stamps_ns, (s,)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.xy, again.xy)
    assert not np.array_equal(first.xy[:10], other.xy[:10])


def test_motion_of_tracks_has_the_covariance_it_states():
    """Thirty-six steps of four windows; the two frames of a match err both."""
    scores = []
    for seed in range(4):
        tracker, truth = moving_camera(seed)
        poses = tracker.tracks(truth, truth.stamps_ns, (seed, 5)).relative_poses()
        assert poses.measured.all()
        Ts_w_c = truth.Ts_w_b @ tracker.T_b_c
        for k, T in enumerate(poses.Ts_ck_ck1):
            error = se3_log(T @ se3_inv(se3_inv(Ts_w_c[k]) @ Ts_w_c[k + 1]))
            scores.append(float(nees(error, poses.covs_T_ck_ck1[k])))
    low, high = chi_square_band(6, len(scores))
    assert low < np.mean(scores) < high
