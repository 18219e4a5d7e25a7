"""Calls whose keyword arguments are the options of a command."""

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints

from maci2.boundary import as_path
from maci2.pipeline.option_list import Opening
from maci2.pipeline.options import checked_values

P = ParamSpec("P")
Options = TypeVar("Options", bound=Opening)
Result = TypeVar("Result")

PATH = "path: folder or bag of a recording."


def takes_options(
    group: Callable[P, Options],
) -> Callable[[Callable[[Path, Options], Result]], Callable[Concatenate[str | Path, P], Result]]:
    """Decorate a function of a path and a group of options: each option is a keyword argument, with
    its help in the docstring."""

    def decorate(
        function: Callable[[Path, Options], Result],
    ) -> Callable[Concatenate[str | Path, P], Result]:
        @wraps(function)
        def call(path: str | Path, *args: P.args, **choices: P.kwargs) -> Result:
            signature.bind(path, *args, **choices)
            options = group(*args, **choices)
            return function(as_path(path, "path"), replace(options, **checked_values(options)))

        signature = _signature(function, group)
        hints = {name: one.annotation for name, one in signature.parameters.items()}
        call.__annotations__ = hints | {"return": get_type_hints(function)["return"]}
        call.__doc__ = _with_arguments(inspect.getdoc(function) or "", group)
        call.__signature__ = signature  # type: ignore[attr-defined]
        del call.__wrapped__
        return call

    return decorate


def _signature(function: Callable[..., Any], group: Any) -> inspect.Signature:
    hints, kinds = get_type_hints(group), inspect.Parameter
    path = kinds("path", kinds.POSITIONAL_OR_KEYWORD, annotation=str | Path)
    options = (
        kinds(one.name, kinds.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(group)
    )
    return inspect.Signature([path, *options], return_annotation=get_type_hints(function)["return"])


def _with_arguments(text: str, group: Any) -> str:
    """A docstring with the section of arguments before that of what is returned."""
    lines = [PATH, *(f"{one.name}: {one.metadata['option'].help}." for one in fields(group))]
    arguments = "Args:\n" + "\n".join(f"    {line}" for line in lines)
    return text.replace("Returns:\n", f"{arguments}\n\nReturns:\n", 1)
