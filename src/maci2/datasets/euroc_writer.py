"""Writer of recordings in EuRoC layout: mav0/imu0, mav0/cam0, ..., one folder per ground truth.

Numbers are written with all their digits, so that reading gives back what was written.
"""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy
import yaml

from maci2.errors import DatasetError
from maci2.files import whole_folder, write_atomically
from maci2.sensors.rig_types import Camera, ImuNoise
from maci2.sensors.types import GroundTruth, ImuSamples, Recording
from maci2.types import Array, Stamps

_MODEL_NAMES = {"radtan": "radial-tangential", "equidistant": "equidistant", "none": "none"}
_IMU_HEADINGS = [
    *[f"w_RS_S_{axis} [rad s^-1]" for axis in "xyz"],
    *[f"a_RS_S_{axis} [m s^-2]" for axis in "xyz"],
]
_TRUTH_HEADINGS = [
    *[f"p_RS_R_{axis} [m]" for axis in "xyz"],
    *[f"q_RS_{axis} []" for axis in "wxyz"],
    *[f"v_RS_R_{axis} [m s^-1]" for axis in "xyz"],
    *[f"b_w_RS_S_{axis} [rad s^-1]" for axis in "xyz"],
    *[f"b_a_RS_S_{axis} [m s^-2]" for axis in "xyz"],
]


def write_euroc(recording: Recording, folder: Path) -> None:
    """Write everything except images, atomically."""
    cameras, stamped = len(recording.rig.cameras), len(recording.camera_stamps_ns)
    if cameras != stamped:
        raise DatasetError(
            f"{recording.name} has {cameras} cameras in its rig but timestamps of images of "
            f"{stamped}; needed one array of timestamps for each camera."
        )
    with whole_folder(folder) as temporary:
        _write_sensors(recording, temporary / "mav0")


def _write_sensors(recording: Recording, mav0: Path) -> None:
    write_atomically(mav0 / "imu0" / "data.csv", _imu_csv(recording.imu))
    write_atomically(mav0 / "imu0" / "sensor.yaml", _yaml(_imu_description(recording.rig.imu)))
    cameras = zip(recording.rig.cameras, recording.camera_stamps_ns, strict=True)
    for index, (camera, stamps_ns) in enumerate(cameras):
        folder = mav0 / f"cam{index}"
        description = _camera_description(camera)
        if recording.rig.exact:
            description["calibration"] = "exact"
        write_atomically(folder / "data.csv", _camera_csv(stamps_ns))
        write_atomically(folder / "sensor.yaml", _yaml(description))
    for name, truth in recording.truths.items():
        write_atomically(mav0 / name / "data.csv", truth_csv(truth))


def _imu_csv(imu: ImuSamples) -> str:
    columns = np.hstack([imu.gyro, imu.acc])
    return _csv("#timestamp [ns]", imu.stamps_ns, _IMU_HEADINGS, columns)


def truth_csv(truth: GroundTruth) -> str:
    """Ground truth as the text of EuRoC's data.csv."""
    rotations = scipy.spatial.transform.Rotation.from_matrix(truth.Ts_w_b[:, :3, :3])
    quats_wxyz = rotations.as_quat()[:, [3, 0, 1, 2]]
    p_w_b = truth.Ts_w_b[:, :3, 3]
    columns = np.hstack([p_w_b, quats_wxyz, truth.v_w, truth.bias_gyro, truth.bias_acc])
    return _csv("#timestamp", truth.stamps_ns, _TRUTH_HEADINGS, columns)


def _csv(stamp_heading: str, stamps_ns: Stamps, headings: list[str], columns: Array) -> str:
    table = {stamp_heading: stamps_ns, **dict(zip(headings, columns.T, strict=True))}
    return pl.DataFrame(table).write_csv()


def _camera_csv(stamps_ns: Stamps) -> str:
    names = [f"{stamp_ns}.png" for stamp_ns in stamps_ns]
    return pl.DataFrame({"#timestamp [ns]": stamps_ns, "filename": names}).write_csv()


def _yaml(description: dict[str, Any]) -> str:
    return yaml.safe_dump(description, sort_keys=False, default_flow_style=None)


def _pose(T_b_s: Array) -> dict[str, Any]:
    """Pose of a sensor in the body, EuRoC's T_BS."""
    return {"cols": 4, "rows": 4, "data": T_b_s.ravel().tolist()}


def _imu_description(noise: ImuNoise) -> dict[str, Any]:
    description = {
        "sensor_type": "imu",
        "T_BS": _pose(np.eye(4)),
        "rate_hz": float(noise.rate_hz),
        "gyroscope_noise_density": float(noise.density_gyro),
        "gyroscope_random_walk": float(noise.walk_gyro),
        "accelerometer_noise_density": float(noise.density_acc),
        "accelerometer_random_walk": float(noise.walk_acc),
    }
    return description | ({"calibration": "exact"} if noise.exact else {})


def _camera_description(camera: Camera) -> dict[str, Any]:
    return {
        "sensor_type": "camera",
        "T_BS": _pose(camera.T_b_c),
        "rate_hz": float(camera.rate_hz),
        "resolution": list(camera.resolution),
        "camera_model": "pinhole",
        "intrinsics": camera.intrinsics.tolist(),
        "distortion_model": _MODEL_NAMES[camera.distortion_model],
        "distortion_coefficients": camera.distortion.tolist(),
    }
