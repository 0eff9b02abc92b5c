"""``orcidx cat``, ``head``, ``count`` and ``scan`` print or count rows of files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import click

from orcidx.cli.arguments import (
    as_json,
    each_file,
    fresh_option,
    limit_option,
    list_files,
    parse_columns,
    parse_top,
    query_options,
    scan_from,
    sources_argument,
    storage_option,
    top_option,
    where_option,
)
from orcidx.cli.output import print_json, print_table
from orcidx.cli.progress import progress
from orcidx.cli.row_text import json_lines, tab_lines
from orcidx.cli.timing import print_work, timing_option
from orcidx.orc.python_values import python_values
from orcidx.scanner.schema_reads import count_schema_reads

if TYPE_CHECKING:
    from orcidx.scanner.file import OrcFile
    from orcidx.scanner.scan import Scan

__all__ = ["cat", "count", "head", "scan"]


def print_rows(names: list[str], batches: Iterator[Any], *, as_json: bool, table: bool) -> None:
    """Prints rows as JSON lines, as a table for people, or tab-separated."""
    if table and not as_json and sys.stdout.isatty():
        rows = (row for batch in batches for row in zip(*map(python_values, batch.columns)))
        print_table(names, rows, elide=True)
        return
    first = next(batches, None)  # read now, so that errors are raised before anything is printed
    if not as_json:
        click.echo("\t".join(names))
    if first is None:
        return
    sys.stdout.flush()
    out = sys.stdout.buffer
    write = json_lines if as_json else tab_lines
    # No progress bar is shown if the rows are printed on the same terminal.
    with progress("rows", None, shown=not sys.stdout.isatty()) as advance:
        for batch in chain([first], batches):
            for lines in write(batch):
                out.write(lines)
            advance(batch.num_rows)
    out.flush()


def _print_scan(scan: Scan, batches: Iterator[Any], *, as_json: bool, table: bool) -> None:
    """Prints the rows of a scan. The first batch is read before the names of the columns are needed, because the file
    is then open. Without this read, the file would be opened once more to find the names."""
    first = next(batches, None)
    rows = batches if first is None else chain([first], batches)
    print_rows(scan.schema.names, rows, as_json=as_json, table=table)


@click.command()
@sources_argument
@query_options
def cat(
    sources: tuple[str, ...], as_json: bool, columns: str | None, where: str | None, storage_options: tuple[str, ...]
) -> None:
    """Print all rows of SOURCES (files, directories, globs, URLs, - for standard input), tab-separated or as JSON
    lines."""
    scan = scan_from(sources, storage_options, parse_columns(columns), where, timestamp_unit="us")
    _print_scan(scan, iter(scan), as_json=as_json, table=False)


@click.command()
@sources_argument
@click.option("-n", "--rows", type=click.IntRange(min=0), default=10, show_default=True, help="Number of rows.")
@query_options
def head(
    sources: tuple[str, ...],
    rows: int,
    as_json: bool,
    columns: str | None,
    where: str | None,
    storage_options: tuple[str, ...],
) -> None:
    """Print the first rows of SOURCES (files, directories, globs, URLs, - for standard input)."""
    scan = scan_from(sources, storage_options, parse_columns(columns), where, limit=rows, timestamp_unit="us")
    _print_scan(scan, iter(scan), as_json=as_json, table=True)


@click.command()
@sources_argument
@as_json
@where_option
@storage_option
@fresh_option
def count(
    sources: tuple[str, ...],
    as_json: bool,
    where: str | None,
    storage_options: tuple[str, ...],
    fresh: Literal["listing", "catalog"],
) -> None:
    """Print the total number of rows of SOURCES. Metadata and indexes are used if they are sufficient."""
    rows = 0
    if where or fresh == "catalog":
        rows = scan_from(sources, storage_options, None, where, fresh=fresh).count_rows()
    else:

        def add(file: OrcFile) -> None:
            nonlocal rows
            rows += file.num_rows

        each_file(list_files(sources, storage_options), add)
    if as_json:
        print_json({"rows": rows})
    else:
        click.echo(rows)


@click.command()
@sources_argument
@query_options
@fresh_option
@limit_option
@top_option
@click.option("--row-numbers", is_flag=True, help="Add a column with the number of each row in its file.")
@timing_option
def scan(
    sources: tuple[str, ...],
    as_json: bool,
    columns: str | None,
    where: str | None,
    storage_options: tuple[str, ...],
    timing: bool | None,
    top: str | None,
    **rows: Any,
) -> None:
    """Print the rows of SOURCES that match. Also print on standard error what was read to find the rows, and how long
    this took."""
    began, worked = time.perf_counter(), time.process_time()
    rows["top"] = parse_top(top)
    scan = scan_from(sources, storage_options, parse_columns(columns), where, timestamp_unit="us", **rows)
    with scan.to_batches() as batches:
        _print_scan(scan, batches, as_json=as_json, table=False)
        metrics = batches.metrics
        count_schema_reads(scan, metrics)
    print_work(timing, metrics, began, worked)
