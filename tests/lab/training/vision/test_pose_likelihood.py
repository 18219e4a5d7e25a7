"""Likelihood of poses under predicted match covariances."""

import numpy as np
import pytest

from maci2.vision.covariance import INPUTS, OUTPUTS, covariances
from maci2_lab.benchmarks.vision_speed import BENCH_CAMERA, random_matches
from maci2_lab.training.vision.data import RenderedMatches
from maci2_lab.training.vision.train import PoseScores, factors, linearized, pose_nll

torch = pytest.importorskip("torch")


def made_up(seed, count=150):
    """Matches of one relative pose, and the outputs of a network that knows their covariances."""
    matches, covs, T_ck_ck1 = random_matches(count, seed)
    inputs = np.zeros((count, INPUTS), np.float32)
    outputs = np.zeros((count, OUTPUTS))
    outputs[:, [0, 2, 5, 9]] = 0.5 * np.log(np.diagonal(covs, axis1=1, axis2=2))
    rendered = RenderedMatches(seed, inputs, np.zeros((count, 4)), matches, BENCH_CAMERA, T_ck_ck1)
    return rendered, outputs


def test_factors_are_those_of_the_covariances_at_run_time():
    outputs = np.random.default_rng(0).normal(-1.0, 0.7, (20, OUTPUTS))
    L = factors(torch.from_numpy(outputs)).numpy()
    np.testing.assert_allclose(L @ np.swapaxes(L, 1, 2), covariances(outputs), rtol=1e-12)


def test_poses_are_most_probable_under_the_true_covariances():
    many = [made_up(seed) for seed in range(40)]
    everything = [np.ones(len(one.matches), dtype=bool) for one, _ in many]
    poses = linearized([one for one, _ in many], everything)
    outputs = np.concatenate([outputs for _, outputs in many])

    def nll(change):
        return float(pose_nll(torch.from_numpy(outputs + change), poses))

    scale = np.zeros(OUTPUTS)
    scale[[0, 2, 5, 9]] = 1.0
    # Too small ones are made up for by the robust loss: matches and calibration set the size.
    assert nll(0.0) < nll(0.2 * scale) < nll(0.5 * scale)
    # Weights that say nothing of which match is good make the true poses less probable.
    shuffled = np.random.default_rng(1).permutation(outputs)
    assert nll(0.0) < float(pose_nll(torch.from_numpy(shuffled), poses))


def test_derivatives_are_those_of_differences():
    """Weights of the robust loss are taken as constant: without residuals they are."""
    rendered, outputs = made_up(3, 40)
    poses = linearized([rendered], [np.ones(40, dtype=bool)])
    small = type(poses)(poses.inputs, poses.pose, 1, 1e-3 * poses.r, poses.D, poses.J)
    at = torch.from_numpy(outputs).requires_grad_()
    pose_nll(at, small).backward()
    rng = np.random.default_rng(0)
    for _ in range(5):
        step = 1e-5 * rng.standard_normal(outputs.shape)
        ahead, behind = (
            float(pose_nll(torch.from_numpy(outputs + sign * step), small)) for sign in (1, -1)
        )
        assert 0.5 * (ahead - behind) == pytest.approx(
            float((at.grad.numpy() * step).sum()), rel=1e-4
        )


def test_tails_cost():
    rng = np.random.default_rng(0)
    squares, log_dets = rng.chisquare(6, 400), np.full(400, -60.0)
    clean = PoseScores(squares, log_dets)
    assert clean.factor == pytest.approx(1.0, abs=0.1)
    assert clean.beyond(5.0, 1.0) == 0.0
    wrong = PoseScores(np.where(np.arange(400) < 8, 1e4, squares), log_dets)
    assert wrong.beyond(5.0, 1.0) == pytest.approx(0.02)
    assert wrong.cost > clean.cost + 0.05
