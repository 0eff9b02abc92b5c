"""Checks the numbers and names that a caller gives, before anything is opened. Each error says what to do."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from orcidx.errors import InvalidQuery
from orcidx.planner.schema_mapping import column_path

__all__ = ["asked_columns", "asked_limit", "asked_name", "asked_row_range", "asked_stripes"]

NO_LIMIT = (1 << 63) - 1
"""A number of rows that no file can have. A larger limit has no effect."""


def _whole(value: Any, what: str) -> int:
    """Returns a whole number of Python or NumPy as an int. Raises ``InvalidQuery`` for a bool and for other values."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidQuery(f"{what} is {value!r} of type {type(value).__name__}; give a whole number")
    return operator.index(value)


def asked_limit(limit: object, what: str = "limit") -> int:
    """Checks and returns a maximum number of rows, which may be arbitrarily large. Raises ``InvalidQuery`` for a
    negative number, and for other values."""
    rows = _whole(limit, what)
    if rows < 0:
        raise InvalidQuery(f"{what} must not be negative, but is {rows}; give 0 or a larger number")
    return min(rows, NO_LIMIT)


def asked_row_range(rows: object) -> tuple[int, int]:
    """Checks and returns the pair (start, stop) of row numbers of the file. ``stop`` may be after the last row. Raises
    ``InvalidQuery`` for other values."""
    if isinstance(rows, str) or not isinstance(rows, Sequence) or len(rows) != 2:
        raise InvalidQuery(f"row_range must be (start, stop), two row numbers of the file, but is {rows!r}")
    start, stop = (_whole(row, f"row_range[{place}]") for place, row in enumerate(rows))
    if start < 0 or stop < 0:
        raise InvalidQuery(
            f"row_range is ({start}, {stop}), but rows are numbered from 0; use num_rows to count from the end"
        )
    if stop < start:
        raise InvalidQuery(f"row_range is ({start}, {stop}), which ends before it begins; give (start, stop)")
    return min(start, NO_LIMIT), min(stop, NO_LIMIT)


def asked_stripes(stripes: Iterable[Any], count: int) -> tuple[int, ...]:
    """Checks and returns numbers of stripes. Raises ``InvalidQuery`` for a stripe that the file does not have."""
    if isinstance(stripes, str) or not isinstance(stripes, Iterable):
        raise InvalidQuery(f"stripes must be a list of stripe numbers, but is {stripes!r}")
    numbers = tuple(_whole(number, "a number in stripes") for number in stripes)
    for number in numbers:
        if not 0 <= number < count:
            raise InvalidQuery(f"there is no stripe {number}: the file has {count} stripes, numbered from 0")
    return numbers


def asked_name(given: object, usual: str, what: str) -> str | None:
    """The name of an added column. If the caller gives True, the usual name is returned. If the caller gives False or
    None, no column is added."""
    if not isinstance(given, bool | str | None):
        raise InvalidQuery(f"{what} is {given!r} of type {type(given).__name__}; give True, or a name for the column")
    return usual if given is True else (given or None)


def asked_columns(columns: object, *, case_sensitive: bool = True) -> tuple[str | tuple[str, ...], ...] | None:
    """Checks and returns columns. Each item of ``columns`` is a name, a dotted path, or a path as a sequence of names.
    None means all columns. Raises ``InvalidQuery`` for other values, and for a column that is named twice. Two columns
    with the same name could not be distinguished."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise InvalidQuery(f"columns must be a list; give [{columns!r}]")
    if not isinstance(columns, Iterable):
        raise InvalidQuery(f"columns is {columns!r} of type {type(columns).__name__}; give a list of names")
    chosen: list[str | tuple[str, ...]] = []
    seen: set[tuple[str, ...]] = set()
    for column in columns:
        key = column_path(column)
        folded = key if case_sensitive else tuple(name.casefold() for name in key)
        if folded in seen:
            raise InvalidQuery(f"columns contains {'.'.join(key)!r} twice; leave one of them out", column=".".join(key))
        seen.add(folded)
        chosen.append(column if isinstance(column, str) else key)
    return tuple(chosen)
