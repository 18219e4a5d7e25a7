"""What is estimated, how well, and the verdict on it."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from maci2.types import Array, Stamps

Status = Literal["ok", "weak", "failed"]


@dataclass(frozen=True)
class VIState:
    """The paper's state X: poses and velocities of the body, gravity, biases, extrinsics."""

    stamps_ns: Stamps
    """(n,) keyframes, on the IMU's clock."""

    Ts_c0_b: Array
    """(n, 4, 4) body poses in the first camera frame."""

    velocity_b: Array
    """(n, 3) velocity of the body, each in its own body frame [m/s]."""

    gravity_c0: Array
    """(3,) in the first camera frame, pointing down [m/s^2]."""

    gyro_bias: Array
    """(3,) bias of the raw gyroscope [rad/s], whatever IMU model was used."""

    acc_bias: Array
    """(3,) bias of the raw accelerometer [m/s^2], likewise."""

    T_b_c: Array
    """(4, 4) pose of the camera in the body."""

    removed_gyro: Array = field(default_factory=lambda: np.zeros(3))
    """(3,) the part of `gyro_bias` that the IMU model had subtracted from the samples [rad/s]."""

    removed_acc: Array = field(default_factory=lambda: np.zeros(3))
    """(3,) the part of `acc_bias` that the IMU model had subtracted [m/s^2]."""

    @property
    def gyro_bias_residual(self) -> Array:
        """(3,) bias left in the samples as the IMU model handed them on [rad/s]."""
        return self.gyro_bias - self.removed_gyro

    @property
    def acc_bias_residual(self) -> Array:
        """(3,) bias left in the samples as the IMU model handed them on [m/s^2]."""
        return self.acc_bias - self.removed_acc


@dataclass(frozen=True)
class Posterior:
    """Covariance of the state, given the measurements (with `SolveReport.inflation` applied)."""

    gravity_c0: Array
    """(3, 3) [(m/s^2)^2]; rank 2 where gravity is on the sphere."""

    Ts_c0_b: Array
    """(n, 6, 6) left, [rho, phi]; zero for the first pose where the extrinsics are fixed."""

    velocity_b: Array
    """(n, 3, 3) [(m/s)^2]"""

    gyro_bias: Array
    """(3, 3) [(rad/s)^2]"""

    acc_bias: Array
    """(3, 3) [(m/s^2)^2]"""

    T_b_c: Array
    """(6, 6) left, [rho, phi]; zero where the extrinsics are fixed."""


@dataclass(frozen=True)
class SolveReport:
    """How the optimization went."""

    converged: bool
    cost: float
    """Sum of squared residuals, whitened by the noise as stated: chi-square if it is right."""

    dof: int
    """Residuals less unknowns."""

    iterations: int
    solve_ms: float
    """Wall time of the whole call, preintegration and covariance included."""

    inflation: float = 1.0
    """Factor on the stated measurement covariances that chi-square made necessary; 1 if none."""

    rejected: int = 0
    """Camera steps left out because they contradict the IMU beyond any noise."""

    scale: float = 1.0
    """True translation over the measured one, where vision left its scale in doubt."""

    std_scale: float = 0.0
    """Zero where vision's scale was taken as exact."""

    time_offset_s: float = 0.0
    """Stamp on the IMU's clock less stamp on the camera's."""

    std_time_offset_s: float = 0.0
    """Zero where the clocks were taken as one."""


@dataclass(frozen=True)
class Verdict:
    """Whether to use the result, and why not."""

    status: Status
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class InitResult:
    """Answer of `initialize`; `state` and `posterior` are absent only where no answer exists."""

    verdict: Verdict
    report: SolveReport
    state: VIState | None = None
    posterior: Posterior | None = None

    @property
    def gravity_std_deg(self) -> float:
        """Root of the summed variance of the two angles of gravity's direction."""
        if self.state is None or self.posterior is None:
            return float("inf")
        return float(np.rad2deg(direction_std(self.state.gravity_c0, self.posterior.gravity_c0)))


@dataclass(frozen=True)
class CalibrationResult:
    """Answer of `calibrate`: where the camera sits on the IMU."""

    verdict: Verdict
    report: SolveReport
    state: VIState | None = None
    posterior: Posterior | None = None


def direction_std(vector: Array, cov: Array) -> float:
    """Standard deviation of a vector's direction [rad], both angles together."""
    norm2 = float(vector @ vector)
    across = float(np.trace(cov)) - float(vector @ cov @ vector) / norm2
    return float(np.sqrt(max(across, 0.0) / norm2))
