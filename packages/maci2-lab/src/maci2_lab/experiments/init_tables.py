"""Tables and claims of an initialization experiment, the paper's numbers in brackets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from maci2.metrics.init_errors import METRICS, SCORES
from maci2_lab.evaluation.protocol import Row
from maci2_lab.evaluation.summary import SuccessLimits, Summary, against_audit, average, summarize
from maci2_lab.experiments.methods import Method, short_vision
from maci2_lab.experiments.paper_numbers import LEARNED_LEARNED, PaperTable
from maci2_lab.experiments.table import Cell, Claim, Entry, Line, Table, mark_best, table_of


@dataclass(frozen=True)
class Board:
    """Rows by method, stride and recording."""

    methods: tuple[Method, ...]
    """Methods that were run, in the order of the experiment."""

    recordings: tuple[str, ...]
    """Recordings that were present, in the order of the paper."""

    strides_s: tuple[float, ...]
    """Strides that were run; tables show the first."""

    limits: SuccessLimits
    """Errors below which a window is a success."""

    rows: dict[tuple[Method, float, str], list[Row]]
    """Windows by method, stride and recording."""

    def visions(self) -> tuple[str, ...]:
        """Sources of camera motion, in the order of the methods."""
        return tuple(dict.fromkeys(method.vision for method in self.methods))

    def of_vision(self, vision: str) -> list[Method]:
        """Methods that use one source of camera motion."""
        return [method for method in self.methods if method.vision == vision]

    def summary(
        self,
        method: Method,
        recording: str,
        stride_s: float | None = None,
        keep: Callable[[Row], bool] = lambda _: True,
    ) -> Summary:
        """Rows of one method on one recording; by default at the first stride."""
        stride_s = self.strides_s[0] if stride_s is None else stride_s
        rows = self.rows.get((method, stride_s, recording), [])
        return summarize([row for row in rows if keep(row)], self.limits)

    def average(
        self,
        method: Method,
        stride_s: float | None = None,
        keep: Callable[[Row], bool] = lambda _: True,
    ) -> Summary:
        """Mean over recordings, each counting once."""
        return average([self.summary(method, name, stride_s, keep) for name in self.recordings])

    def value(self, method: Method | None, metric: str) -> float | None:
        """Mean of a metric or, for `success`, the success rate; None without either."""
        if method is None:
            return None
        mean = self.average(method)
        return mean.success if metric == "success" else mean.mean[metric]

    def pooled(self, method: Method) -> list[tuple[str, Row]]:
        """All rows at the first stride, each with its recording."""
        return [
            (name, row)
            for name in self.recordings
            for row in self.rows.get((method, self.strides_s[0], name), [])
        ]


FOUR = ("gravity_deg", "velocity_rmse", "rotation_deg", "translation_m")

IN_BRACKETS = "In brackets: the paper's, over the same recordings, with its own camera motion."


def error_tables(board: Board, metrics: tuple[str, ...], paper: PaperTable | None) -> list[Table]:
    """Tables of errors, one per vision source and metric: methods down, recordings across."""
    return [
        _error_table(board, vision, metric, paper)
        for vision in board.visions()
        for metric in metrics
    ]


def _error_table(board: Board, vision: str, metric: str, paper: PaperTable | None) -> Table:
    title, unit, digits = METRICS[metric]
    lines = []
    for method in board.of_vision(vision):
        cells = [
            Cell(
                board.summary(method, name).mean[metric],
                digits,
                paper.value(method.paper_row, metric, name) if paper else None,
            )
            for name in board.recordings
        ]
        mean = board.average(method)
        expected = paper.mean(method.paper_row, metric, board.recordings) if paper else None
        cells.append(Cell(mean.mean[metric], digits, expected))
        cells.append(Cell(mean.success, 3, paper.success.get(method.paper_row) if paper else None))
        lines.append(Line(method.name, source_of(method), tuple(cells)))
    count = len(board.recordings)
    best = dict.fromkeys(range(count + 1), False) | {count + 1: True}
    return Table(
        f"{title} [{unit}], vision {vision}",
        (*board.recordings, "average", "success"),
        mark_best(lines, best),
        IN_BRACKETS if paper else "",
    )


def verdict_table(board: Board) -> Table:
    """Every method at every stride, with and without the excitation gate."""
    lines = []
    for method in board.methods:
        for stride_s in board.strides_s:
            label = f"{label_of(board, method)}, every {stride_s:g} s"
            mean, gated = (board.average(method, stride_s, k) for k in (_is_any, _is_excited))
            lines.append((label, source_of(method), _verdict_entries(mean)))
            lines.append((f"{label}, gated", source_of(method), _verdict_entries(gated)))
    return table_of(
        "Verdicts, medians and the other metrics",
        lines,
        "Shares are of all windows; unsure: the method asked for more motion instead of deciding. "
        "Gated: only windows that pass DRT's excitation gate. NEES per degree of freedom, 1 is "
        "right; methods without a covariance have none.",
    )


def audited_table(board: Board) -> Table:
    """Every method against the audited ground truths, at the first stride."""
    audited = replace(board, rows={key: against_audit(rows) for key, rows in board.rows.items()})
    lines = []
    for method in board.methods:
        mean = audited.average(method)
        entries: list[Entry] = [
            (f"{METRICS[name].title} [{METRICS[name].unit}]", mean.mean[name], METRICS[name].digits)
            for name in FOUR
        ]
        entries += [(f"NEES {name.replace('_', ' ')}", mean.nees[name], 2) for name in SCORES]
        lines.append((label_of(board, method), source_of(method), entries))
    return table_of(
        "Against the audited ground truth",
        lines,
        "The other tables are against the ground truth as published. NEES has the covariance of "
        "the difference between estimate and audited truth.",
    )


def _verdict_entries(mean: Summary) -> list[Entry]:
    entries: list[Entry] = [
        ("windows", mean.windows, 0),
        ("success", mean.success, 3),
        ("accepted but wrong", mean.accepted_wrong, 3),
        ("rejected but right", mean.rejected_right, 3),
        ("unsure", mean.unsure, 3),
    ]
    for metric in ("gravity_deg", "velocity_rmse", "speed_rmse"):
        title, unit, digits = METRICS[metric]
        entries.append((f"{title} [{unit}]", mean.mean[metric], digits))
        entries.append(("median", mean.median[metric], digits))
    return [*entries, *((f"NEES {name}", mean.nees[name], 2) for name in ("gravity", "velocity"))]


def _is_any(_: Row) -> bool:
    return True


def _is_excited(row: Row) -> bool:
    return row.excited is True


def label_of(board: Board, method: Method) -> str:
    """A method's name, with its vision source where the board has several."""
    if len(board.visions()) == 1:
        return method.name
    return f"{method.name}, {short_vision(method.vision)}"


def source_of(method: Method) -> str:
    """Vision source and IMU model, as every row states them."""
    return f"vision {short_vision(method.vision)}, IMU {method.imu}"


Boards = list[tuple[str, Board]]
"""Title of a part and its results."""

LEAST_DIFFERENCE = 0.03
"""Difference of success rates below which methods are not ordered."""

PAPER_COLUMN = "the paper"

WHOSE = (
    "The paper's column is its mean over its own test recordings, with its own camera motion. "
    "Methods with a bias guess, a constant bias or a learned IMU know this very sensor."
)
OTHER_ORDER = (
    " Why the order is not the paper's everywhere: simulated tracks are never mismatched, so "
    "methods that lose their images in the paper (VINS-Mono, ORB-SLAM3, Stereo-NEC) do not here; "
    "VINS-Fusion has no prior on the accelerometer bias, which takes gravity's place in windows "
    "with little rotation; the FF back end has stereo depth in place of its network."
)
"""Note on differences from the paper's setting that concern all inputs."""


def summary_tables(boards: Boards, paper: PaperTable) -> list[Table]:
    """Tables of gravity, velocity and success: methods down, inputs across."""
    inputs = [
        (f"{title}: {short_vision(vision)}", board, vision)
        for title, board in boards
        for vision in board.visions()
    ]
    names = list(dict.fromkeys(one.name for _, board in boards for one in board.methods))
    return [_summary_table(metric, names, inputs, paper) for metric in (*FOUND, "success")]


FOUND = ("gravity_deg", "velocity_rmse")


def _summary_table(
    metric: str, names: list[str], inputs: list[tuple[str, Board, str]], paper: PaperTable
) -> Table:
    title, unit, digits = METRICS.get(metric, ("success", "share", 3))
    lines = []
    for name in names:
        cells, row = [], ""
        for _, board, vision in inputs:
            method = _find(board.of_vision(vision), name)
            row = row or (method.paper_row if method else "")
            cells.append(Cell(board.value(method, metric), digits))
        printed = (
            paper.success.get(row)
            if metric == "success"
            else paper.mean(row, metric, paper.recordings)
        )
        lines.append(Line(name, row, (Cell(printed, 3), *cells)))
    best = dict.fromkeys(range(1, len(inputs) + 1), metric == "success")
    return Table(
        f"Summary: {title} [{unit}], mean over recordings",
        (PAPER_COLUMN, *(label for label, _, _ in inputs)),
        mark_best(lines, best),
        WHOSE + OTHER_ORDER * (metric == "success"),
    )


def order_claims(boards: Boards, paper: PaperTable) -> Iterator[Claim]:
    """Claims that methods that differ in the paper differ in the same way here, for every input."""
    for title, board in boards:
        for vision in board.visions():
            rates = {
                one.paper_row: board.value(one, "success")
                for one in board.of_vision(vision)
                if one.paper_row in paper.success
            }
            claim = _order_claim(f"{title}, vision {short_vision(vision)}", rates, paper)
            if claim is not None:
                yield claim


def _order_claim(where: str, rates: dict[str, float | None], paper: PaperTable) -> Claim | None:
    known = {row: rate for row, rate in rates.items() if rate is not None}
    pairs = [
        (better, worse)
        for a, b in combinations(known, 2)
        for better, worse in ((a, b) if paper.success[a] > paper.success[b] else (b, a),)
        if paper.success[better] - paper.success[worse] > LEAST_DIFFERENCE
    ]
    if not pairs:
        return None
    other = [
        f"{worse} {known[worse]:.3f} above {better} {known[better]:.3f}"
        for better, worse in pairs
        if known[worse] - known[better] > LEAST_DIFFERENCE
    ]
    text = (
        f"{where}: success rates are in the paper's order in {len(pairs) - len(other)} of "
        f"{len(pairs)} pairs of methods"
    )
    return Claim(f"{text}; not: {'; '.join(other)}" if other else text, not other)


LARGEST_REJECTED_RIGHT = 0.02
"""Accepted fraction of correct windows that are rejected."""

LEARNED, RAW = "maci2, learned IMU", "maci2, raw IMU"
"""Names of the rows of maci2."""

ClaimMaker = Callable[[Board, PaperTable | None], list[Claim]]


def no_claims(_: Board, __: PaperTable | None) -> list[Claim]:
    """No claims, for experiments that only report numbers."""
    return []


def baseline_claims(board: Board, paper: PaperTable | None) -> list[Claim]:
    """Claims about maci2 compared with the baselines on the same input, and with the paper.

    Learned, it is compared with all; raw, with those that know nothing of this sensor.
    """
    claims = []
    for vision in board.visions():
        methods = board.of_vision(vision)
        classes = [
            (_find(methods, LEARNED), methods, "of all methods"),
            (
                _find(methods, RAW),
                [method for method in methods if not method.knows_sensor],
                "of the methods that know nothing of this sensor",
            ),
        ]
        for ours, others, among in classes:
            if ours is None or len(others) < 2:
                continue
            claims += [_best(board, ours, others, metric, among) for metric in (*FOUND, "success")]
        claims += [_honest(board, method) for method in methods if _is_ours(method)]
        claims += against_paper(board, paper, vision)
    return claims


def ablation_claims(board: Board, paper: PaperTable | None) -> list[Claim]:
    """Claim that using both stated covariances is best in every metric."""
    claims = []
    for vision in board.visions():
        methods = board.of_vision(vision)
        full, scalar = _find(methods, LEARNED_LEARNED), _find(methods, "one tuned scalar")
        if full is None or scalar is None:
            continue
        for metric in FOUR:
            claims.append(_best(board, full, methods, metric, "of all methods"))
            claims.append(_gain(board, full, scalar, metric))
    return claims + against_paper(board, paper)


def fusion_claims(board: Board, paper: PaperTable | None) -> list[Claim]:
    """Claim that fusion improves the poses of vision."""
    claims = []
    for vision in board.visions():
        methods = board.of_vision(vision)
        if alone := _find(methods, "vision only"):
            claims += [
                _gain(board, fused, alone, metric)
                for fused in methods
                if fused is not alone
                for metric in ("rotation_deg", "translation_m")
            ]
    return claims


def paper_claims(board: Board, paper: PaperTable | None) -> list[Claim]:
    """Claims about our rows compared with those of the paper."""
    return against_paper(board, paper)


def against_paper(board: Board, paper: PaperTable | None, vision: str | None = None) -> list[Claim]:
    """All rows that are also in the paper, over the same recordings."""
    claims = []
    for method in board.methods:
        if paper is None or not _is_ours(method) or (vision and method.vision != vision):
            continue
        for metric in paper.rows.get(method.paper_row, {}):
            ours = board.value(method, metric)
            theirs = paper.mean(method.paper_row, metric, board.recordings)
            if ours is None or theirs is None:
                continue
            title, unit, digits = METRICS[metric]
            text = f"{_on(method)}: {title} {ours:.{digits}f} {unit}, the paper {theirs:.{digits}f}"
            claims.append(Claim(text, round(ours, digits) <= round(theirs, digits)))
    return claims


def _best(board: Board, ours: Method, methods: list[Method], metric: str, among: str) -> Claim:
    """Claim that ours has the lowest error or the highest success rate; without an answer, an error
    is unknown and the rate zero."""
    more = metric == "success"
    values = {method.name: board.value(method, metric) for method in methods}
    known = {name: value or 0.0 for name, value in values.items() if more or value is not None}
    best = (max if more else min)(known, key=lambda name: known[name]) if known else "nobody"
    what, unit, digits = METRICS.get(metric, ("success rate", "", 3))
    extreme = "highest" if more else "lowest"
    mine = f"{known[ours.name]:.{digits}f}" if ours.name in known else "-"
    text = (
        f"{ours.name} has the {extreme} {what} {among}, vision {short_vision(ours.vision)}: "
        f"{mine} {unit}".rstrip()
    )
    is_best = best == ours.name or (more and known[ours.name] >= known[best])
    if is_best or ours.name not in known:
        return Claim(text, is_best)
    return Claim(f"{text}; {best} has {known[best]:.{digits}f}", False)


def _honest(board: Board, method: Method) -> Claim:
    mean = board.average(method)
    wrong, missed = mean.accepted_wrong or 0.0, mean.rejected_right or 0.0
    return Claim(
        f"{_on(method)}: accepted but wrong {100 * wrong:.1f} %, "
        f"rejected but right {100 * missed:.1f} %, unsure {100 * (mean.unsure or 0.0):.1f} %",
        wrong == 0.0 and missed <= LARGEST_REJECTED_RIGHT,
    )


def _gain(board: Board, ours: Method, other: Method, metric: str) -> Claim:
    title, _, _ = METRICS[metric]
    mine, theirs = board.value(ours, metric), board.value(other, metric)
    if mine is None or theirs is None or theirs == 0.0:
        return Claim(f"{ours.name} against {other.name}: no {title} to compare", False)
    share = 100.0 * (1.0 - mine / theirs)
    word = "lower" if share >= 0.0 else "higher"
    return Claim(
        f"{ours.name}, vision {short_vision(ours.vision)}: {title} {abs(share):.0f} % {word} than "
        f"{other.name}",
        mine <= theirs,
    )


def _find(methods: list[Method], name: str) -> Method | None:
    return next((method for method in methods if method.name == name), None)


def _is_ours(method: Method) -> bool:
    return method.initializer in ("maci2", "maci2-raw")


def _on(method: Method) -> str:
    return f"{method.name}, vision {short_vision(method.vision)}"
