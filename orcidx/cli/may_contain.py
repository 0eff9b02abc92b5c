"""``orcidx may-contain`` shows which keys a file may contain."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import click

from orcidx.cli.arguments import as_json, file_argument, list_files, storage_option
from orcidx.cli.output import print_json, print_table
from orcidx.errors import InvalidQuery

if TYPE_CHECKING:
    import pyarrow as pa

    from orcidx.storage import Source

__all__ = ["may_contain"]


@click.command("may-contain", context_settings={"ignore_unknown_options": True})
@file_argument
@click.argument("column")
@click.argument("keys", nargs=-1, type=click.UNPROCESSED)
@as_json
@storage_option
@click.option("--null", is_flag=True, help="Also show whether COLUMN may contain null.")
@click.option(
    "--file-index", metavar="PATH", help="A Paimon file index of FILE. The default is its index in _orcidx/, if any."
)
def may_contain(
    file: str,
    column: str,
    keys: tuple[str, ...],
    as_json: bool,
    storage_options: tuple[str, ...],
    null: bool,
    file_index: str | None,
) -> int:
    """Show which of KEYS may occur in COLUMN of FILE (a path, URL, - for standard input), and why. Statistics, bloom
    filters, dictionaries and indexes are used, and no rows are read. Times are ISO 8601, bytes are hexadecimal, and nan
    means NaN. Exit code 1: the file contains none of the keys."""
    from orcidx.scanner.file import OrcFile

    if not keys and not null:
        raise InvalidQuery("no key is given; give at least one key, or --null")
    (source,) = list_files([file], storage_options)[:1]
    index: Any = file_index
    notes: tuple[Any, ...] = ()
    with OrcFile(source) as opened:
        kind = _type_of(opened, column)
        if index is None:
            index, notes = _index_beside(source, column)
        asked = [_key(key, kind, column) for key in keys] + [None] * null
        answers = opened.explain_keys(column, asked, file_index=index)
    shown = [*keys, *(["null"] * null)]
    found = answers.may_contain.to_pylist()
    notes += answers.notes
    if as_json:
        listed = [
            {"key": key, "may_contain": may, "reason": reason}
            for key, may, reason in zip([*keys, *([None] * null)], found, answers.reasons, strict=True)
        ]
        told = [{"source": one.source, "kind": one.kind, "text": one.text, "stripe": one.stripe} for one in notes]
        print_json({"file": source.name, "column": answers.column, "keys": listed, "notes": told})
    else:
        words = ["yes" if may else "no" for may in found]
        print_table(["key", "may contain", "reason"], list(zip(shown, words, answers.reasons, strict=True)))
        for note in notes:
            click.echo(f"note: {note.source} {note.kind}: {note.text}")
    return 0 if any(found) else 1


def _index_beside(source: Source, column: str) -> tuple[Any, tuple[Any, ...]]:
    """Finds the index of the file among the indexes of its directory, as a scan does. Returns the index, or None if
    there is none, and notes about problems."""
    from orcidx.index_directory.lookup import index_of_file

    return index_of_file(source, (column,))


def _type_of(file: Any, column: str) -> pa.DataType:
    from orcidx.predicate import resolve_column

    return resolve_column((column,), file.schema)[1]


def _key(text: str, kind: pa.DataType, column: str) -> Any:
    """Converts a typed key into a value that ``where`` accepts for a column of this type."""
    from orcidx.predicate import Domain
    from orcidx.predicate.literals import domain_of

    domain = domain_of(kind)
    try:
        if domain in (Domain.INT, Domain.DECIMAL, Domain.FLOAT):
            return int(text) if text.lstrip("+-").isdecimal() else Decimal(text)
        if domain is Domain.BOOL:
            return {"true": True, "false": False}[text.lower()]
        if domain is Domain.BINARY:
            return bytes.fromhex(text)
    except (InvalidOperation, KeyError, ValueError):
        wanted = {Domain.BOOL: "true or false", Domain.BINARY: "hexadecimal digits"}.get(domain, "a number")
        raise InvalidQuery(
            f"{text!r} is not a valid key of {column}, which has the type {kind}; give {wanted}", column=column
        ) from None
    return text
