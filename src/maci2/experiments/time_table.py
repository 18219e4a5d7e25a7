"""Wall times of methods and their stages, as one table."""

from statistics import median
from typing import Any

from maci2.experiments.store import Store
from maci2.experiments.table import Cell, Line, Table


def time_table(store: Store, records: dict[str, dict[str, Any]]) -> Table | None:
    """Median over all windows of each method, over all recordings and inputs; None without times.

    Stages that a method does not have are missing; what is no stage is in the whole only.
    """
    totals: dict[str, list[float]] = {}
    stages: dict[str, dict[str, list[float]]] = {}
    for key, record in records.items():
        method = record["task"].get("method")
        if not isinstance(method, dict):
            continue
        name = f"{method['name']}, {str(method['vision']).partition(':')[0]}"
        times = store.load_times(key)
        totals.setdefault(name, []).extend(times.total_ms)
        for stage, values in times.stages_ms.items():
            stages.setdefault(name, {}).setdefault(stage, []).extend(values)
    if not any(totals.values()):
        return None
    columns = tuple(dict.fromkeys(stage for one in stages.values() for stage in one))
    lines = tuple(
        Line(name, "", (_cell(values), *(_cell(stages.get(name, {}).get(c, [])) for c in columns)))
        for name, values in totals.items()
    )
    return Table(
        "Median wall time of a window [ms]",
        ("all", *columns),
        lines,
        "On this machine as it was loaded; tracks and the odometry of images are made once for all "
        "methods and are not in it, or in the first method that asked.",
    )


def _cell(values: list[float]) -> Cell:
    return Cell(median(values) if values else None, 1)
