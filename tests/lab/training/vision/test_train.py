"""Training of the match covariance on made-up matches, and one rendered room."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

pytestmark = pytest.mark.filterwarnings("ignore")

from maci2.errors import DatasetError
from maci2.vision.covariance import INPUTS, Learned, MatchFeatures
from maci2_lab.benchmarks.vision_speed import BENCH_CAMERA, random_matches
from maci2_lab.training.vision.data import RenderedMatches, render_matches
from maci2_lab.training.vision.export import card_of, disagreement, export, to_onnx
from maci2_lab.training.vision.train import (
    Calibration,
    MatchNetwork,
    VisionTrainingConfig,
    calibrate,
    split,
    student_nll,
    train,
)

TINY = VisionTrainingConfig(epochs=4, batch=256, pose_epochs=1)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


def made_up_steps(scenes):
    """Matches whose first input is the logarithm of their standard deviation."""
    steps = []
    for scene in range(scenes):
        matches, covs, T_ck_ck1 = random_matches(150, seed=scene)
        rng = np.random.default_rng(scene)
        inputs = rng.standard_normal((150, INPUTS)).astype(np.float32)
        std = np.sqrt(np.diagonal(covs, axis1=1, axis2=2))
        inputs[:, 0] = np.log(std.mean(axis=1))
        errors = std * rng.standard_normal((150, 4))
        steps.append(RenderedMatches(scene, inputs, errors, matches, BENCH_CAMERA, T_ck_ck1))
    return steps


def test_the_likelihood_is_least_at_the_true_spread():
    generator = torch.Generator().manual_seed(0)
    # A Student t with 4 degrees of freedom, one mixing variable for all four axes.
    mixing = torch.distributions.Chi2(4.0).sample((20000,)) / 4.0
    errors = 0.3 * torch.randn(20000, 4, generator=generator) / mixing.sqrt()[:, None]

    def nll(std):
        outputs = torch.zeros(20000, 10)
        outputs[:, [0, 2, 5, 9]] = float(np.log(std))
        return float(student_nll(outputs, errors))

    assert nll(0.3) < min(nll(0.25), nll(0.36))


def test_training_learns_which_matches_are_noisy_and_is_the_same_each_time():
    steps = made_up_steps(60)
    network, found = train(steps, VisionTrainingConfig(epochs=6, batch=256, pose_epochs=1))
    again, _ = train(steps, VisionTrainingConfig(epochs=6, batch=256, pose_epochs=1))
    quiet, loud = np.zeros((2, 1, INPUTS), np.float32)
    quiet[0, 0], loud[0, 0] = np.log(0.1), np.log(0.25)
    assert network.covariances(loud)[0, 0, 0] > 1.5 * network.covariances(quiet)[0, 0, 0]
    np.testing.assert_array_equal(network.covariances(loud), again.covariances(loud))
    assert found.outliers < 0.05


@pytest.mark.slow
def test_rooms_rendered_and_trained_on_twice_give_the_same_bytes():
    """Rendering shares the rows of an image among threads, matching and training sum in an order of
    their own: none of it may show."""
    weights = []
    for _ in range(2):
        rendered = render_matches(4, 7)
        network, found = train(rendered, TINY)
        weights.append(to_onnx(network, card_of(rendered, 7, TINY, found)))
    assert weights[0] == weights[1]


def test_calibration_puts_a_wrong_scale_right():
    held = made_up_steps(8)
    network = MatchNetwork()
    network.log_factor += 1.0
    calibrate(network, held)
    errors = np.concatenate([step.errors for step in held])
    covs = network.covariances(np.concatenate([step.inputs for step in held]))
    ratio = (errors**2 / np.diagonal(covs, axis1=1, axis2=2)).mean(axis=0)
    # All axes alike: what is left is the common factor, which poses decide.
    np.testing.assert_allclose(ratio / ratio.mean(), 1.0, atol=0.1)
    assert 0.3 < ratio.mean() < 3.0


def test_scenes_not_matches_are_held_out():
    steps = made_up_steps(8)
    fitted, held = split(steps)
    assert {step.scene for step in held} == {6, 7}
    assert not {step.scene for step in fitted} & {6, 7}
    with pytest.raises(DatasetError, match="too few"):
        split(steps[:1])


def test_exported_weights_answer_as_torch_does(tmp_path):
    steps = made_up_steps(8)
    network, found = train(steps, TINY)
    card = card_of(steps, 3, TINY, found)
    path = tmp_path / "match_covariance.onnx"
    digest = export(network, card, path)
    assert (tmp_path / "match_covariance.onnx.sha256").read_text().startswith(digest)
    inputs = steps[0].inputs
    covs = Learned(path)(MatchFeatures(inputs, np.ones((150, 3)), np.ones((150, 3))))
    np.testing.assert_allclose(covs, network.covariances(inputs), rtol=1e-4)
    assert Learned(path).card == card


def test_a_network_that_differs_from_its_export_is_found():
    network = MatchNetwork()
    found = Calibration((1.0, 1.0, 1.0, 1.0), 1.0, 0.0)
    data = to_onnx(network, card_of(made_up_steps(8), 0, TINY, found))
    assert disagreement(network, data) < 1e-5
    with torch.no_grad():
        network.log_factor += 0.5
    assert disagreement(network, data) > 0.1


def test_rendered_disparities_err_by_fractions_of_a_pixel_and_the_rest_stays_near():
    steps = render_matches(1, seed=0)
    assert len(steps) == 6
    errors = np.concatenate([step.errors for step in steps])
    assert len(errors) > 200
    temporal, stereo = np.median(np.abs(errors), axis=0).reshape(2, 2)
    assert (stereo < 0.2).all()
    # This room is dim and the camera fast; a wrong truth would be tens of pixels off.
    assert (temporal < 3.0).all()
    assert steps[0].inputs.shape[1] == INPUTS
