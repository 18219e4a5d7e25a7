"""Experiments of initialization: methods on windows of recordings, and combinations of several."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from maci2.evaluation.metrics import PAPER_LIMITS, SuccessLimits
from maci2.experiments.board import Board
from maci2.experiments.claims import ClaimMaker, no_claims
from maci2.experiments.experiment import Records, Settings, Task
from maci2.experiments.figures import initialization_figures
from maci2.experiments.init_summary import order_claims, summary_tables
from maci2.experiments.init_tables import audited_table, error_tables, verdict_table
from maci2.experiments.init_task import InitTask
from maci2.experiments.method import Method, has_vision, vision_file
from maci2.experiments.paper_numbers import PaperTable
from maci2.experiments.recordings import Recordings
from maci2.experiments.renderings import Rendering
from maci2.experiments.row_records import row_from_record
from maci2.experiments.table import Findings


@dataclass(frozen=True)
class InitExperiment:
    """Methods on the windows of recordings."""

    name: str
    title: str
    recordings: tuple[str, ...]
    methods: tuple[Method, ...]
    metrics: tuple[str, ...] = ("gravity_deg", "velocity_rmse")
    paper: PaperTable | None = None
    strides_s: tuple[float, ...] = (2.5,)
    windows: tuple[int, ...] = ()
    """Largest number of windows of a recording at each stride; by default all."""

    limits: SuccessLimits = PAPER_LIMITS
    """Errors below which a window is a success."""

    claims: ClaimMaker = no_claims
    """Claims about the results, each checked against them."""

    scored: bool = False
    """Whether verdicts get a table of their own."""

    detail: bool = False
    """Whether to plot figures window by window."""

    renderings: tuple[Rendering, ...] = ()
    """Recordings that are rendered if they are not found."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files that some method needs in a recording."""
        visions = dict.fromkeys(method.vision for method in self.methods)
        return tuple(file for vision in visions if (file := vision_file(vision)))

    def by_methods(self, names: Sequence[str]) -> "InitExperiment | None":
        """Experiment restricted to the methods of these names; None if it has none of them."""
        kept = tuple(method for method in self.methods if method.is_called(names))
        return replace(self, methods=kept) if kept else None

    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]:
        limits = self.windows or (0,) * len(self.strides_s)
        strides = list(zip(self.strides_s, limits, strict=True))
        return [
            InitTask(name, path, method, stride_s, settings.seed, settings.limit_s, windows=windows)
            for name, path in recordings.present(self.recordings).items()
            for method in self.methods
            if has_vision(path, method.vision)
            for stride_s, windows in strides
        ]

    def findings(self, records: Records) -> Findings:
        board = self.board(records)
        if not board.methods:
            return Findings([])
        tables = error_tables(board, self.metrics, self.paper)
        if self.scored:
            tables += [verdict_table(board), audited_table(board)]
        figures = initialization_figures(board, self.metrics, self.detail)
        return Findings(tables, self.claims(board, self.paper), figures)

    def board(self, records: Records) -> Board:
        """Results of this experiment's methods on its recordings."""
        by_name = {(method.name, method.vision): method for method in self.methods}
        rows = {}
        for record in records.values():
            task = record["task"]
            method = by_name.get((task["method"]["name"], task["method"]["vision"]))
            if method is not None and task["recording"] in self.recordings:
                key = method, task["stride_s"], task["recording"]
                rows[key] = [row_from_record(row) for row in record["rows"]]
        there = {recording for _, _, recording in rows}
        ran = {method for method, _, _ in rows}
        return Board(
            tuple(method for method in self.methods if method in ran),
            tuple(name for name in self.recordings if name in there),
            self.strides_s,
            self.limits,
            rows,
        )


@dataclass(frozen=True)
class CombinedExperiment:
    """Several experiments under one name, with all methods in common tables."""

    name: str
    title: str
    parts: tuple[InitExperiment, ...]
    paper: PaperTable

    @property
    def recordings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.recordings))

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file for part in self.parts for file in part.files))

    @property
    def renderings(self) -> tuple[Rendering, ...]:
        return tuple(one for part in self.parts for one in part.renderings)

    def by_methods(self, names: Sequence[str]) -> "CombinedExperiment | None":
        """Experiment restricted to the methods of these names; None if it has none of them."""
        parts = [part.by_methods(names) for part in self.parts]
        kept = tuple(part for part in parts if part is not None)
        return replace(self, parts=kept) if kept else None

    def tasks(self, recordings: Recordings, settings: Settings) -> list[Task]:
        return [task for part in self.parts for task in part.tasks(recordings, settings)]

    def findings(self, records: Records) -> Findings:
        boards = [(part.title, board) for part in self.parts if (board := part.board(records)).rows]
        found = Findings(
            summary_tables(boards, self.paper), [*order_claims(boards, self.paper)], []
        )
        for part in self.parts:
            shown = part.findings(records)
            found.tables.extend(
                replace(table, title=f"{part.title}: {table.title}") for table in shown.tables
            )
            found.claims.extend(
                replace(claim, text=f"{part.title}: {claim.text}") for claim in shown.claims
            )
            found.figures.extend(
                {**figure, "title": f"{part.title}: {figure['title']}"} for figure in shown.figures
            )
        return found
