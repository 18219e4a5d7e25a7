"""Estimated states, their covariances, and the verdict on them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from maci2 import boundary
from maci2.estimation.result_output import (
    Record,
    calibration_record,
    calibration_text,
    initialization_record,
    initialization_text,
)
from maci2.estimation.result_plot import plot_calibration, plot_initialization
from maci2.field_docs import document_fields
from maci2.files import write_json
from maci2.types import Array, Stamps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Status = Literal["ok", "weak", "failed"]


@dataclass(frozen=True)
class VIState:
    """The paper's state X: poses and velocities of the body, gravity, biases, extrinsics."""

    stamps_ns: Stamps
    """(n,) timestamps of the keyframes [ns], on the IMU's clock."""

    Ts_c0_b: Array
    """(n, 4, 4) body poses in the first camera frame [m]."""

    velocity_b: Array
    """(n, 3) velocity of the body, each in its own body frame [m/s]."""

    gravity_c0: Array
    """(3,) gravity in the first camera frame, pointing down [m/s^2]."""

    gyro_bias: Array
    """(3,) bias of the raw gyroscope [rad/s], whatever IMU model was used."""

    acc_bias: Array
    """(3,) bias of the raw accelerometer [m/s^2], likewise."""

    T_b_c: Array
    """(4, 4) pose of the camera in the body (IMU) frame [m]: p_b = T_b_c p_c."""

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
    """(3, 3) in the first camera frame [(m/s^2)^2]; rank 2 where gravity's norm is known."""

    Ts_c0_b: Array
    """(n, 6, 6) left perturbation, order [rho, phi], [m, rad]; zero for the first pose where the
    extrinsics are given."""

    velocity_b: Array
    """(n, 3, 3) each in its own body frame [(m/s)^2]."""

    gyro_bias: Array
    """(3, 3) in the body frame [(rad/s)^2]; zero where the bias was not estimated."""

    acc_bias: Array
    """(3, 3) in the body frame [(m/s^2)^2]; zero where the bias was not estimated."""

    T_b_c: Array
    """(6, 6) left perturbation, order [rho, phi], [m, rad]; zero where the extrinsics are given."""


@dataclass(frozen=True)
class SolveReport:
    """How the optimization went."""

    converged: bool
    """Whether the optimization came to rest within its iterations."""

    cost: float
    """Sum of squared residuals, whitened by the noise as stated: chi-square if it is right."""

    dof: int
    """Degrees of freedom: residuals less unknowns."""

    iterations: int
    """Levenberg-Marquardt steps, of all rounds together."""

    solve_ms: float
    """Wall time of the whole call [ms], preintegration and covariance included."""

    inflation: float = 1.0
    """Factor on the stated measurement covariances that chi-square made necessary; 1 if none."""

    rejected: int = 0
    """Relative poses rejected because they contradict the IMU beyond any noise."""

    second_motions: int = 0
    """Relative poses of which the IMU chose another motion than that of most matches."""

    scale: float | None = None
    """True translation over the measured one; None where vision's scale was taken as exact."""

    std_scale: float | None = None
    """Standard deviation of `scale`; None where it was not estimated."""

    time_offset_s: float | None = None
    """Timestamp on the IMU's clock less that on the camera's [s]; None where not estimated."""

    std_time_offset_s: float | None = None
    """Standard deviation of `time_offset_s` [s]; None where it was not estimated."""


@dataclass(frozen=True)
class Verdict:
    """Whether to use the result, and why not."""

    status: Status
    """ok: use it; weak: not surely within the limits; failed: there is no answer."""

    reasons: tuple[str, ...] = ()
    """What stands against the result, in plain words; an `ok` may have remarks too."""

    taken_as_given: tuple[str, ...] = field(default=(), repr=False)
    """Stated constants that were trusted though nothing that was seen confirms them: were they
    wrong, so might an `ok` be. Empty where they were confirmed, or are among the reasons."""


@dataclass(frozen=True, repr=False)
class InitResult:
    """Answer of `initialize`; `state` and `posterior` are absent only where no answer exists."""

    verdict: Verdict
    """Whether to use the result, and why not."""

    report: SolveReport
    """How the optimization went."""

    state: VIState | None = None
    """Gravity, velocities, biases and poses; None where the verdict is `failed` for want of one."""

    posterior: Posterior | None = None
    """Covariance of the state; None with it."""

    @classmethod
    def judged_when_asked(
        cls,
        judge: Callable[[], Verdict],
        report: SolveReport,
        state: VIState,
        posterior: Posterior,
    ) -> "InitResult":
        """A result whose verdict takes a solution of its own: found when first asked for."""
        result = cls.__new__(cls)
        result.__dict__.update(_judge=judge, report=report, state=state, posterior=posterior)
        return result

    def __getattr__(self, name: str) -> Any:
        # Only asked for what is not there: everything, or all but the verdict.
        judge = self.__dict__.get("_judge")
        if name != "verdict" or judge is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        verdict = self.__dict__["verdict"] = judge()
        # It holds the window's measurements, which nobody needs any longer.
        self.__dict__.pop("_judge", None)
        return verdict

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def gravity_std_deg(self) -> float | None:
        """Root of the summed variance of the two angles of gravity's direction [deg]; None without
        a state."""
        if self.state is None or self.posterior is None:
            return None
        return math.degrees(direction_std(self.state.gravity_c0, self.posterior.gravity_c0))

    def summary(self) -> str:
        """Estimates with 1-sigma and the verdict: the text that `maci2 init` prints."""
        return initialization_text(self)

    def to_dict(self) -> Record:
        """The record that `maci2 init --json` writes, as plain numbers, texts and lists."""
        return initialization_record(self)

    def save(self, path: str | Path) -> None:
        """Write `to_dict()` as JSON, whole or not at all."""
        write_json(boundary.as_path(path, "path"), self.to_dict())

    def plot(self) -> "Figure":
        """Velocity, gravity and biases with 2-sigma bands, as a matplotlib figure.

        Raises:
            OptionError: matplotlib is not installed (extra `report`).
            MeasurementError: there is no state to plot.
        """
        return plot_initialization(self)

    def __repr__(self) -> str:
        if self.state is None:
            return f"InitResult({_verdict_words(self.verdict)})"
        gravity = ", ".join(f"{value:.3f}" for value in self.state.gravity_c0)
        return (
            f"InitResult({_verdict_words(self.verdict)}, {len(self.state.stamps_ns)} keyframes, "
            f"gravity_c0 [{gravity}] m/s^2 +- {self.gravity_std_deg:.3f} deg)"
        )


@dataclass(frozen=True)
class CalibrationStage:
    """Answer of the first part of a calibration, had the recording ended there."""

    seconds: float
    """Length of the part [s]."""

    std: Array
    """(6,) standard deviations of T_b_c, order [rho, phi], [m, rad]."""

    moved: Array
    """(6,) left twist from the final T_b_c to the one of this part, order [rho, phi], [m, rad]."""


@dataclass(frozen=True, repr=False)
class CalibrationResult:
    """Answer of `calibrate`: where the camera sits on the IMU."""

    verdict: Verdict
    """Whether to use the result, and why not."""

    report: SolveReport
    """How the optimization went."""

    state: VIState | None = None
    """Extrinsics `T_b_c` and all the rest, biases at the last keyframe; None where there is no
    answer."""

    posterior: Posterior | None = None
    """Covariance of the state; None with it."""

    progress: tuple[CalibrationStage, ...] = ()
    """What was known after each ten seconds; the last one is all of it."""

    def summary(self) -> str:
        """Extrinsics with 1-sigma and the verdict: the text that `maci2 calibrate` prints."""
        return calibration_text(self)

    def to_dict(self) -> Record:
        """The record that `maci2 calibrate --json` writes; `T_b_c` is that of the camera frame that
        vision spoke of."""
        return calibration_record(self)

    def save(self, path: str | Path) -> None:
        """Write `to_dict()` as JSON, whole or not at all."""
        write_json(boundary.as_path(path, "path"), self.to_dict())

    def plot(self) -> "Figure":
        """Extrinsics with their uncertainty, as a matplotlib figure.

        Raises:
            OptionError: matplotlib is not installed (extra `report`).
            MeasurementError: there is no state to plot.
        """
        return plot_calibration(self)

    def __repr__(self) -> str:
        if self.state is None:
            return f"CalibrationResult({_verdict_words(self.verdict)})"
        p_b_c = ", ".join(f"{value:.4f}" for value in self.state.T_b_c[:3, 3])
        return (
            f"CalibrationResult({_verdict_words(self.verdict)}, {len(self.state.stamps_ns)} "
            f"keyframes, p_b_c [{p_b_c}] m)"
        )


def direction_std(vector: Array, cov: Array) -> float:
    """Standard deviation of a vector's direction [rad], both angles together."""
    norm2 = float(vector @ vector)
    (xx, _, _), (_, yy, _), (_, _, zz) = cov.tolist()
    across = xx + yy + zz - float(vector @ cov @ vector) / norm2
    return math.sqrt(max(across, 0.0) / norm2)


def _verdict_words(verdict: Verdict) -> str:
    given = ", constants taken as given" if verdict.taken_as_given else ""
    if not verdict.reasons:
        return verdict.status + given
    remarks = f"{len(verdict.reasons)} remark{'s'[: len(verdict.reasons) > 1]}"
    return f"{verdict.status}, {remarks}{given}"


document_fields(__name__)
