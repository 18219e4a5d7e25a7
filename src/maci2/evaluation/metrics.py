"""Errors of an initialization or calibration against ground truth, each under its usual name."""

from dataclasses import dataclass, field

import numpy as np

from maci2.estimation import Posterior, VIState
from maci2.files import finite_or_none
from maci2.gaussian import nees
from maci2.lie import se3_inv, se3_log
from maci2.sensors import GroundTruth
from maci2.types import GRAVITY_W, Array

SUCCESS_GRAVITY_DEG = 2.0
SUCCESS_VELOCITY = 0.1
"""[m/s] The paper's definition of success on EuRoC."""

METRICS = (
    "gravity_deg",
    "velocity_rmse",
    "velocity_paper",
    "speed_rmse",
    "gyro_bias_pct",
    "gyro_bias_norm_pct",
    "rotation_deg",
    "translation_m",
)
"""Names of the errors of a window, as results and tables write them."""

SCORES = ("gravity", "velocity", "gyro_bias", "pose")
"""Quantities with a NEES."""


@dataclass(frozen=True)
class InitErrors:
    """One window's errors; NaN where the ground truth does not say."""

    gravity_deg: float
    """Angle between estimated and true gravity, both as unit vectors."""

    velocity_rmse: float
    """sqrt of the mean over keyframes of |dv|^2 [m/s]."""

    velocity_paper: float
    """The paper's printed form: norm of all keyframes' differences over their number [m/s]."""

    speed_rmse: float
    """Of the difference of speeds (DRT's form) [m/s]; hides errors of direction."""

    gyro_bias_pct: float
    """Norm of the bias error over the norm of the recording's mean bias [%]."""

    gyro_bias_norm_pct: float
    """The paper's form: difference of the two norms over the norm [%]; hides direction."""

    rotation_deg: float
    """Mean over keyframes of the body's rotation error in c0."""

    translation_m: float
    """Mean over keyframes of the body's position error in c0."""

    nees: dict[str, float] = field(default_factory=dict)
    """Normalised error squared per degree of freedom: gravity, velocity, gyro_bias, pose."""

    def as_dict(self) -> dict[str, float | None]:
        """Errors as JSON has them: what the ground truth does not say is null."""
        return {name: finite_or_none(getattr(self, name)) for name in METRICS}

    @property
    def success(self) -> bool:
        """The paper's criterion."""
        return self.gravity_deg < SUCCESS_GRAVITY_DEG and self.velocity_rmse < SUCCESS_VELOCITY


def initialization_errors(
    state: VIState,
    truth: GroundTruth,
    T_b_c: Array,
    gyro_bias: Array,
    mean_bias: Array,
    posterior: Posterior | None = None,
) -> InitErrors:
    """Compare with the truth at the keyframes.

    `gyro_bias` is the estimated bias of the raw gyroscope, `mean_bias` the mean along the ground
    truth. A state without a posterior has no NEES.
    """
    T_c0_w = se3_inv(truth.Ts_w_b[0] @ T_b_c)
    gravity_c0 = T_c0_w[:3, :3] @ GRAVITY_W
    velocity_b = np.einsum("kji,kj->ki", truth.Ts_w_b[:, :3, :3], truth.v_w)
    dv = state.velocity_b - velocity_b
    xi = pose_errors(state, T_c0_w @ truth.Ts_w_b)
    norm = np.linalg.norm(mean_bias)
    return InitErrors(
        gravity_deg=angle_deg(state.gravity_c0, gravity_c0),
        velocity_rmse=float(np.sqrt(np.mean(np.sum(dv**2, axis=1)))),
        velocity_paper=float(np.linalg.norm(dv) / len(dv)),
        speed_rmse=float(np.sqrt(np.mean((_norms(state.velocity_b) - _norms(velocity_b)) ** 2))),
        gyro_bias_pct=float(100.0 * np.linalg.norm(gyro_bias - mean_bias) / norm),
        gyro_bias_norm_pct=float(100.0 * abs(np.linalg.norm(gyro_bias) - norm) / norm),
        rotation_deg=float(np.rad2deg(_norms(xi[:, 3:6])).mean()),
        translation_m=float(_norms(_position_errors(state, T_c0_w @ truth.Ts_w_b)).mean()),
        nees=(
            {}
            if posterior is None
            else _normalised(state, posterior, gravity_c0, dv, xi, gyro_bias - mean_bias)
        ),
    )


def angle_deg(a: Array, b: Array) -> float:
    """Angle between two vectors; atan2 keeps small angles exact."""
    return float(np.rad2deg(np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b)))


def pose_errors(state: VIState, Ts_c0_b: Array) -> Array:
    """(n, 6) left errors [rho, phi] of the estimated poses."""
    return np.array(
        [se3_log(T @ se3_inv(T_true)) for T, T_true in zip(state.Ts_c0_b, Ts_c0_b, strict=True)]
    )


def _position_errors(state: VIState, Ts_c0_b: Array) -> Array:
    return state.Ts_c0_b[:, :3, 3] - Ts_c0_b[:, :3, 3]


def _norms(vectors: Array) -> Array:
    return np.linalg.norm(vectors, axis=-1)


def _normalised(
    state: VIState,
    posterior: Posterior,
    gravity_c0: Array,
    dv: Array,
    xi: Array,
    bias_error: Array,
) -> dict[str, float]:
    # Gravity's two angles: the third direction is fixed on the sphere and of no interest off it.
    across = np.linalg.svd(state.gravity_c0[None, :])[2][1:]
    error = across @ (state.gravity_c0 - gravity_c0 * _norms(state.gravity_c0) / _norms(gravity_c0))
    scores = {
        "gravity": float(nees(error, across @ posterior.gravity_c0 @ across.T) / 2.0),
        "velocity": float(nees(dv, posterior.velocity_b).mean() / 3.0),
        "pose": float(nees(xi[1:], posterior.Ts_c0_b[1:]).mean() / 6.0),
    }
    if posterior.gyro_bias.any():
        scores["gyro_bias"] = float(nees(bias_error, posterior.gyro_bias) / 3.0)
    return scores
