"""How commands print: tables for people on a terminal, tab-separated lines in a pipe, JSON when asked for."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

__all__ = ["plain", "print_json", "print_table", "python_values", "text"]


def python_values(array: Any) -> list[Any]:
    """The values of an Arrow array; dates and times that Python has no object for as text in ISO 8601."""
    try:
        return array.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):  # a year beyond 9999 or before 1, or nanoseconds
        return [_python_value(scalar) for scalar in array]


def _python_value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        import numpy as np
        import pyarrow as pa

        kind = scalar.type
        if pa.types.is_struct(kind):
            return {name: _python_value(scalar[name]) for name in kind.names}
        if pa.types.is_nested(kind):
            entries = [_python_value(entry) for entry in scalar.values]
            return [tuple(entry.values()) for entry in entries] if pa.types.is_map(kind) else entries
        shown = str(np.datetime64(scalar.value, "D" if pa.types.is_date(kind) else kind.unit))
        return f"{shown}+00:00" if getattr(kind, "tz", None) else shown


def plain(value: Any) -> Any:
    """A value as JSON can hold it: times in ISO 8601, decimals as text, bytes in base64, NaN and infinities as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return str(value)


def print_json(value: Any) -> None:
    """One JSON document; indented on a terminal."""
    click.echo(json.dumps(plain(value), indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def text(value: Any) -> str:
    """A value in a cell; tabs and line ends are escaped so that a row stays a line."""
    if value is None:
        return ""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(plain(value), ensure_ascii=False)
    shown = plain(value)
    return str(shown).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def print_table(names: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> None:
    """A table on a terminal; otherwise a line of names and a line per row, tab-separated."""
    if not sys.stdout.isatty():
        click.echo("\t".join(names))
        for row in rows:
            click.echo("\t".join(text(value) for value in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*[Text(text(value)) for value in row])
    Console().print(table)
