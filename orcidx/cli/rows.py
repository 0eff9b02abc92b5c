"""``orcidx cat``, ``head`` and ``count``: rows of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import click

from orcidx.cli.arguments import (
    as_json,
    columns_option,
    file_argument,
    open_from,
    parse_columns,
    storage_option,
    where_option,
)
from orcidx.cli.output import plain, print_json, print_table, python_values, text

__all__ = ["cat", "count", "head", "scan"]


def print_rows(names: list[str], batches: Iterator[Any], *, as_json: bool, table: bool) -> None:
    """Rows as JSON lines, as a table for people, or tab-separated."""
    rows = (row for batch in batches for row in zip(*map(python_values, batch.columns)))
    if as_json:
        for row in rows:
            click.echo(json.dumps(plain(dict(zip(names, row))), ensure_ascii=False))
        return
    if table and sys.stdout.isatty():
        print_table(names, rows)
        return
    first = list(islice(rows, 1))  # what fails says so before anything is printed
    click.echo("\t".join(names))
    for row in chain(first, rows):
        click.echo("\t".join(text(value) for value in row))


@click.command()
@file_argument
@as_json
@columns_option
@where_option
@storage_option
def cat(file: str, as_json: bool, columns: str | None, where: str | None, storage_options: tuple[str, ...]) -> None:
    """All rows of FILE, as tab-separated text or JSON lines."""
    with open_from(file, storage_options) as f:
        scan = f.scan(parse_columns(columns), where, timestamp_unit="us")
        print_rows(scan.schema.names, iter(scan), as_json=as_json, table=False)


@click.command()
@file_argument
@click.option("-n", "--rows", type=click.IntRange(min=0), default=10, show_default=True, help="How many rows.")
@as_json
@columns_option
@where_option
@storage_option
def head(
    file: str, rows: int, as_json: bool, columns: str | None, where: str | None, storage_options: tuple[str, ...]
) -> None:
    """The first rows of FILE."""
    with open_from(file, storage_options) as f:
        scan = f.scan(parse_columns(columns), where, limit=rows, timestamp_unit="us")
        print_rows(scan.schema.names, iter(scan), as_json=as_json, table=True)


@click.command()
@file_argument
@as_json
@where_option
@storage_option
def count(file: str, as_json: bool, where: str | None, storage_options: tuple[str, ...]) -> None:
    """The number of rows of FILE, from its metadata where that is enough."""
    with open_from(file, storage_options) as f:
        rows = f.scan(where=where).count_rows() if where else f.num_rows
    if as_json:
        print_json({"rows": rows})
    else:
        click.echo(rows)


@click.command()
@file_argument
@as_json
@columns_option
@where_option
@storage_option
@click.option("-n", "--limit", type=click.IntRange(min=0), help="At most so many rows.")
@click.option("--row-numbers", is_flag=True, help="Add the number of each row in the file.")
def scan(
    file: str,
    as_json: bool,
    columns: str | None,
    where: str | None,
    storage_options: tuple[str, ...],
    limit: int | None,
    row_numbers: bool,
) -> None:
    """Rows of FILE that match, and on standard error what was read to find them."""
    with open_from(file, storage_options) as f:
        scan = f.scan(parse_columns(columns), where, limit=limit, row_numbers=row_numbers, timestamp_unit="us")
        with scan.to_batches() as batches:
            print_rows(scan.schema.names, batches, as_json=as_json, table=False)
            metrics = batches.metrics
    if sys.stderr.isatty():
        click.echo(
            f"{metrics.rows_returned} rows; read {metrics.row_groups_kept} of {metrics.row_groups} row groups, "
            f"{metrics.bytes_read} bytes in {metrics.requests} requests",
            err=True,
        )
