"""Rows in result files, rounded so that they do not depend on the machine."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from maci2.estimation import Status
from maci2.evaluation.metrics import InitErrors
from maci2.evaluation.rows import Row, StatedUncertainty

DIGITS = 9
"""Significant digits in result files."""

Record = dict[str, Any]


def rounded(value: float | None) -> float | None:
    """Number rounded to `DIGITS` digits; None (null in JSON) if missing or not finite."""
    if value is None or not np.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")


def row_record(row: Row) -> Record:
    """One row for a result file; times are kept apart."""
    record: Record = {"index": row.index, "start_ns": row.start_ns, "end_ns": row.end_ns}
    if row.excited is not None:
        record["excited"] = row.excited
    if row.position_w is not None:
        record["position_w"] = [rounded(value) for value in row.position_w]
    record |= {
        "accepted": row.accepted,
        "unsure": row.unsure,
        "reason": "; ".join(row.reasons),
        "errors": _rounded(None if row.errors is None else row.errors.as_dict()),
        "nees": _rounded({} if row.errors is None else row.errors.nees),
    }
    if row.audited is not None:
        record["audited"] = {
            "errors": _rounded(row.audited.as_dict()),
            "nees": _rounded(row.audited.nees),
        }
    if row.stated is not None:
        record["posterior"] = _stated_record(row.stated)
    if row.timed_out:
        record["timed_out"] = True
    return record


def _rounded(numbers: Mapping[str, float | None] | None) -> Record | None:
    if numbers is None:
        return None
    return {name: rounded(value) for name, value in numbers.items()}


def _errors(errors: Record | None, scores: Record) -> InitErrors | None:
    return None if errors is None else InitErrors(**errors, nees=scores)


def _stated_record(stated: StatedUncertainty) -> Record:
    return {
        "gravity_std_deg": rounded(stated.gravity_std_deg),
        "velocity_std": rounded(stated.velocity_std),
        "gravity_error_deg": [rounded(value) for value in stated.gravity_error_deg],
        "gravity_cov_deg2": [[rounded(v) for v in line] for line in stated.gravity_cov_deg2],
    }


def row_from_record(record: Record) -> Row:
    """Row read from a result file."""
    status: Status = "ok" if record["accepted"] else "weak" if record["unsure"] else "failed"
    errors, position, posterior = (
        record.get(name) for name in ("errors", "position_w", "posterior")
    )
    audited = record.get("audited")
    return Row(
        index=record["index"],
        start_ns=record["start_ns"],
        end_ns=record["end_ns"],
        status=status,
        reasons=(record["reason"],) if record["reason"] else (),
        errors=_errors(errors, record["nees"]),
        timed_out=record.get("timed_out", False),
        position_w=None if position is None else (position[0], position[1], position[2]),
        excited=record.get("excited"),
        stated=None if posterior is None else _stated(posterior),
        audited=_errors(audited["errors"], audited["nees"]) if audited else None,
    )


def _stated(record: Record) -> StatedUncertainty:
    (xx, xy), (yx, yy) = record["gravity_cov_deg2"]
    first, second = record["gravity_error_deg"]
    return StatedUncertainty(
        record["gravity_std_deg"], record["velocity_std"], (first, second), ((xx, xy), (yx, yy))
    )
