"""Consistency by difficulty: NEES and coverage in quarters of the predicted sigma.

Coverage that is right on the whole can hide a hardest quarter that is far off.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from maci2.evaluation.metrics import InitErrors
from maci2.evaluation.rows import Row, StatedUncertainty

SIGMAS = {"gravity": "gravity_std_deg", "velocity": "velocity_std"}
"""Quantity -> what the posterior states of it."""


@dataclass(frozen=True)
class Quartile:
    """A quarter of the windows, by predicted sigma."""

    sigma: float
    """Median of the predicted sigma [deg] or [m/s]."""

    count: int
    """Windows in it."""

    nees: float
    """Mean normalised error squared per degree of freedom; 1 is consistent."""

    covered: float
    """Share of the errors inside their 95 % ellipsoid."""


def by_quartile(rows: list[Row], audited: bool) -> dict[str, list[Quartile]]:
    """Quarters of the windows with an estimate, most certain first; empty for fewer than 8
    windows."""
    pairs = [(row.audited if audited else row.errors, row.stated) for row in rows]
    known = [(errors, stated) for errors, stated in pairs if errors and stated]
    return {name: _quarters(known, name) for name in SIGMAS} if len(known) >= 8 else {}


def quartiles_json(rows: list[Row], audited: bool) -> dict[str, list[dict[str, Any]]]:
    """The quarters as JSON has them."""
    found = by_quartile(rows, audited)
    return {name: [asdict(one) for one in quarters] for name, quarters in found.items()}


def _quarters(known: list[tuple[InitErrors, StatedUncertainty]], name: str) -> list[Quartile]:
    known = [(e, s) for e, s in known if e.nees.get(name) is not None]
    sigmas = np.array([getattr(stated, SIGMAS[name]) for _, stated in known])
    nees = np.array([errors.nees[name] for errors, _ in known], dtype=float)
    covered = np.array([errors.covered[name] for errors, _ in known], dtype=float)
    return [
        Quartile(
            float(np.median(sigmas[inside])),
            len(inside),
            float(nees[inside].mean()),
            float(covered[inside].mean()),
        )
        for inside in np.array_split(np.argsort(sigmas, kind="stable"), 4)
        if len(inside)
    ]
