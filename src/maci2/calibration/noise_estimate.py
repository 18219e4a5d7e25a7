"""Noise of an IMU as recordings in motion show it: densities and random walks with their sigmas."""

from dataclasses import dataclass

import numpy as np

from maci2.gaussian import chi2_significance, nees
from maci2.sensors import ImuNoise
from maci2.types import Array

LARGEST_KNOWN = float(np.log(2.0))
"""A density known to less than a factor of two (1 sigma) was not seen."""


@dataclass(frozen=True)
class NoiseLevel:
    """One density or random walk."""

    value: float
    """Per sqrt(Hz), SI units."""

    std_log: float
    """Standard deviation of its natural logarithm."""

    @property
    def std(self) -> float:
        """Standard deviation of the value itself, to first order."""
        return self.value * self.std_log

    @property
    def seen(self) -> bool:
        """Whether the recordings tell it; otherwise it stays near the data sheet."""
        return self.std_log < LARGEST_KNOWN


@dataclass(frozen=True)
class NoiseEstimate:
    """Noise of an IMU as recordings in motion show it."""

    density_gyro: tuple[NoiseLevel, NoiseLevel, NoiseLevel]
    """White noise of each axis [rad/s/sqrt(Hz)]."""

    density_acc: tuple[NoiseLevel, NoiseLevel, NoiseLevel]
    """White noise of each axis [m/s^2/sqrt(Hz)]."""

    walk_gyro: NoiseLevel
    """Random walk of the bias, all axes alike [rad/s^2/sqrt(Hz)]."""

    walk_acc: NoiseLevel
    """Random walk of the bias, all axes alike [m/s^3/sqrt(Hz)]."""

    cov_log: Array
    """(8, 8) covariance of the natural logarithms, in this order."""

    converged: bool

    def levels(self) -> Array:
        """(8,) densities to use for the axes, each axis by itself where axes differ by more than
        chance explains, then walks."""
        levels = []
        for axes, pooled, differ in zip(
            (self.density_gyro, self.density_acc),
            (self.pooled_gyro, self.pooled_acc),
            self.axes_differ(),
            strict=True,
        ):
            levels += [level.value if differ else pooled.value for level in axes]
        return np.array([*levels, self.walk_gyro.value, self.walk_acc.value])

    @property
    def pooled_gyro(self) -> NoiseLevel:
        """One number for all axes of the gyroscope [rad/s/sqrt(Hz)]."""
        return self._pooled(0)

    @property
    def pooled_acc(self) -> NoiseLevel:
        """One number for all axes of the accelerometer [m/s^2/sqrt(Hz)]."""
        return self._pooled(3)

    def pooled(self, rate_hz: float) -> ImuNoise:
        """One number for all axes, as most tools want it."""
        gyro, acc = self.pooled_gyro.value, self.pooled_acc.value
        return ImuNoise(gyro, acc, self.walk_gyro.value, self.walk_acc.value, rate_hz)

    def _pooled(self, first: int) -> NoiseLevel:
        """The most likely number of axes that are alike, to second order: an axis that hardly
        shows counts little. Of axes that differ the root of the mean variance."""
        levels = (*self.density_gyro, *self.density_acc)[first : first + 3]
        values = np.array([level.value for level in levels])
        cov = self.cov_log[first : first + 3, first : first + 3]
        if self._differ(first):
            share = values**2 / np.sum(values**2)
            return NoiseLevel(
                float(np.sqrt(np.mean(values**2))), float(np.sqrt(share @ cov @ share))
            )
        weights = np.linalg.solve(cov, np.ones(3))
        log = weights @ np.log(values) / weights.sum()
        return NoiseLevel(float(np.exp(log)), float(1.0 / np.sqrt(weights.sum())))

    def axes_differ(self) -> tuple[bool, bool]:
        """Whether the axes of gyroscope and accelerometer differ by more than chance explains."""
        return self._differ(0), self._differ(3)

    def _differ(self, first: int) -> bool:
        levels = (*self.density_gyro, *self.density_acc)[first : first + 3]
        logs = np.log([level.value for level in levels])
        D = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
        cov = D @ self.cov_log[first : first + 3, first : first + 3] @ D.T
        return chi2_significance(2, float(nees(D @ logs, cov))) < 0.001
