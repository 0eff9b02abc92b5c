"""Draws tables on a terminal. If rich is installed, the tables are drawn with lines. Otherwise the columns are only
separated by spaces."""

from __future__ import annotations

from collections.abc import Sequence

import click

from orcidx.extras import installed

__all__ = ["draw_table"]


def draw_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None, gap: int | None = None
) -> None:
    """Draws a table. ``gap`` is the position of the column that is drawn in place of the omitted columns."""
    (_with_lines if installed("rich") else _in_columns)(names, rows, title, gap)


def _with_lines(names: Sequence[str], rows: Sequence[Sequence[str]], title: str | None, gap: int | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    styles = ["dim" if column == gap else "" for column in range(len(names))]
    table = Table(title=title, title_justify="left")
    for column, name in enumerate(names):
        table.add_column(Text(name, style=styles[column]), no_wrap=column == gap, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row, styles))
    Console().print(table)


def _in_columns(names: Sequence[str], rows: Sequence[Sequence[str]], title: str | None, gap: int | None) -> None:
    lines = [names, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    if title is not None:
        click.echo(title)
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
