"""The state of a table before a change: the newest snapshot and all records of its manifests. Fields that orcidx does
not know are included.

Everything that is read here is copied into the next snapshot, so nothing may be ignored. An unknown snapshot field,
manifest version or index type raises ``Unsupported``. Contradictory metadata raises ``CorruptFile``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orcidx.errors import CorruptFile, Unsupported
from orcidx.paimon_table.avro.container import AvroFile, read_avro_file
from orcidx.paimon_table.metadata.files import TableFiles
from orcidx.paimon_table.metadata.manifest import (
    DELETE,
    DELETION_VECTORS,
    FileEntry,
    FilePlace,
    IndexEntry,
    file_entry,
    file_place,
    index_entry,
    live_numbers,
    manifest_info,
    unknown_fields,
)
from orcidx.paimon_table.metadata.schema import TableSchema
from orcidx.paimon_table.metadata.snapshot import LONG_LIMIT, Snapshot, is_file_name, snapshot_of
from orcidx.paimon_table.read.table_view import TableView

__all__ = [
    "INDEX_MANIFEST_VERSION",
    "MANIFEST_VERSION",
    "SNAPSHOT_VERSION",
    "LiveFile",
    "ManifestFile",
    "TableState",
    "live_entries",
    "read_manifest_file",
    "read_state",
    "view_of",
]

_INDEX_TYPES = ("HASH", DELETION_VECTORS)
_KINDS = ("APPEND", "COMPACT", "OVERWRITE", "ANALYZE")
SNAPSHOT_VERSION, MANIFEST_VERSION, INDEX_MANIFEST_VERSION = 3, 2, 1
"""The versions of snapshots, manifests and index manifests that orcidx writes."""

_MOST_READS = 5
"""The maximum number of times that the newest snapshot is searched for and read. The snapshot may expire while it
is read."""


@dataclass(frozen=True)
class ManifestFile:
    """A manifest: its records as stored, and its parsed entries. ``size``: its size in bytes. ``unknown``: see
    ``Manifest``."""

    avro: AvroFile
    entries: tuple[FileEntry, ...]
    size: int
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class LiveFile:
    """A live data file: its entry, the record from which the entry was read, and the schema of the manifest that
    contains the record."""

    entry: FileEntry
    record: dict[str, Any] = field(repr=False)
    schema_text: bytes = field(repr=False)
    codec: str


@dataclass(frozen=True)
class TableState:
    """All metadata of one snapshot. ``document``: its JSON (None: nothing has been written yet). ``schema``: the
    table's newest schema. ``infos``: the records of both manifest lists, in order. ``deleted``: identities of files
    that a manifest of the snapshot deletes. ``index``: the index manifest."""

    files: TableFiles
    document: Mapping[str, Any] | None
    schema: TableSchema
    list_file: AvroFile | None
    infos: tuple[dict[str, Any], ...]
    manifests: Mapping[str, ManifestFile] = field(repr=False)
    live: Mapping[tuple[Any, ...], LiveFile] = field(repr=False)
    deleted: frozenset[tuple[Any, ...]] = field(repr=False)
    index: AvroFile | None = field(repr=False)
    index_entries: tuple[IndexEntry, ...] = field(repr=False)

    @property
    def snapshot_id(self) -> int:
        """The snapshot's number. It is 0 before the first snapshot."""
        return 0 if self.document is None else int(self.document["id"])

    @property
    def newest_manifest(self) -> AvroFile | None:
        """The last manifest in the manifest lists. The result is None if there is no manifest."""
        return self.manifests[self.infos[-1]["_FILE_NAME"]].avro if self.infos else None

    @property
    def by_place(self) -> dict[FilePlace, LiveFile]:
        """The live files by partition, bucket and name."""
        return {file_place(file.entry): file for file in self.live.values()}

    @property
    def rows(self) -> int:
        """The number of rows in the live files, including deleted rows."""
        return sum([live.entry.rows for live in self.live.values()])


def view_of(table: TableView, state: TableState) -> TableView:
    """A view of the table in this state. With this view, a change is planned without reading the metadata again."""
    return TableView(
        table.files,
        None if state.document is None else snapshot_of(state.document),
        state.schema,
        manifests=[manifest_info(record) for record in state.infos],
        entries={name: manifest.entries for name, manifest in state.manifests.items()},
    )


def read_state(
    files: TableFiles,
    cache: dict[str, ManifestFile],
    *,
    admitted: Sequence[str] = (),
    known: TableState | None = None,
) -> TableState:
    """Reads the newest snapshot. The search uses both the hint and a listing of the directory, because the numbers of
    the snapshots may have a gap. The hint may then name a snapshot before the gap. Readers would not see a change that
    is based on that snapshot, because the snapshots after the gap have higher numbers.

    ``cache``: manifests that were read before. They are still valid, because manifests never change. Manifests that are
    read now are added to the cache.

    ``admitted``: names of unknown fields of snapshots and manifests that the caller permits. ``known``: a state that
    was read before. If it is still the newest state, it is returned. Raises ``CorruptFile`` for damaged metadata, and
    ``Unsupported`` for metadata that orcidx does not know.
    """
    for _ in range(_MOST_READS):
        latest = files.newest_snapshot()
        try:
            return _read(files, latest, cache, admitted, known)
        except FileNotFoundError as error:
            now = files.latest_snapshot()
            if latest is None or now is None or now.id == latest.id:
                raise CorruptFile(f"snapshot {latest and latest.id} refers to a missing file: {error}") from error
    raise CorruptFile(f"snapshots of {files.root.name} expire before they can be read; run the change again")


def _read(
    files: TableFiles,
    snapshot: Snapshot | None,
    cache: dict[str, ManifestFile],
    admitted: Sequence[str],
    known: TableState | None,
) -> TableState:
    if snapshot is None:
        schema = files.latest_schema(0)
        if schema is None:
            raise FileNotFoundError(f"{files.root.name} is not a Paimon table: it has no schema")
        return TableState(files, None, schema, None, (), {}, {}, frozenset(), None, ())
    document, snapshot_id = _checked_document(snapshot, admitted), snapshot.id
    schema = files.latest_schema(document["schemaId"])
    if schema is None:
        raise CorruptFile(f"snapshot {snapshot_id} refers to schema {document['schemaId']}, which is missing")
    if known is not None and document == known.document and schema == known.schema:
        return known
    lists = [_read_list(files, document, name) for name in ("baseManifestList", "deltaManifestList")]
    if lists[0].records and lists[1].records and lists[0].schema_text != lists[1].schema_text:
        raise Unsupported(
            "the manifest lists of the newest snapshot have different schemas; compact the manifests with Paimon"
        )
    list_file = lists[1] if lists[1].records else lists[0]
    infos = (*lists[0].records, *lists[1].records)
    manifests = _read_manifests(files, infos, cache)
    live, deleted = live_entries([manifests[info["_FILE_NAME"]] for info in infos])
    index, index_entries = _read_index(files, document.get("indexManifest"))
    told = [unknown_fields(avro.records) for avro in (*lists, *([] if index is None else [index]))]
    _check_fields([*told, *(manifest.unknown for manifest in manifests.values())], admitted)
    state = TableState(files, document, schema, list_file, infos, manifests, live, deleted, index, index_entries)
    total = document.get("totalRecordCount")
    if state.rows >= LONG_LIMIT:
        raise CorruptFile(
            f"the manifests of snapshot {snapshot_id} have {state.rows} rows, more than a 64-bit number can hold"
        )
    if total is not None and total != state.rows:
        raise CorruptFile(f"snapshot {snapshot_id} should have {total} rows, but its manifests have {state.rows} rows")
    return state


def _check_fields(unknown: Iterable[Sequence[str]], admitted: Sequence[str]) -> None:
    if names := sorted({name for found in unknown for name in found} - set(admitted)):
        raise Unsupported(
            f"a manifest has the field {names[0]!r}, which orcidx does not know, so new entries would have no value "
            "for the field; change the table with the Paimon version that wrote this manifest, or, if the field may "
            f"stay empty, pass allow_options=[{names[0]!r}]"
        )


def _checked_document(snapshot: Snapshot, admitted: Sequence[str]) -> Mapping[str, Any]:
    document, snapshot_id = snapshot.document, snapshot.id
    if document.get("version", SNAPSHOT_VERSION) != SNAPSHOT_VERSION:
        raise Unsupported(
            f"snapshot {snapshot_id} has the version {document['version']!r}; orcidx supports only "
            f"snapshots of version {SNAPSHOT_VERSION}"
        )
    if unknown := [name for name in snapshot.unknown if name not in admitted]:
        raise Unsupported(
            f"snapshot {snapshot_id} has the field {unknown[0]!r}, which orcidx does not know; change the table with "
            "the Paimon version that wrote this snapshot, or, if the next snapshot does not need the field, pass "
            f"allow_options=[{unknown[0]!r}]"
        )
    for name in ("watermark", "nextRowId"):
        value = document.get(name)
        if value is not None and not (type(value) is int and -LONG_LIMIT <= value < LONG_LIMIT):
            raise CorruptFile(f"snapshot {snapshot_id} has an invalid value of {name}: {value!r:.60}")
    statistics = document.get("statistics")
    if statistics is not None and not (isinstance(statistics, str) and is_file_name(statistics)):
        raise CorruptFile(
            f"snapshot {snapshot_id} has {statistics!r:.60} as statistics, which is not the name of a file"
        )
    properties = document.get("properties") or {}
    if not isinstance(properties, dict):
        raise CorruptFile(f"the field 'properties' of snapshot {snapshot_id} is not a JSON object: {properties!r:.60}")
    if foreign := sorted(set(properties) - set(admitted)):
        raise Unsupported(
            f"snapshot {snapshot_id} has the property {foreign[0]!r}, which orcidx does not know. If the next "
            f"snapshot does not need this property, pass allow_options=[{foreign[0]!r}]"
        )
    if document.get("commitKind") not in _KINDS:
        raise Unsupported(
            f"snapshot {snapshot_id} has the kind {document.get('commitKind')!r}, which orcidx does not know; change "
            "the table with the Paimon version that wrote this snapshot"
        )
    return document


def _read_list(files: TableFiles, document: Mapping[str, Any], name: str) -> AvroFile:
    size, found = files.parsed(f"manifest/{document[name]}", lambda data: (len(data), read_avro_file(data)))
    expected = document.get(f"{name}Size")
    if expected is not None and expected != size:
        raise CorruptFile(
            f"{document[name]} has {size} bytes, but should have {expected} bytes according to the snapshot"
        )
    _check_versions(found, document[name], MANIFEST_VERSION)
    for record in found.records:
        manifest_info(record)
    return found


def read_manifest_file(data: memoryview) -> ManifestFile:
    """Reads a manifest and keeps every record as it is stored."""
    avro = read_avro_file(data)
    _check_versions(avro, "manifest", MANIFEST_VERSION)
    entries = tuple(file_entry(record) for record in avro.records)
    if avro.records and "_EMBEDDED_FILE_INDEX" not in avro.records[0]["_FILE"]:
        raise Unsupported(
            "a manifest is older than Paimon 0.8 and has no field for file indexes; compact the manifests with Paimon"
        )
    return ManifestFile(avro, entries, len(data), unknown_fields(avro.records))


def _read_manifests(
    files: TableFiles, infos: Sequence[dict[str, Any]], cache: dict[str, ManifestFile]
) -> dict[str, ManifestFile]:
    names = list(dict.fromkeys(info["_FILE_NAME"] for info in infos))
    missing = [name for name in names if name not in cache]
    read = files.parsed_all([f"manifest/{name}" for name in missing], read_manifest_file)
    cache.update(zip(missing, read))
    for info in infos:
        if info.get("_FILE_SIZE") != cache[info["_FILE_NAME"]].size:
            raise CorruptFile(
                f"manifest {info['_FILE_NAME']} has {cache[info['_FILE_NAME']].size} bytes, but its manifest list "
                f"says {info.get('_FILE_SIZE')}"
            )
    return {name: cache[name] for name in names}


def live_entries(
    manifests: Sequence[ManifestFile],
) -> tuple[dict[tuple[Any, ...], LiveFile], frozenset[tuple[Any, ...]]]:
    """The live files by identity, and the deleted identities. Paimon's scan leaves out an identity that has been
    deleted once, even if it was added again, so orcidx never adds a deleted identity."""
    files = [
        LiveFile(entry, record, manifest.avro.schema_text, manifest.avro.codec)
        for manifest in manifests
        for entry, record in zip(manifest.entries, manifest.avro.records)
    ]
    entries = [file.entry for file in files]
    deleted = frozenset(entry.identity for entry in entries if entry.kind == DELETE)
    return {identity: files[number] for identity, number in live_numbers(entries).items()}, deleted


def _read_index(files: TableFiles, name: str | None) -> tuple[AvroFile | None, tuple[IndexEntry, ...]]:
    if name is None:
        return None, ()
    index = files.parsed(f"manifest/{name}", read_avro_file)
    _check_versions(index, name, INDEX_MANIFEST_VERSION)
    entries = tuple(index_entry(record) for record in index.records)
    if unknown := sorted({entry.index_type for entry in entries} - set(_INDEX_TYPES)):
        raise Unsupported(
            f"the table has an index of type {unknown[0]!r}, which orcidx cannot update; change the table with Paimon"
        )
    return index, entries


def _check_versions(avro: AvroFile, name: str, wanted: int) -> None:
    for record in avro.records:
        if record.get("_VERSION") != wanted:
            raise Unsupported(
                f"{name} has records of version {record.get('_VERSION')!r}; orcidx supports only "
                f"records of version {wanted}"
            )
