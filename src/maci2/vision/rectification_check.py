"""What stereo matches say against a calibration: swapped cameras, wrong extrinsics, wrong lens."""

import numpy as np

from maci2.types import Array
from maci2.vision.keyframe import Keyframe

MAX_EPIPOLAR_PX = 1.5
"""Median row error of stereo matches above which the calibration may not be the images'."""

MAX_UNEXPLAINED = 0.5
"""Share of the row error that may be no common field, as of points without texture."""

MIN_STEREO_MATCHES = 30
MAX_NEGATIVE = 0.5
"""Share of matches with negative disparity above which the cameras are swapped."""

SOME_NEGATIVE = 0.1
"""Share of them that hardly any rectified pair has, and that is said beside another fault."""


def calibration_fault(made: Keyframe) -> str:
    """What a keyframe's stereo matches say against its calibration; empty if nothing."""
    disparities = made.disparities
    if len(disparities) < MIN_STEREO_MATCHES:
        return ""
    negative = float((disparities < -0.5).mean())
    if negative > MAX_NEGATIVE:
        return (
            f"{100 * negative:.0f} % of {len(disparities)} stereo matches have negative disparity "
            f"(median {np.median(disparities):.1f} px): left and right look swapped, or the two "
            "images are not of one instant. Exchange cam0 and cam1, images and calibration alike, "
            "or see that both cameras expose together."
        )
    uv, rows = made.uv[made.stereo.found], made.row_errors
    error = float(np.median(np.abs(rows)))
    if error <= MAX_EPIPOLAR_PX:
        return ""
    field, slopes = common_row_error(uv, rows)
    if float(np.median(np.abs(rows - field))) > MAX_UNEXPLAINED * error:
        return ""
    remedy = (
        "Give the calibration that belongs to these images, calibrate again, or see that both "
        "cameras expose together."
    )
    if negative > SOME_NEGATIVE:
        remedy += (
            f" {100 * negative:.0f} % of them have negative disparity, too: left and right may be "
            "swapped."
        )
    return (
        f"{len(uv)} stereo matches lie {error:.1f} px off their rows, at most {MAX_EPIPOLAR_PX:g} "
        f"px is usable; {likely_cause(*slopes)}, or the two images are not of one instant. "
        f"{remedy}"
    )


def fits(made: Keyframe) -> bool:
    """Whether a keyframe has enough stereo matches to contradict its calibration, and they do
    not."""
    return len(made.disparities) >= MIN_STEREO_MATCHES and not made.fault


def common_row_error(uv: Array, rows: Array) -> tuple[Array, tuple[float, float, float]]:
    """The part of row errors (n,) that is smooth over the image, and its offset and slopes.

    Points without texture are matched anywhere near their row; a wrong calibration moves all
    points of a region alike, so only what neighbours share counts.
    """
    basis = _smooth_basis(uv, uv.mean(axis=0))
    fit = _least_absolute(basis, rows)
    return basis @ fit, (float(fit[0]), float(fit[1]), float(fit[2]))


def row_error_field(uv: Array, rows: Array, at_uv: Array) -> Array:
    """The smooth part of row errors (n,) found at `uv`, told at other points."""
    center = at_uv.mean(axis=0)
    return _smooth_basis(at_uv, center) @ _least_absolute(_smooth_basis(uv, center), rows)


def _smooth_basis(uv: Array, center: Array) -> Array:
    """(n, 6) constant, linear and quadratic terms [100 px]."""
    x, y = ((uv - center) / 100.0).T
    return np.column_stack([np.ones(len(x)), x, y, x * x, x * y, y * y])


def _least_absolute(basis: Array, rows: Array) -> Array:
    """Coefficients with the least sum of absolute errors: half of the points may be wrong."""
    weights = np.ones(len(rows))
    for _ in range(10):
        scale = np.sqrt(weights)
        fit = np.linalg.lstsq(basis * scale[:, None], rows * scale, rcond=None)[0]
        weights = 1.0 / np.maximum(np.abs(rows - basis @ fit), 0.1)
    return np.asarray(fit)


def likely_cause(offset: float, along: float, down: float) -> str:
    """An offset of all rows is a tilt between the cameras, a slope along them a roll."""
    if abs(offset) > abs(along) + abs(down):
        return (
            f"nearly all by {offset:+.1f} px: the cameras are tilted against each other (T_BS) or "
            "cy is wrong"
        )
    if abs(along) > abs(down):
        return (
            f"growing by {along:+.1f} px per 100 px along the row: the cameras are rolled against "
            "each other (T_BS)"
        )
    return (
        f"growing by {down:+.1f} px per 100 px down the image: focal lengths or lens distortion "
        "are wrong"
    )
