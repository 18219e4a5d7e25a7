"""Checks of image contents."""

import math
from dataclasses import replace

from maci2.diagnostics.checks.epipolar import epipolar_findings
from maci2.diagnostics.checks.exposure import look_at_cameras
from maci2.diagnostics.checks.image_sample import ImageSample, has_images, sample_images
from maci2.diagnostics.checks.listed_images import image_file_findings
from maci2.diagnostics.diagnosis import ImageDiagnosis
from maci2.errors import Maci2Error
from maci2.findings import Finding
from maci2.sensors.stereo import HasImages


def examine_images(recording: HasImages) -> tuple[ImageDiagnosis | None, list[Finding]]:
    """Check all image files, then exposure, then stereo if both cameras show something; None
    without images of two calibrated cameras."""
    files = image_file_findings(recording)
    if not has_images(recording):
        return None, files
    try:
        sample = sample_images(recording)
    except Maci2Error as error:
        wrong = Finding("error", "images", str(error), "images cannot be read")
        return None, files if any(finding.level == "error" for finding in files) else [
            wrong,
            *files,
        ]
    if not sample.places:
        text = f"{len(sample.frames)} stereo pairs, needed two that follow each other and are whole"
        return None, [*files, Finding("warn", "images", text, "too few images")]
    diagnosis, findings = _examine_sample(sample)
    return diagnosis, files + findings


def _examine_sample(sample: ImageSample) -> tuple[ImageDiagnosis, list[Finding]]:
    cameras, findings = look_at_cameras(sample)
    row_px = math.nan
    # Black, frozen or equal images match nowhere: that is no fault of the calibration.
    if all(finding.level != "error" for finding in findings):
        row_px, stereo = epipolar_findings(sample)
        findings = findings + (_subdued(stereo) if findings else stereo)
    return ImageDiagnosis(len(sample.places), row_px, cameras), findings


def _subdued(stereo: list[Finding]) -> list[Finding]:
    """Poor images match poorly: what is wrong with them is fixed first."""
    return [
        replace(finding, level="warn") if finding.level == "error" else finding
        for finding in stereo
    ]
