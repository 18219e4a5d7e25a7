"""Findings of checks: the fault, the value found, the value needed and the remedy."""

from dataclasses import dataclass
from typing import Literal

from maci2.field_docs import document_fields

Level = Literal["ok", "warn", "error"]


LEVELS: tuple[Level, ...] = ("error", "warn", "ok")
"""Most important first."""


@dataclass(frozen=True)
class Finding:
    """Result of one check: a fault with its remedy, or what is in order."""

    level: Level
    """ok, warn or error."""

    what: str
    """Part concerned: imu, cam0, stereo, images, calibration, windows, vision, or the name of a
    ground truth."""

    text: str
    """The finding in one or two sentences: the fault, the values and the remedy."""

    fault: str = ""
    """Short name of the fault; empty if there is none."""

    found: str = ""
    """The value found, with its unit."""

    needed: str = ""
    """The value needed, with its unit."""

    remedy: str = ""
    """Remedy, starting with a verb; may also suggest an improvement without a fault."""


def fault(level: Level, what: str, name: str, found: str, needed: str, remedy: str) -> Finding:
    """A finding with its text composed of the other parts."""
    text = f"{name}: found {found}, needed {needed}. {remedy}"
    return Finding(level, what, text, name, found, needed, remedy)


def most_important_first(findings: list[Finding]) -> list[Finding]:
    """Errors, then warnings; within a level the order of the checks, causes before effects."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


document_fields(__name__)
