"""Camera motion from keyframe to keyframe, with covariance: what estimation takes from vision."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maci2 import __version__
from maci2.errors import MeasurementError
from maci2.files import NpzField, read_npz
from maci2.gaussian import require_spd
from maci2.types import NS, Array, Stamps

CameraFrame = Literal["camera", "rectified"]


MAX_SPEED, MAX_RATE = 5.0, 3.0
"""[m/s, rad/s] How fast a camera may have moved in a step of which nothing is known."""


KNOWN_SHARE = 0.05
"""Of those variances: below it something was measured."""


POSE_FIELDS = {
    "stamps_ns": NpzField("iu", ("m", 2)),
    "T_ck_ck1": NpzField("f", ("m", 4, 4)),
    "cov": NpzField("f", ("m", 6, 6)),
    "frame": NpzField("U", ()),
}


def any_motion(dt: float) -> Array:
    """(6, 6) covariance that covers whatever a camera can do in `dt` seconds, [rho, phi]."""
    return np.diag(np.array([MAX_SPEED * dt] * 3 + [MAX_RATE * dt] * 3) ** 2)


@dataclass(frozen=True)
class RelativePoses:
    """Motion of the left camera between consecutive keyframes, as vision measured it."""

    stamps_ns: Stamps
    """(n,) keyframes, strictly increasing."""

    Ts_ck_ck1: Array
    """(n - 1, 4, 4); each takes points from camera k+1 to camera k."""

    covs_T_ck_ck1: Array
    """(n - 1, 6, 6) left perturbation, order [rho, phi], [m, rad] (Eq. 6)."""

    frame: CameraFrame = "camera"
    """Which frame c is: the camera itself, or its rectified image's (T_b_cr = T_b_c R_c_cr)."""

    std_scale: float = 0.0
    """Of a factor on all translations alike, which no covariance of single steps can express."""

    def __post_init__(self) -> None:
        steps = len(self.stamps_ns) - 1
        if self.Ts_ck_ck1.shape != (steps, 4, 4) or self.covs_T_ck_ck1.shape != (steps, 6, 6):
            raise MeasurementError(
                f"{steps + 1} keyframes need Ts_ck_ck1 ({steps}, 4, 4) and covs_T_ck_ck1 "
                f"({steps}, 6, 6); found {self.Ts_ck_ck1.shape} and {self.covs_T_ck_ck1.shape}."
            )
        if steps < 1 or (np.diff(self.stamps_ns) <= 0).any():
            raise MeasurementError("keyframe stamps must be at least two and strictly increasing.")
        if not np.isfinite(self.Ts_ck_ck1).all():
            raise MeasurementError("Ts_ck_ck1 holds NaN or infinity; drop those keyframes.")
        if not 0.0 <= self.std_scale < 0.5:
            raise MeasurementError(
                f"std_scale is {self.std_scale}, needed a share of the translation from 0 to 0.5."
            )
        require_spd(self.covs_T_ck_ck1, "covs_T_ck_ck1")

    def __len__(self) -> int:
        return len(self.stamps_ns)

    def part(self, first: int, last: int) -> "RelativePoses":
        """Keyframes first to last, both included."""
        return replace(
            self,
            stamps_ns=self.stamps_ns[first : last + 1],
            Ts_ck_ck1=self.Ts_ck_ck1[first:last],
            covs_T_ck_ck1=self.covs_T_ck_ck1[first:last],
        )

    @property
    def measured(self) -> NDArray[np.bool_]:
        """(n - 1,) steps of which more is known than that a camera moves no faster than it can."""
        variances = np.diagonal(self.covs_T_ck_ck1, axis1=1, axis2=2)
        dt = np.diff(self.stamps_ns) / NS
        anything = np.array([np.diag(any_motion(one)) for one in dt])
        return np.asarray((variances < KNOWN_SHARE * anything).all(axis=1))


def save_relative_poses(path: Path, poses: RelativePoses) -> None:
    """Write the `.npz` of docs/conventions.md, to a temporary name first."""
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        np.savez(
            file,
            stamps_ns=np.stack([poses.stamps_ns[:-1], poses.stamps_ns[1:]], axis=1),
            T_ck_ck1=poses.Ts_ck_ck1,
            cov=poses.covs_T_ck_ck1,
            frame=poses.frame,
            version=__version__,
        )
    partial.replace(path)


@dataclass(frozen=True)
class MeasuredPoses:
    """A file of measured steps; they need not touch each other."""

    stamps_ns: Stamps
    """(m, 2) from, to."""

    Ts_ck_ck1: Array
    covs_T_ck_ck1: Array
    frame: CameraFrame
    source: str


def load_relative_poses(path: Path) -> MeasuredPoses:
    """Read what `save_relative_poses` or `maci2 vo` wrote."""
    if not path.is_file():
        raise MeasurementError(f"{path}: no such file; `maci2 vo` writes one.")
    content = read_npz(path, POSE_FIELDS, "relative poses that `maci2 vo` wrote")
    frame = str(content["frame"])
    steps = MeasuredPoses(
        content["stamps_ns"].astype(np.int64),
        content["T_ck_ck1"].astype(np.float64),
        content["cov"].astype(np.float64),
        "rectified" if frame == "rectified" else "camera",
        str(path),
    )
    if frame not in ("camera", "rectified"):
        raise MeasurementError(f"{path}: frame is '{frame}', needed 'camera' or 'rectified'.")
    require_spd(steps.covs_T_ck_ck1, f"{path}: cov")
    return steps
