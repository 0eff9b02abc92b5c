"""Parses the schemas of a table, and maps the fields of a data file to the fields of the table by field id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from orcidx.errors import CorruptFile, InvalidQuery, Unsupported
from orcidx.paimon.data_types import (
    BINARIES,
    INTEGERS,
    ROOTS,
    TEXTS,
    DataField,
    DataType,
    NestedTooDeep,
    arrow_field_of,
    parse_field,
)
from orcidx.paimon.json_object import parse_json_object
from orcidx.paimon_table.metadata.option_values import parse_whole

__all__ = [
    "UNAWARE_BUCKET",
    "FieldMapping",
    "TableSchema",
    "char_lengths",
    "is_convertible",
    "map_fields",
    "parse_schema",
    "same_type",
]

KEPT_SCHEMAS, LARGEST_KEPT_SCHEMA = 16, 64 << 10
"""How many parsed schemas are kept, and the largest text of a kept schema in bytes. The text of 500 columns has 40 KB.
A parsed schema takes twenty times as much memory as its text."""
UNAWARE_BUCKET = -1
"""The value of the option ``bucket`` for an append table without buckets."""

_FLOATS = ("FLOAT", "DOUBLE")
# The JSON keys of Paimon 2.1's TableSchema, DataField and data types.
_KEYS = frozenset(
    ("version", "id", "fields", "highestFieldId", "partitionKeys", "primaryKeys", "options", "comment", "timeMillis")
)
_FIELD_KEYS = frozenset(("id", "name", "type", "description", "defaultValue"))
_TYPE_KEYS = frozenset(("type", "fields", "element", "key", "value", "length"))
_EXACT_INTEGERS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema. ``options``: the table's options with Paimon's names. ``defaults``: the texts of
    the columns' default values, which Paimon's Java writes instead of null. ``unknown``: keys of the document that
    orcidx does not know."""

    id: int
    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    defaults: Mapping[str, str] = field(default_factory=dict, hash=False)
    unknown: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, DataField]:
        """Fields by name."""
        return {field.name: field for field in self.fields}

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema without the columns in ``unsupported_columns``. Fields are nullable if the table declares
        them nullable."""
        return pa.schema([arrow_field_of(field) for field in self.fields if field.name not in self.unsupported_columns])

    @cached_property
    def unsupported_columns(self) -> dict[str, DataType]:
        """The types that orcidx cannot convert to Arrow, such as VARIANT, by the names of their columns. The other
        columns can be read."""
        return {field.name: field.type for field in self.fields if not is_convertible(field.type)}

    def check_convertible(self, columns: Sequence[str]) -> None:
        """Raises ``Unsupported`` if one of the columns cannot be read. The error names the first such column."""
        unsupported = self.unsupported_columns
        name = next((name for name in columns if name in unsupported), None)
        if name is not None:
            others = [field.name for field in self.fields if field.name not in unsupported]
            raise Unsupported(
                f"the column has the type {unsupported[name]}, which orcidx cannot read; select the other "
                f"columns by columns={others[:20]!r}{'...' if len(others) > 20 else ''}",
                column=name,
            )

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The fields of ``partition_keys``, in that order."""
        return tuple(self.by_name[name] for name in self.partition_keys)

    @property
    def key_fields(self) -> tuple[DataField, ...]:
        """The columns of the primary key that are not partition keys. Data files are sorted by these columns."""
        return tuple(self.by_name[name] for name in self.primary_keys if name not in self.partition_keys)

    @property
    def bucket_fields(self) -> tuple[DataField, ...]:
        """The columns by which rows are hashed into a fixed number of buckets."""
        if named := self.options.get("bucket-key", "").strip():
            names = [name.strip() for name in named.split(",")]
            if unknown := [name for name in names if name not in self.by_name]:
                raise CorruptFile(f"the option bucket-key contains {unknown[0]!r}, which is not a column")
            return tuple(self.by_name[name] for name in names)
        return self.key_fields

    @property
    def buckets(self) -> int:
        """The option ``bucket``: the number of buckets. It is -1 for an append table without buckets."""
        return parse_whole("bucket", self.options.get("bucket", "-1"), least=-(1 << 31))

    @property
    def moves_instants(self) -> bool:
        """Whether values of TIMESTAMP WITH LOCAL TIME ZONE in the table's ORC files depend on the zone of the JVM that
        wrote them."""
        return self.is_on("orc.timestamp-ltz.legacy.type", default=True)

    def is_on(self, option: str, *, default: bool = False) -> bool:
        """The value of a boolean option."""
        return self.options.get(option, str(default)).strip().lower() == "true"


@dataclass(frozen=True)
class FieldMapping:
    """A field of the table, and the field of a file that has the same id. ``file_field`` is None if the file was
    written before the field was added."""

    field: DataField
    file_field: DataField | None

    @property
    def is_same(self) -> bool:
        """Whether the field has the same name and type in the file and in the table. Nullability is ignored."""
        file_field = self.file_field
        return (
            file_field is not None
            and file_field.name == self.field.name
            and same_type(file_field.type, self.field.type)
        )


def parse_schema(data: bytes | memoryview) -> TableSchema:
    """Parses a schema file. A column of an unknown type is accepted (``_field``). Raises ``CorruptFile`` for a damaged
    file. Raises ``Unsupported`` in three cases: a field has no id, name or type, types are nested too deeply, or orcidx
    cannot convert the type of a partition column to Arrow. The schemas that were parsed last are cached, because a
    change reads the same schema several times, and many tables have equal schemas."""
    text = bytes(data)
    return _parsed_schema(text) if len(text) <= LARGEST_KEPT_SCHEMA else _parsed_schema.__wrapped__(text)


@lru_cache(KEPT_SCHEMAS)
def _parsed_schema(data: bytes) -> TableSchema:
    document = parse_json_object(data, "the schema")
    fields: Any = document.get("fields")
    options: Any = document.get("options", {})
    for name, value, kind in (("id", document.get("id"), int), ("fields", fields, list), ("options", options, dict)):
        if type(value) is not kind:
            raise CorruptFile(f"the schema has an invalid value of {name!r}: {value!r:.60}")
    try:
        parsed = tuple(_field(entry) for entry in fields)
    except InvalidQuery as error:
        raise Unsupported(f"schema {document['id']}: {error}") from None
    names = [entry.name for entry in parsed]
    if len(set(names)) != len(names) or len({entry.id for entry in parsed}) != len(parsed):
        raise CorruptFile("the schema has two columns with the same name or the same field id")
    known = set(names)
    keys = {part: _names(document.get(part, []), part, known) for part in ("partitionKeys", "primaryKeys")}
    if strange := [one for one in parsed if one.name in keys["partitionKeys"] and not is_convertible(one.type)]:
        raise Unsupported(f"partitions by a column of type {strange[0].type} are not supported", column=strange[0].name)
    texts = {str(name): str(value) for name, value in options.items()}
    defaults = {str(one["name"]): str(one["defaultValue"]) for one in fields if one.get("defaultValue") is not None}
    unknown = (*(key for key in document if key not in _KEYS), *_unknown_keys(fields))
    # Paimon 0.7 writes version 1, Paimon 0.8 writes version 2, and later versions of Paimon write version 3.
    if (version := document.get("version", 1)) not in (1, 2, 3):
        unknown = (f"version {version}", *unknown)
    return TableSchema(
        document["id"], parsed, keys["partitionKeys"], keys["primaryKeys"], texts, defaults, tuple(map(str, unknown))
    )


def _field(entry: Any) -> DataField:
    """Parses a field. An unknown type does not raise an error, so the table's other fields can still be read. The
    field's type then has the unknown text or keyword as its name."""
    try:
        return parse_field(entry)
    except NestedTooDeep:
        raise
    except InvalidQuery:
        if not isinstance(entry, dict) or type(entry.get("id")) is not int or not isinstance(entry.get("name"), str):
            raise
        kind = entry.get("type")
        text = kind.get("type") if isinstance(kind, dict) else kind
        if not isinstance(text, str) or not text.strip():
            raise
        words = text.strip().removesuffix("NOT NULL").strip()[:80]
        if words in ROOTS:  # for example, an ARRAY without an element type must not look like a known type
            words += " of an unknown type"
        return DataField(entry["id"], entry["name"], DataType(words, not text.rstrip().endswith("NOT NULL")))


def is_convertible(data_type: DataType) -> bool:
    """Whether orcidx can convert values of the type to Arrow."""
    try:
        return data_type.arrow_type is not None
    except Unsupported:
        return False


def _unknown_keys(value: Any) -> list[str]:
    """The unknown keys of fields and types, at any depth."""
    if isinstance(value, list):
        return [key for item in value for key in _unknown_keys(item)]
    if not isinstance(value, dict):
        return []
    known = _FIELD_KEYS if "id" in value or "name" in value else _TYPE_KEYS
    return [*(key for key in value if key not in known), *_unknown_keys(list(value.values()))]


def _names(value: Any, part: str, known: set[str]) -> tuple[str, ...]:
    if not isinstance(value, list) or any(not isinstance(name, str) or name not in known for name in value):
        raise CorruptFile(f"the schema has {part} that are not columns")
    if len(set(value)) != len(value):
        raise CorruptFile(f"the schema contains a column twice in its {part}")
    return tuple(value)


def map_fields(table: TableSchema, file: TableSchema) -> tuple[FieldMapping, ...]:
    """Maps each field of the table to the field with the same id in the schema of a file.

    Raises ``Unsupported`` if the type of a column has changed, unless the change is a safe widening. The error names
    the column.
    """
    by_id = {entry.id: entry for entry in file.fields}
    mappings = tuple(FieldMapping(entry, by_id.get(entry.id)) for entry in table.fields)
    for mapping in mappings:
        file_field = mapping.file_field
        if file_field is not None and not _widens(file_field.type, mapping.field.type):
            raise Unsupported(
                f"the column had the type {file_field.type} when the file was written and has the type "
                f"{mapping.field.type} now; orcidx cannot cast between these types",
                column=mapping.field.name,
            )
    return mappings


def same_type(a: DataType, b: DataType) -> bool:
    """Whether two types are equal apart from nullability."""
    return (
        (a.root, a.length, a.precision, a.scale) == (b.root, b.length, b.precision, b.scale)
        and len(a.children) == len(b.children)
        and all(map(same_type, a.children, b.children))
        and [(x.id, x.name) for x in a.fields] == [(y.id, y.name) for y in b.fields]
        and all(same_type(x.type, y.type) for x, y in zip(a.fields, b.fields))
    )


def char_lengths(fields: Sequence[DataField]) -> dict[tuple[str, ...], int]:
    """The declared length of each CHAR column by path. CHAR values are compared without trailing blanks."""
    found: dict[tuple[str, ...], int] = {}
    for entry in fields:
        if entry.type.root == "CHAR":
            found[entry.name,] = entry.type.length
        found.update({(entry.name, *path): length for path, length in char_lengths(entry.type.fields).items()})
    return found


def _widens(old: DataType, new: DataType) -> bool:
    """Whether every value of the type ``old`` can be stored unchanged in the type ``new``."""
    if same_type(old, new):
        return True
    for family in (INTEGERS, _FLOATS):
        if old.root in family and new.root in family:
            return family.index(old.root) <= family.index(new.root)
    for family in (TEXTS, BINARIES):
        if old.root in family and new.root in family:
            return old.length <= new.length
    if new.root == "DECIMAL" and old.root in _EXACT_INTEGERS:
        return _EXACT_INTEGERS[old.root] <= new.precision - new.scale
    if new.root == "DECIMAL" and old.root == "DECIMAL":
        return old.scale <= new.scale and old.precision - old.scale <= new.precision - new.scale
    if old.root != new.root:
        return False
    if old.root in ("TIMESTAMP", "TIMESTAMP_LTZ", "TIME"):
        return old.precision <= new.precision
    if old.root == "ROW":
        by_id = {entry.id: entry for entry in old.fields}
        return all(entry.id not in by_id or _widens(by_id[entry.id].type, entry.type) for entry in new.fields)
    return len(old.children) == len(new.children) and all(map(_widens, old.children, new.children))
