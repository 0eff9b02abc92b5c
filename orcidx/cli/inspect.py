"""``orcidx schema``, ``meta`` and ``stats`` show the metadata of files without reading their data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orcidx.cli.arguments import (
    as_json,
    columns_option,
    each_file,
    list_files,
    parse_columns,
    sources_argument,
    storage_option,
)
from orcidx.cli.output import FileTables, print_table

if TYPE_CHECKING:
    from orcidx.scanner.file import OrcFile

__all__ = ["meta", "schema", "stats"]

_FACTS = ("column", "type", "values", "nulls", "minimum", "maximum", "sum", "bytes", "order")


@click.command()
@sources_argument
@as_json
@storage_option
def schema(sources: tuple[str, ...], as_json: bool, storage_options: tuple[str, ...]) -> None:
    """Show the columns of SOURCES (files, directories, globs, URLs, - for standard input) with their ORC and Arrow
    types."""
    files = list_files(sources, storage_options)
    tables = FileTables(len(files), as_json=as_json)

    def show(file: OrcFile) -> None:
        fields = [{"name": field.name, "arrow": str(field.type)} for field in file.schema]
        for field, node in zip(fields, file.columns, strict=True):
            field["orc"] = str(node)
        rows = [(one["name"], one["orc"], one["arrow"]) for one in fields]
        document = {"file": file.source.name, "orc": file.orc_schema, "columns": fields}
        tables.show(file.source.name, ["column", "orc type", "arrow type"], rows, document)

    each_file(files, show)


@click.command()
@sources_argument
@as_json
@storage_option
def meta(sources: tuple[str, ...], as_json: bool, storage_options: tuple[str, ...]) -> None:
    """Show size, rows, writer, codec and stripes of SOURCES (files, directories, globs, URLs, - for standard input)."""
    files = list_files(sources, storage_options)
    tables = FileTables(len(files), as_json=as_json)

    def show(file: OrcFile) -> None:
        facts = _facts_of(file)
        stripes = [
            {
                "stripe": number,
                "offset": stripe.offset,
                "rows": stripe.rows,
                "index_bytes": stripe.index_length,
                "data_bytes": stripe.data_length,
                "footer_bytes": stripe.footer_length,
            }
            for number, stripe in enumerate(file.stripes)
        ]
        tables.show(file.source.name, ["fact", "value"], facts.items(), {**facts, "stripes": stripes})
        if stripes and not as_json and len(files) == 1:
            print_table(list(stripes[0]), [list(stripe.values()) for stripe in stripes])

    each_file(files, show)


def _facts_of(file: Any) -> dict[str, Any]:
    tail = file.tail
    facts: dict[str, Any] = {
        "file": file.source.name,
        "bytes": tail.size,
        "rows": file.num_rows,
        "stripes": len(file.stripes),
        "format_version": tail.format_version,
        "writer": file.writer.kind,
        "writer_version": file.writer.version,
        "software": file.writer.software,
        "compression": file.compression,
        "block_size": tail.postscript.block_size,
        "row_index_stride": tail.footer.row_index_stride,
        "user_metadata": {name: _shown(value) for name, value in file.user_metadata.items()},
    }
    if not tail.size:
        facts["note"] = "empty: a file of zero bytes counts as a file without rows and columns; it may be incomplete"
    return facts


def _shown(value: bytes) -> str:
    shown = value.decode("utf-8", "backslashreplace")
    return shown if len(shown) <= 200 else f"{shown[:200]}... ({len(value)} bytes)"


@click.command()
@sources_argument
@as_json
@columns_option
@storage_option
@click.option(
    "--level",
    type=click.Choice(["file", "stripe", "row_group"]),
    default="file",
    show_default=True,
    help="The parts whose statistics are shown.",
)
def stats(
    sources: tuple[str, ...], as_json: bool, columns: str | None, storage_options: tuple[str, ...], level: str
) -> None:
    """Show statistics of the columns of SOURCES (files, directories, globs, URLs, - for standard input). For each
    column, one line shows the number of values and nulls, the minimum, maximum, sum and bytes, and how sorted the
    column is. If stripes or row groups are shown, only their stored statistics are shown."""
    files = list_files(sources, storage_options)
    tables = FileTables(len(files), as_json=as_json)

    def show(file: OrcFile) -> None:
        names = parse_columns(columns)
        for name in names or ():  # for an unknown column, this raises an error that names the nearest column
            file.statistics(name)
        stored = [row for row in file.statistics_table(level).to_pylist() if names is None or row["column"] in names]
        if level != "file":
            used = [name for name in (stored[0] if stored else ()) if any(row[name] is not None for row in stored)]
            tables.show(file.source.name, used, [[row[name] for name in used] for row in stored], stored)
            return
        from orcidx.inspection.column_facts import column_facts

        known = {one.column: one for one in column_facts(file.reader)}
        facts = [one for one in known.values() if names is None or one.column in names]
        for row in stored:
            if (one := known.get(row["column"])) is not None:
                row |= {"nulls": one.nulls, "bytes": one.bytes, "order": one.order}
        rows = [[getattr(one, name) for name in _FACTS] for one in facts]
        tables.show(file.source.name, _FACTS, rows, stored)

    each_file(files, show)
