"""Images with the points followed in them, coloured by their predicted standard deviation."""

import base64
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from maci2.errors import ImageError
from maci2.reports.svg import picture
from maci2.sensors.stereo import Image
from maci2.types import Array
from maci2.vision.keyframe import keyframe, match_keyframes
from maci2.vision.odometry import StereoOdometry

LEAST_SURE = 5.0
"""Standard deviation, as a multiple of the image's best, at which a match is shown in plain red."""

JPEG_QUALITY = 80


@dataclass(frozen=True)
class TrackedImage:
    """A rectified left image and where its points were one keyframe before."""

    image: Image
    uv0: Array
    """(n, 2) [px] in the keyframe before."""

    uv1: Array
    """(n, 2) [px] in this one."""

    sigma_px: Array
    """(n,) predicted standard deviation of the match, both axes together."""


def tracked_image(odometry: StereoOdometry, first_ns: int, second_ns: int) -> TrackedImage:
    """Match two keyframes once more, for the eye."""
    frames = odometry.frames
    nothing = np.empty((0, 2))
    try:
        pairs = [frames.pair(frames.index_of(int(stamp))) for stamp in (first_ns, second_ns)]
    except ImageError:
        return TrackedImage(np.zeros((1, 1), np.uint8), nothing, nothing, np.empty(0))
    first, second = (keyframe(odometry.rectification, p.left, p.right) for p in pairs)
    if first.blank or second.blank:
        return TrackedImage(second.left, nothing, nothing, np.empty(0))
    found = match_keyframes(first, [], second, first.row_offset)
    if not len(found.matches):
        return TrackedImage(second.left, nothing, nothing, np.empty(0))
    cov = odometry.model(found.features)[:, :2, :2]
    sigma_px = np.sqrt(np.trace(cov, axis1=1, axis2=2))
    return TrackedImage(second.left, found.matches.uv0, found.matches.uv1, sigma_px)


def sigma_colors(sigma_px: Array) -> NDArray[np.uint8]:
    """(n, 3) from green, as sure as any in this image, to red, five times less."""
    best = np.quantile(sigma_px, 0.05)
    share = np.clip((sigma_px / best - 1.0) / (LEAST_SURE - 1.0), 0.0, 1.0)
    return np.column_stack([255 * share, 255 * (1.0 - share), np.full(len(share), 40)]).astype(
        np.uint8
    )


def track_picture(tracked: TrackedImage) -> str:
    """SVG: the image with a line for every match."""
    height, width = tracked.image.shape
    _, data = cv2.imencode(".jpg", tracked.image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    text = base64.b64encode(data.tobytes()).decode("ascii")
    body = [f'<image width="{width}" height="{height}" href="data:image/jpeg;base64,{text}"/>']
    nothing = np.empty((0, 3), dtype=np.uint8)
    colors = sigma_colors(tracked.sigma_px) if len(tracked.sigma_px) else nothing
    for (u0, v0), (u1, v1), (r, g, b) in zip(tracked.uv0, tracked.uv1, colors, strict=True):
        color = f"rgb({r},{g},{b})"
        body.append(
            f'<line x1="{u0:.1f}" y1="{v0:.1f}" x2="{u1:.1f}" y2="{v1:.1f}" stroke="{color}" '
            f'stroke-width="1.5"/><circle cx="{u1:.1f}" cy="{v1:.1f}" r="2" fill="{color}"/>'
        )
    return picture(width, height, "".join(body))
