"""Consistency of measured noise over horizons, on recordings of their own or the same."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maci2.calibration.imu_noise import NoiseProblem, fit_reference_noise
from maci2.calibration.noise_consistency import Consistency, consistency
from maci2.estimation.result_output import Json
from maci2.types import NS, Array

HORIZONS_S = (0.25, 1.0)
"""Lengths over which errors are scored [s]."""


@dataclass(frozen=True)
class NoiseCheck:
    """Scores of one recording over one horizon."""

    recording: str
    horizon_s: float
    stated: Consistency
    """With the data sheet's noise."""

    measured: Consistency
    """With the noise that was measured."""


def check_noise(
    recordings: Sequence[tuple[str, NoiseProblem]], measured: Array, stated: Array
) -> tuple[NoiseCheck, ...]:
    """Scores of all recordings and horizons; noise of the reference is fitted to each recording."""
    checks = []
    for name, recording in recordings:
        problem = recording.problem
        period_s = float(np.median(np.diff(problem.stamps_ns))) / NS
        before, after = (fit_reference_noise(recording, levels) for levels in (stated, measured))
        for horizon_s in HORIZONS_S:
            steps = max(round(horizon_s / period_s), 1)
            scores = (consistency(problem, solution, steps) for solution in (before, after))
            checks.append(NoiseCheck(name, horizon_s, *scores))
    return tuple(checks)


CHECK_COLUMNS = (
    "recording",
    "over [s]",
    *(f"{noise} {part}" for noise in ("sheet", "found") for part in ("rot", "vel", "pos")),
)


def check_rows(checks: Sequence[NoiseCheck]) -> list[tuple[str, ...]]:
    """One row for each recording and horizon, NEES per degree of freedom."""
    return [
        (
            check.recording,
            f"{check.horizon_s:g}",
            *(
                "-" if score is None else f"{score:.2f}"
                for one in (check.stated, check.measured)
                for score in (part.nees for part in one.parts.values())
            ),
        )
        for check in checks
    ]


def check_record(checks: Sequence[NoiseCheck]) -> list[Json]:
    """The same under the keys of `maci2 noise --json`."""
    return [
        {
            "recording": check.recording,
            "horizon_s": check.horizon_s,
            "windows": check.measured.windows,
            **{
                name: {
                    "nees": {part: score.nees for part, score in one.parts.items()},
                    "shown": {part: score.shown for part, score in one.parts.items()},
                    "correlation": [round(float(c), 4) for c in one.correlation],
                    "expected_correlation": [round(float(c), 4) for c in one.expected],
                }
                for name, one in (("stated", check.stated), ("measured", check.measured))
            },
        }
        for check in checks
    ]
