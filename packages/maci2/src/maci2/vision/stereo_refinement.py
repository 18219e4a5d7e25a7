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
from maci2.geometry import se3, se3_inv, so3_exp
from maci2.sensors import Rig
from maci2.sensors.stereo import Frames
from maci2.types import Array
from maci2.vision.keyframe import keyframe
from maci2.vision.rectify import rectified_pair_rotations, rectify

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
class RowErrors:
    """Stereo matches of one pair, in normalized coordinates of the rectified right image."""

    xy: Array
    """(n, 2)"""

    disparity: Array
    """(n,) x_left - x_right"""

    row: Array
    """(n,) y_left - y_right"""


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


def solve_pair(matches: Sequence[RowErrors]) -> PairCorrection:
    """The correction that puts matches onto their rows; matches of one pair may err together."""
    J = [_derivatives(one) for one in matches]
    rows = [one.row for one in matches]
    all_J, all_rows = np.concatenate(J), np.concatenate(rows)
    prior = np.diag(np.r_[[STD_ROTATION**-2.0] * 3, [STD_DIRECTION**-2.0] * 2])
    value = np.zeros(5)
    for _ in range(15):
        left = all_rows - all_J @ value
        sigma = max(float(1.4826 * np.median(np.abs(left))), 1e-7)
        weights = np.minimum(1.0, LIMIT * sigma / np.maximum(np.abs(left), 1e-300)) / sigma**2
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


def _derivatives(one: RowErrors) -> Array:
    x, y = one.xy.T
    d = one.disparity
    return np.column_stack([-(1.0 + y * y), x * y, x, d, -d * y])


@dataclass(frozen=True)
class RefinedPair:
    """A rig whose right camera was refined."""

    rig: Rig
    rotation_deg: Array
    """(3,) by which the right camera was rotated, in the rectified frame."""

    std_rotation_deg: Array
    direction_mm: Array
    """(2,) by which it was moved across the baseline, up to its length."""

    std_direction_mm: Array
    row_px: float
    """Row error that is left, robust standard deviation [px]."""

    matches: int
    pairs: int

    def text(self) -> str:
        """One sentence of what changed."""
        rotation = " ".join(
            f"{v:+.3f}+-{s:.3f}"
            for v, s in zip(self.rotation_deg, self.std_rotation_deg, strict=True)
        )
        moved = " ".join(
            f"{v:+.2f}+-{s:.2f}"
            for v, s in zip(self.direction_mm, self.std_direction_mm, strict=True)
        )
        return (
            f"right camera refined from {self.matches} matches of {self.pairs} stereo pairs: "
            f"rotated by {rotation} deg, moved by {moved} mm across the baseline, whose length is "
            f"kept; {self.row_px:.2f} px off rows are left"
        )


def refine_right_camera(rig: Rig, frames: Frames) -> RefinedPair:
    """Match pairs spread over a recording and put the right camera where rows agree.

    Raises MeasurementError where there is too little to match.
    """
    chosen = np.unique(np.linspace(0, len(frames) - 1, PAIRS).astype(int))
    pairs = [frames.pair(int(index)) for index in chosen]
    refined, total, moved = rig, np.zeros(3), np.zeros(2)
    for _ in range(ROUNDS):
        rectification = rectify(refined)
        matches = []
        for pair in pairs:
            made = keyframe(rectification, pair.left, pair.right)
            found = made.stereo.found & (made.uv[:, 0] > made.stereo.uv[:, 0])
            right = (made.stereo.uv[found] - rectification.center) / rectification.focal
            left = (made.uv[found] - rectification.center) / rectification.focal
            matches.append(RowErrors(right, left[:, 0] - right[:, 0], left[:, 1] - right[:, 1]))
        matches = [one for one in matches if len(one.row)]
        count = sum(len(one.row) for one in matches)
        if count < MIN_MATCHES or len(matches) < MIN_PAIRS:
            raise MeasurementError(
                f"{frames.source}: {count} stereo matches in {len(matches)} pairs, needed "
                f"{MIN_MATCHES} in {MIN_PAIRS}; show both cameras more texture."
            )
        correction = solve_pair(matches)
        total, moved = total + correction.value[:3], moved + correction.value[3:]
        refined = _corrected(refined, correction.value)
    std = np.sqrt(np.diag(correction.cov))
    mm = 1e3 * rectification.baseline
    return RefinedPair(
        refined, np.rad2deg(total), np.rad2deg(std[:3]), mm * moved, mm * std[3:],
        correction.row_error * rectification.focal, count, len(matches),
    )  # fmt: skip


def _corrected(rig: Rig, value: Array) -> Rig:
    """The rig with its right camera rotated and moved, the baseline as long as before."""
    left, right = rig.cameras[0], rig.cameras[1]
    R_cr_c0, R_cr1_c1 = rectified_pair_rotations(rig)
    T_c0_c1 = se3_inv(left.T_b_c) @ right.T_b_c
    baseline = np.linalg.norm(T_c0_c1[:3, 3])
    direction = np.array([1.0, value[3], value[4]])
    p_cr_c1 = baseline * direction / np.linalg.norm(direction)
    R_cr_c1 = so3_exp(value[:3]) @ R_cr1_c1
    moved = se3(R_cr_c0.T @ R_cr_c1, R_cr_c0.T @ p_cr_c1)
    cameras = (left, replace(right, T_b_c=left.T_b_c @ moved), *rig.cameras[2:])
    return replace(rig, cameras=cameras)
