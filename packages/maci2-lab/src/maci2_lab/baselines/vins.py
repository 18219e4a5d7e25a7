"""VINS-Mono: alignment, structure from motion, and extrinsic rotation."""

import cv2
import numpy as np

from maci2.feature_tracks.track_adjustment import triangulate
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.geometry import se3, se3_inv, skew, so3_log
from maci2.geometry.se3 import stack_poses
from maci2.imu import Preintegrated
from maci2.types import Array, Mask
from maci2.vision import RelativePoses
from maci2_lab.baselines import bundle_adjustment as ba
from maci2_lab.baselines.alignment import (
    SCALE_UNIT,
    fit_gyro_bias,
    quaternion_vectors,
    raw_motion,
    rotation_errors,
    scaled_motion_rows,
    solve_rows,
    tangent_basis,
    with_norm,
)
from maci2_lab.baselines.segment import Answer, Segment, stage

MIN_EXCITATION = 0.25
"""Standard deviation of the mean accelerations [m/s^2] below which VINS warns, but continues."""

MAX_NORM_ERROR = 1.0
"""Largest error of gravity's norm before it is refined [m/s^2]."""

REFINEMENTS = 4
AMPLIFICATION = 1000.0
"""Factor on the normal matrix in each refinement."""


def vins(segment: Segment) -> Answer:
    """VINS-Fusion's alignment as released, with its error."""
    return align(segment, segment.Ts_c0_c(), clear_each_time=False)


def vins_fixed(segment: Segment) -> Answer:
    """VINS-Fusion's alignment as described in its paper."""
    return align(segment, segment.Ts_c0_c(), clear_each_time=True)


@stage("closed form")
def align(segment: Segment, Ts_c0_c: Array, clear_each_time: bool) -> Answer:
    """Alignment on given camera poses of any scale.

    VINS-Mono's visual-inertial alignment (Qin et al., T-RO 2018), on the common poses.

    Its own structure from motion is left out. Scale stays an unknown, as in the released code: it
    comes out near 1 where vision is metric, and its error goes into gravity and velocity.

    The released code clears the normal matrix once, before the four steps of gravity's refinement,
    and multiplies it by 1000 in each: the first linearization outweighs the others and its step is
    taken about four times. `vins` does the same, `vins-fixed` clears it in each step.
    """
    Ts_c0_b = Ts_c0_c @ se3_inv(np.ascontiguousarray(segment.T_b_c))
    Rs_c0_b = Ts_c0_b[:, :3, :3]
    pre = raw_motion(segment)
    warning = _excitation_warning(pre)
    gyro_bias = fit_gyro_bias(pre, quaternion_vectors(rotation_errors(pre.gamma, Rs_c0_b)))
    pre = raw_motion(segment, gyro_bias)

    rows, right = scaled_motion_rows(pre, Rs_c0_b, Ts_c0_c[:, :3, 3], segment.T_b_c[:3, 3])
    x = solve_rows(rows, right)
    norm_error = abs(float(np.linalg.norm(x[-4:-1])) - segment.gravity_norm)
    reason = _rejection(norm_error, x[-1] / SCALE_UNIT)
    gravity_c0 = with_norm(x[-4:-1], segment.gravity_norm)
    if not reason:
        x, gravity_c0 = _refine(rows, right, gravity_c0, clear_each_time)
        reason = _rejection(0.0, x[-1] / SCALE_UNIT)

    scale = x[-1] / SCALE_UNIT
    Ts = Ts_c0_b.copy()
    Ts[:, :3, 3] = scale * Ts_c0_c[:, :3, 3] - Rs_c0_b @ segment.T_b_c[:3, 3]
    velocity_b = x[: 3 * len(Ts)].reshape(-1, 3)
    state = segment.state(gravity_c0, velocity_b, gyro_bias, np.zeros(3), Ts)
    return Answer(not reason, reason or warning, state)


def _refine(
    rows: Array, right: Array, gravity_c0: Array, clear_each_time: bool
) -> tuple[Array, Array]:
    """Refinement of [v, w1, w2, 100 s] with gravity moved in its tangent plane four times."""
    norm = float(np.linalg.norm(gravity_c0))
    size = rows.shape[1] - 1
    H, b = np.zeros((size, size)), np.zeros(size)
    x = np.empty(size)
    for _ in range(REFINEMENTS):
        if clear_each_time:
            H, b = np.zeros((size, size)), np.zeros(size)
        across = tangent_basis(gravity_c0)
        J = np.column_stack([rows[:, :-4], rows[:, -4:-1] @ across, rows[:, -1]])
        H = AMPLIFICATION * (H + J.T @ J)
        b = AMPLIFICATION * (b + J.T @ (right - rows[:, -4:-1] @ gravity_c0))
        x = np.linalg.solve(H, b)
        gravity_c0 = with_norm(gravity_c0 + across @ x[-3:-1], norm)
    return x, gravity_c0


def _rejection(norm_error: float, scale: float) -> str:
    if norm_error > MAX_NORM_ERROR:
        return (
            f"gravity's norm is off by {norm_error:.2f} m/s^2, allowed {MAX_NORM_ERROR:g}: vision "
            "and IMU do not fit"
        )
    if scale < 0.0:
        return f"the scale comes out as {scale:.3f}, needed above 0"
    return ""


def _excitation_warning(pre: Preintegrated) -> str:
    mean_acc = pre.beta / pre.dt[:, None]
    spread = float(np.sqrt(np.mean(np.sum((mean_acc - mean_acc.mean(axis=0)) ** 2, axis=1))))
    if spread >= MIN_EXCITATION:
        return ""
    return (
        f"warning only: mean accelerations vary by {spread:.2f} m/s^2, wanted {MIN_EXCITATION:g}; "
        "little excitation"
    )


FOCAL_PX = 460.0
"""Focal length [px] in which its thresholds are written."""

MIN_MATCHES, MIN_PARALLAX_PX = 20, 30.0
RANSAC_PX, RANSAC_CONFIDENCE = 0.3, 0.99
MIN_INLIERS = 12
MIN_PNP = 10
ITERATIONS = 50
MAX_COST = 5e-3
"""Cost up to which a solution that did not converge is accepted."""


@stage("structure")
def reconstruct(tracks: FeatureTracks) -> tuple[Array | None, str]:
    """Poses of the left cameras up to scale from their tracks alone, or why there are none.

    Structure from motion of one camera as in VINS-Mono: poses of all keyframes up to scale.

    The oldest keyframe with more than 20 matches to the newest and 30 px of mean parallax gives the
    first two poses by a fundamental matrix. The others follow by PnP, forward and backward, with
    points triangulated on the way; a bundle adjustment without robust loss holds that keyframe's
    pose and the newest one's position, which is the scale.
    """
    pair = _first_pair(tracks)
    if pair is None:
        return None, "no keyframe has enough parallax to the newest one"
    first, T_first_newest = pair
    newest = len(tracks.stamps_ns) - 1
    found = _Map(tracks)
    found.Ts[newest] = T_first_newest
    found.extend(first, newest)
    for k in (*range(first + 1, newest), *range(first - 1, -1, -1)):
        forward = k > first
        before = found.Ts[k - 1] if forward else found.Ts[k + 1]
        which = tracks.seen[:, k] & found.known
        T = pose_by_pnp(found.points[which], tracks.xy[which, k], before, MIN_PNP)
        if T is None:
            return None, f"keyframe {k} sees fewer than {MIN_PNP} known points"
        found.Ts[k] = T
        found.extend(k, newest if forward else first)
    for k in range(first + 1, newest):
        found.extend(first, k)
    found.extend_rest()
    return _adjusted(found, first)


class _Map:
    """Poses of the keyframes and the points triangulated so far."""

    def __init__(self, tracks: FeatureTracks) -> None:
        self.tracks = tracks
        self.Ts = np.tile(np.eye(4), (len(tracks.stamps_ns), 1, 1))
        self.points, self.known = np.zeros((len(tracks), 3)), np.zeros(len(tracks), dtype=bool)

    def extend(self, *views: int) -> None:
        """Triangulate points that two keyframes observe."""
        which = np.zeros_like(self.tracks.seen)
        which[:, views] = self.tracks.seen[:, views].all(axis=1, keepdims=True)
        self._triangulate(which)

    def extend_rest(self) -> None:
        """Triangulate the remaining points from the first and last keyframe that observe them."""
        seen = self.tracks.seen
        which, rows = np.zeros_like(seen), np.flatnonzero(seen.sum(axis=1) >= 2)
        which[rows, seen[rows].argmax(axis=1)] = True
        which[rows, seen.shape[1] - 1 - seen[rows, ::-1].argmax(axis=1)] = True
        self._triangulate(which)

    def _triangulate(self, which: Mask) -> None:
        """Triangulate unknown points from the views of `which` (p, n)."""
        rows = np.flatnonzero(which.any(axis=1) & ~self.known)
        if len(rows) == 0:
            return
        bearings = np.nan_to_num(self.tracks.bearings[rows])
        rays = np.einsum("kij,pkj->pki", self.Ts[:, :3, :3], bearings)
        found, fine = triangulate(rays, self.Ts[:, :3, 3], which[rows])
        self.points[rows[fine]], self.known[rows[fine]] = found[fine], True


def _first_pair(tracks: FeatureTracks) -> tuple[int, Array] | None:
    """Oldest keyframe with parallax to the newest, and the pose of the newest in it."""
    newest = len(tracks.stamps_ns) - 1
    for k in range(newest):
        both = tracks.seen[:, k] & tracks.seen[:, newest]
        if both.sum() <= MIN_MATCHES:
            continue
        xy0, xy1 = tracks.xy[both, k], tracks.xy[both, newest]
        if FOCAL_PX * np.linalg.norm(xy1 - xy0, axis=1).mean() <= MIN_PARALLAX_PX:
            continue
        T = _relative_pose(xy0, xy1)
        if T is not None:
            return k, T
    return None


def _relative_pose(xy0: Array, xy1: Array) -> Array | None:
    F, mask = cv2.findFundamentalMat(
        xy0, xy1, cv2.FM_RANSAC, RANSAC_PX / FOCAL_PX, RANSAC_CONFIDENCE
    )
    if F is None or F.shape != (3, 3):
        return None
    inliers, R, t, _ = cv2.recoverPose(F, xy0, xy1, np.eye(3), mask=mask)
    if inliers <= MIN_INLIERS:
        return None
    return se3_inv(se3(np.asarray(R, np.float64), np.asarray(t, np.float64).ravel()))


def pose_by_pnp(points: Array, xy: Array, T_before: Array, min_points: int) -> Array | None:
    """Pose from known points by OpenCV's iterative PnP, starting at a neighbour's; None if there
    are too few points or PnP fails."""
    if len(points) < min_points:
        return None
    T_c_w = se3_inv(np.ascontiguousarray(T_before))
    rotation, translation = cv2.Rodrigues(T_c_w[:3, :3])[0], T_c_w[:3, 3:4].copy()
    found, rotation, translation = cv2.solvePnP(
        points, xy, np.eye(3), None, rotation, translation, True
    )
    if not found or not (np.isfinite(rotation).all() and np.isfinite(translation).all()):
        return None
    R = np.asarray(cv2.Rodrigues(rotation)[0], np.float64)
    return se3_inv(se3(R, np.asarray(translation, np.float64).ravel()))


def _adjusted(found: _Map, first: int) -> tuple[Array | None, str]:
    """Poses in the first camera by a bundle adjustment that fixes one pose and the scale."""
    n, tracks = len(found.Ts), found.tracks
    nothing = np.zeros((n, 3))
    poses = found.Ts[:, :3, :3], found.Ts[:, :3, 3]
    start = ba.BundleState(*poses, nothing, nothing, nothing, found.points[found.known])
    fixed = ba.fixed_pose(n, first)
    fixed[n - 1, 3:6] = True
    seen = ba.observations(tracks, np.eye(4), found.known, stereo=False)
    result = ba.adjust(ba.Bundle(seen, 1.0, ba.squares, start, fixed=fixed), start, ITERATIONS)
    if not result.converged and 0.5 * result.cost >= MAX_COST:
        return None, "the bundle adjustment did not converge"
    Ts = stack_poses(result.state.Rs_w_b, result.state.p_w_b)
    return se3_inv(np.ascontiguousarray(Ts[0])) @ Ts, ""


def vins_mono(segment: Segment) -> Answer:
    """VINS-Mono complete (Qin et al., T-RO 2018): its own structure from motion, then the
    alignment.

    As released, and with the fault of its refinement fixed. It runs on the window's keyframes (the
    original: ten keyframes, the newest frame and all frames between).
    """
    return _own_structure(segment, clear_each_time=False)


def vins_mono_fixed(segment: Segment) -> Answer:
    """VINS-Mono as described in its paper."""
    return _own_structure(segment, clear_each_time=True)


def _own_structure(segment: Segment, clear_each_time: bool) -> Answer:
    Ts_c0_c, reason = reconstruct(segment.tracks)
    if Ts_c0_c is None:
        return Answer(False, reason)
    return align(segment, Ts_c0_c, clear_each_time)


MIN_STEPS = 10
MIN_SINGULAR = 0.25
"""Smallest accepted second-smallest singular value; less means too little rotation."""

HUBER_DEG = 5.0
ROUNDS = 10
"""Number of reweighting rounds; the released code reweights with every new frame."""


def vins_rotation(pre: Preintegrated, vision: RelativePoses) -> tuple[Array, str]:
    """Extrinsic rotation R_b_c, and the reason if the method would not accept it.

    Extrinsic rotation as VINS-Mono estimates it (estimate_extrinsic: 2).

    Every step says q_bc q_visual = q_imu q_bc, which is linear in the quaternion q_bc: stack the
    steps and take the smallest right-singular vector. The gyroscope's bias is taken as zero.
    """
    Rs_visual = vision.Ts_ck_ck1[:, :3, :3]
    q_visual = np.array([quaternion(R) for R in Rs_visual])
    q_imu = np.array([quaternion(R) for R in pre.gamma])
    R_b_c = np.eye(3)
    for _ in range(ROUNDS):
        rows = []
        for k in range(len(q_imu)):
            predicted = R_b_c.T @ pre.gamma[k] @ R_b_c
            angle_deg = np.rad2deg(np.linalg.norm(so3_log(Rs_visual[k].T @ predicted)))
            weight = HUBER_DEG / angle_deg if angle_deg > HUBER_DEG else 1.0
            rows.append(weight * (right_product(q_visual[k]) - left_product(q_imu[k])))
        _, singular, Vt = np.linalg.svd(np.concatenate(rows))
        R_b_c = rotation(Vt[-1])
    if len(q_imu) < MIN_STEPS:
        return R_b_c, f"{len(q_imu)} steps, needed {MIN_STEPS}"
    if singular[-2] <= MIN_SINGULAR:
        return R_b_c, (
            f"second smallest singular value {singular[-2]:.3f}, needed above {MIN_SINGULAR}: too "
            "little rotation"
        )
    return R_b_c, ""


def quaternion(R: Array) -> Array:
    """(4,) w first."""
    phi = so3_log(np.ascontiguousarray(R))
    half = 0.5 * np.linalg.norm(phi)
    return np.concatenate([[np.cos(half)], 0.5 * np.sinc(half / np.pi) * phi])


def rotation(q_wxyz: Array) -> Array:
    w, v = q_wxyz[0], q_wxyz[1:]
    return np.asarray((w * w - v @ v) * np.eye(3) + 2.0 * np.outer(v, v) + 2.0 * w * skew(v))


def left_product(q_wxyz: Array) -> Array:
    """(4, 4) L with L p = q p."""
    return _product_matrix(q_wxyz, 1.0)


def right_product(q_wxyz: Array) -> Array:
    """(4, 4) R with R p = p q."""
    return _product_matrix(q_wxyz, -1.0)


def _product_matrix(q_wxyz: Array, sign: float) -> Array:
    w, v = q_wxyz[0], q_wxyz[1:]
    matrix = np.empty((4, 4))
    matrix[0, 0], matrix[0, 1:], matrix[1:, 0] = w, -v, v
    matrix[1:, 1:] = w * np.eye(3) + sign * skew(v)
    return matrix
