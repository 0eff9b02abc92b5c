"""The rows of arrays that a mask keeps, by one compiled pass over each (``kept_values``).

pyarrow goes by runs or by row numbers, which takes longer the more the survivors are scattered; a pass that writes
every value takes as long whatever is kept (decision 0280). What it does not carry, as nested types, is left to pyarrow.
``ENABLED`` turns the passes off for tests: pyarrow then filters everything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.scanner import kept_values

__all__ = ["kept_array", "kept_rows"]

ENABLED = True

MERGED = 0.9
"""Where this share of the rows is kept, strings are copied in runs: below, asking where a run ends costs more."""

SPARE = 32
"""Bytes behind copied strings; see ``kept_values``."""

Bools = npt.NDArray[np.bool_]


def kept_rows(mask: Bools, count: int) -> npt.NDArray[np.integer[Any]]:
    """The numbers of the rows for which the mask is True, ``count`` of them."""
    if not ENABLED or len(mask) >= 1 << 31:
        return np.flatnonzero(mask)
    rows = np.empty(count, np.int32)
    kept_values.keep_rows(mask.view(np.uint8), rows)
    return rows


def kept_array(array: pa.Array, mask: Bools, count: int) -> pa.Array | None:
    """The rows of an array by the compiled passes; None where they do not carry it."""
    kind = array.type
    if not ENABLED or not len(array):
        return None
    if isinstance(array, pa.DictionaryArray):
        indices = kept_array(array.indices, mask, count)
        if indices is None:
            return None
        return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=kind.ordered, safe=False)
    if isinstance(array, pa.ExtensionArray):
        return None
    width = _width_of(kind)
    if width is None:
        return None
    flags = mask.view(np.uint8)
    first, *others = array.buffers()
    valid = None if array.null_count == 0 else _bits(first, array.offset, flags, count)
    if width == 0:
        content: list[pa.Buffer | None] = [_bits(others[0], array.offset, flags, count)]
    elif width > 0:
        content = _fixed(others[0], array.offset, width, flags, count)
    else:
        content = _strings(others[0], others[1], array.offset, -width, flags, count)
    return pa.Array.from_buffers(kind, count, [valid, *content])


def _width_of(kind: pa.DataType) -> int | None:
    """Bytes of a value; 0 of a bit, and less than 0 of a string's offset; None of what is not carried."""
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        width = 0 if pa.types.is_boolean(kind) else kind.bit_width // 8
        return width if width in (0, 1, 2, 4, 8, 16) else None
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return -4
    return -8 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else None


def _bits(data: pa.Buffer, start: int, flags: npt.NDArray[np.uint8], count: int) -> pa.Buffer:
    first = start // 8
    bits = np.unpackbits(np.frombuffer(data, np.uint8, (start + len(flags) + 7) // 8 - first, first), bitorder="little")
    found = np.empty(count + 1, np.uint8)
    kept_values.keep_fixed(bits[start - first * 8 :], 1, flags, count, found)
    return pa.py_buffer(np.packbits(found[:count], bitorder="little"))


def _fixed(data: pa.Buffer, start: int, width: int, flags: npt.NDArray[np.uint8], count: int) -> list[pa.Buffer | None]:
    buffer = pa.allocate_buffer((count + 1) * width)
    values = np.frombuffer(data, np.uint8, len(flags) * width, start * width)
    kept_values.keep_fixed(values, width, flags, count, memoryview(buffer).cast("B"))
    return [buffer]


def _strings(
    offsets: pa.Buffer, data: pa.Buffer | None, start: int, width: int, flags: npt.NDArray[np.uint8], count: int
) -> list[pa.Buffer | None]:
    kind = np.int32 if width == 4 else np.int64
    rows = len(flags)
    ends = np.frombuffer(offsets, kind, rows + 1, start * width)
    places = pa.allocate_buffer((count + 2) * width)
    view = memoryview(places).cast("B").cast("i" if width == 4 else "q")
    starts = np.empty(count + 1, kind)
    size = kept_values.keep_offsets(ends, flags, count, starts, view)
    buffer = pa.allocate_buffer(size + SPARE)
    if data is not None:
        content = np.frombuffer(data, np.uint8)
        out = memoryview(buffer).cast("B")
        kept_values.keep_bytes(content, starts, view, count, count > rows * MERGED, out)
    return [places, buffer]
