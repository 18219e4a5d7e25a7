"""Results of an initialization experiment, arranged for queries."""

from collections.abc import Callable
from dataclasses import dataclass

from maci2.evaluation.metrics import SuccessLimits
from maci2.evaluation.rows import Row
from maci2.evaluation.summary import Summary, average, summarize
from maci2.experiments.method import Method


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

    def pooled(self, method: Method) -> list[tuple[str, Row]]:
        """All rows at the first stride, each with its recording."""
        return [
            (name, row)
            for name in self.recordings
            for row in self.rows.get((method, self.strides_s[0], name), [])
        ]
