"""`maci2 check` as a function."""

from pathlib import Path

from maci2.boundary import as_path
from maci2.diagnostics.diagnose import examine_path
from maci2.diagnostics.diagnosis import Diagnosis
from maci2.recording_calls.arguments import require_text


def check_recording(
    path: str | Path,
    *,
    vision: str = "",
    vision_frame: str = "camera",
    rig: str | Path | None = None,
    topics: str = "",
) -> Diagnosis:
    """Check what a recording contains and what is wrong with it, as `maci2 check` does.

    Args:
        path: folder or bag of a recording.
        vision: camera motion to compare with the IMU: "images", "trajectory:FILE" or
            "measurements:FILE"; if empty, only ground truth is compared.
        vision_frame: frame whose poses a trajectory holds: "camera" or "rectified".
        rig: calibration file or folder that replaces the recording's own.
        topics: roles of a bag's topics, "imu=/imu0,left=/cam0/image_raw".

    Returns:
        Findings, most important first, each with a remedy. If the recording cannot be read, that is
        the only finding.

    Raises:
        DatasetError: there is no such file or folder.
        OptionError: the source of camera motion is invalid.
    """
    for name, text in (("vision", vision), ("vision_frame", vision_frame), ("topics", topics)):
        require_text(text, name)
    rig = None if rig is None else as_path(rig, "rig")
    return examine_path(as_path(path, "path"), rig, topics, vision, vision_frame)
