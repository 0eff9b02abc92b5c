"""Finds the buckets that can hold a matching row, in a table with a fixed number of buckets.

The bucket of a row depends on the hash of its bucket key. If a predicate fixes every column of the key by equality,
each possible key gives one bucket, and the other buckets can be skipped.
"""

from __future__ import annotations

import decimal
import itertools
from typing import Any

import pyarrow as pa

from orcidx.errors import InvalidQuery
from orcidx.paimon.data_types import TIMESTAMPS, DataField
from orcidx.paimon.hash_index import Hashes, bucket_of_hash, key_hash
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.predicate import Bound, BoundLeaf, Op
from orcidx.predicate.fold import conjuncts
from orcidx.predicate.nodes import NANOS

__all__ = ["BucketFilter", "bucket_filter"]

_MOST_KEYS = 1000
"""The largest number of bucket keys of one condition that are hashed. With more keys, no bucket is skipped."""
# The bucket of a row depends on the bytes of its key. Equal FLOAT or DOUBLE values can have different bytes, such as
# -0.0 and 0.0. Equal CHAR values can differ in trailing blanks.
_AMBIGUOUS = frozenset({"FLOAT", "DOUBLE", "CHAR"})


class BucketFilter:
    """The hashes of the bucket keys that can match."""

    def __init__(self, hashes: Hashes) -> None:
        self._hashes = hashes
        self._buckets: dict[int, frozenset[int]] = {}

    def may_hold(self, bucket: int, total_buckets: int) -> bool:
        """Whether a matching row can be in the bucket. Always true if ``total_buckets`` is not a fixed number."""
        if total_buckets <= 0 or bucket < 0:
            return True
        if total_buckets not in self._buckets:
            self._buckets[total_buckets] = frozenset(bucket_of_hash(self._hashes, total_buckets).tolist())
        return bucket in self._buckets[total_buckets]


def bucket_filter(schema: TableSchema, root: Bound) -> BucketFilter | None:
    """Makes the filter from a bound predicate. The result is None if the predicate does not fix the bucket key, or if
    the hash of the key does not decide the bucket."""
    fields = schema.bucket_fields
    if not fields or schema.options.get("bucket-function.type", "default").strip().lower() != "default":
        return None
    if any(field.type.root in _AMBIGUOUS for field in fields):
        return None
    choices = [_choices(field, conjuncts(root)) for field in fields]
    keys = 1
    for choice in choices:
        keys *= len(choice) if choice is not None else _MOST_KEYS + 1
        if keys > _MOST_KEYS:
            return None
    rows = list(itertools.product(*(choice for choice in choices if choice is not None)))
    try:
        columns = [_literals([row[i] for row in rows], field) for i, field in enumerate(fields)]
        batch = pa.RecordBatch.from_arrays(columns, [field.name for field in fields])
        return BucketFilter(key_hash(batch, [field.type for field in fields]))
    except (InvalidQuery, pa.ArrowException, OverflowError):
        return None  # a literal does not fit the type, so no value equals it; other steps skip the files


def _choices(field: DataField, leaves: Any) -> tuple[Any, ...] | None:
    """The only values that the column can have in a matching row. The result is None if these values are not known."""
    for leaf in leaves:
        if isinstance(leaf, BoundLeaf) and leaf.path == (field.name,) and not leaf.negated:
            if leaf.op in (Op.EQ, Op.EQ_NULL_SAFE, Op.IN):
                return leaf.literals
            if leaf.op is Op.IS_NULL:
                return (None,)
    return None


def _literals(values: list[Any], field: DataField) -> pa.Array:
    root = field.type.root
    if root in TIMESTAMPS:
        wide = [None if value is None else decimal.Decimal(value) for value in values]
        return pa.array(wide, pa.decimal128(38, 0))
    if root == "TIME":
        return pa.array([None if value is None else value // NANOS["ms"] for value in values], pa.int32())
    if root == "DATE":
        return pa.array(values, pa.int32())
    if root == "VARCHAR":
        return pa.array(values, pa.binary())
    return pa.array(values, field.type.arrow_type)
