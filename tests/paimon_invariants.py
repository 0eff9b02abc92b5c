"""Checks what must hold for a Paimon table after every commit. It reads the files with fastavro and json only."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro


def avro(path: Path) -> tuple[Any, list[dict[str, Any]]]:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        return reader.writer_schema, list(reader)


def snapshot_numbers(folder: Path) -> list[int]:
    return sorted(int(path.name.rpartition("-")[2]) for path in (folder / "snapshot").glob("snapshot-*"))


def snapshot(folder: Path, number: int | None = None) -> dict[str, Any]:
    number = number or snapshot_numbers(folder)[-1]
    document: dict[str, Any] = json.loads((folder / "snapshot" / f"snapshot-{number}").read_text())
    return document


def identity(record: dict[str, Any]) -> tuple[Any, ...]:
    file = record["_FILE"]
    place = (record["_PARTITION"], record["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"])
    return (*place, tuple(file["_EXTRA_FILES"]), file["_EMBEDDED_FILE_INDEX"], file.get("_EXTERNAL_PATH"))


@dataclass
class Files:
    """Everything that a snapshot names."""

    document: dict[str, Any]
    live: dict[tuple[Any, ...], dict[str, Any]]
    delta: list[dict[str, Any]]
    infos: list[dict[str, Any]]
    index: list[dict[str, Any]]


def files_of(folder: Path, number: int | None = None) -> Files:
    """Reads a snapshot and checks its manifests."""
    document = snapshot(folder, number)
    manifest = folder / "manifest"
    infos: list[dict[str, Any]] = []
    for name in ("baseManifestList", "deltaManifestList"):
        path = manifest / document[name]
        assert document.get(f"{name}Size", path.stat().st_size) == path.stat().st_size
        infos += avro(path)[1]
    live: dict[tuple[Any, ...], dict[str, Any]] = {}
    dead: set[tuple[Any, ...]] = set()
    for info in infos:
        path = manifest / info["_FILE_NAME"]
        assert path.stat().st_size == info["_FILE_SIZE"]
        records = avro(path)[1]
        kinds = [record["_KIND"] for record in records]
        assert (kinds.count(0), kinds.count(1)) == (info["_NUM_ADDED_FILES"], info["_NUM_DELETED_FILES"])
        assert info["_SCHEMA_ID"] == max(record["_FILE"]["_SCHEMA_ID"] for record in records)
        _check_ranges(info, records, _partition_types(folder))
        for record in records:
            if record["_KIND"] == 1:
                dead.add(identity(record))
                live.pop(identity(record), None)
            else:
                assert identity(record) not in live
                assert identity(record) not in dead, "Paimon's scan ignores an entry that was deleted before"
                live[identity(record)] = record
    assert sum(record["_FILE"]["_ROW_COUNT"] for record in live.values()) == document["totalRecordCount"]
    _, added = avro(manifest / document["deltaManifestList"])
    delta = [record for info in added for record in avro(manifest / info["_FILE_NAME"])[1]]
    rows = sum((1 if record["_KIND"] == 0 else -1) * record["_FILE"]["_ROW_COUNT"] for record in delta)
    assert rows == document["deltaRecordCount"]
    index = avro(manifest / document["indexManifest"])[1] if document.get("indexManifest") else []
    return Files(document, live, delta, infos, index)


def _partition_types(folder: Path) -> list[str]:
    """Returns the SQL types of the partition columns in the newest schema."""
    newest = max((folder / "schema").glob("schema-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    schema = json.loads(newest.read_text())
    types = {field["name"]: field["type"] for field in schema["fields"]}
    return [types[name] for name in schema.get("partitionKeys", ())]


def _partition_values(row: bytes, types: list[str]) -> list[Any]:
    """Decodes a BinaryRow of texts and integers."""
    assert struct.unpack_from(">i", row)[0] == len(types)
    body, first = row[4:], (len(types) + 63 + 8) // 64 * 8
    values: list[Any] = []
    for i, kind in enumerate(types):
        slot = body[first + 8 * i : first + 8 * i + 8]
        if body[(i + 8) // 8] >> i % 8 & 1:
            values.append(None)
        elif kind.startswith(("STRING", "VARCHAR", "CHAR")):
            length, offset = struct.unpack("<II", slot)
            if slot[7] & 0x80:  # texts of up to seven bytes are stored in the slot
                length, offset = slot[7] & 0x7F, first + 8 * i
            values.append(body[offset : offset + length])
        else:
            form = {"TINYINT": "<b", "SMALLINT": "<h", "INT": "<i", "DATE": "<i", "BIGINT": "<q"}[kind.split()[0]]
            values.append(struct.unpack_from(form, slot)[0])
    return values


def _check_ranges(info: dict[str, Any], records: list[dict[str, Any]], types: list[str]) -> None:
    """Checks what a manifest list says about the entries of a manifest. Readers skip manifests by these facts."""
    for name, values in (
        ("BUCKET", [record["_BUCKET"] for record in records]),
        ("LEVEL", [record["_FILE"]["_LEVEL"] for record in records]),
    ):
        bounds = info.get(f"_MIN_{name}"), info.get(f"_MAX_{name}")
        assert bounds in ((None, None), (min(values), max(values)))  # Paimon before 1.1 writes no bounds
    stats, partitions = info["_PARTITION_STATS"], {record["_PARTITION"] for record in records}
    if len(partitions) == 1:  # a single partition is the minimum and the maximum
        assert {stats["_MIN_VALUES"], stats["_MAX_VALUES"]} == partitions
    columns = list(zip(*(_partition_values(record["_PARTITION"], types) for record in records))) if types else []
    known = [[value for value in column if value is not None] for column in columns]
    assert _partition_values(stats["_MIN_VALUES"], types) == [min(values, default=None) for values in known]
    assert _partition_values(stats["_MAX_VALUES"], types) == [max(values, default=None) for values in known]
    assert list(stats["_NULL_COUNTS"] or ()) == [column.count(None) for column in columns]


def check_table(folder: Path) -> Files:
    """Checks the newest snapshot of a table. If the table has partitions, their directories must not need escapes."""
    numbers = snapshot_numbers(folder)
    assert numbers == list(range(numbers[0], numbers[-1] + 1)), "snapshots have gaps"
    files = files_of(folder)
    names = {path.name: path for path in folder.rglob("*") if path.is_file() and path.parent.name.startswith("bucket-")}
    rows: dict[tuple[bytes, int, str], int] = {}
    for record in files.live.values():
        file = record["_FILE"]
        assert names[file["_FILE_NAME"]].stat().st_size == file["_FILE_SIZE"]
        sidecars = [name for name in file["_EXTRA_FILES"] if name.endswith(".index")]
        assert len(sidecars) <= 1
        assert not (sidecars and file["_EMBEDDED_FILE_INDEX"] is not None), "readers would use only the embedded index"
        for name in file["_EXTRA_FILES"]:
            assert name in names
        rows[record["_PARTITION"], record["_BUCKET"], file["_FILE_NAME"]] = file["_ROW_COUNT"]
    _check_delta_order(files.delta)
    if len(numbers) > 1:
        _check_step(folder, files_of(folder, numbers[-2]), files)
    _check_vectors(folder, files.index, rows)
    return files


def _check_step(folder: Path, before: Files, after: Files) -> None:
    """Checks the changes from one snapshot to the next."""
    gone = {identity(record) for record in after.delta if record["_KIND"] == 1}
    added = {identity(record) for record in after.delta if record["_KIND"] == 0}
    assert gone <= before.live.keys(), "an entry deletes a file that the snapshot does not have"
    assert after.live.keys() == (before.live.keys() - gone) | added
    old, new = before.document, after.document
    assert new["timeMillis"] >= old["timeMillis"]
    if old.get("watermark") is not None:
        assert new["watermark"] >= old["watermark"]
    if old.get("statistics") is not None and new["commitKind"] != "ANALYZE":
        told = json.loads((folder / "statistics" / old["statistics"]).read_text())
        kept = old["statistics"] if told["schemaId"] == new["schemaId"] else None
        assert new.get("statistics") == kept
    if not new.get("writerVersion", "").startswith("orcidx"):
        return
    assert new.get("watermark") == old.get("watermark")
    assert new.get("nextRowId") == old.get("nextRowId")
    assert new["commitKind"] in ("APPEND", "COMPACT", "OVERWRITE")
    for name in before.live.keys() & after.live.keys():
        assert after.live[name] == before.live[name], "an unchanged record must keep all fields, also unknown ones"
    kept_files = {record["_FILE_NAME"]: record for record in before.index}
    for record in after.index:
        assert kept_files.get(record["_FILE_NAME"], record) == record
    if new["commitKind"] != "OVERWRITE":
        assert new.get("indexManifest") == old.get("indexManifest"), "without this manifest, deleted rows come back"
    else:
        assert not after.delta


def _check_delta_order(delta: list[dict[str, Any]]) -> None:
    added: set[str] = set()
    for record in delta:
        if record["_KIND"] == 0:
            added.add(record["_FILE"]["_FILE_NAME"])
        else:
            assert record["_FILE"]["_FILE_NAME"] not in added, "Paimon's expiry would delete the data file"


def _check_vectors(folder: Path, index: list[dict[str, Any]], rows: dict[tuple[bytes, int, str], int]) -> None:
    covered: set[tuple[bytes, int, str]] = set()
    for record in index:
        assert record["_KIND"] == 0
        (path,) = folder.rglob(record["_FILE_NAME"])
        assert path.stat().st_size == record["_FILE_SIZE"]
        if record["_INDEX_TYPE"] != "DELETION_VECTORS":
            continue
        assert record["_DELETIONS_VECTORS_RANGES"] is not None
        assert len(record["_DELETIONS_VECTORS_RANGES"]) == record["_ROW_COUNT"]
        data = path.read_bytes()
        assert data[0] == 1
        for where in record["_DELETIONS_VECTORS_RANGES"]:
            place = (record["_PARTITION"], record["_BUCKET"], where["f0"])
            assert place not in covered, "two vectors for one file"
            covered.add(place)
            positions = vector(data, where["f1"])
            # Paimon 0.9 does not store the cardinality.
            assert len(positions) == where.get("_CARDINALITY", len(positions))
            assert not positions or max(positions) < rows[place]


def vector(data: bytes, offset: int) -> list[int]:
    """Returns the positions of the deletion vector at an offset, as another library reads them."""
    from pyroaring import BitMap, BitMap64

    (size,) = struct.unpack_from(">i", data, offset)
    body = data[offset + 4 : offset + 4 + size]
    assert zlib.crc32(body) == int.from_bytes(data[offset + 4 + size : offset + 8 + size], "big")
    if body[:4] == struct.pack(">i", 1581511376):
        return list(BitMap.deserialize(body[4:]))
    return list(BitMap64.deserialize(body[4:]))
