"""Arguments and options that several commands share, and functions that open the named files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from orcidx.errors import InvalidQuery, OrcidxError

if TYPE_CHECKING:
    from orcidx.scanner.file import OrcFile
    from orcidx.scanner.scan import Scan
    from orcidx.storage import Source

__all__ = [
    "FilesDone",
    "as_json",
    "columns_option",
    "each_file",
    "file_argument",
    "fresh_option",
    "html_option",
    "limit_option",
    "list_files",
    "open_from",
    "parse_top",
    "query_options",
    "scan_from",
    "sources_argument",
    "storage_option",
    "top_option",
    "where_option",
]

file_argument = click.argument("file")
sources_argument = click.argument("sources", nargs=-1, required=True)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, in a stable form for programs.")
columns_option = click.option(
    "-c", "--columns", metavar="A,B.C", help="Only these columns: names or dotted paths, separated by commas."
)
where_option = click.option(
    "-w", "--where", metavar="SQL", help="Only rows for which this condition is true, for example: id > 5"
)
limit_option = click.option("-n", "--limit", type=click.IntRange(min=0), help="Maximum number of rows.")
top_option = click.option(
    "--top",
    metavar="COLUMN[:asc|desc[:first|last]],...",
    help="Return the first --limit rows in this order, with nulls last.",
)
storage_option = click.option(
    "--storage-option",
    "storage_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option for the storage, for example anon=true. Repeatable.",
)

fresh_option = click.option(
    "--fresh",
    type=click.Choice(["listing", "catalog"]),
    default="listing",
    show_default=True,
    help="How files are found: by listing, or in the catalog of one directory.",
)

html_option = click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a self-contained HTML page to this file."
)


def query_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a command that reads rows, or plans to read rows: output, columns, condition, storage."""
    for option in (storage_option, where_option, columns_option, as_json):
        command = option(command)
    return command


def parse_columns(columns: str | None) -> list[str] | None:
    """Parses names such as ``a,b.c`` into a list. None means all columns."""
    if columns is None:
        return None
    return [name.strip() for name in columns.split(",") if name.strip()]


def parse_top(top: str | None) -> list[tuple[str, ...]] | None:
    """Parses ``score:desc:last,id`` into the form that ``Table.scan`` accepts."""
    if top is None:
        return None
    return [tuple(part.strip() for part in key.split(":")) for key in top.split(",")]


def parse_storage_options(pairs: tuple[str, ...]) -> dict[str, Any] | None:
    """Parses ``KEY=VALUE`` pairs into a dictionary. true and false become bool. The result is None if there are no
    pairs."""
    from orcidx.storage import options_of_text

    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InvalidQuery(f"--storage-option must be KEY=VALUE, not {pair!r}")
        found[key] = value
    return options_of_text(found) or None


def open_from(file: str, storage_options: tuple[str, ...] = ()) -> OrcFile:
    """Opens the one file that a command names. ``-`` is standard input."""
    from orcidx.scanner.file import OrcFile

    return OrcFile(_described(file, storage_options))


def _described(name: str, storage_options: tuple[str, ...]) -> Source:
    from orcidx.storage import describe_source

    if name == "-":
        return replace(describe_source(sys.stdin.buffer.read()), name="<stdin>")
    return describe_source(name, storage_options=parse_storage_options(storage_options))


def list_files(sources: Sequence[str], storage_options: tuple[str, ...] = ()) -> list[Source]:
    """Returns the files that a command names: files, directories, globs, URLs, and ``-`` for standard input.

    Raises ``FileNotFoundError`` for a name that matches no file.
    """
    from orcidx.storage import list_sources

    options = parse_storage_options(storage_options)
    found: list[Source] = []
    for name in sources:
        listed = [_described("-", ())] if name == "-" else list_sources(name, storage_options=options)
        if not listed:
            raise FileNotFoundError(f"no file found in {name}")
        found += listed
    return found


def scan_from(
    sources: Sequence[str],
    storage_options: tuple[str, ...],
    *arguments: Any,
    fresh: Literal["listing", "catalog"] = "listing",
    **named: Any,
) -> Scan:
    """Makes one scan of the files that a command names."""
    import orcidx

    options = parse_storage_options(storage_options)
    listed: Any = list_files(sources, storage_options) if fresh == "listing" else _one_directory(sources)
    return orcidx.scan(listed, *arguments, storage_options=options, fresh=fresh, **named)


def _one_directory(sources: Sequence[str]) -> str:
    if len(sources) != 1:
        raise InvalidQuery(
            f"--fresh catalog reads the catalog of one directory, but {len(sources)} names are given; use --fresh "
            "listing"
        )
    return sources[0]


class FilesDone:
    """Processes files one by one. After an error in one file, the next files are still processed. The first error is
    raised after all files are processed. Later errors are printed at once."""

    def __init__(self) -> None:
        self._first: OrcidxError | OSError | None = None

    @contextmanager
    def file(self) -> Iterator[None]:
        """Processes one file."""
        try:
            yield
        except BrokenPipeError:
            raise
        except (OrcidxError, OSError) as error:
            if self._first is None:
                self._first = error
            else:
                click.echo(f"orcidx: {error}", err=True)

    def finish(self) -> None:
        """Raises the first error."""
        if self._first is not None:
            raise self._first


def each_file(files: Sequence[Source], show: Callable[[OrcFile], None]) -> None:
    """Opens the files one by one, and calls ``show`` with each file."""
    from orcidx.cli.progress import tracked
    from orcidx.scanner.file import OrcFile

    done = FilesDone()
    for source in tracked(files, "files"):
        with done.file(), OrcFile(source) as file:
            show(file)
    done.finish()
