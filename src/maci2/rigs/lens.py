"""Construction of a camera from the numbers of a file, with checks."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from maci2.errors import CalibrationError
from maci2.sensors.rig_types import Camera, CameraModel, DistortionModel
from maci2.types import Array

PARAMETERS: dict[CameraModel, tuple[str, ...]] = {
    "pinhole": (),
    "omni": ("xi",),
    "ds": ("xi", "alpha"),
    "eucm": ("alpha", "beta"),
}
"""Names of a model's own parameters; Kalibr puts them before fx, fy, cx, cy."""

COEFFICIENTS: dict[DistortionModel, tuple[int, ...]] = {
    "radtan": (4, 5, 8),
    "equidistant": (4,),
    "fov": (1,),
    "none": (0,),
}
"""Numbers of distortion coefficients that a model can have."""

_RANGES = {"alpha": (0.0, 1.0), "beta": (0.0, 100.0)}
MAX_PIXELS = 100_000
MAX_FOCAL_IMAGES = 1000.0
"""Largest plausible focal length, in image widths."""


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
    model = _trimmed(list(coefficients), distortion_model, where)
    _require_image(where, intrinsics, resolution)
    names = PARAMETERS[camera_model]
    for name, value in zip(names, model_parameters, strict=True):
        low, high = _RANGES.get(name, (-1.0, 100.0))
        if not low <= value <= high:
            raise CalibrationError(
                f"{where}: {name} of the {camera_model} model is {value:g}, needed {low:g} to "
                f"{high:g}."
            )
    if camera_model != "pinhole" and model[1] not in ("none", "radtan"):
        raise CalibrationError(
            f"{where}: the model {camera_model} with distortion '{model[1]}' is not known; needed "
            "'radtan' or 'none'."
        )
    return Camera(
        T_b_c=T_b_c,
        intrinsics=np.array(intrinsics, dtype=np.float64),
        distortion=np.array(model[0], dtype=np.float64),
        distortion_model=model[1],
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
    if not np.isfinite(values).all():
        raise CalibrationError(f"{where}: a distortion coefficient is not finite.")
    if not any(values) or model == "none":
        if any(values):
            raise CalibrationError(
                f"{where}: distortion model 'none' has coefficients that are not zero; name the "
                "model, or remove them."
            )
        return [0.0] * 4, "none"
    if model == "radtan":
        lengths = [n for n in COEFFICIENTS["radtan"] if n <= len(values) and not any(values[n:])]
        if len(values) >= 4 and lengths:
            return values[: lengths[0]], model
    if len(values) not in COEFFICIENTS[model]:
        needed = " or ".join(str(count) for count in COEFFICIENTS[model])
        raise CalibrationError(
            f"{where}: distortion_coeffs has {len(values)} numbers, needed {needed} for the model "
            f"'{model}'."
        )
    return values, model


def _require_image(
    where: str | Path, intrinsics: Sequence[float], resolution: tuple[int, int]
) -> None:
    width, height = resolution
    if not (0 < width <= MAX_PIXELS and 0 < height <= MAX_PIXELS):
        raise CalibrationError(
            f"{where}: the image size is {width}x{height}, needed 1 to {MAX_PIXELS} pixels."
        )
    fx, fy, cx, cy = intrinsics
    limit = MAX_FOCAL_IMAGES * max(width, height)
    if not (0.0 < fx <= limit and 0.0 < fy <= limit):
        raise CalibrationError(
            f"{where}: the focal length is {fx:g}, {fy:g} px, needed more than 0 and at most "
            f"{limit:g} for an image of {width}x{height}."
        )
    if not (0.0 <= cx <= width and 0.0 <= cy <= height):
        raise CalibrationError(
            f"{where}: the principal point {cx:g}, {cy:g} lies outside the image of "
            f"{width}x{height} px; check the image size and the order of the numbers."
        )
