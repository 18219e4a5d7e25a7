"""Images with their tracked points, coloured by predicted standard deviation."""

import base64
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.errors import ImageError
from maci2.reports.html import figure
from maci2.reports.svg import picture
from maci2.sensors.stereo import Frames, Image
from maci2.types import Array
from maci2.vision.keyframe import Keyframe, keyframe, match_keyframes
from maci2.vision.odometry import StereoOdometry
from maci2.vision.outlier_rejection import MIN_MATCHES, consensus_pose
from maci2.vision.predicted_rotation import PredictedRotation
from maci2.vision.two_frame import PinholePair

LEAST_SURE = 5.0
"""Ratio of standard deviations to the image's smallest at which colours saturate."""

SURE, UNSURE = np.array([40.0, 215.0, 255.0]), np.array([255.0, 95.0, 0.0])
"""Colours (r, g, b) of the most and the least certain match: cyan and orange, which colour-blind
readers can distinguish."""

JPEG_QUALITY = 80


@dataclass(frozen=True)
class TrackedImage:
    """Rectified left image, and the positions of its points one keyframe before."""

    image: Image
    uv0: Array
    """(n, 2) positions in the keyframe before [px]."""

    uv1: Array
    """(n, 2) positions in this keyframe [px]."""

    sigma_px: Array
    """(n,) predicted standard deviation of the match, both axes together."""


def tracked_image(odometry: StereoOdometry, first_ns: int, second_ns: int) -> TrackedImage:
    """Match two keyframes again, for display: the inliers of the measured motion."""
    frames = odometry.frames
    indices = [frames.index_of(int(stamp)) for stamp in (first_ns, second_ns)]
    try:
        first, second = (_keyframe(odometry, frames, index) for index in indices)
    except ImageError:
        unread = np.zeros((1, 1), np.uint8)
        return TrackedImage(unread, np.empty((0, 2)), np.empty((0, 2)), np.empty(0))
    nothing = TrackedImage(second.left, np.empty((0, 2)), np.empty((0, 2)), np.empty(0))
    measured = odometry.relative_pose(*indices)
    if measured.reason:
        return nothing
    seen = odometry.rectification
    camera = PinholePair(seen.focal, seen.center, seen.baseline)
    rotation = PredictedRotation(measured.T_ck_ck1[:3, :3], measured.cov_T_ck_ck1[3:, 3:])
    found = match_keyframes(first, [], second, first.row_offset, camera, rotation)
    if len(found.matches) < MIN_MATCHES:
        return nothing
    cov = odometry.model(found.features)
    inlier = consensus_pose(found.matches, cov, camera, rotation).weights > 0.0
    sigma_px = np.sqrt(np.trace(cov[inlier, :2, :2], axis1=1, axis2=2))
    return TrackedImage(second.left, found.matches.uv0[inlier], found.matches.uv1[inlier], sigma_px)


def latest_tracks(odometry: StereoOdometry, stamp_ns: int) -> TrackedImage:
    """Image at a timestamp, with its points and their positions one image before."""
    index = odometry.frames.index_of(int(stamp_ns))
    before_ns = int(odometry.stamps_ns[max(index - 1, 0)])
    return tracked_image(odometry, before_ns, stamp_ns)


def _keyframe(odometry: StereoOdometry, frames: Frames, index: int) -> Keyframe:
    pair = frames.pair(index)
    return keyframe(odometry.rectification, pair.left, pair.right)


def best_sigma_px(sigma_px: Array) -> float:
    """Standard deviation of the most certain matches of an image [px]."""
    return float(np.quantile(sigma_px, 0.05))


def sigma_colors(sigma_px: Array) -> NDArray[np.uint8]:
    """(n, 3) colours from cyan, most certain, to orange, five times less certain."""
    share = np.clip((sigma_px / best_sigma_px(sigma_px) - 1.0) / (LEAST_SURE - 1.0), 0.0, 1.0)
    return np.asarray(SURE + share[:, None] * (UNSURE - SURE)).astype(np.uint8)


def track_figure(tracked: TrackedImage) -> str:
    """Image with its points and a legend of their colours."""
    if not len(tracked.sigma_px):
        return figure(track_picture(tracked), "No point could be tracked into this image.", True)
    best = best_sigma_px(tracked.sigma_px)
    first, last = (",".join(f"{part:.0f}" for part in color) for color in (SURE, UNSURE))
    ramp = (
        f"<p class='ramp'><span>{best:.2f} px</span>"
        f"<i style='background: linear-gradient(to right, rgb({first}), rgb({last}))'></i>"
        f"<span>{LEAST_SURE * best:.2f} px or more</span></p>"
    )
    caption = (
        f"{len(tracked.sigma_px)} points tracked from the previous image, coloured by the "
        "predicted standard deviation of the match."
    )
    return figure(track_picture(tracked) + ramp, caption, wide=True)


def embedded(image: Image) -> str:
    """Image as an SVG element with embedded data."""
    height, width = image.shape
    _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    text = base64.b64encode(data.tobytes()).decode("ascii")
    return f'<image width="{width}" height="{height}" href="data:image/jpeg;base64,{text}"/>'


def track_picture(tracked: TrackedImage) -> str:
    """SVG of the image with a line for every match."""
    height, width = tracked.image.shape
    body = [embedded(tracked.image)]
    nothing = np.empty((0, 3), dtype=np.uint8)
    colors = sigma_colors(tracked.sigma_px) if len(tracked.sigma_px) else nothing
    for (u0, v0), (u1, v1), (r, g, b) in zip(tracked.uv0, tracked.uv1, colors, strict=True):
        color = f"rgb({r},{g},{b})"
        body.append(
            f'<line x1="{u0:.1f}" y1="{v0:.1f}" x2="{u1:.1f}" y2="{v1:.1f}" stroke="{color}" '
            f'stroke-width="1.5"/><circle cx="{u1:.1f}" cy="{v1:.1f}" r="2" fill="{color}"/>'
        )
    return picture(width, height, "".join(body))
