"""Faults of the IMU."""

import numpy as np
from degrading import Degraded, Draw, with_imu, with_noise

from maci2.types import Array


def gyro_in_degrees(s: Degraded, rng: Draw) -> Degraded:
    return with_imu(s, gyro=np.degrees(s.recording.imu.gyro))


def acc_in_g(s: Degraded, rng: Draw) -> Degraded:
    return with_imu(s, acc=s.recording.imu.acc / 9.80665)


def acc_scale(s: Degraded, rng: Draw) -> Degraded:
    return with_imu(s, acc=s.recording.imu.acc * rng.choice([0.25, 0.5, 2.0]))


def gravity_removed(s: Degraded, rng: Draw) -> Degraded:
    truth, imu = s.recording.truth(), s.recording.imu
    at = np.searchsorted(truth.stamps_ns, imu.stamps_ns)
    return with_imu(s, acc=imu.acc - 9.81 * truth.Ts_w_b[at, 2, :3])


def stuck_axis(s: Degraded, rng: Draw) -> Degraded:
    gyro = s.recording.imu.gyro.copy()
    at, length = int(rng.integers(0, 1000)), int(rng.integers(200, 2000))
    gyro[at : at + length, rng.integers(3)] = gyro[at, 0]
    return with_imu(s, gyro=gyro)


def dead_axis(s: Degraded, rng: Draw) -> Degraded:
    acc = s.recording.imu.acc.copy()
    acc[:, rng.integers(3)] = 0.0
    return with_imu(s, acc=acc)


def repeated_samples(s: Degraded, rng: Draw) -> Degraded:
    """Read at 200 Hz, measured at 100 or 50."""
    imu, times = s.recording.imu, int(rng.choice([2, 4]))
    held = np.arange(len(imu)) // times * times
    return with_imu(s, gyro=imu.gyro[held], acc=imu.acc[held])


def clipped_axis(s: Degraded, rng: Draw) -> Degraded:
    gyro, axis = s.recording.imu.gyro.copy(), int(rng.integers(3))
    limit = np.percentile(np.abs(gyro[:, axis]), rng.uniform(85.0, 98.0))
    gyro[:, axis] = np.clip(gyro[:, axis], -limit, limit)
    return with_imu(s, gyro=gyro)


def swapped_columns(s: Degraded, rng: Draw) -> Degraded:
    imu = s.recording.imu
    return with_imu(s, gyro=imu.acc, acc=imu.gyro)


def _turned_axes(rng: Draw) -> Array:
    """One of the 23 other right-handed ways to name the axes."""
    while True:
        P = np.diag(rng.choice([-1.0, 1.0], 3))[rng.permutation(3)]
        if np.linalg.det(P) > 0.0 and np.trace(P) < 3.0:
            return P


def gyro_permuted(s: Degraded, rng: Draw) -> Degraded:
    order = [[1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1]][rng.integers(5)]
    return with_imu(s, gyro=s.recording.imu.gyro[:, order])


def gyro_flipped(s: Degraded, rng: Draw) -> Degraded:
    signs = np.ones(3)
    signs[rng.integers(3)] = -1.0
    return with_imu(s, gyro=s.recording.imu.gyro * signs)


def acc_permuted(s: Degraded, rng: Draw) -> Degraded:
    order = [[1, 2, 0], [2, 0, 1], [2, 1, 0], [0, 2, 1]][rng.integers(4)]
    return with_imu(s, acc=s.recording.imu.acc[:, order])


def acc_negated(s: Degraded, rng: Draw) -> Degraded:
    return with_imu(s, acc=-s.recording.imu.acc)


def imu_turned(s: Degraded, rng: Draw) -> Degraded:
    P, imu = _turned_axes(rng), s.recording.imu
    return with_imu(s, gyro=imu.gyro @ P.T, acc=imu.acc @ P.T)


def left_handed(s: Degraded, rng: Draw) -> Degraded:
    signs, imu = np.ones(3), s.recording.imu
    signs[rng.integers(3)] = -1.0
    return with_imu(s, gyro=imu.gyro * signs, acc=imu.acc * signs)


def noise_understated(s: Degraded, rng: Draw) -> Degraded:
    density = s.recording.rig.imu.density_gyro
    return with_noise(s, density_gyro=density / rng.uniform(15.0, 200.0))


def noise_overstated(s: Degraded, rng: Draw) -> Degraded:
    density = s.recording.rig.imu.density_acc
    return with_noise(s, density_acc=density * rng.uniform(15.0, 200.0))


def gyro_bias(s: Degraded, rng: Draw) -> Degraded:
    bias = np.zeros(3)
    bias[rng.integers(3)] = rng.choice([-1.0, 1.0]) * rng.uniform(0.3, 1.0)
    return with_imu(s, gyro=s.recording.imu.gyro + bias)


def acc_bias(s: Degraded, rng: Draw) -> Degraded:
    bias = np.zeros(3)
    bias[rng.integers(3)] = rng.choice([-1.0, 1.0]) * rng.uniform(0.9, 1.3)
    return with_imu(s, acc=s.recording.imu.acc + bias)
