"""The vertical, as an IMU's samples before a window tell it.

Over a window of 2.5 s the mean error of an accelerometer in flight tilts gravity by a tenth of a
degree, whatever the camera sees. The tracker of the gyroscope's bias (`maci2.imu.bias_tracking`)
carries an attitude through the whole stream, in which such errors average out; what it knows of the
vertical where a window begins is a measurement of its own.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maci2.field_docs import document_fields
from maci2.lie import so3_exp
from maci2.types import Array, Stamps


class VerticalPrior(NamedTuple):
    """The vertical at one instant, with what biases add to its error."""

    down_b: Array
    """(3,) unit vector of gravity in the body frame."""

    white: Array
    """(2, 9) W: with phi the rotation from the true direction of gravity to `down_b`, body frame
    [rad], W [phi, bias - `bias`] has unit covariance."""

    bias: Array
    """(6,) bias left in the samples [gyro, acc] at which `down_b` is unbiased."""


NO_VERTICAL = VerticalPrior(np.zeros(3), np.zeros((2, 9)), np.zeros(6))
"""Nothing is known of the vertical."""


@dataclass(frozen=True)
class TrackedVertical:
    """Attitude along n samples, each from the samples before it, and its tilt's covariance."""

    Rs_w_b: Array
    """(n, 3, 3) attitude in a level world of arbitrary heading."""

    block: Stamps
    """(n,) index of the block of samples that was used last; -1 where none was."""

    bias: Array
    """(m, 6) bias of the raw sensor [gyro, acc] after each block, as the tracker estimates it."""

    tilt_D_bias: Array
    """(m, 2, 6) what an error of that bias adds to the tilt about the world's x and y axes."""

    cov_tilt: Array
    """(m, 2, 2) covariance of the tilt where the bias is known, by the tracker's noise [rad^2]."""

    std_lasting: float
    """Standard deviation of the tilt that the tracker does not know of [rad], one axis: in flight
    an accelerometer's errors last for longer than the white noise of a filter."""

    def part(self, first: int, last: int) -> "TrackedVertical":
        """The samples of this range."""
        return replace(self, Rs_w_b=self.Rs_w_b[first:last], block=self.block[first:last])

    def after(self, sample: int, phi_b: Array, removed: Array) -> VerticalPrior | None:
        """The vertical after a rotation `phi_b` that follows a sample, from which an IMU model has
        removed the bias `removed` (6,); None where nothing is known yet."""
        block = int(self.block[sample])
        if block < 0:
            return None
        R_w_b = self.Rs_w_b[sample] @ so3_exp(np.ascontiguousarray(phi_b))
        cov = self.cov_tilt[block] + self.std_lasting**2 * np.eye(2)
        white_tilt = np.linalg.inv(np.linalg.cholesky(cov))
        white = white_tilt @ np.hstack([R_w_b[:2], -self.tilt_D_bias[block]])
        return VerticalPrior(-R_w_b[2], white, self.bias[block] - removed)


document_fields(__name__)
