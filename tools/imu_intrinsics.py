"""Are scale, misalignment and g-sensitivity of EuRoC's IMU worth a place in the model?

    python tools/imu_intrinsics.py ROOT

They are constants of the device, fitted jointly to the recordings that `euroc` is trained and tuned
on, with biases of each recording beside them, against audited ground truths, and judged on the recording left out.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from maci2_lab.evaluation.integration_errors import integration_errors
from maci2.imu import ImuMeasurements, datasheet_model
from maci2_lab.training.imu.recipes import EUROC
from maci2_lab.training.imu.train import load_tracks
from maci2_lab.training.imu.data import Track
from maci2.types import Array

HORIZON_S, STRIDE_S = 2.5, 0.5
SCALE = np.repeat([0.002, 0.05], 3)
"""Rotation [rad] and velocity [m/s] errors of this size weigh alike."""

OVERLAP = HORIZON_S / STRIDE_S
PRIOR_STD = np.repeat([5e-3, 5e-3, 1e-4], 9)
"""Of accelerometer and gyroscope matrices, and of g-sensitivity [rad/s per m/s^2]."""

PARTS = {"nothing": slice(0, 0), "accelerometer": slice(0, 9), "gyroscope": slice(9, 18),
         "g-sensitivity": slice(18, 27), "all": slice(0, 27)}  # fmt: skip


@dataclass(frozen=True)
class Linear:
    """Errors of one recording's windows and what they depend on."""

    e: Array
    """(m, 6) rotation and velocity."""

    by_device: Array
    """(m, 6, 27) derivative by the device's three matrices."""

    by_recording: Array
    """(m, 6, 6) by biases."""


def linearized(track: Track) -> Linear:
    bias = track.own_bias.mean
    imu = datasheet_model(track.imu, track.noise)
    imu = replace(imu, gyro=imu.gyro - bias[:3], acc=imu.acc - bias[3:])
    windows = integration_errors(imu, track.audited.states, HORIZON_S, STRIDE_S)
    columns = [(moved - windows.e) / step for moved, step in _moved(track, imu)]
    by_bias = -windows.e_D_bias[:, :6]
    return Linear(windows.e[:, :6], np.stack(columns, axis=2)[:, :6], by_bias)


def _moved(track: Track, imu: ImuMeasurements) -> list[tuple[Array, float]]:
    """Errors with one entry of one matrix changed, and by how much."""
    found = []
    sensors = (("acc", "acc", 1e-4), ("gyro", "gyro", 1e-4), ("gyro", "acc", 1e-5))
    for changed, source, step in sensors:
        for i in range(3):
            for j in range(3):
                values = getattr(imu, changed).copy()
                values[:, i] += step * getattr(imu, source)[:, j]
                other = replace(imu, **{changed: values})
                one = integration_errors(other, track.audited.states, HORIZON_S, STRIDE_S)
                found.append((one.e, step))
    return found


def fit(recordings: list[Linear], part: slice) -> tuple[Array, Array]:
    """The device's entries and their standard deviations; robust (Cauchy), with a prior."""
    k = part.stop - part.start
    x = np.zeros(k + 6 * len(recordings))
    for _ in range(8):
        normal, right = np.zeros((len(x), len(x))), np.zeros(len(x))
        normal[range(k), range(k)] = PRIOR_STD[part] ** -2
        for number, one in enumerate(recordings):
            own = np.r_[np.arange(k), k + 6 * number + np.arange(6)]
            rows = np.concatenate([one.by_device[:, :, part], one.by_recording], axis=2)
            weight = _weights(one.e + rows @ x[own])
            normal[np.ix_(own, own)] += np.einsum("mi,mij,mik->jk", weight, rows, rows)
            right[own] -= np.einsum("mi,mij,mi->j", weight, rows, one.e)
        x = np.linalg.solve(normal, right)
    return x[:k], np.sqrt(np.diag(np.linalg.inv(normal)))[:k]


def _weights(residual: Array) -> Array:
    """(m, 6) by each part's own noise."""
    out = np.empty_like(residual)
    for part in (slice(0, 3), slice(3, 6)):
        squared = (residual[:, part] ** 2).sum(1)
        typical = np.median(squared)
        out[:, part] = (3.0 / typical / (1.0 + squared / typical) / OVERLAP)[:, None]
    return out


def remaining(one: Linear, part: slice, device: Array) -> tuple[float, float, Array]:
    """rms of rotation and velocity once biases are fitted, and how these moved."""
    e = one.e + one.by_device[:, :, part] @ device
    rows = one.by_recording
    x = np.zeros(6)
    for _ in range(8):
        squared = (((e + rows @ x) / SCALE) ** 2).sum(1)
        weight = (1.0 / (1.0 + squared / np.median(squared)))[:, None] / SCALE**2
        normal = np.einsum("mi,mij,mik->jk", weight, rows, rows)
        x = -np.linalg.solve(normal, np.einsum("mi,mij,mi->j", weight, rows, e))
    e = e + rows @ x
    rms = [float(np.sqrt((e[:, p] ** 2).sum(1).mean())) for p in (slice(0, 3), slice(3, 6))]
    return rms[0], rms[1], x


def main() -> None:
    np.set_printoptions(precision=2, suppress=True, linewidth=150)
    tracks = load_tracks(EUROC, EUROC.train + EUROC.tune, Path(sys.argv[1]))
    data = [linearized(track) for track in tracks]
    values, std = fit(data, PARTS["all"])
    named = ("accelerometer [%]", 100.0), ("gyroscope [%]", 100.0), ("g [1e-5 rad/s/(m/s^2)]", 1e5)
    for k, (name, unit) in enumerate(named):
        part = slice(9 * k, 9 * k + 9)
        print(f"{name}, all six: {unit * values[part]} +- {unit * std[part]}")
    for name, part in PARTS.items():
        found = []
        for number, one in enumerate(data):
            seen = [other for other in data if other is not one]
            device = fit(seen, part)[0]
            rotation, velocity, moved = remaining(one, part, device)
            found.append([1e3 * rotation, 1e3 * velocity, *(tracks[number].own_bias.mean + moved)])
        rows = np.array(found)
        print(f"{name}: rotation {rows[:, 0]} mrad, velocity {rows[:, 1]} mm/s, "
              f"means {rows[:, 0].mean():.3f}, {rows[:, 1].mean():.2f}; spread of acc bias "
              f"{1e3 * rows[:, 5:].std(0, ddof=1)} mm/s^2")  # fmt: skip


if __name__ == "__main__":
    main()
