"""Decodes dictionary-encoded string columns of a predicate as codes. The predicate is evaluated once for each
dictionary entry. Strings are made only for the matching rows.

Some tests set ``ENABLED`` to False. The columns are then decoded as strings, with the same results.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from orcidx.options import ReadOptions
from orcidx.orc import buffers
from orcidx.orc.buffers import SPARE_BYTES
from orcidx.orc.column_readers import BatchTooLarge
from orcidx.orc.columns.base import LARGEST_ARRAY, allocate
from orcidx.orc.reader import OpenStripe
from orcidx.orc.streams import is_dictionary
from orcidx.orc.types import OrcType
from orcidx.planner.column_plan import ColumnPlan
from orcidx.predicate.binding import BoundPredicate
from orcidx.predicate.fold import is_read_by_pyarrow

__all__ = ["coded_columns", "entries_of", "spelled_out"]

ENABLED = True

ROWS_PER_ENTRY = 2
"""The least number of wanted rows for each dictionary entry. With fewer rows, evaluating the predicate on all entries
takes longer than evaluating it on the rows."""


def coded_columns(
    stripe: OpenStripe, plan: ColumnPlan, options: ReadOptions, where: BoundPredicate | None, rows: int
) -> frozenset[int]:
    """The ids of the predicate's columns that are read as codes. ``rows``: the number of wanted rows of the stripe.

    The result is empty if the scan returns dictionaries anyway. A column that pyarrow may read for a part of the
    predicate is left out, because pyarrow expects strings there, not codes.
    """
    if not ENABLED or where is None or not plan.texts or options.strings == "dictionary":
        return frozenset()
    is_left_out = is_read_by_pyarrow(where.root)
    return frozenset(
        column.id
        for column, name in zip(plan.predicate, plan.predicate_names)
        if column.id in plan.texts and not is_left_out(name) and _pays(stripe, column.id, rows)
    )


def _pays(stripe: OpenStripe, column: int, rows: int) -> bool:
    encoding = stripe.encoding(column)
    return is_dictionary(encoding.kind) and encoding.dictionary_size * ROWS_PER_ENTRY <= rows


def spelled_out(
    arrays: Sequence[pa.Array | None], columns: Sequence[OrcType], coded: frozenset[int], batch_bytes: int
) -> list[pa.Array | None]:
    """Returns the arrays of the columns. In the columns of ``coded``, codes are replaced by strings. If an array is
    None, its result is None.

    Raises ``BatchTooLarge`` if the strings of an array of several rows take more than ``batch_bytes``.
    """
    return [
        entries_of(array, batch_bytes) if array is not None and column.id in coded else array
        for column, array in zip(columns, arrays, strict=True)
    ]


def entries_of(array: pa.DictionaryArray, batch_bytes: int) -> pa.Array:
    """The entries that the codes of an array select. For ``batch_bytes`` see ``spelled_out``."""
    entries = array.dictionary
    most = min(batch_bytes, LARGEST_ARRAY)
    if len(array) > 1 and len(entries):
        offsets = np.frombuffer(entries.buffers()[1], np.int32, len(entries) + 1, entries.offset * 4)
        lengths = np.diff(offsets)
        if int(lengths.max()) * len(array) > most:
            codes = array.indices.drop_null().to_numpy()
            if int(lengths[codes].sum(dtype=np.int64)) > most:
                raise BatchTooLarge
    if array.null_count or entries.type != pa.string() or not len(entries) or len(array) < len(entries):
        return entries.take(array.indices)
    return _spelled(array.indices, entries)


def _spelled(codes: pa.Array, entries: pa.Array) -> pa.Array:
    """The entries that the codes select. ``take`` of pyarrow takes several times as long as this function."""
    _, places, data = entries.buffers()
    offsets = np.frombuffer(places, np.int32, len(entries) + 1, entries.offset * 4)
    blob = np.zeros(int(offsets[-1]) + SPARE_BYTES, np.uint8)
    if data is not None:
        blob[: offsets[-1]] = np.frombuffer(data, np.uint8, int(offsets[-1]))
    shortest, longest = buffers.length_range(offsets)
    uniform = longest if shortest == longest else -1
    count = len(codes)
    indexes = np.frombuffer(codes.buffers()[1], np.int32, count, codes.offset * 4)
    ends, view = allocate((count + 1) * 4)
    total = buffers.gather_offsets(indexes, offsets, None, count, count, view.cast("i"), uniform=uniform)
    if total > LARGEST_ARRAY:
        return entries.take(codes)
    text, out = allocate(total + SPARE_BYTES)
    buffers.gather_bytes(indexes, count, offsets, blob, total, out, uniform=uniform, longest=longest)
    return pa.Array.from_buffers(pa.string(), count, [None, ends, text.slice(0, total)], 0)
