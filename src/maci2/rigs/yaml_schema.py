"""YAML calibration files, checked against a schema; an unknown key is an error."""

import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from maci2.errors import CalibrationError
from maci2.files import read_text
from maci2.lie import se3
from maci2.lie.stacks import nearest_rotation, orthonormality_error
from maci2.types import Array

MAX_ORTHONORMALITY_ERROR = 1e-3
"""Largest entry of R^T R - I that rounding of printed digits explains; more is no rotation."""

EXACT_ORTHONORMALITY = 1e-12
"""Below this a rotation is taken as it is, so that what was written reads back the same."""

MAX_ENTRY = 1e12
"""Largest number of a transform; what a lever arm can be is asked of the whole rig."""

MAX_BYTES = 5_000_000
MAX_ALIASES = 20

OPENCV_MATRIX = "tag:yaml.org,2002:opencv-matrix"
"""OpenCV's tag `!!opencv-matrix`."""

Row3 = Annotated[list[float], Field(min_length=3, max_length=3)]
Row4 = Annotated[list[float], Field(min_length=4, max_length=4)]
Matrix3 = Annotated[list[Row3], Field(min_length=3, max_length=3)]
Matrix4 = Annotated[list[Row4], Field(min_length=4, max_length=4)]


class _Loader(yaml.SafeLoader):
    """Knows OpenCV's matrices: a mapping with rows, cols, dt and data."""


def _matrix_entries(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(OPENCV_MATRIX, _matrix_entries)


class Schema(BaseModel):
    """Base of every schema: unknown keys are errors, numbers are finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


AnySchema = TypeVar("AnySchema", bound=Schema)


def load_yaml(path: Path, what: str) -> dict[str, Any]:
    """The mapping in `path`; `what` says in plain words what the file should hold."""
    text = read_text(path, what, MAX_BYTES, CalibrationError)
    if text.startswith("%YAML:"):
        # OpenCV's first line is not legal YAML; blanked, so that line numbers stay true.
        text = "\n" + text.partition("\n")[2]
    if len(re.findall(r"[\[,:\-\s]\*\w", text)) > MAX_ALIASES:
        raise CalibrationError(f"{path}: has more than {MAX_ALIASES} aliases; write values out.")
    try:
        data = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise CalibrationError(f"{path}: not a YAML file: {error}") from error
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise CalibrationError(f"{path}: not a YAML file that can be read: {error}") from error
    if not isinstance(data, dict):
        raise CalibrationError(
            f"{path}: holds {type(data).__name__}, needed keys and values: {what}."
        )
    return {str(key): value for key, value in data.items()}


def validate(schema: type[AnySchema], data: Any, path: Path, place: str = "") -> AnySchema:
    """`data` as `schema`; raises CalibrationError that names file, key, found and accepted."""
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
    key = ".".join(str(part) for part in ((place,) if place else ()) + first["loc"])
    if first["type"] == "extra_forbidden":
        accepted = ", ".join(schema.model_fields)
        raise CalibrationError(f"{path}: unknown key '{key}'; accepted keys are {accepted}.")
    if first["type"] == "missing":
        raise CalibrationError(f"{path}: key '{key}' is missing; add it.")
    raise CalibrationError(f"{path}: key '{key}' is {first['input']!r}: {first['msg']}.")


def rigid_transform(rows: list[list[float]], path: Path, key: str) -> Array:
    """(4, 4) transform; its rotation is projected when only rounding is in the way."""
    T = np.array(rows, dtype=np.float64)
    if not (np.abs(T) <= MAX_ENTRY).all():
        raise CalibrationError(
            f"{path}: {key} holds {T.flat[np.argmax(np.abs(T))]:g}, needed at most {MAX_ENTRY:g} "
            "in size. Copy the matrix again."
        )
    if not np.array_equal(T[3], [0.0, 0.0, 0.0, 1.0]):
        raise CalibrationError(f"{path}: last row of {key} is {T[3].tolist()}, needed 0, 0, 0, 1.")
    error = orthonormality_error(T[:3, :3])
    if error > MAX_ORTHONORMALITY_ERROR:
        raise CalibrationError(
            f"{path}: the rotation in {key} is not orthonormal: R^T R differs from I by "
            f"{error:.3g} (determinant {np.linalg.det(T[:3, :3]):.3g}), needed at most "
            f"{MAX_ORTHONORMALITY_ERROR:g}. Copy the matrix with all its digits."
        )
    if error <= EXACT_ORTHONORMALITY:
        return T
    return se3(nearest_rotation(T[:3, :3]), T[:3, 3].copy())


def require_identity(rows: list[list[float]], path: Path, key: str, why: str) -> None:
    """Raise unless the matrix is the identity to 1e-6."""
    M = np.array(rows, dtype=np.float64)
    off = float(np.abs(M - np.eye(len(M))).max())
    if off > 1e-6:
        raise CalibrationError(
            f"{path}: {key} differs from the identity by {off:.3g}, needed 0 (at most 1e-6); {why}"
        )
