"""What a weight file says of itself."""

import json

import numpy as np
import pytest

from maci2.errors import MeasurementError, OptionError
from maci2.imu.learned_model import (
    FORMAT,
    METADATA_KEY,
    UNITS,
    LabelNoiseCard,
    ModelCard,
    read_card,
)


def card(**changes):
    fields = {
        "format": FORMAT, "name": "x", "form": "paper", "package_version": "0", "seed": 0,
        "trained_on": ["a"], "tuned_on": ["b"], "rate_hz": 200.0, "rate_tolerance": 0.02,
        "units": UNITS, "lookahead_samples": 12, "mean_force": (1.0, 0.0, 0.0),
        "max_force_angle_deg": 60.0, "turn_on_mean": [], "turn_on_std": [], "correction_kept": [],
        "rest_shift_mean": [], "rest_shift_std": [],
        "bias_mean": [0.0] * 6, "bias_std": [], "cov_0": [], "label_noise": {},
        "truth_kinds": {}, "figures": {"nees": 1.0}, "limits": ["this IMU only"],
    }  # fmt: skip
    return ModelCard(**{**fields, **changes})


def stored(**changes):
    return {METADATA_KEY: json.dumps({**json.loads(card().model_dump_json()), **changes})}


def test_a_card_survives_writing_and_reading():
    values = {name: 0.001 * k for k, name in enumerate(LabelNoiseCard.model_fields)}
    labels = {"leica": LabelNoiseCard(**values)}
    original = card(cov_0=np.eye(9).tolist(), bias_std=[1.0] * 6, label_noise=labels)
    assert read_card({METADATA_KEY: original.model_dump_json()}, "file") == original


def test_a_card_without_spread_leaves_the_gyro_bias_unknown():
    assert np.isinf(card().bias_prior().std_gyro).all()
    assert (card(bias_std=[0.5] * 6).bias_prior().std_acc == 0.5).all()


def test_the_text_names_data_seed_and_limits():
    text = card().text()
    for word in ("trained on", "tuned on", "seed", "this IMU only"):
        assert word in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 7}, "weight format 7"),
        ({"format": 2}, "weight format 2, this version of maci2 reads format 4; train again"),
        ({"units": "deg/s, g"}, "weights for units 'deg/s, g'"),
        ({"seed": "many"}, "the model card is damaged"),
        ({"surprise": 1}, "the model card is damaged"),
        ({"bias_mean": [0.0] * 5}, r"damaged at 'bias_mean' \(5 numbers, needed 6\)"),
        ({"cov_0": [[1.0] * 9] * 8}, r"damaged at 'cov_0' \(8 numbers, needed 0 or 9\)"),
        ({"cov_0": [[1.0] * 9] * 8 + [[1.0]]}, r"damaged at 'cov_0\[8\]' \(1 numbers"),
        ({"rate_hz": 0.0}, "rate 0 Hz"),
        ({"tilt_std": -0.1}, r"damaged at 'tilt_std' \(-0.1 rad"),
        ({"rate_hz": float("nan")}, "the model card is damaged at 'rate_hz'"),
    ],
)
def test_a_bad_card_is_refused(changes, message):
    with pytest.raises(OptionError, match=message):
        read_card(stored(**changes), "file")


@pytest.mark.parametrize("text", ["[1, 2]", "7", '"card"', "null", "{", "[" * 5000])
def test_a_card_that_is_no_json_object_is_refused(text):
    with pytest.raises(OptionError, match=r"file, model card.*JSON"):
        read_card({METADATA_KEY: text}, "file")


def test_a_start_covariance_that_is_none_is_refused():
    with pytest.raises(MeasurementError, match="cov_0"):
        read_card(stored(cov_0=(-np.eye(9)).tolist()), "file")
