"""Shared errors of predicted rotations: found beside moving things, believed only if sure."""

import numpy as np
import pytest

from maci2.geometry import so3_exp, so3_log
from maci2.geometry.gaussian import nees
from maci2.vision.moving_objects import HISTORY, RotationConsensus
from maci2.vision.relative_poses import PredictedRotation

BIAS_STD, DT = 0.1, 0.2
OWN_STD, MATCH_STD = 2e-4, 5e-4


def prediction(rng, shared):
    """A predicted rotation and the one that the camera makes, with six shared errors: of a bias and
    of the rotation of the extrinsics."""
    R = so3_exp(rng.normal(0.0, 0.15, size=3))
    by_shared = np.column_stack([BIAS_STD * DT * R, 0.02 * (np.eye(3) - R)])
    own = OWN_STD**2 * np.eye(3)
    predicted = PredictedRotation(R, own + by_shared @ by_shared.T, by_shared)
    away = by_shared @ shared + OWN_STD * rng.standard_normal(3)
    return predicted, so3_exp(away) @ R


def add_camera(consensus, rng, shared, count):
    for _ in range(count):
        predicted, R = prediction(rng, shared)
        told = so3_exp(MATCH_STD * rng.standard_normal(3)) @ R
        consensus.add(predicted, told, MATCH_STD**2 * np.eye(3))


def add_things(consensus, rng, shared, count, away=None):
    """Sharp rotations of sets of matches that lie on things; each its own, or all the same."""
    for _ in range(count):
        predicted, R = prediction(rng, shared)
        off = rng.normal(0.0, 0.01, size=3) if away is None else away
        consensus.add(predicted, so3_exp(off) @ R, MATCH_STD**2 * np.eye(3))


def test_nothing_is_believed_of_few_poses():
    rng = np.random.default_rng(0)
    consensus = RotationConsensus()
    add_camera(consensus, rng, rng.standard_normal(6), 2)
    assert consensus.shared is None
    assert consensus.sharpened(prediction(rng, np.zeros(6))[0]) is None


@pytest.mark.parametrize("things", [0, 16])
def test_the_sharpened_prediction_is_right_within_its_covariance(things):
    """With none and with more than half of the poses telling things that move by themselves."""
    rng = np.random.default_rng(1)
    errors, covs, unsure = [], [], 0
    for _ in range(150):
        shared = rng.standard_normal(6)
        consensus = RotationConsensus()
        add_camera(consensus, rng, shared, 12)
        add_things(consensus, rng, shared, things)
        predicted, R = prediction(rng, shared)
        sharp = consensus.sharpened(predicted)
        if sharp is None:
            unsure += 1
            continue
        errors.append(so3_log(np.ascontiguousarray(R @ sharp.R_ck_ck1.T)))
        covs.append(sharp.cov)
    assert unsure <= 3
    # 99.9 % of the means of 150 draws of chi-square with 3 dof lie within 0.7 of 3.
    assert nees(np.array(errors), np.array(covs)).mean() == pytest.approx(3.0, abs=0.7)
    assert np.sqrt(np.trace(np.mean(covs, axis=0)) / 3.0) < 0.1 * BIAS_STD * DT


def test_a_wide_prediction_stays_wide_along_what_no_pose_has_told():
    """Without rotation nothing is known of the extrinsics."""
    consensus = RotationConsensus()
    by_shared = np.column_stack([BIAS_STD * DT * np.eye(3), np.zeros((3, 3))])
    still = PredictedRotation(np.eye(3), by_shared @ by_shared.T + 1e-8 * np.eye(3), by_shared)
    for _ in range(10):
        consensus.add(still, np.eye(3), MATCH_STD**2 * np.eye(3))
    turning, _ = prediction(np.random.default_rng(2), np.zeros(6))
    by_extrinsics = turning.by_shared[:, 3:]
    sharp = consensus.sharpened(turning)
    assert (np.linalg.eigvalsh(sharp.cov - by_extrinsics @ by_extrinsics.T) > 0.0).all()


def test_two_sets_that_each_agree_on_other_errors_leave_the_prediction_as_it_is():
    rng = np.random.default_rng(3)
    shared = np.zeros(6)
    consensus = RotationConsensus()
    add_camera(consensus, rng, shared, 10)
    assert consensus.shared is not None
    add_things(consensus, rng, shared, 10, away=np.array([0.01, -0.005, 0.008]))
    assert consensus.shared is None


def test_a_thing_seen_first_is_given_up_once_the_camera_has_been_seen_longer():
    rng = np.random.default_rng(4)
    shared = np.zeros(6)
    consensus = RotationConsensus()
    add_things(consensus, rng, shared, 5, away=np.array([0.01, -0.005, 0.008]))
    add_camera(consensus, rng, shared, HISTORY - 5)
    predicted, R = prediction(rng, shared)
    assert consensus.sharpened(predicted).agrees(R, MATCH_STD**2 * np.eye(3))


def test_a_set_that_scatters_more_than_its_covariances_say_widens_the_prediction():
    rng = np.random.default_rng(5)
    shared = rng.standard_normal(6)
    exact, scattering = RotationConsensus(), RotationConsensus()
    for consensus, factor in ((exact, 1.0), (scattering, 1.6)):
        again = np.random.default_rng(6)
        for _ in range(30):
            predicted, R = prediction(again, shared)
            told = so3_exp(factor * MATCH_STD * again.standard_normal(3)) @ R
            consensus.add(predicted, told, MATCH_STD**2 * np.eye(3))
    assert scattering.shared.noise > 1.3 > exact.shared.noise
