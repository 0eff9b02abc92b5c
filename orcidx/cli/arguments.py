"""Arguments and options that several commands share, and opening a file with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from orcidx.errors import InvalidQuery

__all__ = ["as_json", "columns_option", "file_argument", "open_from", "storage_option", "where_option"]

F = TypeVar("F", bound=Callable[..., Any])

file_argument = click.argument("file")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON (stable; for programs).")
columns_option = click.option(
    "-c", "--columns", metavar="A,B.C", help="Only these columns: names or dotted paths with commas between them."
)
where_option = click.option("-w", "--where", metavar="SQL", help="Only rows for which this is true, as in: id > 5")
storage_option = click.option(
    "--storage-option",
    "storage_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="For the storage, such as anon=true; repeatable.",
)


def parse_columns(columns: str | None) -> list[str] | None:
    """The names in ``a,b.c``; None for all."""
    if columns is None:
        return None
    return [name.strip() for name in columns.split(",") if name.strip()]


def parse_storage_options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """``KEY=VALUE`` pairs as a dictionary; true and false are truth values."""
    from orcidx.storage import options_of_text

    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InvalidQuery(f"--storage-option wants KEY=VALUE, not {pair!r}")
        found[key] = value
    return options_of_text(found)


def open_from(file: str, storage_options: tuple[str, ...] = ()) -> Any:
    """Opens the file that a command names; ``-`` is standard input."""
    import sys

    import orcidx

    if file == "-":
        return orcidx.open(sys.stdin.buffer.read())
    return orcidx.open(file, storage_options=parse_storage_options(storage_options) or None)
