"""Match covariances: shapes, bounds, the bundled weights and damaged ones."""

import numpy as np
import pytest

from maci2.errors import OptionError
from maci2.vision import covariance
from maci2.vision.covariance import (
    FORMAT,
    INPUTS,
    MATCH_CARD,
    MAX_STD_PX,
    MIN_STD_PX,
    OUTPUTS,
    FixedNoise,
    Learned,
    MatchFeatures,
    StructureTensor,
    covariance_model,
    covariances,
)


def features(count, tensors=(100.0, 0.0, 400.0)):
    inputs = np.random.default_rng(0).standard_normal((count, INPUTS)).astype(np.float32)
    return MatchFeatures(inputs, np.tile(tensors, (count, 1)), np.ones((count, 3)))


def test_any_output_of_the_network_is_a_positive_definite_covariance_within_bounds():
    outputs = np.random.default_rng(5).normal(0.0, 3.0, size=(200, OUTPUTS))
    outputs[0], outputs[1] = -50.0, 50.0
    covs = covariances(outputs)
    assert (np.linalg.eigvalsh(covs[2:]) > 0.0).all()
    np.testing.assert_allclose(covs, np.swapaxes(covs, 1, 2))
    diagonal_only = np.zeros((1, OUTPUTS))
    diagonal_only[:, [0, 2, 5, 9]] = [-50.0, 50.0, 0.0, 1.0]
    expected = [MIN_STD_PX**2, MAX_STD_PX**2, 1.0, np.exp(2.0)]
    np.testing.assert_allclose(np.diagonal(covariances(diagonal_only)[0]), expected)


def test_bundled_weights_are_whole_and_answer():
    model = Learned()
    covs = model(features(7))
    assert covs.shape == (7, 4, 4)
    assert (np.linalg.eigvalsh(covs) > 0.0).all()
    assert "no real image" in model.card.text()
    assert model(features(0)).shape == (0, 4, 4)


def test_an_edge_is_uncertain_along_itself():
    """Strong gradients down the image, weak ones along the row."""
    covs = StructureTensor()(features(1, tensors=(4.0, 0.0, 400.0)))
    assert covs[0, 0, 0] > 50.0 * covs[0, 1, 1]
    assert FixedNoise(0.5)(features(1))[0, 0, 0] == 0.25


def test_models_have_names():
    assert isinstance(covariance_model("chi2"), FixedNoise)
    with pytest.raises(OptionError, match="learned, fixed, structure, chi2"):
        covariance_model("guess")


def test_damaged_or_foreign_weights_are_refused(tmp_path, monkeypatch):
    with pytest.raises(OptionError, match="no such file"):
        Learned(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(OptionError, match="not an ONNX file"):
        Learned(tmp_path / "text.onnx")
    monkeypatch.setattr(covariance, "bundled_digest", lambda: "0" * 64)
    with pytest.raises(OptionError, match="changed or cut short"):
        Learned()


def test_cards_of_other_files_are_refused():
    with pytest.raises(OptionError, match="no match covariance of maci2"):
        MATCH_CARD.read({}, "other.onnx")
    with pytest.raises(OptionError, match="weight format 0"):
        MATCH_CARD.read({"maci2_match_covariance": '{"format": 0}'}, "old.onnx")
    with pytest.raises(OptionError, match="card is damaged"):
        MATCH_CARD.read({"maci2_match_covariance": f'{{"format": {FORMAT}}}'}, "cut.onnx")
