"""sqrt-VINS' initializer (T-RO 2025) for one camera or two: closed form, then MAP.

1. Gyroscope bias from the bearings of all pairs of keyframes and cameras.
2. Every pair's bearings, turned into the first body, give the direction of its translation: normal
   vectors beyond three standard deviations of the median are dropped.
3. The two directions E across it say E' (c_1 - c_0) = 0, linear in start velocity and gravity:
   c = v_0 t + g t^2 / 2 + alpha + R p_bc. Two cameras bring scale by their places.
4. The original ends with an iterated square-root filter; an iterated MAP with the same priors (0.1
   rad, 1 m/s, 0.01 rad/s, 0.05 m/s^2, ten iterations) is the same estimator. It states a
   covariance.

Its own windows are 0.15 to 0.3 s of five keyframes; here it runs on the window that all run on. The
camera's time offset is left out.
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.estimator import VIState
from maci2.imu import GAMMA, Preintegrated
from maci2.types import Array, Mask
from maci2_lab.baselines import bundle_adjustment as ba
from maci2_lab.baselines.alignment import IntegratedMotion, integrated, raw_motion, solve_on_sphere
from maci2_lab.baselines.epipolar import bearing_pairs, fit_bias, plain
from maci2_lab.baselines.openvins import VAR_WALK, BiasGuess, take
from maci2_lab.baselines.segment import Answer, Segment, stage

MAX_FEATURES = 50
MIN_FEATURES = {False: 20, True: 30}
"""Number of points that must be triangulated, with one and with two cameras."""

MIN_MATCHES = 5
MAX_REPROJECTION_PX = 3.0
OUTLIER_STDS = 3.0
ITERATIONS = 10
STD_ROTATION, STD_VELOCITY, STD_GYRO_BIAS, STD_ACC_BIAS = 0.1, 1.0, 0.01, 0.05


@dataclass(frozen=True)
class Views:
    """All pairs of keyframes and cameras."""

    first: Array
    """(m,) keyframe of the first view."""

    second: Array
    """(m,) keyframe of the second one, later."""

    offsets: tuple[Array, Array]
    """(m,) offsets of the two cameras along x of the left one [m]."""

    f0: Array
    """(m, p, 3) bearings in the first view."""

    f1: Array
    """(m, p, 3) bearings in the second."""

    both: Mask
    """(m, p) points seen in both."""


def sqrtvins(segment: Segment, stereo: bool, guess: BiasGuess) -> Answer:
    """Initialization by one camera or two, with the bias priors of its configuration."""
    views = all_views(segment, stereo)
    gyro_bias = estimate_gyro_bias(segment, views, np.array(guess.gyro))
    acc_bias = np.array(guess.acc)
    motion = integrated(raw_motion(segment, gyro_bias, acc_bias))
    v0_b0, gravity_b0 = closed_form(segment, views, motion)
    state = motion.state(segment, v0_b0, gravity_b0, gyro_bias, acc_bias)
    return _map(segment, state, stereo)


def all_views(segment: Segment, stereo: bool) -> Views:
    """Pairs of different keyframes, over the longest tracks."""
    tracks = segment.tracks
    chosen = ba.longest(tracks, MAX_FEATURES, 2)
    cameras = [(tracks.seen, tracks.bearings, 0.0)]
    if stereo:
        cameras.append((tracks.seen_right, tracks.bearings_right, tracks.baseline))
    i, j = np.triu_indices(len(tracks.stamps_ns), 1)
    parts = [
        (f0[chosen][:, i], f1[chosen][:, j], seen0[chosen][:, i] & seen1[chosen][:, j], o0, o1)
        for seen0, f0, o0 in cameras
        for seen1, f1, o1 in cameras
    ]
    both = np.concatenate([part[2].T for part in parts])
    enough = both.sum(axis=1) >= MIN_MATCHES
    count = len(parts)
    return Views(
        np.tile(i, count)[enough],
        np.tile(j, count)[enough],
        (
            np.repeat([part[3] for part in parts], len(i))[enough],
            np.repeat([part[4] for part in parts], len(i))[enough],
        ),
        np.concatenate([part[0].swapaxes(0, 1) for part in parts])[enough],
        np.concatenate([part[1].swapaxes(0, 1) for part in parts])[enough],
        both[enough],
    )


def estimate_gyro_bias(segment: Segment, views: Views, guess: Array) -> Array:
    """Bias at which the normals of all pairs lie in planes; starts at the guess."""
    if len(views.both) == 0:
        raise np.linalg.LinAlgError(f"no two views share {MIN_MATCHES} points")
    pre = raw_motion(segment, guess)
    gamma, D_bg = _chained(pre, views)
    R_b_c = segment.T_b_c[:3, :3]
    pairs = bearing_pairs(views.f0, views.f1, views.both, gamma, D_bg, R_b_c)
    return np.asarray(guess + fit_bias(pairs, plain).bias, np.float64)


def _chained(pre: Preintegrated, views: Views) -> tuple[Array, Array]:
    """Rotations (m, 3, 3) between the keyframes of each pair, and their derivatives by the bias."""
    n = len(pre.dt) + 1
    gamma, D = np.zeros((n, n, 3, 3)), np.zeros((n, n, 3, 3))
    for i in range(n):
        gamma[i, i] = np.eye(3)
        for j in range(i, n - 1):
            gamma[i, j + 1] = gamma[i, j] @ pre.gamma[j]
            D[i, j + 1] = pre.gamma[j].T @ D[i, j] + pre.D_bg[j, GAMMA]
    return gamma[views.first, views.second], D[views.first, views.second]


@stage("closed form")
def closed_form(segment: Segment, views: Views, motion: IntegratedMotion) -> tuple[Array, Array]:
    """Initial velocity and gravity of known norm, in the first body."""
    across = translation_complements(segment, views, motion)
    i, j = views.first, views.second
    t0, t1 = motion.t[i], motion.t[j]
    R_b_c, p_b_c = segment.T_b_c[:3, :3], segment.T_b_c[:3, 3]
    place0, place1 = (
        motion.alpha[k]
        + np.einsum("mij,mj->mi", motion.Rs_b0_b[k], p_b_c + offset[:, None] * R_b_c[:, 0])
        for k, offset in ((i, views.offsets[0]), (j, views.offsets[1]))
    )
    rows = np.concatenate(
        [
            (t1 - t0)[:, None, None] * across,
            0.5 * (t1**2 - t0**2)[:, None, None] * across,
        ],
        axis=2,
    ).reshape(-1, 6)
    right = -np.einsum("mij,mj->mi", across, place1 - place0).ravel()
    x = solve_on_sphere(rows.T @ rows, rows.T @ right, slice(3, 6), segment.gravity_norm)
    return x[:3], x[3:]


def translation_complements(segment: Segment, views: Views, motion: IntegratedMotion) -> Array:
    """(m, 2, 3) two directions perpendicular to the translation of each pair, in the first body."""
    Rs_b0_c = motion.Rs_b0_b @ segment.T_b_c[:3, :3]
    f0, f1 = (
        np.where(views.both[..., None], f, 0.0) @ np.swapaxes(Rs_b0_c[k], 1, 2)
        for f, k in ((views.f0, views.first), (views.f1, views.second))
    )
    n = np.cross(f0, f1)
    norms = np.linalg.norm(n, axis=2)
    unit = n / np.where(norms > 0.0, norms, 1.0)[..., None]
    H = np.swapaxes(unit, 1, 2) @ unit
    direction = np.linalg.eigh(H)[1][:, :, 0]
    residuals = np.abs((unit @ direction[:, :, None])[..., 0])
    residuals = np.where(views.both, residuals, np.nan)
    median = np.nanmedian(residuals, axis=1, keepdims=True)
    std = np.nanstd(residuals, axis=1, keepdims=True)
    kept = np.abs(residuals - median) <= OUTLIER_STDS * std
    n = np.where(kept[..., None], n, 0.0)
    vectors = np.linalg.eigh(np.swapaxes(n, 1, 2) @ n)[1]
    return np.swapaxes(vectors[:, :, 1:], 1, 2)


def _map(segment: Segment, state: VIState, stereo: bool) -> Answer:
    """Iterated MAP over all states and points, from the closed form."""
    tracks = segment.tracks
    start = ba.from_vi_state(state)
    seen, start = ba.with_points(segment, start, ba.longest(tracks, MAX_FEATURES, 2), stereo)
    info = ba.gauge_information(STD_GYRO_BIAS, STD_ACC_BIAS)
    info[0:2] = STD_ROTATION**-2
    info[ba.VELOCITY] = STD_VELOCITY**-2
    bundle = ba.inertial_bundle(segment, seen, start, ba.squares, info, var_walk=VAR_WALK)
    needed = MIN_FEATURES[stereo]
    if len(start.points_w) < needed:
        reason = f"{len(start.points_w)} points could be triangulated, needed {needed}"
        return Answer(False, reason, state)
    result = ba.adjust(bundle, start, ITERATIONS)
    fine = ba.reprojection_px(bundle, result.state, tracks.focal_px) < MAX_REPROJECTION_PX
    if int(fine.sum()) < needed:
        reason = (
            f"{int(fine.sum())} points reproject within {MAX_REPROJECTION_PX:g} px, needed {needed}"
        )
        return Answer(False, reason, ba.to_vi_state(segment, result.state))
    if not fine.all():
        start = result.state.with_points(result.state.points_w[fine])
        result = ba.adjust(replace(bundle, seen=take(seen, fine)), start, ITERATIONS)
    return ba.answer_of(segment, result.state, result.cov)
