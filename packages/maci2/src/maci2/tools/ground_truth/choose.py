"""Choice of a ground truth: one of the recording's own, or one of them audited."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from maci2.datasets.euroc import COVARIANCE_FILE, read_truth_folder
from maci2.errors import Maci2Error, OptionError
from maci2.findings import Finding
from maci2.sensors import GroundTruth, Recording
from maci2.tools.ground_truth.audit import AuditedTruth
from maci2.tools.ground_truth.audit_files import cached_audit
from maci2.tools.ground_truth.capture import RAW_POSES, raw_sources
from maci2.tools.ground_truth.comparison import compare_with_published
from maci2.tools.ground_truth.findings import misleading
from maci2.tools.ground_truth.registration import MIN_COMMON_S
from maci2.types import NS

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
            return _with(audit, Finding("warn", audit.name, text, "raw capture"))
    return audit


def _with(audit: AuditedTruth, finding: Finding) -> AuditedTruth:
    others = tuple(one for one in audit.findings if one.level != "ok")
    return replace(audit, findings=(finding, *others))


def _rotation_variance(audit: AuditedTruth) -> float:
    """Typical variance of an orientation, all axes together [rad^2]."""
    assert audit.truth.covariance is not None
    return float(np.median(np.trace(audit.truth.covariance.states[:, :3, :3], axis1=1, axis2=2)))


_LOG = logging.getLogger(__name__)

AUDITED = "audited"
"""Name of a recording's chosen ground truth after its audit; `audited:SOURCE` names the source as
`maci2 truth --from` does."""


def _is_folder(name: str) -> bool:
    return (Path(name) / COVARIANCE_FILE).is_file()


def published_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of ground truths that a recording itself has to hold: not those of an audit, one that
    is made, or a folder that `maci2 truth` wrote."""
    return tuple(
        name for name in names if name.partition(":")[0] != AUDITED and not _is_folder(name)
    )


def with_audited(recording: Recording, names: Sequence[str]) -> Recording:
    """The recording with the audits that `names` ask for beside its own ground truths: made now, or
    read from a folder.

    `audited` is made from the first of the other names that the recording has, else from its first
    ground truth. Nothing is written into the recording; without a ground truth it is unchanged.
    """
    truths, published = dict(recording.truths), published_names(names)
    for name in names:
        if name in published or name in truths:
            continue
        source = name.partition(":")[2]
        if _is_folder(name):
            truths[name] = read_truth_folder(Path(name))
        elif source or recording.truths:
            audit = cached_audit(recording, source or _first_of(recording, published))
            for finding in misleading(audit.findings):
                _LOG.warning("%s: as published, %s: %s", recording.name, finding.what, finding.text)
            truths[name] = audit.truth
    return replace(recording, truths=truths)


def audited_or_none(recording: Recording, names: Sequence[str]) -> GroundTruth | None:
    """The audit of the ground truth that `names` choose, or the one in a folder that they name.

    None where there is none, where it is too short, or where it cannot be audited, which is logged.
    """
    for name in filter(_is_folder, names):
        written = read_truth_folder(Path(name))
        if written.covariance is not None:
            return written
    audit = _audit_or_none(recording, names)
    return None if audit is None else audit.truth


def _audit_or_none(recording: Recording, names: Sequence[str]) -> AuditedTruth | None:
    published = published_names(names)
    truth = recording.truth(published)
    if truth is None or truth.stamps_ns[-1] - truth.stamps_ns[0] < MIN_COMMON_S * NS:
        return None
    try:
        return cached_audit(recording, _first_of(recording, published))
    except Maci2Error as error:
        _LOG.warning("%s: its ground truth cannot be audited: %s", recording.name, error)
        return None


def capture_noise(recording: Recording, names: Sequence[str]) -> tuple[float, float]:
    """Noise of the motion between two rows of the ground truth that `names` choose, rotation [rad]
    and translation [m] per axis, where it is raw motion capture: what its audit finds.

    Zero for a smoothed truth, which has no white noise, and where nothing can be audited.
    """
    truth = recording.truth(names)
    if truth is None or truth.covariance is not None or not np.isnan(truth.v_w).all():
        return 0.0, 0.0
    audit = _audit_or_none(recording, names)
    if audit is None or audit.orientation_noise is None:
        return 0.0, 0.0
    rotation, translation = audit.orientation_noise.std, audit.position_noise.std
    return float(np.sqrt(2.0) * rotation), float(np.sqrt(2.0) * translation)


def _first_of(recording: Recording, names: Sequence[str]) -> str:
    return next((name for name in names if name in recording.truths), "")


def require_known_truths(recordings: Iterable[Recording], names: Sequence[str]) -> None:
    """Raise unless every name of `--truth` is that of a ground truth of some recording, or of
    its audit.

    Recordings are looked at until all names have been found.
    """
    unknown, existing = list(published_names(names)), dict[str, None]()
    for recording in recordings if unknown else ():
        existing |= dict.fromkeys(recording.truths)
        unknown = [name for name in unknown if name not in recording.truths]
        if not unknown:
            return
    if unknown:
        raise OptionError(
            f"--truth names {', '.join(unknown)}, which no recording has; ground truths that exist "
            f"are {', '.join(existing) or 'none'}."
        )
