"""Relative poses: what is refused, and what survives a file."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import chi_square_band, twist
from maci2.errors import MeasurementError
from maci2.geometry import se3_exp, se3_inv, se3_log
from maci2.geometry.gaussian import nees
from maci2.vision import (
    PossibleMotion,
    RelativePoses,
    any_motion,
    load_relative_poses,
    poses_from_measurements,
    save_relative_poses,
)

STAMPS_NS = np.array([100, 200, 300, 450], dtype=np.int64) * 1_000_000


def poses(frame="camera"):
    rng = np.random.default_rng(2)
    factors = rng.standard_normal((3, 6, 8))
    return RelativePoses(
        stamps_ns=STAMPS_NS,
        Ts_ck_ck1=np.array([se3_exp(twist(rng, 0.1, 0.2)) for _ in range(3)]),
        covs_T_ck_ck1=1e-6 * factors @ np.swapaxes(factors, 1, 2),
        frame=frame,
        std_scale=0.007,
    )


def test_the_length_is_the_number_of_keyframes():
    assert len(poses()) == 4


def test_steps_that_do_not_match_the_keyframes_are_shown_with_both_shapes():
    expected = r"Ts_ck_ck1 has the shape \(2, 4, 4\), needed \(3, 4, 4\)"
    with pytest.raises(MeasurementError, match=expected):
        replace(poses(), Ts_ck_ck1=poses().Ts_ck_ck1[:2])


def test_covariances_of_the_wrong_shape_are_shown():
    with pytest.raises(MeasurementError, match=r"\(3, 5, 5\), needed \(3, 6, 6\)"):
        replace(poses(), covs_T_ck_ck1=poses().covs_T_ck_ck1[:, :5, :5])


@pytest.mark.parametrize("stamps", [[100, 200, 200, 300], [100, 300, 200, 400]])
def test_keyframe_stamps_must_increase(stamps):
    with pytest.raises(MeasurementError, match="not strictly increasing"):
        replace(poses(), stamps_ns=np.array(stamps))


def test_one_keyframe_alone_is_no_measurement():
    with pytest.raises(MeasurementError, match=r"needed \(n,\) with n at least 2"):
        RelativePoses(STAMPS_NS[:1], np.empty((0, 4, 4)), np.empty((0, 6, 6)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_pose_that_is_not_finite_is_refused_with_the_remedy(value):
    Ts = poses().Ts_ck_ck1.copy()
    Ts[1, 0, 3] = value
    with pytest.raises(MeasurementError, match=r"Ts_ck_ck1 is (nan|inf) at index \(1, 0, 3\)"):
        replace(poses(), Ts_ck_ck1=Ts)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda covs: covs * [[[-1.0]], [[1.0]], [[1.0]]],
            r"not positive definite at index \(0,\)",
        ),
        (lambda covs: covs + np.triu(np.ones((6, 6)), 1), "covs_T_ck_ck1 is not symmetric"),
        (lambda covs: covs * np.nan, r"covs_T_ck_ck1 is nan at index \(0, 0, 0\)"),
    ],
)
def test_a_covariance_that_is_not_one_is_refused_by_name(damage, message):
    with pytest.raises(MeasurementError, match=message):
        replace(poses(), covs_T_ck_ck1=damage(poses().covs_T_ck_ck1))


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
    assert read.std_scale == written.std_scale
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


def test_every_pose_counts_as_measured_unless_a_reason_says_otherwise():
    assert poses().measured.tolist() == [True, True, True]
    some = replace(poses(), reasons=("", "dark image", ""))
    assert some.measured.tolist() == [True, False, True]
    assert repr(some) == "RelativePoses(4 keyframes, 0.350 s, 2 of 3 measured, frame 'camera')"


def test_a_large_covariance_alone_does_not_make_a_pose_unmeasured():
    vague = replace(poses(), covs_T_ck_ck1=np.tile(1e4 * np.eye(6), (3, 1, 1)))
    assert vague.measured.all()


@pytest.mark.parametrize("reasons", [("",), ("", "", "", ""), "abc", (1, 2, 3)])
def test_reasons_that_do_not_match_the_poses_are_refused(reasons):
    with pytest.raises(MeasurementError, match="reasons"):
        replace(poses(), reasons=reasons)


def test_what_was_not_measured_survives_a_file(tmp_path):
    written = replace(poses(), reasons=("", "dark image", ""))
    save_relative_poses(tmp_path / "poses.npz", written)
    assert load_relative_poses(tmp_path / "poses.npz").reasons == ("", "dark image", "")
    with np.load(tmp_path / "poses.npz") as file:
        assert file["measured"].tolist() == [True, False, True]


def test_a_file_with_a_mask_but_no_reasons_is_read(tmp_path):
    saved_with(tmp_path / "poses.npz", measured=np.array([True, True, False]))
    assert load_relative_poses(tmp_path / "poses.npz").reasons == ("", "", "not measured")


def test_a_file_of_version_0_1_without_a_mask_is_read(tmp_path):
    """It marked what it had not measured by the identity and exactly one covariance."""
    Ts, covs = poses().Ts_ck_ck1.copy(), poses().covs_T_ck_ck1.copy()
    Ts[1], covs[1] = np.eye(4), any_motion(0.1)
    covs[2] = 1e4 * np.eye(6)
    saved_with(tmp_path / "poses.npz", T_ck_ck1=Ts, cov=covs)
    assert load_relative_poses(tmp_path / "poses.npz").reasons == ("", "not measured", "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reasons": np.array(["", ""])}, r"reasons has shape \(2,\), needed \(3\)"),
        ({"stamps_ns": np.zeros((3, 2))}, "stamps_ns: holds float64, needed integers"),
        ({"stamps_ns": np.array([[3, 1], [4, 2], [5, 6]])}, "pose 0 leads from 3 to 1 ns"),
        ({"T_ck_ck1": np.tile(1.1 * np.eye(4), (3, 1, 1))}, r"T_ck_ck1\[0\] is no rigid transform"),
        ({"cov": np.eye(6)}, r"cov has shape \(6, 6\), needed \(3, 6, 6\)"),
    ],
)
def test_a_file_whose_arrays_do_not_fit_is_refused_by_name(tmp_path, changes, message):
    saved_with(tmp_path / "poses.npz", **changes)
    with pytest.raises(MeasurementError, match=rf"poses\.npz: {message}"):
        load_relative_poses(tmp_path / "poses.npz")


def absolute_poses(rng, count=4):
    return np.array([se3_exp(twist(rng, 2.0, 0.7)) for _ in range(count)])


def random_covs(rng, count, size):
    factors = rng.standard_normal((count, 6, 8))
    return size**2 * factors @ np.swapaxes(factors, 1, 2)


@pytest.mark.parametrize("errors", ["independent", "accumulated", "relative"])
def test_covariances_of_absolute_poses_become_those_of_relative_ones(errors):
    """Sampled errors of the absolute poses, as each kind says they arise, give NEES of 1."""
    rng = np.random.default_rng(3)
    Ts_w_c = absolute_poses(rng)
    exact = np.array([se3_inv(T) for T in Ts_w_c[:-1]]) @ Ts_w_c[1:]
    parts = random_covs(rng, 3 if errors == "relative" else 4, 1e-4)
    covs = np.cumsum(parts, axis=0) if errors == "accumulated" else parts
    made = RelativePoses.from_absolute(STAMPS_NS, Ts_w_c, covs, errors)
    np.testing.assert_allclose(made.Ts_ck_ck1, exact, atol=1e-12)
    roots, scores = np.linalg.cholesky(parts), []
    for _ in range(1000):
        xi = np.einsum("kij,kj->ki", roots, rng.standard_normal((len(parts), 6)))
        if errors == "relative":
            noisy = np.array([se3_exp(x) @ T for x, T in zip(xi, exact, strict=True)])
        else:
            xi = np.cumsum(xi, axis=0) if errors == "accumulated" else xi
            Ts = np.array([se3_exp(x) @ T for x, T in zip(xi, Ts_w_c, strict=True)])
            noisy = np.array([se3_inv(T) for T in Ts[:-1]]) @ Ts[1:]
        away = [se3_log(a @ se3_inv(b)) for a, b in zip(noisy, made.Ts_ck_ck1, strict=True)]
        scores.append(nees(np.array(away), made.covs_T_ck_ck1))
    low, high = chi_square_band(6, 1000)
    for mean in np.mean(scores, axis=0):
        assert low < mean < high


def test_one_covariance_holds_for_all_poses():
    Ts_w_c = absolute_poses(np.random.default_rng(4))
    one = RelativePoses.from_absolute(STAMPS_NS, Ts_w_c, 1e-6 * np.eye(6), "relative")
    np.testing.assert_array_equal(one.covs_T_ck_ck1, np.tile(1e-6 * np.eye(6), (3, 1, 1)))
    listed = RelativePoses.from_absolute(
        STAMPS_NS.tolist(), Ts_w_c.tolist(), (1e-6 * np.eye(6)).tolist(), "relative"
    )
    np.testing.assert_array_equal(listed.covs_T_ck_ck1, one.covs_T_ck_ck1)


def test_accumulated_covariances_that_shrink_are_refused_with_the_remedy():
    covs = np.array([size * np.eye(6) for size in (1e-6, 3e-6, 2e-6, 4e-6)])
    with pytest.raises(MeasurementError, match=r"do not grow from pose 1 to pose 2 .*independent"):
        RelativePoses.from_absolute(
            STAMPS_NS, absolute_poses(np.random.default_rng(4)), covs, "accumulated"
        )


def in_doubt():
    """Poses of which the middle one has two possible motions."""
    sound = poses()
    two = tuple(
        PossibleMotion(sound.Ts_ck_ck1[k], sound.covs_T_ck_ck1[k], share)
        for k, share in ((1, 0.7), (2, 0.3))
    )
    return replace(sound, motions=((), two, ()))


def test_possible_motions_survive_a_file_and_a_cut(tmp_path):
    written = in_doubt()
    save_relative_poses(tmp_path / "poses.npz", written)
    read = load_relative_poses(tmp_path / "poses.npz")
    some = poses_from_measurements(read, int(STAMPS_NS[1]), int(STAMPS_NS[3]))
    assert [len(motions) for motions in read.motions] == [0, 2, 0]
    assert [len(motions) for motions in some.motions] == [2, 0]
    for one, other in zip(some.motions[0], written.part(1, 2).motions[0], strict=True):
        np.testing.assert_array_equal(one.T_ck_ck1, other.T_ck_ck1)
        np.testing.assert_array_equal(one.cov_T_ck_ck1, other.cov_T_ck_ck1)
        assert one.share == other.share


def test_a_motion_of_no_pose_is_named(tmp_path):
    save_relative_poses(tmp_path / "whole.npz", in_doubt())
    with np.load(tmp_path / "whole.npz") as content:
        arrays = dict(content)
    arrays["motion_pose"] = arrays["motion_pose"] + 2
    np.savez(tmp_path / "poses.npz", **arrays)
    with pytest.raises(MeasurementError, match="motion_pose is 3, needed 0 to 2"):
        load_relative_poses(tmp_path / "poses.npz")


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("T_ck_ck1", 2.0 * np.eye(4), "T_ck_ck1 of a motion"),
        ("cov_T_ck_ck1", -np.eye(6), "cov_T_ck_ck1 of a motion"),
        ("share", 1.5, "share of a motion is 1.5, needed from 0 to 1"),
    ],
)
def test_a_motion_without_meaning_is_refused(part, value, message):
    sound = in_doubt().motions[1][0]
    with pytest.raises(MeasurementError, match=message):
        replace(sound, **{part: value})


def test_motions_must_be_given_for_every_pose():
    with pytest.raises(MeasurementError, match="found 1 motions, needed 3"):
        replace(poses(), motions=((),))


def test_a_pose_with_a_reason_says_nothing_whatever_stands_beside_it():
    stamps_ns = np.array([0, 10**8, 2 * 10**8])
    Ts = np.tile(np.eye(4), (2, 1, 1))
    Ts[:, 0, 3] = 0.5
    covs = np.tile(1e-6 * np.eye(6), (2, 1, 1))
    poses = RelativePoses(stamps_ns, Ts, covs, reasons=("", "dark"))
    np.testing.assert_array_equal(poses.Ts_ck_ck1, [Ts[0], np.eye(4)])
    np.testing.assert_array_equal(poses.covs_T_ck_ck1, [covs[0], any_motion(0.1)])
    assert Ts[1, 0, 3] == 0.5
    assert covs[1, 0, 0] == 1e-6
