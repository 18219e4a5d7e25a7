"""Errors of an initialization or calibration against ground truth, each under its usual name, and
what the ground truth's own uncertainty adds to them."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from maci2.estimator import Posterior, VIState
from maci2.estimator.problem import BIAS_GYRO, POSITION, ROTATION, STATE, VELOCITY
from maci2.files import finite_or_none
from maci2.geometry import se3_adj, se3_inv, se3_log, skew
from maci2.geometry.gaussian import chi2_quantile, nees
from maci2.geometry.se3 import skew_stack
from maci2.sensors import GroundTruth
from maci2.types import GRAVITY_W, Array
from maci2.vision.pose_sources import MAX_TRUTH_GAP_S as MAX_TRUTH_GAP_S


@dataclass(frozen=True)
class TruthNoise:
    """Covariances of the true values that an estimate is compared with, in its own terms."""

    gravity_c0: Array
    """(3, 3) of gravity in the first camera frame [(m/s^2)^2]."""

    velocity_b: Array
    """(n, 3, 3) each in its own body frame [(m/s)^2]."""

    Ts_c0_b: Array
    """(n, 6, 6) left perturbation, order [rho, phi], [m, rad]; zero for the first pose."""

    gyro_bias: Array
    """(3, 3) of the mean over the keyframes [(rad/s)^2]."""


def truth_noise(truth: GroundTruth, T_b_c: Array) -> TruthNoise | None:
    """Noise of the ground truth at n keyframes, the first of which fixes the frame; None where it
    states no covariance.

    Poses are relative to the first, so what both ends share does not count.
    """
    if truth.covariance is None:
        return None
    places = truth.covariance.nearest(truth.stamps_ns)
    joint = truth.covariance.pairs(np.full_like(places, places[0]), places)
    states = joint[:, STATE:, STATE:]
    seen = compared_derivatives(truth, T_b_c)
    poses = seen.Ts_c0_b @ joint @ np.swapaxes(seen.Ts_c0_b, 1, 2)
    poses[0] = 0.0
    return TruthNoise(
        seen.gravity_c0 @ states[0] @ seen.gravity_c0.T,
        seen.velocity_b @ states @ np.swapaxes(seen.velocity_b, 1, 2),
        poses,
        states[:, BIAS_GYRO, BIAS_GYRO].mean(axis=0),
    )


class ComparedDerivatives(NamedTuple):
    """Derivatives of what is compared by the errors of true states, [phi, v, p, bg, ba] each."""

    gravity_c0: Array
    """(3, 15) by the first state."""
    velocity_b: Array
    """(n, 3, 15) each by its own state."""
    Ts_c0_b: Array
    """(n, 6, 30) left perturbation [rho, phi], by the first state and its own."""


def compared_derivatives(truth: GroundTruth, T_b_c: Array) -> ComparedDerivatives:
    """Gravity, velocities and poses, at n keyframes the first of which fixes the frame."""
    R_w_b, T_c_b = truth.Ts_w_b[:, :3, :3], se3_inv(T_b_c)
    gravity = np.zeros((3, STATE))
    gravity[:, ROTATION] = T_c_b[:3, :3] @ skew(R_w_b[0].T @ GRAVITY_W)
    velocity = np.zeros((len(truth), 3, STATE))
    velocity[:, :, ROTATION] = skew_stack(np.einsum("kji,kj->ki", R_w_b, truth.v_w))
    velocity[:, :, VELOCITY] = np.swapaxes(R_w_b, 1, 2)
    T_b0_b = se3_inv(truth.Ts_w_b[0]) @ truth.Ts_w_b
    # rho = dp + [p]x theta: the rotation of the first body cancels in it.
    by_first, by_own = np.zeros((2, len(truth), 6, STATE))
    by_first[:, :3, POSITION] = -R_w_b[0].T
    by_first[:, 3:, ROTATION] = -np.eye(3)
    by_own[:, :3, POSITION] = R_w_b[0].T
    by_own[:, :3, ROTATION] = skew_stack(T_b0_b[:, :3, 3]) @ T_b0_b[:, :3, :3]
    by_own[:, 3:, ROTATION] = T_b0_b[:, :3, :3]
    J = np.concatenate([by_first, by_own], axis=2)
    poses = np.asarray(se3_adj(np.ascontiguousarray(T_c_b)) @ J)
    return ComparedDerivatives(gravity, velocity, poses)


class Metric(NamedTuple):
    """Format of an error in tables."""

    title: str
    unit: str
    digits: int


METRICS = {
    "gravity_deg": Metric("gravity", "deg", 3),
    "velocity_rmse": Metric("velocity", "m/s", 4),
    "velocity_paper": Metric("velocity, the paper's form", "m/s", 4),
    "speed_rmse": Metric("speed", "m/s", 4),
    "gyro_bias_pct": Metric("gyro bias", "%", 2),
    "gyro_bias_norm_pct": Metric("gyro bias, norms", "%", 2),
    "rotation_deg": Metric("rotation", "deg", 3),
    "translation_m": Metric("translation", "m", 4),
}
"""Errors of a window by the name that results give them."""

SCORES = ("gravity", "velocity", "gyro_bias", "pose")
"""Quantities with a NEES."""

COVERAGE = 0.95
"""Probability of the ellipsoid inside which errors are counted."""


@dataclass(frozen=True)
class InitErrors:
    """Errors of one window; None where the ground truth has no value."""

    gravity_deg: float
    """Angle between estimated and true gravity, both as unit vectors."""

    velocity_rmse: float | None
    """sqrt of the mean over keyframes of |dv|^2 [m/s]."""

    velocity_paper: float | None
    """The paper's printed form: norm of all keyframes' differences over their number [m/s]."""

    speed_rmse: float | None
    """Root mean square of the difference of speeds (DRT's form) [m/s]; hides errors of
    direction."""

    gyro_bias_pct: float | None
    """Norm of the bias error over the norm of the recording's mean bias [%]."""

    gyro_bias_norm_pct: float | None
    """The paper's form: difference of the two norms over the norm [%]; hides direction."""

    rotation_deg: float
    """Mean over keyframes of the body's rotation error in c0."""

    translation_m: float
    """Mean over keyframes of the body's position error in c0."""

    nees: dict[str, float | None] = field(default_factory=dict)
    """Normalised error squared per degree of freedom, of those of `SCORES` that were estimated."""

    covered: dict[str, float | None] = field(default_factory=dict)
    """Fraction of the errors inside their 95 % ellipsoid, by state: of keyframes for velocity and
    pose."""

    def as_dict(self) -> dict[str, float | None]:
        """Errors as in JSON; null where the ground truth has no value."""
        return {name: getattr(self, name) for name in METRICS}


def initialization_errors(
    state: VIState,
    truth: GroundTruth,
    T_b_c: Array,
    gyro_bias: Array,
    mean_bias: Array,
    posterior: Posterior | None = None,
    noise: TruthNoise | None = None,
) -> InitErrors:
    """Errors of a state against the ground truth at its keyframes.

    `gyro_bias` is the estimated bias of the raw gyroscope, `mean_bias` the mean along the ground
    truth. A state without a posterior has no NEES. `noise` is what the ground truth's own error
    adds to the stated covariances.
    """
    T_c0_w = se3_inv(truth.Ts_w_b[0] @ T_b_c)
    gravity_c0 = T_c0_w[:3, :3] @ GRAVITY_W
    velocity_b = np.einsum("kji,kj->ki", truth.Ts_w_b[:, :3, :3], truth.v_w)
    dv = state.velocity_b - velocity_b
    true_Ts_c0_b = T_c0_w @ truth.Ts_w_b
    xi = pose_errors(state, true_Ts_c0_b)
    speeds = _norms(state.velocity_b) - _norms(velocity_b)
    norm = float(np.linalg.norm(mean_bias))
    scores: dict[str, tuple[Array, int]] = {}  # normalised errors squared, degrees of freedom
    if posterior is not None:
        cov = posterior if noise is None else _with_noise(posterior, noise)
        # Gravity's two angles: the third direction is fixed on the sphere, of no interest off it.
        across = np.linalg.svd(state.gravity_c0[None, :])[2][1:]
        same_norm = gravity_c0 * _norms(state.gravity_c0) / _norms(gravity_c0)
        tilt, cov_tilt = across @ (state.gravity_c0 - same_norm), across @ cov.gravity_c0 @ across.T
        scores["gravity"] = np.atleast_1d(nees(tilt, cov_tilt)), 2
        scores["velocity"] = nees(dv, cov.velocity_b), 3
        scores["pose"] = nees(xi[1:], cov.Ts_c0_b[1:]), 6
        if cov.gyro_bias.any():
            scores["gyro_bias"] = np.atleast_1d(nees(gyro_bias - mean_bias, cov.gyro_bias)), 3
    return InitErrors(
        gravity_deg=angle_deg(state.gravity_c0, gravity_c0),
        velocity_rmse=finite_or_none(float(np.sqrt(np.mean(np.sum(dv**2, axis=1))))),
        velocity_paper=finite_or_none(float(np.linalg.norm(dv) / len(dv))),
        speed_rmse=finite_or_none(float(np.sqrt(np.mean(speeds**2)))),
        gyro_bias_pct=_percent(float(np.linalg.norm(gyro_bias - mean_bias)), norm),
        gyro_bias_norm_pct=_percent(float(abs(np.linalg.norm(gyro_bias) - norm)), norm),
        rotation_deg=float(np.rad2deg(_norms(xi[:, 3:6])).mean()),
        translation_m=float(_norms(state.Ts_c0_b[:, :3, 3] - true_Ts_c0_b[:, :3, 3]).mean()),
        nees={name: finite_or_none(float(e2.mean() / n)) for name, (e2, n) in scores.items()},
        covered={
            name: float((e2 < chi2_quantile(n, COVERAGE)).mean()) if np.isfinite(e2).all() else None
            for name, (e2, n) in scores.items()
        },
    )


def angle_deg(a: Array, b: Array) -> float:
    """Angle between two vectors; atan2 keeps small angles exact."""
    return float(np.rad2deg(np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b)))


def pose_errors(state: VIState, Ts_c0_b: Array) -> Array:
    """(n, 6) left errors [rho, phi] of the estimated poses."""
    return np.array(
        [se3_log(T @ se3_inv(T_true)) for T, T_true in zip(state.Ts_c0_b, Ts_c0_b, strict=True)]
    )


def _percent(error: float, norm: float) -> float | None:
    """None where the ground truth states no bias, or none to relate an error to."""
    return finite_or_none(100.0 * error / norm) if norm > 0.0 else None


def _norms(vectors: Array) -> Array:
    return np.linalg.norm(vectors, axis=-1)


def _with_noise(posterior: Posterior, noise: TruthNoise) -> Posterior:
    """Covariance of the difference between estimate and ground truth."""
    bias = posterior.gyro_bias
    return replace(
        posterior,
        gravity_c0=posterior.gravity_c0 + noise.gravity_c0,
        velocity_b=posterior.velocity_b + noise.velocity_b,
        Ts_c0_b=posterior.Ts_c0_b + noise.Ts_c0_b,
        gyro_bias=bias + noise.gyro_bias if bias.any() else bias,
    )
