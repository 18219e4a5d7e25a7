"""Learned match covariance against the exact flow of images from another renderer."""

import cv2
import numpy as np
import pytest

from maci2.vision.covariance import Learned
from maci2.vision.keyframe import keyframe, match_keyframes
from maci2.vision.rectify import Rectification
from maci2.vision.two_frame import PinholePair

pytestmark = pytest.mark.dataset

FOCAL, CENTER, BASELINE = 320.0, 320.0, 0.25
CAMERA = PinholePair(FOCAL, (CENTER, CENTER), BASELINE)
GATE = 5.0
"""Standard deviations beyond which a match is left to the robust loss."""


def grey(path):
    return cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)


def unrectified(shape):
    """The images are an ideal pair already: maps that change nothing."""
    v, u = np.indices(shape, dtype=np.float32)
    return Rectification(
        FOCAL, (CENTER, CENTER), BASELINE, np.eye(4), (shape[1], shape[0]),
        (u, v), (u, v), np.full(shape, 255, np.uint8),
    )  # fmt: skip


def exact_flow(path, uv):
    """(n, 2) flow [px] at pixels, and whether it is known there."""
    stored = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    u, v = uv.astype(int).T
    # Stored with OpenCV: u, v, and a mask that is zero where the point stays visible.
    flow = (stored[v, u][:, :2].astype(np.float64) - 32768.0) / 64.0
    return flow, stored[v, u][:, 2] == 0


def exact_disparity(path, uv):
    depth = cv2.imread(str(path), cv2.IMREAD_UNCHANGED).view("<f4")[..., 0]
    u, v = uv.astype(int).T
    return FOCAL * BASELINE / depth[v, u]


@pytest.fixture(scope="module")
def ratios(data_root):
    """(n, 3) squared errors of u1, v1, d0 over predicted variances, all matches of all steps."""
    folder = data_root / "tartanair" / "TartanAir2_abs_P000"
    frames = []
    for k in range(10):
        pair = [grey(folder / f"image_{c}cam_front" / f"{k:06d}_{c}cam_front.png") for c in "lr"]
        frames.append(keyframe(unrectified(pair[0].shape), *pair))
    model, found = Learned(), []
    for k in range(9):
        step = match_keyframes(frames[k], [], frames[k + 1], CAMERA)
        matches = step.matches
        flow, known = exact_flow(
            folder / "flow_lcam_front" / f"{k:06d}_{k + 1:06d}_flow.png", matches.uv0
        )
        depth = folder / "depth_lcam_front" / f"{k:06d}_lcam_front_depth.png"
        errors = np.column_stack(
            [
                matches.uv1 - matches.uv0 - flow,
                matches.disparity0 - exact_disparity(depth, matches.uv0),
            ]
        )
        variances = np.diagonal(model(step.features), axis1=1, axis2=2)[:, :3]
        found.append((errors**2 / variances)[known])
    return np.concatenate(found)


def test_temporal_matches_err_as_predicted(ratios):
    inside = (ratios[:, :2] < GATE**2).all(axis=1)
    assert len(ratios) > 500
    assert inside.mean() > 0.9
    nees = ratios[inside, :2].mean(axis=0)
    assert ((nees > 0.5) & (nees < 2.0)).all(), nees


def test_disparities_err_as_predicted(ratios):
    inside = ratios[:, 2] < GATE**2
    assert inside.mean() > 0.9
    assert 0.5 < ratios[inside, 2].mean() < 2.0
