"""Sources of rotation, ground truths and vision, compared with the IMU."""

from dataclasses import dataclass, replace

import numpy as np

from maci2.errors import CalibrationError, DatasetError, Maci2Error
from maci2.estimator import CalibrationResult
from maci2.findings import Finding
from maci2.geometry import se3_inv
from maci2.imu.rotation_rates import MIN_RATE, SEARCH_S, RateMatch, RotationSource, match_rates
from maci2.sensors import CameraTrajectory, GroundTruth, ImuSamples, Recording, Rig, with_velocity
from maci2.tools.diagnostics import checks
from maci2.tools.diagnostics.axes import (
    OF_BOTH,
    Forces,
    axes_against_truth,
    biases_against_truth,
    truth_forces,
)
from maci2.tools.diagnostics.camera_imu import (
    axes_findings,
    disagreement,
    drift_findings,
    extrinsics_findings,
    mirror_findings,
    offset_findings,
    path_constants,
    scale_findings,
)
from maci2.tools.diagnostics.estimator_trial import (
    calibrated,
    extrinsics_finding,
    initializable,
    rotation_finding,
    window_finding,
)
from maci2.tools.diagnostics.imu import compare_with_gravity
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
    return _velocity_columns(name, truth)


def _velocity_columns(name: str, truth: GroundTruth) -> list[Finding]:
    """Velocities that are not those of the truth's own positions."""
    if not np.isfinite(truth.v_w).any():
        return []
    moved = with_velocity(replace(truth, v_w=np.full_like(truth.v_w, np.nan)))
    found = velocity_finding(name, truth, moved, np.eye(3))
    return [replace(one, level="error", text=f"{one.text}.") for one in found]


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


SURELY_ALIKE = 0.98
"""Correlation of rates above which inverted poses are not considered."""

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

    @property
    def comparable(self) -> bool:
        """Rotation of both can be compared, and nothing contradicts."""
        return self.match is not None and self.match.comparable and not self.contradiction

    @property
    def clock(self) -> list[Finding]:
        """Findings about the clock, where it can be compared."""
        if self.match is None or not self.comparable:
            return []
        offset = offset_findings(self.source, self.match.offset_s, self.match.std_offset_s)
        return offset + drift_findings(self.source, self.match)


def compare_rotations(
    recording: Recording, vision: CameraTrajectory | None, frame: CameraFrame
) -> Rotations:
    """Compare ground truths with the IMU, then vision, which depends on the extrinsics."""
    imu = recording.imu
    compared = [_compared(name, truth, imu) for name, truth in recording.truths.items()]
    judges = [one for one in compared if one.comparable]
    truths = {one.source.name: _checked(one, imu) for one in compared}
    # Axes that one truth confirms are the IMU's fault in no other.
    if judges and all(one.axes for one in judges):
        return Rotations(truths, judges[0].axes, True)
    findings = _truth_findings(compared, judges, truths)
    of_vision, motion = _vision_findings(recording, vision, frame, bool(judges))
    findings += of_vision
    if all(finding.level != "error" for finding in findings):
        trials = (_trial(one.source, one.match, recording) for one in judges if one.match)
        findings += _excitation(recording, motion or next(trials, None))
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
        biases = biases_against_truth(judge.match, judge.forces) if judge.match else []
        findings += biases
        if biases and judge.forces:
            # A bias looks like a tilt of the truth; the residual tilt counts.
            name, tilt_deg = judge.source.name, judge.forces.bias_and_tilt()[1]
            sound[name] = replace(sound[name], tilt_deg=tilt_deg)
    return findings + (truth_findings(sound) if sound or not compared else [])


def _compared(name: str, truth: GroundTruth, imu: ImuSamples) -> _TruthComparison:
    source = RotationSource(name, "truth", truth.stamps_ns, truth.Ts_w_b, np.eye(4))
    match, forces, axes = match_rates(source, imu), None, []
    if match is not None and match.comparable:
        forces = truth_forces(truth, imu, match.offset_s)
        axes = axes_against_truth(match, forces)
    useless = truth_fault(name, truth, imu, axes, forces)
    contradiction = useless or _contradiction(source, match, imu, bool(axes))
    return _TruthComparison(source, truth, match, forces, [] if useless else axes, contradiction)


def _contradiction(
    source: RotationSource, match: RateMatch | None, imu: ImuSamples, doubtful: bool = False
) -> list[Finding]:
    """Finding about a source that rotates differently from the gyroscope; `doubtful` if axes seem
    wrong, since inverse poses look the same in motion with one main axis."""
    if match is None or match.excitation < MIN_RATE:
        return []
    if match.correlation > SURELY_ALIKE and not doubtful:
        return []
    return disagreement(source, match, match_rates(_inverted(source), imu))


def _checked(one: _TruthComparison, imu: ImuSamples) -> TruthCheck:
    """Check of a ground truth, with its clock corrected if that is wrong."""
    wrong = any(finding.level != "ok" for finding in one.clock)
    shift_ns = round(one.match.offset_s * NS) if one.match and wrong else 0
    return check_truth(replace(one.truth, stamps_ns=one.truth.stamps_ns + shift_ns), imu)


def _inverted(source: RotationSource) -> RotationSource:
    """Source with its poses taken as those of the world in the sensor frame."""
    Ts = source.Ts_w_s.copy()
    Ts[:, :3, :3] = np.swapaxes(source.Ts_w_s[:, :3, :3], 1, 2)
    return replace(source, Ts_w_s=Ts)


@dataclass(frozen=True)
class _Motion:
    """Source that the estimator can use, with the result of a trial calibration."""

    source: RotationSource
    match: RateMatch
    result: CalibrationResult | None


def _trial(source: RotationSource, match: RateMatch, recording: Recording) -> _Motion:
    result = calibrated(source, recording.imu, recording.rig.imu, match.offset_s)
    return _Motion(source, match, result)


def _vision_findings(
    recording: Recording, vision: CameraTrajectory | None, frame: CameraFrame, imu_is_sound: bool
) -> tuple[list[Finding], _Motion | None]:
    """Findings, and the source if it can be used further."""
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
    contradiction = _contradiction(source, match, imu)
    if contradiction:
        return contradiction, None
    if not match.comparable:
        text = "rotates too little to compare it with the gyroscope"
        return [Finding("ok", "vision", text)], None
    wrong = [] if imu_is_sound else mirror_findings(match)
    constants = None if wrong else path_constants(source, imu, recording.rig.imu, match.offset_s)
    wrong = wrong if imu_is_sound else wrong or axes_findings(constants)
    if wrong:
        return wrong, None
    result = calibrated(source, imu, recording.rig.imu, match.offset_s)
    offset_s, std_s = match.offset_s, match.std_offset_s
    if result is not None and result.state is not None:
        further_s, joint_std_s = result.report.time_offset_s, result.report.std_time_offset_s
        if further_s is not None and joint_std_s is not None:
            proven = abs(further_s) < _UNPROVEN_OFFSET_S and joint_std_s < max(std_s, 0.001)
            offset_s, std_s = (offset_s + further_s, joint_std_s) if proven else (offset_s, std_s)
    # A wrong scale also moves the camera; its position is judged when that is fixed.
    findings = scale_findings(source, constants)
    if recording.rig.extrinsics_known:
        T_inverted = _inverted_extrinsics(recording.rig, frame)
        if all(finding.level != "error" for finding in findings):
            findings += extrinsics_findings(source, match, result, T_inverted)
        if any(finding.level == "error" for finding in findings):
            # In motions with a main axis, inverse poses look like wrong extrinsics.
            contradiction = _contradiction(source, match, imu, doubtful=True)
            if contradiction:
                return contradiction, None
    elif result is not None and result.state is not None:
        source = replace(source, T_b_s=result.state.T_b_c)
    stated_s = recording.rig.time_offset_s
    findings += offset_findings(source, offset_s, std_s, stated_s) + drift_findings(source, match)
    return findings, _Motion(source, match, result)


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


def _excitation(recording: Recording, motion: _Motion | None) -> list[Finding]:
    """Findings about excitation, from the gyroscope and from the estimator."""
    imu = recording.imu
    if motion is None:
        return [rotation_finding(imu, imu.gyro.mean(axis=0))]
    source, match = motion.source, motion.match
    rates_b = match.rates_s @ source.T_b_s[:3, :3].T
    bias = np.asarray(np.median(match.gyro - rates_b, axis=0))
    counts = initializable(source, imu, recording.rig.imu, match.offset_s)
    return [
        *window_finding(counts, source.name),
        *extrinsics_finding(motion.result, source.name),
        rotation_finding(imu, bias),
    ]
