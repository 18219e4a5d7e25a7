"""Findings of the audit of the first ground truth, in one line."""

from maci2.errors import Maci2Error
from maci2.findings import Finding
from maci2.ground_truth.audit_files import cached_audit
from maci2.ground_truth.choose import beside_raw_capture
from maci2.ground_truth.findings import misleading, sentence
from maci2.ground_truth.registration import MIN_COMMON_S
from maci2.sensors import Recording
from maci2.types import NS


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
    late = audit.constants["position_late_ms"]
    said = [finding.text for finding in audit.findings if finding.fault != "position_late_ms"]
    clock = sentence("position_late_ms", late)
    text = f"audited with the IMU: {'; '.join([clock, *said])}"
    if any(finding.level != "ok" for finding in audit.findings):
        text += ". Score against it with --truth audited."
    return [Finding("warn" if misleading(audit.findings) else "ok", name, text)]
