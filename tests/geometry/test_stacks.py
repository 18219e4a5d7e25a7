"""Stacks of rotations against scipy's and the kernels for one, which were written apart."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from maci2.geometry import so3_exp
from maci2.geometry.se3 import (
    rotations_from_quat_wxyz,
    skew_stack,
    so3_exp_stack,
    so3_log_stack,
)


def axes(seed):
    v = np.random.default_rng(seed).standard_normal((200, 3))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 0.1, 1.0, 2.0, 3.1, np.pi - 1e-7])
def test_logarithms_of_a_stack_are_the_vectors_it_was_made_from(angle):
    phis = angle * axes(0)
    Rs = Rotation.from_rotvec(phis).as_matrix()
    np.testing.assert_allclose(so3_log_stack(Rs), phis, atol=1e-14)


def test_a_half_turn_has_either_sign():
    phis = np.pi * axes(1)
    found = so3_log_stack(Rotation.from_rotvec(phis).as_matrix())
    np.testing.assert_allclose(np.abs(np.sum(found * phis, axis=1)), np.pi**2, rtol=1e-12)


def test_an_empty_stack_stays_empty():
    assert so3_log_stack(np.zeros((0, 3, 3))).shape == (0, 3)
    assert so3_exp_stack(np.zeros((0, 3))).shape == (0, 3, 3)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 0.1, 1.0, 3.1])
def test_exponentials_of_a_stack_are_those_of_each_vector(angle):
    phis = angle * axes(5)
    expected = [so3_exp(phi) for phi in phis]
    np.testing.assert_allclose(so3_exp_stack(phis), expected, atol=1e-14)


def test_quaternions_of_any_norm_are_rotations():
    quats = np.random.default_rng(2).standard_normal((200, 4))
    w, v = quats[:, :1], quats[:, 1:]
    # q p q^-1, of the quaternion [w, v] and a point p.
    p = axes(6)
    across = 2.0 * np.cross(v, p)
    expected = p + (w * across + np.cross(v, across)) / np.sum(quats**2, axis=1, keepdims=True)
    rotated = np.einsum("nij,nj->ni", rotations_from_quat_wxyz(quats), p)
    np.testing.assert_allclose(rotated, expected, atol=1e-14)
    with pytest.raises(ValueError, match="zeros"):
        rotations_from_quat_wxyz(np.zeros((1, 4)))


def test_cross_product_matrices_multiply_as_cross_products_do():
    v, w = axes(3), axes(4)
    np.testing.assert_allclose(
        np.einsum("nij,nj->ni", skew_stack(v), w), np.cross(v, w), atol=1e-15
    )
