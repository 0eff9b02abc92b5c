"""``orcidx dv show`` and ``apply`` work with Paimon deletion vectors."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from orcidx.cli.arguments import (
    as_json,
    columns_option,
    limit_option,
    open_from,
    parse_columns,
    parse_storage_options,
    storage_option,
    where_option,
)
from orcidx.cli.output import print_json, print_table
from orcidx.cli.rows import print_rows
from orcidx.errors import InvalidQuery

__all__ = ["dv"]

_SHOWN_POSITIONS = 10
"""The maximum number of positions that are listed for a vector."""

offset_option = click.option(
    "--offset", type=click.IntRange(min=0), help="The position of the vector, as in the manifest."
)
length_option = click.option(
    "--length", type=click.IntRange(min=0), help="The length of the vector, as in the manifest."
)


@click.group()
def dv() -> None:
    """Show and apply Paimon deletion vectors."""


def read_vectors(
    path: str, offset: int | None, length: int | None, storage_options: tuple[str, ...]
) -> list[tuple[int, Any]]:
    """Returns the deletion vectors of a file with their offsets, or only the vector at ``offset``."""
    from orcidx import paimon

    options = parse_storage_options(storage_options)
    if offset is not None and length is not None:
        return [(offset, paimon.read_deletion_vector(path, offset, length, storage_options=options))]
    if length is not None:
        raise InvalidQuery("--length also needs --offset")
    vectors = paimon.read_deletion_vectors(path, storage_options=options)
    if offset is None:
        return vectors
    chosen = [(at, vector) for at, vector in vectors if at == offset]
    if not chosen:
        raise InvalidQuery(
            f"no deletion vector starts at {offset}; the vectors of the file start at "
            f"{', '.join(str(at) for at, _ in vectors)}"
        )
    return chosen


@dv.command(short_help="Show the deletion vectors in an index or Puffin file.")
@click.argument("path")
@offset_option
@length_option
@as_json
@storage_option
def show(path: str, offset: int | None, length: int | None, as_json: bool, storage_options: tuple[str, ...]) -> None:
    """Show the deletion vectors in PATH, an index file or a Puffin file: how many rows are deleted, and the first
    positions."""
    rows = []
    for at, vector in read_vectors(path, offset, length, storage_options):
        # ``vector.positions`` is not used, because half a megabyte of runs can contain billions of positions.
        positions = vector.bitmap
        rows.append(
            {
                "offset": at,
                "bits": 64 if vector.bitmap64 else 32,
                "deleted": len(vector),
                "first": positions.min() if positions else None,
                "last": positions.max() if positions else None,
                "positions": list(islice(positions, _SHOWN_POSITIONS)),
            }
        )
    if as_json:
        print_json({"file": path, "vectors": rows})
        return
    print_table(
        ["offset", "bits", "deleted", "first", "last", "positions"],
        [[*list(row.values())[:-1], _listed(row)] for row in rows],
    )


def _listed(row: dict[str, Any]) -> str:
    shown = " ".join(str(position) for position in row["positions"])
    return f"{shown} ..." if row["deleted"] > len(row["positions"]) else shown


@dv.command(short_help="Print the rows of an ORC file that are not deleted.")
@click.argument("path")
@click.argument("datafile")
@offset_option
@length_option
@as_json
@columns_option
@where_option
@storage_option
@limit_option
def apply(
    path: str,
    datafile: str,
    offset: int | None,
    length: int | None,
    as_json: bool,
    storage_options: tuple[str, ...],
    **query: Any,
) -> None:
    """Print the rows of the ORC file DATAFILE that the deletion vector in PATH does not delete."""
    vectors = read_vectors(path, offset, length, storage_options)
    if len(vectors) != 1:
        starts = ", ".join(str(at) for at, _ in vectors[:20])
        raise InvalidQuery(f"{path} has {len(vectors)} deletion vectors; choose one of them with --offset: {starts}")
    with open_from(datafile, storage_options) as f:
        scan = f.scan(
            parse_columns(query["columns"]),
            query["where"],
            limit=query["limit"],
            deletion_vector=vectors[0][1],
            timestamp_unit="us",
        )
        print_rows(scan.schema.names, iter(scan), as_json=as_json, table=False)
