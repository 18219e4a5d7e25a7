"""What calibration left wrong in one device: scale, misalignment, and a clock for each sensor.

Rates and forces that an IMU reports are off by shares of themselves, and an accelerometer whose
filter differs from the gyroscope's shows the force of another instant. A bias cannot stand for
either, since both change with the motion: 0.2 % of a hand's 2 rad/s is ten times what a tracked
gyroscope bias leaves.
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.sensors import ImuSamples
from maci2.types import NS, Array


@dataclass(frozen=True)
class DeviceConstants:
    """Errors of the samples that one device has in all its recordings."""

    gyro: Array
    """(3, 3) error of the angular rate per angular rate."""

    acc: Array
    """(3, 3) error of the specific force per specific force."""

    acc_early_s: float
    """A sample of the accelerometer shows the force so long after its timestamp [s]."""

    @classmethod
    def of(cls, numbers: Array) -> "DeviceConstants":
        """Constants from (19,) numbers: rows of both matrices, then the time."""
        return cls(numbers[:9].reshape(3, 3), numbers[9:18].reshape(3, 3), float(numbers[18]))

    @property
    def numbers(self) -> Array:
        """(19,) as `of` takes them."""
        return np.concatenate([self.gyro.ravel(), self.acc.ravel(), [self.acc_early_s]])

    def corrected(self, samples: ImuSamples) -> ImuSamples:
        """The samples without these errors, at the same timestamps."""
        times = (samples.stamps_ns - samples.stamps_ns[0]) / NS
        then = times - self.acc_early_s
        acc = np.stack([np.interp(then, times, axis) for axis in samples.acc.T], axis=1)
        return replace(
            samples, gyro=samples.gyro - samples.gyro @ self.gyro.T, acc=acc - acc @ self.acc.T
        )
