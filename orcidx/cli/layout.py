"""``orcidx sizes`` and ``streams`` show how the bytes of files are used, and how their streams are encoded."""

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
from orcidx.cli.output import FileTables
from orcidx.errors import InvalidQuery
from orcidx.orc.projection import find_columns

if TYPE_CHECKING:
    from orcidx.scanner.file import OrcFile

__all__ = ["sizes", "streams"]


@click.command()
@sources_argument
@as_json
@storage_option
def sizes(sources: tuple[str, ...], as_json: bool, storage_options: tuple[str, ...]) -> None:
    """Show the bytes of SOURCES (files, directories, globs, URLs, - for standard input) by column, by stream, by kind
    of index, and in the footers."""
    from orcidx.inspection.sizes import FILE_PARTS, file_sizes

    files = list_files(sources, storage_options)
    tables = FileTables(len(files), as_json=as_json)

    def show(file: OrcFile) -> None:
        found = file_sizes(file.reader)
        kinds = list(dict.fromkeys(kind for column in found.columns for kind in sorted(column.streams)))
        rows: list[list[Any]] = [
            [
                one.column or "(rows)",
                one.type if one.column else "",
                *(one.streams.get(kind, 0) for kind in kinds),
                one.bytes,
                _share(one.bytes, found.bytes),
            ]
            for one in found.columns
            if one.bytes
        ]
        nothing = [None] * len(kinds)
        rows += [
            [f"({name.replace('_', ' ')})", "", *nothing, size, _share(size, found.bytes)]
            for name in FILE_PARTS
            if (size := getattr(found, name))
        ]
        totals = [sum(one.streams.get(kind, 0) for one in found.columns) for kind in kinds]
        rows.append(["(file)", "", *totals, found.bytes, _share(1, 1)])
        names = ["column", "type", *(kind.lower() for kind in kinds), "bytes", "share"]
        tables.show(file.source.name, names, rows, {**found.to_dict(), "file": file.source.name})

    each_file(files, show)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


@click.command()
@sources_argument
@as_json
@columns_option
@click.option("--stripe", type=click.IntRange(min=0), help="Show only this stripe.")
@storage_option
def streams(
    sources: tuple[str, ...],
    as_json: bool,
    columns: str | None,
    stripe: int | None,
    storage_options: tuple[str, ...],
) -> None:
    """Show the streams of SOURCES (files, directories, globs, URLs, - for standard input): their positions, their
    encodings, their bytes before and after decompression, and their number of runs of each kind."""
    from orcidx.inspection.runs import stripe_streams

    files = list_files(sources, storage_options)
    tables = FileTables(len(files), as_json=as_json)

    def show(file: OrcFile) -> None:
        reader = file.reader
        if stripe is not None and stripe >= len(reader.stripes):
            raise InvalidQuery(
                f"there is no stripe {stripe}: the file has {len(reader.stripes)} stripes, numbered from 0",
                file=reader.name,
            )
        paths = parse_columns(columns)
        wanted = None
        if paths is not None:
            wanted = frozenset[int]().union(*(node.ids for path in paths for node in find_columns(reader.root, path)))
        numbers = range(len(reader.stripes)) if stripe is None else (stripe,)
        found = [one for number in numbers for one in stripe_streams(reader, number, wanted)]
        names = ["stripe", "column", "stream", "encoding", "offset", "length", "decompressed", "values", "runs"]
        rows = [
            (
                one.stripe,
                one.column or "(rows)",
                one.kind,
                one.encoding,
                one.offset,
                one.length,
                one.bytes,
                one.values,
                one.damage or ", ".join(f"{count:,} {kind}" for kind, count in one.runs.items()),
            )
            for one in found
        ]
        document = {"file": file.source.name, "streams": [one.to_dict() for one in found]}
        tables.show(file.source.name, names, rows, document)

    each_file(files, show)
