"""``orcidx schema``, ``meta`` and ``stats``: what a file says of itself, without reading its data."""

from __future__ import annotations

from typing import Any

import click

from orcidx.cli.arguments import as_json, columns_option, file_argument, open_from, parse_columns, storage_option
from orcidx.cli.output import print_json, print_table

__all__ = ["meta", "schema", "stats"]


@click.command()
@file_argument
@as_json
@storage_option
def schema(file: str, as_json: bool, storage_options: tuple[str, ...]) -> None:
    """Columns of FILE with their ORC and Arrow types."""
    with open_from(file, storage_options) as f:
        fields = [{"name": field.name, "arrow": str(field.type)} for field in f.schema]
        for field, node in zip(fields, f.columns, strict=True):
            field["orc"] = str(node)
        if as_json:
            print_json({"orc": f.orc_schema, "columns": fields})
        else:
            print_table(["column", "orc type", "arrow type"], [(x["name"], x["orc"], x["arrow"]) for x in fields])


@click.command()
@file_argument
@as_json
@storage_option
def meta(file: str, as_json: bool, storage_options: tuple[str, ...]) -> None:
    """Size, rows, writer, codec and stripes of FILE."""
    with open_from(file, storage_options) as f:
        tail = f.tail
        facts: dict[str, Any] = {
            "file": f.source.name,
            "bytes": tail.size,
            "rows": f.num_rows,
            "stripes": len(f.stripes),
            "format_version": tail.format_version,
            "writer": f.writer.kind,
            "writer_version": f.writer.version,
            "software": f.writer.software,
            "compression": f.compression,
            "block_size": tail.postscript.block_size,
            "row_index_stride": tail.footer.row_index_stride,
            "user_metadata": {name: _shown(value) for name, value in f.user_metadata.items()},
        }
        if not tail.size:
            facts["note"] = "empty: zero bytes count as a file of no rows and no columns; was it written to its end?"
        stripes = [
            {
                "stripe": number,
                "offset": stripe.offset,
                "rows": stripe.rows,
                "index_bytes": stripe.index_length,
                "data_bytes": stripe.data_length,
                "footer_bytes": stripe.footer_length,
            }
            for number, stripe in enumerate(f.stripes)
        ]
        if as_json:
            print_json({**facts, "stripes": stripes})
            return
        print_table(["fact", "value"], facts.items())
        if stripes:
            print_table(list(stripes[0]), [list(stripe.values()) for stripe in stripes])


def _shown(value: bytes) -> str:
    shown = value.decode("utf-8", "backslashreplace")
    return shown if len(shown) <= 200 else f"{shown[:200]}... ({len(value)} bytes)"


@click.command()
@file_argument
@as_json
@columns_option
@storage_option
@click.option(
    "--level", type=click.Choice(["file", "stripe", "row_group"]), default="file", show_default=True, help="Of what."
)
def stats(file: str, as_json: bool, columns: str | None, storage_options: tuple[str, ...], level: str) -> None:
    """Statistics of the columns of FILE: counts, nulls, minima, maxima, sums."""
    with open_from(file, storage_options) as f:
        table = f.statistics_table(level)
        names = parse_columns(columns)
        for name in names or ():  # an unknown one is refused, with the nearest
            f.statistics(name)
    rows = [row for row in table.to_pylist() if names is None or row["column"] in names]
    if as_json:
        print_json(rows)
        return
    used = [name for name in table.column_names if any(row[name] is not None for row in rows)]
    print_table(used, [[row[name] for name in used] for row in rows])
