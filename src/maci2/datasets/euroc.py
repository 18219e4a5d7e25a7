"""EuRoC (ASL) layout: <sequence>/mav0/{imu0, cam0, cam1, state_groundtruth_*}."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from maci2.datasets.csv_tables import Headings, Table, read_table
from maci2.datasets.image_names import image_files, read_image_names
from maci2.datasets.truth_covariance_file import read_covariance
from maci2.errors import DatasetError
from maci2.lie.stacks import rotations_from_quat_wxyz, stack_poses
from maci2.rigs.kalibr import with_frame_rates
from maci2.rigs.yaml_schema import (
    Schema,
    load_yaml,
    require_identity,
    rigid_transform,
    validate,
)
from maci2.sensors.rig_types import Camera, DistortionModel, ImuNoise, Rig
from maci2.sensors.types import GroundTruth, ImuSamples, Recording
from maci2.types import Array, Stamps

DEFAULT_TRUTH = "state_groundtruth_estimate0"

IMU_COLUMNS: Headings = {
    "wx": ("w_rs_s_x", "wx", "gyro_x"),
    "wy": ("w_rs_s_y", "wy", "gyro_y"),
    "wz": ("w_rs_s_z", "wz", "gyro_z"),
    "ax": ("a_rs_s_x", "ax", "acc_x"),
    "ay": ("a_rs_s_y", "ay", "acc_y"),
    "az": ("a_rs_s_z", "az", "acc_z"),
}
POSE_COLUMNS: Headings = {
    "px": ("p_rs_r_x", "px", "x"),
    "py": ("p_rs_r_y", "py", "y"),
    "pz": ("p_rs_r_z", "pz", "z"),
    "qw": ("q_rs_w", "qw"),
    "qx": ("q_rs_x", "qx"),
    "qy": ("q_rs_y", "qy"),
    "qz": ("q_rs_z", "qz"),
}
STATE_COLUMNS: Headings = {
    "vx": ("v_rs_r_x", "vx"),
    "vy": ("v_rs_r_y", "vy"),
    "vz": ("v_rs_r_z", "vz"),
    "bwx": ("b_w_rs_s_x", "bwx"),
    "bwy": ("b_w_rs_s_y", "bwy"),
    "bwz": ("b_w_rs_s_z", "bwz"),
    "bax": ("b_a_rs_s_x", "bax"),
    "bay": ("b_a_rs_s_y", "bay"),
    "baz": ("b_a_rs_s_z", "baz"),
}

FILE_COLUMN: Headings = {"file": ("filename", "file", "name")}

MIN_IMU_SAMPLES = 10
MAX_QUAT_NORM_ERROR = 0.01
"""Accepted error of a quaternion's norm, far above rounding to three decimals."""

_DISTORTION: dict[str, DistortionModel] = {
    "radial-tangential": "radtan",
    "radtan": "radtan",
    "equidistant": "equidistant",
    "none": "none",
}


class _Matrix(Schema):
    cols: Literal[4]
    rows: Literal[4]
    data: list[float]


class _Sensor(Schema):
    sensor_type: str = ""
    comment: str = ""
    T_BS: _Matrix


class _ImuSensor(_Sensor):
    rate_hz: PositiveFloat
    gyroscope_noise_density: PositiveFloat
    gyroscope_random_walk: NonNegativeFloat
    accelerometer_noise_density: PositiveFloat
    accelerometer_random_walk: NonNegativeFloat
    calibration: Literal["measured", "exact"] = "measured"


class _CameraSensor(_Sensor):
    rate_hz: PositiveFloat
    resolution: tuple[PositiveInt, PositiveInt]
    camera_model: Literal["pinhole"]
    intrinsics: tuple[PositiveFloat, PositiveFloat, float, float]
    distortion_model: Literal["radial-tangential", "radtan", "equidistant", "none"]
    distortion_coefficients: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    calibration: Literal["measured", "exact"] = "measured"


def mav0_of(path: Path) -> Path:
    """Folder that contains imu0: `path` itself or its subfolder mav0."""
    return path / "mav0" if (path / "mav0").is_dir() else path


def recording_name(mav0: Path) -> str:
    """Name of the sequence; for a folder mav0, that of its parent."""
    folder = mav0.resolve()
    return folder.parent.name if folder.name == "mav0" else folder.name


def read_euroc(path: Path, rig: Rig | None = None) -> Recording:
    """Open a EuRoC sequence; `rig` replaces its sensor.yaml files."""
    mav0 = mav0_of(path)
    images = read_image_lists(mav0)
    return Recording(
        name=recording_name(mav0),
        path=path,
        imu=read_imu_csv(mav0 / "imu0" / "data.csv"),
        rig=read_sensor_yamls(mav0) if rig is None else with_frame_rates(rig, images.stamps_ns),
        camera_stamps_ns=images.stamps_ns,
        image_names=images.names,
        truths=_read_truths(mav0),
    )


def read_imu_csv(path: Path) -> ImuSamples:
    """Gyroscope [rad/s] and accelerometer [m/s^2], in this order."""
    table = read_table(path, "IMU samples", IMU_COLUMNS, {}, least=MIN_IMU_SAMPLES)
    return ImuSamples(
        stamps_ns=table.stamps_ns,
        gyro=table.stack("wx", "wy", "wz"),
        acc=table.stack("ax", "ay", "az"),
        source=str(path),
    )


@dataclass(frozen=True)
class ImageLists:
    """Contents of the data.csv of every camera folder; empty without camera folders."""

    stamps_ns: tuple[Stamps, ...]
    """Timestamps of cam0, cam1, ..."""

    names: tuple[dict[int, str], ...]
    """Names of image files that differ from their timestamp, by timestamp."""


def read_image_lists(mav0: Path) -> ImageLists:
    """Timestamps and names of the images of cam0, cam1, ..."""
    lists = [_image_list(folder) for folder in camera_folders(mav0)]
    return ImageLists(tuple(stamps for stamps, _ in lists), tuple(names for _, names in lists))


def _image_list(folder: Path) -> tuple[Stamps, dict[int, str]]:
    """Timestamps and unusual names of a camera's images, from data.csv or from the files."""
    data = folder / "data"
    if not (folder / "data.csv").is_file() and data.is_dir() and image_files(data):
        images = read_image_names(data)
        return images.stamps_ns, images.names
    table = read_table(folder / "data.csv", "timestamps of images", {}, {}, FILE_COLUMN, least=1)
    return table.stamps_ns, _unusual_names(table)


def _unusual_names(table: Table) -> dict[int, str]:
    """Names of image files other than `timestamp.png`, by timestamp."""
    names = zip(table.stamps_ns.tolist(), table.texts.get("file", []), strict=False)
    return {stamp_ns: name for stamp_ns, name in names if name not in ("", f"{stamp_ns}.png")}


def camera_folders(mav0: Path) -> list[Path]:
    """Camera folders cam0, cam1, ... in order."""
    return sorted(mav0.glob("cam[0-9]"))


def read_truth_csv(path: Path) -> GroundTruth:
    """Poses (quaternion w x y z), with velocity and biases if the file has them, otherwise NaN."""
    table = read_table(path, "ground truth", POSE_COLUMNS, STATE_COLUMNS)
    R_w_b = rotations_from_quat_wxyz(_unit_quaternions(table))
    return GroundTruth(
        stamps_ns=table.stamps_ns,
        Ts_w_b=stack_poses(R_w_b, table.stack("px", "py", "pz")),
        v_w=table.stack("vx", "vy", "vz"),
        bias_gyro=table.stack("bwx", "bwy", "bwz"),
        bias_acc=table.stack("bax", "bay", "baz"),
        source=str(path),
    )


def read_sensor_yamls(mav0: Path) -> Rig:
    """Calibration from the sensor.yaml of the IMU and of every camera."""
    return read_camera_yamls(mav0, read_imu_noise(mav0 / "imu0" / "sensor.yaml"))


def read_camera_yamls(mav0: Path, noise: ImuNoise) -> Rig:
    """Rig from the sensor.yaml of every camera and the noise of the IMU."""
    read = [_read_camera(folder / "sensor.yaml") for folder in camera_folders(mav0)]
    cameras = tuple(camera for camera, _ in read)
    return Rig(cameras, noise, str(mav0), exact=bool(read) and all(exact for _, exact in read))


def read_imu_noise(path: Path) -> ImuNoise:
    """Noise densities from the IMU's sensor.yaml."""
    imu = validate(_ImuSensor, load_yaml(path, "the noise of the IMU"), path)
    _require_in_body_frame(imu, path)
    return ImuNoise(
        density_gyro=imu.gyroscope_noise_density,
        density_acc=imu.accelerometer_noise_density,
        walk_gyro=imu.gyroscope_random_walk,
        walk_acc=imu.accelerometer_random_walk,
        rate_hz=imu.rate_hz,
        exact=imu.calibration == "exact",
    )


def _read_camera(path: Path) -> tuple[Camera, bool]:
    """Camera, and whether its calibration is exact."""
    sensor = validate(_CameraSensor, load_yaml(path, "a camera's calibration"), path)
    camera = Camera(
        T_b_c=rigid_transform(_rows(sensor, path), path, "T_BS"),
        intrinsics=np.array(sensor.intrinsics),
        distortion=np.array(sensor.distortion_coefficients),
        distortion_model=_DISTORTION[sensor.distortion_model],
        resolution=sensor.resolution,
        rate_hz=sensor.rate_hz,
    )
    return camera, sensor.calibration == "exact"


def _read_truths(mav0: Path) -> dict[str, GroundTruth]:
    """Ground truths by folder name, the usual one first."""
    folders = [
        folder
        for folder in mav0.glob("state_groundtruth_*")
        # An empty folder is what is left of a truth that was not downloaded.
        if folder.is_dir() and any(folder.iterdir())
    ]
    truths = {}
    for folder in sorted(folders, key=lambda folder: (folder.name != DEFAULT_TRUTH, folder.name)):
        sensor_path = folder / "sensor.yaml"
        if sensor_path.is_file():
            data: Any = load_yaml(sensor_path, "the frame of the ground truth")
            _require_in_body_frame(validate(_Sensor, data, sensor_path), sensor_path)
        truths[folder.name] = read_truth_folder(folder)
    return truths


def read_truth_folder(folder: Path) -> GroundTruth:
    """Ground truth in data.csv, with the covariance that `maci2 truth` wrote beside it."""
    truth = read_truth_csv(folder / "data.csv")
    return replace(truth, covariance=read_covariance(folder, truth.stamps_ns))


def _require_in_body_frame(sensor: _Sensor, path: Path) -> None:
    require_identity(
        _rows(sensor, path), path, "T_BS",
        "the body frame is the IMU's: express this sensor in the IMU frame first.",
    )  # fmt: skip


def _rows(sensor: _Sensor, path: Path) -> list[list[float]]:
    data = sensor.T_BS.data
    if len(data) != 16:
        raise DatasetError(f"{path}: T_BS.data has {len(data)} numbers, needed 16.")
    return [data[4 * i : 4 * i + 4] for i in range(4)]


def _unit_quaternions(table: Table) -> Array:
    """(n, 4) quaternions, order w x y z; raises at the first that is not of unit length."""
    quat_wxyz = table.stack("qw", "qx", "qy", "qz")
    norms = np.linalg.norm(quat_wxyz, axis=1)
    bad = np.abs(norms - 1.0) > MAX_QUAT_NORM_ERROR
    if bad.any():
        row = int(np.argmax(bad))
        raise DatasetError(
            f"{table.source}, line {table.lines[row]}: quaternion norm is {norms[row]:.4f}, needed "
            f"1 within {MAX_QUAT_NORM_ERROR}. Check that the columns are in the order w, x, y, z."
        )
    return quat_wxyz
