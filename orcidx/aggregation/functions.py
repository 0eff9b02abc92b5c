"""The functions of an aggregation, and the types of their results.

An aggregate is given as text, such as ``"sum(price)"``. The result types are fixed. Counts are int64, sums of integers
are decimal128(38, 0), sums of decimals are decimal128(38, s), and sums of floats and averages are double. Minima,
maxima and quantiles have the type of the column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.spellings import nearest

__all__ = ["Aggregate", "Function", "has_order", "parse_aggregates", "parse_groups", "result_type"]

Function = Literal["count", "sum", "min", "max", "avg", "quantile_disc"]

_FUNCTIONS: tuple[str, ...] = get_args(Function)
_CALL = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*)\s*\((.*)\)\s*", re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"]|"")+"|`(?:[^`]|``)+`')
_SHARE = re.compile(r"(.*),\s*([0-9]*\.?[0-9]+|[0-9]+\.)\s*", re.DOTALL)
_QUANTILES = ("median", "quantile", "percentile", "percentile_disc", "quantile_cont", "approx_quantile")
_PLAIN = re.compile(r'[^"`(),*\s](?:[^"`(),*]*[^"`(),*\s])?')

_MIDDLE = '"quantile_disc(price, 0.5)"'
LARGEST_PRECISION = 38
"""Largest number of digits of a sum."""


@dataclass(frozen=True)
class Aggregate:
    """One column of the result. ``column``: a column name as in predicates, or None for ``count(*)``. ``share``: a
    number from 0 to 1, for a quantile."""

    name: str
    function: Function
    column: str | None
    share: Fraction | None = None

    def __str__(self) -> str:
        share = "" if self.share is None else f", {float(self.share):g}"
        return f"{self.function}({'*' if self.column is None else self.column}{share})"


def parse_aggregates(given: Mapping[str, str]) -> tuple[Aggregate, ...]:
    """Parses aggregates such as ``{"n": "count(*)", "total": "sum(price)"}``. Raises ``InvalidQuery`` for anything
    else."""
    if not isinstance(given, Mapping):
        raise InvalidQuery(f'the aggregates are {given!r:.100}: give a dictionary such as {{"n": "count(*)"}}')
    if not given:
        raise InvalidQuery('no aggregate is given: give a dictionary such as {"n": "count(*)"}')
    return tuple(_parsed(name, text) for name, text in given.items())


def _parsed(name: object, text: object) -> Aggregate:
    if not isinstance(name, str) or not isinstance(text, str):
        shown = f"{name!r:.60}: {text!r:.60}"
        raise InvalidQuery(
            f'{shown} is not an aggregate: the name and the function must be text, as in {{"total": "sum(price)"}}'
        )
    call = _CALL.fullmatch(text)
    if call is None:
        raise InvalidQuery(
            f'{text!r:.100} is not an aggregate: write "count(*)", or a function of a column, such as "sum(price)"'
        )
    function, column = call[1].lower(), call[2].strip()
    if function in _QUANTILES:
        raise InvalidQuery(f"unknown function {call[1]!r}: use {_MIDDLE}, which returns one of the column's values")
    if function not in _FUNCTIONS:
        near = nearest({"mean": "avg", "average": "avg"}.get(function, function), _FUNCTIONS)
        hint = f"; did you mean {near!r}?" if near else ""
        raise InvalidQuery(f"unknown function {call[1]!r}: the functions are {', '.join(_FUNCTIONS)}{hint}")
    if column == "*":
        if function != "count":
            raise InvalidQuery(f"{function}(*) is not supported: give the name of a column instead of *")
        return Aggregate(name, "count", None)
    known: Function = function  # type: ignore[assignment]
    if known == "quantile_disc":
        return _quantile(name, column, text)
    return Aggregate(name, known, _column(column, text))


def _quantile(name: str, arguments: str, text: str) -> Aggregate:
    parts = _SHARE.fullmatch(arguments)
    if parts is None or Fraction(parts[2]) > 1:
        raise InvalidQuery(f"{text!r:.100} is not an aggregate: give a column and a share from 0 to 1, as in {_MIDDLE}")
    return Aggregate(name, "quantile_disc", _column(parts[1].strip(), text), Fraction(parts[2]))


def _column(text: str, whole: str) -> str:
    if _QUOTED.fullmatch(text):
        return text[1:-1].replace(text[0] * 2, text[0])
    if not _PLAIN.fullmatch(text):
        raise InvalidQuery(
            f"{whole!r:.100} is not an aggregate: a function takes one column. "
            'Put a name with special characters in double quotes, such as "a b"'
        )
    return text


def parse_groups(by: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns to group by. If there are none, all rows are one group. Raises ``InvalidQuery`` if a name is not
    text."""
    if by is None:
        return ()
    names = (by,) if isinstance(by, str) else tuple(by)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise InvalidQuery(f"by= contains {wrong[0]!r:.100}, of type {type(wrong[0]).__name__}: give names of columns")
    return names


def has_order(kind: pa.DataType) -> bool:
    """Whether values of the type have a minimum, and can be distinguished as groups."""
    if pa.types.is_decimal(kind):
        return bool(kind.bit_width <= 128)
    return not (
        pa.types.is_nested(kind)
        or pa.types.is_null(kind)
        or pa.types.is_dictionary(kind)
        or isinstance(kind, pa.BaseExtensionType)
    )


def result_type(aggregate: Aggregate, kind: pa.DataType | None) -> pa.DataType:
    """The type of the result for a column of this type. ``kind`` is None for ``count(*)``. Raises ``InvalidQuery`` if
    the function does not support the type."""
    function = aggregate.function
    if function == "count" or kind is None:
        return pa.int64()
    if function in ("min", "max", "quantile_disc"):
        if not has_order(kind):
            raise InvalidQuery(f"{aggregate}: values of type {kind} cannot be ordered", column=aggregate.column)
        return kind
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_integer(kind):
        exact: pa.DataType = pa.decimal128(LARGEST_PRECISION, 0)
    elif pa.types.is_decimal(kind) and kind.bit_width <= 128:
        exact = pa.decimal128(LARGEST_PRECISION, kind.scale)
    else:
        raise InvalidQuery(
            f"{aggregate}: the column has type {kind}, but only numbers can be added", column=aggregate.column
        )
    return pa.float64() if function == "avg" else exact
