"""Splits rows by the values of partition columns, and names the directories for these values as Hive and Spark do."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery, OrcidxError, ValueOutOfRange
from orcidx.orc_writer.array_layouts import is_joined

__all__ = ["PartitionKey", "check_partition_columns", "hive_path", "split_batch"]

PartitionKey = tuple[str | None, ...]
"""The values as text, before escaping."""

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# The characters that Spark escapes as %XX (ExternalCatalogUtils.charToEscape).
_ESCAPED = re.compile("[\x01-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")


def check_partition_columns(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raises ``InvalidQuery`` for columns that do not exist, that share their name with another column, or whose values
    have more than one text form."""
    for name in names:
        count = schema.names.count(name)
        if count == 0:
            raise InvalidQuery(f"partition_by: there is no column {name!r}; the columns are {', '.join(schema.names)}")
        if count > 1:
            raise InvalidQuery(f"partition_by: {count} columns have the name {name!r}; rename all but one of them")
        kind = schema.field(name).type
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not _has_text(value):
            raise InvalidQuery(
                f"partition_by: some readers would read the text of a {kind} as another value; partition by text, "
                "whole numbers, decimals, booleans, dates or timestamps without a zone",
                column=name,
            )
    if len(set(names)) < len(names):
        raise InvalidQuery(f"partition_by={list(names)!r} contains a column twice; name each column once")
    if len(names) == len(schema):
        raise InvalidQuery(
            f"partition_by={list(names)!r} leaves no column for the files; the rows need at least one column that is "
            "not in partition_by="
        )


def _has_text(kind: pa.DataType) -> bool:
    types = pa.types
    plain = types.is_integer(kind) or types.is_boolean(kind) or types.is_date(kind) or types.is_decimal(kind)
    text = types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view"
    return bool(plain or text or (types.is_timestamp(kind) and kind.tz is None))


def hive_path(names: Sequence[str], key: PartitionKey) -> str:
    """The path ``k=v/k2=v2/``, escaped. The path is empty if there are no partition columns."""
    parts = (f"{_escape(name)}={NULL_PARTITION if v is None else _escape(v)}/" for name, v in zip(names, key))
    return "".join(parts)


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def split_batch(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[PartitionKey, pa.RecordBatch]]:
    """The rows of each partition in their order, without the partition columns."""
    rest = batch.select([name for name in batch.schema.names if name not in names])
    if not names:
        yield (), rest
        return
    codes = np.zeros(batch.num_rows, np.int64)
    values: list[list[str | None]] = []
    for name in names:
        encoded = batch.column(name)
        if not pa.types.is_dictionary(encoded.type):
            kind = encoded.type
            if pa.types.is_decimal(kind) and kind.bit_width < 128:  # pyarrow cannot dictionary-encode these types
                encoded = encoded.cast(pa.decimal128(kind.precision, kind.scale))
            encoded = encoded.dictionary_encode()
        texts = _texts(encoded.dictionary, name)
        known: list[str | None] = list(dict.fromkeys([None, *texts]))
        place_of = {text: place for place, text in enumerate(known)}
        places = np.array([place_of[text] for text in texts] + [0])
        chosen = pc.fill_null(encoded.indices.cast(pa.int64()), len(texts)).to_numpy(zero_copy_only=False)
        values.append(known)
        if math.prod(map(len, values)) >= 1 << 62:
            raise InvalidQuery(
                f"partition_by={list(names)!r}: the values of these columns have too many combinations, and each "
                "combination needs a directory; partition by fewer columns"
            )
        codes = codes * len(known) + places[chosen]
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    stops = np.append(starts[1:], len(order))
    for code, start, stop in zip(found.tolist(), starts.tolist(), stops.tolist()):
        key: list[str | None] = []
        for known in reversed(values):
            code, place = divmod(code, len(known))
            key.append(known[place])
        whole = start == 0 and stop == len(order)
        yield tuple(reversed(key)), rest if whole else _taken(rest, order[start:stop])


def _taken(batch: pa.RecordBatch, rows: np.ndarray) -> pa.RecordBatch:
    """Takes rows of a batch. pyarrow cannot take rows of views and run-end encoded arrays, but it can concatenate such
    arrays."""
    return pa.RecordBatch.from_arrays(
        [
            pa.concat_arrays([column.slice(row, 1) for row in rows.tolist()])
            if is_joined(column.type)
            else column.take(pa.array(rows))
            for column in batch.columns
        ],
        schema=batch.schema,
    )


def _texts(values: pa.Array, name: str) -> list[str | None]:
    """The text of each value for a directory name. The text of null is None."""
    try:
        return _texts_of_years(values, name)
    # Python's dates and times raise these errors for years before 1 and after 9999. Errors of orcidx itself are raised
    # unchanged.
    except (OverflowError, ValueError) as error:
        if isinstance(error, OrcidxError):
            raise
        raise ValueOutOfRange(
            f"partition_by: a {values.type} before year 1 or after year 9999 has no text that every reader reads as "
            "the same value; convert the column to text, or do not partition by it",
            column=name,
        ) from None


def _texts_of_years(values: pa.Array, name: str) -> list[str | None]:
    if not pa.types.is_timestamp(values.type) or values.type.unit != "ns":
        return [_text(value, name) for value in values.to_pylist()]
    numbers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    # Python's times have only microseconds. Without the nanoseconds, two values could get the same text. So the
    # nanoseconds are added to the text.
    whole, below = np.divmod(numbers, 1000)
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    micros = pa.array(whole, pa.int64(), mask=nulls).cast(pa.timestamp("us"))
    found = []
    for value, finer in zip(micros.to_pylist(), below.tolist()):
        text = _text(value, name)
        if text is not None and finer:
            text = f"{text.partition('.')[0]}.{value.microsecond:06}{finer:03}".rstrip("0")
        found.append(text)
    return found


def _text(value: Any, name: str) -> str | None:
    """A value as the text to which Spark casts it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        shown = value.strftime("%Y-%m-%d %H:%M:%S") if value.year > 999 else str(value.replace(microsecond=0))
        return f"{shown}.{value.microsecond:06}".rstrip("0") if value.microsecond else shown
    text = f"{value:f}" if hasattr(value, "as_tuple") else str(value)
    if "\0" in text:
        raise InvalidQuery(f"{text!r} cannot be the name of a directory; remove the NUL character", column=name)
    if text in ("", NULL_PARTITION):
        raise InvalidQuery(
            f"the value {text!r} would be read back as null, because Hive has no directory name for it; replace "
            "it by null or by another text",
            column=name,
        )
    return text
