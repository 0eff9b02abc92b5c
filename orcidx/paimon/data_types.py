"""Paimon's data types. This module parses types from SQL text or from the JSON of a schema file, and converts them to
Arrow types.

A schema file has scalar types as text ("DECIMAL(10, 2) NOT NULL") and nested types as objects ({"type": "ARRAY",
"element": ...}, {"type": "MAP", "key": ..., "value": ...}, {"type": "ROW", "fields": [{"id", "name", "type"}]}). Nested
types are also accepted as text: ARRAY<INT>, MAP<STRING, INT>, MULTISET<INT>, ROW<a INT, `b c` STRING>.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from orcidx.errors import InvalidQuery, Unsupported

__all__ = [
    "ARROW_BINARIES",
    "ARROW_TEXTS",
    "BINARIES",
    "BYTE_STRINGS",
    "INTEGERS",
    "ROOTS",
    "TEXTS",
    "TIMESTAMPS",
    "DataField",
    "DataType",
    "NestedTooDeep",
    "arrow_field_of",
    "as_data_type",
    "parse_field",
    "parse_type",
]

LONGEST_TYPE = (1 << 31) - 1
"""The largest length of a type. STRING is VARCHAR with this length."""
_DEEPEST_NESTING = 100
"""The largest depth of nested types."""

# Keyword: (root, parameter names with their defaults)
_SCALARS: dict[str, tuple[str, dict[str, int]]] = {
    "BOOLEAN": ("BOOLEAN", {}),
    "TINYINT": ("TINYINT", {}),
    "SMALLINT": ("SMALLINT", {}),
    "INT": ("INT", {}),
    "INTEGER": ("INT", {}),
    "BIGINT": ("BIGINT", {}),
    "FLOAT": ("FLOAT", {}),
    "DOUBLE": ("DOUBLE", {}),
    "DECIMAL": ("DECIMAL", {"precision": 10, "scale": 0}),
    "NUMERIC": ("DECIMAL", {"precision": 10, "scale": 0}),
    "DEC": ("DECIMAL", {"precision": 10, "scale": 0}),
    "CHAR": ("CHAR", {"length": 1}),
    "VARCHAR": ("VARCHAR", {"length": 1}),
    "STRING": ("VARCHAR", {}),
    "BINARY": ("BINARY", {"length": 1}),
    "VARBINARY": ("VARBINARY", {"length": 1}),
    "BYTES": ("VARBINARY", {}),
    "DATE": ("DATE", {}),
    "TIME": ("TIME", {"precision": 0}),
    "TIMESTAMP": ("TIMESTAMP", {"precision": 6}),
    "TIMESTAMP_LTZ": ("TIMESTAMP_LTZ", {"precision": 6}),
    "VARIANT": ("VARIANT", {}),
    "BLOB": ("BLOB", {}),
}
ROOTS = frozenset({*(root for root, _ in _SCALARS.values()), "ROW", "ARRAY", "MULTISET", "MAP"})
"""The values of ``DataType.root`` for known types."""
INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
TEXTS, BINARIES = ("CHAR", "VARCHAR"), ("BINARY", "VARBINARY")
BYTE_STRINGS = (*TEXTS, *BINARIES)
TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_LTZ")
"""Values of ``DataType.root`` for some families of types."""
_LIMITS = {"length": (1, LONGEST_TYPE), "precision": (0, 38), "scale": (0, 38)}
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|`(?P<quoted>(?:[^`]|``)*)`|(?P<number>\d{1,10})|(?P<mark>[(),<>]))"
)

_ARROW: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
}
ARROW_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
ARROW_BINARIES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
"""Functions that test whether an Arrow type is a type of text, or a type of bytes."""


@dataclass(frozen=True)
class DataField:
    """A field of a table or of a ROW. ``id`` stays the same if the field is renamed or moved."""

    id: int
    name: str
    type: DataType

    def __str__(self) -> str:
        return f"`{self.name.replace('`', '``')}` {self.type}"


@dataclass(frozen=True)
class DataType:
    """``root`` is the keyword: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, CHAR, VARCHAR, BINARY,
    VARBINARY, DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, VARIANT, BLOB, ARRAY, MAP, MULTISET or ROW.

    STRING is VARCHAR with length 2147483647, and BYTES is VARBINARY with that length. ``children``: the element of an
    ARRAY or MULTISET, or the key and value of a MAP. ``fields``: the fields of a ROW. Attributes that do not apply to a
    type are 0 or empty.
    """

    root: str
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    children: tuple[DataType, ...] = ()
    fields: tuple[DataField, ...] = ()

    def __str__(self) -> str:
        text = self._text()
        return text if self.nullable else f"{text} NOT NULL"

    def _text(self) -> str:
        if self.length == LONGEST_TYPE and self.root in ("VARCHAR", "VARBINARY"):
            return "STRING" if self.root == "VARCHAR" else "BYTES"
        if self.length:
            return f"{self.root}({self.length})"
        if self.root == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.root == "TIMESTAMP_LTZ":
            return f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE"
        if self.root in ("TIME", "TIMESTAMP"):
            return f"{self.root}({self.precision})"
        if self.root == "ROW":
            return f"ROW<{', '.join(map(str, self.fields))}>"
        if self.children:
            return f"{self.root}<{', '.join(map(str, self.children))}>"
        return self.root

    def contains(self, root: str) -> bool:
        """Whether the type has this root, such as DATE, or is a nested type that contains such a type."""
        inner = (*self.children, *(field.type for field in self.fields))
        return self.root == root or any(kind.contains(root) for kind in inner)

    @property
    def has_instants(self) -> bool:
        """Whether the type is TIMESTAMP WITH LOCAL TIME ZONE, or is a nested type that contains this type."""
        return self.contains("TIMESTAMP_LTZ")

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type that can hold every value. Times of day are in ms. The unit of timestamps is s, ms, us or ns,
        depending on the precision.

        Raises ``Unsupported`` for VARIANT and BLOB.
        """
        if self.root in _ARROW:
            return _ARROW[self.root]
        if self.root == "DECIMAL":
            return pa.decimal128(self.precision, self.scale)
        if self.root in TIMESTAMPS:
            unit = ("s", "ms", "us", "ns")[(self.precision + 2) // 3]
            return pa.timestamp(unit, tz="UTC" if self.root == "TIMESTAMP_LTZ" else None)
        if self.root == "ROW":
            return pa.struct([arrow_field_of(field) for field in self.fields])
        if self.root == "ARRAY":
            return pa.list_(pa.field("item", self.children[0].arrow_type, self.children[0].nullable))
        if self.root == "MAP":
            key, value = self.children
            return pa.map_(key.arrow_type, pa.field("value", value.arrow_type, value.nullable))
        if self.root == "MULTISET":
            return pa.map_(self.children[0].arrow_type, pa.field("value", pa.int32(), False))
        raise Unsupported(f"orcidx cannot convert the type {self} to Arrow")


def arrow_field_of(field: DataField) -> pa.Field:
    """The Arrow field, with the nullability of the type."""
    return pa.field(field.name, field.type.arrow_type, field.type.nullable)


def parse_type(text: str | Mapping[str, Any]) -> DataType:
    """Parses a type from its SQL text or its JSON object. Raises ``InvalidQuery`` for an invalid type. The message
    names the invalid part."""
    return _from_json(text, _DEEPEST_NESTING)


def as_data_type(given: str | DataType) -> DataType:
    """Returns a type that is given as ``DataType`` or as its SQL text. Raises the errors of ``parse_type``."""
    return given if isinstance(given, DataType) else parse_type(given)


class NestedTooDeep(InvalidQuery):
    """Raised for a type that is nested deeper than orcidx supports."""

    def __init__(self) -> None:
        super().__init__(f"type is nested more than {_DEEPEST_NESTING} levels deep")


def _from_json(value: Any, depth: int) -> DataType:
    if depth == 0:
        raise NestedTooDeep
    if isinstance(value, str):
        return _Parser(value).whole(depth)
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise InvalidQuery(f"{value!r:.80} is not a type: give a text or a JSON object")
    root, _, suffix = value["type"].partition(" ")
    nullable = suffix.split() != ["NOT", "NULL"]
    if root == "ROW":
        if not isinstance(fields := value.get("fields"), list):
            raise InvalidQuery("the ROW type has no list of fields")
        return DataType("ROW", nullable, fields=tuple(_field_from_json(field, depth - 1) for field in fields))
    parts = {"ARRAY": ("element",), "MULTISET": ("element",), "MAP": ("key", "value")}.get(root)
    if parts is None:
        raise InvalidQuery(f"unknown nested type {root!r:.80}")
    return DataType(root, nullable, children=tuple(_from_json(value.get(part), depth - 1) for part in parts))


def _field_from_json(value: Any, depth: int) -> DataField:
    if not isinstance(value, dict) or type(value.get("id")) is not int or not isinstance(value.get("name"), str):
        raise InvalidQuery(f"{value!r:.80} is not a field with id, name and type")
    return DataField(value["id"], value["name"], _from_json(value.get("type"), depth))


def parse_field(value: object) -> DataField:
    """Parses a field from its JSON object {"id", "name", "type"}. Raises ``InvalidQuery`` for an invalid object."""
    return _field_from_json(value, _DEEPEST_NESTING)


class _Parser:
    """A recursive descent parser for the tokens of one type's text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.wrong(f"the text {text[at:].split()[0]!r:.40} is not expected")
            kind = str(match.lastgroup)
            self.tokens.append((kind, match[kind].replace("``", "`")))
            at = match.end()
        self.tokens.reverse()

    def wrong(self, what: str) -> InvalidQuery:
        return InvalidQuery(f"{self.text!r:.120} is not a known type: {what}")

    def take(self, *words: str) -> bool:
        """If the next tokens are the symbols or keywords ``words``, consumes these tokens and returns True. Otherwise
        consumes nothing and returns False."""
        ahead = [text.upper() for kind, text in reversed(self.tokens[-len(words) :]) if kind in ("mark", "name")]
        if ahead != list(words):
            return False
        del self.tokens[-len(words) :]
        return True

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise self.wrong(f"{word!r} is missing")

    def whole(self, depth: int) -> DataType:
        parsed = self.type(depth)
        if self.tokens:
            raise self.wrong(f"{self.tokens[-1][1]!r} is not expected")
        return parsed

    def type(self, depth: int) -> DataType:
        if depth == 0:
            raise NestedTooDeep
        if not self.tokens or self.tokens[-1][0] != "name":
            raise self.wrong(f"{self.tokens[-1][1]!r} is not a type" if self.tokens else "a type is missing")
        word = self.tokens.pop()[1].upper()
        if word in _SCALARS:
            parsed = self.scalar(word)
        elif word == "ROW":
            parsed = DataType("ROW", fields=self.fields(depth - 1))
        elif word in ("ARRAY", "MULTISET", "MAP"):
            self.expect("<")
            children = [self.type(depth - 1)]
            if word == "MAP":
                self.expect(",")
                children.append(self.type(depth - 1))
            self.expect(">")
            parsed = DataType(word, children=tuple(children))
        else:
            raise self.wrong(f"there is no type {word!r}")
        if self.take("NOT", "NULL"):
            return replace(parsed, nullable=False)
        self.take("NULL")
        return parsed

    def scalar(self, word: str) -> DataType:
        root, defaults = _SCALARS[word]
        values = dict(defaults)
        if defaults and self.take("("):
            for place, name in enumerate(defaults):
                if place and not self.take(","):
                    break
                values[name] = self.number(*_LIMITS[name])
            self.expect(")")
        if word in ("STRING", "BYTES"):
            values["length"] = LONGEST_TYPE
        if word == "DOUBLE":
            self.take("PRECISION")
        if root == "TIMESTAMP" and self.take("WITH", "LOCAL", "TIME", "ZONE"):
            root = "TIMESTAMP_LTZ"
        elif root in ("TIME", "TIMESTAMP"):
            self.take("WITHOUT", "TIME", "ZONE")
        if root.startswith("TIME") and values["precision"] > 9:
            raise self.wrong("the precision is above 9")
        if root == "DECIMAL" and not 1 <= values["precision"] >= values["scale"]:
            raise self.wrong("the precision must be at least 1 and at least the scale")
        return DataType(root, True, values.get("length", 0), values.get("precision", 0), values.get("scale", 0))

    def number(self, lowest: int, largest: int) -> int:
        if not self.tokens or self.tokens[-1][0] != "number":
            raise self.wrong("a number is missing")
        value = int(self.tokens.pop()[1])
        if not lowest <= value <= largest:
            raise self.wrong(f"the number {value} must be from {lowest} to {largest}")
        return value

    def fields(self, depth: int) -> tuple[DataField, ...]:
        self.expect("<")
        fields: list[DataField] = []
        while not self.take(">"):
            if fields:
                self.expect(",")
            if not self.tokens or self.tokens[-1][0] not in ("name", "quoted"):
                raise self.wrong("the name of a field is missing")
            name = self.tokens.pop()[1]
            fields.append(DataField(len(fields), name, self.type(depth)))
        return tuple(fields)
