"""Lists the options of a function in its signature and in its docstring. ``help`` and completion then show the options.

Type checkers get the options from a ``TypedDict`` with ``Unpack``. Without this module, ``inspect.signature`` and
``help`` show all these options as one parameter.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

__all__ = ["lists_options"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

LINE = 108
"""The most characters of a line of a text. Texts are indented by up to 12 characters."""

Option: TypeAlias = tuple[list[str], str, str]
"""An entry of the section Parameters: the names, the type with the allowed values and the default, and the text. The
lines of a text after the first are indented by four spaces."""


def lists_options(
    *options: Callable[..., Any], stay_as_they_are: bool = False, but: Collection[str] = ()
) -> Callable[[Decorated], Decorated]:
    """Returns a decorator that shows options in a function's signature in place of the ``**`` parameter. Calls of the
    function do not change. In the docstring, the options replace the entry of this parameter in the section Parameters.

    ``options``: dataclasses and functions. The fields of a dataclass and the keyword-only parameters of a function are
    listed. ``stay_as_they_are``: True if an option that is not given keeps its current value. The signature then shows
    None as the default of every option. ``but``: names to leave out of the signature.

    A class can be decorated, too. Its docstring and the signature of its ``__init__`` are changed.
    """

    def decorate(function: Decorated) -> Decorated:
        called: Any = function.__init__ if inspect.isclass(function) else function
        plain = inspect.signature(called)
        own = [one for one in plain.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        taken = {one.name for one in own} | set(but)
        more = [one for kind in options for one in _parameters(kind) if one.name not in taken]
        if stay_as_they_are:
            more = [one.replace(default=None) for one in more]
        called.__signature__ = plain.replace(parameters=[*own, *more])
        if function.__doc__ and more:  # python -OO removes docstrings
            names = {one.name for one in more}
            listed = [one for kind in options for one in _options(kind, stay_as_they_are)]
            function.__doc__ = _with_options(function.__doc__, listed, names)
        return function

    return decorate


@cache
def _parameters(options: Callable[..., Any]) -> list[inspect.Parameter]:
    if is_dataclass(options):
        return [_parameter(field) for field in fields(options)]
    every = inspect.signature(options).parameters.values()
    return [one for one in every if one.kind is inspect.Parameter.KEYWORD_ONLY]


def _parameter(field: Field[Any]) -> inspect.Parameter:
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=field.type)


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return inspect.Parameter.empty if field.default_factory is MISSING else field.default_factory()


def _with_options(docstring: str, options: Iterable[Option], names: Collection[str]) -> str:
    """The docstring with the options in place of the entry of the ``**`` parameter."""
    lines = docstring.split("\n")
    number = next((number for number, line in enumerate(lines) if "**" in line and _is_var_keyword(line)), None)
    if number is None:
        return docstring
    head = lines[number].lstrip()
    others = head.rpartition(", ")[0]
    indent = lines[number].removesuffix(head)
    end = number + 1
    while lines[end].startswith(indent + " "):
        end += 1
    listed = [indent + others, *lines[number + 1 : end]] if others else []
    for all_names, type_, text in options:
        if shown := [name for name in all_names if name in names]:
            entry = f"{', '.join(shown)} : {type_}\n    {text}"
            listed.append(indent + entry.replace("\n", f"\n{indent}"))
    lines[number:end] = listed
    return "\n".join(lines)


def _is_var_keyword(line: str) -> bool:
    """Whether a line of a docstring is ``**name`` or ``a, b, **name``."""
    last = line.lstrip().rpartition(", ")[2]
    return last.startswith("**") and last[2:].isidentifier()


@cache
def _options(options: Callable[..., Any], stay_as_they_are: bool) -> list[Option]:
    """The options that a dataclass or a function accepts, each with its name, its type and its description."""
    if not is_dataclass(options):
        defaults = {one.name: one.default for one in _parameters(options)}
        return list(_options_of_docstring(inspect.getdoc(options) or "", defaults))
    texts = _texts(options.__module__)
    made: list[Option] = []
    for field in fields(options):
        text = _summary(texts.get(field.name, ""), with_none=not stay_as_they_are)
        default = None if stay_as_they_are else _default(field)
        made.append(([field.name], _type(str(field.type), default, text), text))
    return made


@cache
def _texts(module: str) -> dict[str, str]:
    """The texts below the fields of a module's dataclasses. Python does not keep these texts, so they are read from the
    source, which takes 0.2 ms. Without the source, there are no texts."""
    loader = getattr(sys.modules[module], "__loader__", None)
    try:
        source = loader.get_source(module) if loader is not None else None
    except (OSError, ImportError, AttributeError):
        source = None
    texts = {}
    # Regular expressions would be shorter, but compiling them takes longer than everything else in this module.
    for before, after in pairwise((source or "").split('\n    """')):
        name, colon, _ = before[before.rfind("\n") + 1 :].partition(": ")
        if colon and name.strip().isidentifier():
            texts[name.strip()] = after.partition('"""')[0]
    return texts


def _options_of_docstring(docstring: str, defaults: dict[str, Any]) -> Iterator[Option]:
    """The entries of the section Parameters. An entry gets the default, which the docstring leaves out."""
    section = docstring.partition("\nParameters\n----------\n")[2].partition("\n\n")[0]
    head, texts = "", [""]
    for line in [*section.split("\n"), ""]:
        if line.startswith(" "):
            texts.append(line.strip())
            continue
        if head:
            names, _, type_ = head.partition(" : ")
            every, text = names.split(", "), "\n    ".join(texts)
            default = defaults.get(every[0])
            if default not in (None, inspect.Parameter.empty) and ", default " not in type_:
                type_ = f"{type_}, default {_shown(default, text)}"
            yield every, type_, _summary(text)
        head, texts = line, []


def _summary(text: str, *, with_none: bool = True) -> str:
    """The first sentence of a text, and the sentences that say what None means."""
    first, *more = text.replace(".\n    ", ". ").removesuffix(".").split(". ")
    meaning = [one for one in more if with_none and one.startswith("None")]
    if meaning:
        return _filled(". ".join([first, *meaning]) + ".")
    return f"{first}." if first else ""


def _filled(text: str) -> str:
    """The text in lines that are not too long. ``textwrap`` is not used, because it would take as long as everything
    else in this module."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= LINE:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n    ".join(lines)


def _type(annotation: str, default: Any, text: str) -> str:
    """A type in the notation of numpydoc."""
    before, literal, after = annotation.replace("'", '"').partition("Literal[")
    if literal:
        values, _, after = after.partition("]")
        before = f"{before}{{{values}}}{after}"
    shown = ""
    for part in before.split(" | "):
        inside = shown.count("[") > shown.count("]")
        shown += (" | " if inside else " or ") + part if shown else part
    if default is None:
        return f"{shown.removesuffix(' or None')}, optional"
    return f"{shown}, default {_shown(default, text)}"


def _shown(default: Any, text: str) -> str:
    if isinstance(default, str):
        return f'"{default}"'
    if type(default) is int and default >= 1024 and default % 1024 == 0 and "bytes" in text:
        return f"{default} ({default >> 20} MiB)" if default % (1 << 20) == 0 else f"{default} ({default >> 10} KiB)"
    return repr(default)
