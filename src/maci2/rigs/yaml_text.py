"""Text of calibration files, YAML or JSON, read into keys and values within fixed limits.

A calibration is small and flat. Size, depth and the number of values after all references are
resolved are bounded, so that no file can hang or exhaust the process.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from maci2.errors import CalibrationError
from maci2.files.reading import UTF_16_MARKS, decode_text, read_bytes

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
        """Key and the line, counted from 1, of its second value."""


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
        if key in mapping and mapping[key] != value:
            mapping.ambiguous[key] = key_node.start_mark.line + 1
        mapping[key] = value
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


def read_mapping(path: Path, what: str) -> Mapping:
    """Keys and values of `path`; `what` describes the expected content."""
    text = read_text(path, what)
    data = _json(text, path) if text.lstrip()[:1] in ("{", "[") else None
    if data is None:
        data = _yaml(text, path)
    if not isinstance(data, Mapping):
        kind = "nothing" if data is None else f"a {_kind(data)}"
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
    try:
        data = json.loads(text, object_pairs_hook=_json_mapping, parse_int=_json_int)
    except RecursionError as error:
        raise _too_deep(path) from error
    except ValueError:
        return None
    layer = [data]
    for _ in range(MAX_DEPTH + 1):
        children = (list(v.values()) if isinstance(v, dict) else v for v in layer)
        layer = [child for group in children if isinstance(group, list) for child in group]
    if layer:
        raise _too_deep(path)
    return data


def _json_int(text: str) -> int:
    value = int(text)
    if abs(value) > MAX_WHOLE:
        raise ValueError(f"a whole number of {len(text)} digits")
    return value


def _json_mapping(pairs: list[tuple[str, Any]]) -> Mapping:
    mapping = Mapping()
    for key, value in pairs:
        if key in mapping and mapping[key] != value:
            mapping.ambiguous[key] = 0
        mapping[key] = value
    return mapping


def _too_deep(path: Path) -> CalibrationError:
    return CalibrationError(
        f"{path}: values are nested deeper than {MAX_DEPTH}, which no calibration is; check the "
        "path."
    )


def _kind(data: Any) -> str:
    names = {list: "list", str: "text", bool: "switch", int: "number", float: "number"}
    return names.get(type(data), type(data).__name__)
