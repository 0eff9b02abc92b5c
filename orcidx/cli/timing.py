"""The option ``--timing`` of the commands that print rows."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from orcidx.spellings import counted

if TYPE_CHECKING:
    from orcidx.scanner.metrics import ScanMetrics

__all__ = ["print_work", "timing_option"]

timing_option = click.option(
    "--timing/--no-timing",
    default=None,
    help="Print on standard error what was read. The default is yes on a terminal only.",
)


def print_work(timing: bool | None, metrics: ScanMetrics, began: float, worked: float) -> None:
    """Prints a line about the work of a scan and the time that it took, unless ``timing`` turns this off. ``began`` and
    ``worked`` are ``time.perf_counter()`` and ``time.process_time()`` at the start of the command."""
    if sys.stderr.isatty() if timing is None else timing:
        took, cpu = time.perf_counter() - began, time.process_time() - worked
        rows = counted(metrics.rows_returned, "row")
        click.echo(f"{rows} in {took:.2f} s ({cpu:.2f} s of processor time); {metrics.work}", err=True)
