"""The paths of a table's files within the table: directories of buckets, and index files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypedDict

from orcidx.errors import CorruptFile
from orcidx.paimon_table.metadata.binary_row import BinaryRow
from orcidx.paimon_table.metadata.manifest import IndexEntry
from orcidx.paimon_table.metadata.partition_path import depends_on_jvm, partition_path, partition_pattern
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.paimon_table.read.plan import POSTPONE_BUCKET
from orcidx.storage import Source
from orcidx.storage.folder import Folder

__all__ = ["bucket_path", "bucket_pattern", "decoded_partition", "index_path", "schema_file"]


def decoded_partition(schema: TableSchema, partition: bytes) -> tuple[Any, ...]:
    """The values of a partition's row, in the form of ``BinaryRow``."""
    return BinaryRow(partition).values([field.type for field in schema.partition_fields])


def bucket_path(schema: TableSchema, bucket: int, values: Sequence[Any]) -> str:
    """The directory of a bucket of the partition with these values. Raises ``CorruptFile`` for a directory outside of
    the table, and ``Unsupported`` if the directory must be searched with ``bucket_pattern``."""
    partition = partition_path(schema.partition_fields, values, **_naming(schema))
    within = _within(schema)
    return f"{within}/{partition}{_bucket(bucket)}" if within else f"{partition}{_bucket(bucket)}"


def bucket_pattern(schema: TableSchema, bucket: int, values: Sequence[Any]) -> re.Pattern[str] | None:
    """A pattern for the paths of a bucket, if a partition's text depends on the JVM that wrote it. Otherwise None."""
    naming = _naming(schema)
    free = [
        value is not None and depends_on_jvm(field.type, legacy=naming["legacy"])
        for field, value in zip(schema.partition_fields, values)
    ]
    if not any(free):
        return None
    partition = partition_pattern(schema.partition_fields, values, **naming)
    within = re.escape(f"{_within(schema)}/" if _within(schema) else "")
    return re.compile(within + partition.pattern + re.escape(_bucket(bucket)))


class _Naming(TypedDict):
    default_name: str
    legacy: bool


def _naming(schema: TableSchema) -> _Naming:
    return {
        "default_name": schema.options.get("partition.default-name", "__DEFAULT_PARTITION__"),
        "legacy": schema.is_on("partition.legacy-name", default=True),
    }


def _bucket(bucket: int) -> str:
    return f"bucket-{'postpone' if bucket == POSTPONE_BUCKET else bucket}"


def _within(schema: TableSchema) -> str:
    within = schema.options.get("data-file.path-directory", "").strip("/")
    if ".." in within.replace("\\", "/").split("/"):
        raise CorruptFile(f"data-file.path-directory {within!r:.120} is outside of the table")
    return within


def schema_file(root: Source, schema: TableSchema) -> list[Source]:
    """The schema file of a table. New files of a local table get the same mode as this file."""
    return [Folder(root).source(f"schema/schema-{schema.id}")]


def index_path(schema: TableSchema, entry: IndexEntry) -> str:
    """The path of an index file that is inside the table."""
    if schema.is_on("index-file-in-data-file-dir"):
        return f"{bucket_path(schema, entry.bucket, decoded_partition(schema, entry.partition))}/{entry.name}"
    return f"index/{entry.name}"
