"""Checks that look at the images themselves; each is one function in the list."""

from collections.abc import Callable

from maci2.evaluation.health import Finding
from maci2.sensors import Recording

IMAGE_CHECKS: list[Callable[[Recording], list[Finding]]] = []
"""Epipolar error, exposure, sharpness: a check that reads images is put in here."""


def image_findings(recording: Recording) -> list[Finding]:
    return [finding for check in IMAGE_CHECKS for finding in check(recording)]
