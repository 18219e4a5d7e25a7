"""Initialization and calibration with verdicts: whether a result may be used, given its posterior,
chi-square and consistency tests.

No threshold here depends on the device. A result is `ok` if the errors that its posterior admits
are well within the required accuracy and no constant taken as given is contradicted, `weak` if that
is not certain, `failed` if there is no usable estimate.

A result that takes extrinsics and scale as given is no better than they are. They are confirmed if
gravity and velocity stay within their limits with these constants unknown: an error that matters
would have been detected.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from maci2.calibration_prior import CALIBRATED
from maci2.consistency.evidence import MeasuredConstants, free_constants, window_constants
from maci2.consistency.solved_calibration import (
    calibration_progress,
    frame_covariance,
    measured_scale,
    with_frame,
)
from maci2.consistency.tests import FAR, FAR_3D, MOST_MISSING
from maci2.errors import MeasurementError, OptionError
from maci2.estimator.calibrate import NOTHING_KNOWN, MountingPrior, solve_from_nothing
from maci2.estimator.initialize import SolvedWindow, solve_window, with_loss
from maci2.estimator.outliers import with_choice
from maci2.estimator.problem import DEFAULT_CONFIG, Loss, SolverConfig
from maci2.estimator.residuals import Response
from maci2.estimator.results import (
    CalibrationResult,
    InitResult,
    Posterior,
    SolveReport,
    Status,
    Verdict,
    VIState,
)
from maci2.estimator.solver import Solution, covariance, solve
from maci2.field_docs import document_fields
from maci2.geometry.gaussian import direction_std
from maci2.geometry.se3 import se3_inv, se3_log
from maci2.geometry.so3 import skew, so3_log
from maci2.imu import BiasPrior, ImuMeasurements
from maci2.types import NS, Array
from maci2.validation import as_number, as_transform, require_type
from maci2.vision import RelativePoses

CERTAIN = 2.0
"""Number of standard deviations within a limit for `ok`."""

HOPELESS = 0.5
"""Number of standard deviations below which the verdict is `failed`."""

ONE_SIDED = float(-ndtri(2.0 * ndtr(-CERTAIN)))
"""Number of standard deviations that an error exceeds one-sided as rarely as `CERTAIN` two-sided.
"""

NO_NOISE = 1e4
"""Inflation of the nominal covariances (a hundred times the noise) above which the data are
inconsistent; densities stated in degrees instead of radians would be off by 57."""

KEPT = 0.9
"""An axis of the extrinsics with at least this share of its prior's sigma was not observed."""

REMEDY = "use more of the recording, move more, or trust the stated values with `--trust-rig`"

NO_ANSWER = (
    "vision and IMU contradict each other, and velocity is not known: check timestamps, extrinsics "
    "and units with `maci2 check`"
)

AXES_OF_CAMERA = tuple(
    f"the camera's {what} the IMU's {axis} axis"
    for what in ("position along", "rotation about")
    for axis in "xyz"
)


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


@dataclass(frozen=True)
class Check:
    """Outcome of one check."""

    status: Status = "ok"
    reason: str = ""
    """Reason; given with `ok`, too, if a user should know."""


OK = Check()


def _weak_if(contradicted: bool, reason: str) -> Check:
    """Check that weakens a result."""
    return Check("weak", reason) if contradicted else OK


DEFAULT_LIMITS = InitLimits()

MIN_KEYFRAMES = 4
MIN_SAMPLES_PER_STEP = 4
"""Fewer samples between keyframes make the preintegration covariance singular."""


def initialize(
    imu: ImuMeasurements,
    vision: RelativePoses,
    T_b_c: Array,
    config: SolverConfig | None = None,
    limits: InitLimits | None = None,
    constants: MeasuredConstants | None = None,
) -> InitResult:
    """Estimate gravity, velocities, biases and poses over the keyframes of `vision`.

    Workflow (a), learned IMU: `imu` has corrected samples with learned variances and a narrow prior
    of the remaining bias. Workflow (b), raw IMU: data-sheet variances, gyroscope bias unknown.

    Args:
        imu: IMU measurements from `raw_model`, `datasheet_model` or `ImuModel.measure`; they must
            cover the keyframes.
        vision: relative poses of at least four keyframes, with covariances.
        T_b_c: (4, 4) pose in the body of the camera frame that `vision` refers to.
        config: choices of the solver.
        limits: largest errors that the verdict `ok` allows.
        constants: constants of the device measured so far (`maci2.consistency.Evidence`); without
            them, only this window tests the nominal ones. Extrinsics and scale that are neither
            confirmed nor contradicted are accepted and listed in `verdict.taken_as_given`; an `ok`
            then depends on them. `InitLimits(trust_constants=False)` makes such a result `weak`.

    Returns:
        State, posterior covariance, report and verdict. A window that cannot be solved raises
        nothing; its verdict is `failed`, with reasons.

    Raises:
        MeasurementError: an argument has the wrong type or shape, T_b_c is not rigid, or there are
            too few keyframes.
        DatasetError: the samples do not cover the keyframes or have a gap.
    """
    T_b_c = as_transform(T_b_c, "T_b_c")
    config, limits = config or DEFAULT_CONFIG, limits or DEFAULT_LIMITS
    require_arguments(imu, vision, config)
    require_type(limits, InitLimits, "limits", "InitLimits()")
    solved = solve_window(imu, vision, T_b_c, config)
    if constants is None:
        constants, solves = _constants_of_window(imu, solved, T_b_c, config)
        report = replace(solved.report, solves=solved.report.solves + solves)
        solved = solved._replace(report=report)
    else:
        constants = constants.with_samples(imu)
    return _judged(solved, imu.bias_prior, limits, constants, config.gravity_norm)


def require_arguments(imu: ImuMeasurements, vision: RelativePoses, config: SolverConfig) -> None:
    """Raise unless the arguments are measurements, not raw samples or images, of enough keyframes
    that are far enough apart for the IMU's rate."""
    require_type(
        imu, ImuMeasurements, "imu", "raw_model(samples, noise) or a learned model makes them"
    )
    require_type(vision, RelativePoses, "vision", "RelativePoses(stamps_ns, Ts_ck_ck1, covs)")
    require_type(config, SolverConfig, "config", "SolverConfig()")
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


def _constants_of_window(
    imu: ImuMeasurements, solved: SolvedWindow, T_b_c: Array, config: SolverConfig
) -> tuple[MeasuredConstants, int]:
    """Constants measured by the window alone, and the number of solves it took."""
    report, freed, solves = solved.report, None, 0
    # Wrong constants make poses look like outliers: others may explain all of them.
    sets = [solved.vision, solved.all_poses] if report.rejected else [solved.vision]
    for vision in sets if solved.posterior is not None and report.converged else []:
        found = free_constants(imu, vision, solved.state, config, solved.spans)
        solves += found.report.solves if found is not None else 1
        if vision is solved.vision or (found and found.report.inflation <= report.inflation):
            freed = found
    # Wrong axes fit worse than the nominal noise; where nothing does, no others can fit better.
    misfit = report.inflation > 1.0
    if freed is not None and not misfit and not report.rejected:
        constants = MeasuredConstants(T_b_c, solved.vision.std_scale).with_samples(imu)
    else:
        constants = window_constants(imu, solved.vision, T_b_c, config.rule, misfit)
    return replace(constants, freed=freed, is_complete=True, is_window=True), solves


def _judged(
    solved: SolvedWindow,
    prior: BiasPrior,
    limits: InitLimits,
    constants: MeasuredConstants,
    gravity_norm: float,
) -> InitResult:
    """Verdict on gravity and velocity, given the measured constants."""
    state, posterior, report = solved.state, solved.posterior, solved.report
    contradicted = constants.contradictions(gravity_norm, report.std_time_offset_s is not None)
    broken = _broken(solved)
    if broken or posterior is None:
        return InitResult(Verdict("failed", (*contradicted, *broken)), report)
    noise = _noise_remark(solved)
    velocity = _velocity_std(state, posterior, report, constants)
    if report.inflation > NO_NOISE and velocity > limits.velocity:
        return InitResult(Verdict("failed", (*contradicted, *noise, NO_ANSWER)), report)
    checks = [
        *(Check("weak", reason) for reason in contradicted),
        _known_gravity(state, posterior, constants, prior, limits.gravity_deg),
        _within("velocity", velocity, limits.velocity, "m/s"),
        _plausible_bias(state, prior),
        *_solution_checks(solved),
        _consistent_vertical(report),
    ]
    unconfirmed = [] if contradicted else _unconfirmed(constants, state, posterior, limits)
    if not limits.trust_constants:
        # Of a stream more measurements will follow.
        status: Status = "weak" if constants.is_complete else "ok"
        checks += [Check(status, f"{reason}; {REMEDY}") for reason in unconfirmed]
        unconfirmed = []
    return InitResult(_verdict(checks, noise, unconfirmed), report, state, posterior)


def _verdict(checks: list[Check], noise: list[str], unconfirmed: Sequence[str] = ()) -> Verdict:
    """Worst status and all reasons."""
    order: list[Status] = ["ok", "weak", "failed"]
    status = max((check.status for check in checks), key=order.index)
    reasons = (*(check.reason for check in checks if check.reason), *noise)
    return Verdict(status, reasons, tuple(unconfirmed))


def _broken(solved: SolvedWindow) -> list[str]:
    """Reason for a missing estimate."""
    state, report = solved.state, solved.report
    parts = (state.Ts_c0_b, state.velocity_b, state.gravity_c0, state.T_b_c)
    squares = [float(np.vdot(part, part)) for part in parts]
    if not all(math.isfinite(value) for value in (*squares, report.cost)):
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
    if solved.posterior is None:
        return ["some state is not observable at all in this window; move more, in all directions"]
    return []


def _noise_remark(solved: SolvedWindow) -> list[str]:
    """Remark on nominal noise that chi-square shows to be too small, with the factor and the
    measurements that disagree."""
    report, vision = solved.report, solved.vision
    if report.inflation <= 1.0:
        return []
    steps_s = np.diff(vision.stamps_ns) / NS
    squares = np.mean((solved.rotations.residuals / steps_s[:, None]) ** 2, axis=1)
    # Unmeasured relative poses have no weight.
    weights = 1.0 / np.trace(vision.covs_T_ck_ck1[:, 3:, 3:], axis1=1, axis2=2)
    rate_deg = float(np.rad2deg(np.sqrt(np.average(squares, weights=weights))))
    return [
        f"chi-square {report.cost:.0f} for {report.dof} degrees of freedom: measurement noise is "
        f"about {np.sqrt(report.inflation):.1f} times the stated value; covariances were scaled "
        f"accordingly; vision and gyroscope disagree by {rate_deg:.2g} deg/s"
    ]


def _within(name: str, std: float, limit: float, unit: str, advice: str = "") -> Check:
    """Compare a standard deviation with the accepted error."""
    if std * CERTAIN <= limit:
        return OK
    status: Status = "weak" if std * HOPELESS <= limit else "failed"
    reason = f"{name} is known to {std:.2g} {unit} only, needed {limit / CERTAIN:.2g}"
    return Check(status, f"{reason}; {advice}" if advice else reason)


def _admitted(moved: float, std: float) -> float:
    """Standard deviation of an unbiased error that exceeds a limit as rarely as this error around
    `moved` does: two-sided at `CERTAIN`, or one-sided at the same probability."""
    return max(std, (moved + ONE_SIDED * std) / CERTAIN)


def _known_gravity(
    state: VIState,
    posterior: Posterior,
    constants: MeasuredConstants,
    prior: BiasPrior,
    limit_deg: float,
) -> Check:
    """Check of the direction of gravity, also with the accelerometer bias of all windows in
    addition to that of this window, or instead of it if they contradict its prior or show that the
    bias wanders."""
    std = direction_std(state.gravity_c0, posterior.gravity_c0)
    alone = _within("gravity's direction", float(np.rad2deg(std)), limit_deg, "deg")
    known = constants.translation
    acc_bias = None if known is None else known.acc_bias
    if acc_bias is None or alone.status != "ok":
        return alone
    shared = acc_bias.at(int(state.stamps_ns[0]))
    gain = posterior.acc_bias @ np.linalg.inv(posterior.acc_bias + shared.cov)
    cov = posterior.acc_bias - gain @ posterior.acc_bias
    away = shared.acc - prior.mean_acc
    far = away @ np.linalg.solve(np.diag(prior.std_acc**2) + shared.cov, away) > FAR_3D
    if far or acc_bias.wanders:
        gain, cov = np.eye(3), shared.cov
    # A bias adds to the forces of the window what it takes from gravity.
    g = state.gravity_c0
    tilt_D_ba = skew(g / (g @ g)) @ state.Ts_c0_b[:, :3, :3].mean(axis=0)
    learned = float(np.trace(tilt_D_ba @ (posterior.acc_bias - cov) @ tilt_D_ba.T))
    left_deg = float(np.rad2deg(np.sqrt(max(std**2 - learned, 0.0))))
    moved = tilt_D_ba @ gain @ (shared.acc - state.acc_bias_residual)
    tilt_deg = float(np.rad2deg(np.linalg.norm(moved)))
    found = ", ".join(f"{value:.2f}" for value in state.removed_acc + shared.acc)
    changing = " that changes" if acc_bias.wanders else ""
    advice = (
        f"the recorded motion shows an accelerometer bias of ({found}) m/s^2{changing}, which "
        f"moves gravity by {tilt_deg:.1f} deg: state it (`--acc-bias-prior`), or a larger standard "
        "deviation (`--acc-bias-std`)"
    )
    return _within("gravity's direction", _admitted(tilt_deg, left_deg), limit_deg, "deg", advice)


def _velocity_rms(posterior: Posterior) -> float:
    """Root mean square over the keyframes of the possible velocity error [m/s]."""
    variances = posterior.velocity_b.reshape(-1, 9)[:, ::4]
    return math.sqrt(float(variances.sum()) / len(variances))


def _velocity_std(
    state: VIState, posterior: Posterior, report: SolveReport, constants: MeasuredConstants
) -> float:
    """Root mean square of the possible velocity error [m/s]; where all windows together know the
    scale better than this one, with their error of this window's scale."""
    std = _velocity_rms(posterior)
    scale, std_scale = report.scale, report.std_scale
    known = constants.translation
    if known is None or scale is None or std_scale is None:
        return std
    relative = float(np.mean(np.sum(state.velocity_b**2, axis=1))) / scale**2
    doubt = relative * std_scale**2
    variance = known.cov[0, 0] + (CALIBRATED.acc_scale * known.scale) ** 2
    seen = relative * ((scale - known.scale) ** 2 + variance)
    return math.sqrt(max(std**2 - doubt, 0.0) + min(doubt, float(seen)))


def _plausible_bias(state: VIState, prior: BiasPrior) -> Check:
    """Check of a bias against its prior; one far outside has absorbed other errors."""
    away = np.abs(state.acc_bias_residual - prior.mean_acc) / prior.std_acc
    axis = int(np.argmax(away))
    return _weak_if(
        not away @ away <= FAR_3D,
        f"the accelerometer bias on {'xyz'[axis]} comes out as {state.acc_bias[axis]:.2f} m/s^2, "
        f"{away[axis]:.0f} standard deviations from what was expected: check units, gravity in the "
        "accelerometer and the scale of the camera's motion",
    )


REJECTED = (
    "{} of {} relative poses contradict the IMU and were rejected: a moving object filled the "
    "image, or the IMU's samples are wrong"
)
SECOND_MOTIONS = (
    "for {} of {} relative poses the motion of fewer matches was used, because it agrees with the "
    "IMU: a moving object or a repetitive wall has more"
)


def _solution_checks(solved: SolvedWindow) -> list[Check]:
    """Checks of the estimated scale and of relative poses that were rejected or replaced; with many
    of them, the remainder is arbitrary."""
    report, vision = solved.report, solved.vision
    checks = [_plausible_scale(report.scale or 1.0, 0.0, vision.std_scale)]
    measured = vision.measured_count
    for count, total, remark in (
        (report.rejected, measured + report.rejected, REJECTED),
        (report.second_motions, measured, SECOND_MOTIONS),
    ):
        if count:
            status: Status = "weak" if count >= MOST_MISSING * total else "ok"
            checks.append(Check(status, remark.format(count, total)))
    return checks


def _plausible_scale(scale: float, std: float, spread: float) -> Check:
    """Check of a scale against its own uncertainty and the nominal one."""
    away = abs(scale - 1.0) / max(math.hypot(std, spread), 1e-12)
    return _weak_if(
        not away <= FAR,
        f"accelerations fit the camera's motion if that is {scale:.3f} times as long, "
        f"{away:.1f} standard deviations from what was stated: check the stereo baseline or the "
        "trajectory's scale",
    )


def _consistent_vertical(report: SolveReport) -> Check:
    """Check of gravity against the vertical estimated from samples before the window."""
    return _weak_if(
        report.vertical_rejected,
        "gravity contradicts the vertical that the IMU's samples before the window show "
        f"(chi-square {report.vertical_chi2 or 0.0:.0f} for 2 degrees of freedom), which was not "
        "used: the accelerometer's error changed, or the camera's motion is wrong",
    )


def _unconfirmed(
    constants: MeasuredConstants, state: VIState, posterior: Posterior, limits: InitLimits
) -> list[str]:
    """The nominal constant that nothing confirms: with it unknown, gravity or velocity would
    exceed its limit."""
    freed, known = constants.freed, constants.translation
    velocity = 0.0
    if constants.is_window and freed is None:
        return [
            "the motion in the window is too small to confirm the stated extrinsics, and nothing "
            "else has been recorded"
        ]
    if freed is not None:
        span, gravity = "the window alone", freed.state.gravity_c0
        across = skew(gravity) @ state.gravity_c0
        moved_deg = math.degrees(math.atan2(math.hypot(*across), gravity @ state.gravity_c0))
        std_deg = math.degrees(direction_std(gravity, freed.posterior.gravity_c0))
        gravity_deg = _admitted(moved_deg, std_deg)
        faster = freed.state.velocity_b - state.velocity_b
        moved = math.sqrt(np.vdot(faster, faster) / len(faster))
        velocity = _admitted(moved, _velocity_rms(freed.posterior))
    else:
        span = "the recorded motion"
        assert constants.rotation is not None
        # An error of the extrinsic rotation rotates gravity in the camera.
        rotated = skew(state.gravity_c0) @ state.T_b_c[:3, :3].T
        cov = posterior.gravity_c0 + rotated @ constants.rotation.cov[:3, :3] @ rotated.T
        gravity_deg = math.degrees(direction_std(state.gravity_c0, cov))
        # A scale with a nominal spread is in the posterior already.
        if known is not None and constants.std_scale == 0.0:
            speed = float(np.sqrt(np.mean(np.sum(state.velocity_b**2, axis=1))))
            velocity = float(np.hypot(_velocity_rms(posterior), speed * np.sqrt(known.cov[0, 0])))
    if gravity_deg * CERTAIN > limits.gravity_deg:
        return [
            f"{span} does not confirm the stated extrinsics: if they were unknown, the direction "
            f"of gravity would be known only to {gravity_deg:.2g} deg, needed "
            f"{limits.gravity_deg / CERTAIN:.2g}"
        ]
    if velocity * CERTAIN > limits.velocity:
        return [
            f"{span} does not confirm the stated scale: if it were unknown, velocity would be "
            f"known only to {velocity:.2g} m/s, needed {limits.velocity / CERTAIN:.2g}"
        ]
    return []


def rotation_about_axes_deg(Ts_c0_b: Array) -> Array:
    """(3,) rotation of the body about each of its axes in the window, peak to peak [deg]."""
    R_b0_c0 = Ts_c0_b[0, :3, :3].T
    phi = np.array([so3_log(R_b0_c0 @ T[:3, :3]) for T in Ts_c0_b])
    return np.rad2deg(np.ptp(phi, axis=0))


def calibrate(
    imu: ImuMeasurements,
    vision: RelativePoses,
    config: SolverConfig | None = None,
    limits: CalibrationLimits | None = None,
    mounting: MountingPrior | None = None,
) -> CalibrationResult:
    """Estimate the extrinsics T_b_c of the camera of `vision`, with all states of the motion.

    First the rotation (Eq. 8, which needs neither gravity nor velocities), then the lever arm in
    closed form, then everything jointly (Eq. 9), with biases as the random walks of `imu`.

    Args:
        imu: IMU measurements from `raw_model`, `datasheet_model` or `ImuModel.measure`; they must
            cover the keyframes.
        vision: relative poses of at least four keyframes, with covariances; rotation about two
            axes or more makes the extrinsics observable.
        config: choices of the solver; gravity has its known norm and both biases are estimated.
        limits: largest errors of the extrinsics that the verdict `ok` allows.
        mounting: prior of the extrinsics, for motion that does not determine all of them; none by
            default.

    Returns:
        State with `T_b_c`, posterior covariance, report and verdict, whose reasons name the axes
        that are not observable and the motion that would help. Biases are those at the last
        keyframe.

    Raises:
        MeasurementError: an argument has the wrong type, or there are too few keyframes.
        OptionError: the configuration has a choice that only `initialize` supports.
        DatasetError: the samples do not cover the keyframes or have a gap.
    """
    began = time.perf_counter()
    config, limits = config or DEFAULT_CONFIG, limits or CalibrationLimits()
    mounting = mounting or NOTHING_KNOWN
    require_arguments(imu, vision, config)
    _require_choices(config)
    require_type(limits, CalibrationLimits, "limits", "CalibrationLimits()")

    solved, choice, aligned = solve_from_nothing(imu, vision, mounting, config)
    vision = choice.vision
    state, posterior, report = solved.answer(imu, exactly=True)
    frame = frame_covariance(vision.std_frame, state.T_b_c)
    scale = measured_scale(vision, solved)
    progress = calibration_progress(solved, frame)
    report = with_choice(replace(report, solve_ms=1e3 * (time.perf_counter() - began)), choice)
    if posterior is not None:
        posterior = with_frame(posterior, frame, state.T_b_c)
    window = SolvedWindow(vision, vision, aligned, state, posterior, report, solved)
    constants = window_constants(imu, vision, state.T_b_c, config.rule, False)
    delay = one_instant(position_delay(imu, solved.solution))

    contradicted = constants.contradicted_inputs(report.std_time_offset_s is not None)
    broken = _broken(window)
    if broken or posterior is None:
        reasons = (*contradicted, *_unobserved_rotation(aligned.cov, limits), *broken)
        return CalibrationResult(Verdict("failed", reasons), report)
    checks = [Check("weak", reason) for reason in contradicted]
    checks += _axis_checks(state, posterior, limits)
    if scale is not None:
        checks.append(_plausible_scale(*scale, CALIBRATED.acc_scale))
    checks += [*_solution_checks(window), delay]
    checks += _mounting_checks(mounting, state.T_b_c, posterior.T_b_c)
    verdict = _verdict(checks, _noise_remark(window))
    return CalibrationResult(verdict, report, state, posterior, progress)


def _require_choices(config: SolverConfig) -> None:
    """Raise where the configuration asks for what a chain of states does not have."""
    fixed = {
        "gravity_on_sphere": True,
        "estimate_gyro_bias": True,
        "estimate_acc_bias": True,
        "imu_cross_terms": True,
        "imu_identity": False,
        "rule": "midpoint",
    }
    for name, needed in fixed.items():
        if getattr(config, name) != needed:
            raise OptionError(
                f"SolverConfig.{name} is {getattr(config, name)!r}, needed {needed!r} for "
                "`calibrate`; only `initialize` knows the other."
            )


def _unobserved_rotation(cov: Array, limits: CalibrationLimits) -> list[str]:
    """Axes about which the camera's rotation was not observable, given the covariance of [gyroscope
    bias, rotation] from rotations alone."""
    std_deg = np.rad2deg(np.sqrt(np.diag(cov)[3:6]))
    advice = "rotate the device about all axes"
    checks = (
        _within(name, float(std), limits.rotation_deg, "deg", advice)
        for name, std in zip(AXES_OF_CAMERA[3:], std_deg, strict=True)
    )
    return [check.reason for check in checks if check.reason]


def _axis_checks(state: VIState, posterior: Posterior, limits: CalibrationLimits) -> list[Check]:
    """Checks of each axis of the extrinsics, with the motion that would help."""
    checks: list[Check] = []
    std = np.sqrt(np.diag(posterior.T_b_c))
    turned_deg = rotation_about_axes_deg(state.Ts_c0_b)
    for axis in range(3):
        for entry, value, limit, unit in (
            (3 + axis, float(np.rad2deg(std[3 + axis])), limits.rotation_deg, "deg"),
            (axis, float(std[axis]), limits.translation, "m"),
        ):
            advice = _advice(turned_deg, axis, value, limit)
            checks.append(_within(AXES_OF_CAMERA[entry], value, limit, unit, advice))
    return checks


def _advice(turned_deg: Array, axis: int, std: float, limit: float) -> str:
    """Motion that would help: an axis is observable by rotation about the other two."""
    others = [i for i in range(3) if i != axis]
    turned = float(turned_deg[others].max())
    needed = float(np.clip(turned * std * CERTAIN / limit, 5.0, 60.0))
    names = " or ".join("xyz"[i] for i in others)
    return f"too little rotation about {names}: {turned:.1f} deg, needs about {needed:.0f}"


def _mounting_checks(mounting: MountingPrior, T_b_c: Array, cov_T_b_c: Array) -> list[Check]:
    """Axes that stay at the prior of the extrinsics, and directions in which motion contradicts it.

    The variance of the movement from the prior is the prior's less the posterior's.
    """
    if not np.isfinite(mounting.std[3:]).all():
        return []
    std = np.sqrt(np.diag(cov_T_b_c))
    kept = std >= KEPT * mounting.std
    checks = [
        Check(
            "ok",
            f"{AXES_OF_CAMERA[i]} does not show in this motion and stays at the stated prior, "
            f"{_length(std[i], i)} (1 sigma)",
        )
        for i in range(6)
        if kept[i]
    ]
    seen = [f"{AXES_OF_CAMERA[i]} to {_length(std[i], i)}" for i in range(6) if not kept[i]]
    if checks and seen:
        checks.append(Check("ok", f"motion shows {'; '.join(seen)}"))
    moved = se3_log(T_b_c @ se3_inv(np.ascontiguousarray(mounting.T_b_c))) / mounting.std
    shares, directions = np.linalg.eigh(cov_T_b_c / np.outer(mounting.std, mounting.std))
    for share, direction in zip(shares, directions.T, strict=True):
        away = abs(float(direction @ moved)) / np.sqrt(max(1.0 - share, 1e-12))
        if share <= KEPT**2 and away > FAR:
            axis = int(np.argmax(np.abs(direction)))
            reason = (
                f"the stated prior is contradicted: {AXES_OF_CAMERA[axis]} came out "
                f"{_length(abs(moved[axis]) * mounting.std[axis], axis)} from it, {away:.1f} "
                "standard deviations; check the prior's frames and axes"
            )
            checks.append(Check("weak", reason))
    return checks


def _length(value: float, axis: int) -> str:
    """Length or angle along an entry of [rho, phi]."""
    return f"{1e3 * value:.1f} mm" if axis < 3 else f"{np.rad2deg(value):.2f} deg"


class PositionDelay(NamedTuple):
    """Delay of a camera's positions behind its orientations [s].

    A camera sees both at once. A laser tracker beside an IMU, a filtered trajectory, or an
    accelerometer that is stamped later than its gyroscope does not, and a delay between the two
    looks like a lever arm of centimetres.
    """

    delay_s: float
    std_s: float


def position_delay(imu: ImuMeasurements, solution: Solution) -> PositionDelay | None:
    """Delay that fits best around a calibration that is solved, everything else free; None where
    the motion does not determine it.

    A Newton step from no delay: chi-square of the optimum is a parabola in it. Squares, for robust
    losses would take the delay for outliers.
    """
    if not solution.converged:
        return None
    if solution.problem.camera[0].loss.kind != "none":
        squares = with_loss(solution.problem, Loss())
        solution = solve(squares, solution.states, solution.shared)
    try:
        response = Response(solution, covariance(solution))
    except MeasurementError:
        return None
    motions = solution.measurements.motions
    moved = _moved_by_a_second(imu, solution)[motions.state]
    by_delay = motions.white[:, :, :3] @ moved[:, :, None]
    gradient, gradient_shared = response.gradients(by_delay)
    followed, followed_shared = response.solved(gradient, gradient_shared)
    curvature = float(
        np.sum(by_delay**2)
        - np.sum(gradient * followed)
        - np.sum(gradient_shared * followed_shared)
    )
    if not curvature > 0.0:
        return None
    slope = float(np.sum(by_delay[:, :, 0] * response.r))
    return PositionDelay(-slope / curvature, curvature**-0.5)


def _moved_by_a_second(imu: ImuMeasurements, solution: Solution) -> Array:
    """(n - 1, 3) change of each relative translation by a delay of a second: that of the camera's
    velocity, in the camera where the motion begins."""
    states, T_b_c = solution.states, solution.shared.T_b_c
    stamps_ns, R_w_b = solution.problem.stamps_ns, states.Ts_w_b[:, :3, :3]
    rates = [np.interp(stamps_ns, imu.stamps_ns, axis) for axis in imu.gyro.T]
    omega_b = np.stack(rates, axis=1) - states.bias_gyro
    v_w = states.v_w + np.einsum("kij,kj->ki", R_w_b, np.cross(omega_b, T_b_c[:3, 3]))
    R_w_c = R_w_b @ T_b_c[:3, :3]
    return np.asarray(np.einsum("kji,kj->ki", R_w_c[:-1], np.diff(v_w, axis=0)))


def one_instant(delay: PositionDelay | None) -> Check:
    """Positions and orientations that are not of one instant, in words."""
    if delay is None or abs(delay.delay_s) <= FAR * np.hypot(delay.std_s, CALIBRATED.acc_clock_s):
        return Check("ok")
    side = "late" if delay.delay_s > 0.0 else "early"
    return Check(
        "weak",
        f"the camera's positions are {1e3 * abs(delay.delay_s):.1f} +- {1e3 * delay.std_s:.1f} ms "
        f"{side} against its orientations, which looks like a lever arm: audit a ground truth that "
        "they are made of (`--truth audited`), or check the accelerometer's timestamps against the "
        "gyroscope's",
    )


document_fields(__name__)
