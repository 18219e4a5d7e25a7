"""Task of IMU covariance consistency: `imu-report` as an experiment."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maci2.datasets import open_recording
from maci2.evaluation.imu_predictors import choose_predictors
from maci2.evaluation.imu_report import imu_report
from maci2.experiments.init_task import TaskResult
from maci2.experiments.row_records import rounded


@dataclass(frozen=True)
class CovarianceTask:
    """One report over recordings of one sensor; bins are pooled over them."""

    model: str
    paths: tuple[tuple[str, Path], ...]
    """Recordings by name."""

    horizons_s: tuple[float, ...]
    growth_s: tuple[float, ...]

    @property
    def key(self) -> str:
        return f"{self.model}_{'_'.join(name for name, _ in self.paths)}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "recordings": [name for name, _ in self.paths],
            "horizons_s": list(self.horizons_s),
            "growth_s": list(self.growth_s),
        }


def run_covariance(task: CovarianceTask) -> TaskResult:
    """One row: the report."""
    recordings = [open_recording(path) for _, path in task.paths]
    predictors = choose_predictors(recordings, [task.model], baselines=True)
    report = imu_report(recordings, predictors, task.horizons_s, task.growth_s)
    return TaskResult([_rounded_all(report)])


def _rounded_all(value: Any) -> Any:
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, dict):
        return {key: _rounded_all(item) for key, item in value.items()}
    return [_rounded_all(item) for item in value] if isinstance(value, list) else value
