"""SO(3) and SE(3) against their definitions: the matrix exponential and the defining series."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import numerical_jacobian, twist
from maci2.geometry import (
    se3,
    se3_adj,
    se3_exp,
    se3_inv,
    se3_jl,
    se3_jl_inv,
    se3_jr,
    se3_jr_inv,
    se3_log,
    skew,
    so3_exp,
    so3_jl,
    so3_jl_inv,
    so3_jr,
    so3_jr_inv,
    so3_log,
)
from maci2.geometry.so3 import SERIES_BELOW

# Angles [rad]; every one comes with a translation of metres, which must not be truncated.
ANGLES = {
    "zero": 0.0,
    "1e-12": 1e-12,
    "1e-7": 1e-7,
    "1e-4": 1e-4,
    "0.03": 0.03,
    "generic": 0.8,
    "just below the series switch": np.nextafter(SERIES_BELOW, 0.0),
    "at the series switch": SERIES_BELOW,
    "just above the series switch": SERIES_BELOW + 1e-9,
    "2.5": 2.5,
    "1e-4 below pi": np.pi - 1e-4,
    "1e-9 below pi": np.pi - 1e-9,
    "pi": np.pi,
}
BELOW_PI = [name for name in ANGLES if name != "pi"]

# A few last bits of entries that are at most some metres.
LAST_BITS = 2e-14


def twists(angle_name):
    """One about a generic axis, three about the coordinate axes."""
    rng = np.random.default_rng(5)
    angle = ANGLES[angle_name]
    generic = twist(rng, 1.0, angle)
    return [generic] + [np.concatenate([generic[:3], angle * axis]) for axis in np.eye(3)]


def hat(xi):
    """(4, 4) matrix of a twist."""
    matrix = np.zeros((4, 4))
    matrix[:3, :3] = skew(xi[3:])
    matrix[:3, 3] = xi[:3]
    return matrix


def ad(xi):
    """(6, 6) matrix of the Lie bracket with a twist."""
    matrix = np.zeros((6, 6))
    matrix[:3, :3] = matrix[3:, 3:] = skew(xi[3:])
    matrix[:3, 3:] = skew(xi[:3])
    return matrix


def series(matrix, divisor):
    """sum_n matrix^n / divisor(n) in 40 digits; pi^50 / 50! is 1e-40."""
    with mpmath.workdps(40):
        m = mpmath.matrix(matrix.tolist())
        power, total = mpmath.eye(m.rows), mpmath.zeros(m.rows)
        for n in range(50):
            total += power / divisor(n)
            power = power * m
        return total


def exact_exp(matrix):
    return np.array(series(matrix, mpmath.factorial).tolist(), dtype=float)


def exact_jacobian(ad_matrix):
    """J_l = sum ad^n / (n + 1)!, and its inverse."""
    with mpmath.workdps(40):
        J = series(ad_matrix, lambda n: mpmath.factorial(n + 1))
        J_inv = J**-1
    return np.array(J.tolist(), dtype=float), np.array(J_inv.tolist(), dtype=float)


@pytest.mark.parametrize("angle", ANGLES)
def test_the_exponential_is_the_matrix_exponential(angle):
    for xi in twists(angle):
        np.testing.assert_allclose(se3_exp(xi), exact_exp(hat(xi)), rtol=0, atol=LAST_BITS)
        np.testing.assert_allclose(so3_exp(xi[3:]), exact_exp(skew(xi[3:])), rtol=0, atol=1e-15)


@pytest.mark.parametrize("angle", ANGLES)
def test_a_rotation_stays_orthonormal_to_the_last_bit(angle):
    for xi in twists(angle):
        R = so3_exp(xi[3:])
        np.testing.assert_allclose(R @ R.T, np.eye(3), rtol=0, atol=2e-15)
        assert np.linalg.det(R) == pytest.approx(1.0, abs=2e-15)


@pytest.mark.parametrize("angle", BELOW_PI)
def test_the_logarithm_undoes_the_exponential(angle):
    for xi in twists(angle):
        np.testing.assert_allclose(se3_log(se3_exp(xi)), xi, rtol=0, atol=LAST_BITS)
        # Tiny angles keep their relative digits, too.
        np.testing.assert_allclose(so3_log(so3_exp(xi[3:])), xi[3:], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("angle", ["1e-12", "1e-7", "1e-4"])
def test_the_logarithm_of_a_tiny_rotation_keeps_its_relative_digits(angle):
    phi = ANGLES[angle] * np.array([0.6, -0.48, 0.64])
    # The entries of R that hold phi are exact; only those beside the 1 of the diagonal round.
    np.testing.assert_allclose(so3_log(so3_exp(phi)), phi, rtol=1e-11)


@pytest.mark.parametrize("angle", ANGLES)
def test_the_exponential_undoes_the_logarithm(angle):
    for xi in twists(angle):
        T = se3_exp(xi)
        np.testing.assert_allclose(se3_exp(se3_log(T)), T, rtol=0, atol=LAST_BITS)


@pytest.mark.parametrize(
    "R",
    [
        np.diag([1.0, -1.0, -1.0]),
        np.diag([-1.0, 1.0, -1.0]),
        np.diag([-1.0, -1.0, 1.0]),
        np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]),
        2.0 * np.outer([0.6, 0.0, -0.8], [0.6, 0.0, -0.8]) - np.eye(3),
    ],
)
def test_half_a_turn_has_a_logarithm_of_length_pi(R):
    phi = so3_log(R)
    assert np.linalg.norm(phi) == pytest.approx(np.pi, abs=1e-15)
    np.testing.assert_allclose(so3_exp(phi), R, rtol=0, atol=1e-15)


def test_the_logarithm_is_never_longer_than_half_a_turn():
    for angle in (np.pi + 1e-9, 4.0, 2.0 * np.pi - 1e-6):
        phi = angle * np.array([0.6, -0.48, 0.64])
        shorter = -(2.0 * np.pi - angle) * np.array([0.6, -0.48, 0.64])
        np.testing.assert_allclose(so3_log(so3_exp(phi)), shorter, rtol=0, atol=1e-14)


@pytest.mark.parametrize("angle", ANGLES)
def test_the_jacobians_are_their_defining_series(angle):
    for xi in twists(angle):
        for J, J_inv, matrix in (
            (se3_jl(xi), se3_jl_inv(xi), ad(xi)),
            (so3_jl(xi[3:]), so3_jl_inv(xi[3:]), skew(xi[3:])),
        ):
            exact, exact_inverse = exact_jacobian(matrix)
            np.testing.assert_allclose(J, exact, rtol=0, atol=LAST_BITS)
            np.testing.assert_allclose(J_inv, exact_inverse, rtol=0, atol=LAST_BITS)


@pytest.mark.parametrize("angle", ANGLES)
def test_the_right_jacobian_is_the_left_one_of_the_opposite(angle):
    for xi in twists(angle):
        np.testing.assert_array_equal(se3_jr(xi), se3_jl(-xi))
        np.testing.assert_array_equal(se3_jr_inv(xi), se3_jl_inv(-xi))
        np.testing.assert_array_equal(so3_jr(xi[3:]), so3_jl(-xi[3:]))
        np.testing.assert_array_equal(so3_jr_inv(xi[3:]), so3_jl_inv(-xi[3:]))


@pytest.mark.parametrize("angle", ANGLES)
def test_a_jacobian_and_its_inverse_cancel(angle):
    for xi in twists(angle):
        for J, J_inv in ((se3_jl, se3_jl_inv), (se3_jr, se3_jr_inv)):
            np.testing.assert_allclose(J(xi) @ J_inv(xi), np.eye(6), rtol=0, atol=LAST_BITS)
        for J, J_inv in ((so3_jl, so3_jl_inv), (so3_jr, so3_jr_inv)):
            product = J(xi[3:]) @ J_inv(xi[3:])
            np.testing.assert_allclose(product, np.eye(3), rtol=0, atol=LAST_BITS)


@pytest.mark.parametrize("angle", BELOW_PI)
def test_the_jacobians_are_derivatives_of_the_exponential(angle):
    for xi in twists(angle):
        T = se3_exp(xi)
        left = numerical_jacobian(lambda d: se3_log(se3_exp(xi + d) @ se3_inv(T)), 6)  # noqa: B023
        right = numerical_jacobian(lambda d: se3_log(se3_inv(T) @ se3_exp(xi + d)), 6)  # noqa: B023
        np.testing.assert_allclose(se3_jl(xi), left, atol=1e-9)
        np.testing.assert_allclose(se3_jr(xi), right, atol=1e-9)


@pytest.mark.parametrize("angle", BELOW_PI[:-2])
def test_the_inverse_jacobians_are_derivatives_of_the_logarithm(angle):
    for xi in twists(angle):
        T = se3_exp(xi)
        left = numerical_jacobian(lambda d: se3_log(se3_exp(d) @ T), 6)  # noqa: B023
        right = numerical_jacobian(lambda d: se3_log(T @ se3_exp(d)), 6)  # noqa: B023
        np.testing.assert_allclose(se3_jl_inv(xi), left, atol=1e-9)
        np.testing.assert_allclose(se3_jr_inv(xi), right, atol=1e-9)


@pytest.mark.parametrize("angle", ANGLES)
def test_a_jacobian_leaves_its_own_argument_as_it_is(angle):
    for xi in twists(angle):
        for J in (se3_jl, se3_jr, se3_jl_inv, se3_jr_inv):
            np.testing.assert_allclose(J(xi) @ xi, xi, rtol=0, atol=LAST_BITS)


@pytest.mark.parametrize("angle", ANGLES)
def test_left_and_right_jacobian_differ_by_the_adjoint(angle):
    for xi in twists(angle):
        np.testing.assert_allclose(
            se3_jl(xi), se3_adj(se3_exp(xi)) @ se3_jr(xi), rtol=0, atol=LAST_BITS
        )


def test_a_series_in_both_parts_would_be_caught_at_tiny_rotations():
    # Without the coupling block J_l is off by half the translation, however small the rotation; a
    # test that shrinks both parts together would not show it.
    xi = twists("1e-7")[0]
    without_coupling = np.eye(6)
    without_coupling[:3, :3] = without_coupling[3:, 3:] = so3_jl(xi[3:])
    assert np.abs(se3_jl(xi) - without_coupling).max() > 0.1


entries = st.floats(-2.0, 2.0, allow_subnormal=False)
rotation_vectors = st.tuples(entries, entries, entries).map(
    # Shorter than pi: a logarithm gives it back.
    lambda v: np.array(v) * min(1.0, 3.1 / max(float(np.linalg.norm(v)), 1e-300))
)
translations = st.tuples(*[st.floats(-10.0, 10.0, allow_subnormal=False)] * 3).map(np.array)
any_twist = st.tuples(translations, rotation_vectors).map(np.concatenate)
repeatable = settings(max_examples=100, deadline=None, derandomize=True)


@repeatable
@given(any_twist)
def test_any_twist_comes_back_from_exponential_and_logarithm(xi):
    np.testing.assert_allclose(se3_log(se3_exp(xi)), xi, rtol=0, atol=2e-13)


@repeatable
@given(any_twist, any_twist, any_twist)
def test_rigid_motions_form_a_group(a, b, c):
    A, B, C = se3_exp(a), se3_exp(b), se3_exp(c)
    np.testing.assert_allclose((A @ B) @ C, A @ (B @ C), rtol=0, atol=1e-12)
    np.testing.assert_allclose(A @ se3_inv(A), np.eye(4), rtol=0, atol=1e-13)
    np.testing.assert_allclose(se3_inv(A) @ A, np.eye(4), rtol=0, atol=1e-13)
    np.testing.assert_allclose(se3_inv(A @ B), se3_inv(B) @ se3_inv(A), rtol=0, atol=1e-12)
    np.testing.assert_allclose(se3_inv(A), se3_exp(-a), rtol=0, atol=1e-12)


@repeatable
@given(any_twist, any_twist)
def test_the_adjoint_carries_a_motion_to_another_frame(a, b):
    T = se3_exp(a)
    carried = T @ se3_exp(b) @ se3_inv(T)
    np.testing.assert_allclose(carried, se3_exp(se3_adj(T) @ b), rtol=0, atol=1e-11)


@repeatable
@given(any_twist, any_twist)
def test_the_adjoint_of_a_product_is_the_product_of_adjoints(a, b):
    A, B = se3_exp(a), se3_exp(b)
    np.testing.assert_allclose(se3_adj(A @ B), se3_adj(A) @ se3_adj(B), rtol=0, atol=1e-12)
    np.testing.assert_allclose(se3_adj(se3_inv(A)) @ se3_adj(A), np.eye(6), rtol=0, atol=1e-12)


@settings(repeatable, max_examples=20)
@given(rotation_vectors)
def test_the_adjoint_is_the_exponential_of_the_bracket(phi):
    xi = np.concatenate([[1.0, -2.0, 0.5], phi])
    np.testing.assert_allclose(se3_adj(se3_exp(xi)), exact_exp(ad(xi)), rtol=0, atol=2e-14)


def test_skew_is_the_cross_product():
    v, w = np.array([1.0, -2.0, 3.0]), np.array([0.5, 4.0, -1.0])
    np.testing.assert_array_equal(skew(v) @ w, np.cross(v, w))


def test_a_pose_is_put_together_from_its_two_parts():
    R, p = so3_exp(np.array([0.1, 0.2, 0.3])), np.array([1.0, 2.0, 3.0])
    T = se3(R, p)
    np.testing.assert_array_equal(T[:3, :3], R)
    np.testing.assert_array_equal(T[:3, 3], p)
    np.testing.assert_array_equal(T[3], [0.0, 0.0, 0.0, 1.0])
