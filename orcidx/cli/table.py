"""``orcidx table info``, ``scan``, ``aggregate`` and ``explain`` work with Paimon tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from orcidx.cli.aggregate import by_option, explain_option, parse_select, print_totals, select_option
from orcidx.cli.arguments import (
    as_json,
    columns_option,
    html_option,
    limit_option,
    parse_columns,
    parse_storage_options,
    parse_top,
    storage_option,
    top_option,
    where_option,
)
from orcidx.cli.output import print_explanation, print_json, print_table
from orcidx.cli.rows import print_rows
from orcidx.cli.timing import print_work, timing_option

if TYPE_CHECKING:
    from pathlib import Path

    from orcidx.paimon_table.table import Table

__all__ = ["table"]

snapshot_option = click.option(
    "--snapshot", type=click.IntRange(min=1), help="Read this snapshot. The default is the latest."
)
external_option = click.option(
    "--external-paths",
    multiple=True,
    metavar="PREFIX",
    help="A directory or URL prefix in another store that may contain files of the table. Repeatable.",
)


@click.group()
def table() -> None:
    """Inspect and read Apache Paimon tables."""


def open_table(
    path: str, snapshot: int | None, storage_options: tuple[str, ...], external_paths: tuple[str, ...]
) -> Table:
    """Opens the table that a command names."""
    from orcidx import paimon

    options = parse_storage_options(storage_options)
    return paimon.open_table(path, snapshot_id=snapshot, storage_options=options, external_paths=external_paths)


@table.command(short_help="Show snapshot, schema, data files and indexes of a table.")
@click.argument("path")
@snapshot_option
@as_json
@storage_option
@external_option
def info(
    path: str, snapshot: int | None, as_json: bool, storage_options: tuple[str, ...], external_paths: tuple[str, ...]
) -> None:
    """Show the snapshot, schema, data files, deletion vectors and indexes of the table at PATH."""
    opened = open_table(path, snapshot, storage_options, external_paths)
    version, schema = opened.snapshot, opened.table_schema
    facts = {
        "table": opened.path,
        "snapshot": opened.snapshot_id,
        "commit": None if version is None else version.commit_kind,
        "time_millis": None if version is None else version.time_millis,
        "records": None if version is None else version.total_record_count,
        "schema_id": schema.id,
        "partition_keys": list(schema.partition_keys),
        "primary_keys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    fields = [{"id": field.id, "column": field.name, "type": str(field.type)} for field in schema.fields]
    files = [_file_facts(file) for file in opened.files()]
    indexes = [
        {"name": entry.name, "kind": entry.index_type, "bucket": entry.bucket, "bytes": entry.size, "rows": entry.rows}
        for entry in opened.index_files()
    ]
    if as_json:
        print_json({**facts, "fields": fields, "files": files, "index_files": indexes})
        return
    print_table(["fact", "value"], facts.items())
    for rows in (fields, files, indexes):
        if rows:
            print_table(list(rows[0]), [list(row.values()) for row in rows])


def _file_facts(file: Any) -> dict[str, Any]:
    kind = "embedded" if file.embedded_index is not None else "sidecar" if file.index is not None else None
    return {
        "name": file.entry.name,
        "partition": dict(file.partition),
        "bucket": file.bucket,
        "level": file.level,
        "format": file.format,
        "rows": file.rows,
        "bytes": file.size,
        "deleted": None if file.deletion is None else file.deletion.cardinality,
        "file_index": kind,
    }


_jvm_zone = click.option(
    "--jvm-zone",
    metavar="ZONE",
    help="The time zone of every JVM that wrote ORC files. Java shifts TIMESTAMP WITH LOCAL TIME ZONE by this zone.",
)


def _query_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a command that reads rows, or that explains which rows would be read."""
    options = (snapshot_option, as_json, columns_option, where_option, limit_option, top_option)
    for option in reversed((click.argument("path"), *options, _jvm_zone, storage_option, external_option)):
        command = option(command)
    return command


@table.command(short_help="Print rows of a table.")
@_query_options
@timing_option
def scan(path: str, as_json: bool, timing: bool | None, **query: Any) -> None:
    """Print rows of the table at PATH. Also print on standard error what was read to find the rows, and how long this
    took."""
    began, worked = time.perf_counter(), time.process_time()
    found = _scan(path, query)
    with found.to_batches() as batches:
        print_rows(found.schema.names, batches, as_json=as_json, table=False)
    print_work(timing, batches.metrics, began, worked)
    for note in batches.notes:
        click.echo(f"note: {note}", err=True)


@table.command(short_help="Compute totals of the rows of a table.")
@click.argument("path")
@select_option
@by_option
@snapshot_option
@as_json
@where_option
@_jvm_zone
@storage_option
@external_option
@explain_option
def aggregate(path: str, as_json: bool, explain: bool, **query: Any) -> None:
    """Compute totals of the rows of the table at PATH. Metadata and statistics are used if they prove the result."""
    opened = _opened(path, query)
    select, by = parse_select(query["select"]), parse_columns(query["by"])
    result = opened.aggregate(select, query["where"], by, jvm_zone=query["jvm_zone"])
    print_totals(result, as_json=as_json, explain=explain)


@table.command(short_help="Show which files and row groups a query reads, and why.")
@_query_options
@html_option
def explain(path: str, as_json: bool, html: Path | None, **query: Any) -> None:
    """Show which files and row groups of the table at PATH a query reads, and why the rest is skipped. This command
    reads no data. The bytes that it shows do not include snapshots, manifest lists and manifests, which are read to
    plan the query."""
    print_explanation(_scan(path, query).explain(), html, as_json=as_json)


def _opened(path: str, query: dict[str, Any]) -> Table:
    return open_table(path, query["snapshot"], query["storage_options"], query["external_paths"])


def _scan(path: str, query: dict[str, Any]) -> Any:
    columns, top = parse_columns(query["columns"]), parse_top(query["top"])
    return _opened(path, query).scan(columns, query["where"], limit=query["limit"], top=top, jvm_zone=query["jvm_zone"])
