"""Converts Arrow key columns to the arrays from which ``row_hash`` computes hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery
from orcidx.paimon.data_types import ARROW_BINARIES, ARROW_TEXTS, BYTE_STRINGS, TIMESTAMPS, DataType
from orcidx.paimon.key_arrays import byte_buffers, value_buffer
from orcidx.paimon.row_hash import BYTES, DECIMAL, FIXED, TIMESTAMP
from orcidx.predicate.nodes import NANOS

if TYPE_CHECKING:
    from orcidx.paimon.row_hash import HashedColumn

__all__ = ["hashed_column"]

_NANOS_PER_MILLI = NANOS["ms"]
_LARGEST_FIXED_DECIMAL = 18
_LARGEST_FIXED_TIMESTAMP = 3
_UNSIGNED = {"BOOLEAN": np.uint8, "TINYINT": np.uint8, "SMALLINT": np.uint16, "INT": np.uint32, "DATE": np.uint32}
_UNSIGNED |= {"TIME": np.uint32, "FLOAT": np.uint32}


def hashed_column(array: pa.Array, data_type: DataType) -> HashedColumn:
    """Converts one key column. Raises ``InvalidQuery`` if the values do not fit ``data_type``, or if ``data_type`` is
    not allowed in a key."""
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    try:
        return _column(array, data_type)
    except pa.ArrowException as error:
        raise InvalidQuery(f"values of Arrow type {array.type} do not fit a key of type {data_type}: {error}") from None


def _column(array: pa.Array, data_type: DataType) -> HashedColumn:
    root = data_type.root
    nulls = np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False)).astype(np.uint8)
    if root in BYTE_STRINGS:
        return _bytes_column(array, nulls)
    if root in TIMESTAMPS:
        millis, nanos = _split_timestamps(array, root == "TIMESTAMP_LTZ")
        if data_type.precision <= _LARGEST_FIXED_TIMESTAMP:
            return FIXED, nulls, millis, None, None
        return TIMESTAMP, nulls, millis, None, nanos
    if root == "DECIMAL":
        pairs = value_buffer(array.cast(pa.decimal128(data_type.precision, data_type.scale)), np.int64, 2)
        if data_type.precision > _LARGEST_FIXED_DECIMAL:
            return DECIMAL, nulls, pairs, None, None
        return FIXED, nulls, np.ascontiguousarray(pairs[::2]), None, None
    if root == "DOUBLE":
        return FIXED, nulls, value_buffer(array.cast(pa.float64()), np.int64), None, None
    if root == "BIGINT":
        return FIXED, nulls, value_buffer(array.cast(pa.int64()), np.int64), None, None
    if root not in _UNSIGNED:
        raise InvalidQuery(f"{data_type} cannot be a key")
    narrow = _narrow(array, data_type)
    return FIXED, nulls, narrow.view(_UNSIGNED[root]).astype(np.int64), None, None


def _narrow(array: pa.Array, data_type: DataType) -> npt.NDArray[Any]:
    """The values of a column whose type has less than 8 bytes. Nulls are replaced by 0."""
    if data_type.root == "TIME" and pa.types.is_time64(array.type):
        array = array.cast(pa.time32("ms"), safe=False)  # Paimon's times of day are whole milliseconds
    if data_type.root == "TIME" and not pa.types.is_integer(array.type):
        array = array.cast(pa.time32("ms")).cast(pa.int32())
    if data_type.root == "DATE" and not pa.types.is_integer(array.type):
        array = array.cast(pa.date32()).cast(pa.int32())
    wanted = pa.int32() if data_type.root in ("TIME", "DATE") else data_type.arrow_type
    return np.ascontiguousarray(array.cast(wanted).fill_null(pa.scalar(0).cast(wanted)).to_numpy(zero_copy_only=False))


def _bytes_column(array: pa.Array, nulls: npt.NDArray[np.uint8]) -> HashedColumn:
    if not any(is_kind(array.type) for is_kind in (*ARROW_TEXTS, *ARROW_BINARIES)):
        raise InvalidQuery(f"values of type {array.type} are neither text nor bytes")
    ends, values = byte_buffers(array.cast(pa.large_binary()))
    return BYTES, nulls, ends, values, None


def _split_timestamps(array: pa.Array, zoned: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Milliseconds since the epoch, and the remaining nanoseconds (0 to 999999)."""
    if pa.types.is_decimal(array.type) and array.type.scale == 0:
        return _split_wide(array)
    if not pa.types.is_timestamp(array.type) or (array.type.tz is not None) != zoned:
        raise InvalidQuery(f"values of type {array.type} are not timestamps {'with' if zoned else 'without'} a zone")
    per_value = NANOS[array.type.unit]
    values = value_buffer(array, np.int64)
    if per_value >= _NANOS_PER_MILLI:
        values = value_buffer(array.cast(pa.timestamp("ms", array.type.tz)), np.int64)
        return values, np.zeros(len(values), dtype=np.int32)
    per_milli = _NANOS_PER_MILLI // per_value
    millis = values // per_milli
    return millis, ((values - millis * per_milli) * per_value).astype(np.int32)


def _split_wide(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Does the same as ``_split_timestamps`` for nanoseconds as decimal(38, 0). Timestamps that do not fit int64 have
    this type."""
    pairs = [divmod(int(value or 0), _NANOS_PER_MILLI) for value in array.to_pylist()]
    if any(not -(1 << 63) <= millis < 1 << 63 for millis, _ in pairs):
        raise InvalidQuery("a timestamp does not fit 64 bits of milliseconds")
    millis = np.fromiter((millis for millis, _ in pairs), dtype=np.int64, count=len(pairs))
    return millis, np.fromiter((nanos for _, nanos in pairs), dtype=np.int32, count=len(pairs))
