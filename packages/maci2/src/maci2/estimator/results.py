"""Estimated states, their covariances, and the verdict on them.

Texts, records and figures of a result are made elsewhere, when one is requested.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from maci2 import validation
from maci2.field_docs import document_fields
from maci2.geometry.gaussian import chi2_quantile
from maci2.geometry.gaussian import direction_std as direction_std
from maci2.types import Array, Stamps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from maci2.result_output import Record

Status = Literal["ok", "weak", "failed"]

VERTICAL_CHI2 = chi2_quantile(2, 0.999)
"""99.9 % quantile of chi-square with 2 degrees of freedom: two verticals contradict each other."""


@dataclass(frozen=True)
class VIState:
    """The paper's state X: poses and velocities of the body, gravity, biases, extrinsics."""

    stamps_ns: Stamps
    """(n,) timestamps of the keyframes [ns], on the IMU's clock."""

    Ts_c0_b: Array
    """(n, 4, 4) body poses in the first camera frame [m]."""

    velocity_b: Array
    """(n, 3) velocities of the body, each in the body frame of its keyframe [m/s]."""

    gravity_c0: Array
    """(3,) gravity in the first camera frame, pointing down [m/s^2]."""

    gyro_bias: Array
    """(3,) bias of the raw gyroscope [rad/s], with any IMU model."""

    acc_bias: Array
    """(3,) bias of the raw accelerometer [m/s^2], with any IMU model."""

    T_b_c: Array
    """(4, 4) pose of the camera in the body (IMU) frame [m]: p_b = T_b_c p_c."""

    removed_gyro: Array = field(default_factory=lambda: np.zeros(3))
    """(3,) part of `gyro_bias` that the IMU model subtracted from the samples [rad/s]."""

    removed_acc: Array = field(default_factory=lambda: np.zeros(3))
    """(3,) part of `acc_bias` that the IMU model subtracted from the samples [m/s^2]."""

    @property
    def gyro_bias_residual(self) -> Array:
        """(3,) gyroscope bias that remains in the samples after the IMU model [rad/s]."""
        return self.gyro_bias - self.removed_gyro

    @property
    def acc_bias_residual(self) -> Array:
        """(3,) accelerometer bias that remains in the samples after the IMU model [m/s^2]."""
        return self.acc_bias - self.removed_acc


@dataclass(frozen=True)
class Posterior:
    """Covariance of the state, given the measurements (with `SolveReport.inflation` applied)."""

    gravity_c0: Array
    """(3, 3) in the first camera frame [(m/s^2)^2]; rank 2 if the norm of gravity is known."""

    Ts_c0_b: Array
    """(n, 6, 6) left perturbation, order [rho, phi], [m, rad]; zero for the first pose where the
    extrinsics are given."""

    velocity_b: Array
    """(n, 3, 3) each in the body frame of its keyframe [(m/s)^2]."""

    gyro_bias: Array
    """(3, 3) in the body frame [(rad/s)^2]; zero where the bias was not estimated."""

    acc_bias: Array
    """(3, 3) in the body frame [(m/s^2)^2]; zero where the bias was not estimated."""

    T_b_c: Array
    """(6, 6) left perturbation, order [rho, phi], [m, rad]; zero where the extrinsics are given."""


@dataclass(frozen=True)
class SolveReport:
    """Outcome of the optimization: convergence, chi-square, rejected measurements, time."""

    converged: bool
    """Whether the optimization converged within the allowed iterations."""

    cost: float
    """Sum of squared residuals, whitened by the stated noise: chi-square distributed."""

    dof: int
    """Degrees of freedom: residuals minus unknowns."""

    iterations: int
    """Levenberg-Marquardt steps, summed over all rounds."""

    solve_ms: float
    """Wall time of the whole call [ms], preintegration and covariance included."""

    inflation: float = 1.0
    """Factor by which chi-square enlarged the stated measurement covariances; 1 if it did not."""

    rejected: int = 0
    """Number of relative poses rejected because they contradict the IMU."""

    rejected_poses: tuple[int, ...] = ()
    """Indices of the rejected relative poses."""

    second_motions: int = 0
    """Number of relative poses for which the IMU selected a motion supported by fewer matches."""

    scale: float | None = None
    """Ratio of true to measured translation; None if the scale of vision was taken as exact."""

    std_scale: float | None = None
    """Standard deviation of `scale`; None if it was not estimated."""

    time_offset_s: float | None = None
    """Time on the IMU's clock minus time on the camera's [s]; None if it was not estimated."""

    std_time_offset_s: float | None = None
    """Standard deviation of `time_offset_s` [s]; None if it was not estimated."""

    vertical_chi2: float | None = None
    """Squared distance of gravity from the vertical that samples before the window show, 2 degrees
    of freedom; None where they show none."""

    solves: int = 0
    """Runs of the optimizer."""

    @property
    def vertical_rejected(self) -> bool:
        """Whether that vertical contradicts the window and was not used."""
        return self.vertical_chi2 is not None and self.vertical_chi2 > VERTICAL_CHI2


@dataclass(frozen=True)
class Verdict:
    """Whether the result may be used, and the reasons if not."""

    status: Status
    """ok: within the limits; weak: possibly outside the limits; failed: no usable estimate."""

    reasons: tuple[str, ...] = ()
    """Reasons against the result; an `ok` may have remarks, too."""

    taken_as_given: tuple[str, ...] = field(default=(), repr=False)
    """Stated constants that were accepted although no measurement confirms them: if they are wrong,
    an `ok` may be wrong. Empty if they were confirmed, or are among the reasons."""


@dataclass(frozen=True, repr=False)
class Estimate:
    """State with covariance, report and verdict: what both estimators return."""

    verdict: Verdict
    """Whether the result may be used, and the reasons if not."""

    report: SolveReport
    """How the optimization went."""

    state: VIState | None = None
    """Poses, velocities, gravity, biases (after a calibration those of the last keyframe) and
    extrinsics; None if there is no estimate."""

    posterior: Posterior | None = None
    """Covariance of the state; None without a state."""

    @property
    def gyro_bias(self) -> Array | None:
        """(3,) bias of the raw gyroscope [rad/s]; None without a state."""
        return None if self.state is None else self.state.gyro_bias

    @property
    def acc_bias(self) -> Array | None:
        """(3,) bias of the raw accelerometer [m/s^2]; None without a state."""
        return None if self.state is None else self.state.acc_bias

    def to_dict(self) -> "Record":
        """The record that `--json` writes, as plain numbers, strings and lists."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write `to_dict()` as JSON, atomically."""
        from maci2.files import write_json

        write_json(validation.as_path(path, "path"), self.to_dict())

    def _headline(self, state: VIState) -> str:
        """Main estimate, for `repr`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        words = [_verdict_words(self.verdict)]
        if self.state is not None:
            words += [f"{len(self.state.stamps_ns)} keyframes", self._headline(self.state)]
        return f"{type(self).__name__}({', '.join(words)})"


@dataclass(frozen=True, repr=False)
class InitResult(Estimate):
    """Result of `initialize`; `state` and `posterior` are None only if there is no estimate."""

    @property
    def gravity_c0(self) -> Array | None:
        """(3,) gravity in the first camera frame, pointing down [m/s^2]; None without a state."""
        return None if self.state is None else self.state.gravity_c0

    @property
    def velocity_b(self) -> Array | None:
        """(n, 3) velocities, each in the body frame of its keyframe [m/s]; None without a state."""
        return None if self.state is None else self.state.velocity_b

    @property
    def gravity_std_deg(self) -> float | None:
        """Standard deviation of the direction of gravity, both angles together [deg], or None."""
        if self.state is None or self.posterior is None:
            return None
        return math.degrees(direction_std(self.state.gravity_c0, self.posterior.gravity_c0))

    def summary(self) -> str:
        """Estimates with 1-sigma and the verdict: the text that `maci2 init` prints."""
        from maci2.result_output import initialization_text

        return initialization_text(self)

    def to_dict(self) -> "Record":
        """The record that `maci2 init --json` writes, as plain numbers, strings and lists."""
        from maci2.result_output import initialization_record

        return initialization_record(self)

    def plot(self) -> "Figure":
        """Velocity, gravity and biases with 2-sigma bands, as a matplotlib figure.

        Raises:
            OptionError: matplotlib is not installed (extra `report`).
            MeasurementError: there is no state to plot.
        """

        from maci2.result_output import plot_initialization

        return plot_initialization(self)

    def _headline(self, state: VIState) -> str:
        gravity = ", ".join(f"{value:.3f}" for value in state.gravity_c0)
        return f"gravity_c0 [{gravity}] m/s^2 +- {self.gravity_std_deg:.3f} deg"


@dataclass(frozen=True)
class CalibrationStage:
    """Result of a calibration from the first part of a recording only."""

    seconds: float
    """Length of the part [s]."""

    std: Array
    """(6,) standard deviations of T_b_c, order [rho, phi], [m, rad]."""

    moved: Array
    """(6,) left twist from the final T_b_c to the one of this part, order [rho, phi], [m, rad]."""


@dataclass(frozen=True, repr=False)
class CalibrationResult(Estimate):
    """Result of `calibrate`: camera-IMU extrinsics, with the states they were estimated with."""

    progress: tuple[CalibrationStage, ...] = ()
    """Results after every ten seconds; the last one uses the whole recording."""

    def summary(self) -> str:
        """Extrinsics with 1-sigma and the verdict: the text that `maci2 calibrate` prints."""
        from maci2.result_output import calibration_text

        return calibration_text(self)

    def to_dict(self) -> "Record":
        """The record that `maci2 calibrate --json` writes; `T_b_c` belongs to the camera frame of
        the relative poses."""
        from maci2.result_output import calibration_record

        return calibration_record(self)

    def plot(self) -> "Figure":
        """Extrinsics with their uncertainty, as a matplotlib figure.

        Raises:
            OptionError: matplotlib is not installed (extra `report`).
            MeasurementError: there is no state to plot.
        """

        from maci2.result_output import plot_calibration

        return plot_calibration(self)

    def _headline(self, state: VIState) -> str:
        return f"p_b_c [{', '.join(f'{value:.4f}' for value in state.T_b_c[:3, 3])}] m"


def _verdict_words(verdict: Verdict) -> str:
    given = ", constants taken as given" if verdict.taken_as_given else ""
    if not verdict.reasons:
        return verdict.status + given
    remarks = f"{len(verdict.reasons)} remark{'s'[: len(verdict.reasons) > 1]}"
    return f"{verdict.status}, {remarks}{given}"


document_fields(__name__)
