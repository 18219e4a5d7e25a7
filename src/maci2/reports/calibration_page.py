"""A calibration as a page: the rig drawn with its frames named, numbers in both conventions."""

from collections.abc import Callable
from html import escape

import numpy as np

from maci2.estimation import CalibrationResult
from maci2.lie import se3_inv
from maci2.sensors import Rig
from maci2.types import Array

SIZE = 420
AXES = (("x", "#cf222e"), ("y", "#1a7f37"), ("z", "#0969da"))

VIEW = np.array([[0.866, -0.866, 0.0], [0.35, 0.35, -0.94]])
"""(2, 3) body axes to the drawing's right and down: from above, in front and to the side."""


def calibration_page(result: CalibrationResult, rig: Rig) -> str:
    """HTML with everything in it. `rig` has the cameras where calibration found them."""
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in result.verdict.reasons)
    cameras = "".join(_camera(i, camera.T_b_c) for i, camera in enumerate(rig.cameras))
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<title>maci2: calibration</title><style>"
        "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
        "pre{overflow-x:auto;background:#f6f8fa;padding:.6rem}svg{max-width:100%}</style></head>"
        f"<body><h1>Calibration: {result.verdict.status}</h1><ul>{reasons}</ul>{draw_rig(rig)}"
        f"{_uncertainty(result, rig.time_offset_s)}{cameras}</body></html>\n"
    )


def draw_rig(rig: Rig) -> str:
    """SVG: axes of the body and of every camera, each with its name."""
    poses = [("b (IMU)", np.eye(4))]
    poses += [(f"c{i}", camera.T_b_c) for i, camera in enumerate(rig.cameras)]
    length = 0.4 * max(float(np.linalg.norm(T[:3, 3])) for _, T in poses[1:]) + 0.01
    points = [T[:3, 3] + length * axis for _, T in poses for axis in (*T[:3, :3].T, np.zeros(3))]
    drawn = np.array(points) @ VIEW.T
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    scale = 0.75 * SIZE / max(float((high - low).max()), 1e-3)
    centre = (low + high) / 2.0

    def at(point: Array) -> Array:
        return np.asarray(SIZE / 2.0 + scale * (VIEW @ point - centre))

    body = "".join(_frame(name, T, length, at) for name, T in poses)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" '
        f'font-family="sans-serif" font-size="13"><rect width="{SIZE}" height="{SIZE}" '
        f'fill="white"/>{body}</svg>'
        "<p>Axes of each frame: x red, y green, z blue. A camera looks along its z axis.</p>"
    )


def _frame(name: str, T: Array, length: float, at: Callable[[Array], Array]) -> str:
    origin = at(T[:3, 3])
    parts = []
    for (label, color), axis in zip(AXES, T[:3, :3].T, strict=True):
        end = at(T[:3, 3] + length * axis)
        parts.append(
            f'<line x1="{origin[0]:.1f}" y1="{origin[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
            f'stroke="{color}" stroke-width="2"/><text x="{end[0]:.1f}" y="{end[1]:.1f}" '
            f'fill="{color}">{label}</text>'
        )
    parts.append(
        f'<text x="{origin[0] + 6:.1f}" y="{origin[1] + 16:.1f}" font-weight="bold">'
        f"{escape(name)}</text>"
    )
    return "".join(parts)


def _uncertainty(result: CalibrationResult, time_offset_s: float) -> str:
    if result.posterior is None:
        return ""
    std = np.sqrt(np.diag(result.posterior.T_b_c))
    millimetres = ", ".join(f"{1e3 * value:.1f}" for value in std[:3])
    degrees = ", ".join(f"{np.rad2deg(value):.3f}" for value in std[3:])
    offset = ""
    if result.report.std_time_offset_s is not None:
        found, sigma = 1e3 * time_offset_s, 1e3 * result.report.std_time_offset_s
        offset = f"<p>Time offset: t_imu = t_camera {found:+.2f} +- {sigma:.2f} ms.</p>"
    return (
        f"<p>1-sigma of the left camera: translation {millimetres} mm, rotation {degrees} deg, "
        f"about the IMU's axes.</p>{offset}"
    )


def _camera(number: int, T_b_c: Array) -> str:
    return (
        f"<h2>c{number}</h2><p>T_b_c{number}: pose of the camera in the body; takes camera "
        f"coordinates to IMU coordinates (Kalibr's T_imu_cam).</p><pre>{_matrix(T_b_c)}</pre>"
        f"<p>T_c{number}_b: its inverse (Kalibr's T_cam_imu).</p>"
        f"<pre>{_matrix(se3_inv(np.ascontiguousarray(T_b_c)))}</pre>"
    )


def _matrix(T: Array) -> str:
    return "\n".join("  ".join(f"{value: .6f}" for value in row) for row in T)
