"""Field documentation where `help()` finds it: in the docstring of the class."""

import ast
import dataclasses
import sys
from pathlib import Path

HEADING = "Fields:"


def document_fields(module_name: str) -> None:
    """Append the text below each field of the module's dataclasses to the docstrings of these.

    Called at the end of a module. Python keeps no such text at run time, so the source is read;
    where it is not there, docstrings stay as they are.
    """
    module = sys.modules[module_name]
    try:
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    except OSError:
        return
    for node in tree.body:
        cls = getattr(module, node.name, None) if isinstance(node, ast.ClassDef) else None
        if isinstance(node, ast.ClassDef) and isinstance(cls, type) and _has_fields(cls):
            # Fields of the bases first, as the constructor takes them.
            inherited = [
                (base.__doc__ or "").partition(f"{HEADING}\n")[2] for base in cls.__bases__
            ]
            lines = "\n".join(filter(None, [*inherited, _field_lines(node)]))
            cls.__doc__ = f"{ast.get_docstring(node) or ''}\n\n{HEADING}\n{lines}"


def _has_fields(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")


def _field_lines(node: ast.ClassDef) -> str:
    """One paragraph for each annotated name: name, type, default and the text below it."""
    lines = []
    for i, statement in enumerate(node.body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        lines.append(f"    {ast.unparse(statement.target)}: {ast.unparse(statement.annotation)}")
        below = node.body[i + 1] if i + 1 < len(node.body) else None
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            text = " ".join(str(below.value.value).split())
            lines.append(f"        {text}")
    return "\n".join(lines)
