"""Calibration files checked against a schema; messages name file, key, value found and needed."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from maci2.errors import CalibrationError
from maci2.lie import se3
from maci2.lie.stacks import determinant, nearest_rotation, orthonormality_error
from maci2.rigs.yaml_text import Mapping, read_mapping
from maci2.types import Array

MAX_ORTHONORMALITY_ERROR = 1e-3
"""Largest entry of R^T R - I that rounding of printed digits explains."""

EXACT_ORTHONORMALITY = 1e-12
"""Error below which a rotation is left as it is, so that values read back unchanged."""

MAX_LAST_ROW_ERROR = 1e-6
"""Accepted error in the last row of a transform, which may have been computed."""

MAX_DISTANCE = 100.0
"""Largest distance between two sensors of a rig [m]; more means a wrong unit."""

SHOWN = 60
"""Number of characters of a wrong value to repeat in messages."""


def _rows_of(columns: int) -> BeforeValidator:
    """Rows of a flat list of numbers or of an OpenCV matrix; three rows of four are a transform
    without its last row."""

    def rows(value: Any) -> Any:
        whole = True
        if isinstance(value, dict) and {"rows", "cols", "data"} <= set(value):
            counts, value = (value["rows"], value["cols"]), value["data"]
            whole = isinstance(value, list) and counts == (len(value) // columns, columns)
        flat = isinstance(value, list) and value and not isinstance(value[0], list)
        if flat and len(value) % columns == 0:
            value = [value[i : i + columns] for i in range(0, len(value), columns)]
        if columns == 4 and whole and isinstance(value, list) and len(value) == 3:
            return [*value, [0.0, 0.0, 0.0, 1.0]]
        return value

    return BeforeValidator(rows)


Row3 = Annotated[list[float], Field(min_length=3, max_length=3)]
Row4 = Annotated[list[float], Field(min_length=4, max_length=4)]
Matrix3 = Annotated[list[Row3], Field(min_length=3, max_length=3), _rows_of(3)]
Matrix4 = Annotated[list[Row4], Field(min_length=4, max_length=4), _rows_of(4)]


class Schema(BaseModel):
    """Base of every schema: unknown keys are errors, numbers are finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class OpenSchema(Schema):
    """Schema that ignores the tool's other settings."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class CarefulSchema(OpenSchema):
    """Schema that accepts unknown keys, except likely misspellings of known ones."""


AnySchema = TypeVar("AnySchema", bound=Schema)


def load_yaml(path: Path, what: str) -> dict[str, Any]:
    """Mapping read from `path`; `what` describes the expected content."""
    return read_mapping(path, what)


def validate(schema: type[AnySchema], data: Any, path: Path, place: str = "") -> AnySchema:
    """Validate `data` against `schema`; the error has file, key, found and accepted value."""
    for name, field in schema.model_fields.items():
        require_unambiguous(data, field.alias or name, path, place)
    try:
        checked = schema.model_validate(data)
        if issubclass(schema, CarefulSchema):
            _require_no_typo(schema, data, path, place)
        return checked
    except ValidationError as error:
        first = error.errors()[0]
    parts = ((place,) if place else ()) + first["loc"]
    key = ".".join(str(part) for part in parts) or "the file"
    if first["type"] == "extra_forbidden":
        accepted = ", ".join(schema.model_fields)
        raise CalibrationError(f"{path}: unknown key '{key}'; accepted keys are {accepted}.")
    if first["type"] == "missing":
        raise CalibrationError(f"{path}: key '{key}' is missing; add it.")
    raise CalibrationError(f"{path}: key '{key}' is {shown(first['input'])}, {_needed(first)}.")


def _require_no_typo(schema: type[Schema], data: Any, path: Path, place: str) -> None:
    absent = [name for name in schema.model_fields if name not in data]
    for key in data:
        meant = get_close_matches(key, absent, n=1, cutoff=0.9)
        if key not in schema.model_fields and meant:
            name = f"{place}.{key}" if place else key
            raise CalibrationError(
                f"{path}: unknown key '{name}'; meant is probably '{meant[0]}'. Correct it."
            )


def require_unambiguous(data: Any, key: str, path: Path, place: str = "") -> None:
    """Raise if the file states a required key twice with different values."""
    if not isinstance(data, Mapping) or key not in data.ambiguous:
        return
    line = data.ambiguous[key]
    where = f"{path}, line {line}" if line else f"{path}"
    name = f"{place}.{key}" if place else key
    raise CalibrationError(f"{where}: key '{name}' occurs twice with different values; remove one.")


def shown(value: Any) -> str:
    """Wrong value, shortened for a message."""
    if isinstance(value, dict):
        return f"a group of {len(value)} keys"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def _needed(error: ErrorDetails) -> str:
    """Description of the value that is needed."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "literal_error":
        return f"needed {context['expected']}"
    if kind.startswith("greater_than"):
        limit = context.get("gt", context.get("ge"))
        return f"needed {'more than' if 'gt' in context else 'at least'} {limit:g}"
    if kind in ("too_short", "too_long"):
        length = context.get("min_length", context.get("max_length"))
        return f"needed a list of {length}"
    words = {
        "float": "a number", "finite": "a finite number", "int": "a whole number",
        "string": "text", "list": "a list", "tuple": "a list", "dict": "keys and values",
        "model": "keys and values", "bool": "true or false",
    }  # fmt: skip
    return f"needed {words.get(kind.split('_')[0], 'another kind of value')}"


def rigid_transform(rows: list[list[float]], path: Path, key: str) -> Array:
    """(4, 4) transform; its rotation is orthonormalized if only rounding requires it."""
    T = np.array(rows, dtype=np.float64)
    if not np.isfinite(T).all():
        raise CalibrationError(
            f"{path}: {key} holds or gives numbers that are not finite; copy it again."
        )
    if not np.allclose(T[3], [0.0, 0.0, 0.0, 1.0], rtol=0.0, atol=MAX_LAST_ROW_ERROR):
        raise CalibrationError(f"{path}: last row of {key} is {T[3].tolist()}, needed 0, 0, 0, 1.")
    T[3] = [0.0, 0.0, 0.0, 1.0]
    # Beyond 2 no entry is a rotation's, and its square may overflow.
    bounded = T[:3, :3].clip(-2.0, 2.0)
    error = orthonormality_error(bounded)
    if error > MAX_ORTHONORMALITY_ERROR:
        raise CalibrationError(
            f"{path}: the rotation in {key} is not orthonormal: R^T R differs from I by "
            f"{error:.3g} (determinant {determinant(bounded):.3g}), needed at most "
            f"{MAX_ORTHONORMALITY_ERROR:g}. Copy the matrix with all its digits."
        )
    distance = float(np.abs(T[:3, 3]).max())
    if distance > MAX_DISTANCE:
        raise CalibrationError(
            f"{path}: the translation in {key} is {distance:.3g} m long, needed at most "
            f"{MAX_DISTANCE:g}; sensors of one rig are close to each other. Check the unit."
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
