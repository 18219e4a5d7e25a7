"""Verdicts: whether a result may be used, from its posterior, its consistency and its premises.

No threshold here depends on the device. A result is `ok` if the errors that its posterior admits
are well within the required accuracy and no constant taken as given is contradicted, `weak` if that
is not certain, `failed` if there is no usable estimate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maci2.boundary import as_number, require_type
from maci2.calibration_prior import CALIBRATED
from maci2.errors import MeasurementError
from maci2.estimation.confirmation import REMEDY, Evidence
from maci2.estimation.freed_constants import MeasuredScale
from maci2.estimation.verdict_checks import (
    SURE,
    Check,
    against,
    choices,
    consistent_vertical,
    known_gravity,
    plausible_bias,
    plausible_scale,
    rejections,
    velocity_std,
    worst,
)
from maci2.estimator.results import (
    CalibrationResult,
    CalibrationStage,
    InitResult,
    Posterior,
    SolveReport,
    Verdict,
    VIState,
)
from maci2.estimator.rotation_alignment import RotationAlignment
from maci2.field_docs import document_fields
from maci2.imu import BiasPrior, ImuMeasurements
from maci2.lie import so3_log
from maci2.premises import Premises, contradictions_of_calibration
from maci2.types import GRAVITY_NORM, Array
from maci2.vision import RelativePoses

MIN_KEYFRAMES = 4
MIN_SAMPLES_PER_STEP = 4
"""Fewer samples between keyframes make the preintegration covariance singular."""


@dataclass(frozen=True)
class InitLimits:
    """Accepted errors of an initialization (the paper's definition of success)."""

    gravity_deg: float = 2.0
    """Angle between estimated and true gravity [deg]."""

    velocity: float = 0.1
    """Root mean square over the keyframes [m/s]."""

    trust_constants: bool = True
    """Accept extrinsics and scale that are neither confirmed nor contradicted; they are then listed
    in `Verdict.taken_as_given`, and an `ok` depends on them. With False, a result is `ok` only if a
    relevant error of these constants would have been detected, as in `maci2 init` and
    `maci2 evaluate`."""

    def __post_init__(self) -> None:
        require_type(self.trust_constants, bool, "InitLimits.trust_constants", "True or False")
        as_number(self.gravity_deg, "InitLimits.gravity_deg", 0.0, exclusive=True)
        as_number(self.velocity, "InitLimits.velocity", 0.0, exclusive=True)


DEFAULT_LIMITS = InitLimits()


@dataclass(frozen=True)
class CalibrationLimits:
    """Accepted errors of extrinsics."""

    rotation_deg: float = 1.0
    """Rotation about each axis of the IMU [deg]."""

    translation: float = 0.03
    """Position along each axis of the IMU [m]."""

    def __post_init__(self) -> None:
        as_number(self.rotation_deg, "CalibrationLimits.rotation_deg", 0.0, exclusive=True)
        as_number(self.translation, "CalibrationLimits.translation", 0.0, exclusive=True)


def require_window(imu: ImuMeasurements, vision: RelativePoses) -> None:
    """Raise unless there are enough keyframes, far enough apart for the IMU's rate."""
    if len(vision) < MIN_KEYFRAMES:
        raise MeasurementError(
            f"the window has {len(vision)} keyframes, needed at least {MIN_KEYFRAMES}; give a "
            "longer window or more keyframes."
        )
    shortest_ns = int((vision.stamps_ns[1:] - vision.stamps_ns[:-1]).min())
    last = min(len(imu.stamps_ns), 1000) - 1
    period_ns = float(imu.stamps_ns[last] - imu.stamps_ns[0]) / last
    if shortest_ns < MIN_SAMPLES_PER_STEP * period_ns:
        raise MeasurementError(
            f"two keyframes are {shortest_ns / 1e6:.1f} ms apart but the IMU samples every "
            f"{period_ns / 1e6:.1f} ms; needed at least {MIN_SAMPLES_PER_STEP} samples between "
            "keyframes: take fewer keyframes."
        )


NO_NOISE = 1e4
"""Inflation of the stated covariances (a hundred times the noise) above which the data are
inconsistent; densities stated in degrees instead of radians would be off by 57."""

NO_ANSWER = (
    "vision and IMU contradict each other, and velocity is not known: check timestamps, extrinsics "
    "and units with `maci2 check`"
)


def judge_initialization(
    state: VIState,
    posterior: Posterior | None,
    report: SolveReport,
    vision: RelativePoses,
    rotations: RotationAlignment,
    prior: BiasPrior,
    limits: InitLimits,
    evidence: Evidence,
    gravity_norm: float = GRAVITY_NORM,
) -> InitResult:
    """Verdict on gravity and velocity, given the evidence about the constants."""
    premises = evidence.premises
    contradicted = evidence.contradicted(gravity_norm, report.std_time_offset_s is not None)
    broken = _broken(state, posterior, report)
    if broken or posterior is None:
        return InitResult(Verdict("failed", (*contradicted, *broken)), report)
    velocity = velocity_std(state, posterior, report, premises)
    if report.inflation > NO_NOISE and velocity > limits.velocity:
        noise = _consistency(report, vision, rotations.residuals)
        return InitResult(Verdict("failed", (*contradicted, *noise, NO_ANSWER)), report)
    checks = [
        *(Check("weak", reason) for reason in contradicted),
        known_gravity(state, posterior, premises, prior, limits.gravity_deg),
        against("velocity", velocity, limits.velocity, "m/s"),
        plausible_bias(state, prior),
        plausible_scale(report.scale or 1.0, 0.0, vision.std_scale),
        *(check(report, vision.measured_count) for check in (rejections, choices)),
        consistent_vertical(report),
    ]
    unconfirmed = []
    if not contradicted:
        unconfirmed = evidence.unconfirmed(state, posterior, limits.gravity_deg, limits.velocity)
    if not limits.trust_constants:
        status = evidence.status_of_unconfirmed
        checks += [Check(status, f"{reason}; {REMEDY}") for reason in unconfirmed]
        unconfirmed = []
    status, reasons = worst(checks)
    reasons += _consistency(report, vision, rotations.residuals)
    verdict = Verdict(status, tuple(reasons), tuple(unconfirmed))
    return InitResult(verdict, report, state, posterior)


def judge_calibration(
    state: VIState,
    posterior: Posterior | None,
    report: SolveReport,
    vision: RelativePoses,
    rotations: RotationAlignment,
    limits: CalibrationLimits,
    scale: MeasuredScale | None = None,
    premises: Premises | None = None,
    progress: tuple[CalibrationStage, ...] = (),
    further: Sequence[Check] = (),
) -> CalibrationResult:
    """Verdict on each axis of the extrinsics, and the motion that would help; `scale` is the
    accelerometer's estimate for translations taken as metric, `premises` are tests of axes and
    clocks by rotations, `further` are checks of stated values."""
    contradicted = []
    if premises is not None:
        offset_free = report.std_time_offset_s is not None
        contradicted = contradictions_of_calibration(premises, offset_free)
    broken = _broken(state, posterior, report)
    if broken or posterior is None:
        unseen = _unseen_rotations(rotations, limits)
        return CalibrationResult(Verdict("failed", (*contradicted, *unseen, *broken)), report)
    std = np.sqrt(np.diag(posterior.T_b_c))
    turned_deg = rotation_about_axes_deg(state.Ts_c0_b)
    checks = [Check("weak", reason) for reason in contradicted]
    for i, axis in enumerate("xyz"):
        for what, value, limit, unit in (
            ("rotation about", float(np.rad2deg(std[3 + i])), limits.rotation_deg, "deg"),
            ("position along", float(std[i]), limits.translation, "m"),
        ):
            name = f"the camera's {what} the IMU's {axis} axis"
            advice = _advice(turned_deg, i, value, limit)
            checks.append(against(name, value, limit, unit, advice))
    checks.append(plausible_scale(report.scale or 1.0, 0.0, vision.std_scale))
    if scale is not None:
        checks.append(plausible_scale(scale.scale, scale.std, CALIBRATED.acc_scale))
    checks += [check(report, vision.measured_count) for check in (rejections, choices)]
    checks.extend(further)
    status, reasons = worst(checks)
    reasons += _consistency(report, vision, rotations.residuals)
    return CalibrationResult(Verdict(status, tuple(reasons)), report, state, posterior, progress)


def _unseen_rotations(rotations: RotationAlignment, limits: CalibrationLimits) -> list[str]:
    """Axes about which the camera's rotation was not observable, if there is no joint solution."""
    std_deg = np.rad2deg(np.sqrt(np.diag(rotations.cov)[3:6]))
    checks = [
        against(
            f"the camera's rotation about the IMU's {axis} axis",
            float(std),
            limits.rotation_deg,
            "deg",
            "rotate the device about all axes",
        )
        for axis, std in zip("xyz", std_deg, strict=True)
    ]
    return [check.reason for check in checks if check.status != "ok"]


def rotation_about_axes_deg(Ts_c0_b: Array) -> Array:
    """(3,) rotation of the body about each of its axes in the window, peak to peak [deg]."""
    R_b0_c0 = Ts_c0_b[0, :3, :3].T
    phi = np.array([so3_log(R_b0_c0 @ T[:3, :3]) for T in Ts_c0_b])
    return np.rad2deg(np.ptp(phi, axis=0))


def _broken(state: VIState, posterior: Posterior | None, report: SolveReport) -> list[str]:
    """Reason for a missing estimate."""
    finite = all(
        math.isfinite(np.vdot(part, part))
        for part in (state.Ts_c0_b, state.velocity_b, state.gravity_c0, state.T_b_c)
    )
    if not finite or not math.isfinite(report.cost):
        return [
            "the optimization diverged to values that are not finite; check the measurements for "
            "outliers"
        ]
    if not report.converged:
        return [
            f"the optimization did not converge in {report.iterations} steps (chi-square "
            f"{report.cost:.0f} for {report.dof} degrees of freedom): vision and IMU contradict "
            "each other; check timestamps, extrinsics and units with `maci2 check`"
        ]
    if posterior is None:
        return ["some state is not observable at all in this window; move more, in all directions"]
    return []


def _advice(turned_deg: Array, axis: int, std: float, limit: float) -> str:
    """Motion that would help: an axis is observable by rotation about the other two."""
    others = [i for i in range(3) if i != axis]
    turned = float(turned_deg[others].max())
    needed = float(np.clip(turned * std * SURE / limit, 5.0, 60.0))
    names = " or ".join("xyz"[i] for i in others)
    return f"too little rotation about {names}: {turned:.1f} deg, needs about {needed:.0f}"


def _consistency(report: SolveReport, vision: RelativePoses, residuals: Array) -> list[str]:
    """Remark on stated noise that chi-square shows to be too small, with the factor and the
    measurements that disagree."""
    if report.inflation <= 1.0:
        return []
    reason = (
        f"chi-square {report.cost:.0f} for {report.dof} degrees of freedom: measurement noise is "
        f"about {np.sqrt(report.inflation):.1f} times the stated value; covariances were scaled "
        "accordingly"
    )
    steps_s = np.diff(vision.stamps_ns) / 1e9
    squares = np.mean((residuals / steps_s[:, None]) ** 2, axis=1)
    # A step that vision says it did not measure disagrees with nobody.
    weights = 1.0 / np.trace(vision.covs_T_ck_ck1[:, 3:, 3:], axis1=1, axis2=2)
    rate_deg = float(np.rad2deg(np.sqrt(np.average(squares, weights=weights))))
    return [f"{reason}; vision and gyroscope disagree by {rate_deg:.2g} deg/s"]


document_fields(__name__)
