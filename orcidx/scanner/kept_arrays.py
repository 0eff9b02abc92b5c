"""Filters arrays by a mask, in one pass of compiled code over each array (``kept_values``).

pyarrow filters by runs or by row numbers. This takes longer if the kept rows are scattered. The compiled pass writes
every value, so it takes the same time for every mask (decision 0379). Types that the compiled pass does not support,
for example nested types, are filtered by pyarrow. Some tests set ``ENABLED`` to False. Then all types are filtered by
pyarrow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.orc import buffers
from orcidx.orc.columns.base import KEPT_WIDTHS
from orcidx.orc.columns.text import VIEW_BYTES
from orcidx.orc.kept_rows import Mask
from orcidx.predicate.masks import new_array
from orcidx.scanner import kept_values

__all__ = ["KeptRows", "kept_array", "taken_array"]

ENABLED = True

MOST_RUNS = 8
"""If the kept rows of a span form at most this many runs, the columns that the predicate does not use are read run by
run, and the rows between the runs are skipped. With more runs, all rows of these columns are read and then filtered.
Limits from 1 to 32 take equally long. A limit of 128 takes twice as long if the kept rows are scattered (decision
0113)."""

MERGED_SHARE = 0.9
"""If at least this share of the rows is kept, strings are copied in runs. With a smaller share, copying in runs takes
longer, because the ends of the runs must be found. If at least this share is kept, values of a fixed width are also
moved inside the memory into which they were decoded, because little of this memory is wasted."""

COPY_SPARE_BYTES = 32
"""Unused bytes after copied strings. See ``kept_values``."""

Bools = npt.NDArray[np.bool_]


class KeptRows:
    """The kept rows of a span, which is a range of consecutive rows. The numbers and the runs of the kept rows are
    computed when they are first needed.

    ``mask``: a bool for each row of the span, True for a kept row. It must not be changed. ``checked``: the same mask
    for compiled code. ``count``: the number of kept rows.
    """

    __slots__ = ("_numbers", "_runs", "_stop", "checked", "count", "mask")

    def __init__(self, mask: Bools) -> None:
        self.mask = mask
        self.checked = Mask(mask.view(np.uint8))
        self.count = self.checked.count
        self._numbers: npt.NDArray[np.integer[Any]] | None = None
        self._runs: list[list[int]] | None = None
        self._stop = 0

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def numbers(self) -> npt.NDArray[np.integer[Any]]:
        """The numbers of the kept rows."""
        if self._numbers is None:
            if not ENABLED or len(self.mask) >= 1 << 31:
                self._numbers = np.flatnonzero(self.mask)
            else:
                found = np.empty(self.count, np.int32)
                kept_values.keep_rows(self.mask.view(np.uint8), found)
                self._numbers = found  # set when complete, because another thread may read it at any time
        return self._numbers

    def runs(self) -> list[list[int]]:
        """Returns the first runs [start, stop] of kept rows, at most ``MOST_RUNS`` + 1 of them."""
        if self._runs is None:
            if not ENABLED:
                edges = np.flatnonzero(np.diff(self.mask.view(np.int8), prepend=0, append=0)).reshape(-1, 2)
                self._stop = int(edges[-1, 1]) if len(edges) else 0
                self._runs = edges[: MOST_RUNS + 1].tolist()  # set last, because it shows that ``_stop`` is set
            else:
                found = np.empty((MOST_RUNS + 1, 2), np.int64)
                runs, self._stop = kept_values.runs_of(self.mask.view(np.uint8), found)
                self._runs = found[:runs].tolist()
        return self._runs

    @property
    def are_scattered(self) -> bool:
        """Whether the kept rows form more than ``MOST_RUNS`` runs."""
        return len(self.runs()) > MOST_RUNS

    @property
    def reach(self) -> tuple[int, int]:
        """The first kept row, and the row after the last kept row."""
        runs = self.runs()
        return (runs[0][0] if runs else 0), self._stop

    def narrowed(self) -> KeptRows:
        """Returns the same rows, for the shorter span from the first to the last kept row."""
        first, stop = self.reach
        if stop - first == len(self.mask):
            return self
        found = KeptRows(self.mask[first:stop])
        if self._numbers is not None:
            found._numbers = self._numbers - self._numbers.dtype.type(first)
        return found


def taken_array(array: pa.Array, rows: npt.NDArray[np.integer[Any]]) -> pa.Array | None:
    """Returns the rows of an array that have the given row numbers. Returns None if only pyarrow can take these rows,
    for example if the array has nulls."""
    if not ENABLED or not len(array) or array.null_count or rows.dtype != np.int32:
        return None
    if isinstance(array, pa.DictionaryArray):
        indices = taken_array(array.indices, rows)
        return None if indices is None else _with_entries(indices, array)
    width = None if isinstance(array, pa.ExtensionArray) else _width_of(array.type)
    if width is None or width <= 0:
        return None
    buffer = pa.allocate_buffer(len(rows) * width)
    values = np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width)
    kept_values.take_fixed(values, width, rows, memoryview(buffer).cast("B"))
    return pa.Array.from_buffers(array.type, len(rows), [None, buffer, *array.buffers()[2:]], 0)


def _with_entries(indices: pa.Array, array: pa.DictionaryArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=array.type.ordered, safe=False)


def kept_array(array: pa.Array, mask: Mask, *, owned: bool = False) -> pa.Array | None:
    """Returns the kept rows of an array, found by a compiled pass. Returns None for a type that this pass does not
    support. ``owned``: whether values may be moved within the memory of the array. In that case neither the array nor
    its buffers may be used afterwards."""
    kind = array.type
    if not ENABLED or not len(array):
        return None
    if isinstance(array, pa.DictionaryArray):
        indices = kept_array(array.indices, mask, owned=owned)
        return None if indices is None else _with_entries(indices, array)
    if isinstance(array, pa.ExtensionArray):
        return None
    width = _width_of(kind)
    if width is None:
        return None
    count = mask.count
    first, *others = array.buffers()
    valid = None if array.null_count == 0 else _bits(first, array.offset, mask)
    if width == 0:
        content: list[pa.Buffer | None] = [_bits(others[0], array.offset, mask)]
    elif width > 0:
        here = owned and count > len(array) * MERGED_SHARE and array.offset == 0 and others[0].is_mutable
        content = [
            _moved(others[0], width, mask) if here else _fixed(others[0], array.offset, width, mask),
            *others[1:],  # the bytes to which views refer
        ]
    else:
        content = _strings(others[0], others[1], array.offset, -width, mask)
    return pa.Array.from_buffers(kind, count, [valid, *content])


def _width_of(kind: pa.DataType) -> int | None:
    """Returns the number of bytes of a value. Returns 0 for booleans, because they are stored as bits. For strings and
    bytes, returns the size of an offset as a negative number. Returns None for a type that the compiled pass does not
    support."""
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        width = 0 if pa.types.is_boolean(kind) else kind.bit_width // 8
        return width if width == 0 or width in KEPT_WIDTHS else None
    if getattr(kind, "has_variadic_buffers", False):  # a view; older versions of pyarrow lack this attribute
        return VIEW_BYTES
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return -4
    return -8 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else None


def _bits(data: pa.Buffer, start: int, mask: Mask) -> pa.Buffer:
    first, count = start // 8, mask.count
    bits = np.unpackbits(np.frombuffer(data, np.uint8, (start + mask.rows + 7) // 8 - first, first), bitorder="little")
    found = new_array(count + 1, np.uint8)
    kept_values.keep_fixed(bits[start - first * 8 :], 1, mask, found)
    return pa.py_buffer(np.packbits(found[:count], bitorder="little"))


def _moved(data: pa.Buffer, width: int, mask: Mask) -> pa.Buffer:
    kept_values.keep_here(memoryview(data).cast("B"), width, mask)
    return data.slice(0, mask.count * width)


def _fixed(data: pa.Buffer, start: int, width: int, mask: Mask) -> pa.Buffer:
    buffer = pa.allocate_buffer((mask.count + 1) * width)
    values = np.frombuffer(data, np.uint8, mask.rows * width, start * width)
    kept_values.keep_fixed(values, width, mask, memoryview(buffer).cast("B"))
    return buffer


def _strings(offsets: pa.Buffer, data: pa.Buffer | None, start: int, width: int, mask: Mask) -> list[pa.Buffer | None]:
    kind = np.int32 if width == 4 else np.int64
    rows, count = mask.rows, mask.count
    ends = np.frombuffer(offsets, kind, rows + 1, start * width)
    places = pa.allocate_buffer((count + 2) * width)
    view = memoryview(places).cast("B").cast("i" if width == 4 else "q")
    length = kept_values.equal_length(ends)
    if data is not None and length in KEPT_WIDTHS:
        buffers.fill_offsets(view, length)
        content = np.frombuffer(data, np.uint8, rows * length, int(ends[0]))
        buffer = pa.allocate_buffer((count + 1) * length)
        kept_values.keep_fixed(content, length, mask, memoryview(buffer).cast("B"))
        return [places, buffer]
    starts = new_array(count + 1, kind)
    size = kept_values.keep_offsets(ends, mask, starts, view)
    buffer = pa.allocate_buffer(size + COPY_SPARE_BYTES)
    if data is not None:
        content = np.frombuffer(data, np.uint8)
        out = memoryview(buffer).cast("B")
        kept_values.keep_bytes(content, starts, view, count, count > rows * MERGED_SHARE, out)
    return [places, buffer]
