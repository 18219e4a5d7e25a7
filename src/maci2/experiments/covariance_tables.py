"""Tables, claims and figures of IMU covariances."""

from typing import Any

import numpy as np

from maci2.experiments.table import Cell, Claim, Findings, Line, Record, Table

PARTS = {"rotation": ("deg", 180.0 / np.pi), "velocity": ("mm/s", 1e3), "position": ("mm", 1e3)}
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
            cells = [Cell(numbers["nees"][h][part], 2) for h in _horizons(report) for part in PARTS]
            lines.append(Line(f"{name}, {model}", f"IMU {model}", tuple(cells)))
    columns = tuple(f"{part} {h} s" for h in _horizons(report) for part in PARTS)
    return Table(f"NEES per degree of freedom, 1 is ideal: {names}", columns, tuple(lines))


def _rms_table(report: Record, names: str) -> Table:
    lines = []
    for model, numbers in report["average"].items():
        cells = [
            Cell(scale * numbers["rms"][h][part], 3 if part == "rotation" else 1)
            for h in _horizons(report)
            for part, (_, scale) in PARTS.items()
        ]
        lines.append(Line(model, f"IMU {model}", tuple(cells)))
    columns = tuple(
        f"{part} {h} s [{unit}]" for h in _horizons(report) for part, (unit, _) in PARTS.items()
    )
    return Table(f"Integration error, rms: {names}", columns, tuple(lines))


def _claims(report: Record, model: str, names: str) -> list[Claim]:
    means = [v for h in report["average"][model]["nees"].values() for v in h.values()]
    ratios = [
        one["ratio"]
        for parts in report["bins"][model].values()
        for bins in parts.values()
        for one in bins
    ]
    low, high = MEAN_BOUNDS
    bin_low, bin_high = BIN_BOUNDS
    return [
        Claim(
            f"{model} on {names}: mean NEES between {min(means):.2f} and {max(means):.2f} (wanted "
            f"{low} to {high})",
            low <= min(means) and max(means) <= high,
        ),
        Claim(
            f"{model} on {names}: rms error over predicted sigma between {min(ratios):.2f} and "
            f"{max(ratios):.2f} in every bin (wanted {bin_low} to {bin_high})",
            bin_low <= min(ratios) and max(ratios) <= bin_high,
        ),
    ]


def _bins(report: Record, part: str, horizon: str, names: str) -> dict[str, Any]:
    unit, scale = PARTS[part]
    series = [
        {
            "name": model,
            "predicted": [scale * one["predicted"] for one in by_horizon[horizon][part]],
            "actual": [scale * one["rms"] for one in by_horizon[horizon][part]],
            "count": [one["count"] for one in by_horizon[horizon][part]],
        }
        for model, by_horizon in report["bins"].items()
    ]
    title = f"{part} over {horizon} s: predicted sigma against rms error, {names}"
    return {"kind": "bins", "title": title, "unit": unit, "series": series}


def _growth(report: Record, part: str, names: str) -> dict[str, Any]:
    unit, scale = PARTS[part]
    series = []
    for model in report["average"]:
        growth = [one["models"][model]["growth"] for one in report["sequences"].values()]
        times = list(growth[0]["rms"])
        series.append(
            {
                "name": model,
                "time_s": [float(h) for h in times],
                "rms": [scale * float(np.mean([g["rms"][h][part] for g in growth])) for h in times],
                "predicted": [
                    scale * float(np.mean([g["predicted"][h][part] for g in growth])) for h in times
                ],
            }
        )
    title = f"{part} error over time, predicted dashed: {names}"
    return {"kind": "growth", "title": title, "unit": unit, "series": series}
