"""Finds out whether the files of a primary-key table can be read independently, without merging rows of equal keys.

A bucket needs no merging if no file has rows that delete keys, and one of three conditions is met. First: the keys of
no two files overlap. Second: no file is on level 0, and either deletion vectors cover the older rows, or the merge
engine is first-row. Third: no file is on level 0, and all files are on one level. The keys of files on one level never
overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from orcidx.paimon.data_types import DataType
from orcidx.paimon_table.metadata.binary_row import BinaryRow
from orcidx.paimon_table.metadata.manifest import FileEntry
from orcidx.paimon_table.metadata.schema import TableSchema

__all__ = ["hides_level_zero", "merging_needed"]


def _first_row(schema: TableSchema) -> bool:
    return schema.options.get("merge-engine", "deduplicate").strip().lower() == "first-row"


def hides_level_zero(schema: TableSchema) -> bool:
    """Whether a read skips the files of level 0 until they are compacted. If the table has deletion vectors, only a
    compaction marks older rows with the same keys as deleted. Tables with the merge engine ``first-row`` skip level 0,
    too."""
    if schema.is_on("deletion-vectors.enabled"):
        return not schema.is_on("deletion-vectors.merge-on-read")
    return _first_row(schema)


def merging_needed(files: Sequence[FileEntry], schema: TableSchema) -> str | None:
    """The reason why the visible files of one bucket must be merged. The result is None if these files need no
    merging."""
    clean = all(file.level != 0 and not file.deleted_rows for file in files)
    if clean:
        if schema.is_on("deletion-vectors.enabled") or _first_row(schema):
            return None
        if len({file.level for file in files}) == 1:
            return None
    types = [field.type for field in schema.key_fields]
    ranges = sorted(
        ((_key(file.min_key, types), _key(file.max_key, types), file) for file in files), key=lambda one: one[:2]
    )
    for i, (low, high, file) in enumerate(ranges):
        if file.deleted_rows:
            return f"{file.name} holds {file.deleted_rows} deletions"
        if low > high:
            return f"the smallest key of {file.name} is greater than its largest key"
        if i and low <= ranges[i - 1][1]:
            return f"keys of {ranges[i - 1][2].name} (level {ranges[i - 1][2].level}) and {file.name} overlap"
    return None


def _key(data: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    """A key that sorts as in Paimon: null is first, and floats follow Java's total order."""
    return tuple((value is not None, _ordered(value)) for value in BinaryRow(data).values(types))


def _ordered(value: Any) -> Any:
    if isinstance(value, float):
        return (value != value, value if value == value else 0.0, math.copysign(1.0, value))
    return value
