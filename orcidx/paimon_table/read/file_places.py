"""Finds the files of a manifest entry: the data file, its index file and its deletion vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from orcidx.errors import CorruptFile, FileGone, located
from orcidx.paimon.data_types import TEXTS
from orcidx.paimon_table.metadata.files import TableFiles
from orcidx.paimon_table.metadata.manifest import DELETION_VECTORS, FileEntry, FilePlace, IndexEntry, file_place
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.paimon_table.read.plan import DeletionFile, TableFile
from orcidx.paimon_table.read.table_paths import bucket_path, bucket_pattern, decoded_partition, index_path
from orcidx.storage import Source
from orcidx.storage.folder import Folder

__all__ = ["FilePlaces"]


class FilePlaces:
    """Makes a ``TableFile`` from each manifest entry of one snapshot.

    ``index_files`` returns the snapshot's index entries. It is called once, for the first file.
    """

    def __init__(self, files: TableFiles, schema: TableSchema, index_files: Callable[[], Sequence[IndexEntry]]) -> None:
        self._files = files
        self._schema = schema
        self._index_files = index_files
        self._deletions: dict[FilePlace, DeletionFile] | None = None
        self._listed: dict[str, list[str]] | None = None

    def table_file(self, entry: FileEntry) -> TableFile:
        """The data file of a manifest entry. Raises ``CorruptFile`` for damaged metadata. Raises ``FileGone`` if the
        file's directory must be searched, and the file is not found."""
        with located(file=self._files.root.name):
            values = decoded_partition(self._schema, entry.partition)
        directory = self._directory(entry, values)
        if entry.external_path is not None:
            source = self._files.external(entry.external_path)
            parent = entry.external_path.rpartition("/")[0]
        else:
            source = self._files.source(f"{directory}/{entry.name}")
            parent = None
        names = _index_names(entry, source)
        index = None
        if entry.embedded_index is None and names:
            inside = f"{directory}/{names[0]}"
            index = self._files.source(inside) if parent is None else self._files.external(f"{parent}/{names[0]}")
        partition = _partition_by_name(self._schema, values)
        if self._deletions is None:
            self._deletions = self._deletion_files(self._index_files())
        deletion = self._deletions.get(file_place(entry))
        return TableFile(source, partition, values, entry, entry.embedded_index, index, deletion)

    def _directory(self, entry: FileEntry, values: Sequence[Any]) -> str:
        """The bucket's directory. If the name of the partition's directory depends on the JVM that wrote it, the table
        is listed once. The directory that contains the file is then the bucket's directory. Each file's name is unique,
        because it has a UUID."""
        pattern = bucket_pattern(self._schema, entry.bucket, values)
        if pattern is None or entry.external_path is not None:
            return bucket_path(self._schema, entry.bucket, values) if pattern is None else ""
        if self._listed is None:
            listed: dict[str, list[str]] = {}
            for stored in Folder(self._files.root).list():
                directory, _, name = stored.name.rpartition("/")
                listed.setdefault(name, []).append(directory)
            self._listed = listed  # set only when complete, because another thread may read ``_listed`` at any time
        found = [directory for directory in self._listed.get(entry.name, ()) if pattern.fullmatch(directory)]
        if not found:
            raise FileGone("the file is missing in the directories of its partition", file=entry.name)
        if len(found) > 1:
            raise CorruptFile(
                f"{entry.name} is in several directories: {' and '.join(found)}"[:300], file=self._files.root.name
            )
        return found[0]

    def _deletion_files(self, entries: Iterable[IndexEntry]) -> dict[FilePlace, DeletionFile]:
        """The deletion vector of each data file, by the file's partition, bucket and name."""
        found: dict[FilePlace, DeletionFile] = {}
        for entry in entries:
            if entry.index_type != DELETION_VECTORS or not entry.deletion_ranges:
                continue
            source = self._index_source(entry)
            for data_file, where in entry.deletion_ranges:
                key = (entry.partition, entry.bucket, data_file)
                if key in found:
                    raise CorruptFile(f"{data_file} has two deletion vectors", file=self._files.root.name)
                found[key] = DeletionFile(source, where.offset, where.length, where.cardinality)
        return found

    def _index_source(self, entry: IndexEntry) -> Source:
        if entry.external_path is not None:
            return self._files.external(entry.external_path)
        with located(file=self._files.root.name):
            return self._files.source(index_path(self._schema, entry))


def _index_names(entry: FileEntry, source: Source) -> list[str]:
    """The names of the index files beside a data file. There is at most one name. There is none if the manifest
    contains the index."""
    names = [name for name in entry.extra_files if name.endswith(".index")]
    if entry.embedded_index is None and len(names) > 1:
        raise CorruptFile(f"a data file has {len(names)} index files, but only one is allowed", file=source.name)
    return names


def _partition_by_name(schema: TableSchema, values: Sequence[Any]) -> dict[str, Any]:
    """The values of a partition by column. Texts are decoded."""
    return {
        field.name: value.decode("utf-8", "replace") if value is not None and field.type.root in TEXTS else value
        for field, value in zip(schema.partition_fields, values)
    }
