"""The values of Arrow arrays as NumPy arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["bits_of", "values_of"]

BoolArray = npt.NDArray[np.bool_]


def bits_of(array: pa.BooleanArray) -> BoolArray:
    """The values of a boolean array. The values at null rows are undefined."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), np.bool_)
    first, last = array.offset // 8, (array.offset + len(array) + 7) // 8
    bits = np.unpackbits(np.frombuffer(data, np.uint8)[first:last], bitorder="little")
    start = array.offset - first * 8
    return bits[start : start + len(array)].view(np.bool_)


_DTYPES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], str]], ...] = (
    (pa.types.is_signed_integer, lambda kind: f"i{kind.bit_width // 8}"),
    (pa.types.is_unsigned_integer, lambda kind: f"u{kind.bit_width // 8}"),
    (pa.types.is_floating, lambda kind: f"f{kind.bit_width // 8}"),
    (pa.types.is_temporal, lambda kind: f"i{kind.bit_width // 8}"),
    (pa.types.is_decimal, lambda kind: f"i{kind.bit_width // 8}"),
)


def values_of(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a fixed-width array as a NumPy view. The values at null rows are undefined."""
    dtype = _dtype_of(array.type)
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), dtype)
    return np.frombuffer(data, dtype, len(array), array.offset * dtype.itemsize)


@functools.lru_cache(64)
def _dtype_of(kind: pa.DataType) -> np.dtype[Any]:
    return np.dtype(next(name(kind) for belongs, name in _DTYPES if belongs(kind)))
