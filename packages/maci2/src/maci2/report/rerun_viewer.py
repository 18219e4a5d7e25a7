"""Results shown by Rerun: `--rerun FILE.rrd` writes them, `--rerun live` shows them."""

from itertools import pairwise
from typing import Any

import numpy as np

from maci2.errors import OptionError
from maci2.estimator import CalibrationResult, InitResult, Posterior, VIState
from maci2.geometry import so3_log
from maci2.odometry import TrackedState
from maci2.report.drawings import sigma_colors, tracked_image
from maci2.types import Array, Stamps
from maci2.vision import RelativePoses
from maci2.vision.odometry import StereoOdometry

LIVE = "live"
ARROW_S = 0.5
"""Time over which velocity arrows extend [s]."""

GRAVITY_M = 0.3
"""Length of gravity's arrow."""

SIGMAS = 3.0
"""Size of ellipsoids [standard deviations]."""


class Viewer:
    """One Rerun recording; every `show` adds to it."""

    def __init__(self, target: str, title: str) -> None:
        self._rr = _rerun()
        if target != LIVE and not target.endswith(".rrd"):
            raise OptionError(f"--rerun is '{target}'; give a file that ends in .rrd, or live.")
        self._rr.init(f"maci2 {title}", spawn=target == LIVE)
        if target != LIVE:
            self._rr.save(target)
        self._rr.log("c0", self._rr.ViewCoordinates.RDF, static=True)

    def show_initialization(self, result: InitResult) -> None:
        """Trajectory with velocity and gravity arrows, positions' ellipsoids, and sigmas."""
        if result.state is not None and result.posterior is not None:
            self._show_state(result.state, result.posterior)
        self._show_verdict(result.verdict.status, result.verdict.reasons)

    def show_calibration(self, result: CalibrationResult) -> None:
        """Initialization view with the calibrated camera on the body."""
        if result.state is not None and result.posterior is not None:
            self._show_state(result.state, result.posterior)
            self._show_pose("body/camera", result.state.T_b_c)
            size = SIGMAS * np.sqrt(np.diag(result.posterior.T_b_c)[:3])
            self._log(
                "body/camera/uncertainty", "Ellipsoids3D", centers=[[0, 0, 0]], half_sizes=[size]
            )
        self._show_verdict(result.verdict.status, result.verdict.reasons)

    def show_residuals(self, state: VIState, vision: RelativePoses) -> None:
        """Residual of each relative pose, in its own standard deviations."""
        Ts_c0_c = state.Ts_c0_b @ state.T_b_c
        steps = zip(pairwise(Ts_c0_c), vision.Ts_ck_ck1, vision.covs_T_ck_ck1, strict=True)
        for stamp_ns, ((T, T1), measured, cov) in zip(state.stamps_ns[1:], steps, strict=True):
            self._at(int(stamp_ns))
            away = np.linalg.inv(T) @ T1 @ np.linalg.inv(measured)
            moved = away[:3, 3] / np.sqrt(np.diag(cov)[:3])
            turned = so3_log(np.ascontiguousarray(away[:3, :3])) / np.sqrt(np.diag(cov)[3:])
            for axis, value in zip("xyz", moved, strict=True):
                self._log(f"residuals/translation/{axis}", "Scalars", scalars=[value])
            for axis, value in zip("xyz", turned, strict=True):
                self._log(f"residuals/rotation/{axis}", "Scalars", scalars=[value])

    def show_tracks(self, odometry: StereoOdometry, keyframes_ns: Stamps) -> None:
        """Rectified left images with the matches in them, coloured by their predicted sigma."""
        for first_ns, second_ns in pairwise(keyframes_ns):
            self._at(int(second_ns))
            tracked = tracked_image(odometry, int(first_ns), int(second_ns))
            self._log("image", "Image", image=tracked.image)
            if len(tracked.sigma_px):
                lines = np.stack([tracked.uv0, tracked.uv1], axis=1)
                colors = sigma_colors(tracked.sigma_px)
                self._log("image/tracks", "LineStrips2D", strips=list(lines), colors=colors)

    def show_path(self, states: list[TrackedState]) -> None:
        """A track: its path, and pose, velocity, sigmas and health over time."""
        positions = np.array([state.T_w_b[:3, 3] for state in states])
        self._rr.log("w", self._rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        self._rr.log("w/path", self._rr.LineStrips3D([positions]), static=True)
        for state in states:
            self._at(state.stamp_ns)
            position = state.T_w_b[:3, 3]
            self._show_pose("w/body", state.T_w_b)
            self._log("w/velocity", "Arrows3D", origins=[position], vectors=[ARROW_S * state.v_w])
            half_sizes, quaternion_xyzw = ellipsoid(state.cov[6:9, 6:9])
            self._log(
                "w/uncertainty",
                "Ellipsoids3D",
                centers=[position],
                half_sizes=[half_sizes],
                quaternions=[quaternion_xyzw],
            )
            std = np.sqrt(np.diag(state.cov))
            for axis in range(3):
                self._log(f"sigma/velocity/{'xyz'[axis]}", "Scalars", scalars=[std[3 + axis]])
                bias = state.gyro_bias[axis]
                self._log(f"gyro_bias/{'xyz'[axis]}", "Scalars", scalars=[bias])
            self._log("health", "TextLog", text=state.health)

    def _show_state(self, state: VIState, posterior: Posterior) -> None:
        positions = state.Ts_c0_b[:, :3, 3]
        self._rr.log("c0/path", self._rr.LineStrips3D([positions]), static=True)
        down = GRAVITY_M * state.gravity_c0 / np.linalg.norm(state.gravity_c0)
        velocity_c0 = np.einsum("kij,kj->ki", state.Ts_c0_b[:, :3, :3], state.velocity_b)
        for k, stamp_ns in enumerate(state.stamps_ns):
            self._at(int(stamp_ns))
            self._show_pose("c0/body", state.Ts_c0_b[k])
            self._log("c0/gravity", "Arrows3D", origins=[positions[k]], vectors=[down])
            self._log(
                "c0/velocity",
                "Arrows3D",
                origins=[positions[k]],
                vectors=[ARROW_S * velocity_c0[k]],
            )
            half_sizes, quaternion_xyzw = ellipsoid(posterior.Ts_c0_b[k, :3, :3])
            self._log(
                "c0/uncertainty",
                "Ellipsoids3D",
                centers=[positions[k]],
                half_sizes=[half_sizes],
                quaternions=[quaternion_xyzw],
            )
            std = np.sqrt(np.diag(posterior.velocity_b[k]))
            for axis, value, sigma in zip("xyz", state.velocity_b[k], std, strict=True):
                self._log(f"velocity_b/{axis}", "Scalars", scalars=[value])
                self._log(f"velocity_b/sigma_{axis}", "Scalars", scalars=[sigma])

    def _show_pose(self, path: str, T: Array) -> None:
        self._log(path, "Transform3D", translation=T[:3, 3], mat3x3=T[:3, :3])

    def _show_verdict(self, status: str, reasons: tuple[str, ...]) -> None:
        text = "\n".join([f"verdict: {status}", *reasons])
        self._rr.log("verdict", self._rr.TextDocument(text), static=True)

    def _at(self, stamp_ns: int) -> None:
        self._rr.set_time("time", timestamp=np.datetime64(stamp_ns, "ns"))

    def _log(self, path: str, kind: str, **values: Any) -> None:
        self._rr.log(path, getattr(self._rr, kind)(**values))


def ellipsoid(cov: Array) -> tuple[Array, Array]:
    """Half axes at `SIGMAS` standard deviations, and their directions as a quaternion (xyzw)."""
    values, axes = np.linalg.eigh(cov)
    axes = axes * np.sign(np.linalg.det(axes))
    phi = so3_log(np.ascontiguousarray(axes))
    half = 0.5 * float(np.linalg.norm(phi))
    quaternion_xyzw = np.append(0.5 * np.sinc(half / np.pi) * phi, np.cos(half))
    return SIGMAS * np.sqrt(np.maximum(values, 0.0)), quaternion_xyzw


def _rerun() -> Any:
    try:
        import rerun
    except ImportError as error:
        raise OptionError("--rerun needs Rerun: pip install 'maci2[viewer]'.") from error
    return rerun
