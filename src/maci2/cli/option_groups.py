"""Groups of options that a command takes as one parameter.

`spread` turns each field of such a group into an option of its own.
"""

import inspect
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from maci2.pipeline.option_list import Option, flag_of

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that each field of its groups is an option."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters = [
        parameter
        for name, own in inspect.signature(command).parameters.items()
        for parameter in (
            _parameters(hints[name]) if name in groups else [own.replace(kind=KEYWORD_ONLY)]
        )
    ]

    @wraps(command)
    def call(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
        command(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: hints.get(one.name, one.annotation) for one in parameters}
    return call


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [_parameter(one, hints[one.name]) for one in fields(group)]


def _parameter(one: Field[Any], hint: Any) -> inspect.Parameter:
    default = one.default
    if "option" in one.metadata:
        about: Option = one.metadata["option"]
        hint = Annotated[about.typed or hint, typed(about, one.name)]
        default = default if about.typed_default is None else about.typed_default
    return inspect.Parameter(one.name, KEYWORD_ONLY, default=default, annotation=hint)


def typed(about: Option, name: str) -> Any:
    """An option as the command line takes it."""
    return typer.Option(*(about.flags or (flag_of(name),)), help=about.help)


def option_of(group: type, name: str) -> Any:
    """One option of a group, for a command that takes no other of them."""
    return next(typed(f.metadata["option"], name) for f in fields(group) if f.name == name)
