"""OpenVINS' initializers (Geneva et al., ICRA 2020): static, and dynamic of linear and MLE part.

Static: the device must stand still, then jerk: the spread of |a| is below 1.5 m/s^2 in the older
half of the window and above in the newer. Gravity, biases and zero velocity are means of the older.

Dynamic: points, start velocity and gravity by a linear system with the bias guess, then maximum
likelihood over poses, velocities, biases and points (Cauchy's loss, 1 px; priors about the guess of
0.05 rad/s and 0.1 m/s^2), which must converge in 50 iterations. Its covariance is inflated: 10 for
rotation and gyroscope bias, 100 for velocity and accelerometer bias. The time limit of 0.05 s is
left out: a number of iterations can take its place. Two cameras, as in its EuRoC configuration.
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.types import Array, Mask
from maci2_lab.baselines import bundle_adjustment as ba
from maci2_lab.baselines.alignment import (
    IntegratedMotion,
    integrated,
    raw_motion,
    solve_on_sphere,
    with_norm,
)
from maci2_lab.baselines.segment import Answer, Segment, stage


@dataclass(frozen=True)
class LinearFeatures:
    """The solution, in the first body."""

    v0_b0: Array
    gravity_b0: Array
    points_b0: Array
    """(p, 3) [m]"""


@stage("closed form")
def solve_features(
    seen: ba.Observations, motion: IntegratedMotion, gravity_norm: float
) -> LinearFeatures:
    """Least squares with equally weighted rows.

    Initial velocity, gravity and points in one linear system (Dong-Si and Mourikis, IROS 2012).

    With rotations by the gyroscope, a point X in the first body appears at (x, y) in the camera at
    k if

        [1 0 -x; 0 1 -y] (R_cb R_k0 (X - v_0 t - g t^2 / 2 - alpha_k) - R_cb p_bc - offset) = 0,

    which is linear in X, v_0 and g. Points are eliminated one by one; gravity has its norm.
    """
    by_point, by_motion, right = feature_rows(seen, motion)
    V = _sum(by_point, by_point)
    W = _sum(by_point, by_motion)
    b_points = _sum(by_point, right)
    V_inv = np.linalg.inv(V)
    H = _sum(by_motion, by_motion).sum(axis=0)
    b = _sum(by_motion, right).sum(axis=0)[:, 0]
    eliminated = np.swapaxes(W, 1, 2) @ V_inv
    H = H - (eliminated @ W).sum(axis=0)
    b = b - (eliminated @ b_points).sum(axis=0)[:, 0]
    x = solve_on_sphere(H, b, slice(3, 6), gravity_norm)
    points_b0 = (V_inv @ (b_points - (W @ x)[:, :, None]))[:, :, 0]
    return LinearFeatures(x[:3], x[3:], points_b0)


def feature_rows(seen: ba.Observations, motion: IntegratedMotion) -> tuple[Array, Array, Array]:
    """Rows (p, r, 3) by the point, (p, r, 6) by [v_0, g], right sides (p, r, 1); zero where a
    point is not seen."""
    R_c_b = seen.T_b_c[:3, :3].T
    lever_c = R_c_b @ seen.T_b_c[:3, 3]
    by_camera = np.zeros((*seen.xy.shape, 3))
    by_camera[..., 0, 0] = by_camera[..., 1, 1] = seen.seen
    by_camera[..., 2] = -seen.xy
    by_point = by_camera @ (R_c_b @ np.swapaxes(motion.Rs_b0_b, 1, 2))
    t = motion.t[:, None, None]
    by_motion = np.concatenate([-t * by_point, -0.5 * t**2 * by_point], axis=-1)
    shifts = np.stack([seen.offsets, 0.0 * seen.offsets, 0.0 * seen.offsets], axis=1) + lever_c
    right = (by_point @ motion.alpha[:, :, None])[..., 0]
    right = right + np.einsum("cpkij,cj->cpki", by_camera, shifts)
    return _by_point(by_point), _by_point(by_motion), _by_point(right[..., None])


def _by_point(rows: Array) -> Array:
    """(c, p, n, 2, d) -> (p, 2 c n, d)."""
    c, p, n, two, d = rows.shape
    return np.moveaxis(rows, 1, 0).reshape(p, c * n * two, d)


def _sum(a: Array, b: Array) -> Array:
    return np.asarray(np.swapaxes(a, 1, 2) @ b, np.float64)


MAX_FEATURES = 50
MIN_FEATURE_SHARE = 0.75
"""Fraction of the requested features that must have been tracked."""

MIN_VALID = 8
MIN_POSES = 6
MIN_VIEWS = 3
MIN_ROTATION_DEG = 10.0
MAX_STATIC_STD = 1.5
"""[m/s^2]"""

ITERATIONS = 50
STD_GYRO_BIAS, STD_ACC_BIAS = 0.05, 0.10
VAR_WALK = np.array([1.9393e-5**2] * 3 + [3.0e-3**2] * 3)
INFLATION = np.repeat([10.0, 1.0, 100.0, 10.0, 100.0], 3)
"""(15,) factors on the covariance of a keyframe."""


@dataclass(frozen=True)
class BiasGuess:
    """Biases in the configuration files for one sensor."""

    gyro: tuple[float, float, float] = (0.0, 0.0, 0.0)
    acc: tuple[float, float, float] = (0.0, 0.0, 0.0)


NO_GUESS = BiasGuess()
EUROC_GUESS = BiasGuess((-0.0022, 0.0216, 0.0783), (-0.0358, -0.0005, 0.0145))
"""Bias guess in the EuRoC configurations of sqrt-VINS and FF-VIO-Init."""


def openvins_static(segment: Segment) -> Answer:
    """Means of the older half, which must be stationary while the newer is not."""
    raw, stamps_ns = segment.raw, segment.stamps_ns
    middle_ns = (int(stamps_ns[0]) + int(stamps_ns[-1])) // 2
    older = (raw.stamps_ns >= stamps_ns[0]) & (raw.stamps_ns < middle_ns)
    newer = (raw.stamps_ns >= middle_ns) & (raw.stamps_ns <= stamps_ns[-1])
    mean_acc, gyro_bias = raw.acc[older].mean(axis=0), raw.gyro[older].mean(axis=0)
    gravity_b0 = with_norm(-mean_acc, segment.gravity_norm)
    acc_bias = mean_acc + gravity_b0
    motion = integrated(raw_motion(segment, gyro_bias, acc_bias))
    state = motion.state(segment, np.zeros(3), gravity_b0, gyro_bias, acc_bias)
    still, jerk = (_spread(raw.acc[part]) for part in (older, newer))
    if still > MAX_STATIC_STD:
        return Answer(False, f"it moves: |a| spreads by {still:.2f} m/s^2 in the first half", state)
    if jerk < MAX_STATIC_STD:
        reason = f"no jerk: |a| spreads by {jerk:.2f} m/s^2 in the second half, needed "
        return Answer(False, reason + f"{MAX_STATIC_STD:g}", state)
    return Answer(True, "", state)


def openvins_dynamic(
    segment: Segment, guess: BiasGuess, iterations: int = ITERATIONS, stereo: bool = True
) -> Answer:
    """Dynamic initialization with a bias guess; without iterations only its linear part."""
    tracks = segment.tracks
    chosen = ba.longest(tracks, MAX_FEATURES, MIN_VIEWS)
    reason = _rejection(segment, int(chosen.sum()))
    if int(chosen.sum()) < MIN_VALID:
        return Answer(False, reason)
    gyro_bias, acc_bias = np.array(guess.gyro), np.array(guess.acc)
    motion = integrated(raw_motion(segment, gyro_bias, acc_bias))
    seen = ba.observations(tracks, segment.T_b_c, chosen, stereo)
    found = solve_features(seen, motion, segment.gravity_norm)
    state = motion.state(segment, found.v0_b0, found.gravity_b0, gyro_bias, acc_bias)
    start = ba.from_vi_state(state)
    R_w_b0 = start.Rs_w_b[0]
    start = start.with_points(found.points_b0 @ R_w_b0.T)
    valid = in_front(seen, start)
    if int(valid.sum()) < MIN_VALID:
        reason = reason or f"{int(valid.sum())} points lie in front of their cameras"
        return Answer(False, f"{reason}, needed {MIN_VALID}", state)
    if iterations == 0:
        return Answer(not reason, reason, state)
    start = start.with_points(start.points_w[valid])
    priors = ba.gauge_information(STD_GYRO_BIAS, STD_ACC_BIAS)
    seen = take(seen, valid)
    bundle = ba.inertial_bundle(segment, seen, start, ba.cauchy(1.0), priors, var_walk=VAR_WALK)
    result = ba.adjust(bundle, start, iterations)
    if not result.converged:
        reason = reason or f"the optimization did not converge in {iterations} iterations"
    cov = None if result.cov is None else _inflated(result.cov)
    return ba.answer_of(segment, result.state, cov, reason)


def _inflated(cov: Array) -> Array:
    """Covariance of the keyframes (15 n, 15 n), inflated as its initializer does."""
    scale = np.tile(np.sqrt(INFLATION), len(cov) // ba.SIZE)
    return np.asarray(scale[:, None] * cov * scale, np.float64)


def _rejection(segment: Segment, features: int) -> str:
    wanted = MIN_FEATURE_SHARE * MAX_FEATURES
    if features < wanted:
        return f"{features} features were tracked, needed {wanted:.0f}"
    if len(segment.stamps_ns) < MIN_POSES:
        return f"{len(segment.stamps_ns)} poses, needed {MIN_POSES}"
    turned = turned_deg(segment)
    if turned < MIN_ROTATION_DEG:
        return f"it rotated by {turned:.1f} deg, needed {MIN_ROTATION_DEG:g}"
    return ""


def turned_deg(segment: Segment) -> float:
    """Total rotation within the window from the uncorrected gyroscope [deg]."""
    raw = segment.raw
    inside = (raw.stamps_ns >= segment.stamps_ns[0]) & (raw.stamps_ns <= segment.stamps_ns[-1])
    dt = np.diff(raw.stamps_ns[inside]) / 1e9
    return float(np.rad2deg((np.linalg.norm(raw.gyro[inside][:-1], axis=1) * dt).sum()))


def in_front(seen: ba.Observations, x: ba.BundleState) -> Mask:
    """(p,) whether points are in front of every camera that sees them."""
    _, in_camera, _ = ba.projections(seen, x)
    return np.asarray(((in_camera[..., 2] > 0.0) | ~seen.seen).all(axis=(0, 2)))


def take(seen: ba.Observations, chosen: Mask) -> ba.Observations:
    """Observations of some of the points."""
    return replace(seen, seen=seen.seen[:, chosen], xy=seen.xy[:, chosen])


def _spread(acc: Array) -> float:
    """Standard deviation of the norm, as the original computes it."""
    return float(np.linalg.norm(acc, axis=1).std(ddof=1))
