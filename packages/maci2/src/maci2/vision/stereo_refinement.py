"""The right camera's place beside the left one, refined from stereo matches.

In the rectified pair, with normalized coordinates (X, Y) in the right image and normalized
disparity d, a right camera that is rotated by w and whose baseline points along (1, ty, tz) puts a
point off its row by

    e = -(1 + Y^2) wx + X Y wy + X wz + d ty - d Y tz                     y_left - y_right

to first order. The baseline's length does not show in rows and is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from maci2.errors import MeasurementError
from maci2.geometry import se3, so3_exp
from maci2.sensors import Rig
from maci2.sensors.stereo import Frames
from maci2.types import Array
from maci2.vision.keyframe import keyframe
from maci2.vision.rectify import rectify, rectifying_rotations

PAIRS = 40
"""Stereo pairs that are matched, spread over the recording."""

MIN_MATCHES, MIN_PAIRS = 300, 5

STD_ROTATION, STD_DIRECTION = float(np.deg2rad(1.0)), 0.05
"""Prior about the stated calibration, each component [rad, share of the baseline]."""

LIMIT = 2.5
"""Huber's limit in standard deviations."""

ROUNDS = 3
"""Times that the pair is rectified and matched anew; later ones move it by less than its sigma."""


@dataclass(frozen=True)
class PairCorrection:
    """Rotation and direction of the baseline against the stated ones."""

    value: Array
    """(5,) rotation of the right camera [rad], then ty, tz of the baseline's direction, in the
    rectified frame."""

    cov: Array
    """(5, 5)"""

    row_error: float
    """Row error of the matches with the correction, robust standard deviation, normalized."""


def solve_pair(matches: Sequence[tuple[Array, Array]]) -> PairCorrection:
    """The correction that puts matches onto their rows, from normalized coordinates (n, 2) in the
    left and in the right image of each pair; matches of one pair may err together."""
    J, rows = [], []
    for left, right in matches:
        (x, y), (disparity, row) = right.T, (left - right).T
        J.append(np.column_stack([-(1.0 + y * y), x * y, x, disparity, -disparity * y]))
        rows.append(row)
    all_J, all_rows = np.concatenate(J), np.concatenate(rows)
    prior = np.diag(np.r_[[STD_ROTATION**-2.0] * 3, [STD_DIRECTION**-2.0] * 2])
    value = np.zeros(5)
    for _ in range(15):
        r = np.abs(all_rows - all_J @ value)
        sigma = max(float(1.4826 * np.median(r)), 1e-7)
        weights = np.minimum(1.0, LIMIT * sigma / np.maximum(r, 1e-300)) / sigma**2
        H = all_J.T @ (weights[:, None] * all_J) + prior
        value = np.linalg.solve(H, all_J.T @ (weights * all_rows))
    # Each pair's gradient as a whole: what its matches share is not averaged away.
    ends = np.cumsum([len(one) for one in rows])[:-1]
    scores = [
        block.T @ (weight * (row - block @ value))
        for block, row, weight in zip(J, rows, np.split(weights, ends), strict=True)
    ]
    share = len(matches) / max(len(matches) - 1, 1)
    spread = prior + share * np.sum([np.outer(s, s) for s in scores], axis=0)
    H_inv = np.linalg.inv(H)
    return PairCorrection(value, H_inv @ spread @ H_inv, sigma)


@dataclass(frozen=True)
class RefinedPair:
    """A rig whose right camera was refined."""

    rig: Rig
    change: Array
    """(5,) rotation of the right camera in the rectified frame [deg], and how far it was moved
    across the baseline [mm], whose length is kept."""

    std: Array
    """(5,) its standard deviations."""

    row_px: float
    """Remaining row error, robust standard deviation [px]."""

    matches: int
    pairs: int

    def text(self) -> str:
        """One sentence of what changed."""
        terms = [
            f"{value:+.{digits}f}+-{std:.{digits}f}"
            for value, std, digits in zip(self.change, self.std, (3, 3, 3, 2, 2), strict=True)
        ]
        return (
            f"right camera refined from {self.matches} matches of {self.pairs} stereo pairs: "
            f"rotated by {' '.join(terms[:3])} deg, moved by {' '.join(terms[3:])} mm across the "
            f"baseline, whose length is kept; {self.row_px:.2f} px off rows are left"
        )


def refine_right_camera(rig: Rig, frames: Frames) -> RefinedPair:
    """Match pairs spread over a recording and put the right camera where rows agree.

    Raises MeasurementError where there is too little to match.
    """
    chosen = np.unique(np.linspace(0, len(frames) - 1, PAIRS).astype(int))
    pairs = [frames.pair(int(index)) for index in chosen]
    refined, change = rig, np.zeros(5)
    for _ in range(ROUNDS):
        rectification = rectify(refined)
        matches = []
        for pair in pairs:
            made = keyframe(rectification, pair.left, pair.right)
            found = made.stereo.found & (made.across[:, 0] > 0.0)
            both = (uv[found] - rectification.center for uv in (made.uv, made.stereo.uv))
            left, right = (uv / rectification.focal for uv in both)
            if found.any():
                matches.append((left, right))
        count = sum(len(left) for left, _ in matches)
        if count < MIN_MATCHES or len(matches) < MIN_PAIRS:
            raise MeasurementError(
                f"{frames.source}: {count} stereo matches in {len(matches)} pairs, needed "
                f"{MIN_MATCHES} in {MIN_PAIRS}; show both cameras more texture."
            )
        correction = solve_pair(matches)
        change += correction.value
        refined = _corrected(refined, correction.value)
    units = np.repeat([np.rad2deg(1.0), 1e3 * rectification.baseline], [3, 2])
    std = units * np.sqrt(np.diag(correction.cov))
    row_px = correction.row_error * rectification.focal
    return RefinedPair(refined, units * change, std, row_px, count, len(matches))


def _corrected(rig: Rig, value: Array) -> Rig:
    """The rig with its right camera rotated and moved, the baseline as long as before."""
    left, right = rig.cameras[0], rig.cameras[1]
    R_cr_c0, R_cr1_c1, baseline = rectifying_rotations(rig)
    direction = np.array([1.0, value[3], value[4]])
    p_cr_c1 = baseline * direction / np.linalg.norm(direction)
    R_cr_c1 = so3_exp(value[:3]) @ R_cr1_c1
    moved = se3(R_cr_c0.T @ R_cr_c1, R_cr_c0.T @ p_cr_c1)
    cameras = (left, replace(right, T_b_c=left.T_b_c @ moved), *rig.cameras[2:])
    return replace(rig, cameras=cameras)
