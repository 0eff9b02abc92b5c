"""Progress of long work, drawn on standard error of a terminal and nowhere else, where rich is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from orcidx.extras import installed

__all__ = ["progress", "tracked"]

T = TypeVar("T")

_FEW_FILES = 2
"""The most files that are shown without a bar."""


@contextmanager
def progress(label: str, total: int | None, *, shown: bool = True) -> Iterator[Callable[[int], Any]]:
    """Yields a function to call with the number of steps that are done. The bar disappears at the end. In a pipe, and
    if not ``shown``, the function does nothing."""
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
    """The items, with a bar where there are several."""
    if len(items) <= _FEW_FILES:
        yield from items
        return
    with progress(label, len(items)) as advance:
        for item in items:
            yield item
            advance(1)
