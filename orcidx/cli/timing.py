"""The option ``--timing`` of the commands that print rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from orcidx.spellings import counted

if TYPE_CHECKING:
    from orcidx.scanner.metrics import ScanMetrics

__all__ = ["timing_option", "work_line"]

timing_option = click.option(
    "--timing/--no-timing",
    default=None,
    help="Print on standard error what was read. The default is yes on a terminal only.",
)


def work_line(metrics: ScanMetrics, began: float, worked: float) -> str:
    """Returns a line about the work of a scan, and how long it took. ``began`` and ``worked`` are
    ``time.perf_counter()`` and ``time.process_time()`` at the start of the command."""
    took, cpu = time.perf_counter() - began, time.process_time() - worked
    return f"{counted(metrics.rows_returned, 'row')} in {took:.2f} s ({cpu:.2f} s of processor time); {metrics.work}"
