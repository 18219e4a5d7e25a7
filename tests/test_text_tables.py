"""Numbers as the terminal shows them."""

import numpy as np
import pytest

from maci2.text_tables import number


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan])
def test_what_is_not_known_is_a_dash(missing):
    assert number(missing, 4) == "-"


def test_a_number_has_the_digits_asked_for():
    assert number(0.012349, 4) == "0.0123"
