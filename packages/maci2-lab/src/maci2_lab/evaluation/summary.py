"""Numbers of summary.json and of every table: means, medians, success, NEES, and quarters of the
windows by predicted sigma.

Consistency by difficulty: NEES and coverage in quarters of the predicted sigma.

Coverage that is right on the whole can hide a hardest quarter that is far off.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

import numpy as np

from maci2 import __version__
from maci2.estimator import Status
from maci2.metrics.init_errors import METRICS, SCORES, InitErrors
from maci2.pipeline.options import RunOptions
from maci2_lab.evaluation.protocol import Evaluated, Row, StatedUncertainty

SIGMAS = {"gravity": "gravity_std_deg", "velocity": "velocity_std"}
"""Quantity -> what the posterior states of it."""


@dataclass(frozen=True)
class SuccessLimits:
    """Errors below which an initialization is a success."""

    gravity_deg: float = 2.0
    """Angle of gravity [deg]."""

    velocity: float = 0.1
    """Root mean square of the velocity error [m/s]."""


PAPER_LIMITS = SuccessLimits()
"""The paper's success on EuRoC."""

VBR_LIMITS = SuccessLimits(velocity=0.3)
"""The paper's success on VBR, whose vehicles are faster."""


def is_success(errors: InitErrors, limits: SuccessLimits = PAPER_LIMITS) -> bool:
    """True if gravity and velocity are known and within the limits."""
    if errors.velocity_rmse is None:
        return False
    return errors.gravity_deg < limits.gravity_deg and errors.velocity_rmse < limits.velocity


@dataclass(frozen=True)
class Quartile:
    """A quarter of the windows, by predicted sigma."""

    sigma: float
    """Median of the predicted sigma [deg] or [m/s]."""

    count: int
    """Windows in it."""

    nees: float
    """Mean normalised error squared per degree of freedom; 1 is consistent."""

    covered: float
    """Share of the errors inside their 95 % ellipsoid."""


def by_quartile(rows: list[Row], audited: bool) -> dict[str, list[Quartile]]:
    """Quarters of the windows with an estimate, most certain first; empty for fewer than 8
    windows."""
    pairs = [(row.audited if audited else row.errors, row.stated) for row in rows]
    known = [(errors, stated) for errors, stated in pairs if errors and stated]
    return {name: _quarters(known, name) for name in SIGMAS} if len(known) >= 8 else {}


def quartiles_json(rows: list[Row], audited: bool) -> dict[str, list[dict[str, Any]]]:
    """The quarters as JSON has them."""
    found = by_quartile(rows, audited)
    return {name: [asdict(one) for one in quarters] for name, quarters in found.items()}


def _quarters(known: list[tuple[InitErrors, StatedUncertainty]], name: str) -> list[Quartile]:
    known = [(e, s) for e, s in known if e.nees.get(name) is not None]
    sigmas = np.array([getattr(stated, SIGMAS[name]) for _, stated in known])
    nees = np.array([errors.nees[name] for errors, _ in known], dtype=float)
    covered = np.array([errors.covered[name] for errors, _ in known], dtype=float)
    return [
        Quartile(
            float(np.median(sigmas[inside])),
            len(inside),
            float(nees[inside].mean()),
            float(covered[inside].mean()),
        )
        for inside in np.array_split(np.argsort(sigmas, kind="stable"), 4)
        if len(inside)
    ]


STATUSES: tuple[Status, ...] = get_args(Status)
"""Verdicts, the best first."""


@dataclass(frozen=True)
class VerdictCount:
    """Windows with one verdict."""

    count: int
    """Number of windows with this verdict."""

    success: float | None
    """Share of them whose errors are within the limits; None where there are none."""


@dataclass(frozen=True)
class Summary:
    """One method on one recording, or the mean over recordings."""

    windows: int
    """Number of windows, including those without an estimate."""

    mean: dict[str, float | None]
    """Metric -> mean over the windows with an estimate."""

    median: dict[str, float | None]
    """Metric -> median over the windows with an estimate."""

    success: float | None
    """Share of all windows whose errors are within the limits."""

    accepted_wrong: float | None
    """Share of all windows: accepted, and not a success."""

    rejected_right: float | None
    """Share of all windows: rejected, and a success."""

    unsure: float | None
    """Fraction of all windows for which the method is undecided and needs more motion (`weak`)."""

    nees: dict[str, float | None]
    """Quantity -> mean normalised error squared per degree of freedom; 1 is consistent."""

    covered: dict[str, float | None]
    """Quantity -> share of the errors inside their 95 % ellipsoid."""

    verdicts: dict[Status, VerdictCount]
    """Windows by verdict."""

    solve_ms: float | None
    """Mean wall time over the windows with an estimate [ms]."""

    def as_dict(self) -> dict[str, Any]:
        """The summary under the keys of summary.json (docs/conventions.md)."""
        record: dict[str, Any] = {"segments": self.windows, "success_rate": self.success}
        for name in METRICS:
            record[name], record[f"{name}_median"] = self.mean[name], self.median[name]
        record["nees"] = dict(self.nees)
        record["covered"] = dict(self.covered)
        record["verdicts"] = {
            status: {"count": verdict.count, "success_rate": verdict.success}
            for status, verdict in self.verdicts.items()
        }
        record["solve_ms"] = self.solve_ms
        return record


def evaluation_json(results: dict[str, Evaluated], options: RunOptions) -> dict[str, Any]:
    """The whole of summary.json: protocol, one entry per recording, the mean over recordings.

    Numbers are against the ground truth as published; those under `audited` against the audited
    one.
    """
    rows = {name: evaluated.rows for name, evaluated in results.items()}
    published = _scored(rows, audited=False)
    for name, record in published["sequences"].items():
        further: dict[str, Any] = {"left_out": results[name].left_out}
        further |= results[name].vision.pose_noise_record()
        published["sequences"][name] = further | record
    return {
        "protocol": {"version": __version__, **options.as_dict()},
        **published,
        "audited": _scored(
            {name: against_audit(each) for name, each in rows.items() if _any_audited(each)},
            audited=True,
        ),
    }


def _scored(rows: dict[str, list[Row]], audited: bool) -> dict[str, Any]:
    """Summaries, their mean, and quarters of the windows of all recordings."""
    summaries = {name: summarize(each) for name, each in rows.items()}
    pooled = [row for each in rows.values() for row in each]
    return {
        "sequences": {name: summary.as_dict() for name, summary in summaries.items()},
        "average": average(list(summaries.values())).as_dict() if summaries else None,
        "quartiles": quartiles_json(pooled, audited),
    }


def _any_audited(rows: list[Row]) -> bool:
    return any(row.audited is not None for row in rows)


def against_audit(rows: list[Row]) -> list[Row]:
    """The rows with their errors against the audited ground truth.

    A window with an answer that the audited ground truth does not cover is left out; one without
    an answer counts against the success rate.
    """
    judged = [row for row in rows if row.audited is not None or row.errors is None]
    return [replace(row, errors=row.audited) for row in judged]


def summarize(rows: list[Row], limits: SuccessLimits = PAPER_LIMITS) -> Summary:
    """Means and medians over the windows with an estimate; rates over all windows."""
    right = [is_right(row, limits) for row in rows]
    judged = list(zip(rows, right, strict=True))
    answered = [row for row in rows if row.errors is not None]
    values = {metric: _values(rows, metric) for metric in METRICS}
    return Summary(
        len(rows),
        {metric: _mean(numbers) for metric, numbers in values.items()},
        {metric: _median(numbers) for metric, numbers in values.items()},
        _share(right),
        _share([row.accepted and not success for row, success in judged]),
        _share([row.status == "failed" and success for row, success in judged]),
        _share([row.unsure for row in rows]),
        {score: _mean(_scores(rows, score)) for score in SCORES},
        {score: _mean(_scores(rows, score, "covered")) for score in SCORES},
        {status: _verdict_count(judged, status) for status in STATUSES},
        _mean([row.solve_ms for row in answered if row.solve_ms is not None]),
    )


def is_right(row: Row, limits: SuccessLimits = PAPER_LIMITS) -> bool:
    """True if a window has an estimate with errors within the limits."""
    return row.errors is not None and is_success(row.errors, limits)


def average(summaries: list[Summary]) -> Summary:
    """Mean over recordings, each counting once; what one of them lacks is not counted."""
    return Summary(
        sum(summary.windows for summary in summaries),
        {metric: _known_mean([one.mean[metric] for one in summaries]) for metric in METRICS},
        {metric: _known_mean([one.median[metric] for one in summaries]) for metric in METRICS},
        _known_mean([summary.success for summary in summaries]),
        _known_mean([summary.accepted_wrong for summary in summaries]),
        _known_mean([summary.rejected_right for summary in summaries]),
        _known_mean([summary.unsure for summary in summaries]),
        {score: _known_mean([one.nees[score] for one in summaries]) for score in SCORES},
        {score: _known_mean([one.covered[score] for one in summaries]) for score in SCORES},
        {
            status: VerdictCount(
                sum(summary.verdicts[status].count for summary in summaries),
                _known_mean([summary.verdicts[status].success for summary in summaries]),
            )
            for status in STATUSES
        },
        _known_mean([summary.solve_ms for summary in summaries]),
    )


def _verdict_count(judged: list[tuple[Row, bool]], status: Status) -> VerdictCount:
    having = [success for row, success in judged if row.status == status]
    return VerdictCount(len(having), _share(having))


def _values(rows: list[Row], metric: str) -> list[float]:
    errors = [row.errors for row in rows if row.errors is not None]
    return [value for error in errors if (value := getattr(error, metric)) is not None]


def _scores(rows: list[Row], score: str, kind: str = "nees") -> list[float]:
    errors = [row.errors for row in rows if row.errors is not None]
    return [value for error in errors if (value := getattr(error, kind).get(score)) is not None]


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None


def _known_mean(values: list[float | None]) -> float | None:
    return _mean([value for value in values if value is not None])


def _share(flags: list[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None
