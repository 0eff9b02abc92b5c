"""Checks a candidate snapshot before it is committed. The candidate is read back from the storage. Every file that the
candidate names must exist and have the intended contents. After a mismatch nothing is committed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from orcidx.errors import StorageError
from orcidx.paimon.deletion_vector_files import read_deletion_vector
from orcidx.paimon_table.avro.container import AvroFile, read_avro_file
from orcidx.paimon_table.commit.candidate import Candidate, Change
from orcidx.paimon_table.commit.table_state import (
    LiveFile,
    ManifestFile,
    TableState,
    live_entries,
    read_manifest_file,
)
from orcidx.paimon_table.metadata.manifest import (
    DELETE,
    DELETION_VECTORS,
    FilePlace,
    IndexEntry,
    file_entry,
    file_place,
    index_entry,
)
from orcidx.paimon_table.read.table_paths import index_path

__all__ = ["check_candidate"]


def check_candidate(state: TableState, change: Change, candidate: Candidate) -> None:
    """Raises ``StorageError`` if the storage does not have what was written. The message says what differs."""
    document = candidate.document
    lists = [_read_list(state, document, name) for name in ("baseManifestList", "deltaManifestList")]
    infos = [info for found in lists for info in found.records]
    manifests = dict(state.manifests)
    for info in infos:
        name = info["_FILE_NAME"]
        if name not in manifests:
            manifests[name] = state.files.parsed(f"manifest/{name}", read_manifest_file)
        if manifests[name].size != info["_FILE_SIZE"]:
            raise StorageError(
                f"manifest {name} does not have the {info['_FILE_SIZE']} bytes that were written; nothing is committed"
            )
    _check_order([manifests[info["_FILE_NAME"]] for info in lists[1].records])
    live, _ = live_entries([manifests[info["_FILE_NAME"]] for info in infos])
    found = {identity: file.record for identity, file in live.items()}
    if found != _expected(state, change):
        raise StorageError("the written manifests do not list the intended files; nothing is committed")
    rows = sum(file.entry.rows for file in live.values())
    if rows != document["totalRecordCount"]:
        raise StorageError(
            f"the written manifests have {rows} rows instead of {document['totalRecordCount']}; nothing is committed"
        )
    by_name = {file_place(file.entry): file for file in live.values()}
    _check_index(state, change, document, by_name)
    for new in change.new_files:
        check_size(state, new.path, new.size)


def check_size(state: TableState, path: str, size: int) -> None:
    """Raises ``StorageError`` unless the table has a file of this size at ``path``."""
    try:
        with closing(state.files.source(path).open()) as reader:
            found = reader.size()
    except FileNotFoundError:
        raise StorageError(
            f"{path} is missing: a cleaning of orphan files may have deleted it; run the change again"
        ) from None
    if found != size:
        raise StorageError(f"{path} has {found} bytes, but {size} bytes were written; nothing is committed")


def _read_list(state: TableState, document: Mapping[str, Any], name: str) -> AvroFile:
    size, found = state.files.parsed(f"manifest/{document[name]}", lambda data: (len(data), read_avro_file(data)))
    if size != document[f"{name}Size"]:
        raise StorageError(
            f"{document[name]} has {size} bytes, but {document[f'{name}Size']} bytes were written; nothing is committed"
        )
    return found


def _expected(state: TableState, change: Change) -> dict[tuple[Any, ...], dict[str, Any]]:
    wanted = {identity: file.record for identity, file in state.live.items()}
    for old, _ in change.replaced:
        del wanted[old.entry.identity]
    for record in [*(record for _, record in change.replaced), *change.added]:
        wanted[file_entry(record).identity] = record
    return wanted


def _check_order(delta: list[ManifestFile]) -> None:
    """Checks that the entry that deletes a file comes before the entry that adds the same file again. This order
    matters, because Paimon's expiry reads entries in order, and identifies files only by path."""
    for manifest in delta:
        added = set()
        for entry in manifest.entries:
            place = file_place(entry)
            if entry.kind == DELETE and place in added:
                raise StorageError(
                    f"in the manifest, the entry that adds {entry.name} comes before the entry that deletes it; "
                    "nothing is committed"
                )
            added.add(place)


def _check_index(state: TableState, change: Change, document: Mapping[str, Any], live: Mapping[Any, LiveFile]) -> None:
    if change.index_records is None:
        if document.get("indexManifest") != (state.document or {}).get("indexManifest"):
            raise StorageError(
                "the new snapshot does not refer to the index manifest of the previous snapshot; nothing is committed"
            )
        return
    index = state.files.parsed(f"manifest/{document['indexManifest']}", read_avro_file)
    if index.records != tuple(change.index_records):
        raise StorageError("the written index manifest does not have the intended records; nothing is committed")
    known = set(state.index_entries)
    covered: set[FilePlace] = set()
    for entry in map(index_entry, index.records):
        if entry.index_type != DELETION_VECTORS:
            continue
        for name, _ in entry.deletion_ranges:
            place = (entry.partition, entry.bucket, name)
            if place in covered:
                raise StorageError(f"{name} has two deletion vectors; nothing is committed")
            covered.add(place)
        if entry not in known:
            _check_vectors(state, entry, live, index_path(state.schema, entry))


def _check_vectors(state: TableState, entry: IndexEntry, live: Mapping[Any, LiveFile], path: str) -> None:
    check_size(state, path, entry.size)
    for name, where in entry.deletion_ranges:
        vector = read_deletion_vector(state.files.source(path), where.offset, where.length)
        data_file = live.get((entry.partition, entry.bucket, name))
        if data_file is None:
            raise StorageError(f"a deletion vector belongs to {name}, which is not in the table; nothing is committed")
        positions = vector.positions
        # Manifests of Paimon versions before 1.0 do not store the cardinality of a deletion vector.
        cardinality = len(vector) if where.cardinality is None else where.cardinality
        if len(vector) != cardinality or (len(positions) and int(positions[-1]) >= data_file.entry.rows):
            raise StorageError(f"the deletion vector of {name} is different when it is read back; nothing is committed")
