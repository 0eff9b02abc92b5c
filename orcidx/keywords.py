"""Lists the options of a function in its signature. ``help`` and completion then show the options.

Type checkers get the options from a ``TypedDict`` with ``Unpack``. Without this module, ``inspect.signature`` shows all
these options as one parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, TypeVar

__all__ = ["lists_options"]

Function = TypeVar("Function", bound=Callable[..., Any])


def lists_options(
    *options: Callable[..., Any], stay_as_they_are: bool = False, but: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Returns a decorator that shows options in a function's signature in place of the ``**`` parameter. Calls of the
    function do not change.

    ``options``: dataclasses and functions. The fields of a dataclass and the keyword-only parameters of a function are
    listed. ``stay_as_they_are``: True if an option that is not given keeps its current value. The signature then shows
    None as the default of every option. ``but``: names to leave out of the signature.
    """

    def decorate(function: Function) -> Function:
        plain = inspect.signature(function)
        own = [one for one in plain.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        taken = {one.name for one in own} | set(but)
        more = [one for kind in options for one in _parameters(kind) if one.name not in taken]
        if stay_as_they_are:
            more = [one.replace(default=None) for one in more]
        function.__signature__ = plain.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    return decorate


def _parameters(options: Callable[..., Any]) -> list[inspect.Parameter]:
    if is_dataclass(options):
        return [_parameter(field) for field in fields(options)]
    every = inspect.signature(options).parameters.values()
    return [one for one in every if one.kind is inspect.Parameter.KEYWORD_ONLY]


def _parameter(field: Field[Any]) -> inspect.Parameter:
    default = field.default
    if default is MISSING:
        default = inspect.Parameter.empty if field.default_factory is MISSING else field.default_factory()
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type)
