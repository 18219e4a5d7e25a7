"""Consistency of covariances: `imu-report` and `vo` as experiments."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from maci2.datasets import open_recording
from maci2.report.charts import equal_bins
from maci2_lab.evaluation.imu_report import TRUTHS, choose_predictors, imu_report
from maci2_lab.evaluation.vo_report import VisualScore, visual_report
from maci2_lab.experiments.experiment import Task, TaskResult
from maci2_lab.experiments.recordings import Recordings
from maci2_lab.experiments.store import rounded
from maci2_lab.experiments.table import (
    Claim,
    Entry,
    Findings,
    Record,
    Table,
    bin_series,
    figure,
    table_of,
)


def covariance_tasks(
    groups: dict[str, tuple[str, ...]],
    horizons_s: tuple[float, ...],
    growth_s: tuple[float, ...],
    recordings: Recordings,
    _: int,
) -> list[Task]:
    """One report for each IMU model, over its test recordings; bins are pooled over them."""
    tasks = []
    for model, names in groups.items():
        if paths := recordings.present(names):
            options = {
                "model": model,
                "recordings": list(paths),
                "horizons_s": list(horizons_s),
                "growth_s": list(growth_s),
            }
            run = partial(run_covariance, model, tuple(paths.values()), horizons_s, growth_s)
            tasks.append(Task(f"{model}_{'_'.join(paths)}", options, paths, run))
    return tasks


def run_covariance(
    model: str, paths: tuple[Path, ...], horizons_s: tuple[float, ...], growth_s: tuple[float, ...]
) -> TaskResult:
    """One row: the report."""
    recordings = [open_recording(path) for path in paths]
    predictors = choose_predictors(recordings, [model], baselines=True)
    return TaskResult([rounded(imu_report(recordings, predictors, horizons_s, growth_s))])


PARTS = {
    "rotation": ("deg", 180.0 / np.pi, 3),
    "velocity": ("mm/s", 1e3, 1),
    "position": ("mm", 1e3, 1),
}
"""Unit, its scale, and digits shown of each part of an error."""

MEAN_BOUNDS, BIN_BOUNDS = (0.6, 1.6), (0.6, 1.7)


def covariance_findings(records: list[Record], growth: bool) -> Findings:
    """Tables of NEES and errors per horizon, bins on y = x, and growth of errors."""
    tables, claims, figures = [], [], []
    for record in records:
        if not record["rows"]:
            continue
        report, model = record["rows"][0], record["task"]["model"]
        names = ", ".join(record["task"]["recordings"])
        tables += [_nees_table(report, names), _rms_table(report, names)]
        claims += _claims(report, model, names)
        figures += [_bins(report, part, h, names) for h in _horizons(report) for part in PARTS]
        if growth:
            figures += [_growth(report, part, names) for part in PARTS]
    return Findings(tables, claims, figures)


def _horizons(report: Record) -> list[str]:
    return list(next(iter(report["bins"].values())))


def _nees_table(report: Record, names: str) -> Table:
    lines = []
    for name, one in [*report["sequences"].items(), ("average", {"models": report["average"]})]:
        for model, numbers in one["models"].items():
            entries: list[Entry] = [
                (f"{part} {h} s", numbers["nees"][h][part], 2)
                for h in _horizons(report)
                for part in PARTS
            ]
            lines.append((f"{name}, {model}", f"IMU {model}", entries))
    return table_of(f"NEES per degree of freedom, 1 is ideal: {names}", lines)


def _rms_table(report: Record, names: str) -> Table:
    lines = []
    for model, numbers in report["average"].items():
        entries: list[Entry] = [
            (f"{part} {h} s [{unit}]", scale * numbers["rms"][h][part], digits)
            for h in _horizons(report)
            for part, (unit, scale, digits) in PARTS.items()
        ]
        lines.append((model, f"IMU {model}", entries))
    return table_of(f"Integration error, rms: {names}", lines)


def _claims(report: Record, model: str, names: str) -> list[Claim]:
    means = [v for h in report["average"][model]["nees"].values() for v in h.values()]
    ratios = [
        one["ratio"]
        for parts in report["bins"][model].values()
        for bins in parts.values()
        for one in bins
    ]
    return [
        Claim(
            f"{model} on {names}: {what} between {min(values):.2f} and {max(values):.2f}{where} "
            f"(wanted {low} to {high})",
            low <= min(values) and max(values) <= high,
        )
        for what, values, where, (low, high) in (
            ("mean NEES", means, "", MEAN_BOUNDS),
            ("rms error over predicted sigma", ratios, " in every bin", BIN_BOUNDS),
        )
    ]


def _bins(report: Record, part: str, horizon: str, names: str) -> Record:
    unit, scale, _ = PARTS[part]
    series = [
        bin_series(model, by_horizon[horizon][part], "rms", scale)
        for model, by_horizon in report["bins"].items()
    ]
    title = f"{part} over {horizon} s: predicted sigma against rms error, {names}"
    return figure("bins", title, unit, series=series)


def _growth(report: Record, part: str, names: str) -> Record:
    unit, scale, _ = PARTS[part]
    series = []
    for model in report["average"]:
        growth = [one["models"][model]["growth"] for one in report["sequences"].values()]
        times = list(growth[0]["rms"])
        means = {
            kind: [scale * float(np.mean([g[kind][h][part] for g in growth])) for h in times]
            for kind in ("rms", "predicted")
        }
        series.append({"name": model, "time_s": [float(h) for h in times], **means})
    title = f"{part} error over time, predicted dashed: {names}"
    return figure("growth", title, unit, series=series)


INTERVAL_S = 0.2
BINS = 6
BOUNDS = (0.5, 2.0)
VISUAL_PARTS = {
    "rotation": (slice(3, 6), "deg", 180.0 / np.pi),
    "translation": (slice(0, 3), "mm", 1e3),
}


def visual_tasks(recordings: Recordings, _: int) -> list[Task]:
    """Every match covariance on each recording with images."""
    return [
        Task(
            name,
            {"recording": name, "interval_s": INTERVAL_S},
            {name: path},
            partial(run_visual, path),
        )
        for name, path in recordings.by_name.items()
    ]


def run_visual(path: Path) -> TaskResult:
    """One row for each model of match covariance."""
    scores = visual_report(open_recording(path), INTERVAL_S, truth_names=TRUTHS)
    return TaskResult([rounded(_row(name, score)) for name, score in scores.items()])


def _row(name: str, score: VisualScore) -> Record:
    numbers = score.as_dict()
    # A published clock that is off is no error of vision.
    compared = score.audited or score
    bins = {}
    for part, (axes, _, scale) in VISUAL_PARTS.items():
        predicted = scale * np.sqrt(np.trace(compared.covs[:, axes, axes], axis1=1, axis2=2))
        actual = scale * np.linalg.norm(compared.errors[:, axes], axis=1)
        found = equal_bins(predicted, actual, min(BINS, max(len(actual), 1)))
        bins[part] = [asdict(one) for one in found]
    return {
        "model": name,
        **{key: numbers[key] for key in ("steps", "unmeasured", "rotation_deg", "translation_m")},
        "nees": compared.as_dict()["nees"],
        "bins": bins,
    }


def visual_findings(records: list[Record]) -> Findings:
    """Errors and NEES per model, and predicted against actual."""
    lines, claims, figures = [], [], []
    for record in records:
        if not record["rows"]:
            continue
        name = record["task"]["recording"]
        for row in record["rows"]:
            translation_m = row["translation_m"]
            entries: list[Entry] = [
                ("poses", row["steps"], 0),
                ("unmeasured", row["unmeasured"], 0),
                ("rotation [deg]", row["rotation_deg"], 3),
                ("translation [mm]", None if translation_m is None else 1e3 * translation_m, 2),
            ]
            for part in ("pose", "rotation", "translation"):
                entries.append((f"NEES {part}", row["nees"][part], 2))
            source = f"vision images, match covariance {row['model']}"
            lines.append((f"{name}, {row['model']}", source, entries))
        claims += _visual_claims(name, record["rows"])
        figures += [_visual_bins(name, record["rows"], part) for part in VISUAL_PARTS]
    note = (
        f"Keyframes every {INTERVAL_S:g} s; NEES per degree of freedom, 1 is ideal, against the "
        "audited ground truth where there is one."
    )
    table = table_of("Visual poses and their covariances", lines, note)
    return Findings([table] if lines else [], claims, figures)


def _visual_claims(name: str, rows: list[Record]) -> list[Claim]:
    low, high = BOUNDS
    learned = next((row for row in rows if row["model"] == "learned"), None)
    if learned is None or learned["nees"]["pose"] is None:
        return []
    score = learned["nees"]["pose"]
    text = f"{name}: NEES of learned covariances {score:.2f} (wanted {low} to {high})"
    return [Claim(text, low <= score <= high)]


def _visual_bins(name: str, rows: list[Record], part: str) -> Record:
    series = [bin_series(row["model"], row["bins"][part], "actual") for row in rows]
    title = f"{part} of a relative pose on {name}: predicted sigma against rms error"
    return figure("bins", title, VISUAL_PARTS[part][1], series=series)
