"""Sources of rotation, ground truths and vision, compared with the IMU: clocks, extrinsics, axes
and scale, with uncertainties.

All windows of a recording are tested together, as `maci2 init` does before a verdict of `ok`.
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.consistency import Evidence, MeasuredConstants
from maci2.consistency.significance import FAR
from maci2.errors import CalibrationError, DatasetError, Maci2Error
from maci2.estimator import CalibrationResult
from maci2.findings import Finding
from maci2.geometry import se3_inv, se3_log, so3_log
from maci2.geometry.se3 import nearest_rotation
from maci2.imu import raw_model
from maci2.imu.rotation_rates import (
    MIN_CORRELATION,
    MIN_RATE,
    SEARCH_S,
    RateMatch,
    RotationSource,
    columns,
    match_rates,
    misfit,
)
from maci2.sensors import CameraTrajectory, GroundTruth, ImuSamples, Recording, Rig, with_velocity
from maci2.tools.diagnostics import checks
from maci2.tools.diagnostics.axes import (
    OF_BOTH,
    Forces,
    accelerometer_axes,
    axes_against_truth,
    compare_with_gravity,
    in_degrees,
    is_better,
    truth_forces,
)
from maci2.tools.diagnostics.estimator_trial import Trial, extrinsics_finding, rotation_finding
from maci2.tools.diagnostics.imu import bias_findings
from maci2.tools.ground_truth.accelerations import fit_accelerations
from maci2.tools.ground_truth.audit_files import cached_audit
from maci2.tools.ground_truth.capture import capture_of
from maci2.tools.ground_truth.choose import beside_raw_capture
from maci2.tools.ground_truth.comparison import TruthCheck, check_truth, truth_findings
from maci2.tools.ground_truth.findings import misleading, sentence, velocity_finding
from maci2.tools.ground_truth.registration import (
    MIN_COMMON_S,
    lost_rows_in_words,
    register,
    without_lost_rows,
)
from maci2.types import NS, Array
from maci2.vision import rectified_extrinsics
from maci2.vision.relative_poses import CameraFrame

SERIOUS_OFFSET_S = 0.01
SIGMAS = 5.0
"""Number of standard deviations that a difference must exceed as well."""

MAX_ROTATION_DEG = 1.0
MAX_POSITION = 0.03
"""Accepted difference of extrinsics, which is also the accuracy expected of `calibrate`."""

SERIOUS_ROTATION_DEG = 5.0
SERIOUS_POSITION = 0.1

SURELY_ALIKE = 0.98
"""Correlation of rates above which inverted poses are not considered."""


def contradiction(
    source: RotationSource, match: RateMatch | None, imu: ImuSamples, doubtful: bool = False
) -> list[Finding]:
    """Finding about a source that rotates differently from the gyroscope; `doubtful` if axes seem
    wrong, since inverse poses look the same in motion with one main axis."""
    if match is None or match.excitation < MIN_RATE:
        return []
    alike = match.correlation
    if alike > SURELY_ALIKE and not doubtful:
        return []
    Ts = source.Ts_w_s.copy()
    Ts[:, :3, :3] = np.swapaxes(source.Ts_w_s[:, :3, :3], 1, 2)
    inverted = match_rates(replace(source, Ts_w_s=Ts), imu)
    if inverted and is_better(1.0 - inverted.correlation, 1.0 - alike):
        correlations = {"correlation": alike, "inverted": inverted.correlation}
        return [checks.INVERTED_POSES.finding(source.name, **correlations)]
    if alike > MIN_CORRELATION:
        return []
    return [checks.OTHER_ROTATION.finding(source.name, correlation=alike)]


def clock_findings(
    source: RotationSource, match: RateMatch, offset: tuple[float, float], stated_s: float = 0.0
) -> list[Finding]:
    """Findings about a clock's offset to the IMU's, given with its standard deviation [s], and its
    drift; of a camera, beyond the `stated` offset."""
    offset_s, std_s = offset
    # Zero has no sign.
    measured = f"{round(1e3 * offset_s, 2) + 0.0:+.2f} ± {1e3 * std_s:.2f} ms"
    whose, name, other = "time offset to the IMU", "Wrong clock: the truth's time offset", "."
    if source.kind == "vision":
        whose = name = "camera-IMU time offset"
        other = f", or put timeshift_cam_imu: {stated_s + offset_s:.6f} into the camchain."
    if abs(offset_s) <= max(checks.CLOCK_OFFSET.limit, SIGMAS * std_s):
        findings = [Finding("ok", source.name, f"{whose} {measured}", found=measured)]
    else:
        serious = abs(offset_s) > SERIOUS_OFFSET_S
        texts = {"name": name, "offset": measured, "offset_ms": 1e3 * offset_s, "other": other}
        findings = [checks.CLOCK_OFFSET.finding(source.name, serious, **texts)]
    if abs(match.drift_s) > max(checks.CLOCK_DRIFT.limit, SIGMAS * match.std_drift_s):
        drift = {"drift_ms": 1e3 * match.drift_s, "std_ms": 1e3 * match.std_drift_s}
        findings.append(checks.CLOCK_DRIFT.finding(source.name, **drift))
    return findings


def mirror_findings(match: RateMatch) -> list[Finding]:
    """Finding about unit and handedness of the gyroscope, which no extrinsics explain."""
    degrees, rates, gyro = in_degrees(match, "vision"), match.rates_s, match.gyro
    mirrored = misfit(rates, gyro, -best_rotation(rates, -gyro))
    if degrees or not is_better(mirrored, misfit(rates, gyro, best_rotation(rates, gyro))):
        return degrees
    return [checks.MIRRORED_IMU.finding("imu", flipped=columns(np.diag([1.0, 1.0, -1.0])))]


def best_rotation(expected: Array, measured: Array) -> Array:
    """R with expected = R measured, both (n, 3) and centred."""
    return nearest_rotation(
        (expected - expected.mean(axis=0)).T @ (measured - measured.mean(axis=0))
    )


def extrinsics_findings(
    source: RotationSource, match: RateMatch, result: CalibrationResult | None, T_inverted: Array
) -> list[Finding]:
    """Compare the stated T_b_c with the one that motion shows; `T_inverted` is the stated one if
    the file holds T_c_b."""
    if result is None or result.state is None or result.posterior is None:
        # Without a joint estimate rotations are compared alone.
        expected, gyro = match.rates_s @ source.T_b_s[:3, :3].T, match.gyro
        R = best_rotation(expected, gyro)
        if not is_better(misfit(expected, gyro, R), misfit(expected, gyro, np.eye(3))):
            return []
        angle_deg = float(np.rad2deg(np.linalg.norm(so3_log(R))))
        return [checks.WRONG_ROTATION.finding("calibration", angle_deg=angle_deg)]
    found, cov = result.state.T_b_c, result.posterior.T_b_c
    rotation_deg, position = _apart(found, source.T_b_s)
    off = _off(found, source.T_b_s, cov)
    if not off:
        text = (
            f"extrinsics agree with the motion to {rotation_deg:.2f} deg and "
            f"{1e3 * position:.0f} mm"
        )
        return [Finding("ok", source.name, text)]
    apart = f"{rotation_deg:.1f} deg and {1e3 * position:.0f} mm between given and found"
    if not _off(found, T_inverted, cov):
        return [checks.INVERTED_EXTRINSICS.finding("calibration", apart=apart)]
    serious = rotation_deg > SERIOUS_ROTATION_DEG or position > SERIOUS_POSITION
    part = "" if off == "both" else f"{off} of the "
    texts = {"part": part, "apart": apart, "p": found[:3, 3]}
    return [checks.WRONG_EXTRINSICS.finding("calibration", serious, **texts)]


def _apart(found: Array, given: Array) -> tuple[float, float]:
    """Angle [deg] and distance [m]."""
    turned = so3_log(found[:3, :3] @ given[:3, :3].T)
    return float(np.rad2deg(np.linalg.norm(turned))), float(np.linalg.norm((found - given)[:3, 3]))


def _off(found: Array, given: Array, cov: Array) -> str:
    """Names of the parts that differ by more than is accepted: rotation, position, both or none."""
    xi = se3_log(given @ se3_inv(found))
    rotation_deg, position = _apart(found, given)
    std, std_rad = (_along(cov[part, part], xi[part]) for part in (slice(0, 3), slice(3, 6)))
    turned = rotation_deg > max(MAX_ROTATION_DEG, SIGMAS * float(np.rad2deg(std_rad)))
    moved = position > max(MAX_POSITION, SIGMAS * std)
    return "both" if turned and moved else "rotation" if turned else "position" if moved else ""


def _along(cov: Array, direction: Array) -> float:
    unit = direction / max(float(np.linalg.norm(direction)), 1e-12)
    return float(np.sqrt(unit @ cov @ unit))


UNITS = {"millimetres": 1e-3, "centimetres": 1e-2, "kilometres": 1e3}
"""Length in metres of units in which a path may be written."""


def path_constants(trial: Trial) -> MeasuredConstants | None:
    """Test of scale and axes on the whole path; None if no window can be compared."""
    measured, evidence = raw_model(trial.imu, trial.noise), Evidence(trial.source.T_b_s)
    for stamps_ns in trial.windows():
        try:
            evidence.add(measured, [trial.motion(stamps_ns)])
        except DatasetError:
            continue
    return evidence.constants()


def scale_findings(source: RotationSource, constants: MeasuredConstants | None) -> list[Finding]:
    """Finding about the scale of the camera's path relative to the accelerometer."""
    if constants is None or constants.translation is None or constants.axes_right < 0.5:
        return []
    scale = constants.translation.scale
    # One over the scale is what was measured: of both distances the shorter one counts.
    std = float(np.sqrt(constants.translation.cov[0, 0])) / min(1.0, abs(scale))
    far = FAR * float(np.hypot(std, CALIBRATED.acc_scale))
    if abs(scale - 1.0) <= far or scale <= 0.0:
        return []
    unit = next((name for name, size in UNITS.items() if abs(scale / size - 1.0) < 0.2), "")
    other = "; or use stereo, and check the baseline and its unit."
    measured = {
        "factor": f"{scale:.{max(3, 2 - int(np.floor(np.log10(abs(scale)))))}f}",
        "std": std * min(1.0, scale),
        "far": far,
        "hint": f": they look like {unit}." if unit else other,
    }
    serious = abs(scale - 1.0) > checks.WRONG_SCALE.limit
    return [checks.WRONG_SCALE.finding(source.name, serious, **measured)]


UPRIGHT = np.cos(np.deg2rad(30.0))
"""Least z component of the direction up in a world whose z axis is meant to be up."""


def truth_fault(
    name: str, truth: GroundTruth, imu: ImuSamples, axes: list[Finding], forces: Forces | None
) -> list[Finding]:
    """Faults that make a ground truth useless: unit, quaternions, inverse poses, clock, axes.

    `axes` are findings about the IMU's axes compared with this truth. Only where both sensors
    contradict it, and gyroscope and accelerometer each other through it, but not without it, the
    truth is at fault; axes in which both differ alike may be either's.
    """
    lengths_s = [(stamps[-1] - stamps[0]) / NS for stamps in (truth.stamps_ns, imu.stamps_ns)]
    if min(lengths_s) < MIN_COMMON_S or (axes and not _imu_is_sound(imu, axes, forces)):
        return []
    capture = capture_of(name, truth)
    try:
        found = register(capture, imu)
        capture = without_lost_rows(capture, found, imu)
        fit = fit_accelerations(capture, found, found.R_b_m, imu)
    except DatasetError as error:
        text = str(error).removeprefix(f"{truth.source}: ")
        return [Finding("error", name, text[0].upper() + text[1:], "the truth is wrong")]
    if abs(found.offset_s) > SEARCH_S:
        return [checks.FAR_CLOCK.finding(name, offset_s=found.offset_s)]
    lost = lost_rows_in_words(capture)
    if lost:
        text = f"{lost}. Remove these rows, or score against --truth audited, which does."
        return [Finding("error", name, text, "lost rows")]
    if fit is not None and fit.up_w[2] <= UPRIGHT and not np.isnan(fit.scale):
        return [checks.TILTED_WORLD.finding(name, **dict(zip("xyz", fit.up_w, strict=True)))]
    if not np.isfinite(truth.v_w).any():
        return []
    # Velocities may be others than those of the truth's own positions.
    moved = with_velocity(replace(truth, v_w=np.full_like(truth.v_w, np.nan)))
    velocity = velocity_finding(name, truth, moved, np.eye(3))
    return [replace(one, level="error", text=f"{one.text}.") for one in velocity]


def _imu_is_sound(imu: ImuSamples, axes: list[Finding], forces: Forces | None) -> bool:
    """Gyroscope and accelerometer agree without any truth, and neither of them with this one."""
    if axes[0].fault in OF_BOTH or (forces is not None and forces.fit):
        return False
    gravity = compare_with_gravity(imu)
    return gravity is not None and not gravity.disagree


def audit_finding(recording: Recording) -> list[Finding]:
    """Audit in one sentence. Small errors of a ground truth are not faults of the recording; those
    that make scores against it meaningless are said as such."""
    name, truth = next(iter(recording.truths.items()), ("", None))
    if truth is None or truth.stamps_ns[-1] - truth.stamps_ns[0] < MIN_COMMON_S * NS:
        return []
    try:
        audit = beside_raw_capture(recording, cached_audit(recording, name))
    except Maci2Error as error:
        return [Finding("warn", name, f"cannot be audited: {error}", "audit")]
    clock = sentence("position_late_ms", audit.constants["position_late_ms"])
    others = [finding.text for finding in audit.findings if finding.fault != "position_late_ms"]
    text = f"audited with the IMU: {'; '.join([clock, *others])}"
    if any(finding.level != "ok" for finding in audit.findings):
        text += ". Score against it with --truth audited."
    return [Finding("warn" if misleading(audit.findings) else "ok", name, text)]


_UNPROVEN_OFFSET_S = 0.02
"""Largest difference between the offset from rates and the joint estimate [s]; beyond it the joint
estimate has failed."""


@dataclass(frozen=True)
class Rotations:
    """Results of all comparisons."""

    truths: dict[str, TruthCheck]
    findings: list[Finding]
    axes_judged: bool = False
    """A ground truth has confirmed unit and axes of the IMU."""


@dataclass(frozen=True)
class _TruthComparison:
    """Comparison of one ground truth with the IMU."""

    source: RotationSource
    truth: GroundTruth
    match: RateMatch | None
    forces: Forces | None
    axes: list[Finding]
    contradiction: list[Finding]
    clock: list[Finding]
    """Findings about the clock, where it can be compared."""

    @classmethod
    def of(cls, name: str, truth: GroundTruth, imu: ImuSamples) -> "_TruthComparison":
        """Compare a ground truth with the IMU."""
        source = RotationSource(name, "truth", truth.stamps_ns, truth.Ts_w_b, np.eye(4))
        match, forces, axes, clock = match_rates(source, imu), None, [], []
        if match is not None and match.comparable:
            forces = truth_forces(truth, imu, match.offset_s)
            axes = axes_against_truth(match, forces)
        useless = truth_fault(name, truth, imu, axes, forces)
        faults = useless or contradiction(source, match, imu, bool(axes))
        if match is not None and match.comparable and not faults:
            clock = clock_findings(source, match, (match.offset_s, match.std_offset_s))
        return cls(source, truth, match, forces, [] if useless else axes, faults, clock)

    def check(self, imu: ImuSamples) -> TruthCheck:
        """Check of the ground truth, with its clock corrected if that is wrong."""
        wrong = any(finding.level != "ok" for finding in self.clock)
        shift_ns = round(self.match.offset_s * NS) if self.match and wrong else 0
        return check_truth(replace(self.truth, stamps_ns=self.truth.stamps_ns + shift_ns), imu)


def compare_rotations(
    recording: Recording, vision: CameraTrajectory | None, frame: CameraFrame
) -> Rotations:
    """Compare ground truths with the IMU, then vision, which depends on the extrinsics."""
    imu = recording.imu
    compared = [_TruthComparison.of(name, truth, imu) for name, truth in recording.truths.items()]
    # Only a truth whose rotation can be compared, and that nothing contradicts, has a clock.
    judges = [one for one in compared if one.clock]
    truths = {one.source.name: one.check(imu) for one in compared}
    # Axes that one truth confirms are the IMU's fault in no other.
    if judges and all(one.axes for one in judges):
        return Rotations(truths, judges[0].axes, True)
    findings = _truth_findings(compared, judges, truths)
    of_vision, motion = _vision_findings(recording, vision, frame, bool(judges))
    findings += of_vision
    if all(finding.level != "error" for finding in findings):
        if motion is None and judges and judges[0].match:
            trial = Trial.of(judges[0].source, judges[0].match, recording)
            motion = trial, trial.calibrated()
        bias_gyro = imu.gyro.mean(axis=0)
        if motion is not None:
            trial, result = motion
            findings += trial.window_finding() + extrinsics_finding(result, trial.source.name)
            bias_gyro = trial.bias_gyro()
        findings.append(rotation_finding(imu, bias_gyro))
    imu_blamed = any(finding.what == "imu" and finding.level == "error" for finding in findings)
    return Rotations(truths, findings, bool(judges) or imu_blamed)


def _truth_findings(
    compared: list[_TruthComparison],
    judges: list[_TruthComparison],
    truths: dict[str, TruthCheck],
) -> list[Finding]:
    """Contradictions and clocks, then biases of the IMU, then errors of the ground truths."""
    findings = [found for one in compared for found in one.contradiction or one.clock]
    sound = {one.source.name: truths[one.source.name] for one in compared if not one.contradiction}
    for judge in judges[:1]:
        match, name = judge.match, judge.source.name
        if match is None:
            continue
        bias_acc, tilt_deg = judge.forces.bias_and_tilt() if judge.forces else (np.zeros(3), 0.0)
        bias_gyro = np.asarray(np.median(match.gyro - match.rates_s, axis=0))
        biases = bias_findings(bias_gyro, bias_acc, "against the ground truth")
        findings += biases
        if biases and judge.forces:
            # A bias looks like a tilt of the truth; the residual tilt counts.
            sound[name] = replace(sound[name], tilt_deg=tilt_deg)
    return findings + (truth_findings(sound) if sound or not compared else [])


def _vision_findings(
    recording: Recording, vision: CameraTrajectory | None, frame: CameraFrame, imu_is_sound: bool
) -> tuple[list[Finding], tuple[Trial, CalibrationResult | None] | None]:
    """Findings and, if the source can be used further, the trial with its calibration."""
    if vision is None or not recording.rig.cameras:
        return [], None
    try:
        imu, T_b_s = recording.imu, _extrinsics(recording.rig, frame)
    except CalibrationError as error:
        name = "the cameras cannot be rectified"
        return [Finding("error", "calibration", str(error), name)], None
    source = RotationSource("vision", "vision", vision.stamps_ns, vision.Ts_w_c, T_b_s)
    match = match_rates(source, imu)
    if match is None:
        text = "shares less than 2 s with the IMU, nothing can be compared. Check its clock."
        return [Finding("error", "vision", text, "vision and IMU share no time")], None
    faults = contradiction(source, match, imu)
    if faults:
        return faults, None
    if not match.comparable:
        text = "rotates too little to compare it with the gyroscope"
        return [Finding("ok", "vision", text)], None
    mirrored = [] if imu_is_sound else mirror_findings(match)
    if mirrored:
        return mirrored, None
    trial = Trial.of(source, match, recording)
    constants = path_constants(trial)
    if constants is not None and constants.axes_right < 0.5 and not imu_is_sound:
        return [accelerometer_axes(constants.axes, "the camera's path")], None
    result = trial.calibrated()
    # A wrong scale also moves the camera; its position is judged when that is fixed.
    findings = scale_findings(source, constants)
    if recording.rig.extrinsics_known:
        T_inverted = _inverted_extrinsics(recording.rig, frame)
        if all(finding.level != "error" for finding in findings):
            findings += extrinsics_findings(source, match, result, T_inverted)
        if any(finding.level == "error" for finding in findings):
            # In motions with a main axis, inverse poses look like wrong extrinsics.
            faults = contradiction(source, match, imu, doubtful=True)
            if faults:
                return faults, None
    elif result is not None and result.state is not None:
        trial = replace(trial, source=replace(trial.source, T_b_s=result.state.T_b_c))
    offset = _joint_offset(match, result)
    findings += clock_findings(source, match, offset, recording.rig.time_offset_s)
    return findings, (trial, result)


def _joint_offset(match: RateMatch, result: CalibrationResult | None) -> tuple[float, float]:
    """Time offset and its standard deviation [s], from the joint estimate where that succeeded."""
    offset_s, std_s = match.offset_s, match.std_offset_s
    if result is None or result.state is None:
        return offset_s, std_s
    further_s, joint_std_s = result.report.time_offset_s, result.report.std_time_offset_s
    if further_s is None or joint_std_s is None:
        return offset_s, std_s
    proven = abs(further_s) < _UNPROVEN_OFFSET_S and joint_std_s < max(std_s, 0.001)
    return (offset_s + further_s, joint_std_s) if proven else (offset_s, std_s)


def _extrinsics(rig: Rig, frame: CameraFrame) -> Array:
    return rectified_extrinsics(rig) if frame == "rectified" else rig.cameras[0].T_b_c


def _inverted_extrinsics(rig: Rig, frame: CameraFrame) -> Array:
    """T_b_s if every T_b_c had been written as its inverse."""
    cameras = tuple(replace(camera, T_b_c=se3_inv(camera.T_b_c)) for camera in rig.cameras)
    try:
        return _extrinsics(replace(rig, cameras=cameras), frame)
    except CalibrationError:
        # Inverted, the two are no stereo pair: the left camera stands for itself.
        return cameras[0].T_b_c
