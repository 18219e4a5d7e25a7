"""Which ground truth is meant: one of the recording's own, or one of them audited."""

from dataclasses import replace

from maci2.ground_truth.audit_cache import cached_audit
from maci2.sensors import Recording

AUDITED = "audited"
"""Name of a recording's chosen ground truth after its audit; `audited:SOURCE` names the source as
`maci2 truth --from` does."""


def is_audited(name: str) -> bool:
    """The name is that of an audit."""
    return name.partition(":")[0] == AUDITED


def published_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those that a recording itself has to hold."""
    return tuple(name for name in names if not is_audited(name))


def with_audited(recording: Recording, names: tuple[str, ...]) -> Recording:
    """The recording with the audits that `names` ask for beside its own ground truths.

    `audited` is made from the first of the other names that the recording has, else from its first
    ground truth. Nothing is written into the recording; without a ground truth it is unchanged.
    """
    truths = dict(recording.truths)
    for name in names:
        if not is_audited(name) or name in truths:
            continue
        source = name.partition(":")[2]
        if not source and not recording.truths:
            continue
        source = source or _first_of(recording, published_names(names))
        truths[name] = cached_audit(recording, source).truth
    return replace(recording, truths=truths)


def _first_of(recording: Recording, names: tuple[str, ...]) -> str:
    return next((name for name in names if name in recording.truths), "")
