"""The file of feature tracks: written, read back, read from a file made by hand, and damaged."""

import numpy as np
import pytest

from maci2.errors import DatasetError, MeasurementError
from maci2.feature_tracks.tracks import FeatureTracks, load_tracks, save_tracks

COV = np.diag([1e-6, 2e-6])

BY_HAND = {
    "track": np.array([7, 7, 3]),
    "stamp_ns": np.array([1_000_000_000, 1_250_000_000, 1_250_000_000]),
    "xy": np.array([[0.1, 0.2], [0.15, 0.2], [-0.3, 0.0]]),
    "cov": np.tile(COV, (3, 1, 1)),
    "seen_right": np.array([True, False, True]),
    "xy_right": np.array([[0.05, 0.2], [np.nan, np.nan], [-0.4, 0.0]]),
    "cov_right": np.tile(COV, (3, 1, 1)),
    "focal_px": np.array(450.0),
    "baseline": np.array(0.1),
}


def written(folder, **changes):
    path = folder / "tracks.npz"
    content = {**BY_HAND, **changes}
    np.savez(path, **{name: value for name, value in content.items() if value is not None})
    return path


def test_a_file_made_by_hand(tmp_path):
    recorded = load_tracks(written(tmp_path))
    np.testing.assert_array_equal(recorded.stamps_ns, [1_000_000_000, 1_250_000_000])
    tracks = recorded.tracks(recorded.stamps_ns)
    # Points in the order of their numbers: 3 is seen in the second keyframe only.
    np.testing.assert_array_equal(tracks.seen, [[False, True], [True, True]])
    np.testing.assert_array_equal(tracks.seen_right, [[False, True], [True, False]])
    np.testing.assert_array_equal(tracks.xy[1], [[0.1, 0.2], [0.15, 0.2]])
    np.testing.assert_array_equal(tracks.xy_right[0, 1], [-0.4, 0.0])
    np.testing.assert_allclose(tracks.depths[1, 0], 2.0)
    np.testing.assert_allclose(tracks.depths[0, 1], 1.0)
    np.testing.assert_array_equal(tracks.covs[1, 1], COV)
    assert (tracks.focal_px, tracks.baseline, tracks.frame) == (450.0, 0.1, "rectified")


def test_what_is_written_is_read(tmp_path):
    tracks = load_tracks(written(tmp_path)).tracks(BY_HAND["stamp_ns"][:2])
    save_tracks(tmp_path / "again.npz", tracks)
    again = load_tracks(tmp_path / "again.npz").tracks(tracks.stamps_ns)
    for name in FeatureTracks.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(again, name), getattr(tracks, name), err_msg=name)


def test_a_keyframe_without_observation_is_told(tmp_path):
    recorded = load_tracks(written(tmp_path))
    with pytest.raises(DatasetError, match=r"no observation at 1100000000 ns"):
        recorded.tracks(np.array([1_000_000_000, 1_100_000_000]))


@pytest.mark.parametrize("name", BY_HAND)
def test_a_missing_array_is_named(tmp_path, name):
    with pytest.raises(MeasurementError, match=rf"lacks {name}"):
        load_tracks(written(tmp_path, **{name: None}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"track": np.array([7, 3, 3])}, "track 3 is observed twice at 1250000000 ns"),
        ({"track": np.array([7.0, 7.0, 3.0])}, "needed integers"),
        ({"xy": np.full((3, 2), np.nan)}, "xy"),
        ({"xy_right": np.full((3, 2), np.nan)}, "xy_right"),
        ({"xy": np.zeros((3, 3))}, r"xy has shape \(3, 3\), needed \(3, 2\)"),
        ({"cov": np.tile(-COV, (3, 1, 1))}, "cov is not positive definite"),
        ({"cov_right": np.tile(-COV, (3, 1, 1))}, "cov_right is not positive definite"),
        ({"seen_right": np.array([1, 0, 1])}, "needed true or false"),
        ({"focal_px": np.array(0.0)}, "focal_px is 0.0, needed above 0"),
        ({"baseline": np.array(np.inf)}, "baseline is inf, needed above 0"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path, changes, message):
    with pytest.raises(MeasurementError, match=message):
        load_tracks(written(tmp_path, **changes))


def test_a_file_without_observations_is_told(tmp_path):
    empty = {
        name: value[:0] for name, value in BY_HAND.items() if name not in ("focal_px", "baseline")
    }
    with pytest.raises(MeasurementError, match="holds no observation"):
        load_tracks(written(tmp_path, **empty))
