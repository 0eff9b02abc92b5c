"""``orcidx rewrite``, ``merge`` and ``convert``: files made of files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from orcidx.cli.arguments import as_json, parse_columns, parse_storage_options, storage_option
from orcidx.cli.output import print_json
from orcidx.errors import InvalidQuery
from orcidx.spellings import counted

__all__ = ["convert", "merge", "rewrite"]

_CODECS = click.Choice(["uncompressed", "zlib", "snappy", "lz4", "zstd"], case_sensitive=False)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class _Size(click.ParamType):  # type: ignore[type-arg]  # click before 8.2 has none
    """``64MiB``, ``64M`` or a number of bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().lower().removesuffix("b").removesuffix("i")
        unit = text[-1:] if text[-1:] in ("k", "m", "g") else ""
        number = text.removesuffix(unit)
        if not number.isdecimal():
            self.fail(f"{value!r} is no size, as in 64M", param, ctx)
        return int(number) * _UNITS[unit]


SIZE = _Size()

_SHAPE = (
    click.option("--sort-by", metavar="A,B:desc", help="Sort rows by these columns; nulls last."),
    click.option("--cluster-by", metavar="A,B", help="Z-order: rows that are near in all these columns come together."),
    click.option("--bloom", "blooms", multiple=True, metavar="A,B", help='Give these columns bloom filters; "*": all.'),
    click.option("--compression", type=_CODECS, help="Codec; else that of the first file."),
    click.option("--compression-level", type=int, metavar="N"),
    click.option("--compression-block-size", type=SIZE, metavar="SIZE"),
    click.option("--stripe-size", type=SIZE, metavar="SIZE", help="As in 64M."),
    click.option("--row-index-stride", type=click.IntRange(min=0), metavar="ROWS", help="Rows of a row group."),
    click.option("--sort-memory", type=SIZE, default="1G", show_default=True, help="Beyond, DuckDB sorts."),
)
_MANNER = (
    click.option("--no-verify", is_flag=True, help="Do not read the result again before it gets its name."),
    click.option("--overwrite", is_flag=True, help="Replace a target that is there."),
    click.option("--dry-run", is_flag=True, help="Only say what would be done, and why."),
    click.option(
        "--timestamp-unit", type=click.Choice(["us", "ns"]), help="For years that nanoseconds do not reach: us."
    ),
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((*_SHAPE, *_MANNER)):
        command = option(command)
    return storage_option(as_json(command))


def _sort_keys(text: str | None) -> list[tuple[str, str]] | None:
    """``a,b:desc`` as ``sort_by`` takes it; a colon without a direction behind it is the column's own."""
    keys = []
    for given in parse_columns(text) or ():
        name, _, direction = given.rpartition(":")
        known = {"asc": "ascending", "desc": "descending"}.get(direction.lower())
        keys.append((name, known) if known and name else (given, "ascending"))
    return keys or None


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``orcidx.rewrite`` from those of a command."""
    from orcidx.options import ReadOptions

    unit, storage = given.pop("timestamp_unit"), given.pop("storage_options")
    return {
        "sort_by": _sort_keys(given.pop("sort_by")),
        "cluster_by": parse_columns(given.pop("cluster_by")),
        "bloom_filters": [name for names in given.pop("blooms") for name in parse_columns(names) or ()],
        "verify": not given.pop("no_verify"),
        "read": ReadOptions(timestamp_unit=unit) if unit else None,
        "storage_options": parse_storage_options(storage) or None,
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
@click.option("--merge", is_flag=True, help="All files into the one file OUT.")
@_options
def rewrite(sources: tuple[str, ...], target: str, as_json: bool, **given: Any) -> None:
    """Write ORC files anew: sorted, clustered, with bloom filters, recompressed, merged.

    IN: files, directories or globs. One file becomes the file OUT; several become files of the directory OUT, or with
    --merge the one file OUT, which may be one of them. The cheapest way is taken that does what is asked: copying
    stripes, recompressing them, adding indexes to untouched data, or encoding all rows; --dry-run says which.
    """
    from orcidx.rewriting.rewrite import rewrite as run

    _print(run(list(sources), target, **_arguments(given)), as_json)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="IN...")
@click.argument("target", metavar="OUT")
@_options
def merge(sources: tuple[str, ...], target: str, as_json: bool, **given: Any) -> None:
    """Make one ORC file OUT of the ORC files IN, by copying their stripes where that does.

    The same as: orcidx rewrite --merge
    """
    from orcidx.rewriting.rewrite import rewrite as run

    _print(run(list(sources), target, merge=True, **_arguments(given)), as_json)


@click.command()
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option("--compression", type=_CODECS, help="Codec of an ORC file.")
@click.option("--bloom", "blooms", multiple=True, metavar="A,B", help="Bloom filters of an ORC file.")
@click.option("--stripe-size", type=SIZE, metavar="SIZE", help="As in 64M.")
@click.option("--from", "source_format", metavar="FORMAT", help="orc, parquet, csv or jsonl; else IN's suffix tells.")
@click.option("--to", "target_format", metavar="FORMAT", help="Likewise for OUT.")
@click.option("--overwrite", is_flag=True, help="Replace a target that is there.")
@click.option("--timestamp-unit", type=click.Choice(["us", "ns"]), default="ns", help="Of an ORC file that is read.")
@click.option(
    "--schema", metavar="'A INT, B STRING'", help="Types of columns of CSV or JSON lines; the others are found."
)
@as_json
@storage_option
def convert(source: str, target: str, as_json: bool, **given: Any) -> None:
    """Convert between ORC, Parquet, CSV and JSON lines, as the suffixes say: .orc .parquet .csv .tsv .jsonl .ndjson
    .json.

    One of the two is ORC. OUT appears when it is finished. A column of CSV or JSON lines whose values a number or a
    time would change (01234, 12345678901234567890) stays text, and a note says so; --schema gives it a type.
    """
    from orcidx.rewriting.convert import convert as run

    storage = parse_storage_options(given.pop("storage_options")) or None
    blooms = [name for names in given.pop("blooms") for name in parse_columns(names) or ()]
    options = {"compression": given.pop("compression"), "stripe_size": given.pop("stripe_size")}
    if blooms:
        options["bloom_filter_columns"] = blooms
    chosen = {name: value for name, value in options.items() if value is not None}
    if source == target:
        raise InvalidQuery(f"{source} cannot become itself; orcidx rewrite changes ORC files in place")
    given["schema"] = _schema(given["schema"])
    done = run(source, target, storage_options=storage, write_options=chosen, **given)
    if as_json:
        print_json(done)
    else:
        click.echo(f"{target}: {counted(done['rows'], 'row')}, {done['bytes']:,} bytes")
        for note in done["notes"]:
            click.echo(f"note: {note}")


def _schema(text: str | None) -> Any:
    """``A INT, B STRING`` as an Arrow schema; types in the words of SQL."""
    if text is None:
        return None
    import pyarrow as pa

    from orcidx.paimon.data_types import parse_type

    return pa.schema(list(parse_type(f"ROW<{text}>").arrow_type))
