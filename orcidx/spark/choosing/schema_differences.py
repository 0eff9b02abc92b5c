"""Messages about a read of several files with different columns. A message names two of the files and the option that
reads both.

If a file is not an ORC file, another message names this file. This code runs only after a read has failed, so a
successful read does not get slower. If there are many files, only the first of them are examined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext

from orcidx.errors import CorruptFile, InvalidQuery, OrcidxError
from orcidx.orc.types import OrcType
from orcidx.scanner.file import open_file
from orcidx.spark.query.read_query import Query
from orcidx.spark.query.read_task import broken_files_passed
from orcidx.spark.types.spark_types import json_of_schema
from orcidx.storage import Source, list_sources

__all__ = ["damaged_file", "with_files_named", "without_common_schema"]

MOST_OPENED = 256
"""The maximum number of files that are opened for a message, at about a millisecond each."""


def with_files_named(query: Query, error: InvalidQuery) -> InvalidQuery:
    """Returns the error to raise in place of ``error``. If ``error`` is about a column that differs between files, the
    message of the returned error names two of the files and the option that reads both."""
    if error.column is None or "mergeSchema" in query.reader_options or query.table is not None:
        return error
    hint = _of_types(query, error) if error.file is not None else _of_columns(query, error.column)
    if hint is not None:
        error.message = f"{error.message}; {hint}"
    return error


def without_common_schema(query: Query) -> str | None:
    """The sentence about two files for which ``mergeSchema`` finds no common schema. The result is None if all examined
    files agree."""
    first: dict[str, tuple[str, OrcType]] = {}
    for file, columns in _columns_of_files(query):
        for name, kind in columns.items():
            other, known = first.setdefault(query.folded(name), (file, kind))
            if str(known) != str(kind):
                return (
                    f"the column {name!r} has the type {known} in {other!r} and {kind} in {file!r}, which mergeSchema "
                    "cannot combine: give schema= with a type to which both types widen, or read the files separately"
                )
    return None


def damaged_file(query: Query) -> CorruptFile | None:
    """The error about the first file that is damaged or not an ORC file. The result is None if all examined files are
    valid."""
    passed = query.reader_options.get("ignoreCorruptFiles") == "true"
    for source in _sources(query):
        try:
            with (
                nullcontext() if passed else broken_files_passed(),
                open_file(source, storage_options=query.storage_options),
            ):
                pass
        except CorruptFile as error:
            if passed:
                error.message += "; Spark reads the schema even from damaged files: give schema= as well"
            return error
        except (OrcidxError, OSError):
            continue
    return None


def _of_columns(query: Query, name: str) -> str | None:
    """The sentence about a file with a column that the first file lacks. Such a column is not read, because the schema
    of the first file is used."""
    lacking = None
    if query.schema is not None:
        if any(query.folded(one["name"]) == query.folded(name) for one in json_of_schema(query.schema)["fields"]):
            return None
        lacking = "schema="
    for file, columns in _columns_of_files(query):
        if any(query.folded(one) == query.folded(name) for one in columns):
            if lacking is None:
                return None
            if query.schema is not None:
                return f"{file!r} has it, but schema= does not name it"
            return (
                f"{file!r} has it, but {lacking!r} does not: give options={{'mergeSchema': True}} to read the columns "
                "of all files, or schema= to read the columns that schema= names"
            )
        lacking = lacking or file
    return None


def _of_types(query: Query, error: InvalidQuery) -> str | None:
    """The sentence about a file in which a column has a type that does not widen to the column's type in another
    file."""
    if query.schema is not None:
        return None
    for file, columns in _columns_of_files(query):
        kind = next((columns[one] for one in columns if query.folded(one) == query.folded(error.column or "")), None)
        if file == error.file:
            return None
        if kind is not None:
            return f"it is {kind} in {file!r}, whose schema is used: give schema= with a type to which both types widen"
    return None


def _columns_of_files(query: Query) -> Iterator[tuple[str, Mapping[str, OrcType]]]:
    """The names of the first files with their columns. Files that are missing or cannot be read are left out."""
    for source in _sources(query):
        try:
            with open_file(source, storage_options=query.storage_options) as file:
                columns = {node.path[0]: node for node in file.columns if node.path}
        except (OrcidxError, OSError):
            continue
        if columns:
            yield source.name, columns


def _sources(query: Query) -> list[Source]:
    try:
        found = list_sources(query.reached, storage_options=query.storage_options)
    except (OrcidxError, OSError, ValueError, ImportError):  # e.g. only Hadoop supports the URL's scheme
        return []
    return [source for source in found if source.size != 0][:MOST_OPENED]
