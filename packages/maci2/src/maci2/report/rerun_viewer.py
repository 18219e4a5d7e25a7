"""Results shown by Rerun: `--rerun FILE.rrd` writes them, `--rerun live` shows them."""

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from maci2.errors import OptionError
from maci2.estimator import CalibrationResult, InitResult, Posterior, Verdict, VIState
from maci2.geometry import so3_log
from maci2.odometry import TrackedState
from maci2.report.drawings import sigma_colors, tracked_image
from maci2.result_output import stds
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
        self._show_verdict(result.verdict)

    def show_calibration(self, result: CalibrationResult) -> None:
        """Initialization view with the calibrated camera on the body."""
        if result.state is not None and result.posterior is not None:
            self._show_state(result.state, result.posterior)
            self._show_pose("body/camera", result.state.T_b_c)
            size, center = SIGMAS * stds(result.posterior.T_b_c)[:3], [0, 0, 0]
            path = "body/camera/uncertainty"
            self._log(path, "Ellipsoids3D", centers=[center], half_sizes=[size])
        self._show_verdict(result.verdict)

    def show_residuals(self, state: VIState, vision: RelativePoses) -> None:
        """Residual of each relative pose, in its own standard deviations."""
        Ts_c0_c = state.Ts_c0_b @ state.T_b_c
        moved = np.linalg.inv(Ts_c0_c[:-1]) @ Ts_c0_c[1:]
        away = moved @ np.linalg.inv(vision.Ts_ck_ck1)
        std = stds(vision.covs_T_ck_ck1)
        for k, stamp_ns in enumerate(state.stamps_ns[1:]):
            self._at(stamp_ns)
            turned = so3_log(np.ascontiguousarray(away[k, :3, :3]))
            self._show_axes("residuals/translation/", away[k, :3, 3] / std[k, :3])
            self._show_axes("residuals/rotation/", turned / std[k, 3:])

    def show_tracks(self, odometry: StereoOdometry, keyframes_ns: Stamps) -> None:
        """Rectified left images with the matches in them, coloured by their predicted sigma."""
        for first_ns, second_ns in pairwise(keyframes_ns):
            self._at(second_ns)
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
            self._show_body("w", state.T_w_b, state.v_w, state.cov[6:9, 6:9])
            self._show_axes("sigma/velocity/", stds(state.cov)[3:6])
            self._show_axes("gyro_bias/", state.gyro_bias)
            self._log("health", "TextLog", text=state.health)

    def _show_state(self, state: VIState, posterior: Posterior) -> None:
        positions = state.Ts_c0_b[:, :3, 3]
        self._rr.log("c0/path", self._rr.LineStrips3D([positions]), static=True)
        down = GRAVITY_M * state.gravity_c0 / np.linalg.norm(state.gravity_c0)
        velocity_c0 = np.einsum("kij,kj->ki", state.Ts_c0_b[:, :3, :3], state.velocity_b)
        for k, stamp_ns in enumerate(state.stamps_ns):
            self._at(stamp_ns)
            self._log("c0/gravity", "Arrows3D", origins=[positions[k]], vectors=[down])
            cov_position = posterior.Ts_c0_b[k, :3, :3]
            self._show_body("c0", state.Ts_c0_b[k], velocity_c0[k], cov_position)
            self._show_axes("velocity_b/", state.velocity_b[k])
            self._show_axes("velocity_b/sigma_", stds(posterior.velocity_b[k]))

    def _show_body(self, frame: str, T: Array, velocity: Array, cov_position: Array) -> None:
        """Pose, velocity and uncertainty of the position in a frame."""
        position = T[:3, 3]
        half_sizes, quaternion_xyzw = ellipsoid(cov_position)
        shape = {"half_sizes": [half_sizes], "quaternions": [quaternion_xyzw]}
        self._show_pose(f"{frame}/body", T)
        self._log(f"{frame}/velocity", "Arrows3D", origins=[position], vectors=[ARROW_S * velocity])
        self._log(f"{frame}/uncertainty", "Ellipsoids3D", centers=[position], **shape)

    def _show_pose(self, path: str, T: Array) -> None:
        self._log(path, "Transform3D", translation=T[:3, 3], mat3x3=T[:3, :3])

    def _show_axes(self, path: str, values: Array) -> None:
        """Numbers along x, y and z, as three curves."""
        for axis, value in zip("xyz", values, strict=True):
            self._log(f"{path}{axis}", "Scalars", scalars=[value])

    def _show_verdict(self, verdict: Verdict) -> None:
        text = "\n".join([f"verdict: {verdict.status}", *verdict.reasons])
        self._rr.log("verdict", self._rr.TextDocument(text), static=True)

    def _at(self, stamp_ns: int) -> None:
        self._rr.set_time("time", timestamp=np.datetime64(int(stamp_ns), "ns"))

    def _log(self, path: str, kind: str, **values: Any) -> None:
        self._rr.log(path, getattr(self._rr, kind)(**values))


def ellipsoid(cov: Array) -> tuple[Array, Array]:
    """Half axes at `SIGMAS` standard deviations, and their directions as a quaternion (xyzw)."""
    values, axes = np.linalg.eigh(cov)
    axes = axes * np.sign(np.linalg.det(axes))
    return SIGMAS * np.sqrt(np.maximum(values, 0.0)), Rotation.from_matrix(axes).as_quat()


def _rerun() -> Any:
    try:
        import rerun
    except ImportError as error:
        raise OptionError("--rerun needs Rerun: pip install 'maci2[viewer]'.") from error
    return rerun
