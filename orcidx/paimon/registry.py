"""Lists the index formats by Paimon's names. The list has the functions that read and build an index of each format,
and the options of the format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.paimon import bitmap, bloom_filter, bsi, range_bitmap
from orcidx.paimon.body import Body
from orcidx.paimon.data_types import DataType, as_data_type
from orcidx.paimon.index import Index
from orcidx.paimon.key_arrays import KeyColumn, key_column
from orcidx.spellings import nearest

__all__ = ["FORMATS", "Builder", "Format", "build_index", "open_builder", "parse_size", "read_index"]

_SIZE = re.compile(r"\s*(\d{1,18})\s*([a-z]*)\s*", re.IGNORECASE)
_UNITS = {
    0: ("", "b", "bytes"),
    10: ("k", "kb", "kibibytes"),
    20: ("m", "mb", "mebibytes"),
    30: ("g", "gb", "gibibytes"),
    40: ("t", "tb", "tebibytes"),
}
_SHIFTS = {name: shift for shift, names in _UNITS.items() for name in names}


class Builder(Protocol):
    """Takes the batches of a column in order, and makes the column's index."""

    def add(self, column: KeyColumn) -> None:
        """Adds the next rows."""

    def finish(self) -> Index:
        """The index of all added rows."""


@dataclass(frozen=True)
class Format:
    """One index format. ``options``: for each of Paimon's short option names, the argument of the builder and the
    function that parses the value."""

    read: Callable[[Any, DataType], Index]
    build: Callable[..., Builder]
    check_type: Callable[[DataType], None]
    options: Mapping[str, tuple[str, Callable[[str, Any], Any]]]


def parse_size(name: str, value: object) -> int:
    """Converts a size to bytes. The size is an int, or a text in Paimon's form, such as "16kb" or "64 MB". Units are
    powers of 1024. A number without a unit is in bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].lower() not in _SHIFTS:
        raise InvalidQuery(
            f"{name} is {value!r}, but must be a number of bytes, or a number with a unit such as b, kb, mb, gb or tb"
        )
    return int(match[1]) << _SHIFTS[match[2].lower()]


def _whole(name: str, value: Any) -> int:
    try:
        return int(value.strip()) if isinstance(value, str) else int(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidQuery(f"{name} is {value!r}, which is not a whole number") from None


def _real(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidQuery(f"{name} is {value!r}, which is not a number") from None


def _version(name: str, value: Any) -> int:
    version = _whole(name, value)
    if version not in (1, 2):
        raise InvalidQuery(f"{name} is {value!r}, but must be 1 or 2")
    return version


class _Collector:
    """Keeps the keys of all batches, for formats that are built from a whole column. If there are few distinct keys,
    each row takes one or two bytes."""

    def __init__(self, build: Callable[..., Index], data_type: DataType, options: Mapping[str, Any]) -> None:
        self._build = build
        self._data_type = data_type
        self._options = options
        self._parts: list[KeyColumn] = []

    def add(self, column: KeyColumn) -> None:
        self._parts.append(column.compact())

    def finish(self) -> Index:
        self._parts = [KeyColumn.concat(self._parts, self._data_type)]  # frees the batches
        return self._build(
            replace(self._parts[0]), **self._options
        )  # the index is built from a copy, so the values that the copy caches are freed with the copy


def _collecting(build: Callable[..., Index]) -> Callable[..., Builder]:
    return lambda data_type, **options: _Collector(build, data_type, options)


FORMATS: dict[str, Format] = {
    bitmap.KIND: Format(
        bitmap.BitmapIndex,
        _collecting(bitmap.build),
        bitmap.check_type,
        {"version": ("version", _version), "index-block-size": ("block_size", parse_size)},
    ),
    range_bitmap.KIND: Format(
        range_bitmap.RangeBitmapIndex,
        _collecting(range_bitmap.build),
        range_bitmap.check_type,
        {"chunk-size": ("chunk_size", parse_size)},
    ),
    bsi.KIND: Format(bsi.BsiIndex, _collecting(bsi.build), bsi.check_type, {}),
    bloom_filter.KIND: Format(
        bloom_filter.BloomFilterIndex,
        bloom_filter.BloomFilterBuilder,
        bloom_filter.check_type,
        {"items": ("items", _whole), "fpp": ("fpp", _real)},
    ),
}
"""The formats in the order in which they are used. Exact formats are first. The bloom filter is last, because it must
be read whole, and is often not needed after the exact formats."""


def format_of(kind: str) -> Format:
    """The format of a kind. Raises ``Unsupported`` for an unknown kind."""
    if kind not in FORMATS:
        raise Unsupported(f"unknown index kind {kind!r}; the kinds are {', '.join(FORMATS)}")
    return FORMATS[kind]


def read_index(kind: str, body: bytes | bytearray | memoryview | Body, data_type: DataType | str) -> Index:
    """Reads one index body.

    Most of the body is read only when it is needed. ``Index.check()`` reads everything.

    Parameters
    ----------
    kind : str
        "bloom-filter", "bitmap", "range-bitmap" or "bsi".
    body : bytes or buffer
        The bytes of the index.
    data_type : str or DataType
        The column's type as Paimon's SQL text, such as "INT NOT NULL".

    Returns
    -------
    Index

    Raises
    ------
    CorruptFile
        The index is damaged.
    Unsupported
        The kind is unknown, or does not support the type.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from orcidx.paimon import build_index, read_index
    >>> body = build_index("range-bitmap", pa.array([5, 9, 7]), "BIGINT").to_bytes()
    >>> read_index("range-bitmap", body, "BIGINT").top_k(2, descending=True, nulls_first=False)
    BitMap([1, 2])
    """
    return format_of(kind).read(Body.of(body), as_data_type(data_type))


def open_builder(kind: str, data_type: DataType | str, options: Mapping[str, Any] | None = None) -> Builder:
    """Makes a builder of one index. ``build_index`` describes the arguments and errors."""
    chosen = format_of(kind)
    parsed = as_data_type(data_type)
    chosen.check_type(parsed)
    arguments: dict[str, Any] = {}
    for name, value in (options or {}).items():
        if name not in chosen.options:
            near = nearest(name, chosen.options)
            hint = f"; did you mean {near!r}?" if near else f"; it has {', '.join(chosen.options) or 'none'}"
            raise InvalidQuery(f"a {kind} index has no option {name!r}{hint}")
        argument, parse = chosen.options[name]
        arguments[argument] = parse(name, value)
    return chosen.build(parsed, **arguments)


def build_index(
    kind: str,
    values: pa.Array | pa.ChunkedArray,
    data_type: DataType | str,
    options: Mapping[str, Any] | None = None,
) -> Index:
    """Builds one index of a column. Value i is the value of row i in the file.

    Parameters
    ----------
    kind : str
        "bloom-filter", "bitmap", "range-bitmap" or "bsi".
    values : pyarrow.Array or pyarrow.ChunkedArray
        The values of the column in all rows of the file.
    data_type : str or DataType
        The column's type as Paimon's SQL text, such as "INT NOT NULL".
    options : mapping, optional
        The options by Paimon's short names, as numbers or as Paimon's text: ``items`` and ``fpp`` (bloom-filter),
        ``version`` and ``index-block-size`` (bitmap), ``chunk-size`` (range-bitmap).

    Returns
    -------
    Index

    Raises
    ------
    InvalidQuery
        The values do not fit ``data_type``, or an option is not valid.
    ValueOutOfRange
        The format cannot store a value.
    Unsupported
        The index does not support the type.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from orcidx.paimon import build_index
    >>> build_index("bitmap", pa.array(["a", "b", "a"]), "STRING").evaluate("eq", ["b"]).rows
    BitMap([1])
    """
    builder = open_builder(kind, data_type, options)
    parsed = as_data_type(data_type)
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        builder.add(key_column(chunk, parsed))
    return builder.finish()
