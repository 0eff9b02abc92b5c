"""Writes the files of the next snapshot: manifests, manifest lists, the index manifest and the snapshot's JSON.

In a manifest the entry that deletes a file comes right before the entry that adds the file again. Paimon's expiry reads
the entries in order, and identifies files only by path. If the ADD came first, the expiry would delete the data file.
"""

from __future__ import annotations

import itertools
import json
import math
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from orcidx.errors import CorruptFile
from orcidx.orc_writer.file_layout import own_identity
from orcidx.paimon.data_types import DataType
from orcidx.paimon.json_object import parse_json_object
from orcidx.paimon.registry import parse_size
from orcidx.paimon_table.avro.container_writing import write_avro
from orcidx.paimon_table.commit.table_state import (
    MANIFEST_VERSION,
    SNAPSHOT_VERSION,
    LiveFile,
    ManifestFile,
    TableState,
)
from orcidx.paimon_table.metadata.binary_row import BinaryRow, write_binary_row
from orcidx.paimon_table.metadata.manifest import DELETE
from orcidx.paimon_table.metadata.manifest_schemas import (
    INDEX_MANIFEST_SCHEMA,
    MANIFEST_LIST_SCHEMA,
    completed,
    new_codec,
)
from orcidx.paimon_table.metadata.option_values import parse_whole
from orcidx.storage.folder import Folder

__all__ = ["Candidate", "Change", "NewFile", "write_candidate"]


@dataclass(frozen=True)
class NewFile:
    """A file that the change wrote besides the manifests: its path in the table and its size."""

    path: str
    size: int


@dataclass(frozen=True)
class Change:
    """What a snapshot changes. ``replaced``: live files and their new records. ``added``: records of new data files,
    and the schema of these records. ``index_records``: all records of the new index manifest, or None if it does not
    change. ``new_files``: files that the change wrote and that the records name."""

    kind: str
    replaced: tuple[tuple[LiveFile, dict[str, Any]], ...] = ()
    added: tuple[dict[str, Any], ...] = ()
    added_schema: bytes = b""
    index_records: tuple[dict[str, Any], ...] | None = None
    new_files: tuple[NewFile, ...] = ()

    @property
    def delta_rows(self) -> int:
        """The number of rows that the change adds. Rows that deletion vectors delete are not subtracted."""
        return sum(record["_FILE"]["_ROW_COUNT"] for record in self.added)


@dataclass
class Candidate:
    """A snapshot that is not created yet: its JSON, and the files in ``manifest/`` that were written for it."""

    document: dict[str, Any]
    written: list[str] = field(default_factory=list)

    @property
    def data(self) -> bytes:
        return json.dumps(self.document, indent=2).encode()


def write_candidate(
    state: TableState, change: Change, folder: Folder, written: list[str], *, user: str, identifier: int
) -> Candidate:
    """Writes the manifests, the manifest lists and the index manifest of the next snapshot, and makes the snapshot's
    JSON. Each path is added to ``written`` before its file is written."""
    writer = _Writer(state, folder, written)
    added = [*writer.replacements(change), *writer.additions(change)]
    base = writer.merged(state.infos)
    base_name, base_size = writer.store("manifest-list", writer.list_of(base))
    delta_name, delta_size = writer.store("manifest-list", writer.list_of(added))
    previous = state.document or {}
    index_manifest = previous.get("indexManifest")
    if change.index_records is not None:
        index_manifest, _ = writer.store("index-manifest", writer.index_of(change.index_records))
    document = {
        "version": SNAPSHOT_VERSION,
        "uuid": str(uuid.uuid4()),
        "id": state.snapshot_id + 1,
        "schemaId": state.schema.id,
        "baseManifestList": base_name,
        "baseManifestListSize": base_size,
        "deltaManifestList": delta_name,
        "deltaManifestListSize": delta_size,
        "indexManifest": index_manifest,
        "commitUser": user,
        "commitIdentifier": identifier,
        "commitKind": change.kind,
        "timeMillis": max(time.time_ns() // 1_000_000, previous.get("timeMillis") or 0),
        "totalRecordCount": state.rows + change.delta_rows,
        "deltaRecordCount": change.delta_rows,
        "watermark": previous.get("watermark"),
        "statistics": _kept_statistics(state),
        "nextRowId": previous.get("nextRowId"),
        "writerVersion": own_identity().software_version.replace(" ", "-"),
    }
    return Candidate({name: value for name, value in document.items() if value is not None}, written)


def _kept_statistics(state: TableState) -> str | None:
    """The name of the table's statistics file. The result is None if there is no such file, or if the file does not
    belong to the newest schema."""
    name = (state.document or {}).get("statistics")
    if name is None:
        return None
    try:
        found = state.files.parsed(f"statistics/{name}", lambda data: parse_json_object(data, "the statistics file"))
    except FileNotFoundError as error:
        raise CorruptFile(f"the newest snapshot refers to a missing statistics file: {error}") from error
    return name if found.get("schemaId") == state.schema.id else None


class _Writer:
    """Writes the manifests of one attempt. All names of these manifests contain the same UUID."""

    def __init__(self, state: TableState, folder: Folder, written: list[str]) -> None:
        self.state = state
        self.folder = folder
        self.written = written
        self.uuid = uuid.uuid4()
        self.numbers: dict[str, Iterator[int]] = {}
        options = state.schema.options
        self.target = parse_size("manifest.target-file-size", options.get("manifest.target-file-size", "8 mb"))
        merged = options.get("manifest.merge-min-count", "30")
        self.merge_count = parse_whole("manifest.merge-min-count", merged, least=0)
        self.new_codec = new_codec(options)
        self.list_schema = MANIFEST_LIST_SCHEMA if state.list_file is None else state.list_file.schema_text
        self.partition_types = [part.type for part in state.schema.partition_fields]

    def store(self, prefix: str, data: bytes) -> tuple[str, int]:
        number = next(self.numbers.setdefault(prefix, itertools.count()))
        name = f"{prefix}-{self.uuid}-{number}"
        self.written.append(f"manifest/{name}")
        self.folder.put(f"manifest/{name}", data)
        return name, len(data)

    def list_of(self, infos: Sequence[dict[str, Any]]) -> bytes:
        codec = self.new_codec if self.state.list_file is None else self.state.list_file.codec
        return write_avro(self.list_schema, codec, infos)

    def index_of(self, records: Sequence[dict[str, Any]]) -> bytes:
        index = self.state.index
        if index is None:
            return write_avro(INDEX_MANIFEST_SCHEMA, self.new_codec, records)
        return write_avro(index.schema_text, index.codec, records)

    def replacements(self, change: Change) -> list[dict[str, Any]]:
        """Writes the manifests of the replaced files. Each manifest has the schema of the manifest from which its
        entries come, so no field is lost."""
        groups: dict[tuple[bytes, str], list[list[dict[str, Any]]]] = {}
        for old, record in change.replaced:
            pair = [{**old.record, "_KIND": DELETE}, record]
            groups.setdefault((old.schema_text, old.codec), []).append(pair)
        return [info for (schema, codec), pairs in groups.items() for info in self.manifests(schema, codec, pairs)]

    def additions(self, change: Change) -> list[dict[str, Any]]:
        newest = self.state.newest_manifest
        codec = self.new_codec if newest is None else newest.codec
        return self.manifests(change.added_schema, codec, [[record] for record in change.added])

    def manifests(self, schema: bytes, codec: str, groups: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Writes manifests of about the target size. Returns their records for the manifest list. All records of a
        group are written to the same manifest."""
        if not groups:
            return []
        records = [record for group in groups for record in group]
        data = write_avro(schema, codec, records)
        if len(data) > self.target and len(groups) > 1:
            half = len(groups) // 2
            return [*self.manifests(schema, codec, groups[:half]), *self.manifests(schema, codec, groups[half:])]
        name, size = self.store("manifest", data)
        return [self.info(name, size, records)]

    def info(self, name: str, size: int, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The record of a manifest list that describes this manifest."""
        deletes = sum(record["_KIND"] == DELETE for record in records)
        buckets = [record["_BUCKET"] for record in records]
        levels = [record["_FILE"]["_LEVEL"] for record in records]
        known = {
            "_VERSION": MANIFEST_VERSION,
            "_FILE_NAME": name,
            "_FILE_SIZE": size,
            "_NUM_ADDED_FILES": len(records) - deletes,
            "_NUM_DELETED_FILES": deletes,
            "_PARTITION_STATS": partition_stats(self.partition_types, [record["_PARTITION"] for record in records]),
            "_SCHEMA_ID": max(record["_FILE"]["_SCHEMA_ID"] for record in records),
        }
        bounds = {"_MIN_BUCKET": min(buckets), "_MAX_BUCKET": max(buckets)}
        bounds |= {"_MIN_LEVEL": min(levels), "_MAX_LEVEL": max(levels)}
        present = {name: value for name, value in bounds.items() if name.encode() in self.list_schema}
        return completed(self.list_schema, known | present)

    def merged(self, infos: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The records of the previous snapshot's manifests, for the new manifest list. A long run of small adjacent
        manifests with the same schema is written as one manifest. Otherwise small manifests would accumulate in tables
        that only orcidx changes."""
        out: list[dict[str, Any]] = []
        for (small, _, _), run in itertools.groupby(infos, key=self._mergeable):
            members = list(run)
            out += self._merged_run(members) if small and len(members) >= self.merge_count else members
        return out

    def _mergeable(self, info: dict[str, Any]) -> tuple[bool, bytes, str]:
        avro = self.state.manifests[info["_FILE_NAME"]].avro
        return info["_FILE_SIZE"] < self.target, avro.schema_text, avro.codec

    def _merged_run(self, infos: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        kept: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        manifests: list[ManifestFile] = [self.state.manifests[info["_FILE_NAME"]] for info in infos]
        for manifest in manifests:
            for entry, record in zip(manifest.entries, manifest.avro.records):
                same = kept.setdefault(entry.identity, [])
                if entry.kind == DELETE and same and same[-1]["_KIND"] != DELETE:
                    same.pop()
                else:  # a DELETE is kept if its ADD is in none of these manifests
                    same.append(record)
        avro = manifests[0].avro
        return self.manifests(avro.schema_text, avro.codec, [same for same in kept.values() if same])


def partition_stats(types: Sequence[DataType], partitions: Sequence[bytes]) -> dict[str, Any]:
    """Minima, maxima and null counts of the entries' partitions, in the form of a manifest list."""
    rows = [BinaryRow(partition).values(types) for partition in partitions]
    columns = list(zip(*rows)) if types else []
    known = [[value for value in column if value is not None] for column in columns]
    return {
        "_MIN_VALUES": write_binary_row(types, [min(values, key=_java_order, default=None) for values in known]),
        "_MAX_VALUES": write_binary_row(types, [max(values, key=_java_order, default=None) for values in known]),
        "_NULL_COUNTS": [len(rows) - len(values) for values in known],
    }


def _java_order(value: Any) -> Any:
    """A key that sorts floats as Java does: -0.0 comes before 0.0, and NaN comes last."""
    return (math.isnan(value), value, math.copysign(1, value)) if isinstance(value, float) else value
