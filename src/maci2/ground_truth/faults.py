"""What the comparison of ground truth and IMU means, in plain words."""

from dataclasses import dataclass

from maci2.findings import Finding, Level
from maci2.ground_truth.comparison import TruthCheck
from maci2.types import GRAVITY_NORM

MAX_MISALIGNMENT_DEG = 0.5
"""A truth is wrong when its misalignment exceeds this by three standard errors."""

BIAS_TILT_DEG = 1.0
"""What an accelerometer bias of 0.17 m/s^2 looks like: up to here a tilt says nothing."""

MAX_TILT_DEG = 1.5
"""Tilt of gravity in a truth's world that an accelerometer bias still explains."""

WRONG_TILT_DEG = 3.0
"""Tilt that only an accelerometer bias above 0.5 m/s^2 would explain."""

MAX_RESIDUAL_DEG = 3.0
"""Typical disagreement of truth and gyroscope over a few seconds."""

MIN_EXCITATION = 0.05
"""Variation of the rate [rad/s] below which gyroscope and truth cannot be compared."""


@dataclass(frozen=True)
class _Fault:
    text: str
    serious: bool = True
    of_truth: bool = True
    """The truth is to blame, not the IMU."""


def truth_findings(truths: dict[str, TruthCheck]) -> list[Finding]:
    """Faults of the default truth are errors: results would be measured against it."""
    faults = {name: _truth_faults(check) for name, check in truths.items()}
    sound = [name for name, found in faults.items() if not found]
    remedy = f" Use the truth {sound[0]} instead." if sound else " Do not measure against it."
    findings = []
    for number, (name, check) in enumerate(truths.items()):
        for fault in faults[name]:
            level: Level = "error" if fault.serious and number == 0 else "warn"
            findings.append(Finding(level, name, fault.text + (remedy if fault.of_truth else "")))
        if not faults[name]:
            findings.append(Finding("ok", name, _truth_summary(check)))
    if not truths:
        findings.append(Finding("ok", "truth", "no ground truth: errors cannot be measured"))
    return findings


def _truth_summary(check: TruthCheck) -> str:
    text = f"overlaps the IMU for {check.overlap_s:.1f} s"
    if check.excitation > MIN_EXCITATION:
        text += (
            f", agrees with the gyroscope to {check.residual_deg:.2f} deg in "
            f"{check.horizon_s:.1f} s, misaligned by {check.misalignment_deg:.2f} ± "
            f"{check.misalignment_std_deg:.2f} deg"
        )
    if check.tilt_deg > BIAS_TILT_DEG:
        text += f", gravity tilted by {check.tilt_deg:.2f} deg"
    return text


def _truth_faults(check: TruthCheck) -> list[_Fault]:
    """What is wrong with a ground truth, in plain words."""
    if check.overlap_s <= 0.0:
        text = "no overlap with the IMU: 0 s in common, needed at least 2.5 s on one clock."
        return [_Fault(text)]
    faults = []
    if check.excitation > MIN_EXCITATION:
        faults += _rotation_faults(check)
    if check.tilt_deg > MAX_TILT_DEG:
        text = (
            f"gravity is tilted by {check.tilt_deg:.1f} deg from the truth's z axis (mean force "
            f"{check.force:.2f}, needed {GRAVITY_NORM}); an accelerometer bias explains about "
            f"{BIAS_TILT_DEG:.0f} deg, "
            f"needed below {MAX_TILT_DEG}. Its world is not level or its body frame is rotated."
        )
        faults.append(_Fault(text, serious=check.tilt_deg > WRONG_TILT_DEG))
    return faults


def _rotation_faults(check: TruthCheck) -> list[_Fault]:
    if not 0.8 < check.rate_ratio < 1.25:
        hint = "; 57.3 means deg/s" if 40.0 < check.rate_ratio < 80.0 else ""
        text = (
            f"the gyroscope rotates {check.rate_ratio:.2f} times as fast as the truth, needed "
            f"0.8 to 1.25{hint}. Check the gyroscope's unit and scale."
        )
        return [_Fault(text, of_truth=False)]
    if check.residual_deg > MAX_RESIDUAL_DEG:
        text = (
            f"rotations of truth and gyroscope differ by {check.residual_deg:.1f} deg in "
            f"{check.horizon_s:.1f} s whatever the alignment, needed below {MAX_RESIDUAL_DEG:.0f}. "
            "Wrong clock, wrong recording, or rotations given as their inverse."
        )
        return [_Fault(text)]
    excess_deg = check.misalignment_deg - 3.0 * check.misalignment_std_deg
    if excess_deg > MAX_MISALIGNMENT_DEG:
        text = (
            f"rotations of truth and gyroscope agree only after a rotation of the body frame by "
            f"{check.misalignment_deg:.1f} ± {check.misalignment_std_deg:.1f} deg (more, if the "
            f"truth was smoothed with this IMU), needed {MAX_MISALIGNMENT_DEG} within three "
            "standard errors: the truth's orientation is wrong."
        )
        return [_Fault(text)]
    return []
