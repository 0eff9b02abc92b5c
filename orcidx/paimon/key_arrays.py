"""Converts whole Arrow columns to keys, and groups rows by key. Every index is built from these keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery, ValueOutOfRange
from orcidx.paimon.data_types import ARROW_BINARIES, ARROW_TEXTS, BINARIES, INTEGERS, TEXTS, TIMESTAMPS, DataType
from orcidx.paimon.keys import KeyType, KeyValues, key_type, ordered_bits
from orcidx.paimon.roaring_writer import group_rows
from orcidx.predicate.nodes import NANOS

__all__ = ["Groups", "KeyColumn", "byte_buffers", "key_column", "map_values", "value_buffer"]

Rows = npt.NDArray[np.uint32]
MOST_ROWS = (1 << 31) - 2
_BLOCK_VALUES = 1 << 20
"""The number of values that are converted at once. They take 8 MiB of working memory."""
_PER_SECOND = {unit: NANOS["s"] // nanos for unit, nanos in NANOS.items()}


@dataclass(frozen=True)
class Groups:
    """The rows of each key. ``keys`` ascend. The rows of ``keys[i]`` are ``rows[starts[i]:starts[i + 1]]``, in
    ascending order."""

    keys: KeyValues
    rows: Rows
    starts: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Encoded:
    """The values of the rows that are not null, as indexes into ``dictionary``. The dictionary has each value once, in
    any order."""

    dictionary: pa.Array
    codes: npt.NDArray[Any]


@dataclass(frozen=True)
class KeyColumn:
    """Keys of a column of ``length`` rows. ``values`` is an int64 array, an Arrow array of bytes, or ``Encoded``. If
    ``values`` is an array, the values of null rows are undefined. ``valid`` is false for null rows. It is None if no
    row is null."""

    key_type: KeyType
    length: int
    values: Any
    valid: npt.NDArray[np.bool_] | None

    @property
    def present_values(self) -> Any:
        """The values of the rows that are not null: an int64 array or an Arrow array of bytes."""
        if isinstance(self.values, Encoded):
            values = self.values.dictionary.take(pa.array(self.values.codes))
            return values.to_numpy() if self.key_type.width else values
        if self.valid is None:
            return self.values
        if isinstance(self.values, np.ndarray):
            return self.values[self.valid]
        return self.values.filter(pa.array(self.valid))

    @property
    def present_rows(self) -> Rows:
        """The rows that are not null."""
        if self.valid is None:
            return np.arange(self.length, dtype=np.uint32)
        return np.flatnonzero(self.valid).astype(np.uint32)

    @property
    def null_rows(self) -> Rows:
        """The rows that are null."""
        if self.valid is None:
            return np.empty(0, np.uint32)
        return np.flatnonzero(~self.valid).astype(np.uint32)

    @cached_property
    def _encoded(self) -> tuple[KeyValues, npt.NDArray[np.int32]]:
        encoded = self._as_encoded()
        order = pc.array_sort_indices(encoded.dictionary).to_numpy()
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        codes = np.empty(len(encoded.codes), np.int32)
        # To look up values in ``rank``, numpy widens the codes to 8 bytes each. Blocks keep these copies small.
        for at in range(0, len(codes), _BLOCK_VALUES):
            codes[at : at + _BLOCK_VALUES] = rank[encoded.codes[at : at + _BLOCK_VALUES]]
        keys = encoded.dictionary.take(pa.array(order))
        return (keys.to_numpy() if self.key_type.width else keys.to_pylist()), codes

    def _as_encoded(self) -> Encoded:
        return self.values if isinstance(self.values, Encoded) else _encode(self.present_values)

    def compact(self) -> KeyColumn:
        """If many values are equal, returns the same column in a form that takes less memory. This form has each value
        once, and one or two bytes for each row. If few values are equal, returns this column."""
        encoded = self._as_encoded()
        if 2 * len(encoded.dictionary) > len(encoded.codes):
            return self
        return replace(self, values=Encoded(encoded.dictionary, encoded.codes.astype(_code_type(encoded.dictionary))))

    @property
    def distinct(self) -> KeyValues:
        """The keys of the column in ascending order, each once."""
        return self._encoded[0]

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """For each row that is not null, the index of its key in ``distinct``."""
        return self._encoded[1]

    def groups(self) -> Groups:
        """The rows of each key."""
        keys, codes = self._encoded
        rows, starts = group_rows(codes, self.present_rows, len(keys))
        return Groups(keys, rows, starts)

    @classmethod
    def concat(cls, parts: Sequence[KeyColumn], data_type: DataType) -> KeyColumn:
        """Concatenates columns of one type. Without columns, returns a column without rows."""
        if len(parts) == 1:
            return parts[0]
        kind = key_type(data_type)
        length = sum(part.length for part in parts)
        if length > MOST_ROWS:
            raise ValueOutOfRange(f"an index can have at most {MOST_ROWS} rows, but {length} rows are given")
        values: Any
        if any(isinstance(part.values, Encoded) for part in parts):
            values = _merged([part._as_encoded() for part in parts])
        elif kind.width:
            values = np.concatenate([np.empty(0, np.int64), *(part.values for part in parts)])
        else:
            values = pa.concat_arrays([part.values for part in parts]) if parts else pa.array([], pa.large_binary())
        if all(part.valid is None for part in parts):
            return cls(kind, length, values, None)
        masks = [np.ones(part.length, np.bool_) if part.valid is None else part.valid for part in parts]
        return cls(kind, length, values, np.concatenate(masks))


def _encode(values: Any) -> Encoded:
    """Encodes an int64 array, or an Arrow array without nulls."""
    encoded = (pa.array(values) if isinstance(values, np.ndarray) else values).dictionary_encode()
    return Encoded(encoded.dictionary, encoded.indices.to_numpy())


def _code_type(dictionary: pa.Array) -> np.dtype[Any]:
    return np.min_scalar_type(max(0, len(dictionary) - 1))


def _merged(parts: Sequence[Encoded]) -> Encoded:
    """Concatenates the parts with one dictionary."""
    merged = _encode(pa.concat_arrays([part.dictionary for part in parts]))
    codes = np.empty(sum(len(part.codes) for part in parts), _code_type(merged.dictionary))
    known = row = 0
    for part in parts:
        places = merged.codes[known : known + len(part.dictionary)].astype(codes.dtype)
        codes[row : row + len(part.codes)] = places[part.codes]
        known += len(part.dictionary)
        row += len(part.codes)
    return Encoded(merged.dictionary, codes)


def key_column(array: pa.Array | pa.ChunkedArray, data_type: DataType) -> KeyColumn:
    """The keys of an Arrow column.

    Raises ``InvalidQuery`` if the values do not fit ``data_type`` or would lose digits. Raises ``ValueOutOfRange`` if a
    value does not fit a key. Raises ``Unsupported`` for a type without keys.
    """
    if isinstance(array, pa.ChunkedArray):
        return KeyColumn.concat([key_column(chunk, data_type) for chunk in array.chunks], data_type)
    kind = key_type(data_type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        array = array.cast(data_type.arrow_type)
    try:
        values = _CONVERTERS[data_type.root](array, kind)
    except pa.ArrowException as error:
        raise InvalidQuery(f"values of Arrow type {array.type} do not fit {data_type}: {error}") from None
    if values is None:
        raise InvalidQuery(f"values of Arrow type {array.type} do not fit {data_type}")
    valid = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    return KeyColumn(kind, len(array), values, valid)


def map_values(array: pa.Array, key: str) -> pa.Array:
    """The value of one key in each row of a map column. The value is null if the map is null or does not have the
    key."""
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([map_values(chunk, key) for chunk in array.chunks], array.type.item_type)
    if not pa.types.is_map(array.type):
        raise InvalidQuery(f"a column of type {array.type} is not a map")
    offsets = np.asarray(array.offsets)
    hits = pc.equal(array.keys.cast(pa.string()), key).fill_null(False).to_numpy(zero_copy_only=False)
    at = np.flatnonzero(hits[offsets[0] : offsets[-1]]) + offsets[0]
    rows = np.searchsorted(offsets, at, "right") - 1
    places = np.full(len(array), -1, np.int64)
    places[rows] = at
    valid = array.is_valid().to_numpy(zero_copy_only=False) & (places >= 0)
    return array.items.take(pa.array(places, mask=~valid))


# ---------------------------------------------------------------------- conversion


def value_buffer(array: pa.Array, dtype: npt.DTypeLike, width: int = 1) -> npt.NDArray[Any]:
    """The values' buffer, with ``width`` numbers of ``dtype`` per value. The values of nulls are undefined."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(width * len(array), dtype)
    size = np.dtype(dtype).itemsize * width
    return np.frombuffer(buffer, dtype, width * len(array), size * array.offset)


def byte_buffers(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The offsets and the bytes of an array of the type large_binary. The array has one offset more than values."""
    _, offsets, data = array.buffers()
    ends = np.zeros(1, np.int64)
    if len(array) and offsets is not None:
        ends = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset)
    return ends, np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)


def _booleans(array: pa.Array, kind: KeyType) -> Any:
    if not pa.types.is_boolean(array.type):
        return None
    return value_buffer(array.cast(pa.int8()), np.int8).astype(np.int64)


def _integers(array: pa.Array, kind: KeyType) -> Any:
    if not pa.types.is_integer(array.type):
        return None
    wanted = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[kind.width]
    values = value_buffer(array.cast(wanted), f"i{kind.width}")
    return values.astype(np.int64, copy=False)


def _dates(array: pa.Array, kind: KeyType) -> Any:
    if pa.types.is_date(array.type):
        array = array.cast(pa.date32()).view(pa.int32())
    return _integers(array, kind)


def _times(array: pa.Array, kind: KeyType) -> Any:
    if not pa.types.is_time(array.type):
        return _integers(array, kind)  # ORC files store a TIME as an integer of milliseconds
    values = value_buffer(array, "i4" if array.type.bit_width == 32 else "i8").astype(np.int64)
    per_second = _PER_SECOND[array.type.unit]
    return _whole(array, values, per_second // 1_000, kind) if per_second >= 1_000 else values * 1_000


def _floats(array: pa.Array, kind: KeyType) -> Any:
    if not pa.types.is_floating(array.type):
        return None
    if kind.width == 4 and pa.types.is_float64(array.type):
        narrow = array.cast(pa.float32(), safe=False)
        same = pc.or_kleene(pc.equal(narrow.cast(pa.float64()), array), pc.is_nan(array))
        if pc.all(same).as_py() is False:
            raise InvalidQuery("a DOUBLE value cannot be stored as FLOAT without loss")
        array = narrow
    values = value_buffer(array.cast(pa.float32() if kind.width == 4 else pa.float64()), f"f{kind.width}")
    keys = ordered_bits(values.view(f"i{kind.width}").astype(np.int64), kind.width)
    nan = np.isnan(values)
    return np.where(nan, kind.nan, keys) if nan.any() else keys


def _decimals(array: pa.Array, kind: KeyType) -> Any:
    if not pa.types.is_decimal(array.type):
        return None
    kept = array.cast(pa.decimal256(76, kind.data_type.scale)).cast(pa.decimal128(38, kind.data_type.scale))
    pairs = value_buffer(kept, np.int64, 2).reshape(-1, 2)
    low, high = pairs[:, 0], pairs[:, 1]
    outside = high != low >> 63
    if array.null_count:
        outside &= array.is_valid().to_numpy(zero_copy_only=False)
    if outside.any():
        raise ValueOutOfRange(f"the unscaled value of a {kind.data_type} does not fit 64 bits")
    return np.ascontiguousarray(low)


def _timestamps(array: pa.Array, kind: KeyType) -> Any:
    precision = kind.data_type.precision
    per_second = 1_000 if precision <= 3 else 1_000_000
    if pa.types.is_decimal(array.type) and array.type.scale == 0:
        return _wide_timestamps(array, per_second, kind)
    zoned = kind.data_type.root == "TIMESTAMP_LTZ"
    if not pa.types.is_timestamp(array.type) or (array.type.tz is not None) != zoned:
        return None
    given = _PER_SECOND[array.type.unit]
    if given <= per_second:
        unit = "ms" if per_second == 1_000 else "us"
        return value_buffer(array.cast(pa.timestamp(unit, array.type.tz)), np.int64)
    return _whole(array, value_buffer(array, np.int64), given // per_second, kind)


def _whole(array: pa.Array, values: npt.NDArray[np.int64], per_key: int, kind: KeyType) -> npt.NDArray[np.int64]:
    """Returns the keys of times. The unit of a key is ``per_key`` times the unit of a value. Raises ``InvalidQuery`` if
    a key would lose digits, unless Paimon's keys of this type lose digits, too."""
    keys = values // per_key
    if not kind.loses_digits:
        lost = keys * per_key != values
        if array.null_count:
            lost &= array.is_valid().to_numpy(zero_copy_only=False)
        if lost.any():
            raise _too_many_digits(kind)
    return keys


def _too_many_digits(kind: KeyType) -> InvalidQuery:
    if kind.data_type.root == "TIME":
        return InvalidQuery(
            "a time of day has digits below a millisecond, but Paimon stores whole milliseconds; cast the column to "
            "time32('ms')"
        )
    return InvalidQuery(f"a value has more digits than the type {kind.data_type} allows")


def _wide_timestamps(array: pa.Array, per_second: int, kind: KeyType) -> Any:
    """Converts timestamps to keys. The timestamps are decimals of nanoseconds, because int64 is too small for them."""
    nanos_per_key = NANOS["s"] // per_second
    pairs = [divmod(int(value or 0), nanos_per_key) for value in array.to_pylist()]
    keys = [key for key, _ in pairs]
    if not kind.loses_digits and any(rest for _, rest in pairs):
        raise _too_many_digits(kind)
    if any(not -(1 << 63) <= key < 1 << 63 for key in keys):
        raise ValueOutOfRange("a timestamp does not fit 64 bits")
    return np.array(keys, np.int64)


def _texts(array: pa.Array, kind: KeyType) -> Any:
    if not any(is_kind(array.type) for is_kind in ARROW_TEXTS):
        return None
    return array.cast(pa.large_string()).cast(pa.large_binary())


def _binaries(array: pa.Array, kind: KeyType) -> Any:
    if not any(is_kind(array.type) for is_kind in ARROW_BINARIES):
        return None
    return array.cast(pa.large_binary())


_CONVERTERS: dict[str, Callable[[pa.Array, KeyType], Any]] = {
    "BOOLEAN": _booleans,
    **dict.fromkeys(INTEGERS, _integers),
    "DATE": _dates,
    "TIME": _times,
    "FLOAT": _floats,
    "DOUBLE": _floats,
    "DECIMAL": _decimals,
    **dict.fromkeys(TIMESTAMPS, _timestamps),
    **dict.fromkeys(TEXTS, _texts),
    **dict.fromkeys(BINARIES, _binaries),
}
