"""Decodes and compares decimals of a predicate in 64 bits. This takes half the memory of 128 bits. Only the values of
matching rows are widened to 128 bits.

Only decimals of at most 18 digits fit into 64 bits. Decimals with more digits are decoded in 128 bits. Some tests set
``ENABLED`` to False. All decimals are then decoded in 128 bits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from orcidx.orc import decimals
from orcidx.orc.types import OrcType
from orcidx.planner.column_plan import ColumnPlan
from orcidx.predicate.binding import BoundPredicate
from orcidx.predicate.fold import is_read_by_pyarrow

__all__ = ["narrow_columns", "widened"]

ENABLED = hasattr(pa, "decimal64")  # the type was added in pyarrow 19


def narrow_columns(plan: ColumnPlan, where: BoundPredicate | None) -> frozenset[int]:
    """The ids of the predicate's columns that are read in 64 bits. A column that pyarrow may read for a part of the
    predicate is left out, because pyarrow expects 128 bits there."""
    if not ENABLED or where is None or not plan.decimals:
        return frozenset()
    is_left_out = is_read_by_pyarrow(where.root)
    return frozenset(
        column.id
        for column, name in zip(plan.predicate, plan.predicate_names)
        if column.id in plan.decimals and not is_left_out(name)
    )


def widened(
    arrays: Sequence[pa.Array | None], columns: Sequence[OrcType], narrow: Collection[int]
) -> list[pa.Array | None]:
    """Returns the arrays of the columns. The arrays of the columns in ``narrow`` are widened to 128 bits. If an array
    is None, its result is None."""
    return [
        array if array is None or column.id not in narrow else _wide(array)
        for column, array in zip(columns, arrays, strict=True)
    ]


def _wide(array: pa.Array) -> pa.Array:
    rows, kind = len(array), pa.decimal128(array.type.precision, array.type.scale)
    if array.offset:
        return array.cast(kind)
    valid, data = array.buffers()
    buffer = pa.allocate_buffer(16 * rows)
    decimals.widen_decimals(np.frombuffer(data, np.int64, rows), memoryview(buffer).cast("B"))
    return pa.Array.from_buffers(kind, rows, [valid, buffer], array.null_count)
