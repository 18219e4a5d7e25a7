"""What a recording lacks for each main command."""

from maci2.findings import Finding
from maci2.sensors.stereo import HasImages

_NOISE = "the IMU's noise (--imu-noise)"
_PAIR = "a calibrated stereo pair (--rig), or camera motion from a file (--vision)"


def need_findings(recording: HasImages, has_imu: bool) -> list[Finding]:
    """Finding that lists what each command would need; empty if nothing is missing."""
    rig, images = recording.rig, len(recording.camera_stamps_ns)
    pair = images > 1 and len(rig.cameras) > 1
    imu = [] if has_imu else ["IMU samples"]
    noise = [] if rig.noise_known else [_NOISE]
    cameras = [] if pair else [_PAIR]
    place = [] if rig.extrinsics_known else ["the camera-IMU extrinsics (calibrate, or --T-b-c)"]
    lacks = {
        "vo": [] if pair else ["a calibrated stereo pair (--rig)"],
        "calibrate": imu + noise + cameras,
        "init": imu + noise + cameras + place,
    }
    missing = {command: needs for command, needs in lacks.items() if needs}
    if not missing:
        return []
    said = "; ".join(f"`{command}` would need {', '.join(n)}" for command, n in missing.items())
    ready = [f"`{command}`" for command in lacks if command not in missing]
    text = said + (f"; {', '.join(ready)} can run" if ready else "")
    return [Finding("ok", "needs", text)]
