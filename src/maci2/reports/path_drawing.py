"""A path in perspective, with gravity downwards, velocities as arrows and a scale bar."""

import numpy as np

from maci2.estimation import VIState
from maci2.reports.html import figure
from maci2.reports.svg import COLORS, arrow, picture
from maci2.types import Array

WIDTH = 440
LOWEST, HIGHEST = 200.0, 400.0
"""Height of the picture [px]."""

MARGIN = 44.0
VELOCITY_S = 0.5
"""Time over which velocity arrows extend [s]."""

MOST_ARROWS = 16
"""Largest number of arrows; more would hide the path."""


def path_figure(state: VIState) -> str:
    """The body's path over a window, in the first camera's frame."""
    velocity_c0 = np.einsum("kij,kj->ki", state.Ts_c0_b[:, :3, :3], state.velocity_b)
    return figure(
        path_drawing(state.Ts_c0_b[:, :3, 3], velocity_c0, state.gravity_c0), caption("keyframes")
    )


def caption(of: str) -> str:
    """Caption of a path."""
    return (
        f"Path of the IMU over its {of}, with gravity pointing down; the circle marks the "
        f"start. Blue arrows: velocity times {VELOCITY_S:g} s."
    )


def path_drawing(
    positions: Array, velocities: Array, gravity: Array, beside: Array | None = None
) -> str:
    """SVG of positions (n, 3), their velocities and, in grey, another path `beside` them."""
    view = _view(gravity)
    every = max(-(-len(positions) // MOST_ARROWS), 1)
    starts, ends = positions[::every], (positions + VELOCITY_S * velocities)[::every]
    others = np.empty((0, 3)) if beside is None else beside
    flat = np.concatenate([positions, ends, others]) @ view.T
    low, high = flat.min(axis=0), flat.max(axis=0)
    extent = np.maximum(high - low, 1e-3)
    inside = np.array([WIDTH - 2.0 * MARGIN, HIGHEST - 2.0 * MARGIN - 20.0])
    scale = float((inside / extent).min())
    height = max(float(scale * extent[1]) + 2.0 * MARGIN + 20.0, LOWEST)
    middle = np.array([WIDTH / 2.0, height / 2.0 - 4.0])

    def at(points: Array) -> Array:
        return np.asarray(middle + scale * (points @ view.T - (low + high) / 2.0))

    body = [_line(at(others), "var(--soft)", 3.0)] if len(others) else []
    body.append(_line(at(positions), "var(--ink)", 2.0))
    body += [arrow(a, b, COLORS[0]) for a, b in zip(at(starts), at(ends), strict=True)]
    if every == 1:
        body += [_circle(place, 3.0, "var(--ink)") for place in at(positions)]
    body.append(_circle(at(positions[:1])[0], 5.0, "var(--back)"))
    corner = np.array([18.0, 16.0])
    body.append(arrow(corner, corner + np.array([0.0, 40.0]), COLORS[1], "gravity"))
    body.append(scale_bar(scale, height))
    return picture(WIDTH, round(height), "".join(body))


def _view(gravity: Array) -> Array:
    """(2, 3) axes of the picture, right and down: down is gravity, right is the level part of x."""
    down = gravity / np.linalg.norm(gravity)
    level = np.eye(3)[0] - down[0] * down
    if np.linalg.norm(level) < 0.3:
        level = np.eye(3)[2] - down[2] * down
    level = level / np.linalg.norm(level)
    ahead = np.cross(down, level)
    return np.asarray(np.stack([level + 0.35 * ahead, down - 0.2 * ahead]))


def _line(places: Array, color: str, width: float) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width:g}"/>'


def _circle(place: Array, radius: float, fill: str) -> str:
    return (
        f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{radius:g}" fill="{fill}" '
        'stroke="var(--ink)" stroke-width="1.5"/>'
    )


def scale_bar(scale: float, height: float) -> str:
    """Scale bar of a round length in the lower left corner; `scale` in pixels per metre."""
    longest_m = 0.4 * WIDTH / scale
    decade = 10.0 ** np.floor(np.log10(longest_m))
    length_m = next(decade * factor for factor in (5.0, 2.0, 1.0) if decade * factor <= longest_m)
    label = f"{length_m:g} m" if length_m >= 0.1 else f"{1e3 * length_m:g} mm"
    return (
        f'<line x1="16" y1="{height - 12:.1f}" x2="{16 + scale * length_m:.1f}" '
        f'y2="{height - 12:.1f}" stroke="var(--ink)" stroke-width="3"/>'
        f'<text x="16" y="{height - 20:.1f}">{label}</text>'
    )
