"""Contents of a calibration file: cameras from checked numbers, noise, and what completes them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from maci2.errors import CalibrationError
from maci2.geometry import se3_inv
from maci2.sensors.rig_types import (
    Camera,
    CameraModel,
    DistortionModel,
    ImuIntrinsics,
    ImuNoise,
    Rig,
)
from maci2.sensors.validation import RIG_RANGES, require_plausible_lens, require_plausible_noise
from maci2.types import Array

PARAMETERS: dict[CameraModel, tuple[str, ...]] = {
    "pinhole": (), "omni": ("xi",), "ds": ("xi", "alpha"), "eucm": ("alpha", "beta"),
}  # fmt: skip
"""Names of a model's own parameters; Kalibr puts them before fx, fy, cx, cy."""

COEFFICIENTS: dict[DistortionModel, tuple[int, ...]] = {
    "radtan": (4, 5, 8), "equidistant": (4,), "fov": (1,), "none": (0,),
}  # fmt: skip
"""Numbers of distortion coefficients that a model can have."""

FOCAL = ("fx", "fy", "cx", "cy")
RADTAN = ("k1", "k2", "p1", "p2", "k3", "k4", "k5", "k6")
FISHEYE = ("k1", "k2", "k3", "k4")
"""Usual names of a camera's numbers in the order of `Camera`."""

_RANGES = {"alpha": (0.0, 1.0), "beta": (0.0, 100.0)}


def make_camera(
    where: str | Path,
    intrinsics: Sequence[float],
    coefficients: Sequence[float],
    distortion_model: DistortionModel,
    resolution: tuple[int, int],
    T_b_c: Array,
    *,
    camera_model: CameraModel = "pinhole",
    model_parameters: Sequence[float] = (),
    rate_hz: float = math.nan,
    topic: str = "",
) -> Camera:
    """Camera from checked numbers; `where` names file and camera in messages."""
    if not np.isfinite([*coefficients, *intrinsics]).all():
        raise CalibrationError(f"{where}: a distortion coefficient or focal length is not finite.")
    lens, distortion_model = _trimmed(list(coefficients), distortion_model, where)
    focal, distortion = np.array(intrinsics, np.float64), np.array(lens, np.float64)
    require_plausible_lens(str(where), focal, distortion, resolution)
    names = PARAMETERS[camera_model]
    for name, value in zip(names, model_parameters, strict=True):
        low, high = _RANGES.get(name, (-1.0, 100.0))
        if not low <= value <= high:
            raise CalibrationError(
                f"{where}: {name} of the {camera_model} model is {value:g}, needed {low:g} to "
                f"{high:g}."
            )
    if camera_model != "pinhole" and distortion_model not in ("none", "radtan"):
        raise CalibrationError(
            f"{where}: the model {camera_model} with distortion '{distortion_model}' is not known; "
            "needed 'radtan' or 'none'."
        )
    return Camera(
        T_b_c=T_b_c,
        intrinsics=focal,
        distortion=distortion,
        distortion_model=distortion_model,
        resolution=resolution,
        rate_hz=rate_hz,
        topic=topic,
        camera_model=camera_model,
        model_parameters=np.array(model_parameters, dtype=np.float64),
    )


def _trimmed(
    values: list[float], model: DistortionModel, where: str | Path
) -> tuple[list[float], DistortionModel]:
    """Coefficients without the trailing zeros that a shorter form omits."""
    if not any(values) or model == "none":
        if any(values):
            raise CalibrationError(
                f"{where}: distortion model 'none' has coefficients that are not zero; name the "
                "model, or remove them."
            )
        return [0.0] * 4, "none"
    for count in COEFFICIENTS[model]:
        if count <= len(values) and not any(values[count:]):
            return values[:count], model
    needed = " or ".join(str(count) for count in COEFFICIENTS[model])
    raise CalibrationError(
        f"{where}: distortion_coeffs has {len(values)} numbers, needed {needed} for the model "
        f"'{model}'."
    )


MAX_RATE_HZ = RIG_RANGES["imu_rate"].possible[1]

ASSUMED_NOISE = ImuNoise(2e-4, 2e-3, 2e-5, 3e-3, 200.0)
"""Noise of a consumer MEMS IMU: a placeholder in rigs without known noise."""

NOISE_REMEDY = (
    "If the file has noise without a rate, or noise of single samples as VINS writes it, give "
    "--imu-rate HZ. Otherwise give --imu-noise FILE (Kalibr's imu.yaml) or --imu-noise "
    "GYRO,ACC,GYRO_WALK,ACC_WALK with --imu-rate HZ, the densities of the data sheet in SI units "
    "per sqrt(Hz); or put Kalibr's imu.yaml beside the file."
)


@dataclass(frozen=True)
class StatedNoise:
    """IMU noise whose sampling rate is stated elsewhere: densities in the units of ImuNoise, or
    standard deviations of single samples, which are densities only together with the rate."""

    gyro: float
    acc: float
    walk_gyro: float
    walk_acc: float
    of_samples: bool = field(default=False, kw_only=True)
    """True for standard deviations of a sample and of a bias step divided by the period."""

    def densities(self, rate_hz: float) -> ImuNoise:
        """Noise per sqrt(Hz) at a sampling rate."""
        root = math.sqrt(rate_hz) if self.of_samples else 1.0
        return ImuNoise(
            self.gyro / root, self.acc / root, self.walk_gyro / root, self.walk_acc / root, rate_hz
        )

    def at_rate(self, rate_hz: float | None) -> "AnyNoise":
        """Noise per sqrt(Hz) if the rate is known, otherwise this noise."""
        return self if rate_hz is None else self.densities(rate_hz)


AnyNoise = ImuNoise | StatedNoise


@dataclass(frozen=True)
class RigParts:
    """Contents of one tool's calibration files."""

    tool: str
    """Tool that wrote the file, with its version where that matters, for messages."""

    source: Path
    cameras: tuple[Camera, ...]
    """Cameras in the body frame; moved to that of the first one if `extrinsics_known` is false."""

    extrinsics_known: bool = True
    noise: AnyNoise | None = None
    """IMU noise; None if the files do not state it."""

    rate_hz: float | None = None
    """IMU rate if the files state it apart from the noise [Hz]."""

    time_offset_s: float = 0.0
    intrinsics: ImuIntrinsics | None = None

    imu_file: Path | None = None
    """File beside the cameras' with the noise and intrinsics of the IMU."""

    def __post_init__(self) -> None:
        if not self.extrinsics_known and self.cameras:
            T_c0_b = se3_inv(self.cameras[0].T_b_c)
            cameras = [replace(camera, T_b_c=T_c0_b @ camera.T_b_c) for camera in self.cameras]
            object.__setattr__(self, "cameras", tuple(cameras))


@dataclass(frozen=True)
class Given:
    """Parts of a calibration that a user states in addition to a file."""

    noise: AnyNoise | None = None
    """IMU noise, instead of the file's."""

    rate_hz: float | None = None
    """IMU rate, instead of the file's."""

    T_b_c: tuple[tuple[float, ...], ...] | None = None
    """Rows of the pose of the first camera in the body frame, instead of the file's."""


NOTHING_GIVEN = Given()


def assemble(
    parts: RigParts, given: Given = NOTHING_GIVEN, own_noise: ImuNoise | None = None
) -> Rig:
    """Build a rig from the parts of a file, completed by those that a user states.

    `own_noise`, which a recording states, is taken where neither the file nor the user does.
    """
    source = f"{parts.source} ({parts.tool})"
    noise = _noise(parts, given, own_noise)
    if noise is not None:
        require_plausible_noise(noise, source)
    rig = Rig(
        parts.cameras,
        ASSUMED_NOISE if noise is None else noise,
        source,
        extrinsics_known=parts.extrinsics_known,
        time_offset_s=parts.time_offset_s,
        noise_known=noise is not None,
        imu_intrinsics=parts.intrinsics,
    )
    if given.T_b_c is None or not rig.cameras:
        return rig
    # The relative poses of the cameras are kept.
    T_b_c0 = np.array(given.T_b_c)
    T_new_old = T_b_c0 @ se3_inv(rig.cameras[0].T_b_c)
    first = replace(rig.cameras[0], T_b_c=T_b_c0)
    others = [replace(camera, T_b_c=T_new_old @ camera.T_b_c) for camera in rig.cameras[1:]]
    return replace(rig, cameras=(first, *others), extrinsics_known=True)


def complete(rig: Rig, given: Given) -> Rig:
    """Rig of a recording with the parts that a user gives instead."""
    if given == NOTHING_GIVEN:
        return rig
    noise = rig.imu if rig.noise_known else None
    parts = RigParts(
        "calibration", Path(rig.source), rig.cameras, rig.extrinsics_known, noise,
        time_offset_s=rig.time_offset_s, intrinsics=rig.imu_intrinsics,
    )  # fmt: skip
    return replace(assemble(parts, given), source=rig.source, exact=rig.exact)


def _noise(parts: RigParts, given: Given, own_noise: ImuNoise | None) -> ImuNoise | None:
    """Noise stated by the user, the file or the recording, in this order; None without any."""
    stated = parts.noise if given.noise is None else given.noise
    if stated is None:
        return own_noise
    if isinstance(stated, ImuNoise):
        return stated if given.rate_hz is None else replace(stated, rate_hz=given.rate_hz)
    others = [noise.rate_hz for noise in (own_noise, parts.noise) if isinstance(noise, ImuNoise)]
    rates_hz = [rate for rate in (given.rate_hz, parts.rate_hz, *others) if rate is not None]
    if rates_hz:
        return stated.densities(rates_hz[0])
    if given.noise is None:
        return own_noise
    raise CalibrationError(
        f"{parts.source}: {parts.tool} does not state the IMU's rate; give --imu-rate HZ."
    )


def unknown_model(camera: Camera, source: str, tool: str, remedy: str) -> CalibrationError:
    """Error for a lens that the files of a tool cannot represent."""
    return CalibrationError(
        f"{source}: the camera model is {camera.camera_model} with distortion "
        f"'{camera.distortion_model}' ({len(camera.distortion)} coefficients), which {tool} does "
        f"not know; calibrate with {remedy}."
    )


def require_no_offsets(intrinsics: ImuIntrinsics, source: str, tool: str) -> None:
    """Raise if the tool's format cannot represent the stated IMU offsets."""
    if np.any(intrinsics.offset_gyro) or np.any(intrinsics.offset_acc):
        raise CalibrationError(
            f"{source}: states constant offsets of the IMU, gyro "
            f"{intrinsics.offset_gyro.tolist()} and acc {intrinsics.offset_acc.tolist()}, and "
            f"files of {tool} have no place for them; subtract them from the samples."
        )


def require_noise(rig: Rig, what: str) -> None:
    """Raise if the IMU noise, which `what` needs, is unknown."""
    if not rig.noise_known:
        raise CalibrationError(
            f"{rig.source}: does not state the IMU noise as a density, needed for {what}. "
            f"{NOISE_REMEDY}"
        )


def require_extrinsics(rig: Rig, what: str) -> None:
    """Raise if the extrinsics, which `what` needs, are unknown."""
    if not rig.extrinsics_known:
        raise CalibrationError(
            f"{rig.source}: no camera has T_cam_imu, so the camera-IMU extrinsics are unknown, "
            f"but needed for {what}. Run `maci2 calibrate` with this file as --rig first, and "
            "give the camchain-imucam.yaml that it writes; or give --T-b-c."
        )
