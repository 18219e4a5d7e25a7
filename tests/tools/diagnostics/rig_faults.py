"""Faults of calibration, camera clock and ground truth."""

from dataclasses import replace

import numpy as np
from degrading import (
    Degraded,
    Draw,
    camera_path,
    with_cameras,
    with_extrinsics,
    with_noise,
    with_truth,
)

from maci2.geometry import se3_inv, so3_exp
from maci2.types import NS, Array


def rate_not_stated(s: Degraded, rng: Draw) -> Degraded:
    return with_noise(s, rate_hz=float(rng.choice([100.0, 250.0, 400.0])))


def camera_late(s: Degraded, rng: Draw) -> Degraded:
    """Frames are stamped late by 5 to 80 ms, and so is what was computed from them."""
    late_ns = round(rng.choice([-1.0, 1.0]) * rng.uniform(0.005, 0.08) * NS)
    path = camera_path(s.recording)
    vision = replace(path, stamps_ns=path.stamps_ns + late_ns)
    s = with_cameras(s, *(c + late_ns for c in s.recording.camera_stamps_ns))
    return replace(s, vision=vision)


def camera_clock_drifts(s: Degraded, rng: Draw) -> Degraded:
    """Runs fast by half a millisecond a second and more."""
    path = camera_path(s.recording)
    middle_ns = int(path.stamps_ns[len(path) // 2])
    away = (path.stamps_ns - middle_ns) * rng.uniform(0.0005, 0.002) * rng.choice([-1.0, 1.0])
    return replace(s, vision=replace(path, stamps_ns=path.stamps_ns + away.astype(np.int64)))


def lengthened(s: Degraded, factor: float) -> Degraded:
    """Positions of the camera's path times a factor."""
    path = camera_path(s.recording)
    Ts_w_c = path.Ts_w_c.copy()
    Ts_w_c[:, :3, 3] *= factor
    return replace(s, vision=replace(path, Ts_w_c=Ts_w_c))


def path_without_scale(s: Degraded, rng: Draw) -> Degraded:
    """A monocular odometry's."""
    return lengthened(s, rng.choice([rng.uniform(0.1, 0.8), rng.uniform(1.3, 5.0)]))


def path_in_millimetres(s: Degraded, rng: Draw) -> Degraded:
    return lengthened(s, 1000.0)


def path_too_long(s: Degraded, rng: Draw) -> Degraded:
    """A baseline that is a little off."""
    return lengthened(s, rng.choice([0.93, 1.07]))


def path_inverted(s: Degraded, rng: Draw) -> Degraded:
    path = camera_path(s.recording)
    return replace(s, vision=replace(path, Ts_w_c=np.array([se3_inv(T) for T in path.Ts_w_c])))


def extrinsics_inverted(s: Degraded, rng: Draw) -> Degraded:
    return with_extrinsics(s, se3_inv)


def _turn(T: Array, phi: Array) -> Array:
    turned = T.copy()
    turned[:3, :3] = so3_exp(phi) @ T[:3, :3]
    return turned


def extrinsics_rotated(s: Degraded, rng: Draw) -> Degraded:
    axis = rng.standard_normal(3)
    phi = np.deg2rad(rng.uniform(3.0, 90.0)) * axis / np.linalg.norm(axis)
    return with_extrinsics(s, lambda T: _turn(T, phi))


def extrinsics_moved(s: Degraded, rng: Draw) -> Degraded:
    axis = rng.standard_normal(3)
    shift = rng.uniform(0.08, 0.5) * axis / np.linalg.norm(axis)

    def moved(T: Array) -> Array:
        T = T.copy()
        T[:3, 3] += shift
        return T

    return with_extrinsics(s, moved)


def extrinsics_in_millimetres(s: Degraded, rng: Draw) -> Degraded:
    def scaled(T: Array) -> Array:
        T = T.copy()
        T[:3, 3] *= 1000.0
        return T

    return replace(with_extrinsics(s, scaled), vision=None)


def cameras_swapped(s: Degraded, rng: Draw) -> Degraded:
    rig = replace(s.recording.rig, cameras=s.recording.rig.cameras[::-1])
    return replace(s, recording=replace(s.recording, rig=rig))


def truth_late(s: Degraded, rng: Draw) -> Degraded:
    late_ns = round(rng.choice([-1.0, 1.0]) * rng.uniform(0.005, 0.4) * NS)
    return with_truth(s, stamps_ns=s.recording.truth().stamps_ns + late_ns)


def truth_inverted(s: Degraded, rng: Draw) -> Degraded:
    return with_truth(s, Ts_w_b=np.array([se3_inv(T) for T in s.recording.truth().Ts_w_b]))


def truth_turned(s: Degraded, rng: Draw) -> Degraded:
    axis = rng.standard_normal(3)
    phi = np.deg2rad(rng.uniform(2.0, 20.0)) * axis / np.linalg.norm(axis)
    Ts_w_b = s.recording.truth().Ts_w_b.copy()
    Ts_w_b[:, :3, :3] = Ts_w_b[:, :3, :3] @ so3_exp(phi)
    return with_truth(s, Ts_w_b=Ts_w_b)


def truth_of_another_recording(s: Degraded, rng: Draw) -> Degraded:
    """The same timestamps, another motion."""
    truth = s.recording.truth()
    return with_truth(s, Ts_w_b=truth.Ts_w_b[::-1].copy(), v_w=-truth.v_w[::-1])


def truth_in_another_unit(s: Degraded, rng: Draw) -> Degraded:
    truth, Ts_w_b = s.recording.truth(), s.recording.truth().Ts_w_b.copy()
    scale = float(rng.choice([1000.0, 100.0, 1.0 / 0.3048, 1.0 / 0.0254]))
    Ts_w_b[:, :3, 3] *= scale
    return with_truth(s, Ts_w_b=Ts_w_b, v_w=scale * truth.v_w)


def truth_mirrored(s: Degraded, rng: Draw) -> Degraded:
    """One axis of positions has the other sign."""
    truth = s.recording.truth()
    signs = np.ones(3)
    signs[rng.integers(3)] = -1.0
    Ts_w_b = truth.Ts_w_b.copy()
    Ts_w_b[:, :3, 3] *= signs
    return with_truth(s, Ts_w_b=Ts_w_b, v_w=signs * truth.v_w)


def truth_upside_down(s: Degraded, rng: Draw) -> Degraded:
    """A world whose z axis points down."""
    truth = s.recording.truth()
    R = so3_exp(np.array([0.0, 0.0, rng.uniform(-3.0, 3.0)])) @ np.diag([1.0, -1.0, -1.0])
    Ts_w_b = truth.Ts_w_b.copy()
    Ts_w_b[:, :3] = R @ truth.Ts_w_b[:, :3]
    return with_truth(s, Ts_w_b=Ts_w_b, v_w=truth.v_w @ R.T)


def truth_lost(s: Degraded, rng: Draw) -> Degraded:
    """A tracker that wrote its origin while it had lost the body."""
    Ts_w_b = s.recording.truth().Ts_w_b.copy()
    first = int(rng.integers(len(Ts_w_b) // 4, len(Ts_w_b) // 2))
    Ts_w_b[first : first + len(Ts_w_b) // 10] = np.eye(4)
    return with_truth(s, Ts_w_b=Ts_w_b)


def truth_hours_off(s: Degraded, rng: Draw) -> Degraded:
    off_ns = round(rng.choice([-1.0, 1.0]) * rng.uniform(20.0, 36000.0) * NS)
    return with_truth(s, stamps_ns=s.recording.truth().stamps_ns + off_ns)
