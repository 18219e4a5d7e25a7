"""Odometry on rendered images: true within its covariance, honest where it cannot see."""

import shutil
from dataclasses import replace

import cv2
import numpy as np
import pytest

from maci2.datasets import open_recording
from maci2.datasets.frames import stereo_frames
from maci2.errors import CalibrationError, DatasetError, OptionError
from maci2.geometry import se3_exp, se3_inv, se3_log, so3_exp
from maci2.geometry.gaussian import nees
from maci2.sensors import truth_at
from maci2.vision.covariance import EXACT_CALIBRATION, CalibrationUncertainty, FixedNoise
from maci2.vision.keyframe import candidates, spread
from maci2.vision.odometry import (
    StereoOdometry,
    even_keyframes,
    load_measured,
    measure_all,
)
from maci2.vision.relative_pose import chained, unmeasured


def odometry_of(path, **choices):
    recording = open_recording(path)
    return StereoOdometry(stereo_frames(recording), recording.rig, **choices)


def errors_of(path, steps, T_b_cr):
    truth = open_recording(path).truth()
    found = []
    for step in steps:
        T_w_c0, T_w_c1 = truth_at(truth, np.array(step.stamps_ns), 0.1).Ts_w_b @ T_b_cr
        found.append(se3_log(step.T_ck_ck1 @ se3_inv(se3_inv(T_w_c0) @ T_w_c1)))
    return np.array(found)


def rewrite(folder, change):
    for path in sorted(folder.glob("*.png")):
        image = change(cv2.imread(str(path), cv2.IMREAD_GRAYSCALE))
        path.write_bytes(cv2.imencode(".png", image)[1].tobytes())


@pytest.fixture(scope="module")
def measured(rendered):
    odometry = odometry_of(rendered)
    return odometry, measure_all(odometry, even_keyframes(odometry.stamps_ns, 0.2))


def test_steps_agree_with_the_truth_within_their_covariance(rendered, measured):
    odometry, steps = measured
    errors = errors_of(rendered, steps, odometry.rectification.T_b_cr)
    covs = np.array([step.cov_T_ck_ck1 for step in steps])
    assert not any(step.reason for step in steps)
    assert np.rad2deg(np.linalg.norm(errors[:, 3:], axis=1)).mean() < 0.05
    assert np.linalg.norm(errors[:, :3], axis=1).mean() < 0.003
    assert 0.3 < nees(errors, covs).mean() / 6.0 < 3.0


def test_a_second_run_gives_the_same_numbers(rendered, measured):
    _, steps = measured
    again = odometry_of(rendered)
    index = again.frames.index_of(steps[3].stamps_ns[0])
    step = again.relative_pose(index, again.frames.index_of(steps[3].stamps_ns[1]))
    np.testing.assert_array_equal(step.T_ck_ck1, steps[3].T_ck_ck1)
    np.testing.assert_array_equal(step.cov_T_ck_ck1, steps[3].cov_T_ck_ck1)


def test_only_a_measured_calibration_has_shared_errors(rendered):
    recording = open_recording(rendered)
    frames = stereo_frames(recording)
    assert StereoOdometry(frames, recording.rig).calibration == EXACT_CALIBRATION
    measured_rig = replace(recording.rig, exact=False)
    odometry = StereoOdometry(frames, measured_rig)
    assert odometry.calibration == CalibrationUncertainty()
    assert odometry.poses(odometry.stamps_ns[:2]).std_scale == CalibrationUncertainty().scale


def test_poses_feed_the_estimator(measured):
    odometry, steps = measured
    stamps_ns = np.array([steps[0].stamps_ns[0], *(step.stamps_ns[1] for step in steps[:3])])
    poses = odometry.poses(stamps_ns)
    assert poses.frame == "rectified"
    np.testing.assert_array_equal(poses.Ts_ck_ck1[0], steps[0].T_ck_ck1)


def test_a_stopped_run_goes_on_and_ends_with_the_same_file(
    rendered, measured, tmp_path, monkeypatch
):
    odometry, steps = measured
    keyframes_ns = even_keyframes(odometry.stamps_ns, 0.2)
    monkeypatch.setattr("maci2.vision.odometry.SAVE_EVERY", 2)
    output = tmp_path / "poses.npz"
    fresh = odometry_of(rendered)
    whole = fresh.relative_pose

    def stopping(index, index1):
        if index >= 8:
            raise KeyboardInterrupt
        return whole(index, index1)

    monkeypatch.setattr(fresh, "relative_pose", stopping)
    with pytest.raises(KeyboardInterrupt):
        measure_all(fresh, keyframes_ns, output)
    assert not output.exists()
    asked = []
    resumed = odometry_of(rendered)
    resume = resumed.relative_pose

    def noting(index, index1):
        asked.append(index)
        return resume(index, index1)

    monkeypatch.setattr(resumed, "relative_pose", noting)
    measure_all(resumed, keyframes_ns, output)
    assert min(asked) > 0
    assert list(tmp_path.iterdir()) == [output]
    for found, expected in zip(load_measured(output), steps, strict=True):
        np.testing.assert_array_equal(found.T_ck_ck1, expected.T_ck_ck1)


def test_a_run_with_other_settings_starts_anew(rendered, tmp_path, monkeypatch):
    monkeypatch.setattr("maci2.vision.odometry.SAVE_EVERY", 1)
    output = tmp_path / "poses.npz"
    stopped = odometry_of(rendered, model=FixedNoise(0.3))
    keyframes_ns = stopped.stamps_ns[[0, 2, 4]]
    whole = stopped.relative_pose

    def stopping(index, index1):
        if index:
            raise KeyboardInterrupt
        return whole(index, index1)

    monkeypatch.setattr(stopped, "relative_pose", stopping)
    with pytest.raises(KeyboardInterrupt):
        measure_all(stopped, keyframes_ns, output)
    other = odometry_of(rendered, model=FixedNoise(0.6))
    assert other.settings != stopped.settings
    first, _ = measure_all(other, keyframes_ns, output)
    np.testing.assert_array_equal(first.cov_T_ck_ck1, other.relative_pose(0, 2).cov_T_ck_ck1)


@pytest.mark.parametrize("grey", [0, 255])
def test_blank_images_are_not_measured_and_say_why(rendered_copy, grey):
    rewrite(rendered_copy / "mav0" / "cam0" / "data", lambda image: np.full_like(image, grey))
    step = odometry_of(rendered_copy).relative_pose(0, 2)
    assert "the left image shows nothing" in step.reason
    std = np.sqrt(np.diag(step.cov_T_ck_ck1))
    assert std[:3].min() >= 0.9
    assert std[3:].min() >= 0.5


def test_unrelated_images_give_no_confident_pose(rendered_copy):
    """Mirrored right and shuffled left images: whatever matches is wrong."""
    folder = rendered_copy / "mav0" / "cam0" / "data"
    rng = np.random.default_rng(0)
    rewrite(folder, lambda image: rng.integers(0, 255, image.shape).astype(np.uint8))
    assert odometry_of(rendered_copy).relative_pose(0, 2).reason


def test_swapped_images_are_called_so(rendered_copy):
    left, right = (rendered_copy / "mav0" / f"cam{i}" / "data" for i in range(2))
    shutil.move(left, left.with_name("kept"))
    shutil.move(right, left)
    shutil.move(left.with_name("kept"), right)
    odometry = odometry_of(rendered_copy)
    with pytest.raises(CalibrationError, match="left and right look swapped"):
        measure_all(odometry, even_keyframes(odometry.stamps_ns, 0.2))


def test_a_run_stopped_among_pairs_of_two_instants_goes_on_to_the_same_result(
    rendered_copy, tmp_path, monkeypatch
):
    """Resumed there, its first keyframes contradict the calibration: that of a run that began
    with them would be called wrong."""
    right = sorted((rendered_copy / "mav0" / "cam1" / "data").glob("*.png"))
    images = [path.read_bytes() for path in right]
    for k in range(8, 20):
        right[k].write_bytes(images[k - 1])
    monkeypatch.setattr("maci2.vision.odometry.SAVE_EVERY", 2)
    whole = odometry_of(rendered_copy)
    keyframes_ns = even_keyframes(whole.stamps_ns, 0.2)
    expected = measure_all(whole, keyframes_ns)
    assert sum(bool(pose.reason) for pose in expected) >= 4
    stopped, output = odometry_of(rendered_copy), tmp_path / "poses.npz"
    measure = stopped.relative_pose

    def stopping(index, index1):
        if index >= 14:
            raise KeyboardInterrupt
        return measure(index, index1)

    monkeypatch.setattr(stopped, "relative_pose", stopping)
    with pytest.raises(KeyboardInterrupt):
        measure_all(stopped, keyframes_ns, output)
    poses = measure_all(odometry_of(rendered_copy), keyframes_ns, output)
    assert [pose.reason for pose in poses] == [pose.reason for pose in expected]
    for pose, other in zip(poses, expected, strict=True):
        np.testing.assert_array_equal(pose.T_ck_ck1, other.T_ck_ck1)


@pytest.mark.parametrize(
    ("turn", "cause"),
    [((0.012, 0.0, 0.0), "tilted against each other"), ((0.0, 0.0, 0.03), "rolled against")],
)
def test_a_wrong_calibration_is_reported_in_pixels_with_its_likely_cause(rendered, turn, cause):
    recording = open_recording(rendered)
    right = recording.rig.cameras[1]
    T_b_c = right.T_b_c.copy()
    T_b_c[:3, :3] = T_b_c[:3, :3] @ so3_exp(np.array(turn))
    rig = replace(recording.rig, cameras=(recording.rig.cameras[0], replace(right, T_b_c=T_b_c)))
    odometry = StereoOdometry(stereo_frames(recording), rig)
    with pytest.raises(CalibrationError, match=rf"px off their rows.*{cause}"):
        measure_all(odometry, even_keyframes(odometry.stamps_ns, 0.2))


def test_stamps_that_go_backwards_are_named():
    with pytest.raises(DatasetError, match="50 ns follows 200 ns"):
        even_keyframes(np.array([0, 200, 50, 400]), 0.1)
    with pytest.raises(DatasetError, match="needed two or more"):
        even_keyframes(np.array([7]), 0.1)
    with pytest.raises(OptionError, match="--interval is 0"):
        even_keyframes(np.array([0, 200]), 0.0)


def test_even_keyframes_are_the_images_nearest_to_even_times():
    stamps_ns = np.array([0, 90, 210, 290, 420]) * 1_000_000
    np.testing.assert_array_equal(
        even_keyframes(stamps_ns, 0.2), np.array([0, 210, 420]) * 1_000_000
    )


def test_chaining_carries_the_second_covariance_to_the_first_frame():
    rng = np.random.default_rng(1)
    T1, T2 = se3_exp(rng.normal(0.0, 0.3, 6)), se3_exp(rng.normal(0.0, 0.3, 6))
    cov = np.diag([1e-4, 2e-4, 3e-4, 1e-5, 2e-5, 3e-5])
    one = replace(unmeasured((0, 1), ""), T_ck_ck1=T1, cov_T_ck_ck1=cov)
    two = replace(unmeasured((1, 2), ""), T_ck_ck1=T2, cov_T_ck_ck1=2.0 * cov)
    both = chained([one, two])
    noise = [rng.multivariate_normal(np.zeros(6), c, 4000) for c in (cov, 2.0 * cov)]
    sampled = np.array(
        [
            se3_log(se3_exp(a) @ T1 @ se3_exp(b) @ T2 @ se3_inv(both.T_ck_ck1))
            for a, b in zip(*noise, strict=True)
        ]
    )
    assert nees(sampled, np.tile(both.cov_T_ck_ck1, (4000, 1, 1))).mean() == pytest.approx(
        6, rel=0.05
    )


def test_keypoints_are_spread_strongest_first_and_the_same_each_time():
    image = np.random.default_rng(0).integers(0, 255, (200, 300)).astype(np.uint8)
    mask = np.full(image.shape, 255, np.uint8)
    mask[:, :100] = 0
    uv = candidates(image, mask, 50, 20, 12)
    assert len(uv) == 50
    assert uv[:, 0].min() >= 100
    np.testing.assert_array_equal(uv, candidates(image, mask, 50, 20, 12))
    assert len(candidates(np.zeros_like(image), mask, 50, 20, 12)) == 0


def test_suppression_keeps_the_least_uncertain_of_close_points():
    uv = np.array([[0.0, 0.0], [5.0, 0.0], [50.0, 0.0]])
    np.testing.assert_array_equal(spread(uv, np.array([2.0, 1.0, 3.0]), 10, 12.0), [1, 2])
    np.testing.assert_array_equal(spread(uv, np.array([2.0, 1.0, 3.0]), 1, 12.0), [1])


def test_fixed_noise_is_a_model_too(rendered):
    step = odometry_of(rendered, model=FixedNoise(0.3)).relative_pose(0, 2)
    assert step.inliers > 50
