"""Consistency of gyroscope and accelerometer axes, without any other sensor.

Gravity is constant in the world, so forces rotated back with the gyroscope must agree from one
interval to the next.
"""

from dataclasses import dataclass

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.imu.rotation_rates import SIGNED_PERMUTATIONS
from maci2.lie.stacks import so3_exp_stack
from maci2.sensors import ImuSamples
from maci2.types import NS, Array

WINDOW_S = 5.0
"""Length of a window whose halves are compared [s]: accelerations average out in 2.5 s."""

MAX_WINDOWS = 40
RATE_HZ = 50.0

MAX_MISFIT = 1.5
"""Largest accepted misfit of the mean forces of two halves, median [m/s^2]: a change of speed by 3
m/s from one half to the other. Hand-held devices, multicopters and cars stay below 1.4."""

BETTER = 0.5
"""Other axes are accepted if they leave at most this fraction of the misfit."""

SURE = 0.67
"""The best axes are named if their misfit is below this fraction of the second-best one."""

FAST = 5.0
"""Rates [rad/s] above which readings may be in deg/s; slower ones would mean a stationary device,
which is recognized."""

STILL = 0.3
"""Spread of the forces while stationary [m/s^2], vibration included."""

DEG = np.pi / 180.0


@dataclass(frozen=True)
class GravityAxes:
    """Axes and unit that make the gyroscope agree with the accelerometer."""

    misfit: float
    """Misfit of the forces as recorded, rms [m/s^2]."""

    best_misfit: float
    P: Array
    """Signed permutation: rate about the accelerometer's axes = scale P gyro."""

    scale: float
    """1, or pi / 180 for a gyroscope in deg/s."""

    sure: bool
    """Whether no other axes are nearly as good."""

    @property
    def disagree(self) -> bool:
        return self.misfit > MAX_MISFIT and self.best_misfit < BETTER * self.misfit


def compare_with_gravity(imu: ImuSamples) -> GravityAxes | None:
    """Try all axes if the recorded ones do not agree; None for recordings shorter than 5 s.

    A multicopter's force stays on one axis however it rotates, so this proves little there: only
    large contradictions are looked into.
    """
    halves = _Halves.of(imu)
    if halves is None:
        return None
    [as_is] = halves.misfits(np.eye(3)[None])
    if as_is <= MAX_MISFIT:
        return GravityAxes(as_is, as_is, np.eye(3), 1.0, True)
    if _may_be_degrees(imu):
        [in_degrees] = halves.misfits(DEG * np.eye(3)[None])
        if in_degrees < BETTER * as_is:
            return GravityAxes(as_is, in_degrees, np.eye(3), DEG, True)
    tried = halves.misfits(np.array(SIGNED_PERMUTATIONS))
    order = np.argsort(tried, kind="stable")
    best, second = tried[order[0]], tried[order[1]]
    return GravityAxes(as_is, best, SIGNED_PERMUTATIONS[order[0]], 1.0, best < SURE * second)


def _may_be_degrees(imu: ImuSamples) -> bool:
    rate = float(np.percentile(np.linalg.norm(imu.gyro, axis=1), 99))
    return rate > FAST or float(imu.acc.std(axis=0).max()) < STILL


@dataclass(frozen=True)
class _Halves:
    """Windows of mean readings at a lower rate."""

    gyro: Array
    """(windows, steps, 3)"""

    acc: Array
    dt: float

    @classmethod
    def of(cls, imu: ImuSamples) -> "_Halves | None":
        every = max(round(imu.rate_hz / RATE_HZ), 1)
        count = len(imu) // every
        steps = round(WINDOW_S * imu.rate_hz / every)
        if count < steps or steps < 4:
            return None
        gyro, acc = (
            v[: count * every].reshape(count, every, 3).mean(axis=1) for v in (imu.gyro, imu.acc)
        )
        starts = np.arange(0, count - steps + 1, max(steps // 2, 1))
        lengths_ns = imu.stamps_ns[(starts + steps) * every - 1] - imu.stamps_ns[starts * every]
        starts = starts[lengths_ns < 1.1 * WINDOW_S * NS]
        if len(starts) == 0:
            return None
        starts = starts[np.linspace(0, len(starts) - 1, min(len(starts), MAX_WINDOWS)).astype(int)]
        rows = starts[:, None] + np.arange(steps)
        return cls(gyro[rows], acc[rows], every / imu.rate_hz)

    def misfits(self, Ms: Array) -> list[float]:
        """Difference of both halves after fitting a bias, median [m/s^2], for rates M gyro."""
        rates = np.einsum("mij,wsj->mwsi", Ms, self.gyro)
        std = CALIBRATED.gyro_bias * np.cbrt(np.abs(np.linalg.det(Ms)))[:, None]
        bias = np.zeros((len(Ms), 3))
        for _ in range(2):
            apart, apart_D_bias = self._difference(rates - bias[:, None, None])
            H = np.einsum("mwij,mwik->mjk", apart_D_bias, apart_D_bias)
            H += std[:, :, None] ** -2.0 * np.eye(3)
            gradient = np.einsum("mwij,mwi->mj", apart_D_bias, apart) + bias * std**-2.0
            bias = bias - np.linalg.solve(H, gradient[:, :, None])[:, :, 0]
        apart = self._difference(rates - bias[:, None, None])[0]
        # Median over windows: one hard manoeuvre does not decide.
        return [float(m) for m in np.sqrt(np.median(np.sum(apart**2, axis=2), axis=1))]

    def _difference(self, rates: Array) -> tuple[Array, Array]:
        """(m, windows, 3) difference of the halves' mean forces, and derivatives by the bias."""
        shape, steps = rates.shape[:2], rates.shape[2]
        count = shape[0] * shape[1]
        flat = rates.reshape(count, steps, 3)
        acc = np.broadcast_to(self.acc, (shape[0], *self.acc.shape)).reshape(count, steps, 3)
        R = np.broadcast_to(np.eye(3), (count, 3, 3))
        turn_D_bias = np.zeros((count, 3, 3))
        apart, apart_D_bias = np.zeros((count, 3)), np.zeros((count, 3, 3))
        for step in range(steps):
            sign = (2.0 if 2 * step >= steps else -2.0) / steps
            force = np.einsum("nij,nj->ni", R, acc[:, step])
            apart += sign * force
            # To first order: R rotates by turn_D_bias, expressed at the window's start.
            apart_D_bias -= sign * _skew(force) @ turn_D_bias
            turn_D_bias = turn_D_bias - self.dt * R
            R = R @ so3_exp_stack(flat[:, step] * self.dt)
        return apart.reshape(*shape, 3), apart_D_bias.reshape(*shape, 3, 3)


def _skew(v: Array) -> Array:
    out = np.zeros((len(v), 3, 3))
    out[:, 0, 1], out[:, 0, 2], out[:, 1, 2] = -v[:, 2], v[:, 1], -v[:, 0]
    return out - np.swapaxes(out, 1, 2)
