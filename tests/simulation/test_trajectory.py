from typing import get_args

import numpy as np
import pytest

from maci2.errors import OptionError
from maci2.simulation import MotionKind, Trajectory, random_trajectory
from maci2.types import GRAVITY_W

KINDS = get_args(MotionKind)
TIMES = np.sort(np.random.default_rng(1).uniform(0.0, 30.0, 2000))


def drawn(kind: str, seed: int = 3) -> Trajectory:
    return random_trajectory(kind, np.random.default_rng(seed))


def slope(function, t, step=2e-4):
    """Fourth-order central difference: exact to about 1e-10 for motions of a few hertz."""
    near = (function(t + step) - function(t - step)) / (2.0 * step)
    far = (function(t + 2.0 * step) - function(t - 2.0 * step)) / (4.0 * step)
    return (4.0 * near - far) / 3.0


@pytest.mark.parametrize("kind", KINDS)
def test_velocity_is_the_derivative_of_position(kind):
    trajectory = drawn(kind)
    expected = slope(lambda t: trajectory.at(t).p_w_b, TIMES)
    np.testing.assert_allclose(trajectory.at(TIMES).v_w, expected, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_acceleration_is_the_derivative_of_velocity(kind):
    trajectory = drawn(kind)
    expected = slope(lambda t: trajectory.at(t).v_w, TIMES)
    np.testing.assert_allclose(trajectory.at(TIMES).a_w, expected, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_body_rate_is_the_derivative_of_attitude(kind):
    trajectory = drawn(kind)
    motion = trajectory.at(TIMES)
    R_rates = slope(lambda t: trajectory.at(t).Rs_w_b, TIMES)
    skews = np.einsum("nji,njk->nik", motion.Rs_w_b, R_rates)
    expected = np.stack([skews[:, 2, 1], skews[:, 0, 2], skews[:, 1, 0]], axis=1)
    np.testing.assert_allclose(skews, -np.swapaxes(skews, 1, 2), atol=1e-8)
    np.testing.assert_allclose(motion.omega_b, expected, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_attitude_is_a_rotation(kind):
    Rs_w_b = drawn(kind).at(TIMES).Rs_w_b
    identity = np.broadcast_to(np.eye(3), Rs_w_b.shape)
    np.testing.assert_allclose(np.swapaxes(Rs_w_b, 1, 2) @ Rs_w_b, identity, atol=1e-14)
    np.testing.assert_allclose(np.linalg.det(Rs_w_b), 1.0, atol=1e-14)


def test_specific_force_nearly_at_rest_is_gravity_upward_in_the_body():
    motion = drawn("static").at(TIMES)
    up_b = np.einsum("nji,j->ni", motion.Rs_w_b, np.array([0.0, 0.0, 9.81]))
    np.testing.assert_allclose(motion.specific_force_b, up_b, atol=0.05)
    np.testing.assert_allclose(np.linalg.norm(motion.specific_force_b, axis=1), 9.81, atol=0.05)


def test_specific_force_is_acceleration_minus_gravity():
    motion = drawn("handheld").at(TIMES)
    force_w = np.einsum("nij,nj->ni", motion.Rs_w_b, motion.specific_force_b)
    np.testing.assert_allclose(force_w + GRAVITY_W, motion.a_w, atol=1e-13)


def test_straight_motion_accelerates_and_never_rotates():
    motion = drawn("straight").at(TIMES)
    assert np.abs(motion.omega_b).max() == 0.0
    np.testing.assert_array_equal(motion.Rs_w_b, np.broadcast_to(motion.Rs_w_b[0], (2000, 3, 3)))
    assert np.linalg.norm(motion.a_w, axis=1).max() > 1.0


def test_planar_motion_turns_about_the_vertical_only():
    motion = drawn("planar_yaw").at(TIMES)
    np.testing.assert_array_equal(motion.omega_b[:, :2], 0.0)
    np.testing.assert_array_equal(motion.Rs_w_b[:, 2, 2], 1.0)
    assert np.abs(motion.omega_b[:, 2]).max() > 0.5


def test_car_moves_where_it_points():
    motion = drawn("car").at(TIMES)
    v_b = np.einsum("nji,nj->ni", motion.Rs_w_b, motion.v_w)
    assert v_b[:, 0].min() > 2.0
    assert np.abs(v_b[:, 1:]).max() < 0.5


def test_drone_tilts_with_its_acceleration():
    motion = drawn("drone").at(TIMES)
    force_w = motion.a_w - GRAVITY_W
    thrust_w = force_w / np.linalg.norm(force_w, axis=1, keepdims=True)
    cosines = np.einsum("ni,ni->n", thrust_w, motion.Rs_w_b[:, :, 2])
    # What is left is its wobble, 0.03 rad in each of four waves and two axes.
    assert np.arccos(cosines.min()) < 0.2
    assert np.arccos(motion.Rs_w_b[:, 2, 2].min()) > 0.15


@pytest.mark.parametrize(
    ("kind", "speeds", "rates"),
    [
        ("handheld", (0.2, 2.0), (1.2, 6.0)),
        ("drone", (0.5, 3.0), (0.3, 2.0)),
        ("car", (3.0, 12.0), (0.1, 1.0)),
        ("static", (0.0, 0.02), (0.0, 0.03)),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_each_kind_has_the_speeds_and_rates_of_its_name(kind, speeds, rates, seed):
    motion = drawn(kind, seed).at(TIMES)
    speed = np.linalg.norm(motion.v_w, axis=1)
    rate = np.linalg.norm(motion.omega_b, axis=1)
    assert speeds[0] <= speed.mean()
    assert speed.max() <= speeds[1]
    assert rates[0] <= rate.mean()
    assert rate.max() <= rates[1]


def test_unknown_kind_is_named_with_the_choices():
    with pytest.raises(OptionError, match=r"motion is 'boat'; choose one of handheld, drone"):
        drawn("boat")
