"""Converts the ``key=value`` directories of many files to columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.storage import Source

__all__ = ["partition_values"]

_INTEGER = re.compile(r"-?[0-9]{1,19}")


def partition_values(
    files: Sequence[Source], schema: pa.Schema | None = None, *, case_sensitive: bool = True
) -> list[dict[str, pa.Scalar]]:
    """Returns the values of the ``key=value`` directories of each file as typed constants. All files get the same keys.

    If ``case_sensitive`` is False, names are compared without regard to case. Keys that differ only in case are then
    one key, which is spelled as in the first file. If ``schema`` has a column for a key, the key has the name and the
    type of this column. Otherwise its type is int64 if all values are integers, and string if not. If a file has no
    directory for a key, the constant is null. Raises ``InvalidQuery`` for a value that does not have the type of the
    column.
    """
    partitions = [source.partition for source in files]
    if not case_sensitive:
        spellings: dict[str, str] = {}
        partitions = [
            {spellings.setdefault(key.casefold(), key): value for key, value in partition.items()}
            for partition in partitions
        ]
    keys = dict.fromkeys(key for partition in partitions for key in partition)
    if not keys:
        return [{} for _ in files]
    names = {key: _spelled(key, schema, case_sensitive=case_sensitive) for key in keys}
    kinds = {key: _kind_of(names[key], [partition.get(key) for partition in partitions], schema) for key in keys}
    known: dict[tuple[str, str | None], pa.Scalar] = {}
    values = []
    for source, partition in zip(files, partitions):
        for key in keys:
            text = partition.get(key)
            if (key, text) not in known:
                known[key, text] = _typed(text, kinds[key], key, source)
        values.append({names[key]: known[key, partition.get(key)] for key in keys})
    return values


def _spelled(key: str, schema: pa.Schema | None, *, case_sensitive: bool) -> str:
    if schema is None or case_sensitive or key in schema.names:
        return key
    return next((name for name in schema.names if name.casefold() == key.casefold()), key)


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
        message = f"the partition {key}={text} is not a valid {kind}: {error}"
        raise InvalidQuery(message, file=source.name, column=key) from None
