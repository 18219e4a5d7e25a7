"""Where matches tell two motions, the IMU chooses the camera's, and where it cannot it says so."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import exact_window, nees_per_dof, pose_errors, simulated_window
from maci2.consistency import calibrate, initialize
from maci2.estimator import SolverConfig
from maci2.estimator.outliers import choose_motions
from maci2.geometry import se3_exp
from maci2.vision import PossibleMotion


def with_thing(window, which, away, first=True):
    """The window with a second motion of the poses `which`, `away` from the camera's; it is the
    one of more matches where it comes `first`."""
    vision = window.vision
    Ts, motions = vision.Ts_ck_ck1.copy(), [()] * (len(vision) - 1)
    for k, xi in zip(which, away, strict=True):
        cov = vision.covs_T_ck_ck1[k]
        shares = (0.4, 0.6) if first else (0.6, 0.4)
        right = PossibleMotion(vision.Ts_ck_ck1[k], cov, shares[0])
        wrong = PossibleMotion(se3_exp(xi) @ vision.Ts_ck_ck1[k], cov, shares[1])
        motions[k] = (wrong, right) if first else (right, wrong)
        Ts[k] = motions[k][0].T_ck_ck1
    return replace(window, vision=replace(vision, Ts_ck_ck1=Ts, motions=tuple(motions)))


def jumps(count, seed, size=0.25):
    """Translations in any direction, no two alike; rotations are the camera's."""
    directions = np.random.default_rng((3, seed)).standard_normal((count, 3))
    lengths = size * (1.0 + np.arange(count) % 3)
    found = np.zeros((count, 6))
    found[:, :3] = lengths[:, None] * directions / np.linalg.norm(directions, axis=1)[:, None]
    return found


def chosen(window):
    return choose_motions(window.imu, window.vision, window.truth.T_b_c, SolverConfig())


@pytest.mark.parametrize("kind", ["handheld", "drone", "car"])
def test_the_camera_s_motion_is_chosen_whichever_has_more_matches(kind):
    right = 0
    for seed in range(8):
        window = simulated_window(kind, seed=seed)
        which = [1, 4, 6]
        for first in (True, False):
            doubted = with_thing(window, which, jumps(3, seed), first)
            choice = chosen(doubted)
            decided = np.array([not some for some in choice.vision.motions])
            same = np.isclose(choice.vision.Ts_ck_ck1, window.vision.Ts_ck_ck1).all(axis=(1, 2))
            assert same[decided].all(), (seed, first)
            np.testing.assert_array_equal(choice.second, first & decided & np.isin(range(9), which))
            right += int(decided[which].sum())
    assert right >= 0.9 * 8 * 2 * 3


def test_a_window_with_motions_chosen_is_as_good_as_one_without_doubt_and_says_so():
    scores = []
    for seed in range(12):
        window = simulated_window("drone", seed=seed)
        doubted = with_thing(window, [2, 6], jumps(2, seed))
        result = initialize(doubted.imu, doubted.vision, window.truth.T_b_c)
        assert result.report.second_motions == 2
        assert result.report.rejected == 0
        assert any("2 of 9 relative poses the motion of fewer" in r for r in
                   result.verdict.reasons)  # fmt: skip
        plain = initialize(window.imu, window.vision, window.truth.T_b_c)
        np.testing.assert_allclose(result.state.gravity_c0, plain.state.gravity_c0, atol=1e-6)
        assert result.verdict.status == plain.verdict.status
        found = nees_per_dof(result, window.truth)
        scores.append([np.mean(found[name]) for name in ("gravity", "velocity", "poses")])
    np.testing.assert_array_less(np.mean(scores, axis=0), 1.6)


def test_a_thing_of_constant_velocity_is_never_chosen():
    """Seen throughout, it is as good a world as the world: nothing is decided, in either order."""
    window = exact_window("drone", "midpoint", seed=4, steps=8)
    covs = np.tile(1e-6 * np.eye(6), (8, 1, 1))
    window = replace(window, vision=replace(window.vision, covs_T_ck_ck1=covs))
    R_c0_c = (window.truth.Ts_c0_b @ window.truth.T_b_c)[:, :3, :3]
    away = np.zeros((8, 6))
    away[:, :3] = np.einsum("kji,j->ki", R_c0_c[:8], [0.25, 0.0, 0.0])
    for first in (True, False):
        choice = chosen(with_thing(window, range(8), away, first))
        assert not choice.second.any()
        assert all(choice.vision.motions)


def test_motions_that_the_imu_cannot_tell_apart_stay_in_doubt():
    window = simulated_window("drone", seed=3)
    doubted = with_thing(window, [4], [np.full(6, 1e-5)])
    choice = chosen(doubted)
    assert choice.vision.motions[4]
    np.testing.assert_array_equal(choice.vision.Ts_ck_ck1, doubted.vision.Ts_ck_ck1)


def test_poses_that_both_contradict_the_imu_are_left_to_be_rejected():
    window = simulated_window("drone", seed=5)
    vision = window.vision
    wrong = [
        PossibleMotion(se3_exp(xi) @ vision.Ts_ck_ck1[4], vision.covs_T_ck_ck1[4], 0.5)
        for xi in jumps(2, 1, size=0.5)
    ]
    Ts = vision.Ts_ck_ck1.copy()
    Ts[4] = wrong[0].T_ck_ck1
    motions = tuple(tuple(wrong) if k == 4 else () for k in range(9))
    result = initialize(
        window.imu, replace(vision, Ts_ck_ck1=Ts, motions=motions), window.truth.T_b_c
    )
    assert result.report.second_motions == 0
    assert result.report.rejected == 1


def test_the_papers_choices_choose_nothing():
    doubted = with_thing(simulated_window("drone", seed=1), [4], jumps(1, 1))
    config = SolverConfig(robust=False)
    result = initialize(doubted.imu, doubted.vision, doubted.truth.T_b_c, config)
    assert result.report.second_motions == 0


def test_calibration_chooses_with_the_extrinsics_it_has_found():
    window = simulated_window("handheld", seed=2, steps=60)
    which = [7, 20, 33, 46, 55]
    doubted = with_thing(window, which, jumps(5, 2))
    result = calibrate(doubted.imu, doubted.vision)
    plain = calibrate(window.imu, window.vision)
    assert result.report.second_motions == 5
    assert any("5 of 60 relative poses" in reason for reason in result.verdict.reasons)
    error = pose_errors(result.state.T_b_c[None], plain.state.T_b_c[None])[0]
    np.testing.assert_allclose(error, 0.0, atol=1e-4)
