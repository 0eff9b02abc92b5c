"""Converts ORC's and Paimon's types to Spark's types, without pyspark. The results are the JSON of Spark's schemas, or
Arrow schemas as Spark uses them.

The types are the same as in ``spark.read.orc``. TIMESTAMP is an instant. A bigint that Spark wrote from a timestamp_ntz
is read as a timestamp_ntz. CHAR and VARCHAR are strings. Every column may contain nulls."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.orc.kinds import TypeKind
from orcidx.orc.types import SPARK_TYPE, OrcType
from orcidx.paimon.data_types import DataField, DataType
from orcidx.paimon_table.metadata.schema import char_lengths
from orcidx.spark.types.argument_types import Schema

__all__ = [
    "CHAR_TYPE",
    "DEFAULT",
    "NESTED_CHAR",
    "ORC_NAMES",
    "PAIMON_NAMES",
    "arrow_schema_of",
    "collated",
    "field_json",
    "field_of_orc",
    "json_of_orc",
    "json_of_paimon",
    "json_of_schema",
    "stored_schema",
    "struct_json",
    "struct_of_paimon",
    "width_of",
    "with_defaults",
]

Json = Any
"""A type in the form of Spark's schemas: a name, or an object."""

ORC_NAMES = {
    TypeKind.BOOLEAN: "boolean",
    TypeKind.BYTE: "byte",
    TypeKind.SHORT: "short",
    TypeKind.INT: "integer",
    TypeKind.LONG: "long",
    TypeKind.FLOAT: "float",
    TypeKind.DOUBLE: "double",
    TypeKind.STRING: "string",
    TypeKind.CHAR: "string",
    TypeKind.VARCHAR: "string",
    TypeKind.BINARY: "binary",
    TypeKind.DATE: "date",
    TypeKind.TIMESTAMP: "timestamp",
    TypeKind.TIMESTAMP_INSTANT: "timestamp",
}
"""Spark's names of those ORC types that have a fixed name in Spark."""
PAIMON_NAMES = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "DATE": "date",
    "TIME": "integer",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP_LTZ": "timestamp",
}
"""Spark's names of those Paimon types that have a fixed name in Spark."""
_ARROW = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_WIDTHS = {
    "boolean": 1,
    "byte": 1,
    "short": 2,
    "integer": 4,
    "float": 4,
    "date": 4,
    "string": 20,
    "binary": 100,
    "void": 1,
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_TEXT = re.compile(r"(?:char|varchar)\(\d+\)|string collate \w+")
_DAY_TIME = re.compile(r"interval (?:day|hour|minute|second)(?: to (?:hour|minute|second))?")
CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
NESTED_CHAR = "orcidx.nested_char"
DEFAULT = "EXISTS_DEFAULT"
_ATTRIBUTES = ("timestamp_ntz", "interval ")


# ---------------------------------------------------------------------- to Spark


def field_json(name: str, kind: Json, char_type: str | None = None) -> Json:
    """A field of a Spark schema. ``char_type``: the type of the field as text, if the type contains a CHAR or VARCHAR.
    With this text in the schema, Spark compares the field's values as if they were padded (``CharVarcharUtils``)."""
    metadata = {} if char_type is None else {CHAR_TYPE: char_type}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def struct_json(fields: Sequence[tuple[str, Json]]) -> Json:
    """Makes a struct type. ``fields`` has the name and type of each field."""
    return {"type": "struct", "fields": [field_json(name, kind) for name, kind in fields]}


def _array_json(element: Json) -> Json:
    return {"type": "array", "elementType": element, "containsNull": True}


def _map_json(key: Json, value: Json) -> Json:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def field_of_orc(name: str, node: OrcType, *, zero_precision: tuple[int, int]) -> Json:
    """The field of a column. Raises ``Unsupported`` if Spark does not have the type of the column, or does not accept
    it from Python."""
    kind = json_of_orc(node, zero_precision=zero_precision)
    _arrow_type(kind, name)
    has_chars = any(one.kind in (TypeKind.CHAR, TypeKind.VARCHAR) for one in node.walk())
    return field_json(name, kind, str(node) if has_chars else None)


def json_of_orc(node: OrcType, *, zero_precision: tuple[int, int]) -> Json:
    """A column's type. Raises ``Unsupported`` for a UNION, because Spark has no such type."""
    attribute = node.attribute(SPARK_TYPE)
    if attribute is not None and attribute.startswith(_ATTRIBUTES) and not node.children:
        return attribute
    if node.kind in ORC_NAMES:
        return ORC_NAMES[node.kind]
    if node.kind is TypeKind.DECIMAL:
        precision, scale = (node.precision, node.scale) if node.precision else zero_precision
        return f"decimal({precision},{scale})"
    children = [json_of_orc(child, zero_precision=zero_precision) for child in node.children]
    if node.kind is TypeKind.STRUCT:
        return struct_json(list(zip(node.names, children)))
    if node.kind is TypeKind.LIST:
        return _array_json(children[0])
    if node.kind is TypeKind.MAP:
        return _map_json(children[0], children[1])
    raise Unsupported(
        f"Spark has no type for {node.kind.name.lower()}; select the other columns with columns=", column=node.dotted
    )


def json_of_paimon(field: DataField) -> Json:
    """A column's type, as in Paimon's own Spark connector. A TIME becomes the milliseconds of the day.

    Raises ``Unsupported`` for VARIANT and BLOB.
    """
    return _of_paimon(field.type, field.name)


def struct_of_paimon(fields: Sequence[DataField]) -> Json:
    """The columns whose types exist in Spark. CHAR columns are marked, so Spark compares their values as if they were
    padded."""
    found = []
    for one in fields:
        with contextlib.suppress(Unsupported):
            lengths = char_lengths([one])
            char = f"char({lengths[one.name,]})" if (one.name,) in lengths else None
            found.append(field_json(one.name, json_of_paimon(one), char))
            if any(len(path) > 1 for path in lengths):
                found[-1]["metadata"] = {NESTED_CHAR: "true"}
    return {"type": "struct", "fields": found}


def _of_paimon(kind: DataType, column: str) -> Json:
    if kind.root in PAIMON_NAMES:
        return PAIMON_NAMES[kind.root]
    if kind.root == "DECIMAL":
        return f"decimal({kind.precision},{kind.scale})"
    if kind.root == "ROW":
        return struct_json([(field.name, _of_paimon(field.type, column)) for field in kind.fields])
    children = [_of_paimon(child, column) for child in kind.children]
    if kind.root == "ARRAY":
        return _array_json(children[0])
    if kind.root in ("MAP", "MULTISET"):
        return _map_json(children[0], children[1] if kind.root == "MAP" else "integer")
    raise Unsupported(f"Spark has no type for {kind}; select the other columns with columns=", column=column)


def collated(schema: Schema | None) -> frozenset[str]:
    """The text columns of a ``StructType`` that have a collation. With a collation, texts with different bytes may be
    equal. CHAR columns have no collation."""
    kinds = {one.name: one.dataType for one in getattr(schema, "fields", ())}
    return frozenset(name for name, kind in kinds.items() if getattr(kind, "collation", "UTF8_BINARY") != "UTF8_BINARY")


def with_defaults(schema: Schema | None) -> frozenset[str]:
    """The columns of a ``StructType`` to which Spark gives a default value if a file lacks them."""
    if isinstance(schema, Mapping):
        return frozenset(one["name"] for one in schema["fields"] if DEFAULT in (one.get("metadata") or {}))
    return frozenset(one.name for one in getattr(schema, "fields", ()) if DEFAULT in one.metadata)


def json_of_schema(schema: Schema) -> Json:
    """The JSON of a schema that a caller gave: pyspark's ``StructType``, Spark's JSON of a schema, or a pyarrow schema.

    Raises ``InvalidQuery`` for anything else.
    """
    if isinstance(schema, pa.Schema):
        return struct_json([(field.name, _of_arrow(field.type, field.name)) for field in schema])
    if isinstance(schema, Mapping):
        return _nullable(schema)
    if hasattr(schema, "jsonValue") and hasattr(schema, "fields"):
        return _nullable(schema.jsonValue())
    raise InvalidQuery(f"schema={schema!r:.80} is neither a StructType of pyspark nor a pyarrow schema")


def _nullable(kind: Json) -> Json:
    """Returns the type with nulls allowed at every level, because Spark assumes that every file may contain nulls."""
    if not isinstance(kind, Mapping):
        return kind
    nullable = {name: True for name in ("nullable", "containsNull", "valueContainsNull") if name in kind}
    if "fields" in kind:
        return {**kind, "fields": [_nullable(one) for one in kind["fields"]]}
    below = {name: _nullable(kind[name]) for name in ("type", "elementType", "keyType", "valueType") if name in kind}
    return {**kind, **below, **nullable}


def _of_arrow(kind: pa.DataType, column: str) -> Json:
    for name, arrow in _ARROW.items():
        if kind == arrow:
            return name
    types = pa.types
    if types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if types.is_large_string(kind) or types.is_string_view(kind):
        return "string"
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return "binary"
    if types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_list(kind) or types.is_large_list(kind):
        return _array_json(_of_arrow(kind.value_type, column))
    if types.is_map(kind):
        return _map_json(_of_arrow(kind.key_type, column), _of_arrow(kind.item_type, column))
    if types.is_struct(kind):
        return struct_json([(field.name, _of_arrow(field.type, column)) for field in kind])
    raise InvalidQuery(f"Spark has no type for Arrow's {kind}; cast the column", column=column)


# ---------------------------------------------------------------------- sizes


def width_of(kind: Json) -> int:
    """The number of bytes that Catalyst assumes for a value of a type by default (``DataType.defaultSize``)."""
    if isinstance(kind, str):
        if match := _DECIMAL.fullmatch(kind):
            return 8 if int(match[1]) <= 18 else 16
        return _WIDTHS.get(kind, 20 if _TEXT.fullmatch(kind) else 8)
    if kind["type"] == "struct":
        return sum(width_of(field["type"]) for field in kind["fields"])
    inner = [kind[name] for name in ("elementType", "keyType", "valueType", "sqlType") if name in kind]
    return sum(width_of(one) for one in inner)


# ---------------------------------------------------------------------- to Arrow


def arrow_schema_of(schema: Json) -> pa.Schema:
    """The Arrow schema that Spark expects for batches of a schema. Raises ``Unsupported`` for a type that has no Arrow
    type."""
    return pa.schema([(field["name"], _arrow_type(field["type"], field["name"])) for field in schema["fields"]])


def _arrow_type(kind: Json, column: str) -> pa.DataType:
    if isinstance(kind, str):
        if kind in _ARROW:
            return _ARROW[kind]
        if match := _DECIMAL.fullmatch(kind):
            return pa.decimal128(int(match[1]), int(match[2]))
        if kind == "decimal":
            return pa.decimal128(10, 0)
        if _TEXT.fullmatch(kind):
            return pa.string()
        if _DAY_TIME.fullmatch(kind):
            return pa.duration("us")
        raise Unsupported(
            f"Spark does not accept values of type {kind!r} from Python; select the other columns with columns=, or "
            "give another schema=",
            column=column,
        )
    if kind["type"] == "array":
        return pa.list_(pa.field("element", _arrow_type(kind["elementType"], column)))
    if kind["type"] == "map":
        key = pa.field("key", _arrow_type(kind["keyType"], column), nullable=False)
        return pa.map_(key, pa.field("value", _arrow_type(kind["valueType"], column)))
    if kind["type"] == "struct":
        return pa.struct([(field["name"], _arrow_type(field["type"], column)) for field in kind["fields"]])
    return _arrow_type(kind["sqlType"], column)  # a user-defined type


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Spark's Arrow schema with the types that ORC stores. Intervals become numbers."""
    return pa.schema([field.with_type(_stored(field.type)) for field in schema])


def _stored(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_duration(kind):
        return pa.int64()
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_stored(kind.value_type)))
    if types.is_map(kind):
        key, value = (field.with_type(_stored(field.type)) for field in (kind.key_field, kind.item_field))
        return pa.map_(key, value)
    if types.is_struct(kind):
        return pa.struct([field.with_type(_stored(field.type)) for field in kind])
    return kind
