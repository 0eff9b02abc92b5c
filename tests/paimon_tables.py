"""Writes small Paimon tables: schemas, manifests and snapshots in Paimon's format, data files as ORC or Parquet.

Tests use them for what the golden tables do not have: schema evolution, other codecs, other layouts, damage.
``fastavro`` writes the manifests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet
from binary_row_reference import binary_row

from orcidx.paimon.data_types import DataType, parse_type

STATS = {
    "type": "record",
    "fields": [
        {"name": "_MIN_VALUES", "type": "bytes"},
        {"name": "_MAX_VALUES", "type": "bytes"},
        {"name": "_NULL_COUNTS", "type": ["null", {"type": "array", "items": ["null", "long"]}]},
    ],
}


def record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


def optional(kind: Any) -> list[Any]:
    return ["null", kind]


MANIFEST_LIST = record(
    "list",
    {
        "_VERSION": "int",
        "_FILE_NAME": "string",
        "_FILE_SIZE": "long",
        "_NUM_ADDED_FILES": "long",
        "_NUM_DELETED_FILES": "long",
        "_PARTITION_STATS": {**STATS, "name": "partition_stats"},
        "_SCHEMA_ID": "long",
    },
)
FILE = record(
    "file",
    {
        "_FILE_NAME": "string",
        "_FILE_SIZE": "long",
        "_ROW_COUNT": "long",
        "_MIN_KEY": "bytes",
        "_MAX_KEY": "bytes",
        "_KEY_STATS": {**STATS, "name": "key_stats"},
        "_VALUE_STATS": {**STATS, "name": "value_stats"},
        "_MIN_SEQUENCE_NUMBER": "long",
        "_MAX_SEQUENCE_NUMBER": "long",
        "_SCHEMA_ID": "long",
        "_LEVEL": "int",
        "_EXTRA_FILES": {"type": "array", "items": "string"},
        "_CREATION_TIME": optional({"type": "long", "logicalType": "timestamp-millis"}),
        "_DELETE_ROW_COUNT": optional("long"),
        "_EMBEDDED_FILE_INDEX": optional("bytes"),
        "_VALUE_STATS_COLS": optional({"type": "array", "items": "string"}),
        "_EXTERNAL_PATH": optional("string"),
    },
)
MANIFEST = record(
    "entry",
    {
        "_VERSION": "int",
        "_KIND": "int",
        "_PARTITION": "bytes",
        "_BUCKET": "int",
        "_TOTAL_BUCKETS": "int",
        "_FILE": FILE,
    },
)
RANGE = record("range", {"f0": "string", "f1": "int", "f2": "int", "_CARDINALITY": optional("long")})
INDEX_MANIFEST = record(
    "index",
    {
        "_VERSION": "int",
        "_KIND": "int",
        "_PARTITION": "bytes",
        "_BUCKET": "int",
        "_INDEX_TYPE": "string",
        "_FILE_NAME": "string",
        "_FILE_SIZE": "long",
        "_ROW_COUNT": "long",
        "_DELETIONS_VECTORS_RANGES": optional({"type": "array", "items": optional(RANGE)}),
        "_EXTERNAL_PATH": optional("string"),
    },
)
FORMATS = {"orc": pyarrow.orc.write_table, "parquet": pyarrow.parquet.write_table}


def serialized(types: list[str], values: list[Any]) -> bytes:
    """Encodes a BinaryRow as it is stored in manifests."""
    return len(types).to_bytes(4, "big") + binary_row(types, values)


def stored(kind: DataType, value: Any) -> Any:
    """Converts a value of an Arrow column to the form that the reference BinaryRow takes."""
    if value is None or kind.root in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "VARCHAR"):
        return value
    if kind.root == "DECIMAL":
        return int(value.scaleb(kind.scale))
    if kind.root in ("DATE", "TIME"):
        return pa.scalar(value, kind.arrow_type).cast(pa.int32()).as_py()
    if kind.root == "TIMESTAMP":
        micros = pa.scalar(value, pa.timestamp("us")).value
        return micros // 1000, micros % 1000 * 1000
    return value


class PaimonTable:
    """A table under construction. ``schema`` starts a schema version, ``add`` writes a file, ``commit`` a snapshot."""

    def __init__(self, path: Path, *, codec: str = "null") -> None:
        self.path = path
        self.codec = codec
        self.entries: list[dict[str, Any]] = []
        self.fields: list[dict[str, Any]] = []
        self.partition_keys: list[str] = []
        self.deletions: list[dict[str, Any]] = []
        self.schema_id = -1
        self.snapshot_id = 0
        for part in ("schema", "snapshot", "manifest", "index"):
            (path / part).mkdir(parents=True, exist_ok=True)

    def schema(
        self,
        fields: dict[int, tuple[str, Any]],
        *,
        partition_keys: tuple[str, ...] = (),
        primary_keys: tuple[str, ...] = (),
        options: dict[str, str] | None = None,
    ) -> None:
        """Starts a schema version. ``fields``: {id: (name, type)}."""
        self.schema_id += 1
        self.fields = [{"id": key, "name": name, "type": kind} for key, (name, kind) in fields.items()]
        self.partition_keys = list(partition_keys)
        document = {
            "version": 3,
            "id": self.schema_id,
            "fields": self.fields,
            "highestFieldId": max(fields),
            "partitionKeys": list(partition_keys),
            "primaryKeys": list(primary_keys),
            "options": options or {},
        }
        (self.path / "schema" / f"schema-{self.schema_id}").write_text(json.dumps(document))

    def add(
        self,
        name: str,
        rows: pa.Table,
        *,
        directory: str = "bucket-0",
        partition: bytes | None = None,
        keys: tuple[list[str], list[Any], list[Any]] | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """Writes a data file and adds it. ``changes`` are fields of the entry, by Paimon's names. Returns the entry."""
        where = self.path / directory
        where.mkdir(parents=True, exist_ok=True)
        FORMATS[name.rpartition(".")[2]](rows, where / name)
        types = {field["name"]: field["type"] for field in self.fields}
        if partition is None:
            partition = serialized([], [])
        key_types, least, largest = keys or ([], [], [])
        file = {
            "_FILE_NAME": name,
            "_FILE_SIZE": (where / name).stat().st_size,
            "_ROW_COUNT": rows.num_rows,
            "_MIN_KEY": serialized(key_types, least),
            "_MAX_KEY": serialized(key_types, largest),
            "_KEY_STATS": self._stats(rows.select([]), {}),
            "_VALUE_STATS": self._stats(rows, types),
            "_MIN_SEQUENCE_NUMBER": 0,
            "_MAX_SEQUENCE_NUMBER": 0,
            "_SCHEMA_ID": self.schema_id,
            "_LEVEL": 0,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": 1,
            "_DELETE_ROW_COUNT": 0,
            "_EMBEDDED_FILE_INDEX": None,
            "_VALUE_STATS_COLS": None,
            "_EXTERNAL_PATH": None,
        }
        entry = {
            "_VERSION": 2,
            "_KIND": 0,
            "_PARTITION": partition,
            "_BUCKET": 0,
            "_TOTAL_BUCKETS": -1,
            "_FILE": file,
        }
        for change, value in changes.items():
            (entry if change in entry else file)[change] = value
        self.entries.append(entry)
        return entry

    def delete(self, entry: dict[str, Any]) -> None:
        self.entries.append({**entry, "_KIND": 1})

    def add_deletions(self, index_file: str, ranges: dict[str, Any], **changes: Any) -> None:
        """Adds deletion vectors. ``ranges``: the result of ``write_deletion_vectors`` for this index file."""
        entry = {
            "_VERSION": 1,
            "_KIND": 0,
            "_PARTITION": serialized([], []),
            "_BUCKET": 0,
            "_INDEX_TYPE": "DELETION_VECTORS",
            "_FILE_NAME": index_file,
            "_FILE_SIZE": 1,
            "_ROW_COUNT": len(ranges),
            "_DELETIONS_VECTORS_RANGES": [
                {"f0": name, "f1": where.offset, "f2": where.length, "_CARDINALITY": where.cardinality}
                for name, where in ranges.items()
            ],
            "_EXTERNAL_PATH": None,
        }
        self.deletions.append({**entry, **changes})

    def commit(self, partition_stats: dict[str, Any] | None = None, *, lists: int = 1) -> int:
        """Writes a snapshot of all entries so far, in ``lists`` manifests of the base list. Returns its number."""
        self.snapshot_id += 1
        empty = {"_MIN_VALUES": serialized([], []), "_MAX_VALUES": serialized([], []), "_NULL_COUNTS": []}
        manifests = []
        step = -(-len(self.entries) // lists) or 1
        for start in range(0, len(self.entries), step):
            name = f"manifest-{self.snapshot_id}-{start}"
            self._avro(name, MANIFEST, self.entries[start : start + step])
            size = (self.path / "manifest" / name).stat().st_size
            counts = {"_NUM_ADDED_FILES": 1, "_NUM_DELETED_FILES": 0}
            info = {"_VERSION": 2, "_FILE_NAME": name, "_FILE_SIZE": size, **counts}
            manifests.append({**info, "_PARTITION_STATS": partition_stats or empty, "_SCHEMA_ID": 0})
        self._avro(f"base-{self.snapshot_id}", MANIFEST_LIST, manifests)
        self._avro(f"delta-{self.snapshot_id}", MANIFEST_LIST, [])
        index = None
        if self.deletions:
            index = f"index-manifest-{self.snapshot_id}"
            self._avro(index, INDEX_MANIFEST, self.deletions)
        document = {
            "version": 3,
            "id": self.snapshot_id,
            "schemaId": self.schema_id,
            "commitKind": "APPEND",
            "baseManifestList": f"base-{self.snapshot_id}",
            "deltaManifestList": f"delta-{self.snapshot_id}",
            "indexManifest": index,
            "totalRecordCount": sum(one["_FILE"]["_ROW_COUNT"] * (-1 if one["_KIND"] else 1) for one in self.entries),
            "timeMillis": 0,
        }
        (self.path / "snapshot" / f"snapshot-{self.snapshot_id}").write_text(json.dumps(document))
        (self.path / "snapshot" / "LATEST").write_text(str(self.snapshot_id))
        return self.snapshot_id

    def _avro(self, name: str, schema: dict[str, Any], records: list[dict[str, Any]]) -> None:
        with open(self.path / "manifest" / name, "wb") as file:
            fastavro.writer(file, schema, records, codec=self.codec)

    def _stats(self, rows: pa.Table, types: dict[str, Any]) -> dict[str, Any]:
        names = [name for name in rows.column_names if name in types]
        least, largest, nulls = [], [], []
        for name in names:
            kind, column = parse_type(types[name]), rows[name]
            known = kind.root != "VARBINARY" and not pa.types.is_nested(column.type)
            ends = pc.min_max(column).as_py() if known else {"min": None, "max": None}
            least.append(stored(kind, ends["min"]))
            largest.append(stored(kind, ends["max"]))
            nulls.append(column.null_count)
        texts = [types[name] for name in names]
        return {
            "_MIN_VALUES": serialized(texts, least),
            "_MAX_VALUES": serialized(texts, largest),
            "_NULL_COUNTS": nulls,
        }
