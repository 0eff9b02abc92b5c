"""Writes index files of deletion vectors. The positions of newly deleted rows are merged with the existing positions.
This module also makes the records of the new index manifest.

In append tables without buckets, every index file with a vector of a changed data file is replaced. The new index file
also gets the other vectors of the old index file. In tables with buckets, each bucket has one index file with all its
vectors.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orcidx.errors import CorruptFile, Unsupported
from orcidx.paimon.deletion_vector import DeletionVector
from orcidx.paimon.deletion_vector_files import Range, encode_deletion_vectors, read_deletion_vector
from orcidx.paimon.registry import parse_size
from orcidx.paimon_table.commit.candidate import NewFile
from orcidx.paimon_table.commit.snapshot_creation import Attempt
from orcidx.paimon_table.commit.table_state import INDEX_MANIFEST_VERSION, TableState
from orcidx.paimon_table.metadata.manifest import ADD, DELETION_VECTORS, FilePlace, IndexEntry
from orcidx.paimon_table.metadata.manifest_schemas import INDEX_MANIFEST_SCHEMA, completed
from orcidx.paimon_table.metadata.schema import UNAWARE_BUCKET
from orcidx.paimon_table.read.table_paths import bucket_path, decoded_partition, index_path

__all__ = ["Merged", "merged_index"]


@dataclass(frozen=True)
class Merged:
    """The records of the new index manifest, the data files that have more deletions than before, and the number of
    added deletions."""

    records: tuple[dict[str, Any], ...]
    new_files: tuple[NewFile, ...]
    files: tuple[str, ...]
    rows: int
    size: int


def merged_index(attempt: Attempt, wanted: Mapping[FilePlace, DeletionVector]) -> Merged | None:
    """Writes the index files. Returns None if every position is already deleted."""
    state = attempt.state
    bitmap64 = state.schema.is_on("deletion-vectors.bitmap64")
    before = _vectors_of(state)
    rows, grown = 0, {}
    for place, vector in wanted.items():
        old = _read(state, *before[place]) if place in before else DeletionVector()
        new = old | vector
        if len(new) > len(old):
            grown[place] = new
            rows += len(new) - len(old)
    if not grown:
        return None
    writer = _Writer(attempt, bitmap64)
    unaware = state.schema.buckets == UNAWARE_BUCKET
    for partition, bucket in dict.fromkeys(place[:2] for place in grown):
        here = {place[2]: vector for place, vector in grown.items() if place[:2] == (partition, bucket)}
        writer.replace(partition, bucket, here, unaware=unaware)
    files = tuple(place[2] for place in grown)
    size = sum(new.size for new in writer.new_files)
    return Merged(tuple(writer.records()), tuple(writer.new_files), files, rows, size)


def _vectors_of(state: TableState) -> dict[FilePlace, tuple[IndexEntry, Any]]:
    """Finds the vector of each data file."""
    found: dict[FilePlace, tuple[IndexEntry, Any]] = {}
    for entry in state.index_entries:
        for name, where in entry.deletion_ranges if entry.index_type == DELETION_VECTORS else ():
            place = (entry.partition, entry.bucket, name)
            if place in found:  # if only one vector were used, rows that the other vector deletes would come back
                raise CorruptFile(f"{name} has two deletion vectors: in {found[place][0].name} and {entry.name}")
            found[place] = (entry, where)
    return found


def _read(state: TableState, entry: IndexEntry, where: Any) -> DeletionVector:
    """Reads an existing vector. Raises an error if the vector is damaged. If a damaged vector were left out, the
    deleted rows would be visible again."""
    if entry.external_path is not None:
        raise Unsupported(
            "orcidx cannot delete these rows, because the deletion vectors of their data files are in index file "
            f"{entry.name}, which is outside the table; use Paimon in Spark or Flink to delete the rows"
        )
    source = state.files.source(index_path(state.schema, entry))
    vector = read_deletion_vector(source, where.offset, where.length)
    if where.cardinality is not None and where.cardinality != len(vector):
        raise CorruptFile(
            f"the deletion vector has {len(vector)} positions, but should have {where.cardinality} according to the "
            "manifest",
            file=source.name,
        )
    return vector


class _Writer:
    """Writes the new index files, and collects the records of the new index manifest."""

    def __init__(self, attempt: Attempt, bitmap64: bool) -> None:
        self.attempt = attempt
        self.state = attempt.state
        self.bitmap64 = bitmap64
        options = self.state.schema.options
        name = "deletion-vector.index-file.target-size"
        self.target = parse_size(name, options.get(name, "2 mb"))
        self.replaced: set[int] = set()
        self.added: list[dict[str, Any]] = []
        self.new_files: list[NewFile] = []
        self.uuid = uuid.uuid4()
        self.live = self.state.by_place

    def replace(self, partition: bytes, bucket: int, grown: Mapping[str, DeletionVector], *, unaware: bool) -> None:
        """Writes new index files for one bucket. They replace the bucket's old index files.

        Paimon's compaction sometimes leaves vectors of data files that no longer exist. Such vectors are dropped.
        """
        vectors: dict[str, DeletionVector] = {}
        for number, entry in enumerate(self.state.index_entries):
            mine = (entry.partition, entry.bucket, entry.index_type) == (partition, bucket, DELETION_VECTORS)
            if not mine or (unaware and not any(name in grown for name, _ in entry.deletion_ranges)):
                continue
            self.replaced.add(number)
            for name, where in entry.deletion_ranges:
                if name not in grown and (partition, bucket, name) in self.live:
                    vectors[name] = _read(self.state, entry, where)
        vectors |= grown
        target = self.target if unaware else None
        for data, ranges in encode_deletion_vectors(vectors, bitmap64=self.bitmap64, target_size=target):
            self._store(partition, bucket, data, ranges)

    def _store(self, partition: bytes, bucket: int, data: bytes, ranges: Mapping[str, Range]) -> None:
        name = f"index-{self.uuid}-{len(self.new_files)}"
        directory = "index"
        if self.state.schema.is_on("index-file-in-data-file-dir"):
            directory = bucket_path(self.state.schema, bucket, decoded_partition(self.state.schema, partition))
        self.attempt.put(f"{directory}/{name}", data)
        self.new_files.append(NewFile(f"{directory}/{name}", len(data)))
        schema = INDEX_MANIFEST_SCHEMA if self.state.index is None else self.state.index.schema_text
        self.added.append(_index_record(schema, partition, bucket, name, len(data), ranges))

    def records(self) -> Sequence[dict[str, Any]]:
        """All records of the new index manifest. Records that are not replaced keep all their fields."""
        old = () if self.state.index is None else self.state.index.records
        return [*(record for number, record in enumerate(old) if number not in self.replaced), *self.added]


def _index_record(
    schema: bytes, partition: bytes, bucket: int, name: str, size: int, ranges: Mapping[str, Range]
) -> dict[str, Any]:
    items = [
        {"f0": file, "f1": where.offset, "f2": where.length, "_CARDINALITY": where.cardinality}
        for file, where in ranges.items()
    ]
    record = {
        "_VERSION": INDEX_MANIFEST_VERSION,
        "_KIND": ADD,
        "_PARTITION": partition,
        "_BUCKET": bucket,
        "_INDEX_TYPE": DELETION_VECTORS,
        "_FILE_NAME": name,
        "_FILE_SIZE": size,
        "_ROW_COUNT": len(ranges),
        "_DELETIONS_VECTORS_RANGES": [
            completed(schema, item, "_DELETIONS_VECTORS_RANGES", may_lose=("_CARDINALITY",)) for item in items
        ],
        "_EXTERNAL_PATH": None,
    }
    return completed(schema, record)
