"""Task of visual covariance consistency: `vo-report` as an experiment."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maci2.datasets import open_recording
from maci2.evaluation.consistency import equal_bins
from maci2.evaluation.imu_report import TRUTHS
from maci2.evaluation.vo_report import VisualScore, visual_report
from maci2.experiments.init_task import TaskResult
from maci2.experiments.row_records import rounded
from maci2.experiments.table import Cell, Claim, Findings, Line, Record, Table

INTERVAL_S = 0.2
BINS = 6
BOUNDS = (0.5, 2.0)
PARTS = {"rotation": (slice(3, 6), "deg", 180.0 / np.pi), "translation": (slice(0, 3), "mm", 1e3)}


@dataclass(frozen=True)
class VisualTask:
    """Every match covariance on one recording with images."""

    recording: str
    path: Path

    @property
    def key(self) -> str:
        return self.recording

    def as_dict(self) -> dict[str, Any]:
        return {"recording": self.recording, "interval_s": INTERVAL_S}


def run_visual(task: VisualTask) -> TaskResult:
    """One row for each model of match covariance."""
    scores = visual_report(open_recording(task.path), INTERVAL_S, truth_names=TRUTHS)
    return TaskResult([_row(name, score) for name, score in scores.items()])


def _row(name: str, score: VisualScore) -> dict[str, Any]:
    numbers = score.as_dict()
    # A published clock that is off is no error of vision.
    compared = score.audited or score
    row = {
        "model": name,
        "steps": numbers["steps"],
        "unmeasured": numbers["unmeasured"],
        "rotation_deg": rounded(numbers["rotation_deg"]),
        "translation_m": rounded(numbers["translation_m"]),
        "nees": {part: rounded(value) for part, value in compared.as_dict()["nees"].items()},
        "bins": {},
    }
    for part, (axes, _, scale) in PARTS.items():
        predicted = scale * np.sqrt(np.trace(compared.covs[:, axes, axes], axis1=1, axis2=2))
        actual = scale * np.linalg.norm(compared.errors[:, axes], axis=1)
        row["bins"][part] = [
            {"predicted": rounded(b.predicted), "actual": rounded(b.actual), "count": b.count}
            for b in equal_bins(predicted, actual, min(BINS, max(len(actual), 1)))
        ]
    return row


def visual_findings(records: list[Record]) -> Findings:
    """Errors and NEES per model, and predicted against actual."""
    lines, claims, figures = [], [], []
    for record in records:
        if not record["rows"]:
            continue
        name = record["task"]["recording"]
        for row in record["rows"]:
            cells = (
                Cell(row["steps"], 0),
                Cell(row["unmeasured"], 0),
                Cell(row["rotation_deg"]),
                Cell(None if row["translation_m"] is None else 1e3 * row["translation_m"], 2),
                *(Cell(row["nees"][part], 2) for part in ("pose", "rotation", "translation")),
            )
            source = f"vision images, match covariance {row['model']}"
            lines.append(Line(f"{name}, {row['model']}", source, cells))
        claims += _claims(name, record["rows"])
        figures += [_bins(name, record["rows"], part) for part in PARTS]
    columns = ("poses", "unmeasured", "rotation [deg]", "translation [mm]")
    scores = ("NEES pose", "NEES rotation", "NEES translation")
    note = (
        f"Keyframes every {INTERVAL_S:g} s; NEES per degree of freedom, 1 is ideal, against the "
        "audited ground truth where there is one."
    )
    table = Table("Visual poses and their covariances", (*columns, *scores), tuple(lines), note)
    return Findings([table] if lines else [], claims, figures)


def _claims(name: str, rows: list[dict[str, Any]]) -> list[Claim]:
    low, high = BOUNDS
    learned = next((row for row in rows if row["model"] == "learned"), None)
    if learned is None or learned["nees"]["pose"] is None:
        return []
    score = learned["nees"]["pose"]
    text = f"{name}: NEES of learned covariances {score:.2f} (wanted {low} to {high})"
    return [Claim(text, low <= score <= high)]


def _bins(name: str, rows: list[dict[str, Any]], part: str) -> dict[str, Any]:
    series = [
        {
            "name": row["model"],
            "predicted": [one["predicted"] for one in row["bins"][part]],
            "actual": [one["actual"] for one in row["bins"][part]],
            "count": [one["count"] for one in row["bins"][part]],
        }
        for row in rows
    ]
    title = f"{part} of a relative pose on {name}: predicted sigma against rms error"
    return {"kind": "bins", "title": title, "unit": PARTS[part][1], "series": series}
