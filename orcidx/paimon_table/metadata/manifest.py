"""Manifests: the data files and index files of a snapshot.

A manifest list (Avro) names manifests. A manifest (Avro) has entries that add or delete a data file. An index manifest
(Avro) lists all index files, with the ranges of the deletion vectors in them. Older files may lack fields that newer
writers have added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from orcidx.errors import CorruptFile, Unsupported
from orcidx.paimon_table.avro.container import read_avro
from orcidx.paimon_table.metadata.snapshot import is_file_name

__all__ = [
    "ADD",
    "DELETE",
    "DELETION_VECTORS",
    "DeletionRange",
    "FileEntry",
    "FilePlace",
    "IndexEntry",
    "Manifest",
    "ManifestInfo",
    "RowStats",
    "file_entry",
    "file_place",
    "index_entry",
    "live_files",
    "live_numbers",
    "manifest_info",
    "read_index_manifest",
    "read_manifest",
    "read_manifest_list",
    "unknown_fields",
]

ADD, DELETE = 0, 1
_FIELDS = frozenset(
    """_VERSION _KIND _PARTITION _BUCKET _TOTAL_BUCKETS _FILE _FILE_NAME _FILE_SIZE _ROW_COUNT _MIN_KEY _MAX_KEY
    _KEY_STATS _VALUE_STATS _MIN_SEQUENCE_NUMBER _MAX_SEQUENCE_NUMBER _SCHEMA_ID _LEVEL _EXTRA_FILES _CREATION_TIME
    _DELETE_ROW_COUNT _EMBEDDED_FILE_INDEX _FILE_SOURCE _VALUE_STATS_COLS _EXTERNAL_PATH _FIRST_ROW_ID _WRITE_COLS
    _WRITE_COLS_SEQUENCES _NUM_ADDED_FILES _NUM_DELETED_FILES _PARTITION_STATS _MIN_BUCKET _MAX_BUCKET _MIN_LEVEL
    _MAX_LEVEL _MIN_ROW_ID _MAX_ROW_ID _INDEX_TYPE _DELETIONS_VECTORS_RANGES _GLOBAL_INDEX""".split()  # noqa: SIM905
)
_OF_ENTRY = (("_FILE", dict), ("_KIND", int), ("_PARTITION", bytes), ("_BUCKET", int), ("_TOTAL_BUCKETS", int))
_OF_FILE = (
    *(("_FILE_NAME", str), ("_FILE_SIZE", int), ("_ROW_COUNT", int), ("_LEVEL", int), ("_SCHEMA_ID", int)),
    *(("_MIN_KEY", bytes), ("_MAX_KEY", bytes), ("_KEY_STATS", dict), ("_VALUE_STATS", dict)),
)
_OF_INDEX = (
    *(("_KIND", int), ("_PARTITION", bytes), ("_BUCKET", int), ("_INDEX_TYPE", str), ("_FILE_NAME", str)),
    *(("_FILE_SIZE", int), ("_ROW_COUNT", int)),
)
"""Fields that every record of a data file or an index file has, in the order in which they are read."""
_BOUNDS = (("_MIN_VALUES", bytes), ("_MAX_VALUES", bytes))
_NUMBERS, _STRINGS = frozenset({int, type(None)}), frozenset({str})
DELETION_VECTORS = "DELETION_VECTORS"
"""Type of the index files that hold deletion vectors."""
FilePlace = tuple[bytes, int, str]
"""The partition, the bucket and the name of a data file."""


@dataclass(frozen=True)
class RowStats:
    """Minima, maxima and null counts of some columns. Minima and maxima are the bytes of a BinaryRow."""

    minima: bytes
    maxima: bytes
    null_counts: tuple[int | None, ...] | None


@dataclass(frozen=True)
class ManifestInfo:
    """A manifest in a manifest list. ``partition_stats``: statistics of the partition values of the manifest's
    entries. ``files``: the number of entries that add a file, minus the number of entries that delete a file.
    ``files`` is None if the list does not have these numbers."""

    name: str
    partition_stats: RowStats
    files: int | None = None


@dataclass(frozen=True)
class FileEntry:
    """A data file in a manifest. ``partition`` and the keys are the bytes of BinaryRows. ``TableFile`` describes the
    other fields."""

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    name: str
    size: int
    rows: int
    level: int
    schema_id: int
    min_key: bytes
    max_key: bytes
    key_stats: RowStats
    value_stats: RowStats
    extra_files: tuple[str, ...] = ()
    embedded_index: bytes | None = field(default=None, repr=False)
    deleted_rows: int | None = None
    value_stats_columns: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    written_columns: tuple[str, ...] | None = None

    @cached_property
    def identity(self) -> tuple[Any, ...]:
        """The identity of the file in this entry. The entry that deletes a file has the same identity as the entry that
        added the file. When the file's index is rewritten, the identity changes."""
        return (
            self.partition,
            self.bucket,
            self.level,
            self.name,
            self.extra_files,
            self.embedded_index,
            self.external_path,
        )


def file_place(entry: FileEntry) -> FilePlace:
    """The place of the file in this entry. It stays the same when the file's index is rewritten."""
    return entry.partition, entry.bucket, entry.name


@dataclass(frozen=True)
class DeletionRange:
    """The position of a data file's deletion vector in an index file."""

    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True)
class IndexEntry:
    """An index file: ``index_type`` is HASH, DELETION_VECTORS or the name of a global index."""

    partition: bytes
    bucket: int
    index_type: str
    name: str
    size: int
    rows: int
    deletion_ranges: tuple[tuple[str, DeletionRange], ...] = ()
    external_path: str | None = None


def live_files(entries: Iterable[FileEntry]) -> list[FileEntry]:
    """The files that were added and not deleted, in the order of the entries."""
    entries = list(entries)
    return [entries[number] for number in live_numbers(entries).values()]


def live_numbers(entries: Sequence[FileEntry]) -> dict[tuple[Any, ...], int]:
    """The positions of the entries that added the live files, by identity.

    Each DELETE cancels one ADD of the same identity: the first ADD that is not cancelled yet. The order of DELETE and
    ADD does not matter, because a merge of manifests may change it. So a file that was added, deleted and added again
    is live. The snapshot's number of rows also counts such a file. Paimon's scan leaves it out until the manifests are
    merged. Raises ``CorruptFile`` if two ADDs of one identity are not cancelled.
    """
    deletes = Counter(entry.identity for entry in entries if entry.kind == DELETE)
    live: dict[tuple[Any, ...], int] = {}
    for number, entry in enumerate(entries):
        if entry.kind == DELETE:
            continue
        identity = entry.identity
        if deletes.get(identity):
            deletes[identity] -= 1
        elif identity in live:
            raise CorruptFile(f"data file {entry.name} is added twice without being deleted in between")
        else:
            live[identity] = number
    return live


def read_manifest_list(data: memoryview) -> list[ManifestInfo]:
    """The manifests in a manifest list, in order."""
    return [manifest_info(record) for record in read_avro(data)]


@dataclass(frozen=True)
class Manifest:
    """The entries of a manifest in order, and the names of its unknown fields that have a value."""

    entries: list[FileEntry]
    unknown: tuple[str, ...] = ()


def read_manifest(data: memoryview) -> Manifest:
    """Reads a manifest."""
    entries, unknown = [], dict[str, None]()
    unknown_paths: list[tuple[str, ...]] | None = None
    for record in read_avro(data):
        entries.append(file_entry(record))
        unknown_paths = _unknown_paths(record) if unknown_paths is None else unknown_paths
        if unknown_paths:
            unknown.update(dict.fromkeys(_names_with_value(record, unknown_paths)))
    return Manifest(entries, tuple(unknown))


def unknown_fields(records: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Names of fields that orcidx does not know and that have a value in some record. All records are of one Avro file,
    so they have one schema.

    The fields of Paimon 0.8 to 2.1 are known. An empty list counts as no value.
    """
    unknown_paths = _unknown_paths(records[0]) if records else []
    return (
        tuple(dict.fromkeys(name for record in records for name in _names_with_value(record, unknown_paths)))
        if unknown_paths
        else ()
    )


def _unknown_paths(record: dict[str, Any]) -> list[tuple[str, ...]]:
    """The paths of this record's unknown fields."""
    file = record.get("_FILE")
    inside = [("_FILE", name) for name in file if name not in _FIELDS] if isinstance(file, dict) else []
    return [*((name,) for name in record if name not in _FIELDS), *inside]


def _names_with_value(record: dict[str, Any], paths: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for path in paths:
        value: Any = record
        for name in path:
            value = value.get(name)
        if value not in (None, []):
            yield path[-1]


def read_index_manifest(data: memoryview) -> list[IndexEntry]:
    """The live index files in an index manifest."""
    return [index_entry(record) for record in read_avro(data)]


def manifest_info(record: dict[str, Any]) -> ManifestInfo:
    """Converts a record of a manifest list."""
    name, stats = _checked_name(_get(record, "_FILE_NAME", str)), _stats(_get(record, "_PARTITION_STATS", dict))
    added, deleted = record.get("_NUM_ADDED_FILES"), record.get("_NUM_DELETED_FILES")
    return ManifestInfo(name, stats, added - deleted if type(added) is type(deleted) is int else None)


def index_entry(record: dict[str, Any]) -> IndexEntry:
    """Converts a record of an index manifest."""
    kind, partition, bucket, index_type, name, size, rows = _required(record, _OF_INDEX)
    if kind == DELETE:
        raise CorruptFile(
            "an index manifest has an entry that deletes a file, but index manifests may only list existing files"
        )
    _check_kind(kind, "an index manifest")
    ranges = _optional(record, "_DELETIONS_VECTORS_RANGES", list) or []
    return IndexEntry(
        partition=partition,
        bucket=bucket,
        index_type=index_type,
        name=_checked_name(name),
        size=size,
        rows=rows,
        deletion_ranges=tuple(_deletion_range(item) for item in ranges if item is not None),
        external_path=_optional(record, "_EXTERNAL_PATH", str),
    )


def file_entry(record: dict[str, Any]) -> FileEntry:
    """Converts a record of a manifest."""
    file, kind, partition, bucket, total_buckets = _required(record, _OF_ENTRY)
    name, size, rows, level, schema_id, min_key, max_key, key_stats, value_stats = _required(file, _OF_FILE)
    _check_kind(kind, "a manifest")
    if rows < 0:
        raise CorruptFile(f"a manifest entry has a negative row count, {rows}")
    return FileEntry(
        kind=kind,
        partition=partition,
        bucket=bucket,
        total_buckets=total_buckets,
        name=_checked_name(name),
        size=size,
        rows=rows,
        level=level,
        schema_id=schema_id,
        min_key=min_key,
        max_key=max_key,
        key_stats=_stats(key_stats),
        value_stats=_stats(value_stats),
        extra_files=tuple(_checked_name(name) for name in _texts(file, "_EXTRA_FILES") or ()),
        embedded_index=_optional(file, "_EMBEDDED_FILE_INDEX", bytes),
        deleted_rows=_optional(file, "_DELETE_ROW_COUNT", int),
        value_stats_columns=_texts(file, "_VALUE_STATS_COLS"),
        external_path=_optional(file, "_EXTERNAL_PATH", str),
        first_row_id=_optional(file, "_FIRST_ROW_ID", int),
        written_columns=_texts(file, "_WRITE_COLS"),
    )


def _check_kind(kind: int, what: str) -> None:
    if kind not in (ADD, DELETE):
        raise Unsupported(f"{what} has an entry of kind {kind}; known kinds are {ADD} (added) and {DELETE} (deleted)")


def _stats(record: dict[str, Any]) -> RowStats:
    counts = _optional(record, "_NULL_COUNTS", list)
    if counts is not None and not _NUMBERS.issuperset(map(type, counts)):
        raise CorruptFile("the manifest has null counts that are not numbers")
    minima, maxima = _required(record, _BOUNDS)
    return RowStats(minima, maxima, None if counts is None else tuple(counts))


def _deletion_range(record: Any) -> tuple[str, DeletionRange]:
    if not isinstance(record, dict):
        raise CorruptFile("the index manifest has a deletion range that is not a record")
    where = DeletionRange(_get(record, "f1", int), _get(record, "f2", int), _optional(record, "_CARDINALITY", int))
    return _get(record, "f0", str), where


def _get(record: dict[str, Any], name: str, kind: type) -> Any:
    value = record.get(name)
    if type(value) is not kind:
        raise _wrong(name, value)
    return value


def _wrong(name: str, value: object) -> CorruptFile:
    return CorruptFile(f"the manifest has an invalid {name}: {value!r:.60}")


def _required(record: dict[str, Any], fields: Sequence[tuple[str, type]]) -> list[Any]:
    """The values of fields that every writer writes. Raises ``CorruptFile`` if a value is missing or has another
    type."""
    values = []
    for name, kind in fields:
        value = record.get(name)
        if type(value) is not kind:
            raise _wrong(name, value)
        values.append(value)
    return values


def _optional(record: dict[str, Any], name: str, kind: type) -> Any:
    value = record.get(name)
    if value is not None and type(value) is not kind:
        raise _wrong(name, value)
    return value


def _texts(record: dict[str, Any], name: str) -> tuple[str, ...] | None:
    values = _optional(record, name, list)
    if values is not None and not _STRINGS.issuperset(map(type, values)):
        raise CorruptFile(f"the field {name} of the manifest contains a value that is not a string")
    return None if values is None else tuple(values)


def _checked_name(name: str) -> str:
    """Checks a file name, which must not contain a directory."""
    if not is_file_name(name):
        raise CorruptFile(
            f"the manifest has the invalid file name {name!r:.120}; a file name must not be '', '.' or '..', and must "
            "not contain a slash, a backslash or a null character"
        )
    return name
