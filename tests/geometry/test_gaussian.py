import numpy as np
import pytest

from helpers import chi_square_band
from maci2.errors import MeasurementError
from maci2.geometry.gaussian import (
    chi2_quantile,
    chi2_significance,
    nees,
    require_spd,
    square_root_information,
    symmetrize,
)


def covariances(count, dim, seed):
    factors = np.random.default_rng(seed).standard_normal((count, dim, dim + 2))
    return factors @ np.swapaxes(factors, 1, 2)


def test_the_symmetric_part_of_a_stack_is_the_mean_with_its_mirror_image():
    matrices = np.array([[[1.0, 2.0], [4.0, 3.0]], [[0.0, 1.0], [-1.0, 5.0]]])
    expected = [[[1.0, 3.0], [3.0, 3.0]], [[0.0, 0.0], [0.0, 5.0]]]
    np.testing.assert_array_equal(symmetrize(matrices), expected)


def test_proper_covariances_pass_one_by_one_and_as_a_stack():
    covs = covariances(5, 6, seed=1)
    require_spd(covs, "covs")
    require_spd(covs[0], "cov")
    # Scale is no fault: micrometres squared are 1e-12 square metres.
    require_spd(1e-14 * covs, "covs")


def test_an_empty_stack_of_covariances_passes():
    require_spd(np.empty((0, 6, 6)), "covs")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_covariance_that_is_not_finite_is_named(value):
    covs = covariances(3, 3, seed=2)
    covs[1, 0, 0] = value
    with pytest.raises(MeasurementError, match="covs_T holds NaN or infinity"):
        require_spd(covs, "covs_T")


def test_a_covariance_that_is_not_symmetric_is_named_with_the_difference():
    cov = np.eye(3)
    cov[0, 1] = 0.25
    with pytest.raises(MeasurementError, match=r"cov_T is not symmetric: entries differ by 0\.25"):
        require_spd(cov, "cov_T")


def test_a_covariance_that_is_not_positive_is_named_with_place_and_eigenvalue():
    covs = covariances(4, 3, seed=3)
    covs[2] = np.diag([1.0, -0.5, 2.0])
    with pytest.raises(
        MeasurementError,
        match=r"covs_T is not positive definite at index \(2,\): smallest eigenvalue -0\.5",
    ):
        require_spd(covs, "covs_T")


def test_a_singular_covariance_is_refused():
    with pytest.raises(MeasurementError, match="cov_T is not positive definite: smallest"):
        require_spd(np.diag([1.0, 0.0]), "cov_T")


def test_square_root_information_is_the_triangular_root_of_the_inverse():
    covs = covariances(6, 9, seed=4)
    W = square_root_information(covs)
    np.testing.assert_allclose(
        np.swapaxes(W, 1, 2) @ W @ covs, np.tile(np.eye(9), (6, 1, 1)), atol=1e-9
    )
    # Kernels read the lower triangle only; nothing but rounding may stand above it.
    np.testing.assert_allclose(W, np.tril(W), atol=1e-14 * np.abs(W).max())
    assert W.flags.c_contiguous
    np.testing.assert_allclose(square_root_information(covs[2]), W[2], atol=1e-14)


def test_nees_is_the_value_worked_out_by_hand():
    cov = np.array([[4.0, 0.0], [0.0, 0.25]])
    assert nees(np.array([2.0, 1.0]), cov) == pytest.approx(1.0 + 4.0)
    correlated = np.array([[2.0, 1.0], [1.0, 2.0]])
    # The inverse is [[2, -1], [-1, 2]] / 3.
    assert nees(np.array([1.0, 0.0]), correlated) == pytest.approx(2.0 / 3.0)


def test_nees_of_a_stack_is_that_of_its_members():
    covs = covariances(4, 3, seed=5)
    errors = np.random.default_rng(6).standard_normal((4, 3))
    single = [nees(error, cov) for error, cov in zip(errors, covs, strict=True)]
    np.testing.assert_allclose(nees(errors, covs), single, rtol=1e-12)


def test_the_mean_nees_of_sampled_errors_is_their_dimension():
    cov = covariances(1, 6, seed=7)[0]
    errors = np.random.default_rng(8).multivariate_normal(np.zeros(6), cov, size=5000)
    low, high = chi_square_band(6, 5000)
    assert low < nees(errors, np.broadcast_to(cov, (5000, 6, 6))).mean() < high


@pytest.mark.parametrize(
    ("dof", "probability", "tabulated"), [(1, 0.5, 0.4549), (2, 0.999, 13.816), (6, 0.99, 16.812)]
)
def test_quantiles_of_chi_square_are_those_of_printed_tables(dof, probability, tabulated):
    assert chi2_quantile(dof, probability) == pytest.approx(tabulated, abs=5e-4)
    assert chi2_significance(dof, tabulated) == pytest.approx(1.0 - probability, rel=5e-4)
