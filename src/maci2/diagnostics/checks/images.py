"""Checks that look at the images themselves."""

import math
from dataclasses import replace

from maci2.diagnostics.checks.epipolar import epipolar_findings
from maci2.diagnostics.checks.exposure import look_at_cameras
from maci2.diagnostics.checks.image_sample import has_images, sample_images
from maci2.diagnostics.diagnosis import ImageDiagnosis
from maci2.errors import Maci2Error
from maci2.findings import Finding
from maci2.sensors import Recording


def examine_images(recording: Recording) -> tuple[ImageDiagnosis | None, list[Finding]]:
    """Exposure, then stereo where both cameras show something; None without images."""
    if not has_images(recording):
        return None, []
    try:
        sample = sample_images(recording)
    except Maci2Error as error:
        return None, [Finding("error", "images", str(error), "an image cannot be read")]
    if not sample.places:
        text = f"{len(sample.frames)} stereo pair, needed two to look at the images"
        return None, [Finding("warn", "images", text, "too few images")]
    cameras, findings = look_at_cameras(sample)
    row_px = math.nan
    # Black, frozen or equal images match nowhere: that is no fault of the calibration.
    if all(finding.level != "error" for finding in findings):
        row_px, stereo = epipolar_findings(sample)
        findings = findings + (_subdued(stereo) if findings else stereo)
    return ImageDiagnosis(len(sample.places), row_px, cameras), findings


def _subdued(stereo: list[Finding]) -> list[Finding]:
    """Poor images match poorly: what is wrong with them is mended first."""
    return [replace(found, level="warn") if found.level == "error" else found for found in stereo]
