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
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        cls = getattr(module, node.name, None) if isinstance(node, ast.ClassDef) else None
        if isinstance(node, ast.ClassDef) and isinstance(cls, type) and _has_fields(cls):
            cls.__doc__ = (
                f"{ast.get_docstring(node) or ''}\n\n{HEADING}\n{_all_field_lines(node, classes)}"
            )


def _has_fields(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")


def _all_field_lines(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> str:
    """Fields of the bases in the same module first, as the constructor takes them."""
    names = [base.id for base in node.bases if isinstance(base, ast.Name)]
    bases = [classes[name] for name in names if name in classes]
    parts = [*(_all_field_lines(base, classes) for base in bases), _field_lines(node)]
    return "\n".join(part for part in parts if part)


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
