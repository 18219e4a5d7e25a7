"""What an examination of a recording found."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from maci2.evaluation.truth_check import TruthCheck

Level = Literal["ok", "warn", "error"]


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    level: Level
    what: str
    """Which part: imu, cam0, stereo, calibration, windows or the name of a truth."""

    text: str


@dataclass(frozen=True)
class Timing:
    """Stamps of one sensor."""

    samples: int
    duration_s: float
    rate_hz: float
    """Median rate; NaN for fewer than two samples."""

    jitter_pct: float
    """Spread of the steps (5 to 95 %) about the median, in per cent of it."""

    gaps: int
    longest_step_s: float


@dataclass(frozen=True)
class Health:
    """What a recording holds and what is wrong with it."""

    name: str
    imu: Timing
    cameras: tuple[Timing, ...]
    stereo_matched_pct: float
    """Left stamps that have a right one; NaN without two cameras."""

    truths: dict[str, TruthCheck]
    windows: int
    """Windows of 2.5 s, end to end, without IMU gap and with enough frames."""

    findings: list[Finding]

    @property
    def usable(self) -> bool:
        """Nothing found that has to be mended first."""
        return all(finding.level != "error" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: numbers that could not be measured are None."""
        return {"usable": self.usable, **_without_nan(asdict(self))}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
