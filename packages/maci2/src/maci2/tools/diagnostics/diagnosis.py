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

    def cells(self) -> tuple[str, ...]:
        """Cells of a table, one for each of SENSOR_COLUMNS."""
        return (
            str(self.samples),
            f"{self.duration_s:.1f}",
            f"{self.rate_hz:.1f}",
            f"{self.jitter_pct:.2f}",
            str(self.dropped),
            str(self.gaps),
            f"{1e3 * self.longest_step_s:.1f}",
        )


SENSOR_COLUMNS = (
    "samples", "length [s]", "rate [Hz]", "jitter [%]", "missing", "gaps", "longest step [ms]",
)  # fmt: skip


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

    def cells(self) -> tuple[str, ...]:
        """Cells of a table, one for each of IMAGE_COLUMNS."""
        return (
            f"{self.brightness:.0f}",
            f"{self.saturated_pct:.1f}",
            f"{self.change_pct:.1f}",
            f"{self.edge_px:.1f}",
            f"{self.repeated_pct:.0f}",
            f"{self.blank_pct:.0f}",
        )


IMAGE_COLUMNS = (
    "grey level", "saturated [%]", "flicker [%]", "edge width [px]", "repeated [%]", "blank [%]",
)  # fmt: skip


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
