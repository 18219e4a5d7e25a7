"""What was found wrong: the fault, the number found, the number needed and what to do."""

from dataclasses import dataclass
from typing import Literal

from maci2.field_docs import document_fields

Level = Literal["ok", "warn", "error"]


LEVELS: tuple[Level, ...] = ("error", "warn", "ok")
"""Most important first."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    level: Level
    """ok, warn or error."""

    what: str
    """Part concerned: imu, cam0, stereo, images, calibration, windows, vision or a truth's name."""

    text: str
    """All of it in one sentence or two: the fault, the numbers, what to do."""

    fault: str = ""
    """Short name of what is wrong; empty where nothing is."""

    found: str = ""
    """The number found, with its unit."""

    needed: str = ""
    """The number needed, with its unit."""

    remedy: str = ""
    """What to do, starting with a verb; also where nothing is wrong but more could be had."""


def fault(level: Level, what: str, name: str, found: str, needed: str, remedy: str) -> Finding:
    """A finding whose sentence is made of its parts."""
    text = f"{name}: found {found}, needed {needed}. {remedy}"
    return Finding(level, what, text, name, found, needed, remedy)


def most_important_first(findings: list[Finding]) -> list[Finding]:
    """Errors, then warnings; within a level the order of the checks, causes before effects."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


document_fields(__name__)
