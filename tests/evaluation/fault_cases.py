"""Ways to spoil a recording, one at a time, and what the doctor must call each."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from maci2.evaluation.doctor import examine_path
from maci2.evaluation.health import Health
from maci2.gaussian import Array
from maci2.lie import se3_inv, so3_exp
from maci2.sensors import NS, CameraTrajectory, ImuSamples, Recording, poses_at, write_euroc

Draw = np.random.Generator


@dataclass(frozen=True)
class Spoiled:
    """A recording on its way to disk, with the camera motion somebody computed from it."""

    recording: Recording
    vision: CameraTrajectory | None = None
    edit: Callable[[Path], None] = lambda _: None
    """What is done to the files afterwards."""


Spoil = Callable[[Spoiled, Draw], Spoiled]


def camera_path(recording: Recording, seed: int = 0) -> CameraTrajectory:
    """What a good odometry would give: 0.03 deg and 1 mm of noise at every frame."""
    rng = np.random.default_rng(seed)
    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    stamps_ns = recording.camera_stamps_ns[0]
    Ts = poses_at(truth.stamps_ns, truth.Ts_w_b, stamps_ns, 0.06) @ T_b_c
    Ts[:, :3, :3] = (
        Ts[:, :3, :3]
        @ Rotation.from_rotvec(np.deg2rad(0.03) * rng.standard_normal((len(Ts), 3))).as_matrix()
    )
    Ts[:, :3, 3] += 0.001 * rng.standard_normal((len(Ts), 3))
    return CameraTrajectory(stamps_ns, Ts, "vision")


def diagnose(spoiled: Spoiled, folder: Path) -> Health:
    write_euroc(spoiled.recording, folder)
    spoiled.edit(folder / "mav0")
    return examine_path(folder, vision=spoiled.vision)


# --- one thing changed ---------------------------------------------------------------------------


def with_imu(spoiled: Spoiled, **changes: Array) -> Spoiled:
    imu = replace(spoiled.recording.imu, **changes)
    return replace(spoiled, recording=replace(spoiled.recording, imu=imu))


def without_samples(spoiled: Spoiled, keep: Array) -> Spoiled:
    imu = spoiled.recording.imu
    kept = ImuSamples(imu.stamps_ns[keep], imu.gyro[keep], imu.acc[keep], imu.source)
    return replace(spoiled, recording=replace(spoiled.recording, imu=kept))


def with_cameras(spoiled: Spoiled, *stamps_ns: Array) -> Spoiled:
    return replace(spoiled, recording=replace(spoiled.recording, camera_stamps_ns=stamps_ns))


def with_noise(spoiled: Spoiled, **changes: float) -> Spoiled:
    rig = spoiled.recording.rig
    rig = replace(rig, imu=replace(rig.imu, **changes))
    return replace(spoiled, recording=replace(spoiled.recording, rig=rig))


def with_extrinsics(spoiled: Spoiled, change: Callable[[Array], Array]) -> Spoiled:
    """Calibration of both cameras changed; the camera motion stays what it was."""
    rig = spoiled.recording.rig
    cameras = tuple(replace(camera, T_b_c=change(camera.T_b_c)) for camera in rig.cameras)
    recording = replace(spoiled.recording, rig=replace(rig, cameras=cameras))
    return replace(spoiled, vision=camera_path(spoiled.recording), recording=recording)


def with_truth(spoiled: Spoiled, **changes: Array) -> Spoiled:
    [(name, truth)] = spoiled.recording.truths.items()
    truths = {name: replace(truth, **changes)}
    return replace(spoiled, recording=replace(spoiled.recording, truths=truths))


def without_truth(spoil: Spoil) -> Spoil:
    def spoiling(spoiled: Spoiled, rng: Draw) -> Spoiled:
        spoiled = spoil(spoiled, rng)
        return replace(spoiled, recording=replace(spoiled.recording, truths={}))

    return spoiling


def seen_by_vision_only(spoil: Spoil) -> Spoil:
    def spoiling(spoiled: Spoiled, rng: Draw) -> Spoiled:
        vision = camera_path(spoiled.recording)
        return replace(without_truth(spoil)(spoiled, rng), vision=vision)

    return spoiling


def lines_of(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *change(lines)]) + "\n")


# --- the faults ----------------------------------------------------------------------------------


def gap(s: Spoiled, rng: Draw) -> Spoiled:
    n = len(s.recording.imu)
    at, length = int(rng.integers(n // 4, n // 2)), int(rng.integers(20, 400))
    return without_samples(s, np.r_[0:at, at + length : n])


def imu_samples_dropped(s: Spoiled, rng: Draw) -> Spoiled:
    keep = rng.uniform(size=len(s.recording.imu)) > rng.uniform(0.04, 0.15)
    return without_samples(s, np.flatnonzero(keep))


def duplicate_stamps(s: Spoiled, rng: Draw) -> Spoiled:
    at = int(rng.integers(100, 1000))
    return replace(
        s, edit=lambda mav0: lines_of(
            mav0 / "imu0" / "data.csv", lambda lines: [*lines[:at], lines[at - 1], *lines[at:]]
        )
    )  # fmt: skip


def out_of_order(s: Spoiled, rng: Draw) -> Spoiled:
    at = int(rng.integers(20, 150))
    return replace(
        s, edit=lambda mav0: lines_of(
            mav0 / "cam0" / "data.csv",
            lambda lines: [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]],
        )
    )  # fmt: skip


def not_a_number(s: Spoiled, rng: Draw) -> Spoiled:
    at = int(rng.integers(20, 1500))

    def put_nan(lines: list[str]) -> list[str]:
        fields = lines[at].split(",")
        fields[4] = "nan"
        return [*lines[:at], ",".join(fields), *lines[at + 1 :]]

    return replace(s, edit=lambda mav0: lines_of(mav0 / "imu0" / "data.csv", put_nan))


def clock_jump(s: Spoiled, rng: Draw) -> Spoiled:
    stamps_ns = s.recording.imu.stamps_ns.copy()
    stamps_ns[int(rng.integers(1000, 3000)) :] += round(rng.choice([2.0, 37.0, 3600.0]) * NS)
    return with_imu(s, stamps_ns=stamps_ns)


def clock_set_back(s: Spoiled, rng: Draw) -> Spoiled:
    stamps_ns = s.recording.imu.stamps_ns.copy()
    stamps_ns[int(rng.integers(1000, 3000)) :] -= round(rng.uniform(0.5, 100.0) * NS)
    return with_imu(s, stamps_ns=stamps_ns)


def different_clocks(s: Spoiled, rng: Draw) -> Spoiled:
    start_ns = s.recording.camera_stamps_ns[0][0] - round(rng.uniform(1.0, 5000.0) * NS)
    return with_cameras(s, *(c - start_ns for c in s.recording.camera_stamps_ns))


def microseconds(s: Spoiled, rng: Draw) -> Spoiled:
    s = with_cameras(s, *(c // 1000 for c in s.recording.camera_stamps_ns))
    [truth] = s.recording.truths.values()
    s = with_truth(s, stamps_ns=truth.stamps_ns // 1000)
    return with_imu(s, stamps_ns=s.recording.imu.stamps_ns // 1000)


def imu_jitter(s: Spoiled, rng: Draw) -> Spoiled:
    stamps_ns = s.recording.imu.stamps_ns
    late_ns = rng.uniform(0.0, rng.uniform(0.3, 0.9), len(stamps_ns)) * 5e6
    return with_imu(s, stamps_ns=stamps_ns + late_ns.astype(np.int64))


def left_right_offset(s: Spoiled, rng: Draw) -> Spoiled:
    left, right = s.recording.camera_stamps_ns
    offset_s = rng.choice([-1.0, 1.0]) * rng.uniform(0.002, 0.02)
    return with_cameras(s, left, right + round(offset_s * NS))


def unpaired_frames(s: Spoiled, rng: Draw) -> Spoiled:
    """The right camera fires on its own: not offset, just not together."""
    left, right = s.recording.camera_stamps_ns
    share = rng.uniform(0.1, 0.4)
    alone = rng.uniform(size=len(right)) < share
    return with_cameras(s, left, right + np.where(alone, 4_000_000, 0))


def dropped_frames(s: Spoiled, rng: Draw) -> Spoiled:
    left, right = s.recording.camera_stamps_ns
    keep = rng.uniform(size=len(left)) > rng.uniform(0.06, 0.2)
    return with_cameras(s, left[keep], right[keep])


def gyro_in_degrees(s: Spoiled, rng: Draw) -> Spoiled:
    return with_imu(s, gyro=np.degrees(s.recording.imu.gyro))


def acc_in_g(s: Spoiled, rng: Draw) -> Spoiled:
    return with_imu(s, acc=s.recording.imu.acc / 9.80665)


def acc_scale(s: Spoiled, rng: Draw) -> Spoiled:
    return with_imu(s, acc=s.recording.imu.acc * rng.choice([0.25, 0.5, 2.0]))


def gravity_removed(s: Spoiled, rng: Draw) -> Spoiled:
    truth, imu = s.recording.truth(), s.recording.imu
    at = np.searchsorted(truth.stamps_ns, imu.stamps_ns)
    return with_imu(s, acc=imu.acc - 9.81 * truth.Ts_w_b[at, 2, :3])


def stuck_axis(s: Spoiled, rng: Draw) -> Spoiled:
    gyro = s.recording.imu.gyro.copy()
    at, length = int(rng.integers(0, 1000)), int(rng.integers(200, 2000))
    gyro[at : at + length, rng.integers(3)] = gyro[at, 0]
    return with_imu(s, gyro=gyro)


def dead_axis(s: Spoiled, rng: Draw) -> Spoiled:
    acc = s.recording.imu.acc.copy()
    acc[:, rng.integers(3)] = 0.0
    return with_imu(s, acc=acc)


def repeated_samples(s: Spoiled, rng: Draw) -> Spoiled:
    """Read at 200 Hz, measured at 100 or 50."""
    imu, times = s.recording.imu, int(rng.choice([2, 4]))
    held = np.arange(len(imu)) // times * times
    return with_imu(s, gyro=imu.gyro[held], acc=imu.acc[held])


def clipped_axis(s: Spoiled, rng: Draw) -> Spoiled:
    gyro, axis = s.recording.imu.gyro.copy(), int(rng.integers(3))
    limit = np.percentile(np.abs(gyro[:, axis]), rng.uniform(85.0, 98.0))
    gyro[:, axis] = np.clip(gyro[:, axis], -limit, limit)
    return with_imu(s, gyro=gyro)


def swapped_columns(s: Spoiled, rng: Draw) -> Spoiled:
    imu = s.recording.imu
    return with_imu(s, gyro=imu.acc, acc=imu.gyro)


def _turned_axes(rng: Draw) -> Array:
    """One of the 23 other right-handed ways to name the axes."""
    while True:
        P = np.diag(rng.choice([-1.0, 1.0], 3))[rng.permutation(3)]
        if np.linalg.det(P) > 0.0 and np.trace(P) < 3.0:
            return P


def gyro_permuted(s: Spoiled, rng: Draw) -> Spoiled:
    order = [[1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1]][rng.integers(5)]
    return with_imu(s, gyro=s.recording.imu.gyro[:, order])


def gyro_flipped(s: Spoiled, rng: Draw) -> Spoiled:
    signs = np.ones(3)
    signs[rng.integers(3)] = -1.0
    return with_imu(s, gyro=s.recording.imu.gyro * signs)


def acc_permuted(s: Spoiled, rng: Draw) -> Spoiled:
    order = [[1, 2, 0], [2, 0, 1], [2, 1, 0], [0, 2, 1]][rng.integers(4)]
    return with_imu(s, acc=s.recording.imu.acc[:, order])


def imu_turned(s: Spoiled, rng: Draw) -> Spoiled:
    P, imu = _turned_axes(rng), s.recording.imu
    return with_imu(s, gyro=imu.gyro @ P.T, acc=imu.acc @ P.T)


def left_handed(s: Spoiled, rng: Draw) -> Spoiled:
    signs, imu = np.ones(3), s.recording.imu
    signs[rng.integers(3)] = -1.0
    return with_imu(s, gyro=imu.gyro * signs, acc=imu.acc * signs)


def noise_understated(s: Spoiled, rng: Draw) -> Spoiled:
    density = s.recording.rig.imu.density_gyro
    return with_noise(s, density_gyro=density / rng.uniform(15.0, 200.0))


def noise_overstated(s: Spoiled, rng: Draw) -> Spoiled:
    density = s.recording.rig.imu.density_acc
    return with_noise(s, density_acc=density * rng.uniform(15.0, 200.0))


def gyro_bias(s: Spoiled, rng: Draw) -> Spoiled:
    bias = np.zeros(3)
    bias[rng.integers(3)] = rng.choice([-1.0, 1.0]) * rng.uniform(0.3, 1.0)
    return with_imu(s, gyro=s.recording.imu.gyro + bias)


def acc_bias(s: Spoiled, rng: Draw) -> Spoiled:
    bias = np.zeros(3)
    bias[rng.integers(3)] = rng.choice([-1.0, 1.0]) * rng.uniform(0.9, 1.3)
    return with_imu(s, acc=s.recording.imu.acc + bias)


def rate_not_stated(s: Spoiled, rng: Draw) -> Spoiled:
    return with_noise(s, rate_hz=float(rng.choice([100.0, 250.0, 400.0])))


def camera_late(s: Spoiled, rng: Draw) -> Spoiled:
    """Frames are stamped late by 5 to 80 ms, and so is what was computed from them."""
    late_ns = round(rng.choice([-1.0, 1.0]) * rng.uniform(0.005, 0.08) * NS)
    path = camera_path(s.recording)
    vision = replace(path, stamps_ns=path.stamps_ns + late_ns)
    s = with_cameras(s, *(c + late_ns for c in s.recording.camera_stamps_ns))
    return replace(s, vision=vision)


def camera_clock_drifts(s: Spoiled, rng: Draw) -> Spoiled:
    """Runs fast by half a millisecond a second and more."""
    path = camera_path(s.recording)
    middle_ns = int(path.stamps_ns[len(path) // 2])
    away = (path.stamps_ns - middle_ns) * rng.uniform(0.0005, 0.002) * rng.choice([-1.0, 1.0])
    return replace(s, vision=replace(path, stamps_ns=path.stamps_ns + away.astype(np.int64)))


def extrinsics_inverted(s: Spoiled, rng: Draw) -> Spoiled:
    return with_extrinsics(s, se3_inv)


def _turn(T: Array, phi: Array) -> Array:
    turned = T.copy()
    turned[:3, :3] = so3_exp(phi) @ T[:3, :3]
    return turned


def extrinsics_rotated(s: Spoiled, rng: Draw) -> Spoiled:
    axis = rng.standard_normal(3)
    phi = np.deg2rad(rng.uniform(3.0, 90.0)) * axis / np.linalg.norm(axis)
    return with_extrinsics(s, lambda T: _turn(T, phi))


def extrinsics_moved(s: Spoiled, rng: Draw) -> Spoiled:
    axis = rng.standard_normal(3)
    shift = rng.uniform(0.08, 0.5) * axis / np.linalg.norm(axis)

    def moved(T: Array) -> Array:
        T = T.copy()
        T[:3, 3] += shift
        return T

    return with_extrinsics(s, moved)


def extrinsics_in_millimetres(s: Spoiled, rng: Draw) -> Spoiled:
    def scaled(T: Array) -> Array:
        T = T.copy()
        T[:3, 3] *= 1000.0
        return T

    return replace(with_extrinsics(s, scaled), vision=None)


def cameras_swapped(s: Spoiled, rng: Draw) -> Spoiled:
    rig = replace(s.recording.rig, cameras=s.recording.rig.cameras[::-1])
    return replace(s, recording=replace(s.recording, rig=rig))


def truth_late(s: Spoiled, rng: Draw) -> Spoiled:
    late_ns = round(rng.choice([-1.0, 1.0]) * rng.uniform(0.005, 0.4) * NS)
    return with_truth(s, stamps_ns=s.recording.truth().stamps_ns + late_ns)


def truth_inverted(s: Spoiled, rng: Draw) -> Spoiled:
    return with_truth(s, Ts_w_b=np.array([se3_inv(T) for T in s.recording.truth().Ts_w_b]))


def truth_turned(s: Spoiled, rng: Draw) -> Spoiled:
    axis = rng.standard_normal(3)
    phi = np.deg2rad(rng.uniform(2.0, 20.0)) * axis / np.linalg.norm(axis)
    Ts_w_b = s.recording.truth().Ts_w_b.copy()
    Ts_w_b[:, :3, :3] = Ts_w_b[:, :3, :3] @ so3_exp(phi)
    return with_truth(s, Ts_w_b=Ts_w_b)


def truth_of_another_recording(s: Spoiled, rng: Draw) -> Spoiled:
    """The same stamps, another motion."""
    truth = s.recording.truth()
    return with_truth(s, Ts_w_b=truth.Ts_w_b[::-1].copy(), v_w=-truth.v_w[::-1])


FAULTS: dict[str, tuple[Spoil, str]] = {
    "IMU gap": (gap, "imu: a gap"),
    "IMU samples dropped": (imu_samples_dropped, "imu: dropped samples"),
    "duplicate stamps": (duplicate_stamps, "is a duplicate of stamp"),
    "stamps out of order": (out_of_order, "is earlier than stamp"),
    "not a number": (not_a_number, "NaN"),
    "clock jump": (clock_jump, "imu: the clock jumps"),
    "clock set back": (clock_set_back, "The clock was set back"),
    "different clocks": (different_clocks, "IMU and camera are on different clocks"),
    "stamps in microseconds": (microseconds, "look like microseconds"),
    "IMU stamp jitter": (imu_jitter, "imu: stamps jitter"),
    "left-right offset": (left_right_offset, "stereo: right stamps are"),
    "unpaired frames": (unpaired_frames, "stereo: frames without a partner"),
    "dropped frames": (dropped_frames, "cam0: dropped frames"),
    "gyroscope in deg/s": (gyro_in_degrees, "the gyroscope is in deg/s"),
    "gyroscope in deg/s, no truth": (without_truth(gyro_in_degrees), "the gyroscope is in deg/s"),
    "accelerometer in g": (acc_in_g, "the accelerometer is in g"),
    "accelerometer scale": (acc_scale, "the accelerometer's scale is wrong"),
    "gravity removed": (gravity_removed, "gravity is removed"),
    "axis stuck for a while": (stuck_axis, "is stuck"),
    "axis dead": (dead_axis, "is stuck"),
    "samples repeated": (repeated_samples, "samples are repeated"),
    "axis clipped": (clipped_axis, "is clipped (saturated)"),
    "columns swapped": (swapped_columns, "gyroscope and accelerometer columns are swapped"),
    "gyroscope permuted": (gyro_permuted, "the gyroscope's axes are permuted"),
    "gyroscope permuted, no truth": (
        without_truth(gyro_permuted),
        "the gyroscope's axes are not the accelerometer's",
    ),
    "gyroscope axis flipped": (gyro_flipped, "axis is flipped"),
    "accelerometer permuted": (acc_permuted, "the accelerometer's axes are permuted"),
    "IMU axes turned": (imu_turned, "the IMU's axes are permuted or turned"),
    "left-handed axes": (left_handed, "the IMU's axes are left-handed"),
    "left-handed axes, vision only": (
        seen_by_vision_only(left_handed),
        "the IMU's axes are left-handed",
    ),
    "left-handed axes, no truth": (without_truth(left_handed), "the IMU's axes are left-handed"),
    "noise understated": (noise_understated, "the gyroscope's noise density"),
    "noise overstated": (noise_overstated, "the accelerometer's noise density"),
    "gyroscope bias": (gyro_bias, "large gyroscope bias"),
    "accelerometer bias": (acc_bias, "large accelerometer bias"),
    "IMU rate": (rate_not_stated, "the IMU's rate is not the stated one"),
    "camera time offset": (camera_late, "vision: camera-IMU time offset"),
    "camera time offset, no truth": (without_truth(camera_late), "camera-IMU time offset"),
    "camera clock drift": (camera_clock_drifts, "vision: clocks run apart"),
    "extrinsics inverted": (extrinsics_inverted, "the extrinsics T_b_c look inverted"),
    "extrinsics inverted, no truth": (
        without_truth(extrinsics_inverted),
        "the extrinsics T_b_c look inverted",
    ),
    "extrinsics rotated": (extrinsics_rotated, "the rotation of the camera-IMU extrinsics"),
    "extrinsics moved": (extrinsics_moved, "the position of the camera-IMU extrinsics"),
    "extrinsics in millimetres": (extrinsics_in_millimetres, "the stereo baseline cannot be"),
    "left and right swapped": (cameras_swapped, "left and right camera are swapped"),
    "truth late": (truth_late, "Wrong clock"),
    "truth inverted": (truth_inverted, "poses are given as their inverse"),
    "truth turned": (truth_turned, "after a turn of the body frame"),
    "truth of another recording": (
        truth_of_another_recording,
        "does not turn as the gyroscope does",
    ),
}
"""Name -> how to spoil a recording and words that the first line must hold."""
