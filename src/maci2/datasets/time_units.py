"""Units of timestamps, inferred from the rate that each would give."""

import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from maci2.errors import DatasetError
from maci2.types import Stamps

UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
"""Nanoseconds of each unit."""


def unit_of(texts: Sequence[str], what: str, source: str, rate_hz: tuple[float, float]) -> str:
    """The only unit in which these times have a rate that is plausible for `what`."""
    times = np.array([float(text) for text in texts])
    steps = np.diff(np.unique(times))
    step = float(np.median(steps)) if len(steps) else 0.0
    low, high = rate_hz
    fits = [
        unit for unit, ns in UNITS_NS.items() if step > 0.0 and low <= 1e9 / (step * ns) <= high
    ]
    if len(fits) == 1:
        return fits[0]
    if any("." in text for text in texts[:10]):
        return "s"
    raise DatasetError(
        f"{source}: the unit of the timestamps cannot be told: {what} are {step:g} apart, needed "
        f"{low:g} to {high:g} a second in one of {', '.join(UNITS_NS)}. State the unit."
    )


def whole_ns(texts: Sequence[str], unit: str) -> Stamps:
    """Exact integer nanoseconds of numbers given as text."""
    factor = UNITS_NS[unit]
    plain = all(re.fullmatch(r"\d{1,18}", text) for text in texts)
    if plain and max(len(text) for text in texts) + len(str(factor)) <= 19:
        return np.array([int(text) * factor for text in texts], dtype=np.int64)
    values = [round(Decimal(text) * factor) for text in texts]
    if any(abs(value) >= 2**63 for value in values):
        raise DatasetError(
            f"a timestamp of {max(values)} ns has no place in 64 bits; check the unit."
        )
    return np.array(values, dtype=np.int64)
