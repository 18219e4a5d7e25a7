"""Constants that an audit measures over a whole recording, each with its significance."""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from maci2.gaussian import chi2_significance, nees
from maci2.types import Array

CHANCE = 1e-3
"""Probability below which chance does not explain a constant."""

MATTERS = {
    "deg": 0.02,
    "mm": 1.0,
    "ms": 0.3,
    "ms/min": 0.2,
    "m/s^2": 0.01,
    "rad/s": 2e-4,
    "ratio": 0.025,
}
"""Least size that is worth a sentence, by unit; of a ratio, the least distance from 1."""


@dataclass(frozen=True)
class Constant:
    """One thing that the audit measured over the whole recording."""

    value: float
    std: float
    unit: str
    significant: bool
    """Larger than chance and than what matters."""


def length_of(vector: Array, cov: Array, unit: str) -> Constant:
    """Length of a vector, its sigma along it, and whether it is zero."""
    length = float(np.linalg.norm(vector))
    along = vector / max(length, 1e-300)
    chance = chi2_significance(len(vector), float(nees(vector, cov)))
    significant = bool(chance < CHANCE and length > MATTERS[unit])
    return Constant(length, float(np.sqrt(along @ cov @ along)), unit, significant)


def scalar_of(value: float, std: float, unit: str, dof: int = 10**6) -> Constant:
    """A number, and whether it is zero, or 1 for a ratio; `dof` are those of `std` where it is
    itself an estimate (Student's distribution)."""
    away = value - 1.0 if unit == "ratio" else value
    chance = 2.0 * float(stdtr(dof, -abs(away) / std)) if std > 0.0 else 1.0
    significant = bool(chance < CHANCE and abs(away) > MATTERS[unit])
    return Constant(float(value), float(std), unit, significant)
