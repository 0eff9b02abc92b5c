"""``orcidx index show``, ``build`` and ``check`` work with Paimon file indexes of a data file. ``describe`` and
``clean`` work with the indexes of a directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orcidx.cli.arguments import as_json, file_argument, open_from, parse_storage_options, storage_option
from orcidx.cli.output import print_json, print_table
from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.orc.python_values import python_values
from orcidx.spellings import counted

if TYPE_CHECKING:
    from orcidx.paimon.file_index import FileIndex

__all__ = ["index"]

_SAMPLED_VALUES = 10
"""The number of values of a column that ``check`` looks up in an index."""

types_option = click.option(
    "--types",
    multiple=True,
    metavar="COLUMN=SQL",
    help="The Paimon type of a column, for example: id=BIGINT. Repeatable.",
)


@click.group()
def index() -> None:
    """Show, build and check Paimon file indexes; describe and clean the indexes of a directory."""


def parse_types(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parses ``COLUMN=SQL`` pairs into a dictionary."""
    from orcidx.paimon.data_types import parse_type

    found = {}
    for pair in pairs:
        column, equals, sql = pair.partition("=")
        if not equals:
            raise InvalidQuery(f"--types must be COLUMN=SQL, not {pair!r}")
        try:
            parse_type(sql)
        except (InvalidQuery, Unsupported) as error:
            raise InvalidQuery(f"{error.message}; give the type of each column, such as --types {column}=INT") from None
        found[column] = sql
    return found


def open_index(
    file: str, types: Mapping[str, str], storage_options: tuple[str, ...], rows: int | None = None
) -> FileIndex:
    """Opens the file index that a command names."""
    from orcidx import paimon

    options = parse_storage_options(storage_options)
    return paimon.read_file_index(file, types=types, rows=rows, storage_options=options)


@index.command(short_help="Show columns, kinds and sizes of the indexes in a file.")
@file_argument
@as_json
@types_option
@storage_option
def show(file: str, as_json: bool, types: tuple[str, ...], storage_options: tuple[str, ...]) -> None:
    """Show columns, kinds and sizes of the indexes in FILE. With --types, also show what each index contains."""
    given = parse_types(types)
    with open_index(file, given, storage_options) as found:
        rows = [_described(found, entry, given) for entry in found.entries]
    if as_json:
        print_json({"file": file, "indexes": rows})
    else:
        print_table(list(_COLUMNS), [[row[name] for name in _COLUMNS] for row in rows])


_COLUMNS = ("column", "kind", "state", "start", "bytes", "rows", "type")


def _described(found: Any, entry: Any, types: Mapping[str, str]) -> dict[str, Any]:
    state, rows = _state(found, entry)
    return {
        "column": entry.column,
        "kind": entry.kind,
        "state": "not opened" if state == _NO_TYPE else state,
        "start": None if entry.payload is None else entry.start,
        "bytes": entry.length,
        "rows": rows,
        "type": types.get(entry.column),
    }


_NO_TYPE = "not checked: no type"


def _state(found: Any, entry: Any) -> tuple[str, int | None]:
    """Returns the state of one index, such as "ok" or "damaged", and its number of rows if the index records that
    number. The index is not read completely."""
    from orcidx.paimon.registry import FORMATS

    if entry.payload is None:
        return "EMPTY", None
    if entry.kind not in FORMATS:
        return "unknown kind", None
    try:
        return "ok", found.index(entry.column, entry.kind).rows
    except InvalidQuery:
        return _NO_TYPE, None
    except Unsupported as error:
        return f"not checked: {error}", None
    except CorruptFile as error:
        return f"damaged: {error}", None


# ---------------------------------------------------------------------- build


F = TypeVar("F", bound=Callable[..., Any])


def _kind_option(kind: str) -> Callable[[F], F]:
    return click.option(
        f"--{kind}",
        multiple=True,
        metavar="COLUMN[:OPTION=VALUE,...]",
        help=f"A {kind} index of a column. Repeatable.",
    )


@index.command(short_help="Build the file index of an ORC file.")
@file_argument
@_kind_option("bitmap")
@_kind_option("bloom-filter")
@_kind_option("bsi")
@_kind_option("range-bitmap")
@types_option
@storage_option
@as_json
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The file to write."
)
def build(
    file: str, output: Path, as_json: bool, types: tuple[str, ...], storage_options: tuple[str, ...], **kinds: Any
) -> None:
    """Build the file index of the ORC file FILE, for example: --bitmap city --bloom-filter id:items=1000,fpp=0.01"""
    from orcidx import paimon
    from orcidx.storage import describe_source
    from orcidx.storage.sink import write_file

    spec = {
        name.replace("_", "-"): dict(map(_parse_wanted, columns)) for name, columns in sorted(kinds.items()) if columns
    }
    if not spec:
        raise InvalidQuery("no index is requested; give --bitmap, --bloom-filter, --bsi or --range-bitmap")
    options = parse_storage_options(storage_options)
    built = paimon.build_file_index(file, spec, types=parse_types(types) or None, storage_options=options)
    write_file(output, built.to_bytes(), made_of=[describe_source(file)])
    rows = [{"column": entry.column, "kind": entry.kind, "bytes": entry.length} for entry in built.entries]
    if as_json:
        print_json({"file": str(output), "indexes": rows})
    else:
        print_table(["column", "kind", "bytes"], [list(row.values()) for row in rows])


def _parse_wanted(wanted: str) -> tuple[str, dict[str, str]]:
    """Returns the column and the options in a text such as ``id:items=1000,fpp=0.01``. A colon that is not followed by
    options belongs to the column's name."""
    column, colon, tail = wanted.rpartition(":")
    if not colon or "=" not in tail:
        return wanted, {}
    options = {}
    for item in tail.split(","):
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise InvalidQuery(f"{wanted!r}: {item!r} is not OPTION=VALUE")
        options[name.strip()] = value.strip()
    return column, options


# ---------------------------------------------------------------------- check


@index.command(short_help="Read every index in a file, and compare it with the data.")
@file_argument
@click.argument("datafile", required=False)
@as_json
@types_option
@storage_option
def check(
    file: str, datafile: str | None, as_json: bool, types: tuple[str, ...], storage_options: tuple[str, ...]
) -> int:
    """Read every index in FILE completely. With DATAFILE, also compare columns, types, the number of rows, nulls and
    some values. Exit code 1: an index has a problem, or nothing could be compared.

    Types that --types leaves out are taken from DATAFILE. An index of a column without a type is not checked.
    """
    given = parse_types(types)
    if datafile is None:
        with open_index(file, given, storage_options) as found:
            rows = [_checked(found, entry, None) for entry in found.entries]
    else:
        from orcidx.planner.index_evidence import paimon_types

        with open_from(datafile, storage_options) as data:
            given = {**paimon_types(data.schema.names, data.columns), **given}
            with open_index(file, given, storage_options, data.num_rows) as found:
                rows = [_checked(found, entry, data) for entry in found.entries]
    problems = sum(row["state"].startswith(("damaged", "wrong")) for row in rows)
    nothing = datafile is not None and bool(rows) and not any(row["state"].startswith("ok") for row in rows)
    if as_json:
        print_json({"file": file, "problems": problems, "indexes": rows})
    else:
        print_table(["column", "kind", "state"], [list(row.values()) for row in rows])
        unknown = dict.fromkeys(row["column"] for row in rows if row["state"] == _NO_TYPE)
        if unknown:
            how = "--types COLUMN=SQL" if datafile else "--types COLUMN=SQL, or the data file"
            click.echo(
                f"not checked, because the types of these columns are not known: {', '.join(unknown)}; give {how}",
                err=True,
            )
    return 1 if problems or nothing else 0


def _checked(found: Any, entry: Any, data: Any) -> dict[str, str]:
    state, _ = _state(found, entry)
    if data is not None:
        state = _mismatch(found, entry, data) or state
    if state == "ok":
        try:
            found.index(entry.column, entry.kind).check()
            state = _compared(found, entry, data) if data is not None else state
        except CorruptFile as error:
            state = f"damaged: {error}"
    return {"column": entry.column, "kind": entry.kind, "state": state}


def _mismatch(found: Any, entry: Any, data: Any) -> str | None:
    """Returns the reason why an index cannot belong to the data file: its column, its number of rows or its type
    differs. The result is None if there is no such difference."""
    from orcidx.paimon.container import split_map_key
    from orcidx.paimon.file_index import OtherRows
    from orcidx.paimon.registry import FORMATS

    name = split_map_key(entry.column, data.schema.names)[0]
    if name not in data.schema.names:
        return f"wrong: the data file has no column {name}"
    if entry.payload is None:
        return None if not data.num_rows else _wrongly_empty(entry, data)
    if entry.kind not in FORMATS:
        return None
    try:
        found.index(entry.column, entry.kind)
    except InvalidQuery:
        return None
    except Unsupported as error:
        return f"wrong: the column in the data file has the type {data.schema.field(name).type}: {error}"
    except OtherRows as error:
        return f"wrong: {error.message}"
    except CorruptFile:
        return None
    return None


def _wrongly_empty(entry: Any, data: Any) -> str | None:
    """Checks an EMPTY index, which states that the column has no values. Returns a text if the data file has values in
    this column, or None if it has not."""
    from orcidx import col

    if entry.column not in data.schema.names:
        return None
    count = data.scan([entry.column], ~col(entry.column).is_null()).count_rows()
    return f"wrong: the index is empty, but the data file has {count} values" if count else None


def _compared(found: Any, entry: Any, data: Any) -> str:
    """Looks up some values of the data file in the index. Returns ``ok`` if the index finds the right rows. Otherwise
    returns a text that names a value for which the index finds other rows."""
    from orcidx import RowSelection, col

    name = entry.column
    if name not in data.schema.names:
        return "ok, not compared: the data file has no such column"
    batch = next(iter(data.scan([name], batch_size=4096)), None)
    values = [] if batch is None else batch.column(0).drop_null().unique()
    sample = list(zip(values, python_values(values)))[:: max(1, len(values) // _SAMPLED_VALUES)] if len(values) else []
    equal = ((col(name) == scalar, f"= {value!r}") for scalar, value in sample if value == value)
    questions = [(col(name).is_null(), "IS NULL"), *equal]
    for where, shown in questions:
        verdict = _answer(found, entry, where)
        if verdict is None or verdict.rows is None:
            continue
        numbers = data.scan([], where, row_numbers=True).to_table()["row_number"].combine_chunks().to_numpy()
        matching = RowSelection.from_positions(numbers, data.num_rows).bitmap()
        lost = matching - verdict.rows
        if lost:
            return f"wrong: for {name} {shown}, the index lacks {counted(len(lost), 'row')}, first row {lost.min()}"
        if verdict.exact and len(verdict.rows) != len(matching):
            return f"wrong: for {name} {shown}, the index has {counted(len(verdict.rows), 'row')}, not {len(matching)}"
    return "ok"


def _answer(found: Any, entry: Any, where: Any) -> Any:
    """Returns the result of evaluating the condition with this one index. The result is None if the index does not
    support the condition."""
    import pyarrow as pa

    from orcidx.predicate import BoundLeaf, bind, parse

    index = found.index(entry.column, entry.kind)
    kind = index.data_type
    lengths: dict[tuple[str, ...], int] = {(entry.column,): kind.length} if kind.root == "CHAR" else {}
    try:
        root = bind(parse(where), pa.schema([pa.field(entry.column, kind.arrow_type)]), char_lengths=lengths).root
        return index.test(root) if isinstance(root, BoundLeaf) else None
    except (InvalidQuery, Unsupported):
        return None


# ---------------------------------------------------------------------- a directory


def _print_summary(summary: Any, as_json: bool) -> None:
    if as_json:
        print_json(summary.to_dict())
    else:
        click.echo(str(summary))


directory_argument = click.argument("directory")


@index.command(short_help="Show which files of a directory are indexed, and how.")
@directory_argument
@as_json
@storage_option
@click.option("--verify", is_flag=True, help="Also read and check every index file completely.")
def describe(directory: str, as_json: bool, storage_options: tuple[str, ...], verify: bool) -> None:
    """Show which files of DIRECTORY are indexed, and by which indexes. Also show files that changed after they were
    indexed, and files whose index is missing. This command opens no data file."""
    from orcidx.index_directory.describe import describe_indexes

    options = parse_storage_options(storage_options)
    _print_summary(describe_indexes(directory, verify=verify, storage_options=options), as_json)


@index.command(short_help="Delete old files of index jobs in a directory.")
@directory_argument
@as_json
@storage_option
@click.option(
    "--older-than", default=86400.0, show_default=True, metavar="SECONDS", help="Keep files that are younger than this."
)
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
def clean(directory: str, as_json: bool, storage_options: tuple[str, ...], older_than: float, dry_run: bool) -> None:
    """Delete old files of index jobs in DIRECTORY: incomplete files, replaced catalogs, and indexes that no catalog
    names."""
    from orcidx.index_directory.clean import clean_indexes

    options = parse_storage_options(storage_options)
    done = clean_indexes(directory, older_than=older_than, dry_run=dry_run, storage_options=options)
    _print_summary(done, as_json)
