"""Numbers as the terminal shows them."""

import numpy as np
import pytest

from maci2.text_tables import number, table_text


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan])
def test_what_is_not_known_is_a_dash(missing):
    assert number(missing, 4) == "-"


def test_a_number_has_the_digits_asked_for():
    assert number(0.012349, 4) == "0.0123"


@pytest.mark.parametrize("width", [100, 200])
def test_narrow_tables_fold_words_and_keep_numbers(width):
    numbers = ("1.000", "0.0513", "0.0098", "0.0262", "0.0093", "0.35", "0.97", "0.29", "137.67")
    titles = ("SR", "gravity", "velocity", "rotation", "position", "NEES gravity", "bias", "pose")
    columns = ("recording", "n", *titles)
    text = table_text("scores", columns, [("dataset-room2_512_16", *numbers)], width)
    assert all(number in text for number in numbers)
    assert "dataset-room" in text
    assert "…" not in text
