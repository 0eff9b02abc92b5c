"""Shows a progress bar for long work on standard error. The bar is shown only on a terminal, and only if rich is
installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from orcidx.extras import installed

__all__ = ["progress", "tracked"]

T = TypeVar("T")

_FEW_FILES = 2
"""The maximum number of files that are processed without a bar."""


@contextmanager
def progress(label: str, total: int | None, *, shown: bool = True) -> Iterator[Callable[[int], Any]]:
    """Yields a function to call with the number of finished steps. The bar disappears at the end. In a pipe, or if
    ``shown`` is False, the function does nothing."""
    if not (shown and sys.stderr.isatty() and installed("rich")):
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda steps: bar.advance(task, steps)


def tracked(items: Sequence[T], label: str) -> Iterator[T]:
    """Yields the items, and shows a progress bar if there are several items."""
    if len(items) <= _FEW_FILES:
        yield from items
        return
    with progress(label, len(items)) as advance:
        for item in items:
            yield item
            advance(1)
