"""Relative poses: what is refused, and what survives a file."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import twist
from maci2.errors import MeasurementError
from maci2.lie import se3_exp
from maci2.vision import RelativePoses, load_relative_poses, save_relative_poses

STAMPS_NS = np.array([100, 200, 300, 450], dtype=np.int64) * 1_000_000


def poses(frame="camera"):
    rng = np.random.default_rng(2)
    factors = rng.standard_normal((3, 6, 8))
    return RelativePoses(
        stamps_ns=STAMPS_NS,
        Ts_ck_ck1=np.array([se3_exp(twist(rng, 0.1, 0.2)) for _ in range(3)]),
        covs_T_ck_ck1=1e-6 * factors @ np.swapaxes(factors, 1, 2),
        frame=frame,
    )


def test_the_length_is_the_number_of_keyframes():
    assert len(poses()) == 4


def test_steps_that_do_not_match_the_keyframes_are_shown_with_both_shapes():
    with pytest.raises(MeasurementError) as raised:
        replace(poses(), Ts_ck_ck1=poses().Ts_ck_ck1[:2])
    for part in ("4 keyframes need Ts_ck_ck1 (3, 4, 4)", "(3, 6, 6)", "found (2, 4, 4)"):
        assert part in str(raised.value)


def test_covariances_of_the_wrong_shape_are_shown():
    with pytest.raises(MeasurementError, match=r"found \(3, 4, 4\) and \(3, 5, 5\)"):
        replace(poses(), covs_T_ck_ck1=poses().covs_T_ck_ck1[:, :5, :5])


@pytest.mark.parametrize("stamps", [[100, 200, 200, 300], [100, 300, 200, 400]])
def test_keyframe_stamps_must_increase(stamps):
    with pytest.raises(MeasurementError, match="at least two and strictly increasing"):
        replace(poses(), stamps_ns=np.array(stamps))


def test_one_keyframe_alone_is_no_measurement():
    with pytest.raises(MeasurementError, match="at least two"):
        RelativePoses(STAMPS_NS[:1], np.empty((0, 4, 4)), np.empty((0, 6, 6)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_pose_that_is_not_finite_is_refused_with_the_remedy(value):
    Ts = poses().Ts_ck_ck1.copy()
    Ts[1, 0, 3] = value
    with pytest.raises(MeasurementError, match=r"Ts_ck_ck1 holds NaN or infinity; drop"):
        replace(poses(), Ts_ck_ck1=Ts)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda covs: covs * [[[-1.0]], [[1.0]], [[1.0]]],
            r"not positive definite at index \(0,\)",
        ),
        (lambda covs: covs + np.triu(np.ones((6, 6)), 1), "covs_T_ck_ck1 is not symmetric"),
        (lambda covs: covs * np.nan, "covs_T_ck_ck1 holds NaN"),
    ],
)
def test_a_covariance_that_is_not_one_is_refused_by_name(spoil, message):
    with pytest.raises(MeasurementError, match=message):
        replace(poses(), covs_T_ck_ck1=spoil(poses().covs_T_ck_ck1))


@pytest.mark.parametrize("frame", ["camera", "rectified"])
def test_saved_poses_load_with_the_same_numbers(tmp_path, frame):
    written = poses(frame)
    save_relative_poses(tmp_path / "poses.npz", written)
    read = load_relative_poses(tmp_path / "poses.npz")
    np.testing.assert_array_equal(read.stamps_ns[:, 0], written.stamps_ns[:-1])
    np.testing.assert_array_equal(read.stamps_ns[:, 1], written.stamps_ns[1:])
    assert read.stamps_ns.dtype == np.int64
    np.testing.assert_array_equal(read.Ts_ck_ck1, written.Ts_ck_ck1)
    np.testing.assert_array_equal(read.covs_T_ck_ck1, written.covs_T_ck_ck1)
    assert read.frame == frame
    assert read.source == str(tmp_path / "poses.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["poses.npz"]


def test_a_missing_file_is_named_with_what_writes_one(tmp_path):
    with pytest.raises(MeasurementError, match=r"absent\.npz: no such file; .*maci2 vo"):
        load_relative_poses(tmp_path / "absent.npz")


@pytest.mark.parametrize("key", ["stamps_ns", "T_ck_ck1", "cov", "frame"])
def test_a_missing_key_is_named_beside_those_found(tmp_path, key):
    save_relative_poses(tmp_path / "whole.npz", poses())
    with np.load(tmp_path / "whole.npz") as file:
        content = {name: file[name] for name in file.files if name != key}
    np.savez(tmp_path / "poses.npz", **content)
    with pytest.raises(MeasurementError) as raised:
        load_relative_poses(tmp_path / "poses.npz")
    assert f"poses.npz: lacks {key}; holds " in str(raised.value)
    assert all(name in str(raised.value) for name in content)


def test_a_file_that_is_no_archive_is_named(tmp_path):
    (tmp_path / "poses.npz").write_text("not an archive")
    with pytest.raises(MeasurementError, match=r"poses\.npz: is no readable \.npz file"):
        load_relative_poses(tmp_path / "poses.npz")


def saved_with(path, **changes):
    written = poses()
    content = {
        "stamps_ns": np.stack([written.stamps_ns[:-1], written.stamps_ns[1:]], axis=1),
        "T_ck_ck1": written.Ts_ck_ck1,
        "cov": written.covs_T_ck_ck1,
        "frame": "camera",
    }
    np.savez(path, **{**content, **changes})


def test_an_unknown_frame_is_named_beside_the_known_ones(tmp_path):
    saved_with(tmp_path / "poses.npz", frame="body")
    with pytest.raises(MeasurementError, match="frame is 'body', needed 'camera' or 'rectified'"):
        load_relative_poses(tmp_path / "poses.npz")


def test_a_file_with_a_covariance_that_is_not_one_is_named(tmp_path):
    saved_with(tmp_path / "poses.npz", cov=np.tile(np.diag([1.0] * 5 + [-1.0]), (3, 1, 1)))
    with pytest.raises(MeasurementError, match=r"poses\.npz: cov is not positive definite"):
        load_relative_poses(tmp_path / "poses.npz")
