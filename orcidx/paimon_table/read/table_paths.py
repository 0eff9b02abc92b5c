"""Where the files of a table are, by their paths within it: buckets' directories, index files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orcidx.errors import CorruptFile
from orcidx.paimon_table.metadata.binary_row import BinaryRow
from orcidx.paimon_table.metadata.manifest import IndexEntry
from orcidx.paimon_table.metadata.partition_path import partition_path
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.paimon_table.read.plan import POSTPONE_BUCKET

__all__ = ["bucket_path", "index_path", "partition_values"]


def partition_values(schema: TableSchema, partition: bytes) -> tuple[Any, ...]:
    """The values of a partition's row, in the physical domain."""
    return BinaryRow(partition).values([field.type for field in schema.partition_fields])


def bucket_path(schema: TableSchema, bucket: int, values: Sequence[Any]) -> str:
    """The directory of a bucket of the partition with these values. Raises ``CorruptFile`` for one outside."""
    partition = partition_path(
        schema.partition_fields,
        values,
        default_name=schema.options.get("partition.default-name", "__DEFAULT_PARTITION__"),
        legacy=schema.is_on("partition.legacy-name", default=True),
    )
    named = "postpone" if bucket == POSTPONE_BUCKET else str(bucket)
    within = schema.options.get("data-file.path-directory", "").strip("/")
    if ".." in within.replace("\\", "/").split("/"):
        raise CorruptFile(f"data-file.path-directory {within!r:.120} leads out of the table")
    return f"{within}/{partition}bucket-{named}" if within else f"{partition}bucket-{named}"


def index_path(schema: TableSchema, entry: IndexEntry) -> str:
    """The path of an index file that is inside the table."""
    if schema.is_on("index-file-in-data-file-dir"):
        return f"{bucket_path(schema, entry.bucket, partition_values(schema, entry.partition))}/{entry.name}"
    return f"index/{entry.name}"
