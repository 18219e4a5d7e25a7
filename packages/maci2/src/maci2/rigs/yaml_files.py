"""Calibration files in YAML or JSON: read within limits, checked against a schema, and written.

A calibration is small and flat. Size, depth and the number of values after all references are
resolved are bounded, so that no file can hang or exhaust the process. Messages name file, key,
value found and value needed. What is written is YAML as OpenCV's FileStorage takes it: `%YAML:1.0`
first, matrices under their own tag, all digits of every number.
"""

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import yaml
from numpy.typing import ArrayLike
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from maci2.errors import CalibrationError
from maci2.files.reading import UTF_16_MARKS, decode_text, read_bytes
from maci2.geometry import se3
from maci2.geometry.se3 import determinant, nearest_rotation, orthonormality_error
from maci2.types import Array

MAX_YAML_BYTES = 1_000_000
"""Largest file; the parser needs seconds per megabyte."""

MAX_JSON_BYTES = 5_000_000
"""Largest JSON file; Basalt stores vignette splines in its calibration."""

MAX_DEPTH = 40
"""Deepest nesting of lists and mappings."""

MAX_VALUES = 200_000
"""Largest number of values after all aliases (`*name`) are resolved."""

MAX_WHOLE = 10**30
"""Largest whole number: longer ones overflow where they become floats."""

OPENCV_TAG = "tag:yaml.org,2002:opencv-"
"""Prefix of OpenCV's tags, such as `!!opencv-matrix`."""

PYTHON_TAG = "tag:yaml.org,2002:python/"
"""Prefix of the tags of Python's own types, such as `!!python/tuple`."""

_DIRECTIVE = re.compile(r"^%.*$", re.MULTILINE)
_KEY_WITHOUT_SPACE = re.compile(r"^(\s*(?:- )?[A-Za-z_][\w.\-/]*):(?=[^\s:/])", re.MULTILINE)
_RESERVED = re.compile(r"^(\s*[\w.\-]+:\s+)([@%`][^#\n]*)", re.MULTILINE)
_QUOTED = re.compile(r'"[^"\n]*"')
_FLOAT = re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")


class Mapping(dict[str, Any]):
    """Keys and values of a file, with the keys that it states twice with different values."""

    def __init__(self) -> None:
        super().__init__()
        self.ambiguous: dict[str, int] = {}
        """Key and the line, counted from 1, of its second value; 0 if the line is not known."""

    def add(self, key: str, value: Any, line: int = 0) -> None:
        """Set a key, and note it if it has another value already."""
        if key in self and self[key] != value:
            self.ambiguous[key] = line
        self[key] = value


class _Loader(yaml.SafeLoader):
    """Safe YAML with OpenCV's matrices, bounded in depth and in the number of values."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._values = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose one node and count its values."""
        event = self.peek_event()
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.events.AliasEvent):
            if anchor in self.anchors and anchor not in self._sizes:
                raise _limit(event, f"reference '*{anchor}' stands inside what it refers to")
            self._values += self._sizes.get(str(anchor), 0)
        self._depth, self._values = self._depth + 1, self._values + 1
        if self._depth > MAX_DEPTH:
            raise _limit(event, f"values are nested deeper than {MAX_DEPTH}")
        if self._values > MAX_VALUES:
            raise _limit(event, f"more than {MAX_VALUES} values")
        before = self._values
        node = super().compose_node(parent, index)
        self._depth -= 1
        if anchor is not None and not isinstance(event, yaml.events.AliasEvent):
            self._sizes[anchor] = self._values - before + 1
        return node


def _limit(event: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> Mapping:
    loader.flatten_mapping(node)
    mapping = Mapping()
    for key_node, value_node in node.value:
        key = str(loader.construct_object(key_node, deep=True))
        value = loader.construct_object(value_node, deep=True)
        mapping.add(key, value, key_node.start_mark.line + 1)
    return mapping


def _construct_opencv(loader: _Loader, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _construct_mapping(loader, node)
    return loader.construct_sequence(node, deep=True)  # type: ignore[arg-type]


def _construct_python(loader: _Loader, suffix: str, node: yaml.Node) -> Any:
    """Tuples and strings as Python 2 wrote them; no code is run."""
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    if isinstance(node, yaml.ScalarNode):
        return str(loader.construct_scalar(node))
    problem = f"a Python object ({suffix[:40]}), which no calibration needs"
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    value = loader.construct_yaml_int(node)
    if abs(value) > MAX_WHOLE:
        problem = f"a whole number of {len(str(node.value))} digits"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    return int(value)


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_multi_constructor(OPENCV_TAG, _construct_opencv)
_Loader.add_multi_constructor(PYTHON_TAG, _construct_python)
# Dates of file names such as 2016-10-22 stay text, and 1e-3 is a number as it is for OpenCV.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith("timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


def load_yaml(path: Path, what: str) -> Mapping:
    """Keys and values of `path`; `what` describes the expected content."""
    text = read_text(path, what)
    data = _json(text, path) if text.lstrip()[:1] in ("{", "[") else None
    if data is None:
        data = _yaml(text, path)
    if not isinstance(data, Mapping):
        names = {list: "list", str: "text", bool: "switch", int: "number", float: "number"}
        kind = "nothing" if data is None else f"a {names.get(type(data), type(data).__name__)}"
        raise CalibrationError(f"{path}: holds {kind}, needed keys and values: {what}.")
    return data


def read_text(path: Path, what: str) -> str:
    """Text of a calibration file; bytes that are not UTF-8 are accepted in comments only."""
    content = read_bytes(path, what, MAX_JSON_BYTES, CalibrationError)
    if content[:2] not in UTF_16_MARKS:
        content = b"\n".join(_readable_comment(line) for line in content.split(b"\n"))
    return decode_text(content, str(path), CalibrationError)


def _readable_comment(line: bytes) -> bytes:
    """Line with its comment decoded as UTF-8; comments may be in any encoding."""
    value, mark, comment = line.partition(b"#")
    if not mark or comment.isascii():
        return line
    return value + mark + comment.decode("utf-8", errors="replace").encode()


def _yaml(text: str, path: Path) -> Any:
    """First document of a YAML text, as OpenCV's FileStorage would accept it as well."""
    if len(text) > MAX_YAML_BYTES:
        raise CalibrationError(
            f"{path}: is a YAML file of {len(text) / 1e6:.1f} MB, needed at most "
            f"{MAX_YAML_BYTES / 1e6:g}; check the path."
        )
    opencv = text.lstrip().startswith("%YAML:")
    # OpenCV's first line %YAML:1.0 is not legal YAML; blanked, so that line numbers stay true.
    text = _DIRECTIVE.sub("", text)
    tidied = _tidied(text)
    try:
        return _first_document(tidied if opencv else text)
    except (yaml.YAMLError, ValueError):
        pass
    try:
        return _first_document(text if opencv else tidied)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise CalibrationError(
            f"{path}, line {line}: not a YAML file: {error.problem or error.context}; correct that "
            "line."
        ) from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        problem = " ".join(str(error).split())[:120]
        raise CalibrationError(f"{path}: not a YAML file: {problem}; check the path.") from error


def _tidied(text: str) -> str:
    """Convert what OpenCV accepts and YAML does not: `key:value`, tabs, values that begin with a
    reserved character, and backslashes of Windows paths."""
    text = _KEY_WITHOUT_SPACE.sub(r"\1: ", text.replace("\t", "    "))
    text = _RESERVED.sub(r"\1'\2'", text)
    return _QUOTED.sub(lambda quoted: quoted[0].replace("\\", "\\\\"), text)


def _first_document(text: str) -> Any:
    loader = _Loader(text)
    try:
        while loader.check_data():
            data = loader.get_data()
            if data is not None:
                return data
        return None
    finally:
        loader.dispose()


def _json(text: str, path: Path) -> Any:
    """Value of a JSON text; None if it is not JSON, since YAML may begin alike."""
    too_deep = (
        f"{path}: values are nested deeper than {MAX_DEPTH}, which no calibration is; check the "
        "path."
    )
    try:
        data = json.loads(text, object_pairs_hook=_json_mapping, parse_int=_json_int)
    except RecursionError as error:
        raise CalibrationError(too_deep) from error
    except ValueError:
        return None
    layer = [data]
    for _ in range(MAX_DEPTH + 1):
        children = (list(v.values()) if isinstance(v, dict) else v for v in layer)
        layer = [child for group in children if isinstance(group, list) for child in group]
    if layer:
        raise CalibrationError(too_deep)
    return data


def _json_int(text: str) -> int:
    value = int(text)
    if abs(value) > MAX_WHOLE:
        raise ValueError(f"a whole number of {len(text)} digits")
    return value


def _json_mapping(pairs: list[tuple[str, Any]]) -> Mapping:
    mapping = Mapping()
    for key, value in pairs:
        mapping.add(key, value)
    return mapping


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


def rigid_transform(rows: ArrayLike, path: Path, key: str) -> Array:
    """(4, 4) transform from its rows, with or without the last one; its rotation is orthonormalized
    if only rounding requires it."""
    T = np.array(rows, dtype=np.float64)
    T = np.vstack([T, [0.0, 0.0, 0.0, 1.0]]) if len(T) == 3 else T
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


def rotation(rows: ArrayLike, path: Path, key: str) -> Array:
    """(3, 3) rotation, checked as that of `rigid_transform`."""
    return rigid_transform(np.hstack([rows, np.zeros((3, 1))]), path, key)[:3, :3]


def require_identity(rows: ArrayLike, path: Path, key: str, why: str) -> None:
    """Raise unless the matrix is the identity to 1e-6."""
    M = np.array(rows, dtype=np.float64)
    off = float(np.abs(M - np.eye(len(M))).max())
    if off > 1e-6:
        raise CalibrationError(
            f"{path}: {key} differs from the identity by {off:.3g}, needed 0 (at most 1e-6); {why}"
        )


@dataclass(frozen=True)
class OpencvMatrix:
    """(4, 4) matrix to write; `dt` is f if the tool reads floats, otherwise d."""

    T: Array
    dt: str = "d"


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Dumper that indents lists, as OpenCV requires."""
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        """Aliases are never written, since OpenCV does not support them."""
        return True


def _represent(dumper: yaml.SafeDumper, matrix: OpencvMatrix) -> yaml.Node:
    entries = {"rows": 4, "cols": 4, "dt": matrix.dt, "data": matrix.T.ravel().tolist()}
    return dumper.represent_mapping(OPENCV_TAG + "matrix", entries.items())


def _represent_list(dumper: yaml.SafeDumper, values: list[Any]) -> yaml.Node:
    """Numbers on one line; matrices with one row per line."""
    nested = any(isinstance(value, list) for value in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=not nested)


_Dumper.add_representer(OpencvMatrix, _represent)
_Dumper.add_representer(list, _represent_list)


def opencv_yaml(data: dict[str, Any], comments: tuple[str, ...]) -> str:
    """Text of keys and values below `comments`; a key that begins with # is a comment."""
    lines = ["%YAML:1.0", "---", *(f"# {line}" for line in comments), ""]
    for key, value in data.items():
        if key.startswith("#"):
            lines.append(f"# {value}")
            continue
        text = yaml.dump(
            {key: value}, Dumper=_Dumper, default_flow_style=False, sort_keys=False, width=10_000
        )
        lines.append(text.rstrip("\n"))
    return "\n".join(lines) + "\n"
