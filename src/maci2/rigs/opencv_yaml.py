"""YAML as OpenCV's FileStorage writes it: `%YAML:1.0` first, matrices under their own tag.

Numbers are written with all their digits, so that reading gives back what was written.
"""

from typing import Any

import yaml

from maci2.rigs.yaml_text import OPENCV_TAG
from maci2.types import Array


class _Matrix:
    """(4, 4) matrix to write; `dt` is f if the tool reads floats, otherwise d."""

    def __init__(self, T: Array, dt: str) -> None:
        self.T, self.dt = T, dt


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Dumper that indents lists, as OpenCV requires."""
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        """Aliases are never written, since OpenCV does not support them."""
        return True


def _represent(dumper: yaml.SafeDumper, matrix: _Matrix) -> yaml.Node:
    entries = {"rows": 4, "cols": 4, "dt": matrix.dt, "data": matrix.T.ravel().tolist()}
    return dumper.represent_mapping(OPENCV_TAG + "matrix", entries.items())


def _represent_list(dumper: yaml.SafeDumper, values: list[Any]) -> yaml.Node:
    """Numbers on one line; matrices with one row per line."""
    nested = any(isinstance(value, list) for value in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=not nested)


_Dumper.add_representer(_Matrix, _represent)
_Dumper.add_representer(list, _represent_list)


def opencv_matrix(T: Array, dt: str = "d") -> Any:
    """Transform as a value to write."""
    return _Matrix(T, dt)


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
