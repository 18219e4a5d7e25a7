"""A published ground truth beside the raw motion capture of the same recording.

A published truth was mostly smoothed with the IMU it is audited against, and may agree with it
where it should not. Raw capture was not: where a recording holds both, its audit judges the other.
"""

from dataclasses import replace

import numpy as np

from maci2.errors import Maci2Error
from maci2.findings import Finding
from maci2.ground_truth.agreement import compare_with_published
from maci2.ground_truth.audit_cache import cached_audit
from maci2.ground_truth.audited import AuditedTruth
from maci2.ground_truth.capture import RAW_POSES, raw_sources
from maci2.sensors import Recording

SIGMAS = 3.0
"""Rms difference of orientations, over what both audits state, that is worth a finding."""


def beside_raw_capture(recording: Recording, audit: AuditedTruth) -> AuditedTruth:
    """The audit of a published truth, with a finding where raw capture contradicts that truth; any
    other audit as it is."""
    if audit.name not in recording.truths or RAW_POSES not in raw_sources(recording.path):
        return audit
    try:
        raw = cached_audit(recording, RAW_POSES)
    except Maci2Error as error:
        text = f"raw poses cannot be audited: {error}"
        return _with(audit, Finding("warn", RAW_POSES, text, "raw capture"))
    published = {audit.name: recording.truths[audit.name]}
    for compared in compare_with_published(raw.truth, published):
        found = compared.fixed
        variance = _rotation_variance(audit) + _rotation_variance(raw)
        if np.radians(found.rotation_deg) > SIGMAS * np.sqrt(variance):
            text = (
                f"orientation differs by {found.rotation_deg:.1f} deg and position by "
                f"{1e3 * found.position_m:.0f} mm rms from the audit of {RAW_POSES}, the raw "
                f"capture of this recording: audit that instead (--from {RAW_POSES})"
            )
            audit = _with(audit, Finding("warn", audit.name, text, "raw capture"))
    return audit


def _with(audit: AuditedTruth, finding: Finding) -> AuditedTruth:
    others = tuple(one for one in audit.findings if one.level != "ok")
    return replace(audit, findings=(finding, *others))


def _rotation_variance(audit: AuditedTruth) -> float:
    """Typical variance of an orientation, all axes together [rad^2]."""
    assert audit.truth.covariance is not None
    return float(np.median(np.trace(audit.truth.covariance.states[:, :3, :3], axis1=1, axis2=2)))
