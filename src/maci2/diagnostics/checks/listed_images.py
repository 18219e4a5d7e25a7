"""Image files of a recording: whether each is present, complete and of the calibrated size.

Only first and last bytes are read, so that all files of a long recording take a second.
"""

from collections import Counter

from maci2.datasets.frames import image_file_faults, image_folders, image_paths
from maci2.findings import Finding, fault
from maci2.sensors.stereo import HasImages
from maci2.types import NS

MAX_UNUSABLE_PCT = 50.0
"""Percentage of unusable images above which a camera is unusable."""

KINDS = {
    "missing": "missing",
    "truncated": "truncated",
    "calibration": "of another size than the calibration",
}
"""Keyword of a fault and the description of such files; all others are called unreadable."""


def image_file_findings(recording: HasImages) -> list[Finding]:
    """Findings about the image files of each camera, and the time they cover.

    Nothing is said of a bag, whose images are looked at while it is read, nor of a recording that
    keeps timestamps only.
    """
    if recording.bag is not None:
        return []
    findings = []
    folders = image_folders(recording)[: len(recording.camera_stamps_ns)]
    for camera, folder in enumerate(folders):
        if folder.is_dir() and any(folder.iterdir()):
            findings += _camera_findings(recording, camera)
    return findings


def _camera_findings(recording: HasImages, camera: int) -> list[Finding]:
    paths, cameras = image_paths(recording, camera), recording.rig.cameras
    # Left and right are rectified together: both have the size of the left one.
    resolution = cameras[0].resolution if cameras else None
    faults = dict(image_file_faults(paths, resolution))
    name, stamps_ns = f"cam{camera}", recording.camera_stamps_ns[camera]
    usable = [number for number in range(len(paths)) if number not in faults]
    text = f"{name}: {len(usable)} of {len(paths)} listed images can be used"
    if usable:
        first_ns, last_ns = int(stamps_ns[usable[0]]), int(stamps_ns[usable[-1]])
        begin_s, end_s = ((stamp_ns - int(stamps_ns[0])) / NS for stamp_ns in (first_ns, last_ns))
        text += f", from {begin_s:.2f} to {end_s:.2f} s ({first_ns} to {last_ns} ns)"
    findings = [Finding("ok", "images", text)]
    if faults:
        number, reason = next(iter(faults.items()))
        share_pct = 100.0 * len(faults) / len(paths)
        finding = fault(
            "error" if share_pct > MAX_UNUSABLE_PCT else "warn",
            "images",
            f"{name}: images cannot be used",
            f"{len(faults)} of {len(paths)} ({_counted(list(faults.values()))}), the first "
            f"{paths[number].name}, which {_sentence(reason)}",
            "every listed image, whole",
            "Copy these images again; until then they are skipped"
            + (f", and images exist{text.partition('can be used,')[2]}." if usable else "."),
        )
        findings.insert(0, finding)
    return findings


def _counted(reasons: list[str]) -> str:
    """Number of files with each kind of fault."""
    kinds = Counter(
        next((kind for word, kind in KINDS.items() if word in reason), "unreadable")
        for reason in reasons
    )
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _sentence(reason: str) -> str:
    """Reason of an error without its remedy."""
    return "is " + reason.partition(";")[0].removeprefix("is ").removeprefix("the image is ")
