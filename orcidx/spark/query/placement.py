"""Puts rows into the partitions that the driver chose for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orcidx.spark.sessions.arrow_tables import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["place"]

BIN = "bin"
_SEED = 42
"""Spark's seed of its Murmur3 hash."""
_C1, _C2 = 0xCC9E2D51, 0x1B873593


def place(spark: SparkSession, rows: pa.Table, bins: Sequence[int], count: int) -> DataFrame:
    """A DataFrame of ``rows`` in ``count`` partitions. Row ``i`` is in the partition ``bins[i]``.

    Spark 4.1 and later use ``repartitionById``. In earlier versions, each row gets a number whose hash belongs to the
    partition.
    """
    frame_class = type(spark.range(0))
    exact = hasattr(frame_class, "repartitionById")
    keys = np.asarray(bins, np.int32) if exact else keys_of_partitions(count)[np.asarray(bins, np.int64)]
    frame = frame_of(spark, rows.append_column(BIN, pa.array(keys, pa.int32())))
    placed = frame.repartitionById(count, BIN) if exact else frame.repartition(count, BIN)
    return placed.select(*rows.schema.names)


def keys_of_partitions(count: int) -> npt.NDArray[np.int32]:
    """Returns one number for each of ``count`` partitions. Spark's ``repartition(count, column)`` puts a row with this
    number into this partition."""
    keys = np.full(count, -1, np.int32)
    start, size = 0, 16 * count + 64
    while (keys < 0).any():
        numbers = np.arange(start, start + size, dtype=np.int32)
        # The remainder has the same sign as the divisor, as in Spark's pmod.
        places = _spark_hash(numbers).astype(np.int64) % count
        found, first = np.unique(places, return_index=True)
        fresh = keys[found] < 0
        keys[found[fresh]] = numbers[first[fresh]]
        start += size
    return keys


def _spark_hash(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Spark's hash of an INT column: Murmur3_x86_32 of four bytes, seed 42."""

    def rotated(x: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
        return (x << np.uint32(by)) | (x >> np.uint32(32 - by))

    mixed = rotated(values.view(np.uint32) * np.uint32(_C1), 15) * np.uint32(_C2)
    state = rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ (state >> np.uint32(shift))) * np.uint32(factor)
    return (state ^ (state >> np.uint32(16))).view(np.int32)
