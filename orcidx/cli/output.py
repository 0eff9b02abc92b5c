"""Output of the commands: tables on a terminal, tab-separated lines in a pipe, and JSON with --json."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from orcidx.cli.terminal_table import draw_table

if TYPE_CHECKING:
    from pathlib import Path

    from orcidx.explain.explanation import Explanation
    from orcidx.storage import Source

__all__ = [
    "TAB_ESCAPES",
    "FileTables",
    "plain",
    "print_explanation",
    "print_json",
    "print_table",
    "text",
]

TAB_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
"""The characters that are escaped in a cell, with what is written instead."""
_MIDDLE_WIDTH = 40
"""The maximum width of a cell in characters. It limits the widths from which the columns that fit side by side are
chosen. A longer cell is folded into several lines."""


def plain(value: object) -> object:
    """Returns a value in a form that JSON can represent: times in ISO 8601, decimals as text, bytes in base64, NaN and
    infinities as text."""
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


def print_json(value: object, *, on_one_line: bool = False) -> None:
    """Prints one JSON document. It is indented on a terminal, unless it must be ``on_one_line``."""
    indent = 2 if sys.stdout.isatty() and not on_one_line else None
    click.echo(json.dumps(plain(value), indent=indent, ensure_ascii=False))


def print_explanation(
    explanation: Explanation, html: Path | None, *, made_of: Sequence[Source] = (), as_json: bool
) -> None:
    """Prints an explanation as text or JSON, or writes it as a page to the file ``html``. The file ``html`` must not be
    one of the files in ``made_of``."""
    if html is not None:
        from orcidx.storage.sink import write_file

        write_file(html, explanation.to_html().encode(), made_of=made_of)
    if as_json:
        print_json(explanation.to_dict())
    else:
        click.echo(str(explanation))


def text(value: object) -> str:
    """A value as the text of a cell. Tabs and line ends are escaped, so a row stays on one line."""
    if value is None:
        return ""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(plain(value), ensure_ascii=False)
    shown = str(plain(value))
    for mark, written in TAB_ESCAPES:
        shown = shown.replace(mark, written)
    return shown


def print_table(
    names: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None, elide: bool = False
) -> None:
    """Prints a table if the output is a terminal. Otherwise prints a line of names and a line for each row, with tabs
    between the values.

    With ``elide``, only the first and last columns are printed if the table is too wide for the terminal. The number of
    omitted columns is printed, too.
    """
    if not sys.stdout.isatty():
        click.echo("\t".join(names))
        for row in rows:
            click.echo("\t".join(text(value) for value in row))
        return
    cells = [[text(value) for value in row] for row in rows]
    shown = _fitting(names, cells, shutil.get_terminal_size().columns) if elide else list(range(len(names)))
    left_out = len(names) - len(shown)
    heading, lines = [names[column] for column in shown], [[row[column] for column in shown] for row in cells]
    gap = (len(shown) + 1) // 2 if left_out else None
    if gap is not None:
        heading.insert(gap, f"… {left_out} more …")
        for line in lines:
            line.insert(gap, "…")
    draw_table(heading, lines, title=title, gap=gap)
    if left_out:
        click.echo(f"{left_out} of {len(names)} columns are not shown; choose columns with -c A,B", err=True)


def _fitting(names: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Chooses the columns that fit side by side. Columns are taken alternately from the start and from the end."""
    widths = [
        min(_MIDDLE_WIDTH, max(len(name), *(len(row[column]) for row in cells), 1)) + 3
        for column, name in enumerate(names)
    ]
    if sum(widths) + 1 <= width:
        return list(range(len(names)))
    room = width - 1 - len(f"… {len(names)} more …") - 3
    first, last = 0, len(names)
    while first < last:
        column = first if first <= len(names) - last else last - 1
        room -= widths[column]
        if room < 0:
            break
        first, last = (first + 1, last) if column == first else (first, last - 1)
    first = max(first, 1)
    return [*range(first), *range(max(last, first), len(names))]


class FileTables:
    """Prints tables of several files. On a terminal each file has its own table, under the file's name. Otherwise there
    is one table with the file's name in each row. For a single file only its table is printed. With ``as_json`` each
    file has a JSON document, which is on one line if there are several files."""

    def __init__(self, files: int, *, as_json: bool = False) -> None:
        self._several = files > 1
        self._as_json = as_json
        self._headed: list[str] | None = None

    def show(self, file: str, names: Sequence[str], rows: Iterable[Sequence[Any]], document: object) -> None:
        """Prints the table of one file, or its JSON document."""
        if self._as_json:
            print_json(document, on_one_line=self._several)
        elif not self._several or sys.stdout.isatty():
            print_table(names, rows, title=file if self._several else None)
        else:
            heading = ["file", *names]
            if heading != self._headed:
                self._headed = heading
                click.echo("\t".join(heading))
            for row in rows:
                click.echo("\t".join(text(value) for value in (file, *row)))
