"""Whether a pose hangs on one small part of the image, which may move by itself.

A box close by has sharp matches, a blurred wall behind it uncertain ones that agree with nearly any
motion. Most matches agree then on whatever the box does, and no count of them tells.
"""

import numpy as np
from numpy.typing import NDArray

from maci2.gaussian import symmetrize
from maci2.types import Array
from maci2.vision.two_frame import (
    INLIER_CHI2,
    ROBUST_FACTOR,
    Matches,
    PinholePair,
    TwoFrame,
    residual_terms,
)

Mask = NDArray[np.bool_]

REACH_PX = 90.0
"""Radius of the part of an image that may be one thing."""

LARGE_LEVERAGE = 2.0
"""Leverage from which on a pose hangs on a part: that of all matches together is 6, one for each
degree of freedom, and such a part has a fourteenth of an image that is covered evenly."""

MOVING = 0.1
"""Probability that such a part moves by itself, in rooms of which a quarter of the things do."""


def leverages(matches: Matches, covs: Array, camera: PinholePair, pose: TwoFrame) -> Array:
    """(n,) share of each match in what is known of a pose, 6 in all: trace(H^-1 H_n)."""
    _, cov_r, q = residual_terms(pose.T_ck_ck1, matches, covs, camera)
    J = np.zeros((len(q), 3, 6))
    J[:, range(3), range(3)] = -1.0
    J[:, 0, 4], J[:, 0, 5] = -q[:, 2], q[:, 1]
    J[:, 1, 3], J[:, 1, 5] = q[:, 2], -q[:, 0]
    J[:, 2, 3], J[:, 2, 4] = -q[:, 1], q[:, 0]
    explained = J @ (pose.cov / ROBUST_FACTOR) @ np.swapaxes(J, 1, 2)
    return pose.weights * np.trace(np.linalg.solve(cov_r, explained), axis1=1, axis2=2)


def influential_part(
    matches: Matches, covs: Array, camera: PinholePair, pose: TwoFrame
) -> Mask | None:
    """(n,) matches in the part of the image that a pose hangs on most; None where it hangs on
    none."""
    leverage = np.where(pose.chi2 < INLIER_CHI2, leverages(matches, covs, camera, pose), 0.0)
    u, v = matches.uv0.T
    near = (u[:, None] - u) ** 2 + (v[:, None] - v) ** 2 < REACH_PX**2
    in_reach = near @ leverage
    center = int(np.argmax(in_reach))
    return near[center] if in_reach[center] > LARGE_LEVERAGE else None


def either_way(cov: Array, cov_without: Array, away: Array) -> Array:
    """(6, 6) covariance of a pose with one part, where the others alone tell another one that is
    `away` from it: that of a choice between the two."""
    return symmetrize((1.0 - MOVING) * cov + MOVING * (cov_without + np.outer(away, away)))
