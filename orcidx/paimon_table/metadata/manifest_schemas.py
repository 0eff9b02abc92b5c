"""The Avro schemas of manifests, for tables that have no manifest yet. The module also fills new records with the
fields that a schema requires.

The schemas are the same as in Paimon 1.4. Every release of Paimon finds the fields by their names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from orcidx.errors import CorruptFile, Unsupported
from orcidx.paimon.json_object import parse_json_object

__all__ = ["INDEX_MANIFEST_SCHEMA", "MANIFEST_LIST_SCHEMA", "MANIFEST_SCHEMA", "completed", "field_names", "new_codec"]

_NAMESPACE = "org.apache.paimon.avro.generated"
_KEPT_RECORDS, _LARGEST_KEPT_SCHEMA = 16, 16 << 10
"""For how many record types the fields are cached, and the largest size in bytes of a schema whose fields are cached. A
change makes several records of the same few types."""
_CODECS = {"zstd": "zstandard", "snappy": "snappy", "deflate": "deflate", "none": "null", "null": "null"}


def _optional(kind: Any) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The Avro schema of a record. ``fields`` maps the name of each field to the field's type, or to a pair of type and
    default."""
    written = []
    for field, kind in fields.items():
        given = kind if isinstance(kind, dict) and "default" in kind else {"type": kind}
        written.append({"name": field, **given})
    return {"type": "record", "name": name, "fields": written}


def _stats(name: str) -> dict[str, Any]:
    counts = _optional(_array(["null", "long"]))
    return _record(name, {"_MIN_VALUES": "bytes", "_MAX_VALUES": "bytes", "_NULL_COUNTS": counts})


def _file() -> dict[str, Any]:
    name = "record__FILE"
    texts = _optional(_array("string"))
    fields = {
        "_FILE_NAME": "string",
        "_FILE_SIZE": "long",
        "_ROW_COUNT": "long",
        "_MIN_KEY": "bytes",
        "_MAX_KEY": "bytes",
        "_KEY_STATS": _stats(f"{name}__KEY_STATS"),
        "_VALUE_STATS": _stats(f"{name}__VALUE_STATS"),
        "_MIN_SEQUENCE_NUMBER": "long",
        "_MAX_SEQUENCE_NUMBER": "long",
        "_SCHEMA_ID": "long",
        "_LEVEL": "int",
        "_EXTRA_FILES": _array("string"),
        "_CREATION_TIME": _optional({"type": "long", "logicalType": "timestamp-millis"}),
        "_DELETE_ROW_COUNT": _optional("long"),
        "_EMBEDDED_FILE_INDEX": _optional("bytes"),
        "_FILE_SOURCE": _optional("int"),
        "_VALUE_STATS_COLS": texts,
        "_EXTERNAL_PATH": _optional("string"),
        "_FIRST_ROW_ID": _optional("long"),
        "_WRITE_COLS": texts,
    }
    return _record(name, fields)


def _text(fields: Mapping[str, Any]) -> bytes:
    schema = _record("record", fields)
    named = {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": schema["fields"]}
    return json.dumps(named, separators=(",", ":")).encode()


_ENTRY = {"_PARTITION": "bytes", "_BUCKET": "int"}
MANIFEST_SCHEMA = _text({"_VERSION": "int", "_KIND": "int", **_ENTRY, "_TOTAL_BUCKETS": "int", "_FILE": _file()})
MANIFEST_LIST_SCHEMA = _text(
    {
        "_VERSION": "int",
        "_FILE_NAME": "string",
        "_FILE_SIZE": "long",
        "_NUM_ADDED_FILES": "long",
        "_NUM_DELETED_FILES": "long",
        "_PARTITION_STATS": _stats("record__PARTITION_STATS"),
        "_SCHEMA_ID": "long",
        **{name: _optional("int") for name in ("_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL")},
        **{name: _optional("long") for name in ("_MIN_ROW_ID", "_MAX_ROW_ID")},
    }
)
_RANGE = _record(
    "record__DELETIONS_VECTORS_RANGES", {"f0": "string", "f1": "int", "f2": "int", "_CARDINALITY": _optional("long")}
)
INDEX_MANIFEST_SCHEMA = _text(
    {
        "_VERSION": "int",
        "_KIND": "int",
        **_ENTRY,
        "_INDEX_TYPE": "string",
        "_FILE_NAME": "string",
        "_FILE_SIZE": "long",
        "_ROW_COUNT": "long",
        "_DELETIONS_VECTORS_RANGES": _optional(_array(["null", _RANGE])),
        "_EXTERNAL_PATH": _optional("string"),
    }
)


def new_codec(options: Mapping[str, str]) -> str:
    """Avro's name for the codec that the table option ``manifest.compression`` selects."""
    given = options.get("manifest.compression", "zstd").strip().lower()
    if given not in _CODECS:
        raise Unsupported(f"manifest.compression is {given!r}, but orcidx can write only {', '.join(_CODECS)}")
    return _CODECS[given]


def field_names(schema_text: bytes, *path: str) -> frozenset[str]:
    """The names of the fields of a record. ``path`` is the path to the field with this record. Without ``path``, the
    record is the schema's outermost record."""
    return frozenset(_fields(schema_text, path))


def completed(
    schema_text: bytes, record: Mapping[str, Any], *path: str, may_lose: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns a new record with exactly the fields of a schema. Fields that are not in ``record`` get the default in
    the schema.

    If the schema lacks a field of ``record``, the field is left out. ``Unsupported`` is raised in two cases: a left-out
    field has a value and is not in ``may_lose``, or a missing field has no default."""
    fields = _fields(schema_text, path)
    lost = [name for name, value in record.items() if name not in fields and value is not None and value != []]
    if lost := sorted(set(lost) - set(may_lose)):
        raise Unsupported(
            f"the table's manifests have no field {lost[0]}, which the change needs; compact the manifests with Paimon"
        )
    made: dict[str, Any] = {}
    for name, field in fields.items():
        if name in record:
            made[name] = record[name]
        elif "default" in field:
            made[name] = field["default"]
        else:
            raise Unsupported(
                f"the manifests have the field {name}, which orcidx does not know and which has no default; use "
                "Paimon in Spark or Flink to change this table"
            )
    return made


def _fields(schema_text: bytes, path: tuple[str, ...]) -> Mapping[str, dict[str, Any]]:
    """The fields of a record by name. The caller must not change the result, because it is cached."""
    return (_kept_fields if len(schema_text) <= _LARGEST_KEPT_SCHEMA else _kept_fields.__wrapped__)(schema_text, path)


@lru_cache(_KEPT_RECORDS)
def _kept_fields(schema_text: bytes, path: tuple[str, ...]) -> Mapping[str, dict[str, Any]]:
    return _fields_at(parse_json_object(schema_text, "the Avro schema"), path)


def _fields_at(schema: Any, path: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    for step in path:
        schema = _fields_at(schema, ())[step]["type"]
        schema = next((branch for branch in schema if branch != "null"), None) if isinstance(schema, list) else schema
        if isinstance(schema, dict) and schema.get("type") == "array":
            schema = schema["items"]
            schema = next((b for b in schema if b != "null"), None) if isinstance(schema, list) else schema
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise CorruptFile(f"the Avro schema has no record at {'.'.join(path) or 'its root'}")
    return {field["name"]: field for field in schema["fields"]}
