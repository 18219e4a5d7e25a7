"""Kalibr's and OpenVINS' files, read and written: camera chains cam0, cam1, ..., and IMU files.
OpenVINS names both of its own in an estimator_config.yaml.

MSCKF-VIO and 4Seasons write chains alike. T_cam_imu takes IMU points to the camera, T_imu_cam is
its inverse and our T_b_c; T_cn_cnm1, also written T_cam1_cam0, takes points of the camera before to
this one. MSCKF-VIO's T_imu_body places another frame on the robot and does not concern the cameras:
the IMU is the body here.

IMU errors of scale and alignment, with the angular rate w and the specific force a in the IMU
frame. Kalibr: gyro = M C_gyro_i w + A C_gyro_i a, acc = M a. OpenVINS: gyro = Tw R_IMUtoGYRO w +
Tg a, acc = Ta R_IMUtoACC a.
"""

import logging
import re
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml
from pydantic import BaseModel, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from maci2.errors import CalibrationError
from maci2.files import write_atomically
from maci2.geometry import se3_inv
from maci2.rigs.parts import (
    FOCAL,
    NOTHING_GIVEN,
    PARAMETERS,
    AnyNoise,
    Given,
    RigParts,
    StatedNoise,
    assemble,
    make_camera,
    require_no_offsets,
)
from maci2.rigs.recognition import CAMERA_KEY, identify
from maci2.rigs.yaml_files import (
    CarefulSchema,
    Matrix3,
    Matrix4,
    OpenSchema,
    load_yaml,
    opencv_yaml,
    require_identity,
    rigid_transform,
    rotation,
    validate,
)
from maci2.sensors.corrections import (
    IDENTICAL,
    common_time_offset,
    ideal_intrinsics,
    is_ideal,
    lower_triangular,
)
from maci2.sensors.rig_types import (
    Camera,
    CameraModel,
    DistortionModel,
    ImuIntrinsics,
    ImuNoise,
    Rig,
)
from maci2.sensors.validation import require_plausible_noise
from maci2.types import GRAVITY_NORM, Array

_LOG = logging.getLogger(__name__)

Model = TypeVar("Model", CameraModel, DistortionModel)

ROLLING_SHUTTER = "-rs"
"""Suffix of Kalibr's camera models for rolling shutters."""

_BESIDE = re.compile(r"T_cam(\d+)_cam(\d+)")

_CAMERA_MODELS: dict[str, CameraModel] = {
    "pinhole": "pinhole", "omni": "omni", "mei": "omni", "ds": "ds", "eucm": "eucm",
}  # fmt: skip
DISTORTION_NAMES: dict[str, DistortionModel] = {
    "radtan": "radtan", "plumb_bob": "radtan", "radial-tangential": "radtan",
    "rational_polynomial": "radtan", "equidistant": "equidistant", "equi": "equidistant",
    "kannala_brandt": "equidistant", "fisheye": "equidistant", "fov": "fov", "none": "none",
}  # fmt: skip
"""Names of the distortion models in different tools."""


class ChainEntry(CarefulSchema):
    """One camera of a chain."""

    camera_model: str = "pinhole"
    intrinsics: list[float]
    distortion_model: str = "none"
    distortion_coeffs: list[float] | None = None
    resolution: tuple[PositiveInt, PositiveInt]
    T_cam_imu: Matrix4 | None = None
    T_imu_cam: Matrix4 | None = None
    T_cn_cnm1: Matrix4 | None = None
    timeshift_cam_imu: float | None = None
    line_delay: float = 0.0
    cam_overlaps: list[int] = Field(default_factory=list)
    rostopic: str | None = None


def read_chain(data: dict[str, Any], path: Path, tool: str) -> RigParts:
    """Cameras of a chain, in the frame of cam0 if no camera has extrinsics."""
    keys = sorted((key for key in data if CAMERA_KEY.fullmatch(key)), key=lambda key: int(key[3:]))
    for number, key in enumerate(keys):
        if key != f"cam{number}":
            raise CalibrationError(
                f"{path}: cam{number} is missing at the top of a camchain, found {key}; number the "
                "cameras from cam0 on."
            )
    entries = {key: _entry(data, key, path) for key in keys}
    known = any(entry.T_cam_imu or entry.T_imu_cam for entry in entries.values())
    cameras: list[Camera] = []
    for key, entry in entries.items():
        first = not known and not cameras
        T_b_c = np.eye(4) if first else _camera_pose(entry, cameras, path, key)
        cameras.append(_camera(entry, T_b_c, path, key))
    offset_s = common_time_offset((e.timeshift_cam_imu for e in entries.values()), str(path))
    return RigParts(tool, path, tuple(cameras), extrinsics_known=known, time_offset_s=offset_s)


def _entry(data: dict[str, Any], key: str, path: Path) -> ChainEntry:
    value = data[key]
    entry = validate(ChainEntry, value, path, key)
    if entry.T_cn_cnm1 is not None:
        return entry
    # 4Seasons names both cameras, in the entry or at the top.
    for name, matrix in (*value.items(), *data.items()):
        pair = _BESIDE.fullmatch(name)
        if pair and (int(pair[1]), int(pair[2])) == (int(key[3:]), int(key[3:]) - 1):
            return validate(ChainEntry, {**value, "T_cn_cnm1": matrix}, path, key)
    return entry


def _camera_pose(entry: ChainEntry, before: list[Camera], path: Path, key: str) -> Array:
    """T_b_c from T_imu_cam or T_cam_imu, otherwise chained from the previous camera."""
    if entry.T_imu_cam is not None:
        return rigid_transform(entry.T_imu_cam, path, f"{key}.T_imu_cam")
    if entry.T_cam_imu is not None:
        return se3_inv(rigid_transform(entry.T_cam_imu, path, f"{key}.T_cam_imu"))
    if entry.T_cn_cnm1 is None or not before:
        raise CalibrationError(
            f"{path}: {key} has no T_cam_imu; needed for cam0, and T_cam_imu or T_cn_cnm1 for the "
            "others. Use the file that Kalibr's camera-IMU calibration wrote (camchain-imucam)."
        )
    T_cn_cnm1 = rigid_transform(entry.T_cn_cnm1, path, f"{key}.T_cn_cnm1")
    return before[-1].T_b_c @ se3_inv(T_cn_cnm1)


def _camera(entry: ChainEntry, T_b_c: Array, path: Path, key: str) -> Camera:
    """Camera of an entry; Kalibr puts the model's own parameters before fx, fy, cx, cy."""
    # Kalibr's command line, and some people's files, name both models together.
    name, _, beside = entry.camera_model.removesuffix(ROLLING_SHUTTER).partition("-")
    if entry.camera_model.endswith(ROLLING_SHUTTER) or entry.line_delay != 0.0:
        _LOG.warning(
            "%s: %s has a rolling shutter, which is taken as a global one: images of fast motion "
            "will disagree with the IMU.", path, key,
        )  # fmt: skip
    model = _known(name, _CAMERA_MODELS, path, f"{key}.camera_model")
    distortion = _known(entry.distortion_model, DISTORTION_NAMES, path, f"{key}.distortion_model")
    if beside and _known(beside, DISTORTION_NAMES, path, f"{key}.camera_model") != distortion:
        raise CalibrationError(
            f"{path}: {key}.camera_model is '{entry.camera_model[:40]}', but its distortion_model "
            f"'{entry.distortion_model[:40]}'; correct one of them."
        )
    own = len(PARAMETERS[model])
    if len(entry.intrinsics) != own + 4:
        names = ", ".join((*PARAMETERS[model], *FOCAL))
        raise CalibrationError(
            f"{path}: {key}.intrinsics has {len(entry.intrinsics)} numbers, needed {own + 4} for "
            f"the model '{model}': {names}."
        )
    return make_camera(
        f"{path}: {key}",
        entry.intrinsics[own:],
        entry.distortion_coeffs or [],
        distortion,
        entry.resolution,
        T_b_c,
        camera_model=model,
        model_parameters=entry.intrinsics[:own],
        topic=entry.rostopic or "",
    )


def _known(name: str, models: dict[str, Model], path: Path, key: str) -> Model:
    found = models.get(name.lower())
    if found is None:
        accepted = ", ".join(f"'{value}'" for value in dict.fromkeys(models.values()))
        raise CalibrationError(f"{path}: {key} is '{name[:40]}', needed one of {accepted}.")
    return found


def _camera_entry(rig: Rig, number: int, tool: str) -> dict[str, Any]:
    """Model, intrinsics and distortion of a camera, as a chain of `tool` states them."""
    camera = rig.cameras[number]
    if len(camera.distortion) > 4:
        raise CalibrationError(
            f"{rig.source}: radtan distortion has {len(camera.distortion)} coefficients, and files "
            f"of {tool} hold k1, k2, p1, p2 alone; calibrate with four."
        )
    entry = {
        "camera_model": camera.camera_model,
        "distortion_coeffs": camera.distortion.tolist(),
        "distortion_model": camera.distortion_model,
        "intrinsics": [*camera.model_parameters.tolist(), *camera.intrinsics.tolist()],
        "resolution": list(camera.resolution),
        "timeshift_cam_imu": float(rig.time_offset_s),
    }
    return entry | ({"rostopic": camera.topic} if camera.topic else {})


IMU_KEY = re.compile(r"imu\d+")

MAX_MISALIGNMENT = 0.5
"""Largest difference of M from the identity; more is neither scale nor misalignment."""

_EYE = np.eye(3).tolist()


class _Gyroscopes(OpenSchema):
    """Kalibr's errors of the gyroscope."""

    M: Matrix3 = _EYE
    C_gyro_i: Matrix3 = _EYE
    A: Matrix3 | None = None


class _Accelerometers(OpenSchema):
    """Kalibr's errors of the accelerometer."""

    M: Matrix3 = _EYE
    rx_i: list[float] | None = None
    ry_i: list[float] | None = None
    rz_i: list[float] | None = None


_NOISE = (
    "gyroscope_noise_density", "accelerometer_noise_density",
    "gyroscope_random_walk", "accelerometer_random_walk",
)  # fmt: skip
"""Keys of the noise in the order of `ImuNoise`."""


class NoiseKeys(BaseModel):
    """IMU noise as Kalibr, OpenVINS, EuRoC and VBR state it."""

    accelerometer_noise_density: PositiveFloat
    accelerometer_random_walk: NonNegativeFloat
    gyroscope_noise_density: PositiveFloat
    gyroscope_random_walk: NonNegativeFloat

    def stated(self) -> StatedNoise:
        """Noise without the rate, whose key differs."""
        return StatedNoise(*(getattr(self, key) for key in _NOISE))


class _ImuEntry(CarefulSchema, NoiseKeys):
    """One IMU of a file, as both tools write it."""

    update_rate: PositiveFloat | None = None
    time_offset: float = 0.0
    model: str = "calibrated"
    rostopic: str = ""
    T_i_b: Matrix4 | None = None
    accelerometers: _Accelerometers | None = None
    gyroscopes: _Gyroscopes | None = None
    Tw: Matrix3 = _EYE
    Ta: Matrix3 = _EYE
    R_IMUtoGYRO: Matrix3 = _EYE
    R_IMUtoACC: Matrix3 = _EYE
    Tg: Matrix3 | None = None


def read_imu_file(path: Path) -> tuple[AnyNoise, ImuIntrinsics | None]:
    """Noise (perhaps without rate) and, if stated, errors of the first IMU of a file."""
    data: Any = load_yaml(path, "the noise of an IMU")
    key = min((key for key in data if IMU_KEY.fullmatch(key)), default="")
    entry = validate(_ImuEntry, data[key] if key else data, path, key)
    noise = entry.stated().at_rate(entry.update_rate)
    if isinstance(noise, ImuNoise):
        require_plausible_noise(noise, str(path))
    if entry.T_i_b is not None:
        remedy = "the IMU must be the body: give the file of the IMU that the cameras refer to."
        require_identity(entry.T_i_b, path, "T_i_b", remedy)
    if entry.time_offset != 0.0:
        _LOG.warning(
            "%s: time_offset is %g s and is not applied: shift the IMU timestamps by it.",
            path, entry.time_offset,
        )  # fmt: skip
    return noise, _intrinsics(entry, path)


def _intrinsics(entry: _ImuEntry, path: Path) -> ImuIntrinsics | None:
    """Errors as either tool states them; None if they are the identity."""
    if entry.accelerometers is None and entry.gyroscopes is None:
        M_gyro, M_acc = _alignment(entry.Tw, path, "Tw"), _alignment(entry.Ta, path, "Ta")
        R_gyro_b = rotation(entry.R_IMUtoGYRO, path, "R_IMUtoGYRO")
        R_acc_b = rotation(entry.R_IMUtoACC, path, "R_IMUtoACC")
        g_sensitivity = _sensitivity(entry.Tg, path)
    else:
        acc, gyro = entry.accelerometers or _Accelerometers(), entry.gyroscopes or _Gyroscopes()
        for name in ("rx_i", "ry_i", "rz_i"):
            lever = getattr(acc, name)
            if lever is not None and np.abs(lever).max(initial=0.0) > 1e-6:
                raise CalibrationError(
                    f"{path}: accelerometers.{name} is {lever}, needed 0: the size effect (axes "
                    "that do not sit at one point) is not undone. Calibrate with "
                    "scale-misalignment."
                )
        R_gyro_b, R_acc_b = rotation(gyro.C_gyro_i, path, "gyroscopes.C_gyro_i"), np.eye(3)
        M_gyro = _alignment(gyro.M, path, "gyroscopes.M")
        M_acc = _alignment(acc.M, path, "accelerometers.M")
        g_sensitivity = _sensitivity(gyro.A, path) @ R_gyro_b
    zero = np.zeros(3)
    found = ImuIntrinsics(M_gyro, R_gyro_b, M_acc, R_acc_b, g_sensitivity, zero, zero.copy())
    return None if is_ideal(found) else found


def _alignment(rows: Matrix3, path: Path, key: str) -> Array:
    M = np.array(rows)
    off = float(np.abs(M - np.eye(3)).max())
    if off > MAX_MISALIGNMENT:
        raise CalibrationError(
            f"{path}: {key} differs from the identity by {off:.3g}, needed at most "
            f"{MAX_MISALIGNMENT}: no scale or misalignment of an IMU is as large."
        )
    return M


def _sensitivity(rows: Matrix3 | None, path: Path) -> Array:
    A = np.zeros((3, 3)) if rows is None else np.array(rows)
    if np.abs(A).max() > MAX_MISALIGNMENT:
        raise CalibrationError(
            f"{path}: the g-sensitivity has an entry of {np.abs(A).max():.3g} rad/s per m/s^2, "
            f"needed at most {MAX_MISALIGNMENT}."
        )
    return A


CAMCHAIN_NAMES = ("camchain-imucam.yaml", "kalibr_imucam_chain.yaml", "camchain.yaml")
IMU_NAMES = ("imu_config.yaml", "imu.yaml", "kalibr_imu_chain.yaml")

_CAMCHAIN_PATTERNS = ("*imucam*.y*ml", "*camchain*.y*ml", "*cam*chain*.y*ml")
_IMU_PATTERNS = ("imu*.y*ml", "*imu*.y*ml")


def read_rig(path: Path, given: Given = NOTHING_GIVEN) -> Rig:
    """Read a rig from a folder with a camchain and an IMU file, or from a camchain with the IMU
    file beside it.

    A camchain without T_cam_imu, as Kalibr's camera calibration writes it, gives a rig whose
    extrinsics are not known; one without an IMU file a rig whose noise is not known. Kalibr does
    not say the frame rate: it is NaN.
    """
    return assemble(with_imu_file(read_kalibr(path), given), given)


def read_kalibr(path: Path) -> RigParts:
    """Cameras of a camchain, and the IMU file in the same folder."""
    camchain = find_camchain(path) if path.is_dir() else path
    data = load_yaml(camchain, "a Kalibr camchain")
    parts = read_chain(data, camchain, identify(data).name)
    if not parts.cameras:
        raise CalibrationError(
            f"{camchain}: {parts.tool} has no camera; needed cam0, cam1, ... of a Kalibr camchain."
        )
    imus = [v for k, v in data.items() if IMU_KEY.fullmatch(k) and isinstance(v, dict)]
    # Some people keep both in one file.
    own = any("gyroscope_noise_density" in imu for imu in imus)
    return replace(parts, imu_file=camchain if own else find_imu_file(camchain))


def with_imu_file(parts: RigParts, given: Given) -> RigParts:
    """Parts with noise and intrinsics of their IMU file, whose faults do not matter if a user gives
    the noise."""
    if parts.imu_file is None:
        return parts
    try:
        noise, intrinsics = read_imu_file(parts.imu_file)
    except CalibrationError:
        if given.noise is None:
            raise
        return parts
    return replace(parts, noise=noise, intrinsics=intrinsics)


def find_camchain(folder: Path) -> Path:
    """The only camera chain of a folder; one with extrinsics is preferred."""
    for name in CAMCHAIN_NAMES:
        if (folder / name).is_file():
            return folder / name
    for pattern in _CAMCHAIN_PATTERNS:
        files = sorted(folder.glob(pattern))
        if len(files) == 1:
            return files[0]
        if files:
            raise CalibrationError(
                f"{folder}: holds {', '.join(file.name for file in files)}; name the one file to "
                "read."
            )
    raise CalibrationError(
        f"{folder}: no single file to read; found none, needed one of {', '.join(CAMCHAIN_NAMES)} "
        "or Kalibr's own DATE-camchain-imucam.yaml, or a configuration of OpenVINS, VINS-Fusion "
        "or ORB-SLAM3. Name the file."
    )


def find_imu_file(camchain: Path) -> Path | None:
    """The IMU file that belongs to a camchain: by its name, else the only one in the folder."""
    folder = camchain.parent
    for part in ("camchain-imucam", "imucam_chain", "camchain"):
        other = "imu_chain" if part == "imucam_chain" else "imu"
        named = folder / camchain.name.replace(part, other)
        if part in camchain.name and named.is_file():
            return named
    for name in IMU_NAMES:
        if (folder / name).is_file() and _is_imu_file(folder / name):
            return folder / name
    for pattern in _IMU_PATTERNS:
        files = [file for file in sorted(folder.glob(pattern)) if _is_imu_file(file)]
        if files:
            # Of several nobody knows which one took the recording: noise stays unknown.
            return files[0] if len(files) == 1 else None
    return None


def _is_imu_file(path: Path) -> bool:
    try:
        return identify(load_yaml(path, "the noise of an IMU")).reader == "imu"
    except CalibrationError:
        return False


_CONVENTION = (
    "T_cam_imu takes points from the IMU (body) frame to the camera frame: p_c = T_cam_imu p_b.",
    "Its inverse T_b_c is the pose of the camera in the body frame.",
    "timeshift_cam_imu [s]: t_imu = t_cam + timeshift_cam_imu.",
)

_INTRINSICS = (
    "With angular rate w and specific force a in the IMU frame, noise and biases aside:",
    "gyro = gyroscopes.M C_gyro_i w + A C_gyro_i a, acc = accelerometers.M a.",
)


def write_camchain(path: Path, rig: Rig) -> None:
    """Write the cameras as a Kalibr camchain-imucam file, or as a camchain without extrinsics if
    these are unknown."""
    write_atomically(path, camchain_text(rig))


def camchain_text(rig: Rig) -> str:
    """Text of a camchain file."""
    chain: dict[str, dict[str, Any]] = {}
    for number, camera in enumerate(rig.cameras):
        T_c_b = se3_inv(camera.T_b_c)
        entry = {"T_cam_imu": T_c_b.tolist()} if rig.extrinsics_known else {}
        entry |= _camera_entry(rig, number, "Kalibr")
        if number > 0:
            entry["T_cn_cnm1"] = (T_c_b @ rig.cameras[number - 1].T_b_c).tolist()
        chain[f"cam{number}"] = entry
    return _yaml(chain, _CONVENTION)


def kalibr_files(folder: Path, rig: Rig) -> dict[Path, str]:
    """Texts of the camchain and, if the noise is known, of the IMU file."""
    name = "camchain-imucam.yaml" if rig.extrinsics_known else "camchain.yaml"
    files, imu = {folder / name: camchain_text(rig)}, folder / "imu.yaml"
    noise = {imu: imu_text(rig.imu, rig.imu_intrinsics, str(imu))} if rig.noise_known else {}
    return files | noise


def write_imu_yaml(path: Path, noise: ImuNoise, intrinsics: ImuIntrinsics | None = None) -> None:
    """Write noise densities, and errors of scale and alignment, as a Kalibr imu.yaml."""
    write_atomically(path, imu_text(noise, intrinsics, str(path)))


def imu_text(noise: ImuNoise, intrinsics: ImuIntrinsics | None, source: str) -> str:
    """Text of an imu.yaml; `source` names the file in errors."""
    comments = ["Densities and random walks per sqrt(Hz), SI units."]
    entry = _noise_entries(noise)
    if intrinsics is not None:
        entry |= _intrinsics_entries(intrinsics, source)
        comments += _INTRINSICS
    return _yaml({"imu0": entry}, tuple(comments))


def _noise_entries(noise: ImuNoise) -> dict[str, Any]:
    """Noise as Kalibr and OpenVINS state it."""
    stated = dict(zip(_NOISE, astuple(noise)[:4], strict=True))
    return {key: stated[key] for key in sorted(stated)} | {"update_rate": noise.rate_hz}


def _intrinsics_entries(intrinsics: ImuIntrinsics, source: str) -> dict[str, Any]:
    require_no_offsets(intrinsics, source, "Kalibr")
    M_gyro, R_gyro_b = lower_triangular(intrinsics.M_gyro, intrinsics.R_gyro_b)
    M_acc = intrinsics.M_acc @ intrinsics.R_acc_b
    if np.abs(np.triu(M_acc, 1)).max() > IDENTICAL:
        raise CalibrationError(
            f"{source}: the accelerometer's axes are rotated against the body, and Kalibr's files "
            "put the body frame on the accelerometer; write openvins instead."
        )
    return {
        "model": "scale-misalignment",
        "accelerometers": {"M": np.tril(M_acc).tolist()},
        "gyroscopes": {
            "M": M_gyro.tolist(),
            "C_gyro_i": R_gyro_b.tolist(),
            "A": (intrinsics.g_sensitivity @ R_gyro_b.T).tolist(),
        },
    }


def _yaml(data: dict[str, Any], comments: tuple[str, ...]) -> str:
    head = "".join(f"# {line}\n" for line in comments)
    # Flow style for innermost lists only: one line for each row of a matrix.
    body = yaml.safe_dump(data, default_flow_style=None, sort_keys=False, width=200)
    return head + body


OPENVINS_CONFIG = "estimator_config.yaml"
OPENVINS_CAMERAS = "kalibr_imucam_chain.yaml"
OPENVINS_IMU = "kalibr_imu_chain.yaml"

_OPENVINS_CHAIN = (
    "OpenVINS. T_imu_cam takes points from the camera frame to the IMU (body) frame:",
    "p_imu = T_imu_cam p_cam; it is the pose of the camera in the IMU frame, and the inverse of",
    "Kalibr's T_cam_imu.",
    "timeshift_cam_imu [s]: t_imu = t_cam + timeshift_cam_imu, one for all cameras.",
)
_OPENVINS_ERRORS = (
    "OpenVINS. Densities per sqrt(Hz), SI units. With angular rate w and specific force a in the",
    "IMU frame: gyro = Tw R_IMUtoGYRO w + Tg a, acc = Ta R_IMUtoACC a, noise and biases aside.",
)
_OPENVINS_INIT = (
    "OpenVINS. init_dyn_bias_g [rad/s] and init_dyn_bias_a [m/s^2] are the biases that",
    "initialization starts from, in the IMU frame: true = reading - bias. gravity_mag [m/s^2].",
    "Extrinsics are in the file of relative_config_imucam, noise in that of relative_config_imu.",
    "What is not here (tracker, updates, state options) is OpenVINS's own and keeps its defaults.",
)


class _OpenvinsConfig(OpenSchema):
    relative_config_imucam: str = OPENVINS_CAMERAS
    relative_config_imu: str = OPENVINS_IMU
    init_dyn_bias_g: tuple[float, float, float] = (0.0, 0.0, 0.0)
    init_dyn_bias_a: tuple[float, float, float] = (0.0, 0.0, 0.0)


def read_openvins(path: Path) -> RigParts:
    """Cameras and IMU file named by an estimator_config.yaml."""
    config = validate(_OpenvinsConfig, load_yaml(path, "OpenVINS's estimator configuration"), path)
    chain = path.parent / config.relative_config_imucam
    data = load_yaml(chain, "OpenVINS's camera chain")
    parts = read_chain(data, chain, "OpenVINS estimator_config")
    if not parts.cameras:
        raise CalibrationError(f"{chain}: has no camera; needed cam0, cam1, ...")
    imu = path.parent / config.relative_config_imu
    return replace(parts, source=path, imu_file=imu if imu.is_file() else find_imu_file(chain))


def openvins_files(folder: Path, rig: Rig, bias_gyro: Array, bias_acc: Array) -> dict[Path, str]:
    """Texts of all three files; the biases become initial values."""
    chain: dict[str, Any] = {}
    for number, camera in enumerate(rig.cameras):
        if camera.camera_model != "pinhole" or camera.distortion_model == "fov":
            raise CalibrationError(
                f"{rig.source}: the camera model is {camera.camera_model} with distortion "
                f"'{camera.distortion_model}', and OpenVINS knows pinhole with radtan or "
                "equidistant alone; write kalibr, or calibrate with one of these."
            )
        chain[f"cam{number}"] = {
            "T_imu_cam": camera.T_b_c.tolist(),
            "cam_overlaps": [other for other in range(len(rig.cameras)) if other != number],
            **_camera_entry(rig, number, "OpenVINS"),
            # OpenVINS knows no "none"; without coefficients radtan is the same.
            "distortion_model": camera.distortion_model.replace("none", "radtan"),
        }
    errors = _openvins_intrinsics(rig.imu_intrinsics or ideal_intrinsics(), rig.source)
    imu = {"T_i_b": np.eye(4).tolist(), **_noise_entries(rig.imu), **errors}
    config = {
        "use_stereo": len(rig.cameras) > 1,
        "max_cameras": len(rig.cameras),
        "gravity_mag": GRAVITY_NORM,
        "init_dyn_use": True,
        "init_dyn_bias_g": bias_gyro.tolist(),
        "init_dyn_bias_a": bias_acc.tolist(),
        "relative_config_imu": OPENVINS_IMU,
        "relative_config_imucam": OPENVINS_CAMERAS,
    }
    return {
        folder / OPENVINS_CONFIG: opencv_yaml(config, _OPENVINS_INIT),
        folder / OPENVINS_CAMERAS: opencv_yaml(chain, _OPENVINS_CHAIN),
        folder / OPENVINS_IMU: opencv_yaml({"imu0": imu}, _OPENVINS_ERRORS),
    }


def _openvins_intrinsics(found: ImuIntrinsics, source: str) -> dict[str, Any]:
    """OpenVINS keeps six numbers of Tw and Ta: the lower triangle ("kalibr") or the upper one
    ("rpng"); what is neither is split anew into a triangle and a rotation."""
    require_no_offsets(found, source, "OpenVINS")
    M_gyro, R_gyro_b, M_acc, R_acc_b = found.M_gyro, found.R_gyro_b, found.M_acc, found.R_acc_b
    upper = not np.tril(M_gyro, -1).any() and not np.tril(M_acc, -1).any()
    model = "rpng" if upper and (M_gyro + M_acc)[0, 1] else "kalibr"
    if model == "kalibr":
        M_gyro, R_gyro_b = lower_triangular(M_gyro, R_gyro_b)
        M_acc, R_acc_b = lower_triangular(M_acc, R_acc_b)
    return {
        "model": model,
        "Tw": M_gyro.tolist(),
        "R_IMUtoGYRO": R_gyro_b.tolist(),
        "Ta": M_acc.tolist(),
        "R_IMUtoACC": R_acc_b.tolist(),
        "Tg": found.g_sensitivity.tolist(),
    }
