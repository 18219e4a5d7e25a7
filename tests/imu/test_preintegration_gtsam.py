"""GTSAM's preintegration as an oracle: same motion, same covariance."""

from dataclasses import replace

import numpy as np
import pytest
from imu_cases import (
    DT,
    assert_close_to,
    ends,
    samples,
)

from maci2.geometry import so3_jr, so3_log
from maci2.imu import ALPHA, BETA, GAMMA, preintegrate


def gtsam_preintegrated(gtsam, imu, variant):
    """Their result of the same samples, and its covariance in our order and frames."""
    params = gtsam.PreintegrationParams(np.array([0.0, 0.0, -9.81]))
    params.setGyroscopeCovariance(np.diag(imu.var_gyro[0] * DT))
    params.setAccelerometerCovariance(np.diag(imu.var_acc[0] * DT))
    params.setIntegrationCovariance(np.zeros((3, 3)))
    theirs = getattr(gtsam, variant)(params, gtsam.imuBias.ConstantBias())
    for force, omega in zip(imu.acc[:-1], imu.gyro[:-1], strict=True):
        theirs.integrateMeasurement(force, omega, DT)
    return theirs


def in_our_order(cov, to_ours):
    """From [rotation, position, velocity]."""
    order = [0, 1, 2, 6, 7, 8, 3, 4, 5]
    return to_ours @ cov[np.ix_(order, order)] @ to_ours.T


@pytest.fixture
def even_samples():
    """GTSAM has one covariance for all samples."""
    imu = samples(count=101)
    shape = imu.gyro.shape
    return replace(
        imu,
        var_gyro=np.broadcast_to([1e-6, 2e-6, 4e-6], shape).copy(),
        var_acc=np.broadcast_to([1e-4, 3e-4, 2e-4], shape).copy(),
    )


def test_gtsam_on_the_manifold_gives_the_same_motion_and_covariance(even_samples):
    gtsam = pytest.importorskip("gtsam")
    pre = preintegrate(even_samples, ends(even_samples), rule="euler")
    theirs = gtsam_preintegrated(gtsam, even_samples, "PreintegratedImuMeasurementsManifold")
    np.testing.assert_allclose(theirs.deltaRij().matrix(), pre.gamma[0], atol=1e-13)
    np.testing.assert_allclose(theirs.deltaVij(), pre.beta[0], atol=1e-13)
    np.testing.assert_allclose(theirs.deltaPij(), pre.alpha[0], atol=1e-13)
    # Their velocity and position errors are in the frame at the end.
    to_ours = np.eye(9)
    to_ours[BETA, BETA] = to_ours[ALPHA, ALPHA] = pre.gamma[0]
    assert_close_to(pre.cov[0], in_our_order(theirs.preintMeasCov(), to_ours), 1e-9)


def test_gtsam_in_the_tangent_space_agrees_up_to_its_own_rule(even_samples):
    gtsam = pytest.importorskip("gtsam")
    # It adds up rotation vectors, a rule of first order: compare where steps are small.
    imu = replace(even_samples, gyro=0.1 * even_samples.gyro)
    pre = preintegrate(imu, ends(imu), rule="euler")
    theirs = gtsam_preintegrated(gtsam, imu, "PreintegratedImuMeasurements")
    np.testing.assert_allclose(theirs.deltaRij().matrix(), pre.gamma[0], atol=1e-4)
    np.testing.assert_allclose(theirs.deltaVij(), pre.beta[0], atol=5e-4)
    np.testing.assert_allclose(theirs.deltaPij(), pre.alpha[0], atol=2e-4)
    # Their rotation error is one of the rotation vector.
    to_ours = np.eye(9)
    to_ours[GAMMA, GAMMA] = so3_jr(so3_log(pre.gamma[0]))
    assert_close_to(pre.cov[0], in_our_order(theirs.preintMeasCov(), to_ours), 1e-3)
