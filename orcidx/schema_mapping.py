"""One file's schema onto the wanted one: which file column, constant or null stands for each wanted column.

Columns are matched by name, by position or by field id; a column that the file lacks reads as nulls; values are widened
where no value can be lost, and anything else is an error that names the column and both types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from orcidx.errors import InvalidQuery, located
from orcidx.options import ReadOptions
from orcidx.orc.types import OrcType, arrow_schema, arrow_type, project

__all__ = ["FieldSource", "MappedColumns", "map_columns", "widen"]

FIELD_ID_KEYS = ("iceberg.id", "paimon.id")
"""Type attributes that carry a column's field id."""


@dataclass(frozen=True)
class FieldSource:
    """Where a wanted column comes from: ``column`` of the file, or, when that is None, the constant ``value``."""

    field: pa.Field
    column: OrcType | None = None
    value: Any = None


@dataclass(frozen=True)
class MappedColumns:
    """``fields`` in output order; ``schema`` of the output."""

    fields: tuple[FieldSource, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([source.field for source in self.fields])


def map_columns(
    root: OrcType,
    columns: Sequence[str | Sequence[str]] | None,
    *,
    options: ReadOptions,
    wanted: pa.Schema | None = None,
    match: Literal["name", "position", "field_id"] = "name",
    constants: Mapping[str, Any] | None = None,
    dictionaries: frozenset[int] = frozenset(),
) -> MappedColumns:
    """Maps a file onto the wanted schema (its own when ``wanted`` is None), restricted to ``columns``.

    ``constants``: columns that have one value in the whole file, by name: scalars. Raises ``InvalidQuery`` for a column
    that does not exist, and for a type that does not widen to the wanted one.
    """
    constants = constants or {}
    if wanted is not None:
        return _map_wanted(root, columns, wanted, match, constants, options, dictionaries)
    named = None if columns is None else [path for path in columns if path not in constants]
    tree = project(root, named, case_sensitive=options.case_sensitive).root
    schema = arrow_schema(tree, options, dictionaries=dictionaries)
    children = tree.children if tree.path == () and tree.kind.name == "STRUCT" else (tree,)
    sources = [FieldSource(field, child) for field, child in zip(schema, children, strict=True)]
    fixed = {name: FieldSource(pa.field(name, _scalar_type(value)), None, value) for name, value in constants.items()}
    if columns is None:
        return MappedColumns((*sources, *fixed.values()))
    order = [path if isinstance(path, str) else ".".join(path) for path in columns]
    found = iter(sources)
    placed = [fixed[name] if name in fixed else next(found, None) for name in order]
    return MappedColumns(tuple([source for source in placed if source is not None] + list(found)))


def _scalar_type(value: Any) -> pa.DataType:
    return value.type if isinstance(value, pa.Scalar) else pa.scalar(value).type


def _map_wanted(
    root: OrcType,
    columns: Sequence[str | Sequence[str]] | None,
    wanted: pa.Schema,
    match: str,
    constants: Mapping[str, Any],
    options: ReadOptions,
    dictionaries: frozenset[int],
) -> MappedColumns:
    places = _children_by_key(root, match, options)
    sources = []
    for position, field in _chosen(wanted, columns, options):
        if field.name in constants:
            sources.append(FieldSource(field, None, constants[field.name]))
            continue
        child = places.get(_key(field, position, match, options))
        if child is not None:
            with located(column=field.name):
                check_widening(arrow_type(child, options, dictionaries=dictionaries), field.type, field.name)
        sources.append(FieldSource(field, child))
    return MappedColumns(tuple(sources))


def _chosen(
    wanted: pa.Schema, columns: Sequence[str | Sequence[str]] | None, options: ReadOptions
) -> list[tuple[int, pa.Field]]:
    if columns is None:
        return list(enumerate(wanted))
    chosen = []
    for path in columns:
        name = path if isinstance(path, str) else ".".join(path)
        matches = [
            (position, field)
            for position, field in enumerate(wanted)
            if field.name == name or (not options.case_sensitive and field.name.casefold() == name.casefold())
        ]
        if not matches:
            raise InvalidQuery(f"no column {name!r} in the wanted schema; its columns are {', '.join(wanted.names)}")
        chosen.append(matches[0])
    return chosen


def _children_by_key(root: OrcType, match: str, options: ReadOptions) -> dict[Any, OrcType]:
    if match == "position":
        return dict(enumerate(root.children))
    if match == "field_id":
        return {key: child for child in root.children if (key := field_id_of(child)) is not None}
    found: dict[Any, OrcType] = {}
    for name, child in zip(root.names, root.children):
        found.setdefault(name if options.case_sensitive else name.casefold(), child)
    return found


def field_id_of(column: OrcType) -> int | None:
    """The field id that a table format stored as a type attribute, or None."""
    for key in FIELD_ID_KEYS:
        if (text := column.attribute(key)) is not None and text.lstrip("-").isdigit():
            return int(text)
    return None


def _key(field: pa.Field, position: int, match: str, options: ReadOptions) -> Any:
    if match == "position":
        return position
    if match == "field_id":
        metadata = field.metadata or {}
        raw = metadata.get(b"PARQUET:field_id") or metadata.get(b"field_id")
        if raw is None:
            raise InvalidQuery(f"column {field.name!r} of the wanted schema has no field id in its metadata")
        return int(raw)
    return field.name if options.case_sensitive else field.name.casefold()


_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def check_widening(have: pa.DataType, want: pa.DataType, name: str) -> None:
    """Raises ``InvalidQuery`` unless every value of ``have`` is a value of ``want``."""
    if not _widens(have, want):
        raise InvalidQuery(
            f"column {name!r} is {have} in the file, which does not widen to {want} without losing values; "
            "read it with its own type and cast the result"
        )


def _widens(have: pa.DataType, want: pa.DataType) -> bool:
    types = pa.types
    if have == want or types.is_null(have):
        return True
    if types.is_dictionary(have):
        return _widens(have.value_type, want)
    if types.is_signed_integer(have):
        if types.is_signed_integer(want):
            return bool(want.bit_width >= have.bit_width)
        if types.is_floating(want):
            return bool(have.bit_width <= {32: 16, 64: 32}.get(want.bit_width, 0))
        if types.is_decimal(want):
            return bool(want.precision - want.scale >= _INTEGER_DIGITS[have.bit_width])
        return False
    if types.is_float32(have):
        return bool(types.is_float64(want))
    if types.is_decimal(have) and types.is_decimal(want):
        return bool(want.scale >= have.scale and want.precision - want.scale >= have.precision - have.scale)
    if _is_text(have):
        return _is_text(want)
    if types.is_binary(have):
        return bool(types.is_large_binary(want))
    if types.is_timestamp(have) and types.is_timestamp(want):
        return (have.tz is None) == (want.tz is None)
    return _nested_widens(have, want)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _nested_widens(have: pa.DataType, want: pa.DataType) -> bool:
    types = pa.types
    if types.is_list(have):
        return bool(types.is_list(want) or types.is_large_list(want)) and _widens(have.value_type, want.value_type)
    if types.is_map(have) and types.is_map(want):
        return _widens(have.key_type, want.key_type) and _widens(have.item_type, want.item_type)
    if types.is_struct(have) and types.is_struct(want):
        names = {have.field(i).name: have.field(i).type for i in range(have.num_fields)}
        return all(
            field.name not in names or _widens(names[field.name], field.type)
            for field in (want.field(i) for i in range(want.num_fields))
        )
    return False


def widen(array: pa.Array, want: pa.DataType) -> pa.Array:
    """The array in the wanted type; the pair has passed ``check_widening``. Missing struct fields become nulls."""
    if array.type == want:
        return array
    if pa.types.is_struct(want) and pa.types.is_struct(array.type):
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        children = []
        for i in range(want.num_fields):
            field = want.field(i)
            if field.name in names:
                children.append(widen(array.field(names.index(field.name)), field.type))
            else:
                children.append(pa.nulls(len(array), field.type))
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=[want.field(i) for i in range(want.num_fields)], mask=mask)
    return array.cast(want)
