"""Labels inside a picture, placed where they cover nothing."""

from html import escape

import numpy as np

from maci2.types import Array

CHARACTER = (7.2, 13.0)
"""Width and height of a character [px]."""

DISTANCES = (11.0, 17.0, 25.0, 34.0)
"""Offsets from an object to the middle of its label, nearest first [px]."""

DIRECTIONS = 16


class Labels:
    """Placement of labels beside lines and beside each other."""

    def __init__(self, width: float, height: float) -> None:
        self._size = np.array([width, height])
        self._lines: list[Array] = []
        self._boxes: list[tuple[Array, Array]] = []

    def avoid(self, start: Array, end: Array) -> None:
        """Register a line that labels should not cover."""
        steps = max(int(np.hypot(*(end - start)) / 4.0), 1)
        self._lines.append(start + np.linspace(0.0, 1.0, steps + 1)[:, None] * (end - start))

    def place(self, anchor: Array, text: str, away: Array, color: str = "") -> str:
        """SVG of a label near `anchor`, preferably towards `away`; bold without a colour."""
        half = 0.5 * np.array([CHARACTER[0] * len(text), CHARACTER[1]])
        length = float(np.hypot(*away))
        ahead = away / length if length > 1e-6 else np.array([0.0, 1.0])
        candidates = [
            (self._hidden(middle, half) + distance / 40.0 + 0.5 * (1.0 - ahead @ direction), middle)
            for distance in DISTANCES
            for direction in _directions()
            for middle in [anchor + direction * (distance + half * np.abs(direction)).max()]
        ]
        middle = min(candidates, key=lambda candidate: candidate[0])[1]
        self._boxes.append((middle, half))
        style = f"fill: {color}" if color else "font-weight: bold"
        return (
            f'<text class="halo" x="{middle[0]:.1f}" y="{middle[1] + 4.0:.1f}" '
            f'text-anchor="middle" style="{style}">{escape(text)}</text>'
        )

    def _hidden(self, middle: Array, half: Array) -> float:
        """Cost of a label at a place: what it would cover, or lose beyond the edge."""
        points = np.concatenate(self._lines) if self._lines else np.empty((0, 2))
        covered = float((np.abs(points - middle) < half + 1.0).all(axis=1).sum())
        overlaps = sum(
            bool((np.abs(middle - other) < half + size).all()) for other, size in self._boxes
        )
        outside = bool((middle - half < 0.0).any() or (middle + half > self._size).any())
        return covered + 20.0 * overlaps + 100.0 * outside


def _directions() -> Array:
    angles = 2.0 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    return np.column_stack([np.cos(angles), np.sin(angles)])
