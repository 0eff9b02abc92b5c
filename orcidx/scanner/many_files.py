"""``orcidx.scan``: the rows of many files as one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.options import OptionsByName, ReadOptions
from orcidx.planner.request import FileJob
from orcidx.scanner.file import make_scan
from orcidx.scanner.scan import Scan
from orcidx.storage import Source, list_sources

__all__ = ["partition_values", "scan"]

_INTEGER = re.compile(r"-?[0-9]{1,19}")


def scan(
    sources: Any,
    columns: Sequence[str | Sequence[str]] | None = None,
    where: Any = None,
    *,
    limit: int | None = None,
    row_numbers: bool | str = False,
    file_path: bool | str = False,
    selection: Mapping[Any, Any] | None = None,
    deletion_vector: Mapping[Any, Any] | None = None,
    file_index: Mapping[Any, Any] | None = None,
    schema: pa.Schema | None = None,
    match: Literal["name", "position", "field_id"] = "name",
    hive_partitions: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
    options: ReadOptions | None = None,
    **option_overrides: Unpack[OptionsByName],
) -> Scan:
    """A scan of one file or many; the files are listed now, and read when the scan is iterated.

    ``sources``: a file, directory, glob or URL prefix, or an iterable of them, read in the order given; a directory's
    files are sorted by path, hidden and empty ones left out. Every file is read into ``schema``, else into the first
    file's: columns found by ``match``, missing ones null, types widened where no value can be lost; ``InvalidQuery``
    naming the file, the column and both types for anything else. ``key=value`` directories become columns
    (``hive_partitions``; integers where every value is one, else strings), and files that ``where`` rules out by them
    are not opened. ``file_path`` adds the source of each row (True, or a name), ``row_numbers`` its number in its file.
    ``selection``, ``deletion_vector`` and ``file_index`` come by path: ``{path: ...}``. For the rest see
    ``OrcFile.scan``; any option may be given by name, see ``ReadOptions``.

    Raises ``FileNotFoundError``, and ``InvalidQuery`` where there is no file and no ``schema``.
    """
    found = list_sources(sources, storage_options=storage_options, filesystem=filesystem)
    files = [source for source in found if source.size != 0 or source.root is None]
    if not files and schema is None:
        raise InvalidQuery(f"no files to scan in {sources!r}; to get an empty result, give schema=")
    chosen = _by_file(files, selection=selection, deleted=deletion_vector, file_index=file_index)
    constants = partition_values(files, schema) if hive_partitions else [{} for _ in files]
    jobs = [FileJob(source, constants=values, **chosen[i]) for i, (source, values) in enumerate(zip(files, constants))]
    return make_scan(
        jobs,
        columns,
        where,
        limit=limit,
        row_numbers=row_numbers,
        schema=schema,
        options=(options or ReadOptions()).override(**option_overrides),
        match=match,
        file_path=file_path,
    )


def _by_file(files: Sequence[Source], **given: Mapping[Any, Any] | None) -> list[dict[str, Any]]:
    """For each file, what was given for its path."""
    numbers: dict[str, int] = {}
    for number, source in enumerate(files):
        numbers.setdefault(source.name, number)
        if isinstance(source.location, str):
            numbers.setdefault(source.location, number)
    chosen: list[dict[str, Any]] = [{} for _ in files]
    for what, by_path in given.items():
        for key, value in (by_path or {}).items():
            path = os.fspath(key)
            number = numbers.get(path, numbers.get(os.path.abspath(path), -1))
            if number < 0:
                raise InvalidQuery(f"{what} is given for {path!r}, which is none of the {len(files)} files of the scan")
            chosen[number][what] = value
    return chosen


def partition_values(files: Sequence[Source], schema: pa.Schema | None = None) -> list[dict[str, pa.Scalar]]:
    """The ``key=value`` directories of each file as typed constants, with the same keys for all.

    A key's type is that of the column in ``schema``; else int64 where all values are integers, else string. Null where
    a file has no such directory. Raises ``InvalidQuery`` for a value that is not of the schema's type.
    """
    partitions = [source.partition for source in files]
    keys = dict.fromkeys(key for partition in partitions for key in partition)
    kinds = {key: _kind_of(key, [partition.get(key) for partition in partitions], schema) for key in keys}
    known: dict[tuple[str, str | None], pa.Scalar] = {}
    values = []
    for source, partition in zip(files, partitions):
        for key in keys:
            text = partition.get(key)
            if (key, text) not in known:
                known[key, text] = _typed(text, kinds[key], key, source)
        values.append({key: known[key, partition.get(key)] for key in keys})
    return values


def _kind_of(key: str, texts: list[str | None], schema: pa.Schema | None) -> pa.DataType:
    if schema is not None and key in schema.names:
        return schema.field(key).type
    present = [text for text in texts if text is not None]
    integers = all(_INTEGER.fullmatch(text) and -(1 << 63) <= int(text) < 1 << 63 for text in present)
    return pa.int64() if present and integers else pa.string()


def _typed(text: str | None, kind: pa.DataType, key: str, source: Source) -> pa.Scalar:
    try:
        return pa.scalar(text, pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = f"the partition {key}={text} is no {kind}: {error}"
        raise InvalidQuery(message, file=source.name, column=key) from None
