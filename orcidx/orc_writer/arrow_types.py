"""Maps each Arrow type to an ORC type, and converts its values to the form that the encoders need.

``describe_schema`` makes the tree of ``WriteNode``s. Each node has the type's record for the footer. If the encoders
need another Arrow type, the node also has the conversion. For a type that ORC does not have, the error says what to do
instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orcidx.errors import InvalidQuery, Unsupported
from orcidx.orc.kinds import TypeKind
from orcidx.orc.metadata_checks import DEEPEST_NESTING
from orcidx.orc.types import LONGEST_SIZED, MOST_VARIANTS, SIZED_TYPE, SPARK_TYPE
from orcidx.orc_writer.array_layouts import (
    decoded_dictionary,
    hides_values,
    is_plain_text,
    is_view,
    plain_layout,
    type_without_views,
)
from orcidx.orc_writer.options import WriteOptions

__all__ = ["WriteNode", "describe_schema"]

Convert = Callable[[Any], Any]
OWN_TYPE = "orcidx.type"
EXTENSION = "orcidx.extension"
"""The attribute with the name of the Arrow extension type. It is not called ``ARROW:extension:name``, because some
readers pass attributes on as field metadata. The field would then declare an extension type with the wrong storage
type, and importers would reject the field."""
_SIZED = re.compile(r"\s*(char|varchar)\s*\(\s*(\d+)\s*\)\s*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class WriteNode:
    """One column. ``id``: its ORC column id. ``type``: the Arrow type after ``convert``. ``unit``: the unit of
    timestamps."""

    kind: TypeKind
    path: tuple[str, ...]
    type: pa.DataType
    id: int = 0
    children: tuple[WriteNode, ...] = ()
    names: tuple[str, ...] = ()
    max_length: int = 0
    precision: int = 0
    scale: int = 0
    unit: str = "ns"
    nullable: bool = True
    attributes: tuple[tuple[str, str], ...] = ()
    convert: tuple[Convert, ...] = ()

    @property
    def dotted(self) -> str:
        return ".".join(self.path)

    @cached_property
    def all_nodes(self) -> list[WriteNode]:
        """This column and all columns below it, in the order of their ids. The list must not be changed."""
        nodes = [self]
        for child in self.children:
            nodes += child.all_nodes if child.children else [child]
        return nodes


def describe_schema(schema: pa.Schema, options: WriteOptions) -> WriteNode:
    """The tree of a schema. Its root is the struct of the fields. Raises ``Unsupported`` for a type that ORC does not
    have. The error names the column and the option that helps. Raises ``InvalidQuery`` if ``types=`` names a column
    that does not exist."""
    children = tuple([_laid_out(_describe(field, (field.name,), options), field.type) for field in schema])
    root = WriteNode(
        kind=TypeKind.STRUCT, path=(), type=pa.struct(list(schema)), children=children, names=tuple(schema.names)
    )
    known = {node.dotted for node in root.all_nodes} if options.types else ()
    for name in options.types:
        if name not in known:
            raise InvalidQuery(f"types= contains {name!r}, which is not a column")
    return _numbered(root, 0)


def _laid_out(node: WriteNode, type_: pa.DataType) -> WriteNode:
    return replace(node, convert=(plain_layout, *node.convert)) if hides_values(type_) else node


def _numbered(node: WriteNode, first: int) -> WriteNode:
    children = []
    at = first + 1
    for child in node.children:
        numbered = _numbered(child, at)
        children.append(numbered)
        at += len(numbered.all_nodes)
    return replace(node, id=first, children=tuple(children))


def _describe(field: pa.Field, path: tuple[str, ...], options: WriteOptions) -> WriteNode:
    if len(path) > DEEPEST_NESTING:
        raise Unsupported(
            f"types are nested deeper than {DEEPEST_NESTING} levels, which orcidx could not read; flatten the column",
            column=path[0],
        )
    metadata = field.metadata or {}
    is_ntz = pa.types.is_timestamp(field.type) and metadata.get(SPARK_TYPE.encode()) == b"timestamp_ntz"
    # Spark stores timestamp_ntz as a bigint in ORC. Spark could not read an ORC timestamp as timestamp_ntz.
    node = _of_type(field.type, path, replace(options, spark=True) if is_ntz else options)
    sized = options.types.get(".".join(path)) or metadata.get(SIZED_TYPE.encode(), b"").decode("utf-8", "replace")
    if sized:
        node = _sized(node, sized)
    attributes = {**_attributes(metadata), **dict(node.attributes)}
    return replace(node, nullable=field.nullable, attributes=tuple(sorted(attributes.items())))


def _attributes(metadata: Any) -> dict[str, str]:
    """The field metadata that is text. Entries in which other formats store their own descriptions are left out."""
    found = {}
    for key, value in metadata.items():
        try:
            name, text = key.decode(), value.decode()
        except UnicodeDecodeError:
            continue
        if not name.startswith(("PARQUET:", SIZED_TYPE, "ARROW:")):
            found[name] = text
    return found


def _sized(node: WriteNode, text: str) -> WriteNode:
    match = _SIZED.fullmatch(text)
    if node.kind is not TypeKind.STRING:
        raise InvalidQuery(
            f"column {node.dotted}: the type {text!r} can only be given for text, but the column has the type "
            f"{node.type}"
        )
    if not match or not 0 < int(match[2]) <= LONGEST_SIZED:
        raise InvalidQuery(
            f"column {node.dotted}: the type {text!r} is not supported; give char(n) or varchar(n), with n from 1 to "
            f"{LONGEST_SIZED}"
        )
    length = int(match[2])
    kind = TypeKind.CHAR if match[1].lower() == "char" else TypeKind.VARCHAR

    def fit(array: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(array.type):
            array = decoded_dictionary(array)
        longest = pc.max(pc.utf8_length(array)).as_py()
        if longest is not None and longest > length:
            raise pa.ArrowInvalid(f"a value of {longest} characters does not fit into {text}")
        return pc.utf8_rpad(array, length, " ") if kind is TypeKind.CHAR else array

    return replace(node, kind=kind, max_length=length, convert=(*node.convert, fit))


_PLAIN = {
    pa.bool_(): TypeKind.BOOLEAN,
    pa.int8(): TypeKind.BYTE,
    pa.int16(): TypeKind.SHORT,
    pa.int32(): TypeKind.INT,
    pa.int64(): TypeKind.LONG,
    pa.float32(): TypeKind.FLOAT,
    pa.float64(): TypeKind.DOUBLE,
    pa.string(): TypeKind.STRING,
    pa.large_string(): TypeKind.STRING,
    pa.binary(): TypeKind.BINARY,
    pa.large_binary(): TypeKind.BINARY,
    pa.date32(): TypeKind.DATE,
}
_CAST = {
    pa.uint8(): (pa.int16(), "uint8"),
    pa.uint16(): (pa.int32(), "uint16"),
    pa.uint32(): (pa.int64(), "uint32"),
    pa.float16(): (pa.float32(), "halffloat"),
    pa.date64(): (pa.date32(), "date64"),
}
"""Arrow types that are converted to another type without loss."""


def _of_type(type_: pa.DataType, path: tuple[str, ...], options: WriteOptions) -> WriteNode:
    types = pa.types
    if isinstance(type_, pa.BaseExtensionType):  # tested first, because extension types of users need not be hashable
        return _extension(type_, path, options)
    if type_ in _PLAIN:
        return WriteNode(kind=_PLAIN[type_], path=path, type=type_)
    if type_ in _CAST:
        target, name = _CAST[type_]
        return _cast(WriteNode(kind=_PLAIN[target], path=path, type=target), name)
    if types.is_timestamp(type_):
        return _timestamp(type_, path, options)
    if types.is_decimal(type_):
        return _decimal(type_, path)
    if types.is_fixed_size_binary(type_):
        own = ((OWN_TYPE, f"fixed_size_binary[{type_.byte_width}]"),)
        return WriteNode(kind=TypeKind.BINARY, path=path, type=type_, attributes=own)
    if types.is_dictionary(type_):
        return _dictionary(type_, path, options)
    if types.is_run_end_encoded(type_):
        inner = _of_type(type_.value_type, path, options)
        return replace(inner, convert=(plain_layout, *inner.convert))
    if types.is_nested(type_):
        return _nested(type_, path, options)
    if is_view(type_):
        target = type_without_views(type_)
        return _cast(WriteNode(kind=_PLAIN[target], path=path, type=target), None)
    return _odd(type_, path, options)


def _cast(node: WriteNode, name: str | None) -> WriteNode:
    """The node, with a cast of its arrays to its type. ``name``: the Arrow type of the arrays, if it is kept."""
    own = ((OWN_TYPE, name),) if name else ()
    return replace(node, attributes=own, convert=(lambda array: array.cast(node.type),))


def _timestamp(type_: pa.DataType, path: tuple[str, ...], options: WriteOptions) -> WriteNode:
    if options.spark and type_.tz is None:
        target = pa.timestamp("us")
        return WriteNode(
            kind=TypeKind.LONG,
            path=path,
            type=pa.int64(),
            attributes=((SPARK_TYPE, "timestamp_ntz"),),
            convert=(lambda array: array.cast(target).cast(pa.int64()),),
        )
    kind = TypeKind.TIMESTAMP if type_.tz is None or options.spark else TypeKind.TIMESTAMP_INSTANT
    own = () if type_.tz in (None, "UTC") else (("orcidx.timezone", type_.tz),)
    return WriteNode(kind=kind, path=path, type=type_, unit=type_.unit, attributes=own)


def _decimal(type_: pa.DataType, path: tuple[str, ...]) -> WriteNode:
    precision, scale = type_.precision, type_.scale
    if not 0 <= scale <= precision <= 38:
        raise Unsupported(
            f"{type_} cannot be stored in ORC, whose decimals have up to 38 digits and a scale from 0 to the "
            "precision; cast the column",
            column=".".join(path),
        )
    target = pa.decimal128(precision, scale)
    node = WriteNode(kind=TypeKind.DECIMAL, path=path, type=target, precision=precision, scale=scale)
    return node if type_ == target else _cast(node, None)


def _dictionary(type_: pa.DataType, path: tuple[str, ...], options: WriteOptions) -> WriteNode:
    inner = _of_type(type_.value_type, path, options)
    entries = type_.value_type
    if is_view(entries):
        entries = type_without_views(entries)
    if not is_plain_text(entries):
        return replace(inner, convert=(decoded_dictionary, *inner.convert))
    target = pa.dictionary(pa.int32(), entries)
    if entries != type_.value_type:
        return replace(inner, type=target, convert=(_with_plain_entries, lambda array: array.cast(target)))
    convert = () if type_.index_type == pa.int32() else (lambda array: array.cast(target),)
    return replace(inner, type=target, convert=convert)


def _with_plain_entries(array: Any) -> Any:
    return pa.DictionaryArray.from_arrays(array.indices, plain_layout(array.dictionary))


def _extension(type_: Any, path: tuple[str, ...], options: WriteOptions) -> WriteNode:
    inner = _of_type(type_.storage_type, path, options)
    own = {**dict(inner.attributes), EXTENSION: type_.extension_name}
    if type_.extension_name == "arrow.uuid":
        own["iceberg.binary-type"] = "UUID"
    return replace(
        inner, attributes=tuple(own.items()), convert=(lambda array: getattr(array, "storage", array), *inner.convert)
    )


def _nested(type_: Any, path: tuple[str, ...], options: WriteOptions) -> WriteNode:
    types = pa.types
    if types.is_struct(type_):
        fields = [type_.field(i) for i in range(type_.num_fields)]
        children = tuple(_describe(field, (*path, field.name), options) for field in fields)
        names = tuple(field.name for field in fields)
        return WriteNode(kind=TypeKind.STRUCT, path=path, type=type_, children=children, names=names)
    if types.is_map(type_):
        key = _describe(type_.key_field, (*path, "key"), options)
        value = _describe(type_.item_field, (*path, "value"), options)
        return WriteNode(kind=TypeKind.MAP, path=path, type=type_, children=(replace(key, nullable=False), value))
    if types.is_union(type_):
        if type_.num_fields > MOST_VARIANTS:
            raise Unsupported(
                f"a union has {type_.num_fields} variants, but orcidx reads at most {MOST_VARIANTS}; move some of "
                "them into a nested union",
                column=".".join(path),
            )
        children = tuple(
            replace(_describe(type_.field(i), (*path, str(i)), options), nullable=True) for i in range(type_.num_fields)
        )
        return WriteNode(kind=TypeKind.UNION, path=path, type=type_, children=children)
    return WriteNode(
        kind=TypeKind.LIST, path=path, type=type_, children=(_describe(type_.value_field, (*path, "item"), options),)
    )


def _odd(type_: pa.DataType, path: tuple[str, ...], options: WriteOptions) -> WriteNode:
    """Raises an error for types that ORC does not have, unless an option says how to write them."""
    types = pa.types
    place = ".".join(path)
    if type_ == pa.uint64():
        if options.uint64 == "decimal":
            node = WriteNode(kind=TypeKind.DECIMAL, path=path, type=pa.decimal128(20, 0), precision=20)
            return _cast(node, "uint64")
        if options.uint64 == "long":
            return _cast(WriteNode(kind=TypeKind.LONG, path=path, type=pa.int64()), "uint64")
        raise Unsupported('ORC has no uint64; pass uint64="long" or uint64="decimal"', column=place)
    if types.is_time(type_) or types.is_duration(type_):
        if options.time != "long":
            raise Unsupported(f'ORC has no {type_}; pass time="long" to write it as bigint', column=place)
        target = pa.int32() if types.is_time32(type_) else pa.int64()
        return WriteNode(
            kind=TypeKind.LONG,
            path=path,
            type=pa.int64(),
            attributes=((OWN_TYPE, str(type_)),),
            convert=(lambda array: array.cast(target).cast(pa.int64()),),
        )
    if types.is_null(type_):
        if options.null_type != "string":
            raise Unsupported(
                'ORC has no type for columns of nulls; pass null_type="string", or cast the column', column=place
            )
        return _cast(WriteNode(kind=TypeKind.STRING, path=path, type=pa.string()), "null")
    raise Unsupported(f"ORC has no type for Arrow's {type_}; cast the column", column=place)
