"""The type tree of a file: columns by path, the text form of the schema, and the Arrow types.

A path goes through struct fields by name, through lists as ``item``, and through maps as ``key`` and ``value``:
``a.b``, ``l.item.x``, ``m.value.y``. A field with the name ``a.b`` is preferred to field ``b`` of ``a``. A file whose
top-level type is not a struct is read as one column whose name is the empty string.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from orcidx.errors import CorruptFile, Unsupported
from orcidx.options import ValueOptions
from orcidx.orc.footer_records import TypeRecord
from orcidx.orc.metadata import TypeKind

__all__ = [
    "FLOAT_KINDS",
    "INTEGER_KINDS",
    "STRING_KINDS",
    "TIMESTAMP_KINDS",
    "UNNAMED",
    "OrcType",
    "Path",
    "arrow_field",
    "arrow_schema",
    "arrow_type",
    "build_tree",
    "row_bytes",
]

UNNAMED = ""
"""The name of the only column of a file whose top-level type is not a struct."""

MOST_VARIANTS = 127
"""The maximum number of variants of a union. Arrow stores type ids in a signed byte."""

LARGEST_PRECISION = 38

INTEGER_KINDS = frozenset({TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG})
FLOAT_KINDS = frozenset({TypeKind.FLOAT, TypeKind.DOUBLE})
STRING_KINDS = frozenset({TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR})
TIMESTAMP_KINDS = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT})

_REPEATING = frozenset({TypeKind.LIST, TypeKind.MAP, TypeKind.UNION})

SPARK_TYPE = "spark.sql.catalyst.type"
"""The attribute in which Spark stores the type that the column has in Spark."""

SIZED_TYPE = "orc.type"
"""A metadata key of string fields. Its value is char(n) or varchar(n), and the writer writes a column of this type."""

LONGEST_SIZED = 65535
"""The number of characters of the longest char and varchar."""

Path = tuple[str, ...]

_NAMES = {
    TypeKind.BOOLEAN: "boolean",
    TypeKind.BYTE: "tinyint",
    TypeKind.SHORT: "smallint",
    TypeKind.INT: "int",
    TypeKind.LONG: "bigint",
    TypeKind.FLOAT: "float",
    TypeKind.DOUBLE: "double",
    TypeKind.STRING: "string",
    TypeKind.BINARY: "binary",
    TypeKind.TIMESTAMP: "timestamp",
    TypeKind.LIST: "array",
    TypeKind.MAP: "map",
    TypeKind.STRUCT: "struct",
    TypeKind.UNION: "uniontype",
    TypeKind.DECIMAL: "decimal",
    TypeKind.DATE: "date",
    TypeKind.VARCHAR: "varchar",
    TypeKind.CHAR: "char",
    TypeKind.TIMESTAMP_INSTANT: "timestamp with local time zone",
    TypeKind.GEOMETRY: "geometry",
    TypeKind.GEOGRAPHY: "geography",
}

_PLAIN_NAME = re.compile(r"[a-zA-Z0-9_]+\Z")


@dataclass(frozen=True, kw_only=True)
class OrcType:
    """One column of the tree. ``id`` is the column id in the file. It is the same in a projected tree.

    ``names``: the names of struct fields, in the order of ``children``. A list has the names ("item",), and a map has
    ("key", "value"). The names in a union are the numbers of the variants, as text. ``path``: the names from the root
    to the column. ``max_length``: the length of CHAR and VARCHAR in characters.
    """

    id: int
    kind: TypeKind
    children: tuple[OrcType, ...] = ()
    names: Path = ()
    path: Path = ()
    max_length: int = 0
    precision: int = 0
    scale: int = 0
    attributes: tuple[tuple[str, str], ...] = ()
    crs: str | None = None
    edge_algorithm: int | None = None

    def child(self, place: int) -> OrcType:
        """The child at index ``place``. A wide struct creates its children on demand. This call creates only the
        requested child, and ``children`` creates all of them."""
        return self.children[place]

    def walk(self) -> Iterator[OrcType]:
        """This type and all types below it, in pre-order."""
        yield self
        for child in self.children:
            yield from child.walk()

    @cached_property
    def ids(self) -> frozenset[int]:
        """The column ids of this type and of all types below it."""
        return frozenset(node.id for node in self.walk())

    @cached_property
    def repeated_ids(self) -> frozenset[int]:
        """The column ids below a list, map or union. These columns have other numbers of rows than the file."""
        if self.kind in _REPEATING:
            return self.ids - {self.id}
        return frozenset[int]().union(*(child.repeated_ids for child in self.children))

    @cached_property
    def places(self) -> dict[str, Sequence[int]]:
        """For each name, its indexes in ``children``. A name may occur several times."""
        # A type may have many children. zip makes the dict without a Python loop over the children.
        found: dict[str, Sequence[int]] = dict(zip(self.names, zip(range(len(self.names)))))
        if len(found) == len(self.names):
            return found
        repeated: dict[str, list[int]] = {}
        for place, name in enumerate(self.names):
            repeated.setdefault(name, []).append(place)
        return dict(repeated)

    @cached_property
    def dotted(self) -> str:
        """The path as text, for messages."""
        return ".".join(self.path)

    def attribute(self, key: str) -> str | None:
        return dict(self.attributes).get(key)

    def __str__(self) -> str:
        """The type as Hive and ORC Java write it: ``struct<a:int,`odd name`:array<string>>``."""
        name = _NAMES[self.kind]
        if self.kind is TypeKind.DECIMAL:
            return f"{name}({self.precision},{self.scale})"
        if self.kind in _SIZED:
            return f"{name}({self.max_length})"
        if self.kind is TypeKind.STRUCT:
            fields = (f"{_quoted(field)}:{child}" for field, child in zip(self.names, self.children))
            return f"{name}<{','.join(fields)}>"
        if self.children:
            return f"{name}<{','.join(map(str, self.children))}>"
        return name


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.match(name) else "`" + name.replace("`", "``") + "`"


WIDE_COLUMNS = 64
"""A struct with at least this many columns creates them when they are used."""


class _WideType(OrcType):
    """A struct of many columns. Usually only a few of them are requested, so ``child`` creates single columns. After
    all columns were created, this is an ``OrcType`` like any other."""

    records: Sequence[TypeRecord]

    @property
    def children(self) -> tuple[OrcType, ...]:
        records = self.__dict__.get("records")
        if records is not None:  # None: another thread has meanwhile set ``children``
            made = _build_children(records, records[self.id], self.names, self.path)
            object.__setattr__(self, "children", tuple(made))
        found: tuple[OrcType, ...] = self.__dict__["children"]
        return found

    @children.setter
    def children(self, made: tuple[OrcType, ...]) -> None:
        self.__dict__["children"] = made
        object.__setattr__(self, "__class__", OrcType)
        self.__dict__.pop("records", None)

    def child(self, place: int) -> OrcType:
        records = self.__dict__.get("records")
        if records is None:
            return self.children[place]
        return _build(records, records[self.id].subtypes[place], (*self.path, self.names[place]))

    def __eq__(self, other: object) -> bool:
        self._become_usual()
        return self == other

    def __hash__(self) -> int:
        self._become_usual()
        return hash(self)

    def __repr__(self) -> str:
        self._become_usual()
        return repr(self)

    def _become_usual(self) -> None:
        object.__setattr__(self, "children", self.children)


def build_tree(records: Sequence[TypeRecord]) -> OrcType:
    """The tree for the list of types in a footer. ``read_tail`` has checked that the list is a tree in pre-order."""
    return _build(records, 0, ())


def _build(records: Sequence[TypeRecord], column: int, path: Path) -> OrcType:
    record = records[column]
    names = _child_names(record) if record.subtypes else ()
    node = object.__new__(OrcType if len(names) < WIDE_COLUMNS else _WideType)
    if len(names) < WIDE_COLUMNS:
        node.__dict__["children"] = tuple(_build_children(records, record, names, path)) if names else ()
    else:
        node.__dict__["records"] = records
    node.__dict__.update(  # the constructor would set each field separately: 3 ms for 1,000 columns
        id=column,
        kind=record.kind,
        names=names,
        path=path,
        max_length=record.max_length,
        precision=record.precision,
        scale=record.scale,
        attributes=record.attributes,
        crs=record.crs,
        edge_algorithm=record.edge_algorithm,
    )
    return node


_NOTHING_MORE = tuple(TypeRecord._field_defaults.values())
"""The fields after the kind, in the record of a type that has nothing but a kind."""


def _build_children(records: Sequence[TypeRecord], parent: TypeRecord, names: Path, path: Path) -> list[OrcType]:
    """The children of a type. In a wide file, most columns have a kind and no other properties. Such a column is
    created directly in this function. Otherwise a call and a comparison for each column would take half of the time
    that the first opening of a file takes (decision 0055)."""
    new, put = object.__new__, object.__setattr__
    plain: dict[int, TypeKind] = {}  # the keys are ids of records; equal records are one object
    made = []
    for child, name in zip(parent.subtypes, names):
        record = records[child]
        kind = plain.get(id(record))
        if kind is None and record[1:] == _NOTHING_MORE:
            kind = plain[id(record)] = record.kind
        if kind is None:
            made.append(_build(records, child, (*path, name)))
            continue
        node = new(OrcType)  # other fields have the defaults of the class
        put(node, "__dict__", {"id": child, "kind": kind, "path": (*path, name)})
        made.append(node)
    return made


def _child_names(record: TypeRecord) -> Path:
    if record.kind is TypeKind.STRUCT:
        return record.field_names
    if record.kind is TypeKind.LIST:
        return ("item",)
    if record.kind is TypeKind.MAP:
        return ("key", "value")
    return tuple(str(variant) for variant in range(len(record.subtypes)))


# Arrow types

_ROW_BYTES: dict[TypeKind, float] = {
    TypeKind.BOOLEAN: 1 / 8,
    TypeKind.BYTE: 1,
    TypeKind.SHORT: 2,
    TypeKind.INT: 4,
    TypeKind.LONG: 8,
    TypeKind.FLOAT: 4,
    TypeKind.DOUBLE: 8,
    TypeKind.DATE: 4,
    TypeKind.TIMESTAMP: 8,
    TypeKind.TIMESTAMP_INSTANT: 8,
    TypeKind.DECIMAL: 16,
}


def row_bytes(node: OrcType) -> float | None:
    """The number of bytes that one row of the column takes in Arrow, without its null bit. None if it depends on the
    values."""
    if node.kind is not TypeKind.STRUCT:
        return _ROW_BYTES.get(node.kind)
    below = [row_bytes(child) for child in node.children]
    return None if None in below else sum(size for size in below if size is not None)


def arrow_schema(root: OrcType, options: ValueOptions, *, dictionaries: Collection[int] = ()) -> pa.Schema:
    """The Arrow schema of a (projected) tree. See ``arrow_type``."""
    if root.kind is not TypeKind.STRUCT:
        return pa.schema([arrow_field(UNNAMED, root, arrow_type(root, options, dictionaries=dictionaries))])
    return pa.schema(
        [
            arrow_field(name, child, arrow_type(child, options, dictionaries=dictionaries))
            for name, child in zip(root.names, root.children)
        ]
    )


def arrow_field(name: str, node: OrcType, kind: pa.DataType, *, nullable: bool = True) -> pa.Field:
    """The field of a column. Its metadata are the column's attributes, as in pyarrow's ORC reader, and the length of
    CHAR and VARCHAR. So data that is read and written again keeps the attributes and the lengths. Attributes whose
    names begin with ``ARROW:`` are left out, because they describe an Arrow type that the values from ORC do not
    have."""
    if not node.attributes and node.kind not in _SIZED:
        return pa.field(name, kind, nullable)
    metadata = {key: value for key, value in node.attributes if not key.startswith(("ARROW:", SIZED_TYPE))}
    if node.kind in _SIZED and 0 < node.max_length <= LONGEST_SIZED:
        metadata[SIZED_TYPE] = f"{_NAMES[node.kind]}({node.max_length})"
    return pa.field(name, kind, nullable, metadata or None)


_SIZED = frozenset({TypeKind.CHAR, TypeKind.VARCHAR})


def arrow_type(node: OrcType, options: ValueOptions, *, dictionaries: Collection[int] = ()) -> pa.DataType:
    """The Arrow type in which a column is read.

    ``dictionaries``: ids of the string columns that are dictionary-encoded in every stripe, as the stripe footers show.
    If ``options.strings`` requests it, these columns are read as dictionaries with int32 indexes. Unions are sparse, as
    in pyarrow's ORC reader. Raises ``CorruptFile`` for impossible decimals, and ``Unsupported`` for a union with more
    variants than Arrow has type ids.
    """
    if node.kind in _SIMPLE:
        return _SIMPLE[node.kind]
    if node.kind is TypeKind.LONG:
        return pa.timestamp("us") if reads_as_timestamp(node, options) else pa.int64()
    if node.kind in STRING_KINDS:
        return _string_type(node, options, dictionaries)
    if node.kind is TypeKind.TIMESTAMP:
        return pa.timestamp(options.timestamp_unit, tz=None if options.wall_clock_zone is None else "UTC")
    if node.kind is TypeKind.TIMESTAMP_INSTANT:
        return pa.timestamp(options.timestamp_unit, tz="UTC")
    if node.kind is TypeKind.DECIMAL:
        return pa.decimal128(*decimal_digits(node, options))
    children = [arrow_type(child, options, dictionaries=dictionaries) for child in node.children]
    if node.kind is TypeKind.STRUCT:
        return struct_type(node, children)
    if node.kind is TypeKind.LIST:
        return list_type(node, children)
    if node.kind is TypeKind.MAP:
        return map_type(node, children)
    if len(children) > MOST_VARIANTS:
        raise Unsupported(
            f"a union has {len(children)} variants, but an Arrow union has at most {MOST_VARIANTS}", column=node.dotted
        )
    return union_type(node, children)


def struct_type(node: OrcType, children: Sequence[pa.DataType]) -> pa.DataType:
    """The Arrow type of a STRUCT column whose children have these types."""
    return pa.struct([arrow_field(*one) for one in zip(node.names, node.children, children)])


def list_type(node: OrcType, children: Sequence[pa.DataType]) -> pa.DataType:
    """The Arrow type of a LIST column whose items have the type ``children[0]``."""
    return pa.list_(arrow_field("item", node.children[0], children[0]))


def map_type(node: OrcType, children: Sequence[pa.DataType]) -> pa.DataType:
    """The Arrow type of a MAP column. ``children``: the types of its keys and of its values."""
    key, value = node.children
    return pa.map_(arrow_field("key", key, children[0], nullable=False), arrow_field("value", value, children[1]))


def union_type(node: OrcType, children: Sequence[pa.DataType]) -> pa.DataType:
    """The Arrow type of a UNION column whose variants have these types. The Arrow union is sparse."""
    pairs = zip(node.children, children)
    return pa.sparse_union([arrow_field(f"_union_{number}", *pair) for number, pair in enumerate(pairs)])


_SIMPLE = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.BYTE: pa.int8(),
    TypeKind.SHORT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.DATE: pa.date32(),
    TypeKind.GEOMETRY: pa.binary(),
    TypeKind.GEOGRAPHY: pa.binary(),
}


def reads_as_timestamp(node: OrcType, options: ValueOptions) -> bool:
    """Whether a bigint contains microseconds of a timestamp without a zone. Spark writes TIMESTAMP_NTZ in this way."""
    if node.kind is not TypeKind.LONG or not node.attributes or not options.timestamp_ntz:
        return False
    return node.attribute(SPARK_TYPE) == "timestamp_ntz"


def decimal_digits(node: OrcType, options: ValueOptions) -> tuple[int, int]:
    """Precision and scale in which a decimal column is read. Raises ``CorruptFile`` for an impossible precision or
    scale."""
    if node.precision == 0:
        return options.decimal_zero_precision
    if node.precision > LARGEST_PRECISION or node.scale > node.precision:
        raise CorruptFile(
            f"decimal({node.precision},{node.scale}) is impossible: the precision must be at most {LARGEST_PRECISION}, "
            "and the scale at most the precision",
            column=node.dotted,
        )
    return node.precision, node.scale


def _string_type(node: OrcType, options: ValueOptions, dictionaries: Collection[int]) -> pa.DataType:
    if options.strings == "view":
        return pa.string_view()
    if options.strings == "dictionary" and node.id in dictionaries:
        return pa.dictionary(pa.int32(), pa.string())
    return pa.string()
