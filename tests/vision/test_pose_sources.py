"""Camera motion without images: from truth, from a trajectory, from measured steps."""

import numpy as np
import pytest

from helpers import chi_square_band
from maci2.errors import DatasetError, MeasurementError
from maci2.geometry import se3_exp, se3_inv, se3_log
from maci2.geometry.gaussian import nees
from maci2.sensors import CameraTrajectory
from maci2.simulation import SimulationConfig, simulate
from maci2.vision import (
    MeasuredPoses,
    load_relative_poses,
    pose_noise,
    poses_from_measurements,
    poses_from_trajectory,
    poses_from_truth,
)


@pytest.fixture(scope="module")
def recording():
    return simulate(SimulationConfig(kind="handheld", duration_s=10.0, seed=3))


def exact_steps(recording, stamps_ns):
    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    Ts_w_c = truth.Ts_w_b[np.searchsorted(truth.stamps_ns, stamps_ns)] @ T_b_c
    return np.array([se3_inv(T) for T in Ts_w_c[:-1]]) @ Ts_w_c[1:]


def test_a_step_covariance_has_metres_first_and_radians_second():
    cov = pose_noise(0.05, 0.003)
    expected = np.diag([0.003**2] * 3 + [(0.05 * np.pi / 180.0) ** 2] * 3)
    np.testing.assert_allclose(cov, expected, rtol=1e-14)


@pytest.mark.parametrize(("deg", "metres"), [(0.0, 0.003), (0.05, 0.0), (-1.0, 0.1)])
def test_a_standard_deviation_that_is_not_positive_is_refused(deg, metres):
    with pytest.raises(MeasurementError, match="needed both above 0"):
        pose_noise(deg, metres)


def test_a_standard_deviation_that_is_no_number_is_refused_by_its_name():
    with pytest.raises(MeasurementError, match="std_rotation_deg is nan, needed a finite number"):
        pose_noise(np.nan, 0.1)


def test_noise_on_the_truth_has_exactly_the_declared_covariance(recording):
    factor = np.random.default_rng(1).standard_normal((6, 8))
    cov_pose = 1e-6 * factor @ factor.T
    T_b_c = recording.rig.cameras[0].T_b_c
    stamps_ns = recording.camera_stamps_ns[0]
    errors = []
    for seed in range(20):
        poses = poses_from_truth(recording.truth(), stamps_ns, T_b_c, cov_pose, (seed,))
        # Left: measured = Exp(error) exact.
        errors += [
            se3_log(measured @ se3_inv(exact))
            for measured, exact in zip(
                poses.Ts_ck_ck1, exact_steps(recording, stamps_ns), strict=True
            )
        ]
    errors, count = np.array(errors), len(errors)
    assert count > 3000
    low, high = chi_square_band(6, count)
    assert low < nees(errors, np.broadcast_to(cov_pose, (count, 6, 6))).mean() < high
    # The mean of the NEES does not see a rotated covariance; its entries do, to 5 sigma.
    sampled = errors.T @ errors / count
    spread = np.sqrt((np.outer(np.diag(cov_pose), np.diag(cov_pose)) + cov_pose**2) / count)
    assert (np.abs(sampled - cov_pose) < 5.0 * spread).all()
    np.testing.assert_array_equal(poses.covs_T_ck_ck1[5], cov_pose)
    assert poses.frame == "camera"


def test_what_the_truth_adds_itself_is_in_the_covariance_and_not_drawn(recording):
    T_b_c, stamps_ns = recording.rig.cameras[0].T_b_c, recording.camera_stamps_ns[0]
    cov_pose, std = pose_noise(0.01, 0.0005), (2e-3, 1e-3)
    truth, rng = recording.truth(), np.random.default_rng(7)
    exact = exact_steps(recording, stamps_ns)
    errors = []
    for seed in range(20):
        # Errors of the body's motion, [rho, phi] on the left of it, seen by the camera.
        xis = np.repeat([std[1], std[0]], 3) * rng.standard_normal((len(exact), 6))
        T_c_b = se3_inv(T_b_c)
        drawn = poses_from_truth(truth, stamps_ns, T_b_c, cov_pose, (seed,), std)
        plain = poses_from_truth(truth, stamps_ns, T_b_c, cov_pose, (seed,))
        np.testing.assert_array_equal(drawn.Ts_ck_ck1, plain.Ts_ck_ck1)
        moved = np.array([T_c_b @ se3_exp(xi) @ T_b_c for xi in xis]) @ drawn.Ts_ck_ck1
        errors += [se3_log(T @ se3_inv(E)) for T, E in zip(moved, exact, strict=True)]
    count, cov = len(errors), drawn.covs_T_ck_ck1[0]
    low, high = chi_square_band(6, count)
    assert low < nees(np.array(errors), np.broadcast_to(cov, (count, 6, 6))).mean() < high


def test_the_same_seed_gives_the_same_noise_and_another_does_not(recording):
    arguments = (
        recording.truth(), recording.camera_stamps_ns[0][:10],
        recording.rig.cameras[0].T_b_c, pose_noise(0.1, 0.01),
    )  # fmt: skip
    first = poses_from_truth(*arguments, (1, 2)).Ts_ck_ck1
    np.testing.assert_array_equal(first, poses_from_truth(*arguments, (1, 2)).Ts_ck_ck1)
    assert np.abs(first - poses_from_truth(*arguments, (1, 3)).Ts_ck_ck1).max() > 1e-4


def test_keyframes_outside_the_truth_are_refused(recording):
    stamps_ns = recording.camera_stamps_ns[0][-3:] + 1_000_000_000
    with pytest.raises(DatasetError, match="choose a window inside"):
        poses_from_truth(recording.truth(), stamps_ns, np.eye(4), pose_noise(0.1, 0.01), (1,))


def trajectory(recording):
    """What a perfect visual odometry would write: every image, in a world of its own."""
    stamps_ns = recording.camera_stamps_ns[0]
    truth = recording.truth()
    Ts_w_c = truth.Ts_w_b[np.searchsorted(truth.stamps_ns, stamps_ns)]
    Ts_w_c = Ts_w_c @ recording.rig.cameras[0].T_b_c
    T_odom_w = se3_exp(np.array([3.0, -2.0, 1.0, 0.5, -1.0, 2.0]))
    return CameraTrajectory(stamps_ns, T_odom_w @ Ts_w_c, "vo.txt")


@pytest.mark.parametrize("frame", ["camera", "rectified"])
def test_steps_of_a_trajectory_do_not_depend_on_its_world(recording, frame):
    stamps_ns = recording.camera_stamps_ns[0][::5]
    cov_pose = pose_noise(0.05, 0.003)
    poses = poses_from_trajectory(trajectory(recording), stamps_ns, cov_pose, frame)
    np.testing.assert_allclose(poses.Ts_ck_ck1, exact_steps(recording, stamps_ns), atol=1e-13)
    np.testing.assert_array_equal(poses.stamps_ns, stamps_ns)
    np.testing.assert_array_equal(poses.covs_T_ck_ck1[-1], cov_pose)
    assert poses.frame == frame


def test_noise_of_a_step_grows_with_its_length_and_the_scale_is_handed_on(recording):
    stamps_ns = recording.camera_stamps_ns[0][::5]
    cov_pose = pose_noise(0.05, 0.003)
    poses = poses_from_trajectory(
        trajectory(recording), stamps_ns, cov_pose, "camera", std_share=0.02, std_scale=0.04
    )
    grown = poses.covs_T_ck_ck1[3] - cov_pose
    length = np.linalg.norm(poses.Ts_ck_ck1[3, :3, 3])
    np.testing.assert_allclose(np.diag(grown), [(0.02 * length) ** 2] * 3 + [0.0] * 3, rtol=1e-9)
    assert poses.std_scale == 0.04


def test_a_gap_in_a_trajectory_is_named_with_its_source(recording):
    whole = trajectory(recording)
    keep = np.r_[0:20, 26 : len(whole)]
    cut = CameraTrajectory(whole.stamps_ns[keep], whole.Ts_w_c[keep], "vo.txt")
    with pytest.raises(DatasetError, match=r"vo\.txt: .*inside a gap of 0\.350 s"):
        poses_from_trajectory(cut, whole.stamps_ns[[10, 22, 30]], pose_noise(1, 1), "camera")


def measured_steps():
    """Five steps of 100 ms; one is missing between 300 and 400 ms."""
    starts = np.array([0, 100, 200, 400, 500], dtype=np.int64) * 1_000_000
    return MeasuredPoses(
        stamps_ns=np.stack([starts, starts + 100_000_000], axis=1),
        Ts_ck_ck1=np.array([se3_exp(np.full(6, 0.01 * (k + 1))) for k in range(5)]),
        covs_T_ck_ck1=np.array([1e-6 * (k + 1) * np.eye(6) for k in range(5)]),
        frame="rectified",
        source="poses.npz",
    )


def test_steps_inside_a_window_are_chained():
    steps = measured_steps()
    poses = poses_from_measurements(steps, 50_000_000, 390_000_000)
    np.testing.assert_array_equal(poses.stamps_ns, np.array([100, 200, 300]) * 1_000_000)
    np.testing.assert_array_equal(poses.Ts_ck_ck1, steps.Ts_ck_ck1[1:3])
    np.testing.assert_array_equal(poses.covs_T_ck_ck1, steps.covs_T_ck_ck1[1:3])
    assert poses.frame == "rectified"


def test_both_ends_of_the_window_belong_to_it():
    poses = poses_from_measurements(measured_steps(), 0, 300_000_000)
    np.testing.assert_array_equal(poses.stamps_ns, np.array([0, 100, 200, 300]) * 1_000_000)


def test_a_break_between_steps_is_shown_with_both_stamps():
    with pytest.raises(DatasetError) as raised:
        poses_from_measurements(measured_steps(), 0, 600_000_000)
    for part in ("poses.npz", "ends at 300000000 ns", "begins at 400000000 ns", "without a break"):
        assert part in str(raised.value)


def test_a_window_without_steps_is_shown_beside_what_the_file_covers():
    with pytest.raises(DatasetError) as raised:
        poses_from_measurements(measured_steps(), 310_000_000, 390_000_000)
    assert "no relative pose inside 310000000..390000000 ns" in str(raised.value)
    assert "covers 0..600000000 ns" in str(raised.value)


def pose_arrays(count=3):
    stamps_ns = 10**8 * np.stack([np.arange(count), np.arange(1, count + 1)], axis=1)
    return {
        "stamps_ns": stamps_ns,
        "T_ck_ck1": np.tile(np.eye(4), (count, 1, 1)),
        "cov": np.tile(1e-6 * np.eye(6), (count, 1, 1)),
        "frame": "camera",
    }


def test_a_mask_counts_also_beside_empty_reasons(tmp_path):
    arrays = pose_arrays() | {"measured": [True, False, True], "reasons": ["", "", "dark"]}
    np.savez(tmp_path / "poses.npz", **arrays)
    reasons = load_relative_poses(tmp_path / "poses.npz").reasons
    assert [bool(reason) for reason in reasons] == [False, True, True]
    assert reasons[2] == "dark"


def test_motions_come_all_or_not_at_all(tmp_path):
    arrays = pose_arrays() | {"motion_pose": [0], "motion_share": [0.5]}
    np.savez(tmp_path / "poses.npz", **arrays)
    with pytest.raises(MeasurementError, match="lacks motion_T_ck_ck1, motion_cov"):
        load_relative_poses(tmp_path / "poses.npz")
