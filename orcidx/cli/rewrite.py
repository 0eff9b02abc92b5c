"""``orcidx rewrite``, ``merge`` and ``convert`` write new files from existing files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from orcidx.cli.arguments import as_json, parse_columns, parse_storage_options, storage_option
from orcidx.cli.output import print_json
from orcidx.errors import InvalidQuery
from orcidx.spellings import counted, size_text

__all__ = ["convert", "merge", "rewrite"]

_CODECS = click.Choice(["uncompressed", "zlib", "snappy", "lz4", "zstd"], case_sensitive=False)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class _Size(click.ParamType):  # type: ignore[type-arg]  # before click 8.2 the class has no type argument
    """A size: ``64MiB``, ``64M`` or a number of bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().lower().removesuffix("b").removesuffix("i")
        unit = text[-1:] if text[-1:] in ("k", "m", "g") else ""
        number = text.removesuffix(unit)
        if not number.isdecimal():
            self.fail(f"{value!r} is not a size; give a size such as 64M", param, ctx)
        return int(number) * _UNITS[unit]


SIZE = _Size()

_ROW_OPTIONS = (
    click.option("--sort-by", metavar="A,B:desc", help="Sort rows by these columns, with nulls last."),
    click.option(
        "--cluster-by", metavar="A,B", help="Z-order: put rows with near values in all these columns together."
    ),
    click.option(
        "--bloom",
        "blooms",
        multiple=True,
        metavar="A,B",
        help='Add bloom filters to these columns; "*" means all columns.',
    ),
    click.option("--compression", type=_CODECS, help="Codec. The default is the codec of the first file."),
    click.option("--compression-level", type=int, metavar="N"),
    click.option("--compression-block-size", type=SIZE, metavar="SIZE"),
    click.option("--stripe-size", type=SIZE, metavar="SIZE", help="Size of a stripe, for example 64M."),
    click.option(
        "--row-index-stride", type=click.IntRange(min=0), metavar="ROWS", help="Number of rows in a row group."
    ),
    click.option(
        "--sort-memory",
        type=SIZE,
        default="1G",
        show_default=True,
        help="The maximum number of bytes that are sorted in memory. DuckDB sorts larger data.",
    ),
)
_COMMON_OPTIONS = (
    click.option("--no-verify", is_flag=True, help="Do not verify the result by reading it again."),
    click.option("--overwrite", is_flag=True, help="Replace an existing target."),
    click.option("--dry-run", is_flag=True, help="Only print what would be done, and why."),
    click.option(
        "--timestamp-unit",
        type=click.Choice(["us", "ns"]),
        help='Unit of times. With "us", years beyond the range of nanoseconds are allowed.',
    ),
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((*_ROW_OPTIONS, *_COMMON_OPTIONS)):
        command = option(command)
    return storage_option(as_json(command))


def _sort_keys(text: str | None) -> list[tuple[str, str]] | None:
    """Parses ``a,b:desc`` into the form of ``sort_by``. A colon that is not followed by a direction belongs to the
    column's name."""
    keys = []
    for given in parse_columns(text) or ():
        name, _, direction = given.rpartition(":")
        known = {"asc": "ascending", "desc": "descending"}.get(direction.lower())
        keys.append((name, known) if known and name else (given, "ascending"))
    return keys or None


def _bloom_names(given: tuple[str, ...]) -> list[str]:
    """Parses the values of --bloom, each of which may name several columns."""
    return [name for names in given for name in parse_columns(names) or ()]


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Converts the arguments of a command into arguments of ``orcidx.rewrite``."""
    from orcidx.options import ReadOptions

    unit, storage = given.pop("timestamp_unit"), given.pop("storage_options")
    return {
        "sort_by": _sort_keys(given.pop("sort_by")),
        "cluster_by": parse_columns(given.pop("cluster_by")),
        "bloom_filters": _bloom_names(given.pop("blooms")),
        "verify": not given.pop("no_verify"),
        "read": ReadOptions(timestamp_unit=unit) if unit else None,
        "storage_options": parse_storage_options(storage),
        **given,
    }


def _print(done: Any, as_json: bool) -> None:
    if as_json:
        print_json(done.to_dict())
        return
    for one in done.files:
        click.echo(str(one))
        for note in one.notes:
            click.echo(f"note: {note}")
    if done.dry_run:
        click.echo("nothing was written")


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="IN...")
@click.argument("target", metavar="OUT")
@click.option("--merge", is_flag=True, help="Merge all files into the one file OUT.")
@_options
def rewrite(sources: tuple[str, ...], target: str, as_json: bool, **given: Any) -> None:
    """Rewrite ORC files: sorted, clustered, with bloom filters, recompressed, merged.

    IN are files, directories or globs. One file becomes the file OUT. Several files become files in the directory OUT.
    With --merge they become the one file OUT. OUT may be one of the files IN. The command uses the cheapest way: it
    copies stripes, recompresses them, adds indexes to unchanged data, or encodes all rows. --dry-run shows which way is
    used.
    """
    from orcidx.rewriting.rewrite import rewrite as run

    _print(run(list(sources), target, **_arguments(given)), as_json)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="IN...")
@click.argument("target", metavar="OUT")
@_options
def merge(sources: tuple[str, ...], target: str, as_json: bool, **given: Any) -> None:
    """Merge the ORC files IN into one ORC file OUT. Stripes are copied if that is possible.

    This is the same as: orcidx rewrite --merge
    """
    from orcidx.rewriting.rewrite import rewrite as run

    _print(run(list(sources), target, merge=True, **_arguments(given)), as_json)


@click.command()
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option("--compression", type=_CODECS, help="Codec of the ORC file that is written.")
@click.option("--bloom", "blooms", multiple=True, metavar="A,B", help="Columns that get bloom filters in an ORC file.")
@click.option("--stripe-size", type=SIZE, metavar="SIZE", help="Size of a stripe of an ORC file, for example 64M.")
@click.option(
    "--from", "source_format", metavar="FORMAT", help="orc, parquet, csv or jsonl. The default is the suffix of IN."
)
@click.option(
    "--to", "target_format", metavar="FORMAT", help="orc, parquet, csv or jsonl. The default is the suffix of OUT."
)
@click.option("--overwrite", is_flag=True, help="Replace an existing target.")
@click.option(
    "--timestamp-unit",
    type=click.Choice(["us", "ns"]),
    default="ns",
    help="Unit in which times of an ORC file, or INT96 times of a Parquet file, are read.",
)
@click.option(
    "--schema", metavar="'A INT, B STRING'", help="Types of columns of CSV or JSON lines. Other types are detected."
)
@as_json
@storage_option
def convert(source: str, target: str, as_json: bool, **given: Any) -> None:
    """Convert between ORC, Parquet, CSV and JSON lines. The suffixes give the formats: .orc .parquet .csv .tsv .jsonl
    .ndjson .json.

    One of the two files must be ORC. OUT appears when it is complete. A column of CSV or JSON lines stays text if a
    number or a time would change its values (01234, 12345678901234567890). A note then names the column; --schema gives
    it a type.
    """
    from orcidx.rewriting.convert import convert as run

    storage = parse_storage_options(given.pop("storage_options"))
    blooms = _bloom_names(given.pop("blooms"))
    options = {"compression": given.pop("compression"), "stripe_size": given.pop("stripe_size")}
    if blooms:
        options["bloom_filter_columns"] = blooms
    chosen = {name: value for name, value in options.items() if value is not None}
    if source == target:
        raise InvalidQuery(
            f"source and target are the same file {source}; use orcidx rewrite to change an ORC file in place"
        )
    given["schema"] = _schema(given["schema"])
    done = run(source, target, storage_options=storage, write_options=chosen, **given)
    if as_json:
        print_json(done)
    else:
        click.echo(f"{target}: {counted(done['rows'], 'row')}, {size_text(done['bytes'])}")
        for note in done["notes"]:
            click.echo(f"note: {note}")


def _schema(text: str | None) -> Any:
    """Parses ``A INT, B STRING`` into an Arrow schema. Types have their names in SQL."""
    if text is None:
        return None
    import pyarrow as pa

    from orcidx.paimon.data_types import parse_type

    return pa.schema(list(parse_type(f"ROW<{text}>").arrow_type))
