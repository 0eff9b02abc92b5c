"""A progress bar on a terminal. It shows how many of all rows are done. In a pipe it shows nothing."""

from __future__ import annotations

import sys
from typing import Any

from orcidx.extras import installed, needed

__all__ = ["RowProgress"]


class RowProgress:
    """A context manager. ``shown`` says whether the bar is shown. With None, the bar is shown if standard error is a
    terminal and the package rich is installed. rich draws the bar."""

    def __init__(self, title: str, rows: int | None, shown: bool | None = None) -> None:
        self._bar: Any = None
        if installed("rich") and sys.stderr.isatty() if shown is None else shown:
            with needed("rich"):
                from rich.console import Console
                from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            text = "{task.description}", "{task.completed:,}" + (" rows" if rows is None else " of {task.total:,} rows")
            columns = TextColumn(text[0]), BarColumn(), TextColumn(text[1]), TimeRemainingColumn()
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._task = self._bar.add_task(title, total=rows)

    def advance(self, rows: int) -> None:
        if self._bar is not None:
            self._bar.advance(self._task, rows)

    def __enter__(self) -> RowProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
