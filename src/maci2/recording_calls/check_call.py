"""What `maci2 check` does, as one call."""

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
    """Do what `maci2 check` does: say what a recording holds and what is wrong with it.

    Args:
        path: folder or bag of a recording.
        vision: camera motion to compare with the IMU: "images", "trajectory:FILE" or
            "measurements:FILE"; without it, ground truth only.
        vision_frame: camera frame that a trajectory speaks of: "camera" or "rectified".
        rig: calibration file or folder that replaces the recording's own.
        topics: roles of a bag's topics, "imu=/imu0,left=/cam0/image_raw".

    Returns:
        Findings, the most important first, with what to do about each. A recording that cannot be
        read has that as its only finding.

    Raises:
        DatasetError: there is no such file or folder.
        OptionError: there is no such camera motion.
    """
    for name, text in (("vision", vision), ("vision_frame", vision_frame), ("topics", topics)):
        require_text(text, name)
    rig = None if rig is None else as_path(rig, "rig")
    return examine_path(as_path(path, "path"), rig, topics, vision, vision_frame)
