"""Columns from ``key=value`` directories, with the types that Spark infers (``PartitioningUtils``)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.orc.timezones import load_zone
from orcidx.predicate.literals import parse_time
from orcidx.spark.types.local_times import instant_of
from orcidx.spark.types.spark_types import arrow_schema_of, struct_json
from orcidx.storage import Source

__all__ = ["partition_constants", "partition_types"]

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?", re.ASCII)


def partition_types(files: Iterable[Source], *, infer: bool = True) -> dict[str, str]:
    """Spark's type of each directory key: the narrowest of integer, long, double, date and timestamp that fits all
    values, or else string. Without ``infer`` all types are string."""
    texts: dict[str, dict[str, None]] = {}
    for file in files:
        for key, text in file.partition.items():
            texts.setdefault(key, {})
            if text is not None:
                texts[key][text] = None
    return {key: _common_type(values) if infer else "string" for key, values in texts.items()}


def _common_type(texts: Iterable[str]) -> str:
    kinds = {_type_of(text) for text in texts}
    for wider in ({"integer"}, {"integer", "long"}, {"integer", "double"}, {"date"}, {"date", "timestamp"}):
        if kinds and kinds <= wider:
            return next(name for name in ("timestamp", "date", "double", "long", "integer") if name in kinds)
    return "string"


def _type_of(text: str) -> str:
    if _INTEGER.fullmatch(text):
        value = int(text)
        for name, bits in (("integer", 31), ("long", 63)):
            if -(1 << bits) <= value < 1 << bits:
                return name
        return "string"
    if _DOUBLE.fullmatch(text) and math.isfinite(float(text)):
        return "double"
    if _DATE.fullmatch(text) and parse_time(text) is not None:
        return "date"
    if _TIMESTAMP.fullmatch(text) and parse_time(text) is not None:
        return "timestamp"
    return "string"


def partition_constants(
    files: Sequence[Source], columns: Mapping[str, tuple[str, Any]], session_zone: str
) -> list[dict[str, pa.Scalar]]:
    """The value of each column for each file, in Arrow's form of Spark's type. The value is null if the file has no
    such directory.

    ``columns``: a dictionary from each column's name to its key and type.

    Raises ``InvalidQuery`` for a value that does not fit its type. This happens only if the caller gave the schema.
    """
    schema = arrow_schema_of(struct_json([(name, kind) for name, (_, kind) in columns.items()]))
    known: dict[tuple[str, str | None], pa.Scalar] = {}
    found = []
    for file in files:
        partition = file.partition
        values = {}
        for field in schema:
            text = partition.get(columns[field.name][0])
            if (field.name, text) not in known:
                known[field.name, text] = _scalar(text, field, file, session_zone)
            values[field.name] = known[field.name, text]
        found.append(values)
    return found


def _scalar(text: str | None, field: pa.Field, file: Source, session_zone: str) -> pa.Scalar:
    kind = field.type
    try:
        if text is not None and pa.types.is_timestamp(kind):
            parsed = parse_time(text)
            if parsed is None:
                raise pa.ArrowInvalid("the text is not a time in ISO 8601 form")
            seconds, rest = divmod(parsed[0], 1_000_000_000)
            if kind.tz is not None and not parsed[1]:
                seconds = instant_of(seconds, load_zone(session_zone))
            return pa.scalar(seconds * 1_000_000 + rest // 1000, pa.int64()).cast(kind)
        if text is not None and pa.types.is_integer(kind):
            text = text.removeprefix("+")
        return pa.scalar(text, pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        message = f"the value of the directory {field.name}={text} is not a {kind}: {error}"
        raise InvalidQuery(message, file=file.name, column=field.name) from None
