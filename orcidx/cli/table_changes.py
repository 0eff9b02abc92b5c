"""``orcidx table index``, ``delete`` and ``append`` change Paimon tables. They print the plan, and make the change only
with ``--yes``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from orcidx.cli.arguments import as_json, parse_storage_options, storage_option, where_option
from orcidx.cli.coarse_times import check_digits
from orcidx.cli.output import print_json
from orcidx.cli.progress import progress
from orcidx.cli.table import external_option, open_table, table
from orcidx.errors import InvalidQuery

if TYPE_CHECKING:
    from orcidx.scanner.scan import Scan

__all__ = ["append", "delete", "index", "table"]

_OPTIONS = (
    click.option("--yes", is_flag=True, help="Make the change. Without this option only the plan is printed."),
    click.option(
        "--commit-user",
        metavar="NAME",
        help="The name of the committer. With --identifier the change is made only once.",
    ),
    click.option(
        "--identifier", type=click.IntRange(min=0), help="The number of this change among the changes of --commit-user."
    ),
    click.option("--since", type=click.IntRange(min=0), help="The newest snapshot before this change was first tried."),
    click.option(
        "--retries", type=click.IntRange(min=0), help="How often to retry after a conflict with another commit."
    ),
    click.option(
        "--single-writer",
        is_flag=True,
        help="Declares that nobody else commits. Needed for storages without exclusive creation.",
    ),
    click.option(
        "--allow-option", "allow_options", multiple=True, metavar="NAME", help="An unsupported table option to ignore."
    ),
    click.option("--jvm-zone", type=click.Choice(["UTC"]), help="The time zone of every JVM that uses the table."),
)


def commit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that every change has."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _shown(change: Callable[..., Any], given: dict[str, Any], *, as_json: bool) -> None:
    """Makes or plans the change, and prints the result."""
    yes = given.pop("yes")
    with _progress_bar() as seen:
        result = change(**given, dry_run=not yes, progress=seen)
    if as_json:
        print_json(result.to_dict())
        return
    click.echo(str(result))
    for status, names in result.files.items():
        for name in names:
            click.echo(f"  {status}: {name}")
    for note in result.notes:
        click.echo(f"note: {note}")
    if result.rollback:
        click.echo(f"to undo the change: {result.rollback}")
    if not yes:
        click.echo("nothing was changed; give --yes to make the change")


@contextmanager
def _progress_bar() -> Iterator[Callable[[int, int], None]]:
    """Shows on a terminal how many files are finished, as soon as the total number is known."""
    with ExitStack() as stack:
        advance: list[Callable[[int], Any]] = []

        def seen(_: int, files: int) -> None:
            if not advance:
                advance.append(stack.enter_context(progress("files", files)))
            advance[0](1)

        yield seen


def _spec(columns: tuple[str, ...]) -> dict[str, dict[str, dict[str, Any]]] | None:
    """Parses texts such as ``bitmap:city,zip`` into kinds of indexes with their columns."""
    spec: dict[str, dict[str, dict[str, Any]]] = {}
    for given in columns:
        kind, colon, names = given.partition(":")
        if not colon or not names.strip():
            raise InvalidQuery(f"--column must be KIND:NAME,NAME such as bitmap:city, not {given!r}")
        spec.setdefault(kind.strip(), {}).update({name.strip(): {} for name in names.split(",")})
    return spec or None


@table.command(short_help="Build file indexes for the data files of a table.")
@click.argument("path")
@where_option
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="KIND:A,B",
    help="Index these columns. The default is the options of the table.",
)
@click.option("--all", "everything", is_flag=True, help="Also build indexes of files that already have them.")
@commit_options
@as_json
@storage_option
@external_option
def index(
    path: str,
    where: str | None,
    columns: tuple[str, ...],
    everything: bool,
    as_json: bool,
    storage_options: tuple[str, ...],
    external_paths: tuple[str, ...],
    **given: Any,
) -> None:
    """Build file indexes for the data files of the table at PATH, in the partitions that --where selects."""
    opened = open_table(path, None, storage_options, external_paths)
    given |= {"where": where, "spec": _spec(columns), "only_missing": not everything}
    _shown(opened.rewrite_file_index, given, as_json=as_json)


@table.command(short_help="Delete rows of an append table by deletion vectors.")
@click.argument("path")
@where_option
@click.option("--everything", is_flag=True, help="Delete every row.")
@click.option("--isolation", type=click.Choice(["snapshot", "serializable"]), default="snapshot", show_default=True)
@commit_options
@as_json
@storage_option
@external_option
def delete(
    path: str, as_json: bool, storage_options: tuple[str, ...], external_paths: tuple[str, ...], **given: Any
) -> None:
    """Delete rows of the append table at PATH by deletion vectors."""
    _shown(open_table(path, None, storage_options, external_paths).delete, given, as_json=as_json)


@table.command(short_help="Append the rows of ORC files to a table.")
@click.argument("path")
@click.argument("files", nargs=-1, required=True)
@commit_options
@as_json
@storage_option
@external_option
def append(
    path: str,
    files: tuple[str, ...],
    as_json: bool,
    storage_options: tuple[str, ...],
    external_paths: tuple[str, ...],
    **given: Any,
) -> None:
    """Append the rows of ORC FILES to the table at PATH."""
    import orcidx

    opened = open_table(path, None, storage_options, external_paths)
    stores = parse_storage_options(storage_options)
    rows = orcidx.scan(list(files), storage_options=stores, timestamp_unit="us")
    # A column is read in nanoseconds only if its type in the table has nanoseconds. Microseconds have a larger range.
    fine = {field.name for field in opened.schema if pa.types.is_timestamp(field.type) and field.type.unit == "ns"}
    schema = _in_nanoseconds(_of_every_file(rows), fine)
    if schema != rows.schema:
        rows = orcidx.scan(list(files), storage_options=stores, timestamp_unit="us", schema=schema)

    def with_bar() -> Iterator[Any]:
        with progress("rows", None) as advance:
            for batch in rows:
                yield batch
                advance(batch.num_rows)

    def change(
        *, progress: Any, **named: Any
    ) -> Any:  # ``progress`` is not used: it counts existing files, but an append makes new files
        check_digits(files, rows.schema, opened.table_schema.by_name, stores)
        return opened.append(pa.RecordBatchReader.from_batches(rows.schema, with_bar()), **named)

    _shown(change, given, as_json=as_json)


def _of_every_file(rows: Scan) -> pa.Schema:
    """The schema of the first file, and the columns that only other files have. Without these columns, a scan would
    leave out their values."""
    from orcidx.scanner.file import open_file

    fields = {field.name: field for field in rows.schema}
    for job in rows.jobs[1:]:
        with open_file(job.source, options=rows.options) as opened:
            for field in opened.schema:
                fields.setdefault(field.name, field.with_nullable(True))
    return pa.schema(list(fields.values()), rows.schema.metadata)


def _in_nanoseconds(schema: pa.Schema, names: set[str]) -> pa.Schema:
    """The schema with the unit ns for the timestamp columns in ``names``."""
    fields = [
        field.with_type(pa.timestamp("ns", field.type.tz))
        if field.name in names and pa.types.is_timestamp(field.type)
        else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata)
