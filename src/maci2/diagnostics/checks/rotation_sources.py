"""All sources of rotation, ground truths and vision, compared with the IMU."""

from dataclasses import dataclass, replace

import numpy as np

from maci2.diagnostics.checks.axes import (
    Forces,
    axes_against_truth,
    biases_against_truth,
    truth_forces,
)
from maci2.diagnostics.checks.camera_imu import (
    disagreement,
    drift_findings,
    extrinsics_findings,
    mirror_findings,
    offset_findings,
)
from maci2.diagnostics.checks.estimator_trial import calibrated, initializable
from maci2.diagnostics.checks.excitation import (
    extrinsics_finding,
    rotation_finding,
    window_finding,
)
from maci2.diagnostics.checks.path_lengths import axes_findings, path_constants, scale_findings
from maci2.diagnostics.checks.truth_faults import truth_fault
from maci2.errors import CalibrationError
from maci2.estimation import CalibrationResult
from maci2.findings import Finding
from maci2.ground_truth.comparison import TruthCheck, check_truth
from maci2.ground_truth.faults import truth_findings
from maci2.imu.rotation_rates import MIN_RATE, RateMatch, RotationSource, match_rates
from maci2.lie import se3_inv
from maci2.sensors import CameraTrajectory, GroundTruth, ImuSamples, Recording, Rig
from maci2.types import NS, Array
from maci2.vision import rectified_extrinsics
from maci2.vision.relative_poses import CameraFrame

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
    """Whether a ground truth has confirmed unit and axes of the IMU."""


@dataclass(frozen=True)
class _Look:
    """Comparison of one ground truth with the IMU."""

    source: RotationSource
    truth: GroundTruth
    match: RateMatch | None
    forces: Forces | None
    axes: list[Finding]
    contradiction: list[Finding]

    @property
    def comparable(self) -> bool:
        return self.match is not None and self.match.comparable and not self.contradiction


def compare_rotations(
    recording: Recording, vision: CameraTrajectory | None, frame: CameraFrame
) -> Rotations:
    """Compare ground truths with the IMU, then vision, which depends on the extrinsics."""
    imu = recording.imu
    looks = [_look(name, truth, imu) for name, truth in recording.truths.items()]
    judges = [look for look in looks if look.comparable]
    checks = {look.source.name: _checked(look, imu) for look in looks}
    # Axes that one truth confirms are the IMU's fault in no other.
    if judges and all(look.axes for look in judges):
        return Rotations(checks, judges[0].axes, True)
    findings = _truth_findings(looks, judges, checks)
    seen, best = _vision_findings(recording, vision, frame, bool(judges))
    findings += seen
    if all(finding.level != "error" for finding in findings):
        findings += _excitation(recording, best or _first_motion(judges, recording))
    imu_blamed = any(finding.what == "imu" and finding.level == "error" for finding in findings)
    return Rotations(checks, findings, bool(judges) or imu_blamed)


def _truth_findings(
    looks: list[_Look], judges: list[_Look], checks: dict[str, TruthCheck]
) -> list[Finding]:
    """Contradictions and clocks, then biases of the IMU, then errors of the ground truths."""
    findings = [found for look in looks for found in look.contradiction or _clock(look)]
    sound = {look.source.name: checks[look.source.name] for look in looks if not look.contradiction}
    for look in judges[:1]:
        biases = biases_against_truth(look.match, look.forces) if look.match else []
        findings += biases
        if biases and look.forces:
            # A bias looks like a tilt of the truth; what is left of it counts.
            name, tilt_deg = look.source.name, look.forces.bias_and_tilt()[1]
            sound[name] = replace(sound[name], tilt_deg=tilt_deg)
    return findings + (truth_findings(sound) if sound or not looks else [])


def _look(name: str, truth: GroundTruth, imu: ImuSamples) -> _Look:
    source = RotationSource(name, "truth", truth.stamps_ns, truth.Ts_w_b, np.eye(4))
    match, forces, axes = match_rates(source, imu), None, []
    if match is not None and match.comparable:
        forces = truth_forces(truth, imu, match.offset_s)
        axes = axes_against_truth(match, forces)
    fault = truth_fault(name, truth, imu, axes, forces)
    if fault:
        return _Look(source, truth, match, forces, [], fault)
    return _Look(source, truth, match, forces, axes, _contradiction(source, match, imu, bool(axes)))


def _contradiction(
    source: RotationSource, match: RateMatch | None, imu: ImuSamples, doubtful: bool = False
) -> list[Finding]:
    """Finding about a source that rotates differently from the gyroscope; `doubtful` if axes seem
    wrong, since inverse poses look the same in motion with one main axis."""
    if match is None or match.excitation < MIN_RATE:
        return []
    if match.correlation > SURELY_ALIKE and not doubtful:
        return []
    found = disagreement(source, match, match_rates(_inverted(source), imu))
    return [found] if found else []


def _checked(look: _Look, imu: ImuSamples) -> TruthCheck:
    """Check of a ground truth, with its clock corrected if that is wrong."""
    clock = _clock(look)
    wrong = any(finding.level != "ok" for finding in clock)
    shift_ns = round(look.match.offset_s * NS) if look.match and wrong else 0
    return check_truth(replace(look.truth, stamps_ns=look.truth.stamps_ns + shift_ns), imu)


def _clock(look: _Look) -> list[Finding]:
    if look.match is None or not look.comparable:
        return []
    found = offset_findings(look.source, look.match.offset_s, look.match.std_offset_s)
    return found + drift_findings(look.source, look.match)


def _inverted(source: RotationSource) -> RotationSource:
    """The same poses, taken as those of the world in the sensor frame."""
    Ts = source.Ts_w_s.copy()
    Ts[:, :3, :3] = np.swapaxes(source.Ts_w_s[:, :3, :3], 1, 2)
    return replace(source, Ts_w_s=Ts)


@dataclass(frozen=True)
class _Motion:
    """Source that the estimator can use, with the result of a trial calibration."""

    source: RotationSource
    match: RateMatch
    result: CalibrationResult | None


def _first_motion(judges: list[_Look], recording: Recording) -> _Motion | None:
    for look in judges:
        if look.match is not None:
            offset_s = look.match.offset_s
            result = calibrated(look.source, recording.imu, recording.rig.imu, offset_s)
            return _Motion(look.source, look.match, result)
    return None


def _vision_findings(
    recording: Recording, vision: CameraTrajectory | None, frame: CameraFrame, imu_is_sound: bool
) -> tuple[list[Finding], _Motion | None]:
    """Findings, and the source if it can be used further."""
    if vision is None or not recording.rig.cameras:
        return [], None
    try:
        imu, T_b_s = recording.imu, _extrinsics(recording.rig, frame)
    except CalibrationError as error:
        fault = "the cameras cannot be rectified"
        return [Finding("error", "calibration", str(error), fault)], None
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
