"""EuRoC (ASL) layout, read and written: <sequence>/mav0/{imu0, cam0, cam1, state_groundtruth_*}.

TUM-VI has the same tables, with motion capture as ground truth and Kalibr's calibration. Beside a
ground truth that `maci2 truth` wrote stands its covariance.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy
import yaml
from pydantic import PositiveFloat, PositiveInt

from maci2.datasets.images import image_files, read_image_names
from maci2.datasets.tables import (
    MIN_IMU_SAMPLES,
    Headings,
    read_table,
    require_unit_quaternions,
)
from maci2.errors import CalibrationError, DatasetError
from maci2.files import NpzField, read_npz, whole_folder, write_atomically
from maci2.geometry.se3 import rotations_from_quat_wxyz, stack_poses
from maci2.rigs.kalibr import DISTORTION_NAMES, NoiseKeys, read_rig
from maci2.rigs.yaml_files import (
    Schema,
    load_yaml,
    require_identity,
    rigid_transform,
    validate,
)
from maci2.sensors.rig_types import Camera, ImuNoise, Rig
from maci2.sensors.types import GroundTruth, ImageRecording, ImuSamples, Recording, TruthCovariance
from maci2.types import Array, Stamps

_LOG = logging.getLogger(__name__)

DEFAULT_TRUTH = "state_groundtruth_estimate0"
MOCAP = "mocap0"
"""Folder of TUM-VI's ground truth."""

_VECTORS = {
    "w": ("w_RS_S_", "xyz", "rad s^-1", ("w", "gyro_")),
    "a": ("a_RS_S_", "xyz", "m s^-2", ("a", "acc_")),
    "p": ("p_RS_R_", "xyz", "m", ("p", "")),
    "q": ("q_RS_", "wxyz", "", ("q",)),
    "v": ("v_RS_R_", "xyz", "m s^-1", ("v",)),
    "bw": ("b_w_RS_S_", "xyz", "rad s^-1", ("bw",)),
    "ba": ("b_a_RS_S_", "xyz", "m s^-2", ("ba",)),
}
"""Our names of vectors: EuRoC's heading, its axes and unit, and other headings that are read."""


def _columns_of(*vectors: str) -> Headings:
    """Headings to read, by our names such as `wx`."""
    return {
        f"{vector}{axis}": tuple(f"{name}{axis}".lower() for name in (heading, *others))
        for vector in vectors
        for heading, axes, _, others in [_VECTORS[vector]]
        for axis in axes
    }


IMU_COLUMNS = _columns_of("w", "a")
POSE_COLUMNS = _columns_of("p", "q")
STATE_COLUMNS = _columns_of("v", "bw", "ba")
FILE_COLUMN: Headings = {"file": ("filename", "file", "name")}


class _Matrix(Schema):
    cols: Literal[4]
    rows: Literal[4]
    data: list[float]


class _Sensor(Schema):
    sensor_type: str = ""
    comment: str = ""
    T_BS: _Matrix


class _ImuSensor(_Sensor, NoiseKeys):
    rate_hz: PositiveFloat
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


def read_euroc(path: Path, rig: Rig | None = None) -> Recording:
    """Open a EuRoC sequence; `rig` replaces its sensor.yaml files."""
    mav0 = mav0_of(path)
    if rig is None:
        rig = read_camera_yamls(mav0, read_imu_noise(mav0 / "imu0" / "sensor.yaml"))
    return _recording(path, rig, _read_truths(mav0))


def read_tumvi(path: Path, rig: Rig | None = None) -> Recording:
    """Open a TUM-VI sequence; `rig` replaces its dso or calib folder.

    Motion capture gives poses of the IMU; velocity and biases are NaN.
    """
    mav0 = mav0_of(path)
    mocap = mav0 / MOCAP / "data.csv"
    truths = {MOCAP: read_truth_csv(mocap)} if mocap.is_file() else {}
    return _recording(path, read_rig(calibration_folder(mav0)) if rig is None else rig, truths)


def _recording(path: Path, rig: Rig, truths: dict[str, GroundTruth]) -> Recording:
    images = read_folder_images(path, rig)
    imu = read_imu_csv(mav0_of(path) / "imu0" / "data.csv")
    return images.with_imu(imu, truths=truths)


def read_folder_images(path: Path, rig: Rig) -> ImageRecording:
    """Timestamps and names of the images of cam0, cam1, ...; none without camera folders."""
    mav0 = mav0_of(path)
    lists = [_image_list(folder) for folder in camera_folders(mav0)]
    # A folder mav0 has the name of the sequence above it.
    folder = mav0.resolve()
    return ImageRecording(
        folder.parent.name if folder.name == "mav0" else folder.name,
        path,
        rig,
        camera_stamps_ns=tuple(stamps_ns for stamps_ns, _ in lists),
        image_names=tuple(names for _, names in lists),
    )


def read_imu_csv(path: Path) -> ImuSamples:
    """Gyroscope [rad/s] and accelerometer [m/s^2], in this order."""
    table = read_table(path, "IMU samples", IMU_COLUMNS, {}, least=MIN_IMU_SAMPLES)
    return ImuSamples(table.stamps_ns, table.vector("w"), table.vector("a"), str(path))


def _image_list(folder: Path) -> tuple[Stamps, dict[int, str]]:
    """Timestamps and unusual names of a camera's images, from data.csv or from the files."""
    data = folder / "data"
    if not (folder / "data.csv").is_file() and data.is_dir() and image_files(data):
        return read_image_names(data)
    table = read_table(folder / "data.csv", "timestamps of images", {}, {}, FILE_COLUMN, least=1)
    names = zip(table.stamps_ns.tolist(), table.texts.get("file", []), strict=False)
    unusual = {stamp_ns: name for stamp_ns, name in names if name not in ("", f"{stamp_ns}.png")}
    return table.stamps_ns, unusual


def camera_folders(mav0: Path) -> list[Path]:
    """Camera folders cam0, cam1, ... in order."""
    return sorted(mav0.glob("cam[0-9]"))


def read_truth_csv(path: Path) -> GroundTruth:
    """Poses (quaternion w x y z), with velocity and biases if the file has them, otherwise NaN."""
    table = read_table(path, "ground truth", POSE_COLUMNS, STATE_COLUMNS)
    quat_wxyz = table.vector("q", "wxyz")
    require_unit_quaternions(
        np.linalg.norm(quat_wxyz, axis=1),
        lambda row: f"{path}, line {table.lines[row]}",
        "Check that the columns are in the order w, x, y, z.",
    )
    Ts_w_b = stack_poses(rotations_from_quat_wxyz(quat_wxyz), table.vector("p"))
    v_w, bias_gyro, bias_acc = table.vector("v"), table.vector("bw"), table.vector("ba")
    return GroundTruth(table.stamps_ns, Ts_w_b, v_w, bias_gyro, bias_acc, str(path))


def read_camera_yamls(mav0: Path, noise: ImuNoise) -> Rig:
    """Rig from the sensor.yaml of every camera and the noise of the IMU."""
    read = [_read_camera(folder / "sensor.yaml") for folder in camera_folders(mav0)]
    cameras = tuple(camera for camera, _ in read)
    return Rig(cameras, noise, str(mav0), exact=bool(read) and all(exact for _, exact in read))


def read_imu_noise(path: Path) -> ImuNoise:
    """Noise densities from the IMU's sensor.yaml."""
    imu = validate(_ImuSensor, load_yaml(path, "the noise of the IMU"), path)
    _require_in_body_frame(imu, path)
    return replace(imu.stated().densities(imu.rate_hz), exact=imu.calibration == "exact")


def _read_camera(path: Path) -> tuple[Camera, bool]:
    """Camera, and whether its calibration is exact."""
    sensor = validate(_CameraSensor, load_yaml(path, "a camera's calibration"), path)
    camera = Camera(
        T_b_c=rigid_transform(_rows(sensor, path), path, "T_BS"),
        intrinsics=np.array(sensor.intrinsics),
        distortion=np.array(sensor.distortion_coefficients),
        distortion_model=DISTORTION_NAMES[sensor.distortion_model],
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


def _rows(sensor: _Sensor, path: Path) -> Array:
    data = sensor.T_BS.data
    if len(data) != 16:
        raise DatasetError(f"{path}: T_BS.data has {len(data)} numbers, needed 16.")
    return np.reshape(data, (4, 4))


def calibration_folder(mav0: Path) -> Path:
    """The dso folder of the sequence, else a calib folder in it or next to it."""
    sequence = mav0.resolve().parent if mav0.resolve().name == "mav0" else mav0.resolve()
    candidates = [sequence / "dso", sequence / "calib", sequence.parent / "calib"]
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise CalibrationError(
        f"{sequence}: no calibration found; looked for the folders "
        f"{', '.join(str(folder) for folder in candidates)} with a Kalibr camchain and IMU file. "
        "Put them there or name the rig file."
    )


_MODEL_NAMES = {"radtan": "radial-tangential", "equidistant": "equidistant", "none": "none"}


def write_euroc(recording: Recording, folder: Path) -> None:
    """Write everything except images, atomically."""
    cameras, stamped = len(recording.rig.cameras), len(recording.camera_stamps_ns)
    if cameras != stamped:
        raise DatasetError(
            f"{recording.name} has {cameras} cameras in its rig but timestamps of images of "
            f"{stamped}; needed one array of timestamps for each camera."
        )
    with whole_folder(folder) as temporary:
        for name, text in _files(recording).items():
            write_atomically(temporary / "mav0" / name, text)


def _files(recording: Recording) -> dict[str, str]:
    """Text of each file below mav0."""
    imu, rig = recording.imu, recording.rig
    samples = np.hstack([imu.gyro, imu.acc])
    files = {
        "imu0/data.csv": _csv("#timestamp [ns]", imu.stamps_ns, samples, "w", "a"),
        "imu0/sensor.yaml": _yaml(_imu_description(rig.imu)),
    }
    for index, camera in enumerate(rig.cameras):
        stamps_ns = recording.camera_stamps_ns[index].tolist()
        names = ["#timestamp [ns],filename\n", *(f"{at},{at}.png\n" for at in stamps_ns)]
        exact = {"calibration": "exact"} if rig.exact else {}
        files[f"cam{index}/data.csv"] = "".join(names)
        files[f"cam{index}/sensor.yaml"] = _yaml(_camera_description(camera) | exact)
    return files | {f"{name}/data.csv": truth_csv(t) for name, t in recording.truths.items()}


def truth_csv(truth: GroundTruth) -> str:
    """Ground truth as the text of EuRoC's data.csv."""
    rotations = scipy.spatial.transform.Rotation.from_matrix(truth.Ts_w_b[:, :3, :3])
    quats_wxyz = rotations.as_quat()[:, [3, 0, 1, 2]]
    p_w_b = truth.Ts_w_b[:, :3, 3]
    columns = np.hstack([p_w_b, quats_wxyz, truth.v_w, truth.bias_gyro, truth.bias_acc])
    return _csv("#timestamp", truth.stamps_ns, columns, "p", "q", "v", "bw", "ba")


def _csv(stamp_heading: str, stamps_ns: Stamps, columns: Array, *vectors: str) -> str:
    """Table with all digits of every number, so that reading gives back what was written."""
    headings = [
        f"{heading}{axis} [{unit}]"
        for heading, axes, unit, _ in (_VECTORS[vector] for vector in vectors)
        for axis in axes
    ]
    rows = zip(stamps_ns.tolist(), columns.tolist(), strict=True)
    lines = [f"{stamp_ns},{','.join(map(repr, row))}" for stamp_ns, row in rows]
    return "\n".join([",".join([stamp_heading, *headings]), *lines, ""])


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


COVARIANCE_FILE = "covariance.npz"

COVARIANCE_FIELDS = {
    "cov_stamps_ns": NpzField("iu", ("k",)),
    "cov_states": NpzField("f", ("k", 15, 15)),
    "cov_neighbours": NpzField("f", ("j", 15, 15)),
    "cov_with_constants": NpzField("f", ("k", 15, "b")),
    "cov_constants": NpzField("f", ("b", "b")),
    "cov_imu_noise": NpzField("f", ("j", 9, 9)),
}
"""Names of the arrays, one for each part of a `TruthCovariance`."""


def covariance_arrays(covariance: TruthCovariance) -> dict[str, Any]:
    """Arrays to write."""
    return {name: getattr(covariance, name.removeprefix("cov_")) for name in COVARIANCE_FIELDS}


def covariance_of(arrays: Mapping[str, Any], source: str) -> TruthCovariance:
    """Covariance from the arrays of a file; `source` names the file in errors."""
    parts = {name.removeprefix("cov_"): arrays[name] for name in COVARIANCE_FIELDS}
    problem = _problem(**parts)
    if problem:
        raise DatasetError(
            f"{source}: {problem}; needed covariances of rising timestamps, finite and positive. "
            "Write it again with `maci2 truth`."
        )
    return TruthCovariance(**parts)


def _problem(stamps_ns: Stamps, constants: Array, **others: Array) -> str:
    """Reason why these parts are not a covariance; empty if they are."""
    if len(stamps_ns) < 2 or len(others["neighbours"]) != len(stamps_ns) - 1:
        return f"holds {len(stamps_ns)} states and {len(others['neighbours'])} pairs of neighbours"
    if (np.diff(stamps_ns) <= 0).any():
        return "timestamps do not rise"
    if not all(np.isfinite(part).all() for part in (constants, *others.values())):
        return "holds NaN or infinity"
    diagonals = [np.einsum("kii->ki", others[name]) for name in ("states", "imu_noise")]
    if not all((diagonal > 0.0).all() for diagonal in (*diagonals, np.diag(constants))):
        return "holds variances that are not positive"
    if len(constants) and np.linalg.matrix_rank(constants, hermitian=True) < len(constants):
        return "the covariance of the constants is singular"
    return ""


def read_covariance(folder: Path, truth_ns: Stamps) -> TruthCovariance | None:
    """Covariance that `maci2 truth` wrote beside the ground-truth rows at `truth_ns`; None if there
    is none, or if a version before 0.7 wrote it, which stored single rows only."""
    path = folder / COVARIANCE_FILE
    if not path.is_file():
        return None
    fields = {name: replace(field, optional=True) for name, field in COVARIANCE_FIELDS.items()}
    arrays = read_npz(path, fields, "the covariance of the ground truth", DatasetError)
    if len(arrays) < len(fields):
        _LOG.warning(
            "note: %s: was written by an earlier version and is not used; run `maci2 truth` again",
            path,
        )
        return None
    covariance = covariance_of(arrays, str(path))
    since_ns, until_ns = int(covariance.stamps_ns[0]), int(covariance.stamps_ns[-1])
    if int(truth_ns[0]) > until_ns or int(truth_ns[-1]) < since_ns:
        raise DatasetError(
            f"{path}: is of {since_ns}..{until_ns} ns, and data.csv beside it of "
            f"{truth_ns[0]}..{truth_ns[-1]} ns: it belongs to another ground truth. Remove it, or "
            "write both again with `maci2 truth`."
        )
    return covariance
