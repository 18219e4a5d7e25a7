"""Tables, claims and figures of the calibration trials."""

from typing import Any

import numpy as np

from maci2.experiments.table import Cell, Claim, Findings, Line, Record, Table


def calibration_findings(records: list[Record]) -> Findings:
    """Errors of ten trials per recording and method."""
    records = sorted(
        records, key=lambda one: (one["task"]["recording"], one["task"]["method"]["name"])
    )
    return Findings(
        [
            Table(
                "Extrinsics without a target, means over the trials",
                (
                    "trials",
                    "accepted",
                    "rotation [deg]",
                    "spread",
                    "translation [mm]",
                    "spread",
                    "NEES rotation",
                    "NEES translation",
                ),
                tuple(_line(record) for record in records),
                "Against the calibration that came with the recording, which is itself known to "
                "some 0.1 deg and a few mm only. Spread: standard deviation over trials. The "
                "paper shows its errors as a figure without numbers.",
            )
        ],
        _claims(records),
        [
            _figure(records, "rotation_deg", "deg", 1.0),
            _figure(records, "translation_m", "mm", 1e3),
        ],
    )


def _line(record: Record) -> Line:
    task, rows = record["task"], record["rows"]
    rotation, translation = _values(rows, "rotation_deg"), _values(rows, "translation_m")
    return Line(
        f"{task['recording']}, {task['method']['name']}",
        f"vision {task['method']['vision']}, IMU {task['method']['imu']}",
        (
            Cell(len(rows), 0),
            Cell(sum(row["accepted"] for row in rows), 0),
            Cell(_mean(rotation)),
            Cell(_std(rotation)),
            Cell(_mean(1e3 * translation), 1),
            Cell(_std(1e3 * translation), 1),
            Cell(_nees(rows, "rotation_deg", slice(3, 6), 180.0 / np.pi), 2),
            Cell(_nees(rows, "translation_m", slice(0, 3), 1.0), 2),
        ),
    )


def _claims(records: list[Record]) -> list[Claim]:
    """Table of the rotations of maci2 and VINS-Mono from the same relative poses."""
    claims = []
    by_key = {(r["task"]["recording"], r["task"]["method"]["name"]): r["rows"] for r in records}
    for (recording, method), rows in by_key.items():
        baseline = by_key.get((recording, "VINS-Mono rotation"))
        if baseline is None or not method.startswith("maci2"):
            continue
        ours, theirs = (
            _mean(_values(rows, "rotation_deg")),
            _mean(_values(baseline, "rotation_deg")),
        )
        if ours is not None and theirs is not None:
            text = (
                f"{recording}: rotation of {method} {ours:.3f} deg, of VINS-Mono {theirs:.3f} deg"
            )
            claims.append(Claim(text, ours <= theirs))
    return claims


def _figure(records: list[Record], metric: str, unit: str, scale: float) -> dict[str, Any]:
    return {
        "kind": "distributions",
        "title": f"extrinsics, {metric.partition('_')[0]} error of all trials",
        "unit": unit,
        "groups": [
            {
                "name": f"{one['task']['recording']}, {one['task']['method']['name']}",
                "values": [scale * value for value in _values(one["rows"], metric).tolist()],
            }
            for one in records
            if len(_values(one["rows"], metric))
        ],
    }


def _values(rows: list[dict[str, Any]], metric: str) -> np.ndarray:
    return np.array([row[metric] for row in rows if row[metric] is not None])


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _std(values: np.ndarray) -> float | None:
    return float(values.std()) if len(values) > 1 else None


def _nees(rows: list[dict[str, Any]], metric: str, axes: slice, scale: float) -> float | None:
    """Normalized squared error of the same three axes."""
    ratios = [
        row[metric] ** 2 / np.sum((scale * np.array(row["std"][axes])) ** 2)
        for row in rows
        if row["std"] is not None and row[metric] is not None
    ]
    return float(np.mean(ratios)) if ratios else None
