"""Motion of tracks over all keyframes at once: derivatives, covariance, doubt and outliers."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from helpers import chi_square_band, numerical_jacobian
from maci2.feature_tracks.track_adjustment import (
    _chained,
    _triangulated,
    _views,
    adjusted_steps,
    residuals,
)
from maci2.geometry import se3_exp, se3_inv, se3_log
from maci2.geometry.gaussian import nees
from maci2.vision.covariance import EXACT_CALIBRATION
from maci2.vision.relative_pose import stacked
from simulated_track_cases import moving_camera


def tracks_of(seed=0, pixel_std=0.5):
    tracker, truth = moving_camera(seed, pixel_std)
    tracks = tracker.tracks(truth, truth.stamps_ns, (seed, 5))
    Ts_w_c = truth.Ts_w_b @ tracker.T_b_c
    Ts_ck_ck1 = np.array([se3_inv(a) @ b for a, b in pairwise(Ts_w_c)])
    return tracks, Ts_ck_ck1


def step_errors(steps, Ts_ck_ck1):
    return np.array(
        [se3_log(step.T_ck_ck1 @ se3_inv(T)) for step, T in zip(steps, Ts_ck_ck1, strict=True)]
    )


@pytest.mark.parametrize("k", [0, 4, 9])
def test_derivatives_of_residuals_by_pose_and_by_point(k):
    tracks, Ts_ck_ck1 = tracks_of()
    Ts = _chained(list(Ts_ck_ck1))
    views, points = _triangulated(_views(tracks, slice(0, 10)), Ts)
    # Coarser noise: finite differences of residuals in sigmas are large numbers.
    views = replace(views, whiten=views.whiten / 1e3)
    _, by_pose, by_point = residuals(views, Ts, points)
    seen = np.flatnonzero(views.seen[1, :, k])
    p = int(seen[0])

    def moved_pose(xi):
        moved = Ts.copy()
        moved[k] = se3_exp(xi) @ Ts[k]
        return residuals(views, moved, points)[0][:, p, k].ravel()

    def moved_point(d):
        moved = points.copy()
        moved[p] += d
        return residuals(views, Ts, moved)[0][:, p, k].ravel()

    np.testing.assert_allclose(
        by_pose[:, p, k].reshape(4, 6), numerical_jacobian(moved_pose, dim=6), atol=1e-7
    )
    np.testing.assert_allclose(
        by_point[:, p, k].reshape(4, 3), numerical_jacobian(moved_point, dim=3), atol=1e-7
    )


def test_noiseless_tracks_give_the_true_motion():
    tracks, Ts_ck_ck1 = tracks_of(pixel_std=1e-6)
    errors = step_errors(adjusted_steps(tracks), Ts_ck_ck1)
    assert np.abs(errors).max() < 1e-8


def test_adjusted_steps_err_less_than_two_frames_and_have_the_covariance_they_state():
    """Thirty-six steps of four windows."""
    scores, adjusted, by_pairs = [], [], []
    for seed in range(4):
        tracks, Ts_ck_ck1 = tracks_of(seed)
        steps = adjusted_steps(tracks)
        errors = step_errors(steps, Ts_ck_ck1)
        scores += [float(nees(e, s.cov_T_ck_ck1)) for e, s in zip(errors, steps, strict=True)]
        adjusted.append(errors)
        by_pairs.append(step_errors(tracks.steps(), Ts_ck_ck1))
    low, high = chi_square_band(6, len(scores))
    assert low < np.mean(scores) < high
    assert np.std(adjusted) < 0.7 * np.std(by_pairs)


def test_points_that_jump_are_rejected():
    tracks, Ts_ck_ck1 = tracks_of()
    jumping = np.flatnonzero(tracks.seen.sum(axis=1) >= 6)[:5]
    xy, xy_right = tracks.xy.copy(), tracks.xy_right.copy()
    xy[jumping, 3:] += 0.02
    xy_right[jumping, 3:] += 0.02
    errors = step_errors(adjusted_steps(replace(tracks, xy=xy, xy_right=xy_right)), Ts_ck_ck1)
    clean = step_errors(adjusted_steps(tracks), Ts_ck_ck1)
    assert np.abs(errors - clean).max() < 3.0 * np.abs(clean).max()


def test_a_step_without_enough_points_stays_unmeasured_and_the_others_are_adjusted():
    tracks, Ts_ck_ck1 = tracks_of()
    seen_right, xy_right = tracks.seen_right.copy(), tracks.xy_right.copy()
    seen_right[:, 5], xy_right[:, 5] = False, np.nan
    steps = adjusted_steps(replace(tracks, seen_right=seen_right, xy_right=xy_right))
    poses = stacked(steps, "rectified", EXACT_CALIBRATION)
    assert poses.measured.tolist() == [True] * 4 + [False] * 2 + [True] * 3
    errors = step_errors(steps, Ts_ck_ck1)[poses.measured]
    assert np.abs(errors).max() < 0.05
