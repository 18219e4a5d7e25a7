"""Poses between timestamps."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.errors import DatasetError
from maci2.geometry import se3, so3_exp
from maci2.sensors import GroundTruth, poses_at, truth_at
from maci2.sensors.interpolation import bridged
from maci2.types import NS

START_NS = 1_403_636_579_758_555_392


def spiral(t_s):
    """Constant rate about a tilted axis, cubic positions: both known exactly."""
    positions = np.stack([t_s**3, 2.0 * t_s, 1.0 - t_s**2], axis=1)
    velocities = np.stack([3.0 * t_s**2, np.full_like(t_s, 2.0), -2.0 * t_s], axis=1)
    axis = np.array([0.6, 0.0, 0.8])
    poses = [se3(so3_exp(2.5 * t * axis), p) for t, p in zip(t_s, positions, strict=True)]
    return np.array(poses), velocities


def stamps(t_s):
    return START_NS + np.rint(np.asarray(t_s) * NS).astype(np.int64)


def test_constant_rate_and_cubic_motion_are_interpolated_exactly_with_velocities():
    knots_s, query_s = np.linspace(0.0, 4.0, 9), np.linspace(0.0, 4.0, 1000)
    Ts, velocities = spiral(knots_s)
    found = poses_at(stamps(knots_s), Ts, stamps(query_s), 0.6, velocities)
    # Half a nanosecond of rounding at 50 m/s.
    np.testing.assert_allclose(found, spiral(query_s)[0], atol=5e-8)


def test_positions_are_linear_without_velocities():
    knots_s = np.array([0.0, 1.0])
    Ts, _ = spiral(knots_s)
    found = poses_at(stamps(knots_s), Ts, stamps([0.25]), 2.0)
    np.testing.assert_allclose(found[0, :3, 3], [0.25, 0.5, 0.75], atol=1e-12)


def test_positions_are_linear_where_velocities_are_nan():
    knots_s = np.array([0.0, 1.0, 2.0])
    Ts, velocities = spiral(knots_s)
    velocities[0] = np.nan
    found = poses_at(stamps(knots_s), Ts, stamps([0.5, 1.5]), 2.0, velocities)
    np.testing.assert_allclose(found[0, 0, 3], 0.5, atol=1e-12)
    np.testing.assert_allclose(found[1, 0, 3], 1.5**3, atol=1e-12)


def test_a_query_outside_is_an_error_that_names_both_ends():
    Ts, _ = spiral(np.array([0.0, 1.0]))
    with pytest.raises(DatasetError) as raised:
        poses_at(stamps([0.0, 1.0]), Ts, stamps([0.5, 1.5]), 2.0, source="a.txt")
    assert "a.txt" in str(raised.value)
    assert str(stamps([1.5])[0]) in str(raised.value)
    assert "1 of 2 timestamps" in str(raised.value)


def test_a_query_inside_a_long_gap_is_an_error_but_its_edges_are_fine():
    knots_s = np.array([0.0, 0.1, 1.1, 1.2])
    Ts, _ = spiral(knots_s)
    poses_at(stamps(knots_s), Ts, stamps([0.1, 1.1]), 0.2)
    with pytest.raises(DatasetError, match=r"gap of 1\.000 s.*at most 0\.200 s"):
        poses_at(stamps(knots_s), Ts, stamps([0.05, 0.6]), 0.2)


def test_a_truth_is_resampled_with_velocity_and_biases():
    knots_s = np.array([0.0, 1.0])
    Ts, velocities = spiral(knots_s)
    biases = np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 4.0]])
    truth = GroundTruth(stamps(knots_s), Ts, velocities, biases, np.full((2, 3), np.nan))
    found = truth_at(truth, stamps([0.25, 1.0]), 2.0)
    np.testing.assert_allclose(found.bias_gyro[0], [0.25, 1.0, 2.5])
    np.testing.assert_allclose(found.Ts_w_b[0, 0, 3], 0.25**3, atol=1e-12)
    np.testing.assert_allclose(found.v_w[1], velocities[1])
    assert np.isnan(found.bias_acc).all()
    assert truth_at(replace(truth, source="x"), stamps([0.5]), 2.0).source == "x"


def test_a_pose_in_a_gap_is_used_where_the_query_is_at_it_but_for_rounding():
    """TUM files have seconds as text: 0.1 s apart and a hundred nanoseconds off."""
    stamps_ns = np.array([0, 100_000_143, 200_000_286, 300_000_429])
    Ts = np.tile(np.eye(4), (4, 1, 1))
    Ts[:, 0, 3] = [0.0, 1.0, 2.0, 3.0]
    query_ns = np.array([100_000_000, 200_000_300])
    assert bridged(stamps_ns, query_ns, 0.06).all()
    np.testing.assert_array_equal(poses_at(stamps_ns, Ts, query_ns, 0.06)[:, 0, 3], [1.0, 2.0])
    between_ns = np.array([150_000_000, 100_002_000])
    assert not bridged(stamps_ns, between_ns, 0.06).any()
    with pytest.raises(DatasetError, match="inside a gap"):
        poses_at(stamps_ns, Ts, between_ns, 0.06)
