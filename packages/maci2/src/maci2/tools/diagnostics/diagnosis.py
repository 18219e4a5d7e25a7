"""Contents of a diagnosis: timing, images, ground truths, findings."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from maci2.field_docs import document_fields
from maci2.findings import Finding
from maci2.result_output import Record
from maci2.tools.ground_truth.comparison import TruthCheck

NEXT = "Next: `maci2 init` or `maci2 calibrate` with a source of camera motion."


@dataclass(frozen=True)
class Timing:
    """Timestamps of one sensor."""

    samples: int
    duration_s: float
    rate_hz: float
    """Median rate; NaN for fewer than two samples."""

    jitter_pct: float
    """Spread of the intervals (5 to 95 %) about the median, in per cent of it."""

    gaps: int
    longest_step_s: float
    dropped: int = 0
    """Number of missing samples, in whole periods."""

    def cells(self) -> list[str]:
        """Cells of a table, one for each of SENSOR_COLUMNS."""
        step_ms = 1e3 * self.longest_step_s
        return [text.format(self, step_ms=step_ms) for text in SENSOR_COLUMNS.values()]


SENSOR_COLUMNS = {
    "samples": "{0.samples}",
    "length [s]": "{0.duration_s:.1f}",
    "rate [Hz]": "{0.rate_hz:.1f}",
    "jitter [%]": "{0.jitter_pct:.2f}",
    "missing": "{0.dropped}",
    "gaps": "{0.gaps}",
    "longest step [ms]": "{step_ms:.1f}",
}
"""Columns of a table of sensors, each with the format of its cells."""


@dataclass(frozen=True)
class CameraImages:
    """Images of one camera; medians over the sampled ones."""

    brightness: float
    """Mean grey level, 0 to 255."""

    saturated_pct: float
    """Percentage of saturated pixels."""

    change_pct: float
    """Change of brightness between consecutive images."""

    edge_px: float
    """Width of edges in the more blurred direction [px]: about 6 in a sharp image."""

    repeated_pct: float
    """Percentage of images identical to the next one."""

    blank_pct: float
    """Percentage of images without contrast."""

    def cells(self) -> list[str]:
        """Cells of a table, one for each of IMAGE_COLUMNS."""
        return [text.format(self) for text in IMAGE_COLUMNS.values()]


IMAGE_COLUMNS = {
    "grey level": "{0.brightness:.0f}",
    "saturated [%]": "{0.saturated_pct:.1f}",
    "flicker [%]": "{0.change_pct:.1f}",
    "edge width [px]": "{0.edge_px:.1f}",
    "repeated [%]": "{0.repeated_pct:.0f}",
    "blank [%]": "{0.blank_pct:.0f}",
}
"""Columns of a table of images, each with the format of its cells."""


@dataclass(frozen=True)
class ImageDiagnosis:
    """Diagnosis of the images."""

    places: int
    """Number of places sampled over the recording."""

    row_error_px: float
    """Median row error of stereo matches [px]; NaN if not measured."""

    cameras: tuple[CameraImages, ...]


@dataclass(frozen=True)
class Diagnosis:
    """Result of a check: contents and faults of a recording."""

    name: str
    """Name of the recording."""

    imu: Timing
    """Timestamps of the IMU."""

    cameras: tuple[Timing, ...]
    """Timestamps of each camera."""

    stereo_matched_pct: float
    """Percentage of left images with a right image of the same time; NaN without two cameras."""

    truths: dict[str, TruthCheck]
    """Ground truths by name, each compared with the IMU."""

    windows: int
    """Number of consecutive windows of 2.5 s without IMU gaps and with enough frames."""

    findings: list[Finding]
    """Findings, most important first."""

    images: ImageDiagnosis | None = None
    """Diagnosis of the images; None without images of two cameras."""

    @property
    def sensors(self) -> list[tuple[str, Timing]]:
        """IMU and cameras by name."""
        imu = [("imu", self.imu)] if self.imu.samples or not self.cameras else []
        return [*imu, *((f"cam{i}", t) for i, t in enumerate(self.cameras))]

    @property
    def first_line(self) -> str:
        """The worst fault and what to do about it; without one, the next thing to do."""
        first = self.findings[0]
        if first.level != "ok":
            return f"{'ERROR' if first.level == 'error' else 'warn'}  {first.what}: {first.text}"
        advice = [finding.remedy for finding in self.findings if finding.remedy]
        return f"ok  {self.name}: nothing to fix. {advice[0] if advice else NEXT}"

    @property
    def usable(self) -> bool:
        """Nothing has to be fixed first."""
        return all(finding.level != "error" for finding in self.findings)

    def as_dict(self) -> Record:
        """Dictionary for JSON: numbers that could not be measured are None."""
        return {"usable": self.usable, **_without_nan(asdict(self))}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


document_fields(__name__)
